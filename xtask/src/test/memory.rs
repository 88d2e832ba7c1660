//! Whether a test program may keep its files in memory, where nothing waits for a disk: those of its servers, and what does not fit queries.
//!
//! Called by `test` for each program that it runs. Makes nothing and removes nothing.

use std::process::Command;

use super::INTEGRATION;
use crate::run;

/// Programs that start servers by the hundred, or write files by the thousand.
const PROGRAMS: [&str; 2] = [INTEGRATION, "operators"];

/// Where Linux keeps files in memory. It is taken itself, for it lets everybody in: a folder of one's own below it would keep out the user that
/// PostgreSQL runs as.
const FOLDER: &str = "/dev/shm";

/// KiB that must be free there: so many for each test that runs at the same time, which has four servers with their logs at most, and at least
/// so many for the tests that have large tables.
const KIB_PER_TEST: u64 = 1 << 20;
const KIB_MIN: u64 = 6 << 20;

/// The folder for the temporary files of a program; none where it is the system's usual one.
pub(super) fn folder_for(program: &str) -> Option<&'static str> {
    // Who has named a folder wants that one.
    if !PROGRAMS.contains(&program) || std::env::var_os("TMPDIR").is_some() {
        return None;
    }
    let tests = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let free = run::read(Command::new("df").args(["-Pk", FOLDER])).ok()?;
    let (mounts, memory) = (read("/proc/mounts")?, read("/proc/meminfo")?);
    // Of a container; a whole machine has no such file.
    let bound = read("/sys/fs/cgroup/memory.max").unwrap_or_default();
    has_room(KIB_MIN.max(tests * KIB_PER_TEST), &free, &mounts, &memory, &bound).then_some(FOLDER)
}

/// Whether so many KiB are free there and twice as many of memory, of which the servers need some themselves, as far as the system says: by `df`, by what
/// is mounted, by what is free of all memory, and by how many bytes there may be.
fn has_room(kib: u64, free: &str, mounts: &str, memory: &str, bound: &str) -> bool {
    // A file system of its own: else it is a folder of a disk.
    let free = free.lines().map(words).find(|words| words.last() == Some(&FOLDER));
    let free = free.and_then(|words| words.get(3)?.parse::<u64>().ok());
    let mut mounted = mounts.lines().map(words).filter(|words| words.get(1) == Some(&FOLDER));
    // Drivers that are installed are perhaps compiled by programs that are made there.
    let is_barred =
        mounted.any(|words| words.get(3).is_some_and(|options| options.split(',').any(|one| one == "noexec")));
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"));
    let memory = memory.and_then(|number| number.trim().parse::<u64>().ok());
    // Where there is no bound a word says so.
    let bound = bound.trim().parse::<u64>().map_or(u64::MAX, |bytes| bytes / 1024);
    !is_barred && free.is_some_and(|free| free >= kib) && memory.is_some_and(|memory| memory.min(bound) >= 2 * kib)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_in_memory_where_there_is_room_for_them() {
        let free = "Filesystem     1024-blocks  Used Available Capacity Mounted on\n\
                    tmpfs             24684092     4      8000       0% /dev/shm\n";
        let mounts = "/dev/vda / ext4 rw,noexec 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev,size=24684092k 0 0\n";
        let memory = "MemTotal:       49368184 kB\nMemAvailable:      16000 kB\n";
        assert!(has_room(8000, free, mounts, memory, ""));
        assert!(has_room(8000, free, mounts, memory, "max\n"));
        assert!(has_room(8000, free, mounts, memory, "16384000\n"));
        assert!(!has_room(8000, free, mounts, memory, "16383999\n"), "the container has less memory");
        assert!(!has_room(8001, free, mounts, memory, ""), "more is wanted than is free");
        assert!(!has_room(8000, free, mounts, &memory.replace("16000", "15999"), ""), "memory is in use");
        assert!(!has_room(8000, free, &mounts.replace("nosuid", "noexec"), memory, ""), "nothing runs there");
        assert!(!has_room(8000, &free.replace(" /dev/shm", " /"), mounts, memory, ""), "it is on the disk");
    }

    #[test]
    fn other_programs_keep_their_files_where_they_are() {
        assert_eq!(folder_for("store"), None);
    }
}
