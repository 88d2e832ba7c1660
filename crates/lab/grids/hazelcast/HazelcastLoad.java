import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.IMap;
import java.util.Map;
import java.util.Set;

/** A map by its keys, through Hazelcast's own Java client. */
final class HazelcastLoad implements Load.Store {
    private final IMap<String, byte[]> entries;

    HazelcastLoad(HazelcastInstance client) {
        entries = client.getMap("entries");
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
}
