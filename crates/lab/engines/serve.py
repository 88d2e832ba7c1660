"""A process that an engine runs in: DuckDB, DataFusion, ClickHouse (chdb) or Polars, which have no door of their own.

Started by ashlar-lab, which is the only one that connects. Listens on the loopback interface; a request is a line of
JSON, and so is its answer (crates/lab/src/door/engine.rs has the list). One statement runs at a time. Everything is in memory.
"""

import argparse
import ctypes
import gc
import json
import os
import re
import signal
import socketserver
import sys
import threading


class DuckDb:
    """https://duckdb.org/docs/stable/clients/python/overview"""

    def __init__(self, settings):
        import duckdb

        self.version = duckdb.__version__
        self.connection = duckdb.connect(":memory:", config=settings)

    def load(self, table, columns, file, has_nulls):
        declared = ", ".join(f"{name} {type}" for name, type in columns)
        self.connection.execute(f"CREATE TABLE {table} ({declared})")
        form = "FORMAT csv, DELIMITER '\t', HEADER false, QUOTE '', ESCAPE '', NULLSTR '\\N', AUTO_DETECT false"
        self.connection.execute(f"COPY {table} FROM '{file}' ({form})")

    def ask(self, sql, rows_max):
        return self.fetch(self.connection.execute(sql), rows_max)

    def fetch(self, result, rows_max):
        values, count = [], 0
        while batch := result.fetchmany(10_000):
            count += len(batch)
            values.extend(batch[: rows_max - len(values)])
        return count, values

    def memory(self, sql):
        """The most that its buffer manager held while the statement ran, tables included."""
        self.connection.execute("PRAGMA enable_profiling = 'no_output'")
        try:
            self.fetch(self.connection.execute(sql), 0)
            profile = json.loads(self.connection.get_profiling_information(format="json"))
        finally:
            self.connection.execute("PRAGMA disable_profiling")
        return profile["system"].get("peak_buffer_memory")

    def trim(self):
        """It empties its allocator when it is told its limit, here the one that it has."""
        (limit,) = self.connection.execute("SELECT current_setting('memory_limit')").fetchone()
        self.connection.execute(f"SET memory_limit = '{limit}'")


class DataFusion:
    """https://datafusion.apache.org/python/"""

    def __init__(self, settings):
        import datafusion

        self.version = datafusion.__version__
        config = datafusion.SessionConfig()
        for name, value in settings.items():
            config = config.set(name, value)
        self.context = datafusion.SessionContext(config)

    def load(self, table, columns, file, has_nulls):
        declared = ", ".join(f"{name} {type}" for name, type in columns)
        nulls = r", 'format.null_regex' '^\\N$'" if has_nulls else ""
        options = f"OPTIONS ('format.delimiter' '\t', 'format.has_header' 'false'{nulls})"
        self.run(f"CREATE EXTERNAL TABLE file_of_{table} ({declared}) STORED AS CSV LOCATION '{file}' {options}")
        # A table in memory, in as many parts as there are threads.
        self.run(f"CREATE TABLE {table} AS SELECT * FROM file_of_{table}")
        self.run(f"DROP TABLE file_of_{table}")

    def run(self, sql):
        return self.context.sql(sql).collect()

    def ask(self, sql, rows_max):
        values, count = [], 0
        for batch in self.run(sql):
            count += batch.num_rows
            batch = batch.slice(0, rows_max - len(values))
            values.extend(zip(*(column.to_pylist() for column in batch.columns)))
        return count, values

    # What operators say they have charged to the pool of memory at most, each by itself; a KB has 1024 bytes there.
    CHARGED = re.compile(r"\b(?:peak_mem_used|build_mem_used|mem_used)=([\d.]+) ([KMGT]?)B\b")

    def memory(self, sql):
        """The sum of the peaks of all operators, which need not have been at one time. Not all operators say it."""
        batches = self.run(f"EXPLAIN ANALYZE {sql}")
        # Each value by itself: the text of a batch has no more than the beginnings of long ones.
        plan = "\n".join(str(line) for batch in batches for column in batch.columns for line in column.to_pylist())
        found = self.CHARGED.findall(plan)
        return sum(int(float(n) * 1024 ** " KMGT".index(unit or " ")) for n, unit in found) if found else None

    def trim(self):
        """Its allocator gives back when it is used some time later."""
        self.run("SELECT 1")


class Chdb:
    """https://clickhouse.com/docs/chdb/install/python"""

    def __init__(self, settings):
        import chdb
        from chdb import session

        self.version = f"{chdb.__version__} (ClickHouse {chdb.engine_version})"
        self.session = session.Session()
        for name, value in settings.items():
            self.session.query(f"SET {name} = {value}")

    def load(self, table, columns, file, has_nulls):
        form = "{} Nullable({})" if has_nulls else "{} {}"
        declared = ", ".join(form.format(name, type) for name, type in columns)
        self.session.query(f"CREATE TABLE {table} ({declared}) ENGINE = Memory")
        self.session.query(f"INSERT INTO {table} SELECT * FROM file('{file}', 'TSV', '{declared}')")

    def ask(self, sql, rows_max):
        answer = json.loads(self.session.query(sql, "JSONCompactStrings").bytes())
        return len(answer["data"]), answer["data"][:rows_max]

    def memory(self, sql):
        """That would stand in its log of queries, which it has not inside another process."""
        return None

    def trim(self):
        self.session.query("SYSTEM JEMALLOC PURGE")


