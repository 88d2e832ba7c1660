import java.nio.charset.StandardCharsets;

/**
 * The rows of the SQL workloads, those of {@code crates/lab/src/workload/rows.rs}: every column follows from the primary key, so that
 * each answer is known.
 */
final class Rows {
    /** The map of the rows, which is its table in SQL. */
    static final String TABLE = "ashlar_lab_rows";

    /** The smaller map of a join: each of its rows names a row of the other. */
    static final String PICKS = "ashlar_lab_picks";

    /** Integers in the array of a row. */
    static final int NUMBERS = 20;

    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.ISO_8859_1);

    /** Sums of {@code value} over the first rows, so that any range is one subtraction. */
    private final long[] sums;

    /** The sums of this many rows, whose ids begin with 0. */
    Rows(int count) {
        sums = new long[count + 1];
        for (int id = 0; id < count; id++) {
            sums[id + 1] = sums[id] + value(id);
        }
    }

    /** The sum from {@code first} to before {@code end}. */
    long between(long first, long end) {
        return sums[(int) end] - sums[(int) first];
    }

    /** The column {@code value} of a row, as it was loaded. */
    static long value(long id) {
        return Numbers.mix(id) >>> 44;
    }

    /** The column {@code label} of a row; as it was loaded in version 0. */
    static String label(long id, int version) {
        byte[] text = "row 0000000000 00000000".getBytes(StandardCharsets.ISO_8859_1);
        Keys.digits(id, text, 4, 14);
        int rest = (int) Numbers.mix(id ^ Integer.toUnsignedLong(version) << 32);
        for (int place = text.length - 1; place > 14; place--) {
            text[place] = HEX[rest & 15];
            rest >>>= 4;
        }
        return new String(text, StandardCharsets.ISO_8859_1);
    }

    /** The column {@code row_id} of a row of {@link #PICKS}, where the other map has so many rows. */
    static long pickedRow(long id, long rows) {
        return Long.remainderUnsigned(Numbers.mix(~id), rows);
    }

    /** Its column {@code amount}. */
    static long pickedAmount(long id) {
        return Long.remainderUnsigned(Numbers.mix(~id ^ 1L << 63), 1000);
    }

    /** What the join of both comes to: the sum of {@code amount} and {@code value} over its rows, of which there are {@code picks}. */
    static long joined(long picks, long rows) {
        long sum = 0;
        for (long id = 0; id < picks; id++) {
            sum += pickedAmount(id) + value(pickedRow(id, rows));
        }
        return sum;
    }

    /** What the label of a row begins with, in any version. */
    static String labelHead(long id) {
        return label(id, 0).substring(0, 15);
    }

    /** The column {@code numbers} of a row. */
    static int[] numbers(long id) {
        int[] numbers = new int[NUMBERS];
        for (int place = 0; place < NUMBERS; place++) {
            numbers[place] = (int) Long.remainderUnsigned(Numbers.mix(id * NUMBERS + place), 1_000_000);
        }
        return numbers;
    }
}
