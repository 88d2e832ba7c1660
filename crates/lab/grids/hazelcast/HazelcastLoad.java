import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.IMap;
import java.util.Map;
import java.util.Set;

/** A map by its keys, through Hazelcast's own Java client. */
final class HazelcastLoad implements Load.Store {
    private final IMap<String, byte[]> entries;
    private final IMap<String, Object> values;

    HazelcastLoad(HazelcastInstance client) {
        entries = client.getMap("entries");
        values = client.getMap("values");
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
    public Load.Structs structs() {
        return new Load.Structs() {
            @Override
            public Object made(Structured value) {
                return value;
            }

            @Override
            public void put(String key, Object made) {
                values.set(key, made);
            }

            @Override
            public void putAll(Map<String, Object> batch) {
                values.setAll(batch);
            }

            @Override
            public Object get(String key) {
                return values.get(key);
            }

            @Override
            public String[] texts(Object found) {
                return found == null ? null : ((Structured) found).texts();
            }
        };
    }
}
