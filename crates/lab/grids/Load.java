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

        /** The same store for values with fields. */
        Structs structs();

        /** Gives back what {@link #ofThread} took. */
        @Override
        default void close() {}
    }

    /** A client that writes values with fields, each in the form that the product has for them. */
    interface Structs {
        /** A value as it is written; made before, and not timed. */
        Object made(Structured value);

        /** Writes one value and waits for the answer. */
        void put(String key, Object made) throws Exception;

        /** Writes values in as few requests as there can be. */
        void putAll(Map<String, Object> values) throws Exception;

        /** Reads one value with all of its fields; null if there is none. */
        Object get(String key) throws Exception;

        /** The fields of what was read, as texts, in the order of their names; null for no value. Not timed. */
        String[] texts(Object found);
    }

    /** What was read by one request. */
    interface Found {
        /** The value of a key that was asked for; null if there is none. */
        byte[] of(String key);
    }
}
