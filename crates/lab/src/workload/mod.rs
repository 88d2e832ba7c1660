//! Workloads: each asks one question of a server, over one door, and knows what every answer must be.
//!
//! Called by `run`: [`Kind::find`] by name, then [`Workload::prepare`] once per target, [`Workload::caller`] once per
//! connection, [`Workload::verify`] at the end of a repetition, and [`Workload::clear`] where the server is not the lab's own. To add one, add a row to [`KINDS`].

mod analytic;
mod beside;
mod choose;
mod copy;
mod documents;
mod keys;
mod kv;
pub(crate) mod rows;
#[cfg(test)]
pub(crate) mod same;
mod shape;
mod shards;
mod sizes;
mod sql;
mod structured;
mod tables;
mod tpcb;
mod tpcc;
mod transaction;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::foreign::Work;
use crate::load::Caller;
use crate::numbers::Numbers;
use crate::targets::Target;
pub(crate) use analytic::{hash_build_keys, hash_probe_keys};
pub(crate) use keys::{key_number, value};
pub(crate) use shape::Shape;
pub(crate) use shards::Shards;
use sizes::Field;
pub(crate) use sizes::{Columns, Counted, Protocol, Sizes, ValueShape};
pub(crate) use structured::{FIELDS, Structured, key_of};

/// The protocol that a workload speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Redis's.
    Resp,
    /// PostgreSQL's.
    Sql,
    /// SQL as text, and rows as text: PostgreSQL's protocol, or that of an engine which the lab runs in a process of its own.
    Text,
}

impl Door {
    /// Its name in texts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resp => "RESP",
            Self::Sql => "PostgreSQL",
            Self::Text => "SQL text",
        }
    }
}

/// Where a workload finds a target, and what is peculiar there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The door of the workload.
    pub(crate) address: SocketAddr,
    /// Where rows that a RESP workload addresses get their table: the PostgreSQL door of a target that has both.
    pub(crate) rows: Option<SocketAddr>,
    /// Whether it is a PostgreSQL of the lab: its tables are unlogged, and vacuumed once they are full.
    pub(crate) postgres: bool,
    /// Whether it keeps what is written: all do but the target noop.
    pub(crate) stores: bool,
    /// Whether it is an engine in a process of the lab's, which speaks that process's protocol.
    pub(crate) engine: bool,
    /// The servers behind one that spreads rows over them and takes no COPY: data is put into them directly.
    pub(crate) shards: Option<Shards>,
}

/// Told how much of the preparation is done; an error ends it.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

/// A workload with its sizes.
pub(crate) trait Workload {
    /// Puts the data into a target.
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()>;

    /// Opens one connection that makes the workload's requests, chosen by `numbers`.
    fn caller(&self, place: Place, numbers: Numbers) -> Result<Box<dyn Caller>>;

    /// The names of its queries, each of which is measured by itself; none if it has no such.
    fn queries(&self) -> Vec<String> {
        Vec::new()
    }

    /// Opens the connection that asks one of its queries.
    fn query_caller(&self, _place: Place, query: &str) -> Result<Box<dyn Caller>> {
        bail!("there is no query {query:?}")
    }

    /// What a foreign program is told to send in place of callers.
    fn work(&self) -> Option<Work> {
        None
    }

    /// Looks whether what such a program left there is right, after so many of its requests; says what is not.
    fn work_fault(&self, _place: Place, _operations: u64) -> Result<Option<String>> {
        Ok(None)
    }

    /// Opens the connection that asks something else for as long as callers call, if there is to be one.
    fn beside(&self, _place: Place) -> Result<Option<Box<dyn Caller>>> {
        Ok(None)
    }

    /// Its steps, if it is measured by what it leaves there.
    fn steps(&self) -> Option<&dyn Steps> {
        None
    }

    /// Looks whether what was written is consistent, after the last measurement of a repetition; says what is not. By then no
    /// caller is left.
    ///
    /// An error means that the target is lost.
    fn verify(&self, _place: Place) -> Result<Option<String>> {
        Ok(None)
    }

    /// Takes out of a target what [`Workload::prepare`] put there.
    fn clear(&self, place: Place) -> Result<()>;

    /// What its sizes are, by the names of their flags.
    fn parameters(&self) -> BTreeMap<String, Value>;
}

/// Steps of a workload, each of which is done once, in their order, and then the server is looked at.
pub(crate) trait Steps {
    /// Their names.
    fn names(&self) -> &'static [&'static str];

    /// How many entries there are after each.
    fn entries(&self) -> u64;

    /// Does a step; how many entries it wrote.
    fn step(&self, place: Place, name: &str, progress: Progress<'_>) -> Result<u64>;

    /// Says what is not there that all steps up to this one wrote.
    fn fault(&self, place: Place, name: &str) -> Result<Option<String>>;
}

