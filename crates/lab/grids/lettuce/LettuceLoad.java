import io.lettuce.core.KeyValue;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Strings by their keys, through Lettuce. All threads share one connection, as they do in Hazelcast's
 * client: requests that wait at the same time leave together.
 */
final class LettuceLoad implements Load.Store {
    private final StatefulRedisConnection<byte[], byte[]> connection;

    LettuceLoad(StatefulRedisConnection<byte[], byte[]> connection) {
        this.connection = connection;
    }

    @Override
    public void put(String key, byte[] value) {
        connection.sync().set(bytes(key), value);
    }

    @Override
    public void putAll(Map<String, byte[]> batch) {
        Map<byte[], byte[]> entries = new LinkedHashMap<>();
        batch.forEach((key, value) -> entries.put(bytes(key), value));
        String reply = connection.sync().mset(entries);
        if (!"OK".equals(reply)) {
            throw new IllegalStateException("an MSET was answered with " + reply);
        }
    }

    @Override
    public byte[] get(String key) {
        return connection.sync().get(bytes(key));
    }

    @Override
    public Load.Found getAll(Set<String> keys) {
        List<KeyValue<byte[], byte[]>> replies = connection.sync().mget(keys.stream().map(LettuceLoad::bytes).toArray(byte[][]::new));
        Map<String, byte[]> found = new HashMap<>();
        // A key that is not there has no value.
        replies.forEach(reply -> found.put(
                new String(reply.getKey(), StandardCharsets.ISO_8859_1), reply.getValueOrElse(null)));
        return found::get;
    }

    @Override
    public Load.Structs structs() {
        return new Load.Structs() {
            @Override
            public Object made(Structured value) {
                Map<byte[], byte[]> fields = new LinkedHashMap<>();
                String[] texts = value.texts();
                for (int field = 0; field < texts.length; field++) {
                    fields.put(bytes(Structured.NAMES[field]), bytes(texts[field]));
                }
                return fields;
            }

            @Override
            @SuppressWarnings("unchecked")
            public void put(String key, Object made) {
                connection.sync().hset(bytes(key), (Map<byte[], byte[]>) made);
            }

            @Override
            public void putAll(Map<String, Object> batch) {
                // The lab fills what speaks RESP itself.
                batch.forEach(this::put);
            }

            @Override
            public Object get(String key) {
                return connection.sync().hgetall(bytes(key));
            }

            @Override
            @SuppressWarnings("unchecked")
            public String[] texts(Object found) {
                Map<String, String> named = new HashMap<>();
                ((Map<byte[], byte[]>) found).forEach((name, text) -> named.put(
                        new String(name, StandardCharsets.ISO_8859_1), new String(text, StandardCharsets.ISO_8859_1)));
                // A hash that is not there has no fields.
                if (named.isEmpty()) {
                    return null;
                }
                String[] texts = new String[Structured.NAMES.length];
                for (int field = 0; field < texts.length; field++) {
                    texts[field] = named.remove(Structured.NAMES[field]);
                }
                return named.isEmpty() ? texts : new String[0];
            }
        };
    }

    private static byte[] bytes(String key) {
        return key.getBytes(StandardCharsets.ISO_8859_1);
    }
}
