/** Which key comes next, as {@code crates/lab/src/workload/choose.rs} says: uniform, or zipfian by the same approximation. */
final class Choice {
    private static final double SKEW = 0.99;
    private static final long SCATTER = 0x1_0000_000fL;

    private final long count;
    private final boolean zipfian;
    private double zeta;
    private double eta;
    private double second;

    Choice(String distribution, long count) {
        this.count = count;
        switch (distribution) {
            case "uniform":
                zipfian = false;
                break;
            case "zipfian":
                zipfian = true;
                prepare();
                break;
            default:
                throw new IllegalArgumentException("unknown distribution: " + distribution);
        }
    }

    private void prepare() {
        for (long rank = 1; rank <= count; rank++) {
            zeta += Math.pow(rank, -SKEW);
        }
        second = 1 + Math.pow(2, -SKEW);
        eta = (1 - Math.pow(2.0 / count, 1 - SKEW)) / (1 - second / zeta);
    }

    /** A number below the count. */
    long next(Numbers numbers) {
        if (!zipfian) {
            return numbers.below(count);
        }
        // Both are below 2^32, so their product is an unsigned number of 64 bits.
        return Long.remainderUnsigned(rank(numbers.fraction()) * (SCATTER % count), count);
    }

    private long rank(double fraction) {
        double scaled = fraction * zeta;
        long rank;
        if (scaled < 1) {
            rank = 0;
        } else if (scaled < second) {
            rank = 1;
        } else {
            rank = (long) (count * Math.pow(eta * fraction - eta + 1, 1 / (1 - SKEW)));
        }
        return Math.min(rank, count - 1);
    }
}
