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

    private static byte[] bytes(String key) {
        return key.getBytes(StandardCharsets.ISO_8859_1);
    }
}
