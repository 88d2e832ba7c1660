"""psycopg 3: parameters, binary results, pipelines, prepared statements, COPY, transactions, errors, cancel.

Plain PostgreSQL: the same program runs against both servers. Host and port come from PGHOST and PGPORT.
"""

import datetime as dt
import threading
import uuid
from decimal import Decimal

import psycopg
from psycopg import errors
from psycopg.rows import dict_row, namedtuple_row


def connect(**options):
    return psycopg.connect("", autocommit=True, **options)


def types(conn):
    """Every scalar type and arrays, in text and in binary, as parameters and as results."""
    conn.execute(
        """CREATE TABLE psycopg_types (
            id integer PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision,
            n numeric(20,5), t text, v varchar(20), bin bytea, d date, tm time, ts timestamp, tz timestamptz,
            iv interval, u uuid, j jsonb, ints integer[], texts text[])"""
    )
    values = (
        1, True, -32768, 9223372036854775807, 1.5, 0.1, Decimal("123456789012345.67891"), "grün 🌳", "varchar",
        bytes(range(256)), dt.date(2024, 2, 29), dt.time(23, 59, 59, 999999),
        dt.datetime(1999, 12, 31, 23, 59, 59, 1), dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone.utc),
        dt.timedelta(days=3, seconds=7, microseconds=5), uuid.UUID("0123456789abcdef0123456789abcdef"),
        psycopg.types.json.Jsonb({"a": [1, None, "x"]}), [1, None, 3], ["a,b", 'q"q', None, ""],
    )
    marks = ", ".join(["%s"] * len(values))
    conn.execute(f"INSERT INTO psycopg_types VALUES ({marks})", values)
    binary_marks = ", ".join(["%s"] + ["%b"] * (len(values) - 1))
    conn.execute(f"INSERT INTO psycopg_types VALUES ({binary_marks})", (2, *values[1:]))
    conn.execute("INSERT INTO psycopg_types (id) VALUES (%s)", (3,))
    expected = list(values)
    expected[16] = {"a": [1, None, "x"]}
    for binary in (False, True):
        rows = conn.execute("SELECT * FROM psycopg_types ORDER BY id", binary=binary).fetchall()
        assert len(rows) == 3, rows
        for number, row in zip((1, 2), rows):
            assert list(row) == [number] + expected[1:], (binary, row)
        assert list(rows[2]) == [3] + [None] * (len(values) - 1), rows[2]

    # What a cursor tells about its columns.
    cursor = conn.execute("SELECT id, n, v, ints FROM psycopg_types WHERE id = 1")
    oids = [column.type_code for column in cursor.description]
    assert oids == [23, 1700, 1043, 1007], oids
    assert [c.name for c in cursor.description] == ["id", "n", "v", "ints"]
    assert (cursor.description[1].precision, cursor.description[1].scale) == (20, 5)
    conn.execute("DROP TABLE psycopg_types")


