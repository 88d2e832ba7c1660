import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/**
 * pgJDBC: prepared statements, batches, fetch size (portals with row limits), types, generated keys, COPY,
 * transactions, cancel and timeouts. Plain PostgreSQL; the server comes from PGHOST and PGPORT.
 */
public final class Tour {
    /** A statement that would run for years. */
    private static final String ENDLESS =
        "SELECT count(*) FROM jdbc_item a, jdbc_item b, jdbc_item c, jdbc_item d, jdbc_item e, jdbc_item f, jdbc_item g";

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = connect()) {
            execute(connection, "DROP TABLE IF EXISTS jdbc_types");
            execute(connection, "DROP TABLE IF EXISTS jdbc_item");
            types(connection);
            preparedAndBatches(connection);
            fetchSize(connection);
            generatedKeys(connection);
            copy(connection);
            transactions(connection);
            errors(connection);
            cancel(connection);
            session(connection);
            metadata(connection);
            execute(connection, "DROP TABLE jdbc_item");
        }
        System.out.println("ok");
    }

    private static Connection connect(String... options) throws SQLException {
        String host = Objects.requireNonNullElse(System.getenv("PGHOST"), "127.0.0.1");
        String port = Objects.requireNonNullElse(System.getenv("PGPORT"), "5433");
        Properties properties = new Properties();
        properties.setProperty("user", Objects.requireNonNullElse(System.getenv("PGUSER"), "postgres"));
        properties.setProperty("ApplicationName", "jdbc tour");
        for (int i = 0; i < options.length; i += 2) {
            properties.setProperty(options[i], options[i + 1]);
        }
        String database = Objects.requireNonNullElse(System.getenv("PGDATABASE"), "postgres");
        return DriverManager.getConnection("jdbc:postgresql://" + host + ":" + port + "/" + database, properties);
    }

    /** What tools ask about tables, columns and keys before they show anything. */
    private static void metadata(Connection connection) throws SQLException {
        execute(connection, "DROP TABLE IF EXISTS jdbc_meta");
        execute(connection, "CREATE TABLE jdbc_meta (a integer, b varchar(10), n numeric(8,3) NOT NULL,"
            + " t text DEFAULT 'none', xs integer[], CONSTRAINT jdbc_meta_id PRIMARY KEY (b, a))");
        DatabaseMetaData metadata = connection.getMetaData();
        String database = Objects.requireNonNullElse(System.getenv("PGDATABASE"), "postgres");
        equal(database, connection.getCatalog());
        try (ResultSet tables = metadata.getTables(null, "public", "jdbc\\_meta", new String[] {"TABLE"})) {
            equal(database + "|public|jdbc_meta|TABLE", row(tables, "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
            equal(false, tables.next());
        }
        try (ResultSet columns = metadata.getColumns(null, "public", "jdbc\\_meta", "%")) {
            String[] labels = {"COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE",
                "COLUMN_DEF", "ORDINAL_POSITION"};
            equal("a|4|int4|10|0|NO|null|1", row(columns, labels));
            equal("b|12|varchar|10|0|NO|null|2", row(columns, labels));
            equal("n|2|numeric|8|3|NO|null|3", row(columns, labels));
            equal("t|12|text|2147483647|0|YES|'none'::text|4", row(columns, labels));
            equal("xs|2003|_int4|10|0|YES|null|5", row(columns, labels));
            equal(false, columns.next());
        }
        try (ResultSet keys = metadata.getPrimaryKeys(null, "public", "jdbc_meta")) {
            equal("b|1|jdbc_meta_id", row(keys, "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
            equal("a|2|jdbc_meta_id", row(keys, "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
            equal(false, keys.next());
        }
        try (ResultSet indexes = metadata.getIndexInfo(null, "public", "jdbc_meta", true, false)) {
            String[] labels = {"NON_UNIQUE", "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"};
            equal("f|jdbc_meta_id|1|b|A", row(indexes, labels));
            equal("f|jdbc_meta_id|2|a|A", row(indexes, labels));
            equal(false, indexes.next());
        }
        try (ResultSet keys = metadata.getImportedKeys(null, "public", "jdbc_meta")) {
            equal(false, keys.next());
        }
        try (ResultSet schemas = metadata.getSchemas(null, "public")) {
            equal("public", row(schemas, "TABLE_SCHEM"));
        }
        execute(connection, "DROP TABLE jdbc_meta");
    }

    /** The next row's columns between bars. */
    private static String row(ResultSet rows, String... labels) throws SQLException {
        equal(true, rows.next());
        StringBuilder row = new StringBuilder();
        for (String label : labels) {
            row.append(row.length() == 0 ? "" : "|").append(rows.getString(label));
        }
        return row.toString();
    }

    /** Every scalar type through a table, with text transfer and with the binary transfer that comes after five uses. */
    private static void types(Connection connection) throws SQLException {
        execute(connection, "CREATE TABLE jdbc_types (id integer PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real,"
            + " f8 double precision, n numeric(20,5), t text, v varchar(20), bin bytea, d date, tm time, ts timestamp,"
            + " tz timestamptz, u uuid, j jsonb, ints integer[], texts text[])");
        LocalDateTime moment = LocalDateTime.of(1999, 12, 31, 23, 59, 59, 1000);
        OffsetDateTime instant = OffsetDateTime.of(2024, 7, 1, 12, 0, 0, 0, ZoneOffset.UTC);
        UUID uuid = UUID.fromString("01234567-89ab-cdef-0123-456789abcdef");
        byte[] bytes = {0, 1, (byte) 0xff, '\\', '\''};
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO jdbc_types VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb, ?, ?)")) {
            for (int id = 1; id <= 10; id++) {
                insert.setInt(1, id);
                insert.setBoolean(2, true);
                insert.setShort(3, Short.MIN_VALUE);
                insert.setLong(4, Long.MAX_VALUE);
                insert.setFloat(5, 1.5f);
                insert.setDouble(6, 0.1);
                insert.setBigDecimal(7, new BigDecimal("123456789012345.67891"));
                insert.setString(8, "grün 🌳");
                insert.setString(9, "varchar");
                insert.setBytes(10, bytes);
                insert.setObject(11, LocalDate.of(2024, 2, 29));
                insert.setObject(12, LocalTime.of(23, 59, 59));
                insert.setObject(13, moment);
                insert.setObject(14, instant);
                insert.setObject(15, uuid);
                insert.setString(16, "{\"a\": [1, null]}");
                insert.setArray(17, connection.createArrayOf("int4", new Integer[] {1, null, 3}));
                insert.setArray(18, connection.createArrayOf("text", new String[] {"a,b", "q\"q", null, ""}));
                equal(1, insert.executeUpdate());
            }
            insert.setInt(1, 11);
            for (int column = 2; column <= 18; column++) {
                insert.setNull(column, Types.NULL);
            }
            equal(1, insert.executeUpdate());
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT * FROM jdbc_types WHERE id = ?")) {
            for (int id = 1; id <= 10; id++) {
                select.setInt(1, id);
                try (ResultSet row = select.executeQuery()) {
                    equal(true, row.next());
                    equal(id, row.getInt("id"));
                    equal(true, row.getBoolean("b"));
                    equal(Short.MIN_VALUE, row.getShort("i2"));
                    equal(Long.MAX_VALUE, row.getLong("i8"));
                    equal(1.5f, row.getFloat("f4"));
                    equal(0.1, row.getDouble("f8"));
                    equal(new BigDecimal("123456789012345.67891"), row.getBigDecimal("n"));
                    equal("grün 🌳", row.getString("t"));
                    equal("varchar", row.getString("v"));
                    equal(Arrays.toString(bytes), Arrays.toString(row.getBytes("bin")));
                    equal(Date.valueOf("2024-02-29"), row.getDate("d"));
                    equal(LocalTime.of(23, 59, 59), row.getObject("tm", LocalTime.class));
                    equal(moment, row.getObject("ts", LocalDateTime.class));
                    equal(instant, row.getObject("tz", OffsetDateTime.class));
                    equal(uuid, row.getObject("u"));
                    equal("{\"a\": [1, null]}", row.getString("j"));
                    equal("[1, null, 3]", array(row.getArray("ints")));
                    equal("[a,b, q\"q, null, ]", array(row.getArray("texts")));
                    equal(false, row.next());
                }
            }
            select.setInt(1, 11);
            try (ResultSet row = select.executeQuery()) {
                equal(true, row.next());
                for (int column = 2; column <= 18; column++) {
                    equal(null, row.getObject(column));
                }
                ResultSetMetaData metadata = row.getMetaData();
                equal(18, metadata.getColumnCount());
                equal("int4", metadata.getColumnTypeName(1));
                equal("timestamptz", metadata.getColumnTypeName(14));
                equal(20, metadata.getPrecision(7));
                equal(5, metadata.getScale(7));
            }
        }
        execute(connection, "DROP TABLE jdbc_types");
    }

    private static String array(Array array) throws SQLException {
        return Arrays.toString((Object[]) array.getArray());
    }

    private static void preparedAndBatches(Connection connection) throws SQLException {
        execute(connection, "CREATE TABLE jdbc_item (id bigint PRIMARY KEY, name text NOT NULL, price numeric(10,2), sold integer)");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jdbc_item VALUES (?, ?, ?, ?)")) {
            for (int id = 1; id <= 1000; id++) {
                insert.setLong(1, id);
                insert.setString(2, "item " + id);
                insert.setBigDecimal(3, BigDecimal.valueOf(id, 2));
                insert.setInt(4, id % 10);
                insert.addBatch();
            }
            int[] counts = insert.executeBatch();
            equal(1000, counts.length);
            equal(true, Arrays.stream(counts).allMatch(count -> count == 1));
        }
        // The driver may also fold a batch into one INSERT of many rows.
        try (Connection folding = connect("reWriteBatchedInserts", "true");
                PreparedStatement insert = folding.prepareStatement("INSERT INTO jdbc_item VALUES (?, ?, ?, ?)")) {
            for (int id = 1001; id <= 1100; id++) {
                insert.setLong(1, id);
                insert.setString(2, "folded");
                insert.setNull(3, Types.NUMERIC);
                insert.setInt(4, 0);
                insert.addBatch();
            }
            equal(100, insert.executeBatch().length);
        }
        equal(1100L, number(connection, "SELECT count(*) FROM jdbc_item"));
        // A batch stops at its first error; outside a transaction what came before in the same round trip is undone.
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jdbc_item VALUES (?, 'batch', 1, 1)")) {
            for (long id : new long[] {2000, 2001, 1, 2002}) {
                insert.setLong(1, id);
                insert.addBatch();
            }
            insert.executeBatch();
            throw new AssertionError("a duplicate key was accepted");
        } catch (BatchUpdateException error) {
            equal("23505", error.getSQLState());
        }
        equal(0L, number(connection, "SELECT count(*) FROM jdbc_item WHERE id >= 2000"));

        try (PreparedStatement update = connection.prepareStatement(
                "UPDATE jdbc_item SET price = price + ? WHERE sold = ? AND id <= ?")) {
            update.setBigDecimal(1, new BigDecimal("0.50"));
            update.setInt(2, 3);
            update.setLong(3, 1000);
            equal(100, update.executeUpdate());
        }
        try (Statement statement = connection.createStatement()) {
            equal(100, statement.executeUpdate("DELETE FROM jdbc_item WHERE id > 1000"));
            // Two results of one string.
            equal(true, statement.execute("SELECT 1; SELECT 2"));
            equal(true, statement.getMoreResults());
            try (ResultSet second = statement.getResultSet()) {
                equal(true, second.next());
                equal(2, second.getInt(1));
            }
        }
    }

    /** With a fetch size and without autocommit, a portal is executed with a row limit again and again. */
    private static void fetchSize(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement select = connection.prepareStatement("SELECT id, name FROM jdbc_item ORDER BY id")) {
            select.setFetchSize(7);
            try (ResultSet rows = select.executeQuery(); Statement other = connection.createStatement()) {
                long expected = 0;
                while (rows.next()) {
                    expected++;
                    equal(expected, rows.getLong(1));
                    equal("item " + expected, rows.getString(2));
                    if (expected == 500) {
                        // Another statement in the middle does not disturb the portal, nor does the portal see its change.
                        equal(1, other.executeUpdate("UPDATE jdbc_item SET name = 'changed' WHERE id = 1000"));
                    }
                }
                equal(1000L, expected);
            }
            // Left in the middle.
            try (ResultSet rows = select.executeQuery()) {
                equal(true, rows.next());
            }
        }
        connection.rollback();
        connection.setAutoCommit(true);
        equal("item 1000", string(connection, "SELECT name FROM jdbc_item WHERE id = 1000"));
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(5);
            try (ResultSet rows = statement.executeQuery("SELECT id FROM jdbc_item")) {
                int count = 0;
                while (rows.next()) {
                    count++;
                }
                equal(5, count);
            }
        }
    }

    private static void generatedKeys(Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO jdbc_item (id, name) VALUES (?, ?)", new String[] {"id", "price"})) {
            insert.setLong(1, 3000);
            insert.setString(2, "with keys");
            equal(1, insert.executeUpdate());
            try (ResultSet keys = insert.getGeneratedKeys()) {
                equal(true, keys.next());
                equal(3000L, keys.getLong("id"));
                equal(null, keys.getBigDecimal("price"));
            }
        }
        try (Statement update = connection.createStatement()) {
            equal(1, update.executeUpdate("UPDATE jdbc_item SET sold = 5 WHERE id = 3000", Statement.RETURN_GENERATED_KEYS));
            try (ResultSet row = update.getGeneratedKeys()) {
                equal(true, row.next());
                equal("with keys", row.getString("name"));
                equal(5, row.getInt("sold"));
            }
        }
        execute(connection, "DELETE FROM jdbc_item WHERE id = 3000");
    }

    private static void copy(Connection connection) throws Exception {
        CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder rows = new StringBuilder();
        for (int id = 4000; id < 9000; id++) {
            rows.append(id).append(",\"copied, ").append(id).append("\",,7\n");
        }
        equal(5000L, copy.copyIn("COPY jdbc_item FROM STDIN WITH (FORMAT csv)", new StringReader(rows.toString())));
        StringWriter out = new StringWriter();
        equal(2L, copy.copyOut("COPY (SELECT * FROM jdbc_item WHERE id BETWEEN 4000 AND 4001 ORDER BY id) TO STDOUT", out));
        equal("4000\tcopied, 4000\t\\N\t7\n4001\tcopied, 4001\t\\N\t7\n", out.toString());
        try {
            copy.copyIn("COPY jdbc_item FROM STDIN", new StringReader("9001\tfine\t\\N\t1\n1\tduplicate\t\\N\t1\n"));
            throw new AssertionError("a duplicate key was accepted");
        } catch (SQLException error) {
            equal("23505", error.getSQLState());
        }
        equal(0L, number(connection, "SELECT count(*) FROM jdbc_item WHERE id = 9001"));
        execute(connection, "DELETE FROM jdbc_item WHERE id >= 4000");
    }

    private static void transactions(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        execute(connection, "UPDATE jdbc_item SET name = 'outer' WHERE id = 1");
        Savepoint savepoint = connection.setSavepoint("inner");
        execute(connection, "UPDATE jdbc_item SET name = 'inner' WHERE id = 1");
        connection.rollback(savepoint);
        equal("outer", string(connection, "SELECT name FROM jdbc_item WHERE id = 1"));
        connection.commit();
        execute(connection, "DELETE FROM jdbc_item");
        connection.rollback();
        equal("outer", string(connection, "SELECT name FROM jdbc_item WHERE id = 1"));
        connection.commit();
        connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        equal(1000L, number(connection, "SELECT count(*) FROM jdbc_item"));
        try (Connection other = connect()) {
            execute(other, "INSERT INTO jdbc_item (id, name) VALUES (5000, 'later')");
            equal(1000L, number(connection, "SELECT count(*) FROM jdbc_item"));
            connection.commit();
            equal(1001L, number(connection, "SELECT count(*) FROM jdbc_item"));
            connection.commit();
            execute(other, "DELETE FROM jdbc_item WHERE id = 5000");
        }
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        connection.setAutoCommit(true);
    }

    private static void errors(Connection connection) throws SQLException {
        String[][] cases = {
            {"42P01", "SELECT * FROM jdbc_missing"},
            {"42703", "SELECT missing FROM jdbc_item"},
            {"42601", "SELECT FROM WHERE"},
            {"23505", "INSERT INTO jdbc_item (id, name) VALUES (1, 'x')"},
            {"23502", "INSERT INTO jdbc_item (id) VALUES (9000)"},
            {"22012", "SELECT 1 / (sold - sold) FROM jdbc_item"},
            {"22P02", "SELECT 'x'::integer"},
        };
        for (String[] one : cases) {
            try {
                execute(connection, one[1]);
                throw new AssertionError("no error: " + one[1]);
            } catch (SQLException error) {
                equal(one[0], error.getSQLState());
            }
        }
    }

    private static void cancel(Connection connection) throws Exception {
        // Statement.cancel() would ask once only.
        PGConnection driver = connection.unwrap(PGConnection.class);
        try (Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    // A request that comes before the query has begun is lost, as the protocol has it: ask again.
                    while (!Thread.interrupted()) {
                        driver.cancelQuery();
                        Thread.sleep(50);
                    }
                } catch (SQLException | InterruptedException ended) {
                    Thread.currentThread().interrupt();
                }
            });
            canceller.start();
            try {
                statement.executeQuery(ENDLESS);
                throw new AssertionError("the query was not cancelled");
            } catch (SQLException error) {
                equal("57014", error.getSQLState());
            } finally {
                canceller.interrupt();
                canceller.join();
            }
        }
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery(ENDLESS);
            throw new AssertionError("the query did not time out");
        } catch (SQLException error) {
            equal("57014", error.getSQLState());
        }
        // Out of reach of a cancel request that is still on its way.
        try (Connection other = connect()) {
            equal(1000L, number(other, "SELECT count(*) FROM jdbc_item"));
        }
    }

    private static void session(Connection connection) throws SQLException {
        equal("PostgreSQL", connection.getMetaData().getDatabaseProductName());
        equal(true, connection.isValid(5));
        equal("jdbc tour", string(connection, "SHOW application_name"));
        connection.setClientInfo("ApplicationName", "renamed");
        equal("renamed", string(connection, "SHOW application_name"));
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static String string(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            equal(true, rows.next());
            return rows.getString(1);
        }
    }

    private static long number(Connection connection, String sql) throws SQLException {
        return Long.parseLong(string(connection, sql));
    }

    private static void equal(Object expected, Object got) {
        if (!Objects.equals(expected, got)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }
}
