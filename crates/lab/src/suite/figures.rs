//! Rows of a table: figures of each target, and how the first stands to the others.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;

use super::numbers::{bytes, median, rate, short, spread, time};
use super::select::{Contender, Role, Steps, TOO_FEW, contenders};
use super::{Row, Shown};
use crate::buckets;
use crate::record::measure::Measure;
use crate::record::{Measurement, Run};

/// Stands where a figure would; the last column says why.
const NO_FIGURE: &str = "no figure";

/// Two columns of a row.
#[derive(Debug, PartialEq)]
pub(super) struct Shape {
    /// What each target has.
    pub(super) figures: Vec<String>,
    /// How the first stands, or why there is nothing to say.
    pub(super) standing: String,
}

/// The figures of a row. `keys` are those of Impala's layouts, where they are shown.
pub(super) fn of(row: &Row, steps: &Steps, keys: Option<&[u32]>) -> Result<Shape> {
    Ok(match row.shown {
        Shown::Rates { per } => rates(steps, row.of, per, Against::Others),
        Shown::RatesOfFirst => rates(steps, row.of, None, Against::First),
        Shown::Best => best(steps, row.of),
        Shown::Scaling => scaling(steps, row.of),
        Shown::Times => times(steps, row.of, Measure::Mean),
        Shown::Cpu => times(steps, row.of, Measure::CpuPerOperation),
        Shown::ProxyCpu => proxy_cpu(steps, row.of),
        Shown::Added => added(steps, row.of),
        Shown::Threads { from, to } => threads(steps, row.of, from, to),
        Shown::Steps { names } => one_and_next(steps, row.of, names, rate, |_, one| Some(one.operations_per_second)),
        Shown::StepTimes { names } => one_and_next(steps, row.of, names, time, |_, one| Measure::Mean.of(one)),
        Shown::QueryTimes { query, names } => one_and_next(steps, row.of, names, time, |_, one| {
            if one.query.as_deref() == Some(query) { Measure::Mean.of(one) } else { None }
        }),
        Shown::Tails { names } => tails(steps, row.of, names),
        Shown::Entries { after } => entries(steps, row.of, after),
        Shown::Change { from, to } => change(steps, row.of, from, to),
        Shown::PerMinute { kind } => per_minute(steps, row.of, kind),
        Shown::Memory { query } => memory(steps, row.of, query),
        Shown::Structure { query, per } => structure(steps, row.of, query, per),
        Shown::StructureSteps { query, per, names } => {
            one_and_next(steps, row.of, names, each_byte, |run, one| taken(run, one, query, per))
        }
        Shown::StructureOfBuckets { query, per, key_bytes } => beside_buckets(
            steps,
            row.of,
            query,
            &structures(steps, row.of, query, per),
            key_bytes,
            keys.unwrap_or_default(),
        ),
        Shown::Peak { query } => peak(steps, row.of, query),
        Shown::Allocated => allocated(steps, row.of),
        Shown::Buckets => of_buckets(keys.unwrap_or_default()),
    })
}

/// Who is divided by whom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    /// The first by each other.
    Others,
    /// Each other by the first.
    First,
}

fn rates(steps: &Steps, of: &[&str], per: Option<&str>, against: Against) -> Shape {
    let all = contenders(steps, of, |run, one| match per {
        None => Some(one.operations_per_second),
        // One caller asks, and what it does between two statements (emptying a table, judging what came) is not theirs.
        Some(size) => Some(run.workload.parameters.get(size)?.as_f64()? / (Measure::Mean.of(one)? / 1e6)),
    });
    Shape { figures: all.iter().map(|one| figure(one, rate)).collect(), standing: standing(&all, against) }
}

fn per_minute(steps: &Steps, of: &[&str], kind: &str) -> Shape {
    let all = contenders(steps, of, |_, one| one.per_minute(kind));
    let minute = |figure: f64| format!("{}/min", short(figure));
    Shape { figures: all.iter().map(|one| figure(one, minute)).collect(), standing: standing(&all, Against::First) }
}

