//! Deadlock detection among owners that wait for each other's row locks, or for what [other waits](super::OtherWaits) tell of.
//!
//! Called when an owner enters a queue: only then can a cycle close, and it closes through that owner. The map of waits
//! is locked, so nobody stops waiting during the search; an owner that does not wait is in no cycle. Where a session waits for
//! something else than a row, it is known by its process number, for its owner of row locks is not known there.

use std::collections::HashSet;
use std::fmt::Write;

use ashlar_base::{Error, ErrorCode};
use foldhash::fast::RandomState;

use super::Owner;
use super::table::{LockTable, Waits};

/// Parties of a circle that are told.
const TOLD_MAX: usize = 10;

/// Somebody who is waited for, and through whom that was found.
struct Step {
    owner: Owner,
    from: usize,
}

/// 40P01, where an owner that has begun to wait is waited for by somebody whom it waits for.
pub(super) fn deadlock(table: &LockTable, waits: &Waits, owner: Owner) -> Option<Error> {
    let mut steps = vec![Step { owner, from: 0 }];
    let mut known: HashSet<(u64, i32), RandomState> = HashSet::default();
    let mut at = 0;
    while at < steps.len() {
        let (waits_for, ahead) = steps_from(table, waits, steps[at].owner);
        for (place, next) in waits_for.into_iter().enumerate() {
            if next.id == owner.id || next.pid != 0 && next.pid == owner.pid {
                return Some(error(table, waits, &steps, at));
            }
            // Those who stand before somebody wait for nobody for whom he does not wait too, but for him, who is known. So a queue
            // is gone through once, and not once for each in it. (Nobody stands before an owner that has the row and begins to wait.)
            if known.insert((next.id, next.pid)) && place >= ahead {
                steps.push(Step { owner: next, from: at });
            }
        }
        at += 1;
    }
    None
}

/// Whom an owner waits for, and how many of the first of them stand before it in the queue of a row.
fn steps_from(table: &LockTable, waits: &Waits, owner: Owner) -> (Vec<Owner>, usize) {
    if owner.pid == 0 || waits.contains_key(&owner.id) {
        return waits_for_rows(table, waits, owner.id);
    }
    // It waits for something else than a row, or is somebody of whom that was said.
    let elsewhere = table.others().and_then(|others| others.wait_of(owner.pid));
    if let Some((_, pids)) = elsewhere {
        return (pids.into_iter().map(|pid| Owner { id: Owner::NOBODY.id, pid }).collect(), 0);
    }
    let found = (owner.id == Owner::NOBODY.id).then(|| waits.iter().find(|(_, waiting)| waiting.pid() == owner.pid));
    match found.flatten() {
        Some((id, _)) => waits_for_rows(table, waits, *id),
        None => (Vec::new(), 0),
    }
}

/// Whom an owner of locks waits for because of rows: those who stand before it, and those who hold what it or one of them wants;
/// and how many the former are. Who stands behind another waits for all that this one waits for, whether or not the two conflict: somebody
/// between them does.
pub(super) fn waits_for_rows(table: &LockTable, waits: &Waits, owner: u64) -> (Vec<Owner>, usize) {
    let nobody = (Vec::new(), 0);
    let Some(waiting) = waits.get(&owner).filter(|waiting| waiting.is_queued()) else { return nobody };
    let id = waiting.request.row();
    let rows = table.shard(id);
    let Some(row) = rows.get(&id) else { return nobody };
    let (mut found, mut mask) = (Vec::new(), waiting.request.strength.mask());
    for queued in row.queue().take_while(|queued| queued.owner.id != owner) {
        found.push(queued.owner);
        mask |= queued.strength.mask();
    }
    let ahead = found.len();
    let holders = row.holders().filter(|held| held.owner.id != owner && mask & held.strength.bit() != 0);
    found.extend(holders.map(|held| held.owner));
    (found, ahead)
}

/// The circle in PostgreSQL's words: who waits for what, and who is in the way.
fn error(table: &LockTable, waits: &Waits, steps: &[Step], last: usize) -> Error {
    let mut circle = vec![last];
    while let Some(step) = circle.last().copied().filter(|step| *step != 0) {
        circle.push(steps[step].from);
    }
    circle.reverse();
    let mut detail = String::new();
    for (place, &step) in circle.iter().take(TOLD_MAX).enumerate() {
        let owner = steps[step].owner;
        let next = circle.get(place + 1).map_or(steps[0].owner, |&next| steps[next].owner);
        let by_pid = || waits.values().find(|waiting| owner.pid != 0 && waiting.pid() == owner.pid);
        let what = match waits.get(&owner.id).or_else(by_pid) {
            Some(waiting) => {
                let (mode, (table, hash)) = (waiting.request.strength.mode(), waiting.request.order());
                format!("{mode} on row {hash:016x} of relation {table}")
            }
            None => match table.others().and_then(|others| others.wait_of(owner.pid)) {
                Some((what, _)) => what,
                None => continue,
            },
        };
        let separator = if place == 0 { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = write!(detail, "{separator}{} waits for {what}; blocked by {}.", name(owner, true), name(next, false));
    }
    Error::new(ErrorCode::DeadlockDetected, "deadlock detected").with_detail(detail)
}

fn name(owner: Owner, begins: bool) -> String {
    match (owner.pid, begins) {
        (0, true) => "A RESP client".to_owned(),
        (0, false) => "a RESP client".to_owned(),
        (pid, true) => format!("Process {pid}"),
        (pid, false) => format!("process {pid}"),
    }
}
