//! Counters of executed routes since the server started, by kind of route and tables.
//!
//! A statement's plan looks its counters up once; after that they are incremented without a lock. Each thread has its own, as far as
//! there are enough: they are added up when somebody asks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Kinds and tables that are told apart; what comes later is counted together. With the bound of their names, and half a KiB of counters
/// each, they take up to 12 MiB, which operators are told: nothing of it is ever given back.
const ENTRIES_MAX: usize = 10_000;

/// Bytes of the names of tables that are told apart: a name has 63 at most. A statement about more is counted with others.
const TABLES_BYTES_MAX: usize = 512;

/// Threads that count apart from each other; where there are more some of them count together. A cache line each.
const PARTS: usize = 8;

/// Threads that have counted.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Where this thread counts.
    static PART: usize = THREADS.fetch_add(1, Ordering::Relaxed) % PARTS;
}

/// What is said of tables that are not told apart any more.
const OTHERS: &str = "others";

/// How a statement about sharded tables is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteKind {
    /// One shard answers.
    OneShard,
    /// Several shards answer, or carry it out.
    Shards,
    /// The engine reads what shards have.
    Engine,
    /// The server answers that its session names, whatever the statement is about.
    Named,
}

impl RouteKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OneShard, Self::Shards, Self::Engine, Self::Named];

    /// As `ashlar.routes` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneShard => "one shard",
            Self::Shards => "shards",
            Self::Engine => "engine",
            Self::Named => "named server",
        }
    }
}

/// Of one kind and tables.
#[derive(Debug, Default)]
pub struct Counters([Part; PARTS]);

/// What one thread has counted, on a cache line that no other thread writes to.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Part {
    statements: AtomicU64,
    errors: AtomicU64,
    rows: AtomicU64,
    micros: AtomicU64,
}

/// What counters say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatistics {
    /// The kind.
    pub kind: RouteKind,
    /// The tables, with commas.
    pub tables: String,
    /// Statements that were run.
    pub statements: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Rows that came back or were changed.
    pub rows: u64,
    /// How long that took.
    pub micros: u64,
}

impl Counters {
    /// Counts a statement; `rows`: `None` where it has failed.
    pub fn note(&self, took: Duration, rows: Option<u64>) {
        let part = &self.0[PART.with(|part| *part)];
        part.statements.fetch_add(1, Ordering::Relaxed);
        part.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        match rows {
            Some(0) => {}
            Some(rows) => {
                part.rows.fetch_add(rows, Ordering::Relaxed);
            }
            None => {
                part.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What all threads have counted together.
    fn sum(&self, of: impl Fn(&Part) -> &AtomicU64) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.wrapping_add(of(part).load(Ordering::Relaxed)))
    }
}

/// Kind and tables.
type Key = (RouteKind, Box<str>);

/// The counters of a server.
#[derive(Debug, Default)]
pub struct Routes(Mutex<HashMap<Key, Arc<Counters>>>);

impl Routes {
    /// The counters of a kind and tables.
    pub fn of(&self, kind: RouteKind, tables: &str) -> Arc<Counters> {
        let tables = if tables.len() > TABLES_BYTES_MAX { OTHERS } else { tables };
        let mut all = self.0.lock();
        let is_new = all.len() >= ENTRIES_MAX && !all.contains_key(&(kind, Box::from(tables)));
        let tables = if is_new { OTHERS } else { tables };
        Arc::clone(all.entry((kind, Box::from(tables))).or_default())
    }

    /// What all of them say, in order.
    pub fn statistics(&self) -> Vec<RouteStatistics> {
        let all = self.0.lock();
        let mut found: Vec<RouteStatistics> = all
            .iter()
            .map(|((kind, tables), counters)| RouteStatistics {
                kind: *kind,
                tables: tables.to_string(),
                statements: counters.sum(|part| &part.statements),
                errors: counters.sum(|part| &part.errors),
                rows: counters.sum(|part| &part.rows),
                micros: counters.sum(|part| &part.micros),
            })
            .collect();
        drop(all);
        found.sort_by(|one, other| (&one.tables, one.kind).cmp(&(&other.tables, other.kind)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_one_for_a_kind_and_tables() {
        let routes = Routes::default();
        routes.of(RouteKind::OneShard, "t").note(Duration::from_micros(5), Some(2));
        routes.of(RouteKind::OneShard, "t").note(Duration::from_micros(6), None);
        routes.of(RouteKind::Engine, "t").note(Duration::from_micros(7), Some(1));
        let told = routes.statistics();
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].kind, told[0].statements, told[0].errors), (RouteKind::OneShard, 2, 1));
        assert_eq!((told[0].rows, told[0].micros), (2, 11));
        assert_eq!((told[1].kind, told[1].rows), (RouteKind::Engine, 1));
    }

    #[test]
    fn what_threads_count_apart_is_told_together() {
        let routes = Routes::default();
        let counters = routes.of(RouteKind::OneShard, "t");
        std::thread::scope(|scope| {
            for thread in 0..PARTS as u64 + 3 {
                let counters = &counters;
                scope.spawn(move || {
                    for _ in 0..100 {
                        counters.note(Duration::from_micros(2), (thread > 0).then_some(thread));
                    }
                });
            }
        });
        let told = routes.statistics();
        assert_eq!(told.len(), 1);
        let told = &told[0];
        let threads = PARTS as u64 + 3;
        assert_eq!((told.statements, told.errors, told.micros), (100 * threads, 100, 200 * threads));
        assert_eq!(told.rows, 100 * (0..threads).sum::<u64>());
    }

    #[test]
    fn there_is_a_bound() {
        let routes = Routes::default();
        for table in 0..=ENTRIES_MAX + 5 {
            routes.of(RouteKind::Shards, &format!("t{table}")).note(Duration::ZERO, Some(1));
        }
        let told = routes.statistics();
        assert_eq!(told.len(), ENTRIES_MAX + 1);
        let others = told.iter().find(|route| route.tables == OTHERS).unwrap();
        assert_eq!(others.statements, 6);
        // With what the map has beside them for those that may still come.
        let beside = 2 * size_of::<(Key, Arc<Counters>)>() + 64;
        let bytes = (ENTRIES_MAX + RouteKind::ALL.len()) * (size_of::<Counters>() + TABLES_BYTES_MAX + beside);
        assert!(bytes <= 12 << 20, "{bytes} bytes");
    }

    #[test]
    fn long_lists_of_tables_are_counted_together() {
        let routes = Routes::default();
        for (bytes, times) in [(TABLES_BYTES_MAX, 1), (TABLES_BYTES_MAX + 1, 1), (1 << 20, 2)] {
            for _ in 0..times {
                routes.of(RouteKind::Engine, &"t".repeat(bytes)).note(Duration::ZERO, Some(1));
            }
        }
        let told: Vec<_> =
            routes.statistics().into_iter().map(|route| (route.tables.len(), route.statements)).collect();
        assert_eq!(told, [(OTHERS.len(), 3), (TABLES_BYTES_MAX, 1)]);
    }
}
