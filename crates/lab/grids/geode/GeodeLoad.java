import java.util.Map;
import java.util.Set;
import org.apache.geode.cache.Region;
import org.apache.geode.cache.client.ClientCache;
import org.apache.geode.cache.client.ClientRegionShortcut;

/** A region by its keys, through Geode's own Java client: a PROXY, which keeps nothing on the client's side. */
final class GeodeLoad implements Load.Store {
    private final Region<String, byte[]> entries;

    GeodeLoad(ClientCache cache) {
        entries = cache.<String, byte[]>createClientRegionFactory(ClientRegionShortcut.PROXY).create("entries");
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
}
