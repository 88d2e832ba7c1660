//! The key-value workloads: GET, SET, both, and their batches MGET and MSET; of structured values HGETALL and HSET.

mod memory;
mod replies;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::Value;

use super::choose::Choice;
use super::keys::{fault, key, value};
use super::sizes::{Distribution, Sizes, ValueShape};
use super::structured::{self, FIELDS};
use super::{Place, Progress, Workload, beside};
use crate::door::pg::PgClient;
use crate::door::resp::{Reply, RespClient};
use crate::foreign::Work;
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;
pub(super) use memory::workload as memory;
use replies::Replies;
use stored::{FIRST_VERSION, Made, Stored, write_read};

/// Keys are put in by so many SETs at once.
const PREPARE_BATCH: u64 = 1000;

/// Keys that are looked at after a foreign program.
const LOOKED_AT: u64 = 1000;

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
    stored: Stored,
    pipeline: usize,
    read_percent: u64,
    /// Keys of one command.
    batch: usize,
    choice: Choice,
    /// Rows of the query that runs meanwhile; 0 for none.
    beside_rows: u64,
}

struct Kv {
    plan: Arc<Plan>,
    distribution: Distribution,
}

pub(super) fn workload(sizes: &Sizes, mix: Mix) -> Result<Box<dyn Workload>> {
    let keys = sizes.keys.unwrap_or(1_000_000);
    let distribution = sizes.distribution.unwrap_or_default();
    let stored = match (sizes.value_shape.unwrap_or_default(), sizes.value_bytes) {
        (ValueShape::Bytes, bytes) => Stored::Bytes(bytes.unwrap_or(100) as usize),
        (ValueShape::Structured, None) => Stored::Row,
        (ValueShape::Structured, Some(_)) => bail!("a structured value is as large as it is; leave --value-bytes out"),
    };
    let value_bytes = stored.bytes_max();
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
        stored,
        pipeline,
        read_percent: match mix {
            Mix::Get => 100,
            Mix::Put => 0,
            Mix::Mixed | Mix::Batch => sizes.read_percent.unwrap_or(50).into(),
        },
        batch,
        choice: Choice::of(distribution, keys),
        beside_rows: sizes.beside_rows.unwrap_or(0),
    };
    Ok(Box::new(Kv { plan: Arc::new(plan), distribution }))
}

