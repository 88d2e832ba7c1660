import java.util.Map;
import java.util.Set;
import org.apache.geode.cache.Region;
import org.apache.geode.cache.client.ClientCache;
import org.apache.geode.cache.client.ClientCacheFactory;
import org.apache.geode.cache.client.ClientRegionShortcut;

/** The load through Geode's own Java client, as a PROXY (nothing is kept on the client's side), at the server of the port given. */
final class GeodeLoad implements Load.Store {
    private final Region<String, byte[]> entries;

    GeodeLoad(ClientCache cache) {
        entries = cache.<String, byte[]>createClientRegionFactory(ClientRegionShortcut.PROXY).create("entries");
    }

    /** Geode's client at the server of a port. */
    static ClientCacheFactory connect(String port) {
        return new ClientCacheFactory().set("log-level", "warn").addPoolServer("127.0.0.1", Integer.parseInt(port));
    }

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        ClientCache cache = connect(arguments[0]).create();
        lines.serve(new Load(new GeodeLoad(cache)));
        cache.close();
        System.exit(0);
    }

    @Override
    public void put(String key, byte[] value) {
        entries.put(key, value);
    }

    @Override
    public void putAll(Map<String, byte[]> batch) {
        entries.putAll(batch);
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
        entries.remove(key);
    }
}
