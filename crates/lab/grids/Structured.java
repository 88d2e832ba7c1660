import java.time.LocalDateTime;
import java.util.Arrays;

/**
 * The structured value of the key-value workloads, field for field that of {@code crates/lab/src/workload/structured.rs}: some 0.8 KB, ten fields of eight
 * types, all of which follow from the key and the version and are checked. Each product writes it in its own way.
 */
final class Structured {
    /** Names of the fields, in their order. */
    static final String[] NAMES = {"id", "version", "active", "status", "price", "weight", "opened", "positions", "holders", "note"};

    private static final String[] STATUSES = {"open", "active", "inactive", "closed"};
    private static final int POSITIONS = 20;

    long id;
    long version;
    boolean active;
    String status;
    /** In hundredths. */
    long price;
    double weight;
    LocalDateTime opened;
    int[] positions;
    String holders;
    String note;

    /** The value of a key in this version. */
    static Structured of(long key, int version) {
        Structured made = new Structured();
        Numbers numbers = Numbers.of(key, Integer.toUnsignedLong(version));
        made.id = key;
        made.version = Integer.toUnsignedLong(version);
        made.active = numbers.below(2) != 0;
        made.status = STATUSES[(int) numbers.below(STATUSES.length)];
        made.price = 100 * numbers.below(1_000_000);
        made.price += numbers.below(100);
        made.weight = numbers.below(10_000) + 0.25;
        int day = (int) numbers.below(28) + 1;
        int hour = (int) numbers.below(24);
        int minute = (int) numbers.below(60);
        made.opened = LocalDateTime.of(2026, 1, day, hour, minute, (int) numbers.below(60));
        made.positions = new int[POSITIONS];
        for (int place = 0; place < POSITIONS; place++) {
            made.positions[place] = (int) numbers.below(1_000_000);
        }
        made.holders = text(200, numbers);
        made.note = text(400, numbers);
        return made;
    }

    /** So many hexadecimal digits, a multiple of 8. */
    private static String text(int length, Numbers numbers) {
        StringBuilder text = new StringBuilder(length);
        while (text.length() < length) {
            int number = (int) numbers.next();
            for (int shift = 28; shift >= 0; shift -= 4) {
                text.append(Character.forDigit(number >>> shift & 15, 16));
            }
        }
        return text.toString();
    }

    /** The name of a key: {@code ashlar_lab_values:{42}}. */
    static String name(long key) {
        return "ashlar_lab_values:{" + key + "}";
    }

    /** The fields as texts, as PostgreSQL writes each type. */
    String[] texts() {
        StringBuilder array = new StringBuilder("{");
        for (int position : positions) {
            array.append(array.length() == 1 ? "" : ",").append(position);
        }
        String cents = price % 100 < 10 ? "0" + price % 100 : Long.toString(price % 100);
        return new String[] {
            Long.toString(id), Long.toString(version), active ? "t" : "f", status, price / 100 + "." + cents, Double.toString(weight),
            opened.toLocalDate() + " " + two(opened.getHour()) + ":" + two(opened.getMinute()) + ":" + two(opened.getSecond()),
            array.append('}').toString(), holders, note
        };
    }

    private static String two(int number) {
        return number < 10 ? "0" + number : Integer.toString(number);
    }

    /** Says what is wrong with a value that was read for a key, whatever its version; null if nothing is. */
    static String fault(long key, String[] found) {
        if (found == null) {
            return "key " + key + " has no value";
        }
        if (found.length != NAMES.length || Arrays.asList(found).contains(null)) {
            return "key " + key + " lacks a field";
        }
        String[] right = of(key, (int) Long.parseLong(found[1])).texts();
        for (int field = 0; field < NAMES.length; field++) {
            if (!right[field].equals(found[field])) {
                return "key " + key + ", version " + found[1] + ": " + NAMES[field] + " is " + found[field] + " instead of " + right[field];
            }
        }
        return null;
    }
}
