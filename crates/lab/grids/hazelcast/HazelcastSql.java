import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.sql.SqlResult;
import com.hazelcast.sql.SqlRow;
import com.hazelcast.sql.SqlService;
import java.math.BigDecimal;
import java.util.Iterator;
import java.util.List;

/** Hazelcast's SQL, with parameters; the member keeps the plans. */
final class HazelcastSql extends HazelcastRows {
    private static final String MAPPING = "CREATE OR REPLACE MAPPING " + Rows.TABLE
            + " (__key BIGINT, \"value\" BIGINT, label VARCHAR, numbers OBJECT) TYPE IMap"
            + " OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'java', 'valueJavaClass' = 'Row')";
    private static final String KEY = "SELECT \"value\", label FROM " + Rows.TABLE + " WHERE __key = ?";
    private static final String UPDATE = "UPDATE " + Rows.TABLE + " SET \"value\" = ?, label = ? WHERE __key = ?";
    private static final String SUM = "SELECT sum(\"value\") FROM " + Rows.TABLE;
    private static final String RANGE = "SELECT __key, \"value\" FROM " + Rows.TABLE + " WHERE __key BETWEEN ? AND ?";
    // Key and value, the shape of Hazelcast's own benchmark; the value has the other columns.
    private static final String FETCH = "SELECT __key, this FROM " + Rows.TABLE;

    private final SqlService sql;

    HazelcastSql(HazelcastInstance client) {
        super(client);
        sql = client.getSql();
    }

    @Override
    List<String> declare() {
        sql.execute(MAPPING).close();
        return List.of(MAPPING);
    }

    @Override
    public Table.One key(long id) {
        try (SqlResult result = sql.execute(KEY, id)) {
            Iterator<SqlRow> found = result.iterator();
            if (!found.hasNext()) {
                return null;
            }
            SqlRow row = found.next();
            Table.One one = new Table.One(row.<Long>getObject(0), row.getObject(1));
            return found.hasNext() ? null : one;
        }
    }

    @Override
    public void update(long id, long value, String label) {
        try (SqlResult result = sql.execute(UPDATE, value, label, id)) {
            // How many rows were changed it does not say.
            if (result.isRowSet()) {
                throw new IllegalStateException("an UPDATE was answered with rows");
            }
        }
    }

    @Override
    public long sum() {
        try (SqlResult result = sql.execute(SUM)) {
            return new BigDecimal(result.iterator().next().getObject(0).toString()).longValueExact();
        }
    }

    @Override
    public void range(long first, long last, Table.Sink sink) {
        try (SqlResult result = sql.execute(RANGE, first, last)) {
            for (SqlRow row : result) {
                sink.row(row.<Long>getObject(0), row.<Long>getObject(1));
            }
        }
    }

    @Override
    public void fetch(Table.Sink sink) {
        try (SqlResult result = sql.execute(FETCH)) {
            for (SqlRow row : result) {
                sink.row(row.<Long>getObject(0), row.<Row>getObject(1).getValue());
            }
        }
    }
}
