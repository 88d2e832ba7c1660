//! `ashlar-lab suite NAME`: rows of a table, each a question with the runs that answer it, what is wanted, and who the rivals are.
//!
//! ```text
//! Suite ─▶ Group ─▶ Step: the words after `ashlar-lab run`      drive measures steps in turn, keeps each folder, goes on where it was left
//!               └─▶ Row: what is wanted, and how it is shown    figures makes them of the records, page puts them into a Markdown page
//! ```
//!
//! A suite has no way of its own to start a server or to measure: whatever it shows can be measured again by the command of its step, which
//! stands in the folder of the run.

mod bench;
mod drive;
mod figures;
mod hash;
mod headlines;
mod numbers;
mod page;
mod proxies;
mod select;

pub(crate) use drive::{Options, run};

/// Rows that belong together.
pub(crate) struct Suite {
    /// As the command line names it, and the marks of a page.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) about: &'static str,
    /// What the column with what is wanted is called.
    pub(crate) wanted: &'static str,
    pub(crate) groups: &'static [Group],
}

/// Steps that are measured in turn, and the rows that come of them.
pub(crate) struct Group {
    /// As `--only` names it.
    pub(crate) name: &'static str,
    /// Whether it takes so long that only the full length has it.
    pub(crate) long: bool,
    pub(crate) steps: &'static [Step],
    pub(crate) rows: &'static [Row],
}

/// A run. Of several in a group each is measured once in a round, and there are as many rounds as a single one has repetitions.
pub(crate) struct Step {
    /// Within its group.
    pub(crate) name: &'static str,
    /// The words after `ashlar-lab run`, with sizes in braces; `{half:STEP}` is half of what the first target reached in that step, and
    /// `{beside:STEP}` so many rows that the query beside takes as long as it is to, as it went in that step. What is not
    /// said of windows and repetitions is as the length of the suite has it.
    pub(crate) words: &'static str,
}

/// A row of the table.
pub(crate) struct Row {
    /// What is asked, with sizes in braces.
    pub(crate) what: &'static str,
    /// What is wanted, or what somebody else has shown.
    pub(crate) wanted: &'static str,
    /// Steps that it is made of, one after the other: their targets are shown in this order.
    pub(crate) of: &'static [&'static str],
    pub(crate) shown: Shown,
}

