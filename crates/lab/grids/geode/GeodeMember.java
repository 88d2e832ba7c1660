import org.apache.geode.cache.Cache;
import org.apache.geode.cache.CacheFactory;
import org.apache.geode.cache.RegionShortcut;
import org.apache.geode.cache.server.CacheServer;

/**
 * One Geode server, a cluster by itself and without a locator, listening on the loopback interface at the port given. Its
 * region is partitioned and has no redundant copy, which is the default of PARTITION.
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
        cache.createRegionFactory(RegionShortcut.PARTITION).create("entries");
        CacheServer server = cache.addCacheServer();
        server.setBindAddress("127.0.0.1");
        server.setHostnameForClients("127.0.0.1");
        server.setPort(Integer.parseInt(arguments[0]));
        server.start();
        lines.serve(Heap::answer);
        cache.close();
        System.exit(0);
    }
}
