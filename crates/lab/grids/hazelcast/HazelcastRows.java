import com.hazelcast.config.IndexConfig;
import com.hazelcast.config.IndexType;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastJsonValue;
import com.hazelcast.map.IMap;
import com.hazelcast.nio.serialization.genericrecord.GenericRecord;
import com.hazelcast.nio.serialization.genericrecord.GenericRecordBuilder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongFunction;

/** The maps of the rows, the same for both interfaces. */
abstract class HazelcastRows implements Table.Interface {
    /** The type of a row of {@link Rows#PICKS}. */
    static final String PICK = "pick";

    private static final int BATCH = 1000;

    final IMap<Long, Row> rows;
    final IMap<Long, HazelcastJsonValue> documents;
    private final IMap<Long, GenericRecord> picks;

    HazelcastRows(HazelcastInstance client) {
        rows = client.getMap(Rows.TABLE);
        documents = client.getMap(Documents.TABLE);
        picks = client.getMap(Rows.PICKS);
    }

    @Override
    public String[] prepare(Plan plan, Product.Progress progress) throws Exception {
        List<String> declared = new ArrayList<>();
        switch (plan.workload) {
            case "sql-range":
                // What a primary key of PostgreSQL has, and a map's key has not.
                index(IndexType.SORTED, "__key", declared);
                break;
            case "sql-value":
                index(plan, "label", declared);
                break;
            case "query-range":
                index(plan, "value", declared);
                break;
            default:
        }
        int count = plan.integer("rows");
        if (plan.workload.equals("sql-json-sum")) {
            int fields = plan.integer("fields");
            fill(documents, count, id -> new HazelcastJsonValue(Documents.of(id, fields)), progress);
        } else {
            fill(rows, count, id -> new Row(Rows.value(id), Rows.label(id, 0), Rows.numbers(id)), progress);
        }
        if (plan.workload.equals("sql-join")) {
            fill(picks, plan.integer("join_rows"), id -> pick(id, count), progress);
        }
        declared.addAll(declare(plan));
        return declared.toArray(new String[0]);
    }

    private static GenericRecord pick(long id, long rows) {
        GenericRecordBuilder record = GenericRecordBuilder.compact(PICK);
        return record.setInt64("row_id", Rows.pickedRow(id, rows)).setInt64("amount", Rows.pickedAmount(id)).build();
    }

    /** The index that the workload is to have, if it is to have one. */
    private void index(Plan plan, String column, List<String> declared) {
        if (!plan.is("index", "none")) {
            index(plan.is("index", "hash") ? IndexType.HASH : IndexType.SORTED, column, declared);
        }
    }

    private void index(IndexType type, String column, List<String> declared) {
        rows.addIndex(new IndexConfig(type, column));
        declared.add(type + " index on " + column);
    }

    private static <V> void fill(IMap<Long, V> map, int count, LongFunction<V> value, Product.Progress progress)
            throws Exception {
        Map<Long, V> batch = new HashMap<>();
        for (long id = 0; id < count; id++) {
            batch.put(id, value.apply(id));
            if (batch.size() == BATCH || id == count - 1) {
                map.setAll(batch);
                batch = new HashMap<>();
                progress.at(id + 1, count);
            }
        }
        if (map.size() != count) {
            throw new IllegalStateException(map.size() + " of " + count + " rows are there");
        }
    }

    /** Declares to the interface what it has to know; answers what that was. */
    abstract List<String> declare(Plan plan);
}
