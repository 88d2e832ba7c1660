import java.util.HashMap;
import java.util.Map;

/** The key-value workloads on structured values, the requests of {@code crates/lab/src/workload/kv.rs}. */
final class StructuredEntries {
    /** Values of one batch of the preparation. */
    private static final int BATCH = 1000;
    /** The version of the values that are put in first. */
    private static final int FIRST_VERSION = 0;

    private StructuredEntries() {}

    /** Puts the values of all keys there. */
    static void prepare(Load.Structs store, Plan plan, Product.Progress progress) throws Exception {
        int keys = plan.integer("keys");
        Map<String, Object> batch = new HashMap<>();
        for (int number = 0; number < keys; number++) {
            batch.put(Structured.name(number), store.made(Structured.of(number, FIRST_VERSION)));
            if (batch.size() == BATCH || number == keys - 1) {
                store.putAll(batch);
                batch = new HashMap<>();
                progress.at(number + 1, keys);
            }
        }
    }

    /** One thread's requests. */
    static final class Requests implements Caller {
        private final Load.Structs store;
        private final Numbers numbers;
        private final Choice choice;
        private final int readPercent;

        private boolean reads;
        private long asked;
        private String name;
        private Object value;
        /** The key that was written last; -1 for none. */
        private long written = -1;

        Requests(Load.Structs store, Plan plan, Numbers numbers) {
            this.store = store;
            this.numbers = numbers;
            choice = plan.choice(plan.integer("keys"));
            readPercent = Entries.readPercent(plan);
        }

        @Override
        public void make() {
            reads = readPercent == 100 || readPercent != 0 && numbers.below(100) < readPercent;
            asked = choice.next(numbers);
            name = Structured.name(asked);
            if (!reads) {
                // An odd number is not the first version.
                value = store.made(Structured.of(asked, (int) numbers.next() | 1));
                written = asked;
            }
        }

        @Override
        public void call() throws Exception {
            if (reads) {
                value = store.get(name);
            } else {
                store.put(name, value);
            }
        }

        @Override
        public String judge() {
            return reads ? Structured.fault(asked, store.texts(value)) : null;
        }

        @Override
        public String readBack() throws Exception {
            if (written < 0) {
                return null;
            }
            String[] back = store.texts(store.get(Structured.name(written)));
            String fault = Structured.fault(written, back);
            // Another thread may have written it since, but nobody has put the first version back.
            if (fault == null && Long.parseLong(back[1]) == FIRST_VERSION) {
                return "key " + written + " has its first value, and what was written later is gone";
            }
            return fault;
        }
    }
}
