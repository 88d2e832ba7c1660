//! The flame graphs of a run: one for each kind of profile of each target and case, of all sound repetitions together.

use std::path::Path;

use anyhow::{Context, Result};
use ashlar_telemetry::profile::Kind;
use ashlar_telemetry::{Stacks, flame};

use crate::record::folder::load_profile;
use crate::record::{Case, Run};

/// A page of SVG.
pub(super) struct Flame {
    pub(super) title: String,
    pub(super) case: Case,
    /// In pixels, as it was drawn: stacks are as deep as they are.
    pub(super) height: u32,
    pub(super) page: String,
}

/// Draws them, from the files of the run's folder.
pub(super) fn of(folder: &Path, run: &Run) -> Result<Vec<Flame>> {
    let mut flames = Vec::new();
    for (target, case) in run.cells() {
        for kind in Kind::ALL {
            let mut stacks = Stacks::default();
            for one in run.of(&target, &case).filter(|one| one.is_sound()) {
                if let Some(profile) = one.profile(kind) {
                    stacks.merge(&load_profile(folder, &profile.file)?);
                }
            }
            if !stacks.is_empty() {
                let title = format!("{target}, {case}: {}", kind.title());
                let page = flame::page(&stacks, &title, kind.value_type().unit)?;
                let page = String::from_utf8(page)?;
                let height = height(&page).with_context(|| format!("{title}: the drawing says no height"))?;
                flames.push(Flame { title, case: case.clone(), height, page });
            }
        }
    }
    Ok(flames)
}

/// The height that the outermost element of a drawing says.
fn height(page: &str) -> Option<u32> {
    let (_, drawing) = page.split_once("<svg")?;
    let (attributes, _) = drawing.split_once('>')?;
    let (_, height) = attributes.split_once(" height=\"")?;
    height.split_once('"')?.0.parse().ok()
}
