//! The tables of the demo: every flight that left New York in 2013, and what belongs to it.
//!
//! Read by the loader. The columns are those of the Parquet files in `data/nycflights13`, in their order.

/// A table and the file of the same name.
#[derive(Debug)]
pub(super) struct DemoTable {
    /// Its name.
    pub(super) name: &'static str,
    /// What stands between the parentheses of CREATE TABLE.
    pub(super) columns: &'static str,
    /// Rows in the file.
    pub(super) rows: u64,
}

impl DemoTable {
    /// The names of the columns, comma separated.
    pub(super) fn names(&self) -> String {
        let definitions = self.columns.split(", ").filter(|definition| !definition.starts_with("PRIMARY KEY"));
        // A key of several columns has commas of its own, and comes last.
        let names = definitions.map_while(|definition| definition.split_once(' ').map(|(name, _)| name));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// In the order of loading.
pub(super) const TABLES: &[DemoTable] = &[
    DemoTable { name: "airlines", columns: "carrier text PRIMARY KEY, name text NOT NULL", rows: 16 },
    DemoTable {
        name: "airports",
        columns: "faa text PRIMARY KEY, name text NOT NULL, lat double precision, lon double precision, alt integer, \
                  tz smallint, dst text, tzone text",
        rows: 1_458,
    },
    DemoTable {
        name: "planes",
        columns: "tailnum text PRIMARY KEY, year smallint, type text, manufacturer text, model text, \
                  engines smallint, seats smallint, speed smallint, engine text",
        rows: 3_322,
    },
    DemoTable {
        name: "weather",
        columns: "origin text, year smallint, month smallint, day smallint, hour smallint, temp double precision, \
                  dewp double precision, humid double precision, wind_dir smallint, wind_speed double precision, \
                  wind_gust double precision, precip double precision, pressure double precision, \
                  visib double precision, time_hour timestamptz, PRIMARY KEY (origin, time_hour)",
        rows: 26_115,
    },
    DemoTable {
        name: "flights",
        columns: "id bigint PRIMARY KEY, year smallint, month smallint, day smallint, dep_time smallint, \
                  sched_dep_time smallint, dep_delay smallint, arr_time smallint, sched_arr_time smallint, \
                  arr_delay smallint, carrier text, flight integer, tailnum text, origin text, dest text, \
                  air_time smallint, distance integer, hour smallint, minute smallint, time_hour timestamptz",
        rows: 336_776,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_columns_without_types_and_keys() {
        let names: Vec<_> = TABLES.iter().map(DemoTable::names).collect();
        assert_eq!(names[0], "carrier, name");
        assert!(names[3].starts_with("origin, year, ") && names[3].ends_with(", visib, time_hour"), "{}", names[3]);
        assert_eq!(names[4].split(", ").count(), 20);
    }
}
