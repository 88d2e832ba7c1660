import com.hazelcast.config.IndexConfig;
import com.hazelcast.config.IndexType;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.IMap;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The map of the rows, the same for both interfaces. */
abstract class HazelcastRows implements Table.Interface {
    private static final int BATCH = 1000;

    final IMap<Long, Row> rows;

    HazelcastRows(HazelcastInstance client) {
        rows = client.getMap(Rows.TABLE);
    }

    @Override
    public String[] prepare(Plan plan, Product.Progress progress) throws Exception {
        List<String> declared = new ArrayList<>();
        if (plan.workload.equals("sql-range")) {
            // What a primary key of PostgreSQL has, and a map's key has not.
            rows.addIndex(new IndexConfig(IndexType.SORTED, "__key"));
            declared.add("SORTED index on __key");
        }
        int count = plan.integer("rows");
        Map<Long, Row> batch = new HashMap<>();
        for (long id = 0; id < count; id++) {
            batch.put(id, new Row(Rows.value(id), Rows.label(id, 0), Rows.numbers(id)));
            if (batch.size() == BATCH || id == count - 1) {
                rows.setAll(batch);
                batch = new HashMap<>();
                progress.at(id + 1, count);
            }
        }
        if (rows.size() != count) {
            throw new IllegalStateException(rows.size() + " of " + count + " rows are there");
        }
        declared.addAll(declare());
        return declared.toArray(new String[0]);
    }

    /** Declares to the interface what it has to know; answers what that was. */
    abstract List<String> declare();
}
