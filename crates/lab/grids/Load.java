import java.util.Map;
import java.util.Set;

/** What the clients of all products of keys and values can do. */
final class Load {
    private Load() {}

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

        /** Gives back what {@link #ofThread} took. */
        @Override
        default void close() {}
    }

    /** What was read by one request. */
    interface Found {
        /** The value of a key that was asked for; null if there is none. */
        byte[] of(String key);
    }
}