def parameters_and_rows(conn):
    conn.execute("CREATE TABLE psycopg_item (id bigint PRIMARY KEY, name text NOT NULL, price numeric(8,2), sold integer)")
    with conn.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO psycopg_item VALUES (%s, %s, %s, %s)",
            [(i, f"item {i}", Decimal(i) / 4, i % 10) for i in range(1, 101)],
        )
        assert cursor.rowcount == 100, cursor.rowcount
    row = conn.execute("SELECT name, price FROM psycopg_item WHERE id = %s", (42,)).fetchone()
    assert row == ("item 42", Decimal("10.50")), row
    assert conn.execute("SELECT name FROM psycopg_item WHERE id = %s", (1000,)).fetchone() is None
    ids = conn.execute(
        "SELECT id FROM psycopg_item WHERE id = ANY(%s) ORDER BY id DESC", ([3, 1, 2, 500],)
    ).fetchall()
    assert ids == [(3,), (2,), (1,)], ids

    cursor = conn.cursor(row_factory=dict_row)
    got = cursor.execute(
        "INSERT INTO psycopg_item VALUES (%(id)s, %(name)s, NULL, 0) RETURNING *", {"id": 101, "name": "new"}
    ).fetchone()
    assert got == {"id": 101, "name": "new", "price": None, "sold": 0}, got
    named = conn.cursor(row_factory=namedtuple_row).execute(
        "SELECT count(*) AS items, sum(sold) AS sold FROM psycopg_item"
    ).fetchone()
    assert (named.items, named.sold) == (101, 450), named

    # Small integers are sent as smallint, in binary here; among the items of an array they are that too.
    row = conn.execute("SELECT ARRAY[%b, %b::integer], ARRAY[%b], ARRAY[%b::bigint]", (1, 70000, 12597, 2)).fetchone()
    assert row == ([1, 70000], [12597], [2]), row

    cursor = conn.execute("UPDATE psycopg_item SET price = price * 2 WHERE sold = %s", (3,))
    assert cursor.rowcount == 10 and cursor.statusmessage == "UPDATE 10", cursor.statusmessage
    cursor = conn.execute("DELETE FROM psycopg_item WHERE id > %s RETURNING id", (99,))
    assert sorted(cursor.fetchall()) == [(100,), (101,)]

    # Several result sets of one string of the simple protocol.
    cursor = conn.execute("SELECT 1; SELECT 'two'; SELECT id FROM psycopg_item WHERE id = 7")
    sets = [cursor.fetchall()]
    while cursor.nextset():
        sets.append(cursor.fetchall())
    assert sets == [[(1,)], [("two",)], [(7,)]], sets


def prepared(conn):
    query = "SELECT name FROM psycopg_item WHERE id = %s"
    for number in range(1, 21):
        row = conn.execute(query, (number,), prepare=True).fetchone()
        assert row == (f"item {number}",), row
    # A statement that is prepared stays right when its table changes shape.
    conn.execute("ALTER TABLE psycopg_item ADD COLUMN note text")
    assert conn.execute("SELECT note FROM psycopg_item WHERE id = %s", (1,), prepare=True).fetchone() == (None,)
    conn.execute("ALTER TABLE psycopg_item DROP COLUMN note")
    assert conn.execute(query, (5,), prepare=True).fetchone() == ("item 5",)


def pipeline(conn):
    with conn.pipeline() as batch:
        cursors = [conn.execute("SELECT id, %s::text FROM psycopg_item WHERE id = %s", ("p", i)) for i in range(1, 51)]
        batch.sync()
        conn.execute("INSERT INTO psycopg_item VALUES (%s, 'piped', 1, 1)", (200,))
    assert [cursor.fetchone() for cursor in cursors] == [(i, "p") for i in range(1, 51)]
    assert conn.execute("SELECT name FROM psycopg_item WHERE id = 200").fetchone() == ("piped",)

    # An error aborts the rest of its pipeline segment, and only that; a segment is one transaction.
    try:
        with conn.pipeline() as batch:
            conn.execute("INSERT INTO psycopg_item VALUES (201, 'lost', 1, 1)")
            conn.execute("SELECT 1 / %s", (0,))
            conn.execute("INSERT INTO psycopg_item VALUES (202, 'never run', 1, 1)")
            batch.sync()
    except errors.DivisionByZero:
        pass
    else:
        raise AssertionError("the pipeline swallowed an error")
    assert conn.execute("SELECT count(*) FROM psycopg_item WHERE id > 200").fetchone() == (0,)


