//! The physical plan of an optimised one, with the types that the optimised one gives.

use std::sync::Arc;

use ashlar_functions::{concatenation, guards};
use datafusion::common::{Result, internal_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

/// The physical plan of `plan`.
///
/// DataFusion compares the two only beneath an aggregation, and there more than an answer needs: a constant or a null-extended
/// column that may be NULL, or that has lost its type's name, is refused (the engine's sessions therefore do without). Here it
/// is the types of the rows, of every plan.
///
/// # Errors
/// As the planner; internal if a column would have another type than the optimised plan says.
pub(super) async fn of(plan: LogicalPlan, state: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = guards::of_plan(plan).and_then(concatenation::of_plan)?;
    let physical = state.query_planner().create_physical_plan(&plan, state).await?;
    let (said, given) = (plan.schema().fields(), physical.schema());
    if said.len() != given.fields().len() {
        return internal_err!("a plan of {} columns has become one of {}", said.len(), given.fields().len());
    }
    for (said, given) in said.iter().zip(given.fields()) {
        if !said.data_type().equals_datatype(given.data_type()) {
            return internal_err!("{} is {}, and would be {}", said.name(), said.data_type(), given.data_type());
        }
    }
    Ok(physical)
}
