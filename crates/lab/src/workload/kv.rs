//! The key-value workloads: GET, SET, both, and their batches MGET and MSET.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::Value;

use super::choose::Choice;
use super::keys::{fault, key, value, version_of};
use super::sizes::{Distribution, Sizes};
use super::{Place, Progress, Workload};
use crate::door::resp::{Reply, RespClient};
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;

/// Keys are put in by so many SETs at once.
const PREPARE_BATCH: u64 = 1000;

/// Bytes of values that may be under way on a connection: what the kernel holds while neither side reads. With more, a client that
/// still writes and a server that already answers could wait for each other.
const UNDER_WAY_BYTES_MAX: usize = 2 << 20;

/// The version of the values that are put in first.
const FIRST_VERSION: u32 = 0;

/// Which commands are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    Get,
    Put,
    Mixed,
    Batch,
}

/// What all connections share.
struct Plan {
    mix: Mix,
    keys: u64,
    value_bytes: usize,
    pipeline: usize,
    read_percent: u64,
    /// Keys of one command.
    batch: usize,
    choice: Choice,
}

struct Kv {
    plan: Arc<Plan>,
    distribution: Distribution,
}

pub(super) fn workload(sizes: &Sizes, mix: Mix) -> Result<Box<dyn Workload>> {
    let keys = sizes.keys.unwrap_or(1_000_000);
    let distribution = sizes.distribution.unwrap_or_default();
    let value_bytes = sizes.value_bytes.unwrap_or(100) as usize;
    let pipeline = sizes.pipeline.unwrap_or(1) as usize;
    let batch = if mix == Mix::Batch { sizes.batch.unwrap_or(100) as usize } else { 1 };
    if value_bytes * pipeline * batch > UNDER_WAY_BYTES_MAX {
        bail!(
            "{pipeline} commands at once of {batch} values of {value_bytes} bytes are more than the {UNDER_WAY_BYTES_MAX} bytes that may be under way"
        );
    }
    let plan = Plan {
        mix,
        keys,
        value_bytes,
        pipeline,
        read_percent: match mix {
            Mix::Get => 100,
            Mix::Put => 0,
            Mix::Mixed | Mix::Batch => sizes.read_percent.unwrap_or(50).into(),
        },
        batch,
        choice: Choice::of(distribution, keys),
    };
    Ok(Box::new(Kv { plan: Arc::new(plan), distribution }))
}

impl Workload for Kv {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        let mut client = RespClient::connect(place.address)?;
        let (mut bytes, mut done) = (Vec::new(), 0);
        let at_once = PREPARE_BATCH.min((UNDER_WAY_BYTES_MAX / self.plan.value_bytes) as u64);
        while done < self.plan.keys {
            let batch = at_once.min(self.plan.keys - done);
            for number in done..done + batch {
                value(number, FIRST_VERSION, self.plan.value_bytes, &mut bytes);
                client.begin(3);
                [b"SET", &key(number)[..], &bytes].into_iter().for_each(|word| client.word(word));
            }
            client.flush()?;
            for _ in 0..batch {
                let reply = client.reply()?;
                if reply != Reply::Simple(b"OK") {
                    bail!("a SET was answered by {reply}");
                }
            }
            done += batch;
            progress(done, self.plan.keys)?;
        }
        Ok(())
    }

    fn caller(&self, place: Place, numbers: Numbers) -> Result<Box<dyn Caller>> {
        Ok(Box::new(KvCaller {
            client: RespClient::connect(place.address)?,
            plan: self.plan.clone(),
            stores: place.stores,
            numbers,
            reads: Vec::new(),
            keys: Vec::new(),
            bytes: Vec::new(),
            replies: Replies::default(),
            written: None,
        }))
    }

    fn clear(&self, place: Place) -> Result<()> {
        let mut client = RespClient::connect(place.address)?;
        for first in (0..self.plan.keys).step_by(PREPARE_BATCH as usize) {
            let batch = PREPARE_BATCH.min(self.plan.keys - first);
            client.begin(1 + batch as usize);
            client.word(b"DEL");
            (first..first + batch).for_each(|number| client.word(&key(number)));
            client.flush()?;
            match client.reply()? {
                Reply::Integer(_) => {}
                other => bail!("a DEL was answered by {other}"),
            }
        }
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let plan = &self.plan;
        let mut named = BTreeMap::from([
            ("keys".to_owned(), plan.keys.into()),
            ("value_bytes".to_owned(), plan.value_bytes.into()),
            ("distribution".to_owned(), serde_json::json!(self.distribution)),
            ("pipeline".to_owned(), plan.pipeline.into()),
        ]);
        if matches!(plan.mix, Mix::Mixed | Mix::Batch) {
            named.insert("read_percent".to_owned(), plan.read_percent.into());
        }
        if plan.mix == Mix::Batch {
            named.insert("batch".to_owned(), plan.batch.into());
        }
        named
    }
}

