import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** The steps of {@code kv-memory}, the writes of {@code crates/lab/src/workload/kv/memory.rs} in batches; and what must be there after them. */
final class Memory {
    private static final int BATCH = 1000;
    private static final int BATCH_BYTES = 2 << 20;
    private static final int FIRST_VERSION = 0;
    /** What is overwritten depends on this only. */
    private static final long SEED = 42;

    private final Load.Store store;
    private final int keys;
    private final int bytes;
    private final long overwrites;
    /** The version of each key that was written last. */
    private final int[] versions;

    Memory(Load.Store store, Plan plan) {
        this.store = store;
        keys = plan.integer("keys");
        bytes = plan.integer("value_bytes");
        overwrites = (long) keys * plan.integer("churn");
        versions = new int[keys];
    }

    /** Does a step; answers how many entries it wrote. */
    long step(String name, Product.Progress progress) throws Exception {
        boolean fresh = name.equals("fresh");
        if (!fresh && !name.equals("churned")) {
            throw new IllegalArgumentException("no step " + name);
        }
        long all = fresh ? keys : overwrites;
        Numbers numbers = new Numbers(SEED);
        Map<String, byte[]> batch = new HashMap<>();
        int inBatch = 0;
        for (long done = 1; done <= all; done++) {
            int key = fresh ? (int) (done - 1) : (int) numbers.below(keys);
            // An odd number is not the first version.
            versions[key] = fresh ? FIRST_VERSION : (int) numbers.next() | 1;
            batch.put(Keys.key(key), Keys.value(key, versions[key], bytes));
            if (++inBatch == atOnce() || done == all) {
                store.putAll(batch);
                batch = new HashMap<>();
                inBatch = 0;
                progress.at(done, all);
            }
        }
        return all;
    }

    /** Says what is not there that was written; null if all is. */
    String fault() throws Exception {
        for (int first = 0; first < keys; first += atOnce()) {
            int end = Math.min(keys, first + atOnce());
            Set<String> names = new HashSet<>();
            for (int key = first; key < end; key++) {
                names.add(Keys.key(key));
            }
            Load.Found found = store.getAll(names);
            for (int key = first; key < end; key++) {
                byte[] value = found.of(Keys.key(key));
                if (!Arrays.equals(value, Keys.value(key, versions[key], bytes))) {
                    return "key " + key + " does not have what was written last";
                }
            }
        }
        return null;
    }

    private int atOnce() {
        return Math.max(1, Math.min(BATCH, BATCH_BYTES / bytes));
    }
}
