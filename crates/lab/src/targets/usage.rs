//! What a process uses, from Linux's /proc: CPU time and memory of it and of the processes that it started, for PostgreSQL is
//! one process a connection.

use std::fs;

/// Clock ticks of a second in /proc: USER_HZ, which is 100 on every architecture that Rust's standard library runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Follows a server from a moment on: one process, or several where one stands before others.
pub(crate) struct Usage {
    roots: Vec<Root>,
    /// Whether the kernel keeps the peak of this process from the moment on.
    peak_was_reset: bool,
    peak: Option<Resident>,
    /// The most pages of files that were resident when somebody looked.
    filed_bytes: u64,
}

/// Memory of processes in bytes, at a moment or at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// All that is resident.
    pub(crate) bytes: u64,
    /// Likewise without the pages of files, most of which are those of the program itself, read when they are first needed:
    /// what a process that has run a query has of them, one that has only taken rows reads with the first query.
    pub(crate) unfiled_bytes: u64,
}

impl Resident {
    /// Of two, each of the numbers that this chooses.
    pub(crate) fn each(self, other: Self, choose: fn(u64, u64) -> u64) -> Self {
        Self { bytes: choose(self.bytes, other.bytes), unfiled_bytes: choose(self.unfiled_bytes, other.unfiled_bytes) }
    }
}

/// A process with those that it started.
struct Root {
    name: &'static str,
    id: u32,
    cpu_at_begin: f64,
}

