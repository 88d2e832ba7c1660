//! Plans a statement: resolves its names, runs the passes over its syntax tree, the engine's planner, and the passes
//! over the logical plan.
//!
//! Called by `SelectPlan`, and by passes that need the plan of a part of a statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::{DataType, SchemaRef};
use ashlar_base::value::text::Zone;
use ashlar_base::{Error, ErrorCode, Result, SqlType};
use ashlar_functions::error::{external, from_datafusion, undefined_table};
use ashlar_functions::sql;
use ashlar_store::arrow_types::sql_type_of;
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::{DFSchema, ScalarValue, TableReference, plan_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{TableProvider, ViewTable, provider_as_source};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Cast, Expr, ExprSchemable, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource,
    WindowUDF,
};
use datafusion::sql::planner::PlannerContext;
use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr, Statement as AstStatement};
use parking_lot::Mutex;

use super::sources::Answers;
use super::{
    arrays, as_grid, expiry, grouping_sets, kin, lateral, limits, not_in, numerics, object_numbers, ordering,
    outer_aggregates, parse, passes, subqueries, subqueries_beneath, table_numbers, vectors,
};
use crate::catalog::{CatalogState, Table};
use crate::engine::Engine;
use crate::grid_table::GridTable;
use crate::{parameters, system_tables};

/// Plans against one picture of the catalog.
pub struct Planner<'a> {
    /// Functions, types and options.
    pub state: &'a SessionState,
    /// Names.
    pub catalog: &'a Arc<CatalogState>,
    /// The session's time zone.
    pub zone: Zone,
    /// The statement says nothing of collations: texts are compared by those of their tables.
    is_without_collations: bool,
    /// A table that is known to this statement only.
    pub(super) own: Option<(&'a str, Arc<dyn TableProvider>)>,
    /// The statement names the system column of tables.
    pub(super) names_expiry: AtomicBool,
    /// The recursive queries of what is planned have their types, or are getting them.
    pub(super) is_typing: AtomicBool,
    /// What was asked of parts of the statement, by their text.
    pub(super) sources: Mutex<Answers>,
}

impl<'a> Planner<'a> {
    /// A planner for an engine's state.
    pub fn new(engine: &'a Engine, catalog: &'a Arc<CatalogState>) -> Self {
        let (state, zone) = (engine.state(), engine.zone());
        Self {
            state,
            catalog,
            zone,
            is_without_collations: false,
            own: None,
            names_expiry: AtomicBool::default(),
            is_typing: AtomicBool::default(),
            sources: Mutex::default(),
        }
    }

    /// The same for a statement with this text.
    #[must_use]
    pub fn of_text(self, text: &str) -> Self {
        const WORD: &[u8] = b"collate";
        let names = text.as_bytes().windows(WORD.len()).any(|part| part.eq_ignore_ascii_case(WORD));
        Self { is_without_collations: !names, ..self }
    }

    /// Whether it is known that the statement names no collation, which is not to be seen in its plan any more.
    pub(super) fn is_without_collations(&self) -> bool {
        self.is_without_collations
    }

    /// A planner that knows one more table by a name.
    pub fn with_table(
        engine: &'a Engine,
        catalog: &'a Arc<CatalogState>,
        name: &'a str,
        table: Arc<dyn TableProvider>,
    ) -> Self {
        Self { own: Some((name, table)), ..Self::new(engine, catalog) }
    }

