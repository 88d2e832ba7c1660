import java.util.Map;
import java.util.Set;
import org.apache.geode.cache.Region;
import org.apache.geode.cache.client.ClientCache;
import org.apache.geode.cache.client.ClientRegionShortcut;

/** A region by its keys, through Geode's own Java client: a PROXY, which keeps nothing on the client's side. */
final class GeodeLoad implements Load.Store {
    private final Region<String, byte[]> entries;
    /** The same region, whose values the server does not look at. */
    private final Region<String, Object> values;

    @SuppressWarnings("unchecked")
    GeodeLoad(ClientCache cache) {
        entries = cache.<String, byte[]>createClientRegionFactory(ClientRegionShortcut.PROXY).create("entries");
        values = (Region<String, Object>) (Region<String, ?>) entries;
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
    public Load.Structs structs() {
        return new Load.Structs() {
            @Override
            public Object made(Structured value) {
                return new GeodeValue(value);
            }

            @Override
            public void put(String key, Object made) {
                values.put(key, made);
            }

            @Override
            public void putAll(Map<String, Object> batch) {
                values.putAll(batch);
            }

            @Override
            public Object get(String key) {
                return values.get(key);
            }

            @Override
            public String[] texts(Object found) {
                return found == null ? null : ((GeodeValue) found).value().texts();
            }
        };
    }
}
