//! INSERT: where its rows come from and which columns they are for.
//!
//! Called by `statement`. Runs nothing: `run` does.

use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnDefault, Error, ErrorCode, Result, SqlType, TableSchema};
use ashlar_store::expires_at_column;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Insert, Query, Select, SelectItem, SetExpr, Statement as AstStatement, TableObject,
    Value as AstValue, Values, With,
};
use pg_query::protobuf::InferClause;

use super::arbiters;
use super::with::before;
use super::{
    Arbiters, Builder, Cell, Conflict, InsertPlan, Outputs, Source, select_of, target_column, typed, unlimited,
};
use crate::assign::Assigned;
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::key_plan::{self, Operand, single};
use crate::select::names::folded;
use crate::select::{Planner, SelectPlan, expiry};
use crate::sql_types::ast_of;

impl InsertPlan {
    /// Plans an INSERT. `overriding`: it says OVERRIDING SYSTEM VALUE. `target` is what its ON CONFLICT names.
    ///
    /// # Errors
    /// What names and types find.
    pub fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        with: Option<With>,
        insert: Insert,
        overriding: bool,
        target: Option<&InferClause>,
        declared: &[u32],
    ) -> Result<Self> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(Error::unsupported("this form of INSERT is not supported"));
        };
        let name = single(name).ok_or_else(|| ashlar_functions::error::undefined_table(&name.to_string()))?;
        let region = Arc::clone(catalog.grid(&name)?);
        let schema = region.schema();
        let has_expiry = schema.column(expiry::NAME).is_none();
        let (targets, expiry) = Self::targets(&schema, &insert, has_expiry)?;
        let end = expires_at_column();
        let mut columns: Vec<&ColumnDef> = targets.iter().map(|ordinal| &schema.columns[*ordinal]).collect();
        if let Some(place) = expiry {
            columns.insert(place, &end);
        }
        let parameter_types = Vec::new();
        let mut plan = Builder { engine, catalog, schema: &schema, with, declared, parameter_types, has_expiry };
        let mut source = plan.source(&columns, !insert.columns.is_empty(), insert.source)?;
        if let (Some(place), Source::Values { rows, .. }) = (expiry, &mut source) {
            for cells in rows {
                let end = cells.remove(place);
                cells.push(end);
            }
        }
        if !overriding {
            check_generated(&schema, &targets, &source)?;
        }
        let alias = insert.table_alias.as_ref().map_or(name, |alias| folded(&alias.alias));
        let arbiters = arbiters::of(engine, catalog, &region, target)?;
        let is_of_key = matches!(arbiters, Arbiters::Key);
        let conflict = plan.conflict(insert.on, target.is_some(), is_of_key, &alias)?;
        let returning = plan.returning(insert.returning, &alias)?;
        let parameter_types = plan.finish_parameters();
        let defaults = default_plans(engine, catalog, &schema, |ordinal| is_wanted(&targets, &source, ordinal))?;
        let zone = engine.zone();
        Ok(Self {
            region,
            schema,
            targets,
            expiry,
            source,
            conflict,
            arbiters,
            returning,
            defaults,
            parameter_types,
            zone,
        })
    }

    /// The columns that values are for; and which of the listed ones is the system column that says when rows end, if the table has
    /// that and the statement lists it.
    pub(super) fn targets(
        schema: &TableSchema,
        insert: &Insert,
        has_expiry: bool,
    ) -> Result<(Vec<usize>, Option<usize>)> {
        let visible = schema.visible_columns().len();
        if insert.columns.is_empty() {
            let mut targets: Vec<usize> = (0..visible).collect();
            if let Some(width) = insert.source.as_ref().and_then(|query| width_of(query)) {
                check_width(width, visible)?;
                targets.truncate(width);
            }
            return Ok((targets, None));
        }
        let (mut targets, mut end) = (Vec::new(), None);
        for (place, name) in insert.columns.iter().enumerate() {
            let name = single(name).unwrap_or_default();
            let is_known = if has_expiry && name == expiry::NAME {
                end.replace(place).is_some()
            } else {
                let ordinal = target_column(schema, &name)?;
                let is_known = targets.contains(&ordinal);
                targets.push(ordinal);
                is_known
            };
            if is_known {
                return Err(Error::new(
                    ErrorCode::DuplicateColumn,
                    format!("column \"{name}\" specified more than once"),
                ));
            }
        }
        if let Some(width) = insert.source.as_ref().and_then(|query| width_of(query)) {
            check_width(width, insert.columns.len())?;
            if width < insert.columns.len() {
                return Err(Error::new(ErrorCode::SyntaxError, "INSERT has more target columns than expressions"));
            }
        }
        Ok((targets, end))
    }

    /// The output of a query that is for the target at a place.
    pub(super) fn output(&self, place: usize) -> usize {
        place + usize::from(self.expiry.is_some_and(|expiry| expiry <= place))
    }

    /// Whether a default gives another value each time, such as `random()`.
    pub fn has_volatile_default(&self) -> bool {
        self.defaults.iter().any(|(_, plan)| plan.is_volatile())
    }

    /// Whether one trip to the partition of its row does all there is to do: nothing but that row's own key tells whether it
    /// is there already.
    pub fn is_one_trip(&self) -> bool {
        match (&self.conflict, &self.arbiters) {
            (Conflict::Fail, _) | (Conflict::Nothing, Arbiters::Key) => true,
            (Conflict::Nothing, Arbiters::Any) => !self.region.has_checks(),
            _ => false,
        }
    }

    /// Whether it runs without the engine: constants and parameters, into rows as they are.
    pub fn is_inline(&self) -> bool {
        matches!(&self.source, Source::Values { computed: None, .. })
            && self.defaults.is_empty()
            && matches!(self.conflict, Conflict::Fail | Conflict::Nothing)
            && self.returning.as_ref().is_none_or(|returning| matches!(returning.outputs, Outputs::Plain(_)))
    }
}