struct KvCaller {
    client: RespClient,
    plan: Arc<Plan>,
    stores: bool,
    numbers: Numbers,
    /// Of the commands under way: whether it reads.
    reads: Vec<bool>,
    /// The keys of the commands under way, [`Plan::batch`] each.
    keys: Vec<u64>,
    bytes: Vec<u8>,
    replies: Replies,
    /// The key that was written last.
    written: Option<u64>,
}

/// Replies as they came: kept until they can be judged without being timed.
#[derive(Default)]
struct Replies {
    values: Vec<u8>,
    replies: Vec<Kept>,
    /// Where the replies of each command end, in `replies`.
    ends: Vec<usize>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Ok,
    /// A value, in [`Replies::values`].
    Value(Range<usize>),
    /// Anything else, as text.
    Other(String),
}

impl Caller for KvCaller {
    fn make(&mut self) {
        self.reads.clear();
        self.keys.clear();
        for _ in 0..self.plan.pipeline {
            self.write_command();
        }
    }

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        self.replies.forget();
        self.client.flush()?;
        let batch = if self.plan.mix == Mix::Batch { Some(self.plan.batch) } else { None };
        for reads in &self.reads {
            self.replies.read(&mut self.client, batch.filter(|_| *reads))?;
            came();
        }
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        let keys = self.keys.chunks(self.plan.batch);
        for ((reads, keys), replies) in self.reads.iter().zip(keys).zip(self.replies.by_command()) {
            let fault = self.replies.fault(self.plan.value_bytes, *reads, keys, replies);
            judged(fault.map_or(Answer::Right, Answer::Wrong));
        }
    }

    fn read_back(&mut self) -> Result<Option<String>> {
        let Some(number) = self.written.filter(|_| self.stores) else {
            return Ok(None);
        };
        self.client.begin(2);
        [b"GET", &key(number)[..]].into_iter().for_each(|word| self.client.word(word));
        self.client.flush()?;
        let reply = self.client.reply()?;
        Ok(match reply {
            // Another connection may have written it since, but nobody has put the first version back.
            Reply::Bulk(Some(found)) if version_of(found) == Some(FIRST_VERSION) => {
                Some(format!("key {number} has its first value, and what was written later is gone"))
            }
            Reply::Bulk(Some(found)) => fault(number, self.plan.value_bytes, found),
            other => Some(format!("key {number}, which was written, was answered by {other}")),
        })
    }

    fn answers_per_call(&self) -> u64 {
        self.plan.pipeline as u64
    }
}

impl KvCaller {
    fn write_command(&mut self) {
        let Self { client, plan, numbers, bytes, .. } = self;
        let reads = match plan.read_percent {
            100 => true,
            0 => false,
            percent => numbers.below(100) < percent,
        };
        let batched = plan.mix == Mix::Batch;
        let name: &[u8] = match (reads, batched) {
            (true, false) => b"GET",
            (true, true) => b"MGET",
            (false, false) => b"SET",
            (false, true) => b"MSET",
        };
        client.begin(1 + plan.batch * if reads { 1 } else { 2 });
        client.word(name);
        for _ in 0..plan.batch {
            let number = plan.choice.next(numbers);
            client.word(&key(number));
            if !reads {
                // An odd number is not the first version.
                value(number, numbers.next() as u32 | 1, plan.value_bytes, bytes);
                client.word(bytes);
                self.written = Some(number);
            }
            self.keys.push(number);
        }
        self.reads.push(reads);
    }
}