/// `Ashlar 68.6 K/s (spread 10 %, client 93 %)`.
fn figure(one: &Contender, shown: impl Fn(f64) -> String) -> String {
    let Some((samples, median)) = one.samples.as_ref().ok().and_then(|found| Some((found, median(found)?))) else {
        return format!("{} {NO_FIGURE}", one.name);
    };
    let spread = spread(samples).map(|spread| format!("spread {spread:.0} %"));
    let client = one.client.map(|share| format!("client {:.0} %", 100.0 * share));
    let besides: Vec<String> = [spread, client].into_iter().flatten().collect();
    let besides = if besides.is_empty() { String::new() } else { format!(" ({})", besides.join(", ")) };
    format!("{} {}{besides}", one.name, shown(median))
}

/// How the first stands to its rivals, of figures of which more is better.
fn standing(all: &[Contender], against: Against) -> String {
    let Some(first) = all.first() else { return "nobody was measured".to_owned() };
    let Some(ours) = middle(first) else { return reason(first) };
    let rivals = [Role::Rival, Role::JavaRival];
    let mut parts = vec![match against {
        Against::Others => ratios(all, &rivals, |name, theirs| format!("{:.2} x {name}", ours / theirs)),
        Against::First => ratios(all, &rivals, |name, theirs| format!("{name} {:.2} x", theirs / ours)),
    }];
    for one in all.iter().filter(|one| one.role == Role::ByLettuce) {
        // Beside those whose clients are in Java too.
        parts.push(match middle(one) {
            None => format!("{}: {}", one.name, reason(one)),
            Some(lettuce) => {
                let through =
                    ratios(all, &[Role::JavaRival], |name, theirs| format!("{:.2} x {name}", lettuce / theirs));
                if through.is_empty() { String::new() } else { format!("by Lettuce {through}") }
            }
        });
    }
    for one in all.iter().filter(|one| one.role == Role::Ceiling) {
        parts.push(match middle(one) {
            Some(ceiling) => format!("{:.0} % of the {}", 100.0 * ours / ceiling, one.name),
            None => format!("{}: {}", one.name, reason(one)),
        });
    }
    joined(parts)
}

