import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * The load, the same for every product: what a client is asked to do, in the commands of {@link Lines}.
 *
 * <pre>
 * load KEYS BYTES                 puts every key once, in batches
 * overwrite COUNT KEYS BYTES      puts COUNT random keys, in batches
 * puts THREADS SECONDS KEYS BYTES puts random keys, each thread waiting for its answer; answers puts a second
 * </pre>
 */
final class Load implements Lines.Commands {
    /** A client of the product under measurement. */
    interface Store extends AutoCloseable {
        /** The store as one more thread uses it: the same one where the client is shared by threads, as most are. */
        default Store ofThread() throws Exception {
            return this;
        }

        /** Writes one entry and waits for the answer. The old value is not asked for. */
        void put(String key, byte[] value) throws Exception;

        /** Writes entries in one request and waits for the answer. */
        void putAll(Map<String, byte[]> entries) throws Exception;

        /** Reads one entry; null if there is none. */
        byte[] get(String key) throws Exception;

        /** Reads entries in one request. */
        Found getAll(Set<String> keys) throws Exception;

        /** Takes one entry away. */
        void remove(String key) throws Exception;

        /** Gives back what {@link #ofThread} took. */
        @Override
        default void close() {}

        /** Answers a command that only this product has. */
        default String answer(String[] words) throws Exception {
            throw new IllegalArgumentException("unknown command: " + String.join(" ", words));
        }
    }

    /** What was read by one request. */
    interface Found {
        /** The value of a key that was asked for; null if there is none. */
        byte[] of(String key);
    }

    private static final int BATCH = 1000;

    private final Store store;

    /** A load on a store that answers: an entry is written, read back and taken away first. */
    Load(Store store) throws Exception {
        this.store = store;
        byte[] value = {1, 2, 3};
        store.put("probe", value);
        if (!Arrays.equals(store.get("probe"), value)) {
            throw new IllegalStateException("what was put is not what is there");
        }
        store.remove("probe");
    }

    @Override
    public String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "load":
                return load(Long.parseLong(words[1]), Integer.parseInt(words[2]));
            case "overwrite":
                return overwrite(Long.parseLong(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3]));
            case "puts":
                return puts(
                        Integer.parseInt(words[1]),
                        Double.parseDouble(words[2]),
                        Long.parseLong(words[3]),
                        Integer.parseInt(words[4]));
            default:
                return store.answer(words);
        }
    }

    private String load(long keys, int bytes) throws Exception {
        Map<String, byte[]> batch = new HashMap<>();
        for (long number = 0; number < keys; number++) {
            batch.put(key(number), value(bytes));
            if (batch.size() == BATCH || number == keys - 1) {
                store.putAll(batch);
                batch.clear();
            }
        }
        return Long.toString(keys);
    }

    private String overwrite(long count, long keys, int bytes) throws Exception {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        long left = count;
        while (left > 0) {
            // Distinct keys, or a batch would hold fewer entries than it counts for.
            Map<String, byte[]> batch = new HashMap<>();
            long size = Math.min(Math.min(BATCH, keys), left);
            while (batch.size() < size) {
                batch.put(key(random.nextLong(keys)), value(bytes));
            }
            store.putAll(batch);
            left -= size;
        }
        return Long.toString(count);
    }

    private String puts(int threads, double seconds, long keys, int bytes) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            long length = (long) (seconds * 1e9);
            CyclicBarrier together = new CyclicBarrier(threads);
            Callable<Long> worker = () -> {
                ThreadLocalRandom random = ThreadLocalRandom.current();
                byte[] value = value(bytes);
                try (Store own = store.ofThread()) {
                    together.await(1, TimeUnit.MINUTES);
                    long end = System.nanoTime() + length;
                    long count = 0;
                    while (System.nanoTime() - end < 0) {
                        own.put(key(random.nextLong(keys)), value);
                        count++;
                    }
                    return count;
                }
            };
            List<Future<Long>> workers = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                workers.add(pool.submit(worker));
            }
            long puts = 0;
            for (Future<Long> done : workers) {
                puts += done.get();
            }
            return Double.toString(puts / seconds);
        } finally {
            pool.shutdownNow();
        }
    }

    /** 16 characters, as redis-benchmark names its keys: {@code key:000000000042}. */
    static String key(long number) {
        byte[] text = "key:000000000000".getBytes(StandardCharsets.ISO_8859_1);
        long rest = number;
        for (int place = text.length - 1; rest > 0; place--) {
            text[place] = (byte) ('0' + rest % 10);
            rest /= 10;
        }
        return new String(text, StandardCharsets.ISO_8859_1);
    }

    private static byte[] value(int bytes) {
        byte[] value = new byte[bytes];
        Arrays.fill(value, (byte) 'x');
        return value;
    }
}
