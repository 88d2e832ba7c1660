//! Rules: where the rows of a table are, as a checked value.
//!
//! Made by `CREATE TABLE ... USING sharded` (and when a catalog is read again), asked by routes, by COPY and by table
//! providers. A rule that exists is a whole one: every bad combination is refused by [`Rule::new`]. Never asks a server.

mod copies;
mod definition;
mod extension;
pub(crate) mod generators;
mod hash;
mod key;
mod options;
mod ranges;
mod set;

use std::ops::Bound;
use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, Result};

pub use copies::Copies;
pub use definition::{Definition, Neighbours, Strategy, partition_by};
pub use extension::{Extension, Kept};
pub use key::{Key, KeyClass};
pub use ranges::Ranges;
pub use set::{SHARDS_MAX, ShardId, ShardSet};

/// Key values whose combinations are looked at one by one before all shards are taken.
const COMBINATIONS_MAX: usize = 4096;

/// Where a table's rows are.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule(Arc<Body>);

#[derive(Debug, PartialEq)]
struct Body {
    placement: Placement,
    /// Positions of the key's columns.
    key: Vec<usize>,
    distribution: Distribution,
    shards: Vec<Shard>,
    generated: Option<(usize, Generator)>,
    options: Vec<(String, String)>,
}

/// What a table's rows have to do with its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each row is on the shard that its key says.
    Sharded,
    /// Every row is on every server.
    Broadcast,
    /// All rows are on one server.
    Single,
}

/// One physical table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The server that it is on.
    pub server: Arc<str>,
    /// Its schema there.
    pub schema: Box<str>,
    /// Its name there.
    pub table: Box<str>,
}

/// Where values of a key column come from that an INSERT does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// A bigint: time, worker, counter.
    Snowflake,
    /// A uuid of version 7.
    UuidV7,
}

/// What is the same for tables whose rows of equal keys are on one server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution {
    classes: Vec<KeyClass>,
    function: Function,
    /// By shard.
    servers: Vec<Arc<str>>,
}

/// From the key to the shard.
#[derive(Clone, Debug, PartialEq)]
enum Function {
    /// All there is.
    Only,
    /// The key's hash without a seed, as an unsigned number, modulo the number of shards.
    HashMod,
    /// The shard whose partition `satisfies_hash_partition` says yes for.
    PgHash,
    /// The integer modulo the number of shards, never negative.
    Mod,
    /// By the value; sorted.
    List { values: Vec<(Key, ShardId)>, others: Option<ShardId> },
    /// By where the value lies.
    Ranges(Ranges),
}

/// What is known of a key column.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Nothing; it may even be NULL.
    Any,
    /// It is one of these.
    Values(Vec<Key>),
    /// It lies between these.
    Range {
        /// Not below.
        low: Bound<Key>,
        /// Not above.
        high: Bound<Key>,
    },
}

impl Rule {
    /// The rule of a definition.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub fn new(definition: &Definition<'_>, neighbours: &dyn Neighbours) -> Result<Self> {
        definition::check(definition, neighbours).map(|body| Self(Arc::new(body)))
    }

    /// What the rows have to do with the shards.
    pub fn placement(&self) -> Placement {
        self.0.placement
    }

    /// The physical tables; never none.
    pub fn shards(&self) -> &[Shard] {
        &self.0.shards
    }

    /// The server of the first physical table: what is said there once of the table, all who know its rule find.
    pub fn home(&self) -> &str {
        self.0.shards.first().map_or("", |shard| &shard.server)
    }

    /// Positions of the sharding key's columns; none where a table is not divided.
    pub fn key(&self) -> &[usize] {
        &self.0.key
    }

    /// What kinds of value the key's columns hold.
    pub fn classes(&self) -> &[KeyClass] {
        &self.0.distribution.classes
    }

    /// The column whose values are made here where an INSERT gives none.
    pub fn generated(&self) -> Option<(usize, Generator)> {
        self.0.generated
    }

    /// The options that make this rule again.
    pub fn options(&self) -> &[(String, String)] {
        &self.0.options
    }

    /// Whether rows of equal keys of both tables are on one shard.
    pub fn is_colocated_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.placement == Placement::Sharded
                && other.0.placement == Placement::Sharded
                && self.0.distribution == other.0.distribution)
    }

    /// All shards.
    pub fn all(&self) -> ShardSet {
        ShardSet::first(self.0.shards.len())
    }

    /// The shard of a row with this key, given in the order of [`Self::key`].
    ///
    /// # Errors
    /// 23502 for NULL, unless PostgreSQL's own hash says where that goes; 22023 for a value that no shard takes; 0A000
    /// for a table that is not divided.
    pub fn shard_of(&self, key: &[Datum<'_>]) -> Result<ShardId> {
        let keys = key.iter().zip(self.classes()).map(|(datum, class)| Key::new(*class, datum));
        self.shard_of_keys(&keys.collect::<Result<Vec<_>>>()?)
    }

    /// As [`Self::shard_of`], of keys; `None` is NULL.
    ///
    /// # Errors
    /// As there.
    pub fn shard_of_keys(&self, keys: &[Option<Key>]) -> Result<ShardId> {
        if self.0.placement != Placement::Sharded {
            return Err(Error::unsupported("a table that is not divided has no sharding key"));
        }
        if keys.len() != self.classes().len() {
            return Err(Error::internal("a sharding key of another number of columns"));
        }
        if self.0.distribution.function != Function::PgHash && keys.contains(&None) {
            return Err(Error::new(ErrorCode::NotNullViolation, "the sharding key of a row cannot be null"));
        }
        self.0.distribution.place(keys).ok_or_else(|| {
            Error::new(ErrorCode::InvalidParameterValue, "no shard takes rows with this sharding key")
                .with_hint("Add the value to a list or a range of the table's rule.")
        })
    }

    /// The shards that rows with such keys can be on; one domain for each column of the key.
    pub fn shards_of(&self, domains: &[Domain]) -> ShardSet {
        if self.0.placement != Placement::Sharded || domains.len() != self.classes().len() {
            return self.all();
        }
        if let [Domain::Range { low, high }] = domains {
            return self.0.distribution.between(low.as_ref(), high.as_ref());
        }
        let mut lists = Vec::with_capacity(domains.len());
        let mut combinations = 1_usize;
        for domain in domains {
            let Domain::Values(values) = domain else { return self.all() };
            combinations = combinations.saturating_mul(values.len());
            lists.push(values.as_slice());
        }
        if combinations > COMBINATIONS_MAX && lists.len() > 1 {
            return self.all();
        }
        let mut shards = ShardSet::EMPTY;
        let mut keys = Vec::with_capacity(lists.len());
        for combination in 0..combinations {
            let mut rest = combination;
            keys.clear();
            for list in &lists {
                keys.push(Some(list[rest % list.len()].clone()));
                rest /= list.len();
            }
            // What no shard takes is nowhere.
            if let Some(shard) = self.0.distribution.place(&keys) {
                shards.insert(shard);
            }
        }
        shards
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        let names = |shard: &Shard| size_of::<Shard>() + shard.schema.len() + shard.table.len();
        size_of::<Body>() + self.0.shards.iter().map(names).sum::<usize>()
    }
}