/// `1.80 x Redis, Geode: why it has no figure`, of those that have one of these roles.
fn ratios(all: &[Contender], roles: &[Role], shown: impl Fn(&str, f64) -> String) -> String {
    let words = all.iter().skip(1).filter(|one| roles.contains(&one.role)).map(|one| match middle(one) {
        Some(theirs) => shown(&one.name, theirs),
        None => format!("{}: {}", one.name, reason(one)),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn joined(parts: Vec<String>) -> String {
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "nobody beside it".to_owned() } else { parts.join("; ") }
}

fn middle(one: &Contender) -> Option<f64> {
    one.samples.as_ref().ok().and_then(|samples| median(samples))
}

/// The figure of the first, or why there is nothing to say.
fn ours(all: &[Contender]) -> Result<f64, String> {
    let first = all.first().ok_or("nobody was measured")?;
    middle(first).ok_or_else(|| reason(first))
}

fn reason(one: &Contender) -> String {
    one.samples.as_ref().err().cloned().unwrap_or_else(|| "not measured".to_owned())
}

/// The numbers of threads that some steps have.
fn numbers_of_threads(steps: &Steps, of: &[&str]) -> Vec<u32> {
    let runs = of.iter().filter_map(|name| steps.get(name)).flat_map(|step| &step.runs);
    let mut all: Vec<u32> = runs.flat_map(|run| run.load.threads.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn with_threads(steps: &Steps, of: &[&str], threads: u32) -> Vec<Contender> {
    contenders(steps, of, |_, one| (one.threads == threads).then_some(one.operations_per_second))
}

fn best(steps: &Steps, of: &[&str]) -> Shape {
    let by_threads: Vec<(u32, Vec<Contender>)> =
        numbers_of_threads(steps, of).into_iter().map(|threads| (threads, with_threads(steps, of, threads))).collect();
    let Some((_, any)) = by_threads.first() else { return rates(steps, of, None, Against::Others) };
    let mut bests = Vec::new();
    let mut figures = Vec::new();
    for (place, one) in any.iter().enumerate() {
        let candidates = by_threads.iter().filter_map(|(threads, all)| Some((*threads, all.get(place)?)));
        let best = candidates
            .filter(|(_, one)| middle(one).is_some())
            .max_by(|(_, one), (_, other)| middle(one).unwrap_or(0.0).total_cmp(&middle(other).unwrap_or(0.0)));
        let (threads, best) = best.map_or((0, one), |(threads, best)| (threads, best));
        let with =
            if middle(best).is_some() { format!(" with {}", crate::say::threads(threads)) } else { String::new() };
        figures.push(format!("{}{with}", figure(best, rate)));
        bests.push(best.clone());
    }
    Shape { figures, standing: standing(&bests, Against::Others) }
}

fn scaling(steps: &Steps, of: &[&str]) -> Shape {
    let numbers = numbers_of_threads(steps, of);
    let by_threads: Vec<Vec<Contender>> = numbers.iter().map(|threads| with_threads(steps, of, *threads)).collect();
    let names = by_threads.first().map(|all| all.iter().map(|one| one.name.clone()).collect::<Vec<_>>());
    let curve = |place: usize| -> Vec<f64> {
        by_threads.iter().map(|all| all.get(place).and_then(middle).unwrap_or(f64::NAN)).collect()
    };
    let mut figures = Vec::new();
    let mut standing = Vec::new();
    for (place, name) in names.into_iter().flatten().enumerate() {
        let curve = curve(place);
        let shown = |figure: &f64| if figure.is_nan() { "-".to_owned() } else { short(*figure) };
        let points: Vec<String> =
            numbers.iter().zip(&curve).map(|(threads, figure)| format!("{threads}: {}", shown(figure))).collect();
        figures.push(format!("{name} {}", points.join(", ")));
        if let (Some(first), Some(last)) = (curve.first(), curve.last())
            && !first.is_nan()
            && !last.is_nan()
        {
            standing.push(format!("{name} {:.2} x", last / first));
        }
    }
    let (few, many) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
    Shape { figures, standing: format!("{many} threads against {few}: {}", joined(vec![standing.join(", ")])) }
}

fn times(steps: &Steps, of: &[&str], measure: Measure) -> Shape {
    let all = contenders(steps, of, |_, one| measure.of(one));
    let figures = all.iter().map(|one| figure(one, time)).collect();
    let Some(ours) = all.first().and_then(middle) else {
        return Shape { figures, standing: standing(&all, Against::Others) };
    };
    // Times: the larger is the slower, so the quotients are the other way round.
    let mut parts =
        vec![ratios(&all, &[Role::Rival, Role::JavaRival], |name, theirs| format!("{:.2} x {name}", theirs / ours))];
    for one in all.iter().filter(|one| one.role == Role::Yardstick) {
        parts.push(match middle(one) {
            Some(least) => format!("{:.1} % of the {}", 100.0 * least / ours, one.name),
            None => format!("{}: {}", one.name, reason(one)),
        });
    }
    Shape { figures, standing: joined(parts) }
}

fn proxy_cpu(steps: &Steps, of: &[&str]) -> Shape {
    let mut all = contenders(steps, of, |_, one| {
        // Its own process is the first of those that a target has.
        let proxy = one.server_parts.first()?;
        Some(proxy.cpu_seconds * 1e6 / (one.operations_per_second * one.measured_seconds))
    });
    // A server that nothing stands before has none.
    all.retain(|one| one.samples.as_ref().err().is_none_or(|reason| reason != TOO_FEW));
    let figures = all.iter().map(|one| figure(one, time)).collect();
    let standing = match ours(&all) {
        Err(why) => why,
        Ok(first) => {
            let others = ratios(&all, &[Role::Rival], |name, theirs| format!("{:.2} x {name}", theirs / first));
            joined(vec![others])
        }
    };
    Shape { figures, standing }
}

fn added(steps: &Steps, of: &[&str]) -> Shape {
    let all = contenders(steps, of, |_, one| Measure::Mean.of(one));
    let figures = all.iter().map(|one| figure(one, time)).collect();
    let direct = match ours(&all) {
        Ok(direct) => direct,
        Err(standing) => return Shape { figures, standing },
    };
    let least = all.get(1).and_then(middle).map(|relay| relay - direct).filter(|least| *least > 0.0);
    let words = all.iter().skip(1).enumerate().map(|(place, one)| match (middle(one), least) {
        (None, _) => format!("{}: {}", one.name, reason(one)),
        (Some(latency), _) if latency <= direct => format!("{} adds nothing", one.name),
        (Some(latency), Some(least)) if place > 0 => {
            format!("{} {} ({:.2} x)", one.name, time(latency - direct), (latency - direct) / least)
        }
        (Some(latency), _) => format!("{} {}", one.name, time(latency - direct)),
    });
    let standing = format!("added: {}", joined(vec![words.collect::<Vec<_>>().join(", ")]));
    Shape { figures, standing }
}

fn threads(steps: &Steps, of: &[&str], from: u32, to: u32) -> Shape {
    let (few, many) = (with_threads(steps, of, from), with_threads(steps, of, to));
    from_to(&few, &many, rate)
}

/// `Ashlar 71.5 K/s -> 51.6 K/s`, and by how many percent that is more.
fn from_to(before: &[Contender], after: &[Contender], shown: impl Fn(f64) -> String) -> Shape {
    let mut shape = Shape { figures: Vec::new(), standing: String::new() };
    let mut standing = Vec::new();
    for (before, after) in before.iter().zip(after) {
        match (middle(before), middle(after)) {
            (Some(first), Some(then)) => {
                shape.figures.push(format!("{} {} -> {}", before.name, shown(first), shown(then)));
                standing.push(format!("{} {:+.0} %", before.name, 100.0 * (then / first - 1.0)));
            }
            (None, _) => {
                shape.figures.push(format!("{} {NO_FIGURE}", before.name));
                standing.push(format!("{}: {}", before.name, reason(before)));
            }
            (_, None) => {
                shape.figures.push(format!("{} {NO_FIGURE}", after.name));
                standing.push(format!("{}: {}", after.name, reason(after)));
            }
        }
    }
    shape.standing = joined(vec![standing.join(", ")]);
    shape
}

/// The first target of a step.
fn first_of(steps: &Steps, step: &str, figure: impl Fn(&Run, &Measurement) -> Option<f64>) -> Option<Contender> {
    contenders(steps, &[step], figure).into_iter().next()
}

fn one_and_next(
    steps: &Steps,
    of: &[&str],
    names: [&str; 2],
    shown: fn(f64) -> String,
    measured: impl Fn(&Run, &Measurement) -> Option<f64>,
) -> Shape {
    let all: Vec<Option<Contender>> = of.iter().map(|step| first_of(steps, step, &measured)).collect();
    let named = all.iter().zip(names).map(|(one, name)| match one {
        Some(one) => figure(&Contender { name: name.to_owned(), ..one.clone() }, shown),
        None => format!("{name} {NO_FIGURE}"),
    });
    let figures = named.collect();
    let standing = match &all[..] {
        [Some(one), Some(next)] => match (middle(one), middle(next)) {
            (Some(first), Some(then)) => format!("{:.2} x", then / first),
            (None, _) => reason(one),
            (_, None) => reason(next),
        },
        _ => "not measured".to_owned(),
    };
    Shape { figures, standing }
}

/// What a percentile is in a record.
const TAILS: [(&str, Measure); 3] = [("p50", Measure::P50), ("p99", Measure::P99), ("p99.9", Measure::P999)];

fn tails(steps: &Steps, of: &[&str], names: &[&str]) -> Shape {
    let mut shape = Shape { figures: Vec::new(), standing: "not measured".to_owned() };
    for (step, name) in of.iter().zip(names) {
        let tail = |measure: Measure| first_of(steps, step, move |_, one| measure.of(one));
        let words = TAILS.map(|(said, measure)| match tail(measure).as_ref().and_then(middle) {
            Some(figure) => format!("{said} {}", time(figure)),
            None => format!("{said} {NO_FIGURE}"),
        });
        let beside = first_of(steps, step, |_, one| Some(one.beside.as_ref()?.latency.mean_us));
        let rows = first_of(steps, step, |run, one| {
            one.beside.as_ref()?;
            run.workload.parameters.get("beside_rows")?.as_f64()
        });
        let rows =
            rows.as_ref().and_then(middle).map_or_else(String::new, |rows| format!(" over {} rows", short(rows)));
        let beside = beside.as_ref().and_then(middle).map(|mean| format!(", queries of {}{rows}", time(mean)));
        shape.figures.push(format!("{name}: {}{}", words.join(", "), beside.unwrap_or_default()));
        shape.standing = match tail(Measure::P999) {
            Some(one) => middle(&one).map_or_else(|| reason(&one), |figure| format!("p99.9 {}", time(figure))),
            None => "not measured".to_owned(),
        };
    }
    shape
}

/// The bytes of an entry by which targets are compared: what is alive in the heap of a JVM, what is resident of any other.
fn of_entry(one: &Measurement) -> Option<f64> {
    let footprint = one.footprint.as_ref()?;
    Some(footprint.live_per_entry().unwrap_or_else(|| footprint.per_entry()))
}

fn after<'a>(
    step: &'a str,
    figure: impl Fn(&Measurement) -> Option<f64> + 'a,
) -> impl Fn(&Run, &Measurement) -> Option<f64> + 'a {
    move |_, one| if one.query.as_deref() == Some(step) { figure(one) } else { None }
}

fn entries(steps: &Steps, of: &[&str], step: &str) -> Shape {
    let all = contenders(steps, of, after(step, of_entry));
    let resident = contenders(steps, of, after(step, |one| Some(one.footprint.as_ref()?.per_entry())));
    let live = contenders(steps, of, after(step, |one| one.footprint.as_ref()?.live_per_entry()));
    let figures = all.iter().zip(resident.iter().zip(&live)).map(|(one, (resident, live))| {
        let shown = match (middle(one), middle(live), middle(resident)) {
            (_, Some(live), Some(resident)) => format!("{live:.0} B live heap, {resident:.0} B resident"),
            (Some(bytes), ..) => format!("{bytes:.0} B"),
            (None, ..) => NO_FIGURE.to_owned(),
        };
        format!("{} {shown}", one.name)
    });
    Shape { figures: figures.collect(), standing: standing(&all, Against::Others) }
}

fn change(steps: &Steps, of: &[&str], from: &str, to: &str) -> Shape {
    let (before, then) = (contenders(steps, of, after(from, of_entry)), contenders(steps, of, after(to, of_entry)));
    from_to(&before, &then, |bytes| format!("{bytes:.0} B"))
}

fn memory(steps: &Steps, of: &[&str], query: &str) -> Shape {
    let Used { above, figures, .. } = used(steps, of, query);
    // The less the better: how much more the others take.
    let ours = match ours(&above) {
        Ok(ours) => ours,
        Err(standing) => return Shape { figures, standing },
    };
    let others = ratios(&above, &[Role::Rival], |name, theirs| format!("{name} {:.2} x", theirs / ours));
    Shape { figures, standing: joined(vec![others]) }
}

/// What a query used.
struct Used {
    above: Vec<Contender>,
    /// Without the pages of files.
    unfiled: Vec<Contender>,
    mean: Vec<Contender>,
    /// `Ashlar 53 MiB above the data (18 MiB without files), 116 MiB in all, 30.8ms`.
    figures: Vec<String>,
}

fn used(steps: &Steps, of: &[&str], query: &str) -> Used {
    let measured = |measure: Measure| contenders(steps, of, after(query, move |one| measure.of(one)));
    let above = contenders(steps, of, after(query, above_data));
    let unfiled = contenders(steps, of, after(query, unfiled_above_data));
    let (peak, mean) = (measured(Measure::MemoryPeak), measured(Measure::Mean));
    let figures = above.iter().zip(&unfiled).zip(peak.iter().zip(&mean)).map(|((above, unfiled), (peak, mean))| {
        let shown = |one: &Contender, shown: fn(f64) -> String| middle(one).map_or(NO_FIGURE.to_owned(), shown);
        format!(
            "{} {} above the data ({} without files), {} in all, {}",
            above.name,
            shown(above, bytes),
            shown(unfiled, bytes),
            shown(peak, bytes),
            shown(mean, time)
        )
    });
    let figures = figures.collect();
    Used { above, unfiled, mean, figures }
}

/// What was resident at most above the loaded data, in bytes; a MiB at least, for less is what an allocator had left over, and of nothing
/// there is no ratio: whoever took nothing is still the least of all.
fn above_data(one: &Measurement) -> Option<f64> {
    Some(above(one.server_memory_peak_bytes?, one.server_memory_loaded_bytes?))
}

/// Likewise without the pages of files.
fn unfiled_above_data(one: &Measurement) -> Option<f64> {
    Some(above(one.server_memory_peak_unfiled_bytes?, one.server_memory_loaded_unfiled_bytes?))
}

fn above(peak: u64, loaded: u64) -> f64 {
    peak.saturating_sub(loaded).max(1 << 20) as f64
}

/// A number of a workload; "keys" are those that the rows of `hash-build` have.
fn counted(parameters: &BTreeMap<String, Value>, name: &str) -> Option<f64> {
    let number = |name: &str| parameters.get(name)?.as_f64();
    if name != "keys" {
        return number(name);
    }
    let rows = number("rows")?;
    Some(match (number("unique_percent"), number("distinct_percent")) {
        (_, Some(percent)) => (rows * percent / 100.0).floor().max(1.0),
        // Half of the rows whose key is not their own.
        (Some(percent), None) => rows * (percent + (100.0 - percent) / 2.0) / 100.0,
        // By chance: those of all items that at least one row is expected to have.
        (None, None) => {
            let items = number("items")?;
            -items * (rows * (-1.0 / items).ln_1p()).exp_m1()
        }
    })
}

fn each_byte(bytes: f64) -> String {
    format!("{bytes:.1} B")
}

/// What the engine says that a query took, for each of a number of the workload.
fn taken(run: &Run, one: &Measurement, query: &str, per: &str) -> Option<f64> {
    let count = counted(&run.workload.parameters, per)?;
    if one.query.as_deref() == Some(query) { Some(Measure::EngineMemory.of(one)? / count) } else { None }
}

fn structures(steps: &Steps, of: &[&str], query: &str, per: &str) -> Vec<Contender> {
    let mut all = contenders(steps, of, |run, one| taken(run, one, query, per));
    for one in &mut all {
        if one.samples.as_ref().is_err_and(|reason| reason == TOO_FEW) {
            one.samples = Err("it says nothing of its memory".to_owned());
        }
    }
    all
}

fn structure(steps: &Steps, of: &[&str], query: &str, per: &str) -> Shape {
    let all = structures(steps, of, query, per);
    let figures = all.iter().map(|one| figure(one, each_byte)).collect();
    let ours = match ours(&all) {
        Ok(ours) => ours,
        Err(standing) => return Shape { figures, standing },
    };
    let others = ratios(&all, &[Role::Rival], |name, theirs| format!("{name} {:.2} x", theirs / ours));
    Shape { figures, standing: joined(vec![others]) }
}

/// `all` is what each target takes. Impala's metric leaves out its tuples, with the keys in them: so we are judged without ours.
fn beside_buckets(steps: &Steps, of: &[&str], query: &str, all: &[Contender], key_bytes: u32, keys: &[u32]) -> Shape {
    let without = |bytes: f64| bytes - f64::from(key_bytes);
    let shown = |bytes: f64| match key_bytes {
        0 => format!("{} and no key", each_byte(bytes)),
        _ => format!("{} with the key, {} without", each_byte(bytes), each_byte(without(bytes))),
    };
    let mut figures: Vec<String> = all.iter().map(|one| figure(one, shown)).collect();
    figures.extend(used(steps, of, query).figures);
    let [_, filled] = buckets::of_join(keys);
    let (before, after) = (filled.before_each(), filled.after_each());
    figures.push(format!("Impala's {} {} before, {} after", filled.which, each_byte(before), each_byte(after)));
    let filling = buckets::fillings(keys).map(|one| format!("{} in {}", bytes(one.most_bytes), time(one.micros)));
    figures.push(format!(
        "Impala's tables at their most, filled by one thread as this is written: {} before, {} after",
        filling[0], filling[1]
    ));
    let standing = match ours(all) {
        Ok(ours) => format!("{:.2} x Impala's {} after its change", without(ours) / after, filled.which),
        Err(why) => why,
    };
    Shape { figures, standing }
}

fn allocated(steps: &Steps, of: &[&str]) -> Shape {
    let all = contenders(steps, of, |_, one| Measure::AllocatedPerOperation.of(one));
    let each = |bytes: f64| Measure::AllocatedPerOperation.shown(bytes);
    let standing = match ours(&all) {
        Ok(ours) => format!("{} a query", each(ours)),
        Err(why) => why,
    };
    Shape { figures: all.iter().map(|one| figure(one, each)).collect(), standing }
}

fn peak(steps: &Steps, of: &[&str], query: &str) -> Shape {
    let Used { above, unfiled, mean, figures } = used(steps, of, query);
    // Beside the best of the others in each.
    let best = |all: &[Contender]| {
        let rivals = all.iter().skip(1).filter(|one| one.role == Role::Rival);
        let least = rivals.filter_map(|one| Some((one.name.clone(), middle(one)?)));
        least.min_by(|(_, one), (_, other)| one.total_cmp(other))
    };
    let against = |all: &[Contender], what: &str| match (all.first().and_then(middle), best(all)) {
        (Some(ours), Some((name, theirs))) => format!("{what} {:.2} x {name}", ours / theirs),
        (None, _) => format!("{what}: {}", all.first().map_or("nobody was measured".to_owned(), reason)),
        (_, None) => format!("{what}: nobody beside it"),
    };
    let words = [(&above, "memory above the data"), (&unfiled, "without files"), (&mean, "time")];
    Shape { figures, standing: joined(words.map(|(all, what)| against(all, what)).to_vec()) }
}

fn of_buckets(keys: &[u32]) -> Shape {
    let lines = buckets::of_join(keys);
    let figures = lines.iter().map(|line| {
        format!("{}: {:.2} B before, {:.2} B after an entry", line.which, line.before_each(), line.after_each())
    });
    let words = lines
        .iter()
        .map(|line| format!("{} {:+.1} %", line.which, 100.0 * (line.after_each() / line.before_each() - 1.0)));
    Shape { figures: figures.collect(), standing: words.collect::<Vec<_>>().join(", ") }
}
