//! The samples of a row: what the runs of its steps say of each target.

use std::collections::BTreeMap;

use crate::foreign::Program;
use crate::record::{ClientKind, Measurement, Run, TargetState};
use crate::report::remarks::client_share;
use crate::targets::Target;

/// What became of a step.
#[derive(Default)]
pub(super) struct Measured {
    /// Whom its words name.
    pub(super) targets: Vec<String>,
    /// The runs of its rounds.
    pub(super) runs: Vec<Run>,
    /// Why there is none, if there is a reason.
    pub(super) failure: Option<String>,
}

/// What became of the steps of a group, by their names.
pub(super) type Steps = BTreeMap<&'static str, Measured>;

/// A target in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Contender {
    /// As the command names it.
    pub(super) target: String,
    /// As people do.
    pub(super) name: String,
    pub(super) role: Role,
    /// Figures of its sound measurements, or why there are none.
    pub(super) samples: Result<Vec<f64>, String>,
    /// The share of its cores that the client used.
    pub(super) client: Option<f64>,
}

/// Why there is no figure where answers are sound.
pub(super) const TOO_FEW: &str = "too few answers for such a figure";

/// What a target is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that is compared with the others.
    First,
    Rival,
    /// A rival whose client is in Java.
    JavaRival,
    /// The first, through a client in Java.
    ByLettuce,
    /// What nobody gets past.
    Ceiling,
    /// What a scan could reach.
    Yardstick,
}

/// What a target is called in a table.
fn called(target: &Target) -> String {
    let server = target.server();
    let name = match server.to_string().as_str() {
        "ashlar" => "Ashlar",
        "redis" => "Redis",
        "valkey" => "Valkey",
        "postgres" => "PostgreSQL",
        "relay" => "null relay",
        "pgbouncer" => "PgBouncer",
        "shardingsphere" => "ShardingSphere-Proxy",
        "shardingsphere-4" => "ShardingSphere-Proxy of four",
        "ashlar-proxy" => "Ashlar as a proxy",
        "ashlar-proxy-2" => "Ashlar as a proxy of two",
        "ashlar-proxy-4" => "Ashlar as a proxy of four",
        "duckdb" => "DuckDB",
        "datafusion" => "DataFusion",
        "chdb" => "ClickHouse (chdb)",
        "polars" => "Polars",
        "noop" => "no-op server",
        "plain-loop" => "plain loop",
        "hazelcast" => "Hazelcast",
        "hazelcast-sql" => "Hazelcast by SQL",
        "hazelcast-predicates" => "Hazelcast by predicates",
        "geode" => "Geode",
        "geode-replicated" => "Geode replicated",
        other => other,
    }
    .to_owned();
    match target {
        Target::Lettuce(_) => format!("{name} by Lettuce"),
        Target::Foreign(Program::PgbenchUnrouted, _) => format!("{name}, routing off"),
        _ => name,
    }
}

/// The targets of some steps, in their order, with the figures that `figure` finds in their measurements; None leaves one out.
pub(super) fn contenders(
    steps: &Steps,
    of: &[&str],
    figure: impl Fn(&Run, &Measurement) -> Option<f64>,
) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for step in of.iter().filter_map(|name| steps.get(name)) {
        let Some(first) = step.runs.first() else {
            let reason = step.failure.clone().unwrap_or_else(|| "not measured".to_owned());
            for target in &step.targets {
                let name = Target::parse(target).map_or_else(|_| target.clone(), |target| called(&target));
                let role = if all.is_empty() { Role::First } else { Role::Rival };
                all.push(Contender { target: target.clone(), name, role, samples: Err(reason.clone()), client: None });
            }
            continue;
        };
        for target in &first.targets {
            let parsed = Target::parse(&target.name).ok();
            let role = match &parsed {
                _ if all.is_empty() => Role::First,
                Some(target) if *target.server() == Target::Noop => Role::Ceiling,
                Some(Target::PlainLoop) => Role::Yardstick,
                Some(Target::Lettuce(_)) => Role::ByLettuce,
                _ if target.client == ClientKind::Java => Role::JavaRival,
                _ => Role::Rival,
            };
            all.push(Contender {
                target: target.name.clone(),
                name: parsed.as_ref().map_or_else(|| target.name.clone(), called),
                role,
                samples: samples(&step.runs, &target.name, &figure),
                client: client(&step.runs, &target.name),
            });
        }
    }
    all
}