def copy(conn):
    conn.execute("CREATE TABLE psycopg_copy (id integer PRIMARY KEY, name text, at timestamp)")
    moment = dt.datetime(2024, 1, 1)
    with conn.cursor() as cursor:
        with cursor.copy("COPY psycopg_copy FROM STDIN") as stream:
            for i in range(5000):
                stream.write_row((i, f"tab\there {i}" if i % 3 else None, moment + dt.timedelta(seconds=i)))
        assert cursor.rowcount == 5000, cursor.rowcount
        with cursor.copy("COPY psycopg_copy FROM STDIN (FORMAT binary)") as stream:
            stream.set_types(["int4", "text", "timestamp"])
            for i in range(5000, 6000):
                stream.write_row((i, f"binary {i}", moment))
        with cursor.copy("COPY psycopg_copy FROM STDIN (FORMAT csv)") as stream:
            stream.write('6000,"a ""quoted"" name",2024-01-01\n6001,,\n')
        with cursor.copy("COPY (SELECT id, name FROM psycopg_copy WHERE id < 4 ORDER BY id) TO STDOUT") as stream:
            stream.set_types(["int4", "text"])
            rows = list(stream.rows())
        assert rows == [(0, None), (1, "tab\there 1"), (2, "tab\there 2"), (3, None)], rows
        with cursor.copy(
            "COPY (SELECT id, name, at FROM psycopg_copy WHERE id >= 5999 ORDER BY id) TO STDOUT (FORMAT binary)"
        ) as stream:
            stream.set_types(["int4", "text", "timestamp"])
            rows = list(stream.rows())
        assert rows == [(5999, "binary 5999", moment), (6000, 'a "quoted" name', moment), (6001, None, None)], rows

    # A COPY that fails leaves nothing behind, whoever's fault it is.
    try:
        with conn.cursor().copy("COPY psycopg_copy FROM STDIN") as stream:
            stream.write("7000\tfine\t2024-01-01\nseven\tnot a number\t\\N\n")
        raise AssertionError("a bad value was accepted")
    except errors.InvalidTextRepresentation as error:
        assert "seven" in str(error), error
    try:
        with conn.cursor().copy("COPY psycopg_copy FROM STDIN") as stream:
            stream.write("7001\tfine\t\\N\n")
            raise KeyError("the program gives up")
    except KeyError:
        pass
    assert conn.execute("SELECT count(*), max(id) FROM psycopg_copy").fetchone() == (6002, 6001)

    # Rows one by one and in chunks, as they come from the server.
    seen = sum(1 for _ in conn.cursor().stream("SELECT id FROM psycopg_copy"))
    assert seen == 6002, seen
    seen = sum(1 for _ in conn.cursor().stream("SELECT id, name FROM psycopg_copy WHERE id < %s", (5000,), size=100))
    assert seen == 5000, seen
    cursor = conn.execute("SELECT id FROM psycopg_copy ORDER BY id")
    assert cursor.fetchmany(3) == [(0,), (1,), (2,)]
    assert len(cursor.fetchall()) == 5999
    conn.execute("DROP TABLE psycopg_copy")


def transactions(conn):
    def count():
        return conn.execute("SELECT count(*) FROM psycopg_item WHERE id >= 300").fetchone()[0]

    with conn.transaction():
        conn.execute("INSERT INTO psycopg_item VALUES (300, 'kept', 1, 1)")
        try:
            with conn.transaction():  # a savepoint
                conn.execute("INSERT INTO psycopg_item VALUES (301, 'undone', 1, 1)")
                conn.execute("INSERT INTO psycopg_item VALUES (300, 'duplicate', 1, 1)")
        except errors.UniqueViolation:
            pass
        assert count() == 1
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    assert count() == 1
    try:
        with conn.transaction():
            conn.execute("DELETE FROM psycopg_item")
            assert conn.execute("SELECT count(*) FROM psycopg_item").fetchone() == (0,)
            raise KeyError("changed its mind")
    except KeyError:
        pass
    assert conn.execute("SELECT count(*) FROM psycopg_item").fetchone()[0] > 90

    # What one connection has not committed, another does not see.
    with connect() as other:
        with conn.transaction():
            conn.execute("UPDATE psycopg_item SET name = 'hidden' WHERE id = 1")
            assert other.execute("SELECT name FROM psycopg_item WHERE id = 1").fetchone() == ("item 1",)
        assert other.execute("SELECT name FROM psycopg_item WHERE id = 1").fetchone() == ("hidden",)


