import java.util.HashMap;
import java.util.Map;

/** A workload: its name, and its sizes by the names that the record of a run has for them. */
final class Plan {
    final String workload;
    private final Map<String, String> sizes;
    private Choice choice;
    private Rows rows;
    private ByValue byValue;

    /** Of words: the name, then {@code size=number}. */
    Plan(String[] words) {
        workload = words[1];
        sizes = named(words, 2);
        if (sizes.containsKey("pipeline") && integer("pipeline") != 1) {
            throw new IllegalArgumentException("a client in Java has no pipeline");
        }
    }

    /** The words from this place on, each {@code name=value}. */
    static Map<String, String> named(String[] words, int from) {
        Map<String, String> named = new HashMap<>();
        for (int place = from; place < words.length; place++) {
            String[] parts = words[place].split("=", 2);
            named.put(parts[0], parts[1]);
        }
        return named;
    }

    /** Whether a choice that the workload has is this one. */
    boolean is(String name, String value) {
        return value.equals(sizes.get(name));
    }

    /** A size that the workload has. */
    int integer(String name) {
        String text = sizes.get(name);
        if (text == null) {
            throw new IllegalArgumentException(workload + " has no " + name);
        }
        long size = Long.parseLong(text);
        if (size > Integer.MAX_VALUE) {
            throw new IllegalArgumentException("a client in Java has no more than " + Integer.MAX_VALUE + " " + name);
        }
        return (int) size;
    }

    /** Which of {@code count} comes next; by the distribution of the workload. */
    synchronized Choice choice(long count) {
        if (choice == null) {
            choice = new Choice(sizes.get("distribution"), count);
        }
        return choice;
    }

    /** All rows by their values. */
    synchronized ByValue byValue() {
        if (byValue == null) {
            byValue = new ByValue(integer("rows"));
        }
        return byValue;
    }

    /** The sums of all rows. */
    synchronized Rows rows() {
        if (rows == null) {
            rows = new Rows(integer("rows"));
        }
        return rows;
    }
}
