import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The load through Lettuce, at the RESP server of the port given. All threads share one connection, as they do in Hazelcast's
 * client: requests that wait at the same time leave together.
 */
final class LettuceLoad implements Load.Store {
    private final StatefulRedisConnection<byte[], byte[]> connection;

    private LettuceLoad(StatefulRedisConnection<byte[], byte[]> connection) {
        this.connection = connection;
    }

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + arguments[0]);
        lines.serve(new Load(new LettuceLoad(client.connect(ByteArrayCodec.INSTANCE))));
        client.shutdown();
        System.exit(0);
    }

    @Override
    public void put(String key, byte[] value) {
        connection.sync().set(bytes(key), value);
    }

    @Override
    public void putAll(Map<String, byte[]> batch) throws Exception {
        List<RedisFuture<String>> replies = new ArrayList<>();
        batch.forEach((key, value) -> replies.add(connection.async().set(bytes(key), value)));
        for (RedisFuture<String> reply : replies) {
            if (!"OK".equals(reply.get())) {
                throw new IllegalStateException("a SET was answered with " + reply.get());
            }
        }
    }

    @Override
    public byte[] get(String key) {
        return connection.sync().get(bytes(key));
    }

    @Override
    public void remove(String key) {
        connection.sync().del(bytes(key));
    }

    private static byte[] bytes(String key) {
        return key.getBytes(StandardCharsets.ISO_8859_1);
    }
}
