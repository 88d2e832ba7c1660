import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.client.config.ClientConnectionStrategyConfig.ReconnectMode;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastJsonValue;
import com.hazelcast.map.IMap;
import com.hazelcast.sql.SqlResult;
import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * The load through Hazelcast's own Java client, without a near cache, at the member of the port given. Besides:
 *
 * <pre>
 * documents FILE   fills the map of documents from the benchmark's CSV file (id, JSON), and declares it to SQL; answers their number
 * sum              adds a field of every document up by JSON_VALUE; answers the sum and microseconds
 * sum-flat         the same with the field declared as a column (format json-flat)
 * </pre>
 */
final class HazelcastLoad implements Load.Store {
    private static final int BATCH = 1000;

    private final HazelcastInstance client;
    private final IMap<String, byte[]> entries;

    HazelcastLoad(HazelcastInstance client) {
        this.client = client;
        this.entries = client.getMap("entries");
    }

    /** Hazelcast's client at the member of a port; what it does when that is gone. */
    static HazelcastInstance connect(String port, ReconnectMode gone) {
        ClientConfig config = new ClientConfig();
        config.setClusterName("bench");
        config.getNetworkConfig().addAddress("127.0.0.1:" + port);
        config.getConnectionStrategyConfig().getConnectionRetryConfig().setClusterConnectTimeoutMillis(60_000);
        config.getConnectionStrategyConfig().setReconnectMode(gone);
        config.getSerializationConfig().getCompactSerializationConfig().addSerializer(new Row.Serializer());
        return HazelcastClient.newHazelcastClient(config);
    }

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        HazelcastInstance client = connect(arguments[0], ReconnectMode.ON);
        lines.serve(new Load(new HazelcastLoad(client)));
        client.shutdown();
        System.exit(0);
    }

    @Override
    public void put(String key, byte[] value) {
        // put() would also carry the old value back, which nobody asked for.
        entries.set(key, value);
    }

    @Override
    public void putAll(Map<String, byte[]> batch) {
        entries.setAll(batch);
    }

    @Override
    public byte[] get(String key) {
        return entries.get(key);
    }

    @Override
    public Load.Found getAll(Set<String> keys) {
        return entries.getAll(keys)::get;
    }

    @Override
    public void remove(String key) {
        entries.delete(key);
    }

    @Override
    public String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "documents":
                return documents(Path.of(words[1]));
            case "sum":
                return sum("SELECT sum(JSON_VALUE(this, '$.amount' RETURNING INTEGER)) FROM documents");
            case "sum-flat":
                return sum("SELECT sum(amount) FROM documents_flat");
            default:
                return Load.Store.super.answer(words);
        }
    }

    private String documents(Path file) throws Exception {
        IMap<Long, HazelcastJsonValue> documents = client.getMap("documents");
        Map<Long, HazelcastJsonValue> batch = new HashMap<>();
        try (BufferedReader reader = Files.newBufferedReader(file)) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                int comma = line.indexOf(',');
                // The document is quoted, and quotes in it are doubled.
                String document = line.substring(comma + 2, line.length() - 1).replace("\"\"", "\"");
                batch.put(Long.parseLong(line.substring(0, comma)), new HazelcastJsonValue(document));
                if (batch.size() == BATCH) {
                    documents.setAll(batch);
                    batch.clear();
                }
            }
        }
        documents.setAll(batch);
        declare("documents", "json");
        declare("documents_flat EXTERNAL NAME documents (__key BIGINT, amount INTEGER)", "json-flat");
        return Integer.toString(documents.size());
    }

    private void declare(String mapping, String format) {
        String options = "('keyFormat' = 'bigint', 'valueFormat' = '" + format + "')";
        client.getSql().execute("CREATE OR REPLACE MAPPING " + mapping + " TYPE IMap OPTIONS " + options).close();
    }

    private String sum(String query) {
        long began = System.nanoTime();
        try (SqlResult result = client.getSql().execute(query)) {
            Object sum = result.iterator().next().getObject(0);
            return sum + " " + (System.nanoTime() - began) / 1000;
        }
    }
}
