import com.hazelcast.cluster.Member;
import com.hazelcast.config.Config;
import com.hazelcast.config.InMemoryFormat;
import com.hazelcast.config.MapConfig;
import com.hazelcast.config.NetworkConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;

/**
 * One Hazelcast member, a cluster by itself, listening on the loopback interface at the port given, or at any if that is 0. Maps keep no backup and
 * hold values as the bytes they came in, which is the default. {@code sql} as second argument turns its SQL engine on.
 */
final class HazelcastMember {
    private HazelcastMember() {}

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        Config config = new Config();
        config.setClusterName("bench");
        config.setProperty("hazelcast.phone.home.enabled", "false");
        NetworkConfig network = config.getNetworkConfig();
        network.setPort(Integer.parseInt(arguments[0])).setPortAutoIncrement(false);
        network.getInterfaces().setEnabled(true).addInterface("127.0.0.1");
        network.getJoin().getAutoDetectionConfig().setEnabled(false);
        network.getJoin().getMulticastConfig().setEnabled(false);
        config.getJetConfig().setEnabled(arguments.length > 1 && arguments[1].equals("sql"));
        config.getSerializationConfig().getCompactSerializationConfig().addSerializer(new Row.Serializer());
        for (String map : new String[] {"entries", "values", "documents", Rows.TABLE, Rows.PICKS, Documents.TABLE}) {
            config.addMapConfig(new MapConfig(map).setBackupCount(0).setInMemoryFormat(InMemoryFormat.BINARY));
        }
        HazelcastInstance member = Hazelcast.newHazelcastInstance(config);
        Member self = member.getCluster().getLocalMember();
        lines.serve(words -> Heap.answer(self.getVersion().toString(), self.getAddress().getPort(), words));
        member.getLifecycleService().terminate();
        System.exit(0);
    }
}