class Polars:
    """https://docs.pola.rs/api/python/stable/reference/sql/python_api.html"""

    TYPES = {"integer": "Int32", "bigint": "Int64", "date": "Date", "double precision": "Float64"}
    DROP = re.compile(r"DROP TABLE IF EXISTS (\w+)")

    def __init__(self, settings):
        import polars

        self.polars = polars
        self.version = polars.__version__
        self.context = polars.SQLContext(eager=True)

    def type(self, name):
        if decimal := re.fullmatch(r"(?:numeric|decimal)\((\d+), ?(\d+)\)", name):
            return self.polars.Decimal(*map(int, decimal.groups()))
        return getattr(self.polars, self.TYPES.get(name, "String"))

    def load(self, table, columns, file, has_nulls):
        schema = {name: self.type(type) for name, type in columns}
        nulls = "\\N" if has_nulls else None
        form = {"separator": "\t", "has_header": False, "quote_char": None, "null_values": nulls}
        self.context.register(table, self.polars.read_csv(file, schema=schema, **form))

    def ask(self, sql, rows_max):
        if dropped := self.DROP.fullmatch(sql):
            if dropped[1] in self.context.tables():
                self.context.unregister(dropped[1])
            return 0, []
        frame = self.context.execute(sql)
        return frame.height, frame.head(rows_max).rows()

    def memory(self, sql):
        """It does not say."""
        return None

    def trim(self):
        """Its allocator gives back when it is used some time later, and lets the kernel take the pages when it likes."""
        self.polars.DataFrame({"a": range(1000)}).group_by("a").len()


# madvise(2): pages that nobody needs may go now.
MADV_PAGEOUT = 21


def trim(engine):
    """Gives back what loading has freed. What stayed resident of it would count as data, and a query that takes it as nothing."""
    try:
        engine.trim()
    except Exception as error:  # An engine without such a statement keeps what it has: the log of the run says so.
        print(f"not trimmed: {type(error).__name__}: {error}", file=sys.stderr)
    gc.collect()
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        # Of glibc; other libraries give back by themselves.
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
        try:
            drop_lazily_freed(library)
        except OSError as error:  # Of a kernel that does not show its mappings, or has no notion of swapping: all is left as it is.
            print(f"not dropped: {error}", file=sys.stderr)


def drop_lazily_freed(library):
    """Has the kernel drop pages that an allocator has said it does not need (MADV_FREE), which are resident until memory is short.
    Others stay, for nothing can be swapped; where something can, and where huge pages would be split, all is left as it is."""
    with open("/proc/swaps") as swaps:
        if len(swaps.readlines()) > 1:
            return
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/smaps") as smaps:
        mappings = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps.read(), flags=re.MULTILINE)
    for mapping in filter(None, mappings):
        held = dict(re.findall(r"^(LazyFree|AnonHugePages): +(\d+) kB$", mapping, flags=re.MULTILINE))
        if held.get("LazyFree", "0") != "0" and held.get("AnonHugePages") == "0":
            first, last = (int(bound, 16) for bound in mapping.split(" ", 1)[0].split("-"))
            library.madvise(first, last - first, MADV_PAGEOUT)


def text(value):
    """A value in a form that has the same meaning for all engines; NULL is null."""
    return value if value is None else str(value)


class Conversation(socketserver.StreamRequestHandler):
    """A connection: requests until it is closed."""

    # An answer is one write, and its reader waits for it.
    disable_nagle_algorithm = True

    def handle(self):
        for line in self.rfile:
            request = json.loads(line)
            with self.server.turn:
                try:
                    answer = self.answer(self.server.engine, request)
                except Exception as error:  # Whatever an engine raises is its answer.
                    answer = {"error": f"{type(error).__name__}: {error}"}
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    def answer(self, engine, request):
        match request["do"]:
            case "version":
                return {"version": engine.version}
            case "load":
                engine.load(request["table"], request["columns"], request["file"], request["has_nulls"])
                _, values = engine.ask(f"SELECT count(*) FROM {request['table']}", 1)
                return {"rows": int(values[0][0])}
            case "ask":
                count, values = engine.ask(request["sql"], request["rows_max"])
                values = [[text(value) for value in row] for row in values]
                return {"rows": count, "values": values}
            case "memory":
                return {"bytes": engine.memory(request["sql"])}
            case "trim":
                trim(engine)
                return {}
            case other:
                raise ValueError(f"there is no request {other!r}")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser()
    engines = {"duckdb": DuckDb, "datafusion": DataFusion, "chdb": Chdb, "polars": Polars}
    parser.add_argument("engine", choices=engines)
    parser.add_argument("--ready-file", required=True)
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.setting)
    # At once, whatever the engine is doing: nothing is kept.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: os._exit(0))
    with Server(("127.0.0.1", 0), Conversation) as server:
        server.engine = engines[arguments.engine](settings)
        server.turn = threading.Lock()
        # Renamed, so that nobody reads half of it.
        with open(arguments.ready_file + ".part", "w") as ready:
            ready.write("%s:%s\n" % server.server_address)
        os.rename(arguments.ready_file + ".part", arguments.ready_file)
        server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
