/**
 * Numbers that look random and depend on a seed only: SplitMix64, bit for bit what {@code crates/lab/src/numbers.rs} gives, so that a
 * client in Java makes the same requests and knows the same values.
 */
final class Numbers {
    private long state;

    Numbers(long seed) {
        state = seed;
    }

    /** The sequence of one part of something that has a seed: a thread of a repetition, say. */
    static Numbers of(long seed, long... parts) {
        long state = seed;
        for (long part : parts) {
            state = mix(state ^ mix(part));
        }
        return new Numbers(state);
    }

    /** Any number. */
    long next() {
        state += 0x9E3779B97F4A7C15L;
        return mix(state);
    }

    /** A number below {@code limit}, which is at least 1: the upper half of a product of unsigned numbers. */
    long below(long limit) {
        long number = next();
        return Math.multiplyHigh(number, limit) + ((number >> 63) & limit);
    }

    /** A number from 0 to below 1, in steps of 2^-53. */
    double fraction() {
        return (next() >>> 11) * 0x1.0p-53;
    }

    /** A permutation of the 64-bit numbers that scatters neighbours. */
    static long mix(long number) {
        long mixed = (number ^ (number >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return mixed ^ (mixed >>> 31);
    }
}
