//! Parameters outside of queries: ON CONFLICT reads them as columns behind those of its rows; RETURNING does not.

use ashlar_base::{Error, ErrorCode, Result, SqlType};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SelectItemQualifiedWildcardKind};

use crate::error::from_datafusion;
use crate::key_plan::{self, single};

/// Refuses what RETURNING would answer otherwise than PostgreSQL.
pub(super) fn check_returning(items: &mut [SelectItem], alias: &str, has_sources: bool) -> Result<()> {
    let star = || {
        Error::unsupported("RETURNING * of a statement with other tables is not supported")
            .with_hint("Name the target's columns.")
    };
    for item in items {
        match item {
            SelectItem::Wildcard(_) if has_sources => return Err(star()),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                if single(name).as_deref() != Some(alias) {
                    return Err(if has_sources {
                        star()
                    } else {
                        Error::new(ErrorCode::UndefinedTable, format!("missing FROM-clause entry for table \"{name}\""))
                    });
                }
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                let mut read = ParametersRead::default();
                read.replace_in(expr);
                if !read.numbers.is_empty() {
                    return Err(Error::unsupported("parameters in RETURNING are not supported"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

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
        use datafusion::sql::sqlparser::ast::visit_expressions_mut;
        use std::ops::ControlFlow;
        let _: ControlFlow<()> = visit_expressions_mut(expr, |node| {
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
        .map(|(number, sql_type)| crate::expressions::field_of(&parameter_column(*number), *sql_type))
        .collect();
    DFSchema::try_from_qualified_schema(PARAMETERS, &arrow::datatypes::Schema::new(fields)).map_err(from_datafusion)
}
