//! Workloads: each asks one question of a server, over one door, and knows what every answer must be.
//!
//! Called by `run`: [`Kind::find`] by name, then [`Workload::prepare`] once per target, [`Workload::caller`] once per
//! connection, and [`Workload::clear`] where the server is not the lab's own. To add one, add a row to [`KINDS`].

mod choose;
mod keys;
mod kv;
pub(crate) mod rows;
#[cfg(test)]
pub(crate) mod same;
mod sizes;
mod sql;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::load::Caller;
use crate::numbers::Numbers;
pub(crate) use keys::{key_number, value};
pub(crate) use sizes::Sizes;
pub(crate) use sql::Shape;

/// The protocol that a workload speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Redis's.
    Resp,
    /// PostgreSQL's.
    Sql,
}

impl Door {
    /// Its name in texts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resp => "RESP",
            Self::Sql => "PostgreSQL",
        }
    }
}

/// Where a workload finds a target, and what is peculiar there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The door of the workload.
    pub(crate) address: SocketAddr,
    /// Whether it is a PostgreSQL of the lab: its tables are unlogged, and vacuumed once they are full.
    pub(crate) postgres: bool,
    /// Whether it keeps what is written: all do but the target noop.
    pub(crate) stores: bool,
}

/// Told how much of the preparation is done; an error ends it.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

/// A workload with its sizes.
pub(crate) trait Workload {
    /// Puts the data into a target.
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()>;

    /// Opens one connection that makes the workload's requests, chosen by `numbers`.
    fn caller(&self, place: Place, numbers: Numbers) -> Result<Box<dyn Caller>>;

    /// Takes out of a target what [`Workload::prepare`] put there.
    fn clear(&self, place: Place) -> Result<()>;

    /// What its sizes are, by the names of their flags.
    fn parameters(&self) -> BTreeMap<String, Value>;
}

/// A workload as it is listed.
pub(crate) struct Kind {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What it asks.
    pub(crate) question: &'static str,
    /// The protocol that it speaks.
    pub(crate) door: Door,
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
        sizes: &["keys", "value-bytes", "distribution", "pipeline"],
        make: |sizes| kv::workload(sizes, kv::Mix::Get),
    },
    Kind {
        name: "kv-put",
        question: "How fast is a value overwritten by its key?",
        door: Door::Resp,
        sizes: &["keys", "value-bytes", "distribution", "pipeline"],
        make: |sizes| kv::workload(sizes, kv::Mix::Put),
    },
    Kind {
        name: "kv-mixed",
        question: "How fast are reads and overwrites of values by key, mixed?",
        door: Door::Resp,
        sizes: &["keys", "value-bytes", "distribution", "pipeline", "read-percent"],
        make: |sizes| kv::workload(sizes, kv::Mix::Mixed),
    },
    Kind {
        name: "kv-batch",
        question: "How fast are many values read or overwritten by one command (MGET, MSET)?",
        door: Door::Resp,
        sizes: &["keys", "value-bytes", "distribution", "pipeline", "read-percent", "batch"],
        make: |sizes| kv::workload(sizes, kv::Mix::Batch),
    },
    Kind {
        name: "sql-key",
        question: "How fast does prepared SQL read one row by its primary key?",
        door: Door::Sql,
        sizes: &["rows", "distribution"],
        make: |sizes| sql::workload(sizes, Shape::Key),
    },
    Kind {
        name: "sql-update",
        question: "How fast does prepared SQL change two columns of one row by its primary key?",
        door: Door::Sql,
        sizes: &["rows", "distribution"],
        make: |sizes| sql::workload(sizes, Shape::Update),
    },
    Kind {
        name: "sql-sum",
        question: "How fast is the sum of one column over all rows?",
        door: Door::Sql,
        sizes: &["rows"],
        make: |sizes| sql::workload(sizes, Shape::Sum),
    },
    Kind {
        name: "sql-range",
        question: "How fast are the rows between two primary keys found and sent?",
        door: Door::Sql,
        sizes: &["rows", "range-rows"],
        make: |sizes| sql::workload(sizes, Shape::Range),
    },
    Kind {
        name: "sql-fetch",
        question: "How fast are all rows, with a text and twenty integers each, sent to a client?",
        door: Door::Sql,
        sizes: &["rows"],
        make: |sizes| sql::workload(sizes, Shape::Fetch),
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

    /// The workload with these sizes; those that it does not have are refused.
    pub(crate) fn with(&self, sizes: &Sizes) -> Result<Box<dyn Workload>> {
        if let Some(flag) = sizes.given().into_iter().find(|flag| !self.sizes.contains(flag)) {
            bail!("{} has no --{flag}; it has --{}", self.name, self.sizes.join(", --"));
        }
        (self.make)(sizes)
    }
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
        assert_eq!(refusal, "kv-get has no --rows; it has --keys, --value-bytes, --distribution, --pipeline");
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