    /// The logical plan of a query, before analysis.
    ///
    /// # Errors
    /// What name and type resolution find.
    pub fn logical(&self, mut statement: AstStatement, declared: &[u32]) -> Result<LogicalPlan> {
        let mut hidden = 0;
        if expiry::is_named(&statement) {
            self.names_expiry.store(true, Ordering::Relaxed);
        }
        if let AstStatement::Query(query) = &mut statement {
            table_numbers::settle(self.catalog, query)?;
            if self.names_expiry.load(Ordering::Relaxed) {
                let own =
                    self.own.as_ref().filter(|(_, table)| as_grid(table.as_ref()).is_some_and(GridTable::has_expiry));
                expiry::hide(self.catalog, own.map(|(name, _)| *name), query)?;
            }
            hidden = passes::settle(self, query, declared)?;
            arrays::as_calls(query);
            kin::settle(self, query);
        }
        let mut context = PlannerContext::new();
        if !declared.is_empty() {
            context = context.with_prepare_param_data_types(parameters::declared_fields(declared));
        }
        let plan = sql::plan(self, statement, &mut context);
        let plan = plan
            .and_then(numerics::settle)
            .and_then(|plan| vectors::resolve(plan, self.state))
            .and_then(|plan| object_numbers::resolve(plan, self.catalog))
            .map_err(from_datafusion)?;
        outer_aggregates::check(&plan)
            .and_then(|()| lateral::joined(plan))
            .and_then(grouping_sets::beneath)
            .and_then(subqueries_beneath::beneath)
            .and_then(|plan| ordering::without_last(plan, hidden))
            .and_then(ordering::of_arrays)
            .and_then(limits::typed)
            .and_then(subqueries::compared)
            .and_then(subqueries::above_joins)
            .and_then(subqueries::one_row_each)
            .and_then(not_in::as_not_exists)
            .and_then(subqueries::three_valued)
            .and_then(subqueries::kept_apart)
            .map_err(from_datafusion)
    }

    /// An expression over columns of a schema.
    ///
    /// # Errors
    /// What name and type resolution find.
    pub fn expression(&self, mut expr: datafusion::sql::sqlparser::ast::Expr, schema: &DFSchema) -> Result<Expr> {
        kin::settle_expression(&mut expr, schema);
        sql::expression(self, expr, schema).and_then(numerics::settle_expression).map_err(from_datafusion)
    }

    /// The type of an expression that reads no columns; `None` where it cannot be planned by itself, or is open.
    pub(super) fn type_of(&self, expr: datafusion::sql::sqlparser::ast::Expr, declared: &[u32]) -> Option<SqlType> {
        let Ok(AstStatement::Query(mut query)) = parse("SELECT 1") else { return None };
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![SelectItem::UnnamedExpr(expr)];
        }
        let plan = self.logical(AstStatement::Query(query), declared).and_then(|plan| self.analysed(plan)).ok()?;
        let field = plan.schema().field(0);
        if *field.data_type() == DataType::Null { None } else { sql_type_of(field) }
    }

    /// The value of an expression that reads no columns; `None` where it has none before it runs, or cannot be planned by itself.
    pub(super) fn value_of(&self, expr: datafusion::sql::sqlparser::ast::Expr) -> Option<ScalarValue> {
        let Ok(AstStatement::Query(mut query)) = parse("SELECT 1") else { return None };
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![SelectItem::UnnamedExpr(expr)];
        }
        let plan = self.logical(AstStatement::Query(query), &[]).and_then(|plan| self.analysed(plan)).ok()?;
        let plan = self.state.optimizer().optimize(plan, self.state, |_, _| {}).ok()?;
        let LogicalPlan::Projection(projection) = &plan else { return None };
        match projection.expr.first()?.clone().unalias() {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    /// A logical plan whose columns have their types, for who asks for no more than these.
    pub(super) fn analysed(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let (plan, _, _) = parameters::settle(plan)?;
        let options = self.state.config_options();
        self.state.analyzer().execute_and_check(plan, options, |_, _| {}).map_err(from_datafusion)
    }

    pub(super) fn provider(&self, name: &TableReference) -> Result<Arc<dyn TableProvider>> {
        let table = name.table();
        if let Some((own, provider)) = &self.own
            && *own == table
        {
            return Ok(match as_grid(provider.as_ref()) {
                Some(grid) if self.names_expiry.load(Ordering::Relaxed) => Arc::new(grid.clone().with_expiry()),
                _ => Arc::clone(provider),
            });
        }
        if name.schema().is_none()
            && let Some(given) = self.catalog.given(table)
        {
            return Ok(Arc::clone(given));
        }
        if name.catalog().is_some_and(|database| database != self.catalog.identity().database) {
            let message = format!("cross-database references are not implemented: \"{name}\"");
            return Err(Error::new(ErrorCode::FeatureNotSupported, message));
        }
        match name.schema() {
            Some("public") => {}
            // As in PostgreSQL, the system's names come first.
            None => {
                if let Some(found) = system_tables::provider(self.state, self.catalog, "pg_catalog", table)? {
                    return Ok(found);
                }
            }
            Some(schema) => {
                return system_tables::provider(self.state, self.catalog, schema, table)?
                    .ok_or_else(|| undefined_table(&format!("{schema}.{table}")));
            }
        }
        match self.catalog.table(table) {
            Some(Table::Grid(region)) => {
                let table = GridTable::new(region, false);
                let names_expiry = self.names_expiry.load(Ordering::Relaxed);
                Ok(Arc::new(if names_expiry { table.with_expiry() } else { table }))
            }
            Some(Table::File(file)) => Ok(Arc::clone(&file.provider)),
            Some(Table::Sharded(table)) => Ok(table.provider()),
            None => Err(undefined_table(table)),
        }
    }
}

