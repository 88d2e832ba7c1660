//! `kv-memory`: what an entry takes. Keys are put in, and then overwritten at random many times as often; after each of the two steps the
//! server is looked at, and then every value is read and must be the last one that was written.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::Value;

use super::stored::{FIRST_VERSION, Made, Stored, write_read};
use super::{PREPARE_BATCH, UNDER_WAY_BYTES_MAX};
use crate::door::resp::{Reply, RespClient};
use crate::load::Caller;
use crate::numbers::Numbers;
use crate::workload::keys::{fault, version_of};
use crate::workload::sizes::Sizes;
use crate::workload::{Place, Progress, Steps, Workload};

/// The steps. `crates/lab/grids/Memory.java` has the same.
const STEPS: &[&str] = &["fresh", "churned"];

/// What is overwritten depends on this only, so that everybody knows what must be there.
const SEED: u64 = 42;

struct Memory {
    keys: u64,
    value_bytes: usize,
    churn: u64,
}

pub(in crate::workload) fn workload(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Memory {
        keys: sizes.keys.unwrap_or(1_000_000),
        value_bytes: sizes.value_bytes.unwrap_or(100) as usize,
        churn: sizes.churn.unwrap_or(20),
    }))
}

impl Memory {
    /// Keys and versions that a step writes, in their order.
    fn writes(&self, step: &str) -> Box<dyn Iterator<Item = (u64, u32)>> {
        let keys = self.keys;
        if step == STEPS[0] {
            return Box::new((0..keys).map(|key| (key, FIRST_VERSION)));
        }
        let mut numbers = Numbers::new(SEED);
        // An odd number is not the first version.
        Box::new((0..keys * self.churn).map(move |_| (numbers.below(keys), numbers.next() as u32 | 1)))
    }

    /// The version of each key after a step.
    fn versions(&self, step: &str) -> Vec<u32> {
        let mut versions = vec![FIRST_VERSION; self.keys as usize];
        if step != STEPS[0] {
            self.writes(step).for_each(|(key, version)| versions[key as usize] = version);
        }
        versions
    }

    fn at_once(&self) -> usize {
        (PREPARE_BATCH as usize).min(UNDER_WAY_BYTES_MAX / self.value_bytes)
    }
}

impl Workload for Memory {
    fn prepare(&self, _place: Place, _progress: Progress<'_>) -> Result<()> {
        Ok(())
    }

    fn caller(&self, _place: Place, _numbers: Numbers) -> Result<Box<dyn Caller>> {
        bail!("kv-memory is measured by its steps")
    }

    fn steps(&self) -> Option<&dyn Steps> {
        Some(self)
    }

    fn clear(&self, _place: Place) -> Result<()> {
        bail!("kv-memory is for servers that the lab started")
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([
            ("keys".to_owned(), self.keys.into()),
            ("value_bytes".to_owned(), self.value_bytes.into()),
            ("churn".to_owned(), self.churn.into()),
        ])
    }
}

impl Steps for Memory {
    fn names(&self) -> &'static [&'static str] {
        STEPS
    }

    fn entries(&self) -> u64 {
        self.keys
    }

    fn step(&self, place: Place, name: &str, progress: Progress<'_>) -> Result<u64> {
        let mut client = RespClient::connect(place.address)?;
        let all = if name == STEPS[0] { self.keys } else { self.keys * self.churn };
        let (mut writes, mut made, mut done) = (self.writes(name), Made::default(), 0);
        loop {
            let mut batch = 0;
            for (key, version) in writes.by_ref().take(self.at_once()) {
                made.write(&mut client, Stored::Bytes(self.value_bytes), key, version);
                batch += 1;
            }
            if batch == 0 {
                return Ok(done);
            }
            client.flush()?;
            for _ in 0..batch {
                match client.reply()? {
                    Reply::Simple(b"OK") => {}
                    other => bail!("a value that is put in was answered by {other}"),
                }
            }
            done += batch;
            progress(done, all)?;
        }
    }

    fn fault(&self, place: Place, name: &str) -> Result<Option<String>> {
        let mut client = RespClient::connect(place.address)?;
        let versions = self.versions(name);
        let mut key = 0;
        for batch in versions.chunks(self.at_once()) {
            (key..).take(batch.len()).for_each(|key| write_read(&mut client, Stored::Bytes(self.value_bytes), key));
            client.flush()?;
            for version in batch {
                let fault = match client.reply()? {
                    Reply::Bulk(Some(value)) if version_of(value) == Some(*version) => {
                        fault(key, self.value_bytes, value)
                    }
                    Reply::Bulk(Some(_)) => Some(format!("key {key} does not have what was written last")),
                    other => Some(format!("key {key} was answered by {other}")),
                };
                if fault.is_some() {
                    return Ok(fault);
                }
                key += 1;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_of_a_key_is_its_version() {
        let memory = Memory { keys: 50, value_bytes: 8, churn: 4 };
        assert_eq!(memory.versions("fresh"), vec![FIRST_VERSION; 50]);
        let writes: Vec<(u64, u32)> = memory.writes("churned").collect();
        assert_eq!(writes.len(), 200);
        let versions = memory.versions("churned");
        for (key, version) in versions.iter().enumerate() {
            let last = writes.iter().rev().find(|(written, _)| *written == key as u64);
            assert_eq!(*version, last.map_or(FIRST_VERSION, |(_, version)| *version));
        }
        assert!(versions.iter().filter(|version| **version != FIRST_VERSION).count() > 40);
    }
}
