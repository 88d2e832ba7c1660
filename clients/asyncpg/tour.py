"""asyncpg: prepared statements in binary, arrays of every type, which it asks the catalog about, and the catalog's own types.

Plain PostgreSQL: the same program runs against both servers. Host and port come from PGHOST and PGPORT.
"""

import asyncio
import datetime as dt
import uuid
from decimal import Decimal

import asyncpg

ARRAYS = {
    "boolean": [True, None, False],
    "smallint": [1, -2],
    "integer": [1, None, 3],
    "bigint": [1 << 40],
    "real": [1.5],
    "double precision": [0.1, None],
    "numeric(20,5)": [Decimal("1.50000")],
    "text": ["a,b", 'q"q', None, ""],
    "varchar": ["v"],
    "bytea": [b"\x00\xff"],
    "date": [dt.date(2024, 2, 29)],
    "time": [dt.time(23, 59, 59)],
    "timestamp": [dt.datetime(1999, 12, 31, 23, 59, 59, 1)],
    "timestamptz": [dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone.utc)],
    "interval": [dt.timedelta(days=3, seconds=7)],
    "uuid": [uuid.UUID("0123456789abcdef0123456789abcdef")],
}


async def arrays(conn):
    """As parameters and as results. Of each type it asks which one its elements have, and remembers it."""
    for name, value in ARRAYS.items():
        assert await conn.fetchval(f"SELECT $1::{name}[]", value) == value, name
        assert await conn.fetchval(f"SELECT $1::{name}[]", []) == [], name
    await conn.execute("CREATE TABLE asyncpg_item (id integer PRIMARY KEY, tags text[], counts integer[])")
    await conn.execute("INSERT INTO asyncpg_item VALUES ($1, $2, $3)", 1, ["a", "b"], [1, 2])
    await conn.executemany("INSERT INTO asyncpg_item VALUES ($1, $2, $3)", [(2, [], None), (3, None, [7])])
    rows = await conn.fetch("SELECT * FROM asyncpg_item WHERE id = ANY($1::integer[]) ORDER BY id", [1, 3])
    assert [tuple(row) for row in rows] == [(1, ["a", "b"], [1, 2]), (3, None, [7])], rows
    await conn.execute("DROP TABLE asyncpg_item")


async def catalog(conn):
    """Object numbers are numbers of four bytes."""
    statement = await conn.prepare(
        "SELECT oid, (SELECT array_agg(t.oid) FROM pg_type t WHERE t.typname = 'int4') AS own"
        " FROM pg_type WHERE oid = ANY($1::oid[]) ORDER BY oid"
    )
    assert [parameter.name for parameter in statement.get_parameters()] == ["oid[]"]
    assert [column.type.name for column in statement.get_attributes()] == ["oid", "oid[]"]
    rows = await statement.fetch([25, 23])
    assert [tuple(row) for row in rows] == [(23, [23]), (25, [23])], rows
    assert await conn.fetchval("SELECT array_agg(oid) FROM pg_class WHERE relname = 'asyncpg_nothing'") is None


async def parameters(conn):
    """What a statement says its parameters are, where nothing but their place says it."""
    await conn.execute("CREATE TABLE asyncpg_place (id integer PRIMARY KEY, b bigint, s text, xs integer[])")
    for sql, expected in (
        ("SELECT id FROM asyncpg_place UNION SELECT $1", ["int4"]),
        ("SELECT id FROM asyncpg_place WHERE $1 BETWEEN id AND b", ["int4"]),
        ("SELECT make_date($1, $2, $3)", ["int4"] * 3),
        ("SELECT xs[$1], xs[$2:$3] FROM asyncpg_place", ["int4"] * 3),
        ("SELECT xs || $1, $2 || xs FROM asyncpg_place", ["int4[]"] * 2),
        ("SELECT * FROM generate_series(1, $1)", ["int4"]),
        ("SELECT ntile($1) OVER (), lag(id, $2) OVER () FROM asyncpg_place", ["int4"] * 2),
        (
            "INSERT INTO asyncpg_place (id, s) VALUES ($1, $2)"
            " ON CONFLICT (id) DO UPDATE SET s = $3 || excluded.s, b = $4 + asyncpg_place.b",
            ["int4", "text", "text", "int8"],
        ),
    ):
        statement = await conn.prepare(sql)
        assert [parameter.name for parameter in statement.get_parameters()] == expected, (sql, statement.get_parameters())
    await conn.execute("DROP TABLE asyncpg_place")


async def transactions(conn):
    await conn.execute("CREATE TABLE asyncpg_account (id integer PRIMARY KEY, balance numeric(10,2))")
    async with conn.transaction():
        await conn.execute("INSERT INTO asyncpg_account VALUES ($1, $2)", 1, Decimal("10.50"))
    try:
        async with conn.transaction():
            await conn.execute("UPDATE asyncpg_account SET balance = balance - 1 WHERE id = 1")
            await conn.execute("INSERT INTO asyncpg_account VALUES (1, 0)")
    except asyncpg.UniqueViolationError as error:
        assert error.constraint_name == "asyncpg_account_pkey", error.constraint_name
    else:
        raise AssertionError("a key stands twice")
    assert await conn.fetchval("SELECT balance FROM asyncpg_account WHERE id = 1") == Decimal("10.50")
    async with conn.transaction():
        ids = [row["id"] async for row in conn.cursor("SELECT id FROM asyncpg_account ORDER BY id")]
    assert ids == [1], ids
    await conn.execute("DROP TABLE asyncpg_account")


async def main():
    conn = await asyncpg.connect(timeout=60)
    try:
        await conn.execute("DROP TABLE IF EXISTS asyncpg_item; DROP TABLE IF EXISTS asyncpg_account; DROP TABLE IF EXISTS asyncpg_place")
        await arrays(conn)
        await catalog(conn)
        await parameters(conn)
        await transactions(conn)
    finally:
        await conn.close()
    # A pool resets what a session has been left with.
    async with asyncpg.create_pool(min_size=1, max_size=2) as pool:
        assert await pool.fetchval("SELECT $1::integer[]", [1]) == [1]
    print("ok")


asyncio.run(main())
