//! Named windows: replaces the name by the window's definition, for `OVER w` as it is, for `OVER (w ...)` with what the function adds.
//!
//! Called while a statement is rewritten. Source: PostgreSQL's `transformWindowDefinitions`.

use ashlar_base::{Error, ErrorCode, Result};
use datafusion::sql::sqlparser::ast::{NamedWindowExpr, Select, WindowSpec, WindowType};

use super::copies::{Copies, nodes_of};
use crate::select::names::folded;

/// The windows of the queries that are being looked at, from the outermost: functions see those of their own query.
#[derive(Default)]
pub(super) struct Windows {
    levels: Vec<Vec<(String, WindowSpec)>>,
}

impl Windows {
    /// Goes into a SELECT, or into what the query around it is sorted by; `None` for a query that is no SELECT.
    ///
    /// # Errors
    /// 42P20 for two windows of one name, else as [`Self::resolve`].
    pub(super) fn enter(&mut self, select: Option<&Select>, copies: &mut Copies) -> Result<()> {
        let mut named: Vec<(String, WindowSpec)> = Vec::new();
        for definition in select.into_iter().flat_map(|select| &select.named_window) {
            let NamedWindowExpr::WindowSpec(spec) = &definition.1 else { continue };
            let name = folded(&definition.0);
            if named.iter().any(|(known, _)| *known == name) {
                return Err(windowing(format!("window \"{name}\" is already defined")));
            }
            let mut spec = spec.clone();
            based_on(&mut spec, &named, copies)?;
            named.push((name, spec));
        }
        self.levels.push(named);
        Ok(())
    }

    /// Goes out of it again.
    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Puts what a window stands for in its place.
    ///
    /// # Errors
    /// 42704 for a name that no window has, 42P20 for what a window with a name does not let one add, 54001 where its copies are too much.
    pub(super) fn resolve(&self, over: &mut Option<WindowType>, copies: &mut Copies) -> Result<()> {
        let named = self.levels.last().map_or(&[][..], Vec::as_slice);
        match over {
            None => Ok(()),
            Some(WindowType::WindowSpec(spec)) => based_on(spec, named, copies),
            Some(WindowType::NamedWindow(name)) => {
                let spec = find(named, &folded(name))?;
                copies.take(nodes_of(spec))?;
                *over = Some(WindowType::WindowSpec(spec.clone()));
                Ok(())
            }
        }
    }
}

fn find<'w>(named: &'w [(String, WindowSpec)], name: &str) -> Result<&'w WindowSpec> {
    let found = named.iter().find(|(known, _)| known == name).map(|(_, spec)| spec);
    found.ok_or_else(|| Error::new(ErrorCode::UndefinedObject, format!("window \"{name}\" does not exist")))
}

/// A window that begins with the name of another takes over what that stands for.
fn based_on(spec: &mut WindowSpec, named: &[(String, WindowSpec)], copies: &mut Copies) -> Result<()> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let name = folded(&name);
    let base = find(named, &name)?;
    if !spec.partition_by.is_empty() {
        return Err(windowing(format!("cannot override PARTITION BY clause of window \"{name}\"")));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(windowing(format!("cannot override ORDER BY clause of window \"{name}\"")));
    }
    if base.window_frame.is_some() {
        return Err(windowing(format!("cannot copy window \"{name}\" because it has a frame clause")));
    }
    copies.take(nodes_of(base))?;
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}

fn windowing(message: String) -> Error {
    Error::new(ErrorCode::WindowingError, message)
}
