//! Deadlock detection among owners that wait for each other's row locks, or for what [other waits](super::OtherWaits) tell of.
//!
//! Called when somebody enters a queue, for a row or for something else: only then can a cycle close, and it closes through him. The
//! map of waits is locked, so nobody begins to wait during the search, and who waits for a row does not cease to; who does not wait is in no
//! cycle. Where a session waits for something else than a row, it is known by its process number, for its owner of row locks is not known
//! there.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write;

use ashlar_base::{Error, ErrorCode};
use foldhash::fast::RandomState;

use super::Owner;
use super::others::{OtherWait, OtherWaits};
use super::table::{LockTable, Waiting, Waits};

/// Parties of a circle that are told.
const TOLD_MAX: usize = 10;

/// Who waits for whom, whether for a row or for something else.
pub(super) struct Graph<'l> {
    table: &'l LockTable,
    waits: &'l Waits,
    others: Option<&'l dyn OtherWaits>,
    /// The owners that wait for rows, by process number: made when one is looked for.
    by_pid: OnceCell<HashMap<i32, u64, RandomState>>,
}

/// What somebody waits for.
enum Wait<'l> {
    /// A row, and as which owner of locks.
    Row(u64, &'l Waiting),
    Other(OtherWait),
}

/// Somebody who is waited for, and through whom that was found.
struct Step {
    owner: Owner,
    from: usize,
}

impl<'l> Graph<'l> {
    pub(super) fn new(table: &'l LockTable, waits: &'l Waits, others: Option<&'l dyn OtherWaits>) -> Self {
        Self { table, waits, others, by_pid: OnceCell::new() }
    }

    /// 40P01, where an owner that has begun to wait is waited for by somebody whom it waits for.
    pub(super) fn deadlock(&self, owner: Owner) -> Option<Error> {
        let mut steps = vec![Step { owner, from: 0 }];
        // Who was found, and whether he stands before somebody who was looked at.
        let mut known: HashMap<(u64, i32), bool, RandomState> = HashMap::default();
        let mut at = 0;
        while at < steps.len() {
            let from = steps[at].owner;
            // Those who stand before somebody wait for nobody for whom he does not wait too, but for him, who is known. So a queue
            // is gone through once, and not once for each in it. (Nobody stands before an owner that has what it begins to wait for.)
            let is_passed = known.get(&(from.id, from.pid)).is_some_and(|is_passed| *is_passed);
            let (waits_for, ahead) = if is_passed { (Vec::new(), 0) } else { self.steps_from(from) };
            for (place, next) in waits_for.into_iter().enumerate() {
                if is_one(next, owner) {
                    return Some(self.error(&steps, at));
                }
                let is_ahead = place < ahead;
                match known.entry((next.id, next.pid)) {
                    Entry::Occupied(mut entry) => *entry.get_mut() |= is_ahead,
                    Entry::Vacant(entry) => {
                        entry.insert(is_ahead);
                        if !is_ahead {
                            steps.push(Step { owner: next, from: at });
                        }
                    }
                }
            }
            at += 1;
        }
        None
    }

    /// Whom an owner waits for, and how many of the first of them stand before it in a queue.
    fn steps_from(&self, owner: Owner) -> (Vec<Owner>, usize) {
        match self.wait_of(owner) {
            Some(Wait::Row(id, waiting)) => waits_for_row(self.table, id, waiting),
            Some(Wait::Other(OtherWait { pids, ahead, .. })) => {
                (pids.into_iter().map(|pid| Owner { id: Owner::NOBODY.id, pid }).collect(), ahead)
            }
            None => (Vec::new(), 0),
        }
    }

    /// What an owner waits for.
    fn wait_of(&self, owner: Owner) -> Option<Wait<'l>> {
        if let Some(waiting) = self.waits.get(&owner.id) {
            return Some(Wait::Row(owner.id, waiting));
        }
        if owner.pid == 0 {
            return None;
        }
        // It waits for something else than a row, or is somebody of whom that was said.
        if let Some(wait) = self.others.and_then(|others| others.wait_of(owner.pid)) {
            return Some(Wait::Other(wait));
        }
        if owner.id != Owner::NOBODY.id {
            return None;
        }
        let id = *self.by_pid().get(&owner.pid)?;
        self.waits.get(&id).map(|waiting| Wait::Row(id, waiting))
    }

    fn by_pid(&self) -> &HashMap<i32, u64, RandomState> {
        self.by_pid.get_or_init(|| {
            let of_sessions = self.waits.iter().filter(|(_, waiting)| waiting.pid() != 0 && waiting.is_queued());
            of_sessions.map(|(id, waiting)| (waiting.pid(), *id)).collect()
        })
    }

    /// The circle in PostgreSQL's words: who waits for what, and who is in the way.
    fn error(&self, steps: &[Step], last: usize) -> Error {
        let mut circle = vec![last];
        while let Some(step) = circle.last().copied().filter(|step| *step != 0) {
            circle.push(steps[step].from);
        }
        circle.reverse();
        let mut detail = String::new();
        for (place, &step) in circle.iter().take(TOLD_MAX).enumerate() {
            let owner = steps[step].owner;
            let next = circle.get(place + 1).map_or(steps[0].owner, |&next| steps[next].owner);
            let what = match self.wait_of(owner) {
                Some(Wait::Row(_, waiting)) => {
                    let (mode, (table, hash)) = (waiting.request.strength.mode(), waiting.request.order());
                    format!("{mode} on row {hash:016x} of relation {table}")
                }
                Some(Wait::Other(wait)) => wait.what,
                // It has just been told to wait no more.
                None => continue,
            };
            let separator = if detail.is_empty() { "" } else { "\n" };
            // Writing to a String cannot fail.
            let _ =
                write!(detail, "{separator}{} waits for {what}; blocked by {}.", name(owner, true), name(next, false));
        }
        Error::new(ErrorCode::DeadlockDetected, "deadlock detected").with_detail(detail)
    }
}

/// Whether two are the same session, or owner of locks.
fn is_one(one: Owner, other: Owner) -> bool {
    one.pid != 0 && one.pid == other.pid || one.id != Owner::NOBODY.id && one.id == other.id
}

/// Whom an owner of locks waits for because of a row: those who stand before it, and those who hold what it or one of them wants;
/// and how many the former are. Who stands behind another waits for all that this one waits for, whether or not the two conflict: somebody
/// between them does.
fn waits_for_row(table: &LockTable, owner: u64, waiting: &Waiting) -> (Vec<Owner>, usize) {
    let nobody = (Vec::new(), 0);
    if !waiting.is_queued() {
        return nobody;
    }
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

fn name(owner: Owner, begins: bool) -> String {
    match (owner.pid, begins) {
        (0, true) => "A RESP client".to_owned(),
        (0, false) => "a RESP client".to_owned(),
        (pid, true) => format!("Process {pid}"),
        (pid, false) => format!("process {pid}"),
    }
}
