//! The passes over a query before the engine plans it, in their order: each relies on those before it.
//!
//! Called by the planner for the query of a statement, and for parts of it that a pass asks about. The passes settle
//! names, joins and lists only; what depends on types is done by the rules after planning.

use ashlar_base::Result;
use datafusion::sql::sqlparser::ast::Query;

use super::{
    Planner, aliases, ambiguous, arrays, casts, frames, group_keys, grouping, joins, labels, limits, name_outputs,
    numbered, ordering, parameter_places, qualifiers, recursive, references, scopes, stars, targets, values,
    whole_rows, windows, with_once,
};

/// Settles a query, and says how many columns at the end of its list nobody is to see.
///
/// # Errors
/// What the passes find.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query, declared: &[u32]) -> Result<usize> {
    arrays::declare(query, declared);
    parameter_places::settle(query, declared);
    frames::settle(planner, query)?;
    numbered::check(query)?;
    scopes::rename_hidden(query)?;
    if references::settle(query)? {
        whole_rows::settle(planner.catalog, query)?;
    }
    recursive::settle(planner, query)?;
    with_once::check(planner.state, query)?;
    values::settle(planner, query, declared)?;
    // What the passes behind this one plan of the query has its types.
    let is_outermost = recursive::types::settle(planner, query, declared)?;
    let hidden = settle_names(planner, query);
    if is_outermost {
        recursive::types::leave(planner);
    }
    hidden
}

/// The passes that ask what FROM gives, and those behind them.
fn settle_names(planner: &Planner<'_>, query: &mut Query) -> Result<usize> {
    aliases::fill(planner, query)?;
    joins::expand(planner, query)?;
    ambiguous::check(planner, query)?;
    windows::check(planner, query)?;
    limits::check(planner, query)?;
    stars::write_out(planner, query);
    targets::settle_groups(planner, query)?;
    group_keys::settle(planner, query)?;
    grouping::settle(planner, query);
    labels::tell_apart(planner, query)?;
    targets::settle(planner, query)?;
    name_outputs(query);
    let hidden = ordering::select_subqueries(query);
    casts::tell_apart(planner.state, query);
    qualifiers::settle(query);
    Ok(hidden)
}