/// A workload as it is listed.
pub(crate) struct Kind {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What it asks.
    pub(crate) question: &'static str,
    /// The protocol that it speaks.
    pub(crate) door: Door,
    /// Whether its answers depend on what was written: then `noop`, which keeps nothing, is no target for it.
    needs_store: bool,
    /// The flags that it has.
    sizes: &'static [&'static str],
    make: fn(&Sizes) -> Result<Box<dyn Workload>>,
}

/// All workloads, in the order in which they are listed.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "kv-get",
        question: "How fast is a value read by its key?",
        door: Door::Resp,
        needs_store: false,
        sizes: &["keys", "value-shape", "value-bytes", "distribution", "pipeline", "beside-rows"],
        make: |sizes| kv::workload(sizes, kv::Mix::Get),
    },
    Kind {
        name: "kv-put",
        question: "How fast is a value overwritten by its key?",
        door: Door::Resp,
        needs_store: false,
        sizes: &["keys", "value-shape", "value-bytes", "distribution", "pipeline"],
        make: |sizes| kv::workload(sizes, kv::Mix::Put),
    },
    Kind {
        name: "kv-mixed",
        question: "How fast are reads and overwrites of values by key, mixed?",
        door: Door::Resp,
        needs_store: false,
        sizes: &["keys", "value-shape", "value-bytes", "distribution", "pipeline", "read-percent"],
        make: |sizes| kv::workload(sizes, kv::Mix::Mixed),
    },
    Kind {
        name: "kv-batch",
        question: "How fast are many values read or overwritten by one command (MGET, MSET)?",
        door: Door::Resp,
        needs_store: false,
        sizes: &["keys", "value-bytes", "distribution", "pipeline", "read-percent", "batch"],
        make: |sizes| kv::workload(sizes, kv::Mix::Batch),
    },
    Kind {
        name: "kv-memory",
        question: "How many bytes does an entry take, fresh and after random overwrites?",
        door: Door::Resp,
        needs_store: true,
        sizes: &["keys", "value-bytes", "churn"],
        make: kv::memory,
    },
    Kind {
        name: "sql-key",
        question: "How fast does prepared SQL read one row by its primary key?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "distribution", "columns", "protocol"],
        make: |sizes| sql::workload(sizes, Shape::Key),
    },
    Kind {
        name: "sql-update",
        question: "How fast does prepared SQL change two columns of one row by its primary key?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "distribution", "columns"],
        make: |sizes| sql::workload(sizes, Shape::Update),
    },
    Kind {
        name: "sql-sum",
        question: "How fast is the sum of one column over all rows?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "columns"],
        make: |sizes| sql::workload(sizes, Shape::Sum),
    },
    Kind {
        name: "sql-range",
        question: "How fast are the rows between two primary keys found and sent?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "range-rows"],
        make: |sizes| sql::workload(sizes, Shape::Range),
    },
    Kind {
        name: "sql-fetch",
        question: "How fast are all rows sent to a client, by default with a text and twenty integers each?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "columns"],
        make: |sizes| sql::workload(sizes, Shape::Fetch(Columns::All)),
    },
    Kind {
        name: "sql-count",
        question: "How fast are the rows of a table counted?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "counted"],
        make: |sizes| sql::workload(sizes, Shape::Count(Counted::Rows)),
    },
    Kind {
        name: "sql-json-sum",
        question: "How fast is the sum of one field over all documents of a json column?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "field", "document", "fields"],
        make: |sizes| sql::workload(sizes, Shape::JsonSum(Field::Literal)),
    },
    Kind {
        name: "sql-value",
        question: "How fast does prepared SQL find one row by a column that is not its key, with an index or without?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "distribution", "index", "columns"],
        make: |sizes| sql::workload(sizes, Shape::Value),
    },
    Kind {
        name: "sql-join",
        question: "How fast is a small table joined with a large one by its key, and summed up?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "join-rows"],
        make: |sizes| sql::workload(sizes, Shape::Join),
    },
    Kind {
        name: "sql-group",
        question: "How fast are all rows counted and summed up by a thousand groups?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "columns"],
        make: |sizes| sql::workload(sizes, Shape::Groups),
    },
    Kind {
        name: "query-range",
        question: "How fast are the rows between two values of a column that is not the key found and sent, with an index or without?",
        door: Door::Sql,
        needs_store: false,
        sizes: &["rows", "range-rows", "index"],
        make: |sizes| sql::workload(sizes, Shape::ValueRange),
    },
    Kind {
        name: "copy-in",
        question: "How fast are rows of four columns put by COPY into an empty table with a primary key?",
        door: Door::Sql,
        needs_store: true,
        sizes: &["rows", "connections"],
        make: copy::workload,
    },
    Kind {
        name: "tpcb",
        question: "How many of pgbench's transactions (TPC-B-like: three updates, a read, an insert) are done?",
        door: Door::Sql,
        needs_store: true,
        sizes: &["scale"],
        make: |sizes| tpcb::workload(sizes),
    },
    Kind {
        name: "tpcc",
        question: "How many transactions of TPC-C's mix are done in a second, without think times?",
        door: Door::Sql,
        needs_store: true,
        sizes: &["warehouses", "items", "customers"],
        make: tpcc::workload,
    },
    Kind {
        name: "hash-build",
        question: "How fast, and in how much memory, are rows counted by a key that has very many values?",
        door: Door::Text,
        needs_store: true,
        sizes: &["rows", "items", "unique-percent", "distinct-percent", "ids", "operators"],
        make: analytic::hash_build,
    },
    Kind {
        name: "hash-probe",
        question: "How fast, and in how much memory, are many rows joined with fewer by a key?",
        door: Door::Text,
        needs_store: true,
        sizes: &["rows", "items", "unique-percent", "distinct-percent", "ids", "duplicates", "operators"],
        make: analytic::hash_probe,
    },
    Kind {
        name: "hash-wide",
        question: "How fast, and in how much memory, are rows of many columns and long texts joined and grouped?",
        door: Door::Text,
        needs_store: true,
        sizes: &["rows", "items", "payload-columns", "value-bytes", "operators"],
        make: analytic::hash_wide,
    },
    Kind {
        name: "tpch",
        question: "How fast, and in how much memory, is each of the 22 queries of TPC-H answered?",
        door: Door::Text,
        needs_store: true,
        sizes: &["scale", "operators"],
        make: analytic::tpch,
    },
    Kind {
        name: "tpcds",
        question: "How fast, and in how much memory, is each of the 99 queries of TPC-DS answered?",
        door: Door::Text,
        needs_store: true,
        sizes: &["scale", "operators"],
        make: analytic::tpcds,
    },
];

