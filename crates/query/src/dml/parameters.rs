//! Parameters outside of queries: ON CONFLICT reads them as columns behind those of its rows.

use ashlar_base::{Result, SqlType};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::walk;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, Ident};

use crate::key_plan;

/// The qualifier of parameters as columns, which no user can write.
const PARAMETERS: &str = "\u{1}parameters";

/// Parameters that an expression reads, each replaced by a column of its own.
#[derive(Default)]
pub(super) struct ParametersRead {
    /// From 0, each once.
    pub(super) numbers: Vec<usize>,
}

impl ParametersRead {
    pub(super) fn replace_in(&mut self, expr: &mut Expr) {
        use std::ops::ControlFlow;
        let _: ControlFlow<()> = walk::expressions_mut(expr, |node| {
            if matches!(node, Expr::Value(_))
                && let Some(number) = key_plan::parameter(node)
            {
                if !self.numbers.contains(&number) {
                    self.numbers.push(number);
                }
                let column = Ident::with_quote('"', parameter_column(number));
                *node = Expr::CompoundIdentifier(vec![Ident::with_quote('"', PARAMETERS), column]);
            }
            ControlFlow::Continue(())
        });
    }
}

fn parameter_column(number: usize) -> String {
    format!("${}", number + 1)
}

/// The columns that parameters are.
pub(super) fn parameter_schema(parameters: &[(usize, SqlType)]) -> Result<DFSchema> {
    let fields: Vec<arrow::datatypes::FieldRef> = parameters
        .iter()
        .map(|(number, sql_type)| ashlar_functions::fields::field_of(&parameter_column(*number), *sql_type))
        .collect();
    DFSchema::try_from_qualified_schema(PARAMETERS, &arrow::datatypes::Schema::new(fields)).map_err(from_datafusion)
}
