//! Which functions of a server cost more or less: the profiles of two runs, compared by what one operation costs, or by how many
//! threads and tasks at a time are in them.
//!
//! Says what has changed, not whether: that is said by the figures of the repetitions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ashlar_telemetry::Stacks;
use ashlar_telemetry::difference::{Change, changes};
use ashlar_telemetry::flame::{self, Widths};
use ashlar_telemetry::profile::Kind;

use super::Side;
use crate::record::Case;
use crate::record::folder::load_profile;
use crate::say::result;

/// Functions that are named.
const NAMED: usize = 5;

/// Changes below this part of what an operation costs are not named: stacks are samples, and of few of them more than that is chance.
const NAMED_PART_MIN: f64 = 0.01;

/// All profiles of one kind of a side.
struct Profiles {
    stacks: Stacks,
    /// What they are divided by: operations; or, of threads' time, its nanoseconds, for a thread that waits for work does so
    /// however much there is.
    parts: f64,
}

/// What is different in one kind of profile in a case.
pub(super) struct Difference {
    kind: Kind,
    case: Case,
    /// Those that differ most come first.
    changes: Vec<Change>,
    /// What an operation costs in the larger of the two.
    cost: f64,
    /// The pages that were drawn.
    pages: Vec<PathBuf>,
}

/// Compares the profiles that both sides have, and draws the differences into a folder.
pub(super) fn compare(base: &Side, test: &Side, folder: &Path) -> Result<Vec<Difference>> {
    let mut differences = Vec::new();
    let names =
        if base.target == test.target { base.target.clone() } else { format!("{}-{}", base.target, test.target) };
    let names = names.replace(['/', ':', '='], "_");
    for case in &base.run.load.cases() {
        for kind in Kind::ALL {
            let (Some(before), Some(after)) = (profiles(base, case, kind)?, profiles(test, case, kind)?) else {
                continue;
            };
            let cost = |profiles: &Profiles| profiles.stacks.total() as f64 / profiles.parts;
            differences.push(Difference {
                kind,
                case: case.clone(),
                changes: changes((&before.stacks, before.parts), (&after.stacks, after.parts)),
                cost: cost(&before).max(cost(&after)),
                pages: draw(&before, &after, &names, kind, case, folder)?,
            });
        }
    }
    Ok(differences)
}

/// None where there are none.
fn profiles(side: &Side, case: &Case, kind: Kind) -> Result<Option<Profiles>> {
    let mut all = Profiles { stacks: Stacks::default(), parts: 0.0 };
    for one in side.sound(case) {
        if let Some(profile) = one.profile(kind) {
            all.stacks.merge(&load_profile(&side.folder, &profile.file)?);
            all.parts += match kind {
                Kind::Wall => profile.seconds * 1e9,
                Kind::Cpu | Kind::Heap | Kind::Allocations => one.operations_per_second * profile.seconds,
            };
        }
    }
    Ok((all.parts > 0.0).then_some(all))
}

/// Two pages: what is new is wide in the one, what is gone in the other.
fn draw(base: &Profiles, test: &Profiles, names: &str, kind: Kind, case: &Case, folder: &Path) -> Result<Vec<PathBuf>> {
    let scale = test.parts / base.parts;
    let mut pages = Vec::new();
    for (widths, side, stacks) in [(Widths::Test, "test", &test.stacks), (Widths::Base, "base", &base.stacks)] {
        if stacks.is_empty() {
            continue;
        }
        let title = format!("{}, {case}: red is more, widths are those of the {side}", kind.title());
        let unit = kind.value_type().unit;
        let page = flame::difference(&base.stacks, scale, &test.stacks, widths, &title, unit)?;
        let path = folder.join(format!("difference-{names}-{}-{kind}-{side}.svg", case.short()));
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        fs::write(&path, page).with_context(|| path.display().to_string())?;
        pages.push(path);
    }
    Ok(pages)
}

impl Difference {
    /// The functions whose change is worth a line.
    pub(super) fn named(&self) -> impl Iterator<Item = &Change> {
        let least = self.cost * NAMED_PART_MIN;
        self.changes.iter().filter(move |change| change.more().abs() >= least).take(NAMED)
    }

    pub(super) fn show(&self) -> Result<()> {
        let what = match self.kind {
            Kind::Cpu => "CPU per operation",
            Kind::Wall => "threads and tasks at a time",
            Kind::Heap => "memory kept per operation",
            Kind::Allocations => "memory allocated per operation",
        };
        let title = format!("{what}, {}", self.case);
        result(&format!("\n{title:<38}{:>12}{:>12}{:>12}", "base", "test", "difference"))?;
        let mut none = true;
        for change in self.named() {
            none = false;
            let figure = |value: f64| shown(self.kind, value);
            let more = if change.more() < 0.0 {
                format!("-{}", figure(-change.more()))
            } else {
                format!("+{}", figure(change.more()))
            };
            result(&format!(
                "{:>38}{:>12}{:>12}{more:>12}  {}",
                "",
                figure(change.base),
                figure(change.test),
                change.function
            ))?;
        }
        if none {
            result("  no function differs by 1 % of that")?;
        }
        for page in &self.pages {
            result(&format!("  {}", page.display()))?;
        }
        Ok(())
    }
}

/// A value of a profile, divided, for people.
fn shown(kind: Kind, value: f64) -> String {
    if kind == Kind::Wall {
        return format!("{value:.3}");
    }
    match kind.value_type().unit {
        "nanoseconds" if value >= 999_500.0 => format!("{:.2} ms", value / 1e6),
        "nanoseconds" if value >= 999.5 => format!("{:.2} us", value / 1e3),
        "nanoseconds" => format!("{value:.0} ns"),
        _ if value >= 1023.5 => format!("{:.2} KiB", value / 1024.0),
        _ => format!("{value:.0} B"),
    }
}