impl Kind {
    /// The workload of this name.
    pub(crate) fn find(name: &str) -> Result<&'static Kind> {
        match KINDS.iter().find(|kind| kind.name == name) {
            Some(kind) => Ok(kind),
            None => {
                let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
                bail!("there is no workload {name:?}; there are {}", names.join(", "));
            }
        }
    }

    /// The flags that say how large it is.
    pub(crate) fn sizes(&self) -> &'static [&'static str] {
        self.sizes
    }

    /// Whether this target can be asked at all; else why not.
    pub(crate) fn takes(&self, target: &Target) -> Result<(), String> {
        if self.needs_store && *target == Target::Noop {
            return Err(format!("it keeps nothing, and the answers of {} depend on what was written", self.name));
        }
        if matches!(target, Target::ShardingSphere(_)) && !["tpcc", "sql-group", "sql-join"].contains(&self.name) {
            return Err(format!("it is there for tpcc, sql-group and sql-join, and not for {}", self.name));
        }
        if matches!(target, Target::AshlarProxy(_)) && self.name == "copy-in" {
            return Err("it takes no COPY into sharded tables".to_owned());
        }
        if *target == Target::PlainLoop && self.name != "sql-sum" {
            return Err(format!("it adds up integers, which is not what {} asks for", self.name));
        }
        if matches!(target, Target::Remote(_)) && self.name == "kv-memory" {
            return Err("nobody knows what a server takes that somebody else started".to_owned());
        }
        Ok(())
    }

    /// The workload with these sizes; those that it does not have are refused.
    pub(crate) fn with(&self, sizes: &Sizes) -> Result<Box<dyn Workload>> {
        if let Some(flag) = sizes.given().into_iter().find(|flag| !self.sizes.contains(flag)) {
            bail!("{} has no --{flag}; it has --{}", self.name, self.sizes.join(", --"));
        }
        (self.make)(sizes)
    }
}

/// The names of the tables of `tpcc`.
#[cfg(test)]
pub(crate) fn tpcc_tables() -> Vec<String> {
    tpcc::tables()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_says_exactly_the_sizes_that_it_takes() {
        for kind in KINDS {
            let workload = kind.with(&Sizes::default()).unwrap();
            let named: Vec<String> = workload.parameters().into_keys().map(|name| name.replace('_', "-")).collect();
            let mut taken = kind.sizes.to_vec();
            taken.sort_unstable();
            assert_eq!(named, taken, "{}", kind.name);
            assert!(kind.question.ends_with('?'), "{}", kind.name);
        }
    }

    #[test]
    fn sizes_of_other_workloads_are_refused() {
        let sizes = Sizes { rows: Some(5), ..Sizes::default() };
        let refusal = Kind::find("kv-get").unwrap().with(&sizes).err().unwrap().to_string();
        assert_eq!(
            refusal,
            "kv-get has no --rows; it has --keys, --value-shape, --value-bytes, --distribution, --pipeline, --beside-rows"
        );
        let sizes = Sizes { value_bytes: Some(1 << 20), pipeline: Some(3), ..Sizes::default() };
        let refusal = Kind::find("kv-get").unwrap().with(&sizes).err().unwrap().to_string();
        assert!(refusal.contains("more than the 2097152 bytes"), "{refusal}");
        assert!(
            Kind::find("kv-gte")
                .err()
                .unwrap()
                .to_string()
                .contains("there is no workload \"kv-gte\"; there are kv-get")
        );
    }
}
