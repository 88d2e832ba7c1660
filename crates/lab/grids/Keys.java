import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Keys and values of the key-value workloads, byte for byte those of {@code crates/lab/src/workload/keys.rs}: a value says which key
 * it belongs to, and every byte of it is checked.
 */
final class Keys {
    private static final int DIGITS = 12;
    private static final int HEAD_BYTES = 8;
    private static final VarHandle LITTLE = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle BIG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private Keys() {}

    /** The name of a key: {@code lab:000000000042}. */
    static String key(long number) {
        byte[] name = "lab:000000000000".getBytes(StandardCharsets.ISO_8859_1);
        digits(number, name, name.length - DIGITS, name.length);
        return new String(name, StandardCharsets.ISO_8859_1);
    }

    /** Writes a number's digits between two places, zeros before them. */
    static void digits(long number, byte[] text, int from, int to) {
        long rest = number;
        for (int place = to - 1; place >= from; place--) {
            text[place] = (byte) ('0' + rest % 10);
            rest /= 10;
        }
    }

    /** The value of a key in this version; {@code bytes} is at least 8. */
    static byte[] value(long key, int version, int bytes) {
        byte[] value = new byte[bytes];
        long head = key << 32 | Integer.toUnsignedLong(version);
        BIG.set(value, 0, head);
        Numbers numbers = new Numbers(head);
        int place = HEAD_BYTES;
        for (; place + 8 <= bytes; place += 8) {
            LITTLE.set(value, place, numbers.next());
        }
        for (long last = place < bytes ? numbers.next() : 0; place < bytes; place++) {
            value[place] = (byte) last;
            last >>>= 8;
        }
        return value;
    }

    /** The version of a value that is no {@link #fault}. */
    static int version(byte[] value) {
        return (int) (long) BIG.get(value, 0);
    }

    /** Says what is wrong with a value that was read for a key, whatever its version; null if nothing is. */
    static String fault(long key, int bytes, byte[] found) {
        if (found == null) {
            return "key " + key + " was answered by no value";
        }
        if (found.length != bytes) {
            return "key " + key + " has " + found.length + " bytes instead of " + bytes;
        }
        long head = (long) BIG.get(found, 0);
        if (head >>> 32 != (key & 0xffff_ffffL)) {
            return "key " + key + " has the value of key " + (head >>> 32);
        }
        Numbers numbers = new Numbers(key << 32 | (head & 0xffff_ffffL));
        int place = HEAD_BYTES;
        boolean right = true;
        for (; place + 8 <= bytes; place += 8) {
            right &= (long) LITTLE.get(found, place) == numbers.next();
        }
        for (long last = place < bytes ? numbers.next() : 0; place < bytes; place++) {
            right &= found[place] == (byte) last;
            last >>>= 8;
        }
        return right ? null : "key " + key + " has a damaged value";
    }
}