impl ContextProvider for Planner<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>, DataFusionError> {
        Ok(provider_as_source(self.provider(&name).map_err(external)?))
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>, DataFusionError> {
        // The engine's `range` is none of PostgreSQL's.
        let function = self.state.table_functions().get(name).filter(|_| name != "range").ok_or_else(|| {
            external(Error::new(ErrorCode::UndefinedFunction, format!("function {name} does not exist")))
        })?;
        let empty = DFSchema::empty();
        let mut simplified = Vec::with_capacity(args.len());
        let mut is_integer = true;
        for arg in args {
            let arg = crate::expressions::analysed(self.state, arg, &empty).map_err(external)?;
            is_integer &= matches!(arg.get_type(&empty)?, DataType::Int32 | DataType::Int16);
            let context = datafusion::logical_expr::simplify::SimplifyContext::builder()
                .with_config_options(Arc::clone(self.state.config_options()))
                .build();
            let simplifier = datafusion::optimizer::simplify_expressions::ExprSimplifier::new(context);
            let widened = Expr::Cast(Cast::new(Box::new(arg), DataType::Int64));
            simplified.push(simplifier.simplify(widened)?);
        }
        let provider = function.create_table_provider_with_args(TableFunctionArgs::new(&simplified, self.state))?;
        if !is_integer {
            return Ok(provider_as_source(provider));
        }
        // A series between integers is one of integers.
        let rows = LogicalPlanBuilder::scan(name, provider_as_source(provider), None)?.build()?;
        let integers = rows.schema().iter().map(|(qualifier, field)| {
            let column = Expr::from((qualifier, field));
            Expr::Cast(Cast::new(Box::new(column), DataType::Int32)).alias(field.name())
        });
        let integers: Vec<Expr> = integers.collect();
        let rows = LogicalPlanBuilder::from(rows).project(integers)?.build()?;
        Ok(provider_as_source(Arc::new(ViewTable::new(rows, None))))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>, DataFusionError> {
        let table = datafusion::datasource::cte_worktable::CteWorkTable::new(name, schema);
        Ok(provider_as_source(Arc::new(table)))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(crate::expressions::PgTypePlanner))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if name == arrays::MAKE_ARRAY {
            return Some(make_array_udf());
        }
        let known =
            system_tables::bound::find(self.catalog, name).or_else(|| self.state.scalar_functions().get(name).cloned());
        let is_other = self.get_aggregate_meta(name).is_some()
            || self.state.window_functions().contains_key(name)
            || name == "unnest";
        known.or_else(|| (!is_other).then(|| Arc::new(ashlar_functions::catalog::unknown(name))))
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        if ashlar_functions::is_foreign_aggregate(name) {
            return None;
        }
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }

    fn get_file_type(
        &self,
        extension: &str,
    ) -> Result<Arc<dyn datafusion::common::file_options::file_type::FileType>, DataFusionError> {
        Err(plan_datafusion_err!("file type {extension} is not supported"))
    }
}
