import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/**
 * Jedis: strings, rows as hashes, pipelines, scans and errors, in both protocol versions. Runs against Redis too.
 * The server comes from REDIS_HOST and REDIS_PORT; ON_ASHLAR=1 adds what Redis does not have.
 */
public final class Tour {
    private static final boolean ON_ASHLAR = "1".equals(System.getenv("ON_ASHLAR"));

    public static void main(String[] arguments) {
        int number = 300;
        for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) {
            String host = Objects.requireNonNullElse(System.getenv("REDIS_HOST"), "127.0.0.1");
            int port = Integer.parseInt(Objects.requireNonNullElse(System.getenv("REDIS_PORT"), "6380"));
            DefaultJedisClientConfig config =
                DefaultJedisClientConfig.builder().protocol(protocol).clientName("jedis-tour").build();
            try (Jedis jedis = new Jedis(new HostAndPort(host, port), config)) {
                equal("PONG", jedis.ping());
                equal("jedis-tour", jedis.clientGetname());
                String prefix = "jedis:" + protocol + ":";
                strings(jedis, prefix);
                pipelines(jedis, prefix);
                rows(jedis, "fruit:{" + ++number + "}", number);
                errors(jedis, prefix);
            }
        }
        System.out.println("ok");
    }

    private static void strings(Jedis jedis, String prefix) {
        byte[] key = (prefix + "binary").getBytes(StandardCharsets.UTF_8);
        byte[] value = {0, 1, '\r', '\n', (byte) 0xff};
        equal("OK", jedis.set(key, value));
        equal(true, java.util.Arrays.equals(value, jedis.get(key)));
        equal(null, jedis.get(prefix + "missing"));
        equal("OK", jedis.set(prefix + "n", "1", SetParams.setParams().nx()));
        equal(null, jedis.set(prefix + "n", "2", SetParams.setParams().nx()));
        equal("1", jedis.setGet(prefix + "n", "5"));
        equal(6L, jedis.incr(prefix + "n"));
        equal(1L << 40, jedis.incrBy(prefix + "n", (1L << 40) - 6));
        equal((1L << 40) - 1, jedis.decr(prefix + "n"));
        equal("OK", jedis.mset(prefix + "a", "a", prefix + "b", "ß"));
        equal(java.util.Arrays.asList("a", null, "ß"), jedis.mget(prefix + "a", prefix + "missing", prefix + "b"));
        equal(3L, jedis.append(prefix + "a", "bc"));
        equal("bc", jedis.getrange(prefix + "a", 1, -1));
        equal(4L, jedis.setrange(prefix + "a", 2, "XY"));
        equal(4L, jedis.strlen(prefix + "a"));
        equal("abXY", jedis.getDel(prefix + "a"));
        equal(1L, jedis.setnx(prefix + "a", "new"));
        equal("string", jedis.type(prefix + "a"));
        equal(4L, jedis.del(prefix + "a", prefix + "b", prefix + "n", prefix + "binary", prefix + "missing"));
    }

    private static void pipelines(Jedis jedis, String prefix) {
        List<Response<Long>> replies = new ArrayList<>();
        Set<String> expected = new HashSet<>();
        try (Pipeline pipeline = jedis.pipelined()) {
            for (int i = 0; i < 1000; i++) {
                pipeline.set(prefix + "p" + i, Integer.toString(i));
                replies.add(pipeline.incr(prefix + "p" + i));
                expected.add(prefix + "p" + i);
            }
            pipeline.sync();
        }
        for (int i = 0; i < 1000; i++) {
            equal(i + 1L, replies.get(i).get());
        }
        Set<String> found = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> page = jedis.scan(cursor, new ScanParams().match(prefix + "p*").count(100));
            found.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        equal(expected, found);
        equal(1000L, jedis.unlink(expected.toArray(new String[0])));
        equal(0L, jedis.exists(expected.toArray(new String[0])));
    }

    private static void rows(Jedis jedis, String key, int number) {
        equal(2L, jedis.hset(key, Map.of("name", "Apfel", "grams", "150")));
        equal(1L, jedis.hset(key, "ripe", "t"));
        equal("150", jedis.hget(key, "grams"));
        equal(List.of("t", "Apfel"), jedis.hmget(key, "ripe", "name"));
        equal(145L, jedis.hincrBy(key, "grams", -5));
        equal(0L, jedis.hsetnx(key, "name", "Birne"));
        equal(1L, jedis.hdel(key, "ripe"));
        equal(false, jedis.hexists(key, "ripe"));
        Map<String, String> row = new TreeMap<>(jedis.hgetAll(key));
        if (ON_ASHLAR) { // a row has its key as a column
            equal(Integer.toString(number), row.remove("id"));
        }
        equal(Map.of("name", "Apfel", "grams", "145"), row);
        equal("hash", jedis.type(key));
        if (ON_ASHLAR) {
            // The columns have types, and a change that does not fit changes nothing.
            refused("", () -> jedis.hset(key, Map.of("name", "changed", "grams", "heavy")));
            refused("", () -> jedis.hset(key, Map.of("name", "changed", "colour", "red")));
            equal("Apfel", jedis.hget(key, "name"));
            equal(Set.of("id", "name", "grams"), jedis.hkeys(key));
            equal(3L, jedis.hlen(key));
        }
        equal(1L, jedis.del(key));
        equal(Map.of(), jedis.hgetAll(key));
    }

    private static void errors(Jedis jedis, String prefix) {
        jedis.set(prefix + "word", "word");
        refused("ERR value is not an integer or out of range", () -> jedis.incr(prefix + "word"));
        jedis.hset("fruit:{399}", "name", "not a string");
        refused("WRONGTYPE", () -> jedis.get("fruit:{399}"));
        equal(2L, jedis.del(prefix + "word", "fruit:{399}"));
    }

    private static void refused(String message, Runnable action) {
        try {
            action.run();
        } catch (JedisDataException error) {
            equal(true, error.getMessage().startsWith(message));
            return;
        }
        throw new AssertionError("no error, expected: " + message);
    }

    private static void equal(Object expected, Object got) {
        if (!Objects.equals(expected, got)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }
}