impl Distribution {
    fn place(&self, keys: &[Option<Key>]) -> Option<ShardId> {
        let count = self.servers.len() as u64;
        let hashed = |seed: u64| {
            let present = keys.iter().zip(&self.classes).filter_map(|(key, class)| Some((key.as_ref()?, class)));
            present.fold(0, |hash, (key, class)| hash::combine(hash, key.hash(*class, seed)))
        };
        let number = |value: u64| Some(ShardId((value % count) as u16));
        match (&self.function, keys) {
            (Function::Only, _) => Some(ShardId(0)),
            (Function::PgHash, _) => number(hashed(hash::PARTITION_SEED)),
            (Function::HashMod, [Some(key)]) => number(key.hash(self.classes[0], 0)),
            (Function::HashMod, _) => number(hashed(0)),
            (Function::Mod, [Some(Key::Number(value))]) => number(value.rem_euclid(count as i64) as u64),
            (Function::List { values, others }, [Some(key)]) => {
                values.binary_search_by(|(value, _)| value.cmp(key)).map_or(*others, |at| Some(values[at].1))
            }
            (Function::Ranges(ranges), [Some(key)]) => ranges.find(key),
            (Function::Mod | Function::List { .. } | Function::Ranges(_), _) => None,
        }
    }

    /// The shards of a range of the only key column, as far as PostgreSQL's order is ours.
    fn between(&self, low: Bound<&Key>, high: Bound<&Key>) -> ShardSet {
        let all = ShardSet::first(self.servers.len());
        let [class] = self.classes[..] else { return all };
        if !class.is_ordered() {
            return all;
        }
        match &self.function {
            Function::Ranges(ranges) => ranges.overlapping(low, high),
            Function::List { values, others } => {
                let within = |key: &Key| std::ops::RangeBounds::contains(&(low, high), key);
                let listed = values.iter().filter(|(value, _)| within(value)).map(|(_, shard)| *shard);
                listed.chain(*others).collect()
            }
            // A short range of whole numbers is a list.
            Function::Mod | Function::HashMod | Function::PgHash => match whole_numbers(low, high) {
                Some((first, last)) if last.saturating_sub(first) < i128::from(self.servers.len() as u64 * 2) => (first
                    ..=last)
                    .filter_map(|number| self.place(&[Some(Key::Number(i64::try_from(number).ok()?))]))
                    .collect(),
                _ => all,
            },
            Function::Only => all,
        }
    }
}

/// First and last of a range of numbers.
fn whole_numbers(low: Bound<&Key>, high: Bound<&Key>) -> Option<(i128, i128)> {
    let of = |bound: Bound<&Key>, step: i128| match bound {
        Bound::Included(Key::Number(number)) => Some(i128::from(*number)),
        Bound::Excluded(Key::Number(number)) => Some(i128::from(*number) + step),
        _ => None,
    };
    Some((of(low, 1)?, of(high, -1)?))
}

#[cfg(test)]
mod tests;
