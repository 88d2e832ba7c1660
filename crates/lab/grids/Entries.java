import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** The key-value workloads on a store, the requests of {@code crates/lab/src/workload/kv.rs}. A batch asks for a key once. */
final class Entries implements Product {
    /** Keys of one batch of the preparation, and bytes of their values. */
    private static final int BATCH = 1000;
    private static final int BATCH_BYTES = 2 << 20;
    /** The version of the values that are put in first. */
    private static final int FIRST_VERSION = 0;

    private final String version;
    private final Load.Store store;
    /** The steps of the workload, once the first is done. */
    private Memory memory;

    Entries(String version, Load.Store store) {
        this.version = version;
        this.store = store;
    }

    @Override
    public String version() {
        return version;
    }

    @Override
    public String[] prepare(Plan plan, Progress progress) throws Exception {
        if (plan.workload.equals("kv-memory")) {
            memory = new Memory(store, plan);
            return new String[0];
        }
        if (isStructured(plan)) {
            StructuredEntries.prepare(store.structs(), plan, progress);
            return new String[0];
        }
        int keys = plan.integer("keys");
        int bytes = plan.integer("value_bytes");
        int atOnce = Math.max(1, Math.min(BATCH, BATCH_BYTES / bytes));
        Map<String, byte[]> batch = new HashMap<>();
        for (int number = 0; number < keys; number++) {
            batch.put(Keys.key(number), Keys.value(number, FIRST_VERSION, bytes));
            if (batch.size() == atOnce || number == keys - 1) {
                store.putAll(batch);
                batch = new HashMap<>();
                progress.at(number + 1, keys);
            }
        }
        return new String[0];
    }

    @Override
    public long step(Plan plan, String name, Progress progress) throws Exception {
        return memory.step(name, progress);
    }

    @Override
    public String fault(Plan plan) throws Exception {
        return memory.fault();
    }

    @Override
    public Caller caller(Plan plan, Numbers numbers) throws Exception {
        Load.Store own = store.ofThread();
        return isStructured(plan) ? new StructuredEntries.Requests(own.structs(), plan, numbers) : new Requests(own, plan, numbers);
    }

    private static boolean isStructured(Plan plan) {
        return plan.is("value_shape", "structured");
    }

    /** Reads among a hundred requests. */
    static int readPercent(Plan plan) {
        switch (plan.workload) {
            case "kv-get":
                return 100;
            case "kv-put":
                return 0;
            case "kv-mixed":
            case "kv-batch":
                return plan.integer("read_percent");
            default:
                throw new IllegalArgumentException("no workload of keys and values: " + plan.workload);
        }
    }

    private static final class Requests implements Caller {
        private final Load.Store store;
        private final Numbers numbers;
        private final Choice choice;
        private final int bytes;
        private final int readPercent;
        /** Keys of one request; 0 where they are read and written one by one. */
        private final int batch;

        private boolean reads;
        private final long[] asked;
        private String key;
        private byte[] value;
        private Set<String> keys;
        private Map<String, byte[]> values;
        private Load.Found found;
        /** The key that was written last; -1 for none. */
        private long written = -1;

        Requests(Load.Store store, Plan plan, Numbers numbers) {
            this.store = store;
            this.numbers = numbers;
            choice = plan.choice(plan.integer("keys"));
            bytes = plan.integer("value_bytes");
            readPercent = readPercent(plan);
            batch = plan.workload.equals("kv-batch") ? plan.integer("batch") : 0;
            asked = new long[Math.max(1, batch)];
        }

        @Override
        public void make() {
            reads = readPercent == 100 || readPercent != 0 && numbers.below(100) < readPercent;
            if (batch > 0) {
                keys = new HashSet<>();
                values = new HashMap<>();
            }
            for (int place = 0; place < asked.length; place++) {
                long number = choice.next(numbers);
                asked[place] = number;
                key = Keys.key(number);
                if (!reads) {
                    // An odd number is not the first version.
                    value = Keys.value(number, (int) numbers.next() | 1, bytes);
                    written = number;
                }
                if (batch > 0 && reads) {
                    keys.add(key);
                } else if (batch > 0) {
                    values.put(key, value);
                }
            }
        }

        @Override
        public void call() throws Exception {
            if (batch > 0 && reads) {
                found = store.getAll(keys);
            } else if (batch > 0) {
                store.putAll(values);
            } else if (reads) {
                value = store.get(key);
            } else {
                store.put(key, value);
            }
        }

        @Override
        public String judge() {
            if (!reads) {
                return null;
            }
            if (batch == 0) {
                return Keys.fault(asked[0], bytes, value);
            }
            for (long number : asked) {
                String fault = Keys.fault(number, bytes, found.of(Keys.key(number)));
                if (fault != null) {
                    return fault;
                }
            }
            return null;
        }

        @Override
        public String readBack() throws Exception {
            if (written < 0) {
                return null;
            }
            byte[] back = store.get(Keys.key(written));
            String fault = Keys.fault(written, bytes, back);
            // Another thread may have written it since, but nobody has put the first version back.
            if (fault == null && Keys.version(back) == FIRST_VERSION) {
                return "key " + written + " has its first value, and what was written later is gone";
            }
            return fault;
        }
    }
}