impl Usage {
    /// Begins here, with processes by their names and ids. None if one is gone.
    pub(crate) fn begin(roots: &[(&'static str, u32)]) -> Option<Self> {
        let root = |(name, id): &(&'static str, u32)| Some(Root { name, id: *id, cpu_at_begin: cpu_seconds(*id)? });
        let roots: Vec<Root> = roots.iter().map(root).collect::<Option<_>>()?;
        // 5 resets the peak: see proc(5), /proc/pid/clear_refs.
        let reset = |root: &&Root| fs::write(format!("/proc/{}/clear_refs", root.id), "5").is_ok();
        // Of all, whichever fails.
        let peak_was_reset = roots.iter().filter(reset).count() == roots.len();
        let mut usage = Self { roots, peak_was_reset, peak: None, filed_bytes: 0 };
        usage.look();
        Some(usage)
    }

    /// CPU seconds since the beginning of each process, by its name. None if one is gone.
    pub(crate) fn parts(&self) -> Option<Vec<(&'static str, f64)>> {
        self.roots.iter().map(|root| Some((root.name, cpu_seconds(root.id)? - root.cpu_at_begin))).collect()
    }

    /// Takes the memory of now into the peak; to be called now and then.
    ///
    /// Of a single process the kernel keeps the peak; of several it is what they have at this moment: private pages added up, shared ones once.
    /// Without the pages of files it keeps none: it was what was seen at some moment, or more, and the peak less the most pages of files that were seen,
    /// or more. The latter is all of it where a query has come to the same peak again, for by then what it reads of files is there.
    pub(crate) fn look(&mut self) {
        let statuses = statuses(self.roots.iter().map(|root| root.id));
        let Some(now) = resident(&statuses) else { return };
        let mut peak = self.peak.map_or(now, |peak| peak.each(now, u64::max));
        if let ([only], true) = (&statuses[..], self.peak_was_reset) {
            self.filed_bytes = self.filed_bytes.max(field(only, "RssFile:"));
            peak.bytes = peak.bytes.max(field(only, "VmHWM:"));
        }
        self.peak = Some(peak);
    }

    /// The largest memory since the beginning. None if the process was gone whenever somebody looked.
    pub(crate) fn peak(&self) -> Option<Resident> {
        let peak = self.peak.filter(|peak| peak.bytes > 0)?;
        let of_peak = if self.filed_bytes > 0 { peak.bytes.saturating_sub(self.filed_bytes) } else { 0 };
        Some(Resident { unfiled_bytes: peak.unfiled_bytes.max(of_peak), ..peak })
    }
}

/// Memory of processes, by their names and ids, and of those that they started, at this moment. None if they are gone.
pub(super) fn resident_now(roots: &[(&'static str, u32)]) -> Option<Resident> {
    resident(&statuses(roots.iter().map(|(_, id)| *id)))
}

/// The pages of processes and those that they started, in /proc.
fn statuses(roots: impl Iterator<Item = u32>) -> Vec<String> {
    roots.flat_map(tree).filter_map(|id| fs::read_to_string(format!("/proc/{id}/status")).ok()).collect()
}

/// A field of such a page, in bytes.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Private pages added up, shared ones once.
fn resident(statuses: &[String]) -> Option<Resident> {
    let private: u64 = statuses.iter().map(|status| field(status, "RssAnon:")).sum();
    let largest = |name: &str| statuses.iter().map(|status| field(status, name)).max().unwrap_or(0);
    let unfiled_bytes = private + largest("RssShmem:");
    (!statuses.is_empty()).then(|| Resident { bytes: unfiled_bytes + largest("RssFile:"), unfiled_bytes })
}

/// CPU seconds that this process has used.
pub(crate) fn cpu_seconds_of_this_process() -> Option<f64> {
    Some(ticks(&fs::read_to_string("/proc/self/stat").ok()?)?.own / TICKS_PER_SECOND)
}

/// CPU seconds that the processes have used which this one has started and which have ended: foreign programs, for servers go on.
pub(crate) fn cpu_seconds_of_ended_children() -> Option<f64> {
    Some(ticks(&fs::read_to_string("/proc/self/stat").ok()?)?.ended_children / TICKS_PER_SECOND)
}

/// CPU seconds that all processes of the machine have used, and that other machines on the same hardware took from it. Interrupts
/// are left out: they are nobody's.
pub(crate) fn cpu_seconds_of_the_machine() -> Option<f64> {
    Some(ticks_of_the_machine(&fs::read_to_string("/proc/stat").ok()?)? / TICKS_PER_SECOND)
}

fn ticks_of_the_machine(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.strip_prefix("cpu ")?.split_whitespace().collect();
    // user, nice, system, steal: see proc(5).
    [0, 1, 2, 7].into_iter().map(|place| fields.get(place)?.parse::<f64>().ok()).sum()
}

/// CPU seconds of a process, of those that it started, and of those that ended.
pub(crate) fn cpu_seconds(root: u32) -> Option<f64> {
    let mut sum = 0.0;
    for id in tree(root) {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok();
        match stat.as_deref().and_then(ticks) {
            Some(ticks) => sum += ticks.own + if id == root { ticks.ended_children } else { 0.0 },
            // One that ended while we looked is among the ended children of the root; the root itself must be there.
            None if id == root => return None,
            None => {}
        }
    }
    Some(sum / TICKS_PER_SECOND)
}

struct Ticks {
    own: f64,
    ended_children: f64,
}

/// Reads a line of /proc/pid/stat. A zombie still has one, but it has ended.
fn ticks(stat: &str) -> Option<Ticks> {
    // The name in parentheses may contain anything, so fields are counted from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if fields.first() == Some(&"Z") {
        return None;
    }
    let number = |place: usize| -> Option<f64> { fields.get(place)?.parse().ok() };
    Some(Ticks { own: number(11)? + number(12)?, ended_children: number(13)? + number(14)? })
}

/// A process and those that it started: a server of several processes starts them from its first thread.
fn tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(id) = tree.get(next) {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        tree.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        next += 1;
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_behind_the_name() {
        let line = "42 (a ) name) S 7 42 42 0 -1 4194304 100 0 0 0 250 50 30 20 20 0 4 0 100";
        let ticks = ticks(line).unwrap();
        assert_eq!((ticks.own, ticks.ended_children), (300.0, 50.0));
        assert!(super::ticks("42 (x) Z 7 42 42 0 -1 0 0 0 0 0 1 1 1 1").is_none());
    }

    #[test]
    fn what_other_machines_took_is_counted_and_idleness_is_not() {
        let stat = "cpu  100 20 30 4000 500 60 70 8 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ticks_of_the_machine(stat), Some(158.0));
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let mut usage = Usage::begin(&[("lab", std::process::id())]).unwrap();
        let held = vec![1u8; 32 << 20];
        // Work until the kernel has counted some of it; other tests of this process may have worked enough already.
        let mut sum = 0u64;
        loop {
            sum = held.iter().fold(sum, |sum, byte| sum + u64::from(*byte));
            if usage.parts().unwrap()[0].1 > 0.02 {
                break;
            }
        }
        usage.look();
        let peak = usage.peak().unwrap();
        assert!(sum > 0 && peak.unfiled_bytes > 32 << 20 && peak.bytes > peak.unfiled_bytes, "{peak:?}");
        let ours = cpu_seconds_of_this_process().unwrap();
        assert!(ours > 0.0 && cpu_seconds_of_the_machine().unwrap() > ours);
    }

    #[test]
    fn what_is_held_is_resident() {
        let id = std::process::id();
        let held = vec![1u8; 64 << 20];
        let now = resident_now(&[("lab", id)]).unwrap();
        assert!(held.iter().all(|byte| *byte == 1) && now.unfiled_bytes > 64 << 20);
        // The program's own pages are those of a file.
        assert!(now.bytes > now.unfiled_bytes + (1 << 20), "{now:?}");
    }

    #[test]
    fn a_process_that_is_gone_uses_nothing() {
        assert!(Usage::begin(&[("gone", u32::MAX - 1)]).is_none());
        assert_eq!(resident_now(&[("gone", u32::MAX - 1)]), None);
    }
}