/// How a row is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Operations a second, or rows of a number that the workload has by this name by the mean time of a statement that is about all of them;
    /// how much more the first target has than others.
    Rates { per: Option<&'static str> },
    /// Likewise; how much of what the first target has others have.
    RatesOfFirst,
    /// The largest number of operations a second over all numbers of threads.
    Best,
    /// Operations a second by threads.
    Scaling,
    /// Mean latency; how much longer others take than the first target.
    Times,
    /// CPU time of the server, and of what is behind it, for an operation; how much more others take than the first target.
    Cpu,
    /// CPU time of what stands before servers, alone; how much more others take than the first that has such.
    ProxyCpu,
    /// Mean latency; how much of it each adds to that of the first target, and how much more others add than the second does.
    Added,
    /// From one number of threads to another.
    Threads { from: u32, to: u32 },
    /// What the first target has in one step and in the next.
    Steps { names: [&'static str; 2] },
    /// Mean latency of the first target in one step and in the next; how much longer it takes in the next.
    StepTimes { names: [&'static str; 2] },
    /// The same of a query, in steps that have several.
    QueryTimes { query: &'static str, names: [&'static str; 2] },
    /// Latencies of the first target in each step; the last is the one that is judged.
    Tails { names: &'static [&'static str] },
    /// Bytes of an entry after this step of the workload.
    Entries { after: &'static str },
    /// How these changed from one step of the workload to another.
    Change { from: &'static str, to: &'static str },
    /// Operations of this kind in a minute.
    PerMinute { kind: &'static str },
    /// Memory above the data, and mean latency, of a query.
    Memory { query: &'static str },
    /// What the engine says that a query took, for each of a number that the workload has by this name; how much more others take than the
    /// first target.
    Structure { query: &'static str, per: &'static str },
    /// What the engine says that the query took in one step and in the next, of the first target, for each of a number that both have by this
    /// name; how much more it is in the next.
    StructureSteps { query: &'static str, per: &'static str, names: [&'static str; 2] },
    /// Likewise of one step, beside what Impala's filled buckets take with the keys of the table that is kept: with as many bytes of the key as the first
    /// target keeps, and, as Impala counts, without; and what both need in memory and time.
    StructureOfBuckets { query: &'static str, per: &'static str, key_bytes: u32 },
    /// Process memory above the loaded data at its highest; how much of the least of the others the first target takes, and its time of the
    /// shortest.
    Peak { query: &'static str },
    /// What the first target allocated for an operation, of a step with profiles of that.
    Allocated,
    /// What Impala's layouts take with the keys of the step, which is not run.
    Buckets,
}

/// All suites.
pub(crate) const SUITES: &[Suite] = &[
    bench::SUITE,
    headlines::GEODE,
    headlines::HAZELCAST,
    headlines::IMPALA,
    hash::SUITE,
    proxies::TPCC,
    proxies::PROXY,
];

/// How much work a suite does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Shows that everything runs, in a minute or two; measures nothing worth keeping.
    Quick,
    /// In half an hour.
    Short,
    /// What the rows name.
    Full,
}

impl Length {
    /// As folders have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Short => "short",
            Self::Full => "full",
        }
    }

    /// One of the three.
    fn pick<T>(self, quick: T, short: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Short => short,
            Self::Full => full,
        }
    }

    /// The size of this name.
    fn size(self, name: &str) -> Option<u64> {
        Some(match name {
            "keys" => self.pick(2_000, 100_000, 1_000_000),
            "rows" => self.pick(5_000, 1_000_000, 10_000_000),
            "beside" => self.pick(5_000, 1_000_000, 1_000_000),
            "many" => self.pick(5_000, 1_000_000, 1_000_000),
            "quarter" => self.pick(1_250, 250_000, 2_500_000),
            "four-quarters" => self.pick(5_000, 1_000_000, 10_000_000),
            "few" => self.pick(1_000, 100_000, 100_000),
            "documents" => self.pick(1_000, 100_000, 1_000_000),
            "sales" => self.pick(20_000, 1_000_000, 10_000_000),
            "warehouses" => self.pick(2, 4, 10),
            "items" => self.pick(500, 100_000, 100_000),
            "customers" => self.pick(30, 3_000, 3_000),
            "micro" => self.pick(4_096, 4_194_304, 4_194_304),
            "twice-micro" => 2 * self.size("micro")?,
            "hashed" => self.pick(20_000, 10_000_000, 100_000_000),
            "groups" => self.pick(600, 300_000, 3_000_000),
            "many-groups" => self.pick(6_000, 3_000_000, 30_000_000),
            "build" => self.pick(5_000, 3_000_000, 3_000_000),
            "twice-build" => 2 * self.size("build")?,
            "wide" => self.pick(5_000, 1_000_000, 1_000_000),
            "wide-tenth" => self.size("wide")? / 10,
            "texts" => self.pick(64, 2_048, 2_048),
            "long-texts" => self.size("texts")? / 16,
            "window" => self.pick(1, 1, 5),
            // The end of a query beside, which begins with the warm-up, and the beginning of the next.
            "beside-window" => self.pick(1, 8, 8),
            "churn" => self.pick(2, 20, 20),
            "entry-repeats" => self.pick(1, 1, 5),
            _ => return None,
        })
    }

    /// Numbers of threads of a curve.
    fn threads(self) -> &'static str {
        self.pick("1,2", "1,4,16,64,256", "1,2,4,8,16,32,64,128,256,512")
    }

    /// Seconds that a query beside is to take; None where it may take what it takes.
    fn beside_seconds(self) -> Option<f64> {
        self.pick(None, Some(5.0), Some(5.0))
    }

    /// Seconds of a window.
    fn seconds(self) -> u32 {
        self.pick(1, 2, 5)
    }

    /// Seconds before it; of a JVM, which compiles what it runs often.
    fn warm_up(self, java: bool) -> u32 {
        if java { self.pick(0, 15, 60) } else { self.pick(0, 1, 1) }
    }

    /// Repetitions of each target.
    fn repeat(self) -> u32 {
        self.pick(1, 3, 5)
    }
}

#[cfg(test)]
mod tests;