/// Whether some row takes a column's default.
fn is_wanted(targets: &[usize], source: &Source, ordinal: usize) -> bool {
    match (targets.iter().position(|target| *target == ordinal), source) {
        (None, _) => true,
        (Some(place), Source::Values { rows, .. }) => rows.iter().any(|row| matches!(row[place], Cell::Default)),
        (Some(place), Source::Query(plan)) => place >= plan.columns.len(),
    }
}

/// Values for columns that are always generated are refused.
fn check_generated(schema: &TableSchema, targets: &[usize], source: &Source) -> Result<()> {
    for (place, ordinal) in targets.iter().enumerate() {
        let column = &schema.columns[*ordinal];
        let is_given = match source {
            Source::Values { rows, .. } => rows.iter().any(|row| !matches!(row[place], Cell::Default)),
            Source::Query(plan) => place < plan.columns.len(),
        };
        if column.is_always_generated() && is_given {
            let name = &column.name;
            let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
            return Err(Error::new(ErrorCode::GeneratedAlways, message)
                .with_detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
                .with_hint("Use OVERRIDING SYSTEM VALUE to override."));
        }
    }
    Ok(())
}

fn check_width(width: usize, columns: usize) -> Result<()> {
    if width > columns {
        return Err(Error::new(ErrorCode::SyntaxError, "INSERT has more expressions than target columns"));
    }
    Ok(())
}

/// Whether a group may be an output, by its place or by its name.
fn is_grouped_by_outputs(select: &Select) -> bool {
    let GroupByExpr::Expressions(groups, modifiers) = &select.group_by else { return true };
    let is_called = |item: &SelectItem, name: &Ident| matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == folded(name));
    let may_be_output = |group: &Expr| match group {
        Expr::Identifier(name) => select.projection.iter().any(|item| is_called(item, name)),
        Expr::CompoundIdentifier(_) | Expr::Function(_) => false,
        _ => true,
    };
    !modifiers.is_empty() || groups.iter().any(may_be_output)
}

