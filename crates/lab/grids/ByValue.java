/**
 * The rows by their {@code value}, as {@code crates/lab/src/workload/rows.rs} has them: how many there are before each value, and the sum
 * of their ids, so that any range is one subtraction.
 */
final class ByValue {
    /** The values of the column {@code value} are below this. */
    static final int VALUES = 1 << 20;

    private final long[] rows = new long[VALUES + 1];
    private final long[] ids = new long[VALUES + 1];

    /** Of this many rows, whose ids begin with 0. */
    ByValue(int count) {
        for (int id = 0; id < count; id++) {
            int next = (int) Rows.value(id) + 1;
            rows[next]++;
            ids[next] += id;
        }
        for (int value = 1; value <= VALUES; value++) {
            rows[value] += rows[value - 1];
            ids[value] += ids[value - 1];
        }
    }

    /** The value of the row at this place, from 0, in the order of values. There is such a row. */
    long at(long place) {
        int low = 0;
        int high = rows.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (rows[middle] <= place) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low - 1;
    }

    /** How many rows there are from the value {@code first} to before {@code end}. */
    long rows(long first, long end) {
        return rows[(int) end] - rows[(int) first];
    }

    /** The sum of their ids. */
    long ids(long first, long end) {
        return ids[(int) end] - ids[(int) first];
    }
}
