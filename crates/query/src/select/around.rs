//! What a subquery reads of the queries around it, by itself and in subqueries inside it.
//!
//! Called before optimisation, for subqueries that the engine cannot join to the rows right around them, and by `per_row`, which runs those.

use ashlar_functions::tree::{any_part, each_expression_of, each_node, each_part};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// References out of a subquery.
#[derive(Default)]
pub(super) struct Around {
    /// Columns of the queries around.
    pub(super) free: Vec<Column>,
    /// The references to them.
    pub(super) references: Vec<Expr>,
    /// Columns that subqueries inside read of the queries between.
    pub(super) bound: Vec<Column>,
    /// Whether subqueries inside read some of the free ones, or look for what they are.
    pub(super) is_handed_on: bool,
}

impl Around {
    /// Those of a subquery's plan.
    pub(super) fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut around = Self::default();
        around.collect(plan, &mut Vec::new())?;
        Ok(around)
    }

    fn collect(&mut self, plan: &LogicalPlan, scopes: &mut Vec<DFSchema>) -> Result<()> {
        each_node(plan, |node| {
            let schema = merge_schema(&node.inputs());
            each_expression_of(node, |expr| {
                each_part(expr, |part| {
                    if let Expr::OuterReferenceColumn(_, column) = part {
                        self.note(part, column, scopes);
                    }
                    if let Expr::InSubquery(InSubquery { expr: operand, .. }) = part {
                        self.is_handed_on |= any_part(operand, |part| {
                            Ok(matches!(part, Expr::OuterReferenceColumn(_, column) if !is_bound(column, scopes)))
                        })?;
                    }
                    if let Expr::ScalarSubquery(Subquery { subquery, .. })
                    | Expr::Exists(Exists { subquery: Subquery { subquery, .. }, .. })
                    | Expr::InSubquery(InSubquery { subquery: Subquery { subquery, .. }, .. }) = part
                    {
                        scopes.push(schema.clone());
                        self.collect(subquery, scopes)?;
                        scopes.pop();
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })
        .map(drop)
    }

    fn note(&mut self, reference: &Expr, column: &Column, scopes: &[DFSchema]) {
        if is_bound(column, scopes) {
            if !self.bound.contains(column) {
                self.bound.push(column.clone());
            }
            return;
        }
        self.is_handed_on |= !scopes.is_empty();
        if !self.free.contains(column) {
            self.free.push(column.clone());
            self.references.push(reference.clone());
        }
    }
}

/// Whether a query between has the column.
fn is_bound(column: &Column, scopes: &[DFSchema]) -> bool {
    scopes.iter().any(|scope| scope.has_column(column))
}