impl Workload for Kv {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        if self.plan.beside_rows > 0 {
            beside::prepare(place, self.plan.beside_rows, progress)?;
        }
        if let (Stored::Row, Some(sql)) = (self.plan.stored, place.rows) {
            let (mut client, table) = (PgClient::connect(sql)?, structured::TABLE);
            client.query(&format!("DROP TABLE IF EXISTS {table}"))?;
            client.query(&format!("CREATE TABLE {table} ({})", structured::COLUMNS))?;
        }
        let mut client = RespClient::connect(place.address)?;
        let (mut value, mut done) = (Made::default(), 0);
        let at_once = PREPARE_BATCH.min((UNDER_WAY_BYTES_MAX / self.plan.stored.bytes_max()) as u64);
        while done < self.plan.keys {
            let batch = at_once.min(self.plan.keys - done);
            for number in done..done + batch {
                value.write(&mut client, self.plan.stored, number, FIRST_VERSION);
            }
            client.flush()?;
            for _ in 0..batch {
                match (self.plan.stored, client.reply()?) {
                    (Stored::Bytes(_), Reply::Simple(b"OK")) | (Stored::Row, Reply::Integer(_)) => {}
                    (_, other) => bail!("a value that is put in was answered by {other}"),
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
            value: Made::default(),
            replies: Replies::default(),
            written: None,
        }))
    }

    fn work(&self) -> Option<Work> {
        let plan = &self.plan;
        let writes = match (plan.mix, plan.read_percent) {
            (Mix::Get, _) | (Mix::Batch, 100) => false,
            (Mix::Put, _) | (Mix::Batch, 0) => true,
            (Mix::Mixed | Mix::Batch, _) => return None,
        };
        let batch = (plan.mix == Mix::Batch).then_some(plan.batch);
        match plan.stored {
            Stored::Bytes(value_bytes) => {
                Some(Work::Keys { writes, keys: plan.keys, value_bytes, pipeline: plan.pipeline, batch })
            }
            Stored::Row => None,
        }
    }

    /// Some keys all over must have their values, or that which the program writes; and of many writes some must be there.
    fn work_fault(&self, place: Place, operations: u64) -> Result<Option<String>> {
        let plan = &self.plan;
        let Stored::Bytes(bytes) = plan.stored else { return Ok(None) };
        let writes = plan.read_percent == 0;
        let mut client = RespClient::connect(place.address)?;
        let (mut looked_at, mut written) = (0u64, 0u64);
        for number in (0..plan.keys).step_by(plan.keys.div_ceil(LOOKED_AT).max(1) as usize) {
            looked_at += 1;
            write_read(&mut client, plan.stored, number);
            client.flush()?;
            let fault = match client.reply()? {
                Reply::Bulk(Some(value)) if writes && value.iter().all(|byte| *byte == b'x') => {
                    written += 1;
                    (value.len() != bytes).then(|| format!("key {number} has {} bytes instead of {bytes}", value.len()))
                }
                Reply::Bulk(Some(value)) => fault(number, bytes, value),
                other => Some(format!("key {number} was answered by {other}")),
            };
            if fault.is_some() {
                return Ok(fault);
            }
        }
        let is_gone = writes && written == 0 && operations >= plan.keys;
        Ok(is_gone.then(|| format!("of {operations} writes none is in any of {looked_at} keys")))
    }

    fn beside(&self, place: Place) -> Result<Option<Box<dyn Caller>>> {
        match self.plan.beside_rows {
            0 => Ok(None),
            rows => beside::caller(place, rows).map(Some),
        }
    }

    fn clear(&self, place: Place) -> Result<()> {
        if self.plan.beside_rows > 0 {
            beside::clear(place)?;
        }
        let mut client = RespClient::connect(place.address)?;
        for first in (0..self.plan.keys).step_by(PREPARE_BATCH as usize) {
            let batch = PREPARE_BATCH.min(self.plan.keys - first);
            client.begin(1 + batch as usize);
            client.word(b"DEL");
            for number in first..first + batch {
                match self.plan.stored {
                    Stored::Bytes(_) => client.word(&key(number)),
                    Stored::Row => client.word(structured::name(number).as_bytes()),
                }
            }
            client.flush()?;
            match client.reply()? {
                Reply::Integer(_) => {}
                other => bail!("a DEL was answered by {other}"),
            }
        }
        if let (Stored::Row, Some(sql)) = (self.plan.stored, place.rows) {
            PgClient::connect(sql)?.query(&format!("DROP TABLE IF EXISTS {}", structured::TABLE))?;
        }
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let plan = &self.plan;
        let mut named = BTreeMap::from([
            ("keys".to_owned(), plan.keys.into()),
            ("distribution".to_owned(), serde_json::json!(self.distribution)),
            ("pipeline".to_owned(), plan.pipeline.into()),
        ]);
        let shape = match plan.stored {
            Stored::Bytes(bytes) => {
                named.insert("value_bytes".to_owned(), bytes.into());
                ValueShape::Bytes
            }
            Stored::Row => ValueShape::Structured,
        };
        if plan.mix != Mix::Batch {
            named.insert("value_shape".to_owned(), serde_json::json!(shape));
        }
        if plan.mix == Mix::Get {
            named.insert("beside_rows".to_owned(), plan.beside_rows.into());
        }
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
    value: Made,
    replies: Replies,
    /// The key that was written last.
    written: Option<u64>,
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
        let many = match (self.plan.stored, self.plan.mix) {
            (Stored::Row, _) => Some(2 * FIELDS),
            (_, Mix::Batch) => Some(self.plan.batch),
            _ => None,
        };
        for reads in &self.reads {
            self.replies.read(&mut self.client, many.filter(|_| *reads))?;
            came();
        }
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        let keys = self.keys.chunks(self.plan.batch);
        for ((reads, keys), replies) in self.reads.iter().zip(keys).zip(self.replies.by_command()) {
            let fault = self.replies.fault(self.plan.stored, *reads, keys, replies);
            judged(fault.map_or(Answer::Right, Answer::Wrong));
        }
    }

    fn read_back(&mut self) -> Result<Option<String>> {
        let Some(number) = self.written.filter(|_| self.stores) else {
            return Ok(None);
        };
        self.replies.forget();
        write_read(&mut self.client, self.plan.stored, number);
        self.client.flush()?;
        self.replies.read(&mut self.client, (self.plan.stored == Stored::Row).then_some(2 * FIELDS))?;
        // Another connection may have written it since, but nobody has put the first version back.
        if self.replies.version(self.plan.stored) == Some(FIRST_VERSION) {
            return Ok(Some(format!("key {number} has its first value, and what was written later is gone")));
        }
        Ok(self.replies.fault_of_one(self.plan.stored, number))
    }

    fn answers_per_call(&self) -> u64 {
        self.plan.pipeline as u64
    }
}

impl KvCaller {
    fn write_command(&mut self) {
        let Self { client, plan, numbers, value: made, .. } = self;
        let reads = match plan.read_percent {
            100 => true,
            0 => false,
            percent => numbers.below(100) < percent,
        };
        self.reads.push(reads);
        let batch = match plan.stored {
            Stored::Bytes(bytes) if plan.mix == Mix::Batch => Some(bytes),
            _ => None,
        };
        match batch {
            None => {}
            Some(_) if reads => {
                client.begin(1 + plan.batch);
                client.word(b"MGET");
            }
            Some(_) => {
                client.begin(1 + 2 * plan.batch);
                client.word(b"MSET");
            }
        }
        for _ in 0..plan.batch {
            let number = plan.choice.next(numbers);
            self.keys.push(number);
            if reads {
                match batch {
                    Some(_) => client.word(&key(number)),
                    None => write_read(client, plan.stored, number),
                }
                continue;
            }
            self.written = Some(number);
            // An odd number is not the first version.
            let version = numbers.next() as u32 | 1;
            match batch {
                Some(bytes) => {
                    value(number, version, bytes, &mut made.bytes);
                    client.word(&key(number));
                    client.word(&made.bytes);
                }
                None => made.write(client, plan.stored, number, version),
            }
        }
    }
}