def error_fields(conn):
    cases = [
        ("SELECT * FROM psycopg_missing", errors.UndefinedTable),
        ("SELECT missing FROM psycopg_item", errors.UndefinedColumn),
        ("SELECT no_such_function(1)", errors.UndefinedFunction),
        ("INSERT INTO psycopg_item VALUES (1, 'x', 1, 1)", errors.UniqueViolation),
        ("INSERT INTO psycopg_item (id) VALUES (900)", errors.NotNullViolation),
        ("INSERT INTO psycopg_item VALUES (900, 'x', 12345678.9, 1)", errors.NumericValueOutOfRange),
        ("SELECT 'abc'::integer", errors.InvalidTextRepresentation),
        ("SELECT 99999::smallint", errors.NumericValueOutOfRange),
        ("SELECT '2024-02-30'::date", errors.DatetimeFieldOverflow),
        ("SELECT name, count(*) FROM psycopg_item", errors.GroupingError),
        ("SELECT FROM WHERE", errors.SyntaxError),
    ]
    for statement, expected in cases:
        try:
            conn.execute(statement)
        except expected as error:
            assert error.diag.sqlstate == expected.sqlstate and error.diag.severity == "ERROR", error.diag
            assert error.diag.message_primary, statement
        else:
            raise AssertionError(f"no error: {statement}")
    try:
        conn.execute("SELECT 1 +")
    except errors.SyntaxError as error:
        assert error.diag.statement_position == "11", error.diag.statement_position
    try:
        conn.execute("INSERT INTO psycopg_item (id) VALUES (%s)", (900,))
    except errors.NotNullViolation as error:
        diag = error.diag
        assert (diag.table_name, diag.column_name) == ("psycopg_item", "name"), (diag.table_name, diag.column_name)
    assert conn.execute("SELECT count(*) FROM psycopg_item WHERE id = 900").fetchone() == (0,)


def cancel(conn):
    """A query that would run for years ends when another connection asks for it, and its session lives on."""
    outcome = []

    def run():
        try:
            conn.execute(
                "SELECT count(*) FROM psycopg_item a, psycopg_item b, psycopg_item c, psycopg_item d, psycopg_item e, psycopg_item f"
            )
        except psycopg.Error as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():  # a request that comes before the query has begun is lost, as the protocol has it
        conn.cancel_safe()
        thread.join(0.05)
    assert len(outcome) == 1 and isinstance(outcome[0], errors.QueryCanceled), outcome
    assert conn.execute("SELECT 1").fetchone() == (1,)


def session(conn):
    assert conn.info.parameter_status("server_encoding") == "UTF8"
    assert conn.info.parameter_status("integer_datetimes") == "on"
    assert conn.info.server_version >= 150000, conn.info.server_version
    conn.execute("SET application_name = 'psycopg tour'")
    assert conn.info.parameter_status("application_name") == "psycopg tour"
    assert conn.execute("SHOW application_name").fetchone() == ("psycopg tour",)
    row = conn.execute("SELECT '2024-07-01 14:00:00+02'::timestamptz").fetchone()
    assert row[0].timestamp() == 1719835200, row
    with connect(options="-c statement_timeout=2min", application_name="from the start") as other:
        assert other.execute("SHOW statement_timeout").fetchone() in (("2min",), ("120000",))
        assert other.execute("SHOW application_name").fetchone() == ("from the start",)


def main():
    with connect() as conn:
        conn.execute("DROP TABLE IF EXISTS psycopg_types")
        conn.execute("DROP TABLE IF EXISTS psycopg_item")
        conn.execute("DROP TABLE IF EXISTS psycopg_copy")
        types(conn)
        parameters_and_rows(conn)
        prepared(conn)
        pipeline(conn)
        copy(conn)
        transactions(conn)
        error_fields(conn)
        cancel(conn)
        session(conn)
        conn.execute("DROP TABLE psycopg_item")
    print("ok")


main()
