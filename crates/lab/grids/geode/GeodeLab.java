import org.apache.geode.cache.client.ClientCache;
import org.apache.geode.cache.client.ClientCacheFactory;
import org.apache.geode.internal.GemFireVersion;

/**
 * Geode's own Java client, told what to do by the lab, at the server of the port given: a PROXY, which keeps nothing on the client's side,
 * and a pool that gives each thread a connection.
 */
final class GeodeLab {
    private GeodeLab() {}

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        ClientCache cache = new ClientCacheFactory()
                .set("log-level", "warn")
                .addPoolServer("127.0.0.1", Integer.parseInt(arguments[0]))
                // A server that is gone ends the measurement.
                .setPoolRetryAttempts(0)
                .create();
        String version = "geode " + GemFireVersion.getGemFireVersion();
        lines.serve(new Lab(lines, new Entries(version, new GeodeLoad(cache))));
        cache.close();
        System.exit(0);
    }
}