impl Replies {
    fn forget(&mut self) {
        self.values.clear();
        self.replies.clear();
        self.ends.clear();
    }

    /// Reads the reply to one command; of an MGET, of so many keys, to its end.
    fn read(&mut self, client: &mut RespClient, batch: Option<usize>) -> Result<()> {
        match (client.reply()?, batch) {
            (Reply::Array(Some(count)), Some(keys)) if count == keys => {
                for _ in 0..count {
                    let reply = client.reply()?;
                    self.keep(reply);
                }
            }
            // Nobody knows where the next reply begins.
            (other @ Reply::Array(_), _) => bail!("a command was answered by {other}"),
            (other, _) => self.keep(other),
        }
        self.ends.push(self.replies.len());
        Ok(())
    }

    fn keep(&mut self, reply: Reply<'_>) {
        self.replies.push(match reply {
            Reply::Simple(b"OK") => Kept::Ok,
            Reply::Bulk(Some(value)) => {
                let start = self.values.len();
                self.values.extend_from_slice(value);
                Kept::Value(start..self.values.len())
            }
            other => Kept::Other(other.to_string()),
        });
    }

    /// The replies to each command.
    fn by_command(&self) -> impl Iterator<Item = &[Kept]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.replies[start..*end])
    }

    /// What is wrong with the reply to a command for these keys.
    fn fault(&self, value_bytes: usize, reads: bool, keys: &[u64], replies: &[Kept]) -> Option<String> {
        let said = |reply: &Kept| match reply {
            Kept::Ok => "OK".to_owned(),
            Kept::Value(place) => format!("{} bytes", place.len()),
            Kept::Other(text) => text.clone(),
        };
        match replies {
            [Kept::Ok] if !reads => None,
            replies if reads && replies.len() == keys.len() => {
                keys.iter().zip(replies).find_map(|(number, reply)| match reply {
                    Kept::Value(place) => fault(*number, value_bytes, &self.values[place.clone()]),
                    other => Some(format!("key {number} was answered by {}", said(other))),
                })
            }
            replies => {
                let (what, said) =
                    (if reads { "MGET" } else { "a write" }, replies.first().map_or(String::new(), said));
                Some(format!("{what} from key {} on was answered by {said}", keys[0]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of these replies to one command.
    fn said(reads: bool, keys: &[u64], given: &[Reply<'_>]) -> Option<String> {
        let mut replies = Replies::default();
        given.iter().for_each(|reply| replies.keep(*reply));
        replies.ends.push(given.len());
        let command = replies.by_command().next().unwrap();
        replies.fault(100, reads, keys, command)
    }

    #[test]
    fn replies_are_judged_by_what_was_asked() {
        let mut values = [Vec::new(), Vec::new()];
        value(5, 0, 100, &mut values[0]);
        value(6, 7, 100, &mut values[1]);
        let (first, second) = (Reply::Bulk(Some(&values[0])), Reply::Bulk(Some(&values[1])));
        let ok = Reply::Simple(b"OK");
        assert_eq!(said(true, &[5], &[first]), None);
        assert_eq!(said(true, &[5, 6], &[first, second]), None);
        assert_eq!(said(false, &[5], &[ok]), None);
        for (reads, keys, given, part) in [
            (true, &[6][..], &[first][..], "key 6 has the value of key 5"),
            (true, &[5, 6], &[first, Reply::Bulk(None)], "key 6 was answered by no value"),
            (true, &[5, 6], &[Reply::Error(b"ERR no")], "MGET from key 5 on was answered by error ERR no"),
            (true, &[5], &[ok], "key 5 was answered by OK"),
            (false, &[5], &[Reply::Error(b"OOM")], "a write from key 5 on was answered by error OOM"),
            (false, &[5], &[first], "a write from key 5 on was answered by 100 bytes"),
        ] {
            let fault = said(reads, keys, given).unwrap();
            assert!(fault.contains(part), "{fault}");
        }
    }
}