fn samples(
    runs: &[Run],
    target: &str,
    figure: &impl Fn(&Run, &Measurement) -> Option<f64>,
) -> Result<Vec<f64>, String> {
    let mut found = Vec::new();
    for run in runs {
        let those = run.measurements.iter().filter(|one| one.target == target && one.is_sound());
        // Of a window in which no answer came there is no ratio.
        found.extend(those.filter_map(|one| figure(run, one)).filter(|figure| figure.is_finite() && *figure > 0.0));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let own = || runs.iter().flat_map(|run| &run.measurements).filter(|one| one.target == target);
    let mut said = runs.iter().filter_map(|run| run.target(target)).filter_map(|target| {
        let state = if target.state == TargetState::Absent { "absent" } else { "failed" };
        target.reason.as_ref().map(|reason| format!("{state}, {}", reason.lines().next().unwrap_or_default()))
    });
    if own().any(Measurement::is_sound) {
        // It may have failed at what this figure is of, and not before.
        return Err(said.next().unwrap_or_else(|| TOO_FEW.to_owned()));
    }
    let wrong = own()
        .filter_map(|one| one.first_error.as_ref())
        .map(|error| format!("wrong answers, the first: {error}"))
        .next();
    let unsent = own().map(|one| one.unsent).find(|unsent| *unsent > 0);
    let unsent = unsent.map(|unsent| format!("it fell behind the rate: {unsent} requests were due and never sent"));
    Err(said.next().or(wrong).or(unsent).unwrap_or_else(|| "not measured".to_owned()))
}

/// The mean share over its measurements.
fn client(runs: &[Run], target: &str) -> Option<f64> {
    let shares: Vec<f64> = runs
        .iter()
        .flat_map(|run| run.measurements.iter().filter(|one| one.target == target).map(move |one| (run, one)))
        .filter_map(|(run, one)| client_share(run, one))
        .collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::run;

    #[test]
    fn targets_have_names_and_roles() {
        assert_eq!(called(&Target::parse("pgbench-unrouted=ashlar-proxy").unwrap()), "Ashlar as a proxy, routing off");
        let runs = vec![run(&["redis-benchmark=ashlar", "redis-benchmark=redis", "redis-benchmark=noop"], &[50])];
        let mut java = run(&["hazelcast", "lettuce=ashlar"], &[50]);
        java.targets.iter_mut().for_each(|target| target.client = ClientKind::Java);
        java.targets[0].state = TargetState::Absent;
        java.targets[0].reason = Some("no java\nat all".into());
        java.measurements.retain(|one| one.target != "hazelcast");
        let steps = Steps::from([
            ("programs", Measured { runs, ..Measured::default() }),
            ("java", Measured { runs: vec![java], ..Measured::default() }),
            (
                "none",
                Measured {
                    targets: vec!["hazelcast-sql".into()],
                    failure: Some("no target".into()),
                    ..Measured::default()
                },
            ),
        ]);
        let all = contenders(&steps, &["programs", "java", "none"], |_, one| Some(one.operations_per_second));
        let named: Vec<(&str, Role)> = all.iter().map(|one| (one.name.as_str(), one.role)).collect();
        assert_eq!(
            named,
            [
                ("Ashlar", Role::First),
                ("Redis", Role::Rival),
                ("no-op server", Role::Ceiling),
                ("Hazelcast", Role::JavaRival),
                ("Ashlar by Lettuce", Role::ByLettuce),
                ("Hazelcast by SQL", Role::Rival),
            ]
        );
        assert_eq!(all[0].samples, Ok(vec![10_000.0, 10_000.0]));
        assert_eq!(all[3].samples, Err("absent, no java".into()));
        assert_eq!(all[5].samples, Err("no target".into()));
        let none = contenders(&steps, &["programs"], |_, _| None);
        assert_eq!(none[0].samples, Err("too few answers for such a figure".into()));

        let mut many = run(&["postgres"], &[32, 512]);
        many.measurements.retain(|one| one.threads == 32);
        many.targets[0].state = TargetState::Failed;
        many.targets[0].reason = Some("pgbench: its time was over\nits report".into());
        let steps = Steps::from([("many", Measured { runs: vec![many], ..Measured::default() })]);
        let lost = contenders(&steps, &["many"], |_, one| (one.threads == 512).then_some(one.operations_per_second));
        assert_eq!(lost[0].samples, Err("failed, pgbench: its time was over".into()));

        let mut behind = run(&["ashlar"], &[50]);
        behind.measurements.iter_mut().for_each(|one| one.unsent = 3);
        let steps = Steps::from([("busy", Measured { runs: vec![behind], ..Measured::default() })]);
        let behind = contenders(&steps, &["busy"], |_, one| Some(one.operations_per_second));
        let said = "it fell behind the rate: 3 requests were due and never sent";
        assert_eq!(behind[0].samples, Err(said.into()));
    }
}