/// How many columns a VALUES list has.
fn width_of(query: &Query) -> Option<usize> {
    match query.body.as_ref() {
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}

/// Plans for the defaults that are expressions, of the columns that `wants` them, with the columns' ordinals.
///
/// # Errors
/// What became of the functions that they call.
pub(crate) fn default_plans(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    schema: &TableSchema,
    wants: impl Fn(usize) -> bool,
) -> Result<Vec<(usize, SelectPlan)>> {
    let mut plans = Vec::new();
    for (ordinal, column) in schema.columns.iter().enumerate().filter(|(ordinal, _)| wants(*ordinal)) {
        if let Some(ColumnDefault::Expression(sql)) = &column.default {
            plans.push((ordinal, default_plan(engine, catalog, sql, column.sql_type)?));
        }
    }
    Ok(plans)
}

fn default_plan(engine: &Engine, catalog: &Arc<CatalogState>, sql: &str, sql_type: SqlType) -> Result<SelectPlan> {
    let statement = crate::select::parse(&format!("SELECT CAST(({sql}) AS {})", ast_of(unlimited(sql_type))))?;
    SelectPlan::new(&Planner::new(engine, catalog), statement, &[])
}

impl Builder<'_> {
    /// `columns`: what the values are for, in their order; `is_listed`: the statement names them.
    pub(super) fn source(
        &mut self,
        columns: &[&ColumnDef],
        is_listed: bool,
        source: Option<Box<Query>>,
    ) -> Result<Source> {
        let Some(mut query) = source else {
            // DEFAULT VALUES
            self.check_with()?;
            return Ok(Source::Values { rows: vec![vec![Cell::Default; columns.len()]], computed: None });
        };
        let is_values = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        match query.body.as_ref() {
            SetExpr::Values(values) if is_values => self.values(columns, values),
            _ => {
                self.type_outputs(columns, &mut query);
                let statement = AstStatement::Query(before(self.with.clone(), query)?);
                let plan = SelectPlan::new(&Planner::new(self.engine, self.catalog), statement, self.declared)?;
                check_width(plan.columns.len(), columns.len())?;
                if plan.columns.len() < columns.len() && is_listed {
                    return Err(Error::new(ErrorCode::SyntaxError, "INSERT has more target columns than expressions"));
                }
                // Types that cannot be assigned are found before anything runs.
                for (field, column) in plan.schema().fields().iter().zip(columns) {
                    let empty = arrow::array::new_empty_array(field.data_type());
                    Assigned::new(&empty, field, column, self.engine.zone()).map(drop)?;
                }
                self.merge_parameters(&plan);
                Ok(Source::Query(Box::new(plan)))
            }
        }
    }

    /// Quoted strings and parameters that a plain SELECT gives take the types of their columns.
    fn type_outputs(&self, columns: &[&ColumnDef], query: &mut Query) {
        let is_ordered = query.order_by.is_some();
        let SetExpr::Select(select) = query.body.as_mut() else { return };
        if is_ordered || select.distinct.is_some() || is_grouped_by_outputs(select) {
            return;
        }
        for (item, column) in select.projection.iter_mut().zip(columns) {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return };
            let open = std::mem::replace(expr, Expr::value(AstValue::Null));
            *expr = typed(open, column.sql_type);
        }
    }

    fn values(&mut self, columns: &[&ColumnDef], values: &Values) -> Result<Source> {
        let mut rows = Vec::with_capacity(values.rows.len());
        let mut computed: Vec<Expr> = Vec::new();
        for row in &values.rows {
            if row.len() != columns.len() {
                return Err(Error::new(ErrorCode::SyntaxError, "VALUES lists must all be the same length"));
            }
            let mut cells = Vec::with_capacity(row.len());
            for (expr, column) in row.iter().zip(columns) {
                cells.push(self.cell(column, expr, &mut computed)?);
            }
            rows.push(cells);
        }
        if computed.is_empty() {
            self.check_with()?;
            return Ok(Source::Values { rows, computed: None });
        }
        let items = computed.into_iter().enumerate().map(|(number, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', format!("c{number}")),
        });
        let statement = AstStatement::Query(Box::new(select_of(self.with.clone(), items.collect(), Vec::new(), None)?));
        let plan = SelectPlan::new(&Planner::new(self.engine, self.catalog), statement, self.declared)?;
        self.merge_parameters(&plan);
        Ok(Source::Values { rows, computed: Some(Box::new(plan)) })
    }

    /// Finds what is wrong with a WITH that nothing reads.
    fn check_with(&mut self) -> Result<()> {
        let Some(with) = self.with.clone() else { return Ok(()) };
        let one = SelectItem::UnnamedExpr(Expr::value(AstValue::Number("1".to_owned(), false)));
        let statement = AstStatement::Query(Box::new(select_of(Some(with), vec![one], Vec::new(), None)?));
        let plan = SelectPlan::new(&Planner::new(self.engine, self.catalog), statement, self.declared)?;
        self.merge_parameters(&plan);
        Ok(())
    }

    fn cell(&mut self, column: &ColumnDef, expr: &Expr, computed: &mut Vec<Expr>) -> Result<Cell> {
        if matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
        {
            return Ok(Cell::Default);
        }
        if let Some(literal) = key_plan::literal(expr) {
            return Ok(Cell::Operand(Operand::Constant(literal.assign(column, self.engine.zone())?)));
        }
        if let Some(number) = key_plan::parameter(expr)
            && let Some(from) = key_plan::declared_or(self.declared, number, column.sql_type, false)
        {
            if self.parameter_types.len() <= number {
                self.parameter_types.resize(number + 1, None);
            }
            if *self.parameter_types[number].get_or_insert(from) == from {
                return Ok(Cell::Operand(Operand::Parameter { number, from, to: column.sql_type }));
            }
        }
        computed.push(expr.clone());
        Ok(Cell::Computed(computed.len() - 1))
    }

    pub(super) fn merge_parameters(&mut self, plan: &SelectPlan) {
        let types = &plan.parameter_types;
        if self.parameter_types.len() < types.len() {
            self.parameter_types.resize(types.len(), None);
        }
        for ((known, found), used) in self.parameter_types.iter_mut().zip(types).zip(&plan.parameters_used) {
            if *used {
                known.get_or_insert(*found);
            }
        }
    }

    pub(super) fn finish_parameters(&self) -> Vec<SqlType> {
        let text = SqlType::Scalar(ashlar_base::ScalarType::Text);
        self.parameter_types.iter().map(|known| known.unwrap_or(text)).collect()
    }
}
