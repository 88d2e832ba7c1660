import org.apache.geode.cache.Cache;
import org.apache.geode.cache.CacheFactory;
import org.apache.geode.cache.RegionShortcut;
import org.apache.geode.cache.server.CacheServer;
import org.apache.geode.internal.GemFireVersion;

/**
 * One Geode server, a cluster by itself and without a locator, listening on the loopback interface at the port given, or at any if that is 0. Its
 * region is partitioned and has no redundant copy, which is the default of PARTITION, or of the kind that the second argument names.
 */
final class GeodeMember {
    private GeodeMember() {}

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        Cache cache = new CacheFactory()
                .set("locators", "")
                .set("mcast-port", "0")
                .set("bind-address", "127.0.0.1")
                .set("jmx-manager", "false")
                .set("use-cluster-configuration", "false")
                .set("log-level", "warn")
                .create();
        RegionShortcut kind = arguments.length > 1 ? RegionShortcut.valueOf(arguments[1]) : RegionShortcut.PARTITION;
        cache.createRegionFactory(kind).create("entries");
        CacheServer server = cache.addCacheServer();
        server.setBindAddress("127.0.0.1");
        server.setHostnameForClients("127.0.0.1");
        server.setPort(Integer.parseInt(arguments[0]));
        // Each of its client's threads has a connection; 800 are the default.
        server.setMaxConnections(2000);
        server.start();
        lines.serve(words -> Heap.answer(GemFireVersion.getGemFireVersion(), server.getPort(), words));
        cache.close();
        System.exit(0);
    }
}
