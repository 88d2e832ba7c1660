//! One step of a workload that is measured by what it leaves in a server: done once, and then the server is looked at.

use std::time::Duration;

use anyhow::{Context, Result};
use ashlar_base::clock::monotonic;

use super::Live;
use super::one::{Meter, One, cpu_seconds_of};
use crate::clock::pause;
use crate::interrupt;
use crate::load::Seen;
use crate::record::folder::InParts;
use crate::record::{Footprint, Measurement};
use crate::targets::{Running, Usage, cpu_seconds_of_the_machine};

/// A server may give memory back for so long after its last command.
const SETTLING: Duration = Duration::from_secs(30);

/// Between two looks at its memory.
const LOOK: Duration = Duration::from_secs(1);

/// What changes by less than one in so many between two looks has settled.
const STEADY: u64 = 200;

impl One<'_> {
    /// Does the step of this case. An error means that the target is lost.
    pub(super) fn step(&mut self) -> Result<(Measurement, InParts)> {
        let session = self.session;
        let steps = session.workload.steps().context("a workload without steps")?;
        let name = self.case.query.clone().context("a step without a name")?;
        if self.target.empty.is_none() {
            self.target.empty = Some(look(self.target)?);
        }
        let (empty_bytes, empty_live_bytes) = self.target.empty.unwrap_or_default();
        let metrics_before = self.metrics();
        let place = self.target.place;
        let client = self.target.client.as_ref().map(crate::java::Client::process_id);
        let bar = session.show.loading(&format!("{}, {name}, repetition {}", self.target.name, self.repetition));
        let mut progress = |done, all| {
            bar.at(done, all);
            if interrupt::is_set() { anyhow::bail!("interrupted in the step {name}") } else { Ok(()) }
        };
        let mut machine = Meter::of(cpu_seconds_of_the_machine);
        let mut of_client = Meter::of(cpu_seconds_of(client));
        let mut usage = self.target.running.usage();
        machine.begin();
        of_client.begin();
        let begun = monotonic();
        let operations = match &mut self.target.client {
            Some(client) => client.step(&name, &mut progress)?,
            None => steps.step(place, &name, &mut progress)?,
        };
        let seconds = begun.elapsed().as_secs_f64();
        of_client.end();
        machine.end();
        bar.end();
        let server_cpu = usage.as_ref().and_then(Usage::parts).map(|parts| parts.iter().map(|(_, cpu)| cpu).sum());
        if let Some(usage) = &mut usage {
            usage.look();
        }
        // Before its values are read, which takes memory too.
        let (bytes, live_bytes) = look(self.target)?;
        let metrics_after = self.metrics();
        let fault = match &mut self.target.client {
            Some(client) => client.fault(&name)?,
            None => steps.fault(place, &name)?,
        };
        let mut one =
            Measurement::of(&self.target.name, self.case, self.repetition, &Seen::nothing().sample(seconds, false));
        (one.metrics_before, one.metrics_after) = self.saved(&one, metrics_before, metrics_after)?;
        one.operations = operations;
        one.operations_per_second = operations as f64 / seconds.max(f64::MIN_POSITIVE);
        one.server_cpu_seconds = server_cpu;
        one.client_cpu_seconds = of_client.used;
        one.other_cpu_seconds = match (machine.used, server_cpu, of_client.used) {
            (Some(all), Some(server), Some(client)) => Some((all - server - client).max(0.0)),
            _ => None,
        };
        let peak = usage.as_ref().and_then(Usage::peak);
        one.server_memory_peak_bytes = peak.map(|peak| peak.bytes);
        one.server_memory_peak_unfiled_bytes = peak.map(|peak| peak.unfiled_bytes);
        one.server_live_bytes = live_bytes;
        one.footprint = Some(Footprint { entries: steps.entries(), empty_bytes, bytes, empty_live_bytes, live_bytes });
        if let Some(fault) = fault {
            one.mark_wrong(&fault);
        }
        session.show.measured(&one);
        Ok((one, InParts::default()))
    }
}

/// What is resident once it stands still, and what is alive in the heap of a JVM.
fn look(target: &mut Live) -> Result<(u64, Option<u64>)> {
    let live = target.running.live_bytes().transpose().context("the heap cannot be looked at")?;
    let bytes =
        settled(&target.running).with_context(|| format!("nothing is known of the memory of {}", target.name))?;
    Ok((bytes, live))
}

/// What is resident when it changes no more, or after some time; nothing is known of a server that others started.
pub(super) fn settled(running: &Running) -> Option<u64> {
    let deadline = monotonic() + SETTLING;
    let mut last = running.resident()?.bytes;
    while monotonic() < deadline && !interrupt::is_set() {
        pause(LOOK);
        let now = running.resident()?.bytes;
        if now.abs_diff(last) * STEADY < last {
            return Some(now);
        }
        last = now;
    }
    Some(last)
}
