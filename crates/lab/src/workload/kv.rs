//! The key-value workloads: GET, SET, both, and their batches MGET and MSET.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::Value;

use super::choose::Choice;
use super::keys::{fault, key, value};
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
                value(number, 0, self.plan.value_bytes, &mut bytes);
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

    fn caller(&self, address: SocketAddr, numbers: Numbers) -> Result<Box<dyn Caller>> {
        let client = RespClient::connect(address)?;
        let plan = self.plan.clone();
        Ok(Box::new(KvCaller { client, plan, numbers, reads: Vec::new(), keys: Vec::new(), bytes: Vec::new() }))
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
    numbers: Numbers,
    /// Of the commands under way: whether it reads.
    reads: Vec<bool>,
    /// The keys of the commands under way, [`Plan::batch`] each.
    keys: Vec<u64>,
    bytes: Vec<u8>,
}

impl Caller for KvCaller {
    fn call(&mut self, answered: &mut dyn FnMut(Answer)) -> Result<()> {
        self.reads.clear();
        self.keys.clear();
        for _ in 0..self.plan.pipeline {
            self.write_command();
        }
        self.client.flush()?;
        for (command, reads) in self.reads.iter().enumerate() {
            let keys = &self.keys[command * self.plan.batch..(command + 1) * self.plan.batch];
            answered(judge(&mut self.client, &self.plan, *reads, keys)?);
        }
        Ok(())
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
                value(number, numbers.next() as u32, plan.value_bytes, bytes);
                client.word(bytes);
            }
            self.keys.push(number);
        }
        self.reads.push(reads);
    }
}

/// Reads the reply to one command. A reply that is wrong throughout is still read to its end.
fn judge(client: &mut RespClient, plan: &Plan, reads: bool, keys: &[u64]) -> Result<Answer> {
    if !reads {
        return Ok(match client.reply()? {
            Reply::Simple(b"OK") => Answer::Right,
            other => Answer::Wrong(format!("a write of key {} was answered by {other}", keys[0])),
        });
    }
    if plan.mix != Mix::Batch {
        let fault = value_fault(plan, keys[0], client.reply()?);
        return Ok(fault.map_or(Answer::Right, Answer::Wrong));
    }
    match client.reply()? {
        Reply::Array(Some(count)) if count == keys.len() => {
            let mut first = None;
            for number in keys {
                let fault = value_fault(plan, *number, client.reply()?);
                first = first.or(fault);
            }
            Ok(first.map_or(Answer::Right, Answer::Wrong))
        }
        Reply::Error(text) => Ok(Answer::Wrong(format!("MGET: {}", String::from_utf8_lossy(text)))),
        // Nobody knows where the next reply begins.
        other => bail!("MGET of {} keys was answered by {other}", keys.len()),
    }
}

#[inline]
fn value_fault(plan: &Plan, number: u64, reply: Reply<'_>) -> Option<String> {
    match reply {
        Reply::Bulk(Some(found)) => fault(number, plan.value_bytes, found),
        other => Some(format!("key {number} was answered by {other}")),
    }
}
