//! Names of transactions on several servers, and of what each of their servers has prepared.
//!
//! ```text
//! ashlar-INSTALLATION-BEGAN-NUMBER : DECIDER : PLACE
//! └── the transaction, the key of its decision ┘    └── which of its participants
//! ```
//!
//! The decider is the database whose decision counts, under a name that it has for whoever connects to it, by whatever address:
//! the number of its cluster and its own there. So any process that knows it finishes what any other has left.

use std::fmt;

/// How names of ours begin.
pub(super) const PREFIX: &str = "ashlar-";

/// A transaction on several servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transaction {
    /// The installation whose process has begun it.
    pub(super) instance: u64,
    /// When that process began, in microseconds.
    pub(super) began: i64,
    /// Counted by the process.
    pub(super) number: u64,
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:016x}-{:x}-{:x}", self.instance, self.began, self.number)
    }
}

impl Transaction {
    /// The transaction of this name; `None` where it is none of ours.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let mut next = || u64::from_str_radix(parts.next()?, 16).ok();
        let (instance, began, number) = (next()?, i64::try_from(next()?).ok()?, next()?);
        parts.next().is_none().then_some(Self { instance, began, number })
    }
}

/// What a participant prepares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gid {
    /// Of which transaction.
    pub(super) transaction: Transaction,
    /// Whose decision counts.
    pub(super) decider: String,
    /// Which participant: two can be one database, under two names.
    pub(super) place: usize,
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.transaction, self.decider, self.place)
    }
}

impl Gid {
    /// What has been prepared under this name; `None` where it is none of ours.
    pub(super) fn parse(gid: &str) -> Option<Self> {
        let mut parts = gid.split(':');
        let transaction = Transaction::parse(parts.next()?)?;
        let decider = parts.next().filter(|decider| !decider.is_empty())?.to_owned();
        let place = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { transaction, decider, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_was_made_of_and_fits() {
        let transaction = Transaction { instance: u64::MAX, began: i64::MAX, number: u64::MAX };
        let gid = Gid { transaction, decider: "ffffffffffffffff.ffffffff".to_owned(), place: 9999 };
        let name = gid.to_string();
        // PostgreSQL's limit.
        assert!(name.len() < 200, "{name}");
        assert_eq!(Gid::parse(&name), Some(gid));
        let small = Transaction { instance: 1, began: 2, number: 3 };
        assert_eq!(small.to_string(), "ashlar-0000000000000001-2-3");
        assert_eq!(Transaction::parse("ashlar-0000000000000001-2-3"), Some(small));
    }

    #[test]
    fn what_others_have_prepared_is_none_of_ours() {
        for name in [
            "",
            "ashlar-",
            "ashlar-1-2-3",
            "ashlar-1-2-3:d",
            "ashlar-1-2-3:d:x",
            "ashlar-1-2-3:d:0:1",
            "ashlar-1-2-3::0",
            "ashlar-1-2:d:0",
            "ashlar-1-2-3-4:d:0",
            "ashlar-g-2-3:d:0",
            "citus_0_1_2_3",
            "ashlar-0000000000000001-2-3-s0",
        ] {
            assert_eq!(Gid::parse(name), None, "{name}");
        }
    }
}
