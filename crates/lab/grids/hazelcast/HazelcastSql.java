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

    private static final String COUNT = "SELECT count(*) FROM " + Rows.TABLE;
    private static final String COUNT_KEYS = "SELECT count(__key) FROM " + Rows.TABLE;
    private static final String COUNT_BELOW = COUNT + " WHERE \"value\" < ?";
    private static final String DOCUMENTS = "CREATE OR REPLACE MAPPING " + Documents.TABLE
            + " TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json')";
    private static final String JSON_SUM =
            "SELECT sum(JSON_VALUE(this, '$." + Documents.SUMMED + "' RETURNING BIGINT)) FROM " + Documents.TABLE;
    private static final String JSON_SUM_BY_PARAMETER =
            "SELECT sum(JSON_VALUE(this, ? RETURNING BIGINT)) FROM " + Documents.TABLE;
    private static final String LABELLED = "SELECT __key, \"value\" FROM " + Rows.TABLE + " WHERE label = ?";
    private static final String VALUE_RANGE = FETCH + " WHERE \"value\" BETWEEN ? AND ?";
    private static final String PICKS = "CREATE OR REPLACE MAPPING " + Rows.PICKS
            + " (__key BIGINT, row_id BIGINT, amount BIGINT) TYPE IMap"
            + " OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'compact', 'valueCompactTypeName' = '" + PICK + "')";
    private static final String JOIN = "SELECT count(*), sum(p.amount + r.\"value\") FROM " + Rows.PICKS + " p JOIN "
            + Rows.TABLE + " r ON r.__key = p.row_id";

    private final SqlService sql;

    HazelcastSql(HazelcastInstance client) {
        super(client);
        sql = client.getSql();
    }

    @Override
    List<String> declare(Plan plan) {
        List<String> mappings;
        switch (plan.workload) {
            case "sql-json-sum":
                mappings = List.of(DOCUMENTS);
                break;
            case "sql-join":
                mappings = List.of(MAPPING, PICKS);
                break;
            default:
                mappings = List.of(MAPPING);
        }
        mappings.forEach(mapping -> sql.execute(mapping).close());
        return mappings;
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
        return number(SUM);
    }

    /** The number that a statement is answered by; a sum is a decimal. */
    private long number(String statement, Object... parameters) {
        try (SqlResult result = sql.execute(statement, parameters)) {
            return number(result.iterator().next(), 0);
        }
    }

    private static long number(SqlRow row, int column) {
        return new BigDecimal(row.getObject(column).toString()).longValueExact();
    }

    @Override
    public long count(boolean keys) {
        return number(keys ? COUNT_KEYS : COUNT);
    }

    @Override
    public long countBelow(long value) {
        return number(COUNT_BELOW, value);
    }

    @Override
    public long sumOfDocuments(boolean byParameter) {
        return byParameter ? number(JSON_SUM_BY_PARAMETER, "$." + Documents.SUMMED) : number(JSON_SUM);
    }

    @Override
    public void labelled(String label, Table.Sink sink) {
        try (SqlResult result = sql.execute(LABELLED, label)) {
            for (SqlRow row : result) {
                sink.row(row.<Long>getObject(0), row.<Long>getObject(1));
            }
        }
    }

    @Override
    public void valueRange(long low, long high, Table.Sink sink) {
        try (SqlResult result = sql.execute(VALUE_RANGE, low, high)) {
            for (SqlRow row : result) {
                sink.row(row.<Row>getObject(1).getValue(), row.<Long>getObject(0));
            }
        }
    }

    @Override
    public long[] join() {
        try (SqlResult result = sql.execute(JOIN)) {
            SqlRow row = result.iterator().next();
            return new long[] {number(row, 0), number(row, 1)};
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
