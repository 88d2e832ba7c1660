import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.client.config.ClientConnectionStrategyConfig.ReconnectMode;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.BuildInfoProvider;

/**
 * Hazelcast's own Java client, told what to do by the lab, at the member of the port given. The second argument says which interface is
 * loaded: {@code entries}, {@code sql} or {@code predicates}. One client for all threads, as its makers advise; no near cache.
 */
final class HazelcastLab {
    private HazelcastLab() {}

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        ClientConfig config = new ClientConfig();
        config.setClusterName("bench");
        config.getNetworkConfig().addAddress("127.0.0.1:" + arguments[0]);
        config.getConnectionStrategyConfig().getConnectionRetryConfig().setClusterConnectTimeoutMillis(60_000);
        // A member that is gone ends the measurement; waiting for it would not.
        config.getConnectionStrategyConfig().setReconnectMode(ReconnectMode.OFF);
        config.getSerializationConfig().getCompactSerializationConfig().addSerializer(new Row.Serializer()).addSerializer(new HazelcastValue());
        HazelcastInstance client = HazelcastClient.newHazelcastClient(config);
        lines.serve(new Lab(lines, product(client, arguments[1])));
        client.shutdown();
        System.exit(0);
    }

    private static Product product(HazelcastInstance client, String what) {
        String version = "hazelcast " + BuildInfoProvider.getBuildInfo().getVersion();
        switch (what) {
            case "entries":
                return new Entries(version, new HazelcastLoad(client));
            case "sql":
                return new Table(version, new HazelcastSql(client));
            case "predicates":
                return new Table(version, new HazelcastPredicates(client));
            default:
                throw new IllegalArgumentException("no interface of Hazelcast: " + what);
        }
    }
}
