//! The parser and the planner of SQL, behind functions that are not generic.
//!
//! DataFusion's planner is generic over who knows the tables, and the parser over its options: each is thousands of
//! functions, compiled here, beside the engine's own crates, and not in the crate that calls them.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::file_options::file_type::FileType;
use datafusion_common::{DFSchema, Result, TableReference};
use datafusion_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion_expr::sqlparser::ast;
use datafusion_expr::{AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF};
use datafusion_sql::planner::{ParserOptions, PlannerContext, SqlToRel};

/// Parses a string of statements as PostgreSQL does.
///
/// # Errors
/// PostgreSQL's for a syntax error.
pub fn parse(text: &str) -> pg_query::Result<pg_query::ParseResult> {
    pg_query::parse(text, 0)
}

/// The logical plan of a statement, before analysis.
///
/// # Errors
/// What name and type resolution find.
pub fn plan(
    provider: &dyn ContextProvider,
    statement: ast::Statement,
    context: &mut PlannerContext,
) -> Result<LogicalPlan> {
    planner(&Pointed(provider)).sql_statement_to_plan_with_context(statement, context)
}

/// An expression over columns of a schema, before analysis.
///
/// # Errors
/// What name and type resolution find.
pub fn expression(provider: &dyn ContextProvider, expr: ast::Expr, schema: &DFSchema) -> Result<Expr> {
    planner(&Pointed(provider)).sql_to_expr(expr, schema, &mut PlannerContext::new())
}

fn planner<'p>(provider: &'p Pointed<'p>) -> SqlToRel<'p, Pointed<'p>> {
    SqlToRel::new_with_options(provider, ParserOptions::from(&provider.options().sql_parser))
}

/// The one provider that the planner is made for. Hands on those functions too that have a default: without that a
/// provider's own would not be heard.
struct Pointed<'p>(&'p dyn ContextProvider);

impl ContextProvider for Pointed<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        self.0.get_table_source(name)
    }

    fn get_file_type(&self, extension: &str) -> Result<Arc<dyn FileType>> {
        self.0.get_file_type(extension)
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        self.0.get_table_function_source(name, args)
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        self.0.create_cte_work_table(name, schema)
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.0.get_expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.0.get_relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        self.0.get_type_planner()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.0.get_function_meta(name)
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.0.get_higher_order_meta(name)
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.0.get_aggregate_meta(name)
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.0.get_window_meta(name)
    }

    fn get_variable_type(&self, names: &[String]) -> Option<DataType> {
        self.0.get_variable_type(names)
    }

    fn get_variable_field(&self, names: &[String]) -> Option<FieldRef> {
        self.0.get_variable_field(names)
    }

    fn options(&self) -> &ConfigOptions {
        self.0.options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.0.udf_names()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.0.higher_order_function_names()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.0.udaf_names()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.0.udwf_names()
    }
}
