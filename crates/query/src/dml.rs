//! INSERT, UPDATE and DELETE: planned here, run in `dml::run`.
//!
//! What to change is found by a query (the statement rewritten as a SELECT of the target's rows and the new values);
//! the changes themselves are rows put into the transaction's write set, so that every statement is atomic.

use std::sync::Arc;

use ashlar_base::value::text::Zone;
use ashlar_base::{ColumnDefault, Error, ErrorCode, Result, SqlType, TableSchema, Value};
use ashlar_store::Region;
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, CastKind, ConflictTarget, Delete, Expr, FromTable, Ident, Insert, ObjectName,
    OnConflictAction, OnInsert, Query, SelectItem, SetExpr, Statement as AstStatement, TableFactor, TableObject,
    TableWithJoins, Update, UpdateTableFromKind, Values,
};

use crate::assign::Literal;
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::engine::Engine;
use crate::error::{from_datafusion, undefined_column};
use crate::key_plan::{self, Operand, single};
use crate::select::names::folded;
use crate::select::{Planner, SelectPlan};
use crate::sql_types::ast_of;

mod parameters;
pub mod run;

use self::parameters::{ParametersRead, check_returning, parameter_schema};

/// A cell of a VALUES list.
#[derive(Clone, Debug)]
pub enum Cell {
    /// A constant or a parameter.
    Operand(Operand),
    /// The column's default.
    Default,
    /// Output number so much of the plan that computes the other cells.
    Computed(usize),
}

/// Where inserted rows come from.
pub enum Source {
    /// A VALUES list: a cell per target column and row.
    Values {
        /// Row by row.
        rows: Vec<Vec<Cell>>,
        /// One row with the cells that are expressions.
        computed: Option<Box<SelectPlan>>,
    },
    /// A query with an output per target column.
    Query(Box<SelectPlan>),
}

/// What is done about a row whose key exists.
pub enum Conflict {
    /// 23505
    Fail,
    /// DO NOTHING
    Nothing,
    /// DO UPDATE
    Update {
        /// Column and expression over the existing row followed by the excluded one.
        assignments: Vec<(usize, Arc<dyn PhysicalExpr>, SqlType)>,
        /// WHERE
        filter: Option<Arc<dyn PhysicalExpr>>,
        /// Parameters that these read, as columns behind those of the two rows: number from 0 and type.
        parameters: Vec<(usize, SqlType)>,
    },
}

/// RETURNING: expressions over the visible columns of the rows.
#[derive(Clone)]
pub struct Returning {
    /// Plain columns where all are, so that nothing has to be computed.
    pub plain: Option<Vec<usize>>,
    /// One per output.
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Result columns.
    pub columns: Arc<[Column]>,
}

/// INSERT
pub struct InsertPlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Ordinals of the target columns.
    pub targets: Vec<usize>,
    /// The rows.
    pub source: Source,
    /// ON CONFLICT
    pub conflict: Conflict,
    /// RETURNING
    pub returning: Option<Returning>,
    /// Defaults that are expressions: ordinal and output of `default_plan`.
    pub defaults: Vec<(usize, SelectPlan)>,
    /// Types of the parameters.
    pub parameter_types: Vec<SqlType>,
    /// The time zone that it was planned in.
    pub zone: Zone,
}

/// UPDATE: the query gives all columns of each target row, then the new values.
pub struct UpdatePlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Finds rows and computes.
    pub select: SelectPlan,
    /// Ordinals of the columns that the outputs behind the row are for.
    pub assigned: Vec<usize>,
    /// RETURNING
    pub returning: Option<Returning>,
}

/// DELETE: the query gives all columns of each target row.
pub struct DeletePlan {
    /// The table.
    pub region: Arc<Region>,
    /// Its shape when planned.
    pub schema: Arc<TableSchema>,
    /// Finds rows.
    pub select: SelectPlan,
    /// RETURNING
    pub returning: Option<Returning>,
}

fn refuse(condition: bool, what: &str) -> Result<()> {
    if condition { Err(Error::unsupported(format!("{what} is not supported"))) } else { Ok(()) }
}

fn target_column(schema: &TableSchema, name: &str) -> Result<usize> {
    schema.column(name).ok_or_else(|| {
        Error::new(
            ErrorCode::UndefinedColumn,
            format!("column \"{name}\" of relation \"{}\" does not exist", schema.name),
        )
    })
}

impl InsertPlan {
    /// Plans an INSERT.
    ///
    /// # Errors
    /// What names and types find.
    pub fn new(engine: &Engine, catalog: &Arc<CatalogState>, insert: Insert, declared: &[u32]) -> Result<Self> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(Error::unsupported("this form of INSERT is not supported"));
        };
        let name = single(name).ok_or_else(|| crate::error::undefined_table(&name.to_string()))?;
        let region = Arc::clone(catalog.grid(&name)?);
        let schema = region.schema();
        let targets = Self::targets(&schema, &insert)?;
        let mut plan = Builder { engine, catalog, schema: &schema, declared, parameter_types: Vec::new() };
        let source = plan.source(&targets, insert.source)?;
        let alias = insert.table_alias.as_ref().map_or(name, |alias| folded(&alias.alias));
        let conflict = plan.conflict(insert.on, &alias)?;
        let returning = plan.returning(insert.returning, &alias, false)?;
        let parameter_types = plan.finish_parameters();
        let mut defaults = Vec::new();
        for (ordinal, column) in schema.columns.iter().enumerate() {
            if let Some(ColumnDefault::Expression(sql)) = &column.default {
                defaults.push((ordinal, default_plan(engine, catalog, sql, column.sql_type)?));
            }
        }
        let zone = engine.zone();
        Ok(Self { region, targets, source, conflict, returning, defaults, parameter_types, zone, schema })
    }

    fn targets(schema: &TableSchema, insert: &Insert) -> Result<Vec<usize>> {
        let visible = schema.visible_columns().len();
        if insert.columns.is_empty() {
            let mut targets: Vec<usize> = (0..visible).collect();
            if let Some(width) = insert.source.as_ref().and_then(|query| width_of(query)) {
                check_width(width, visible)?;
                targets.truncate(width);
            }
            return Ok(targets);
        }
        let mut targets = Vec::new();
        for name in &insert.columns {
            let name = single(name).unwrap_or_default();
            let ordinal = target_column(schema, &name)?;
            if targets.contains(&ordinal) {
                return Err(Error::new(
                    ErrorCode::DuplicateColumn,
                    format!("column \"{name}\" specified more than once"),
                ));
            }
            targets.push(ordinal);
        }
        if let Some(width) = insert.source.as_ref().and_then(|query| width_of(query)) {
            check_width(width, targets.len())?;
            if width < targets.len() {
                return Err(Error::new(ErrorCode::SyntaxError, "INSERT has more target columns than expressions"));
            }
        }
        Ok(targets)
    }

    /// Whether a default gives another value each time, such as `random()`.
    pub fn has_volatile_default(&self) -> bool {
        self.defaults.iter().any(|(_, plan)| plan.is_volatile())
    }

    /// Whether it runs without the engine: constants and parameters, into rows as they are.
    pub fn is_inline(&self) -> bool {
        matches!(&self.source, Source::Values { computed: None, .. })
            && self.defaults.is_empty()
            && matches!(self.conflict, Conflict::Fail | Conflict::Nothing)
            && self.returning.as_ref().is_none_or(|returning| returning.plain.is_some())
    }
}

fn check_width(width: usize, columns: usize) -> Result<()> {
    if width > columns {
        return Err(Error::new(ErrorCode::SyntaxError, "INSERT has more expressions than target columns"));
    }
    Ok(())
}

/// How many columns a VALUES list has.
fn width_of(query: &Query) -> Option<usize> {
    match query.body.as_ref() {
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}

fn default_plan(engine: &Engine, catalog: &Arc<CatalogState>, sql: &str, sql_type: SqlType) -> Result<SelectPlan> {
    let statement = crate::select::parse(&format!("SELECT CAST(({sql}) AS {})", ast_of(sql_type)))?;
    SelectPlan::new(&Planner::new(engine, catalog), statement, &[])
}

struct Builder<'a> {
    engine: &'a Engine,
    catalog: &'a Arc<CatalogState>,
    schema: &'a Arc<TableSchema>,
    declared: &'a [u32],
    parameter_types: Vec<Option<SqlType>>,
}

impl Builder<'_> {
    fn source(&mut self, targets: &[usize], source: Option<Box<Query>>) -> Result<Source> {
        let Some(query) = source else {
            // DEFAULT VALUES
            return Ok(Source::Values { rows: vec![vec![Cell::Default; targets.len()]], computed: None });
        };
        let is_values = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        match query.body.as_ref() {
            SetExpr::Values(values) if is_values => self.values(targets, values),
            _ => {
                let statement = AstStatement::Query(query);
                let plan = SelectPlan::new(&Planner::new(self.engine, self.catalog), statement, self.declared)?;
                check_width(plan.columns.len(), targets.len())?;
                if plan.columns.len() < targets.len() && targets.len() != self.schema.visible_columns().len() {
                    return Err(Error::new(ErrorCode::SyntaxError, "INSERT has more target columns than expressions"));
                }
                self.merge_parameters(&plan);
                Ok(Source::Query(Box::new(plan)))
            }
        }
    }

    fn values(&mut self, targets: &[usize], values: &Values) -> Result<Source> {
        let mut rows = Vec::with_capacity(values.rows.len());
        let mut computed: Vec<Expr> = Vec::new();
        for row in &values.rows {
            if row.len() != targets.len() {
                return Err(Error::new(ErrorCode::SyntaxError, "VALUES lists must all be the same length"));
            }
            let mut cells = Vec::with_capacity(row.len());
            for (expr, ordinal) in row.iter().zip(targets) {
                cells.push(self.cell(*ordinal, expr, &mut computed)?);
            }
            rows.push(cells);
        }
        if computed.is_empty() {
            return Ok(Source::Values { rows, computed: None });
        }
        let items = computed.into_iter().enumerate().map(|(number, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', format!("c{number}")),
        });
        let statement = AstStatement::Query(Box::new(select_of(items.collect(), Vec::new(), None)?));
        let plan = SelectPlan::new(&Planner::new(self.engine, self.catalog), statement, self.declared)?;
        self.merge_parameters(&plan);
        Ok(Source::Values { rows, computed: Some(Box::new(plan)) })
    }

    fn cell(&mut self, ordinal: usize, expr: &Expr, computed: &mut Vec<Expr>) -> Result<Cell> {
        let column = &self.schema.columns[ordinal];
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

    fn merge_parameters(&mut self, plan: &SelectPlan) {
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

    fn finish_parameters(&self) -> Vec<SqlType> {
        let text = SqlType::Scalar(ashlar_base::ScalarType::Text);
        self.parameter_types.iter().map(|known| known.unwrap_or(text)).collect()
    }

    fn conflict(&mut self, on: Option<OnInsert>, alias: &str) -> Result<Conflict> {
        let on = match on {
            None => return Ok(Conflict::Fail),
            Some(OnInsert::OnConflict(on)) => on,
            Some(_) => return Err(Error::unsupported("ON DUPLICATE KEY is not supported")),
        };
        match &on.conflict_target {
            None => {}
            Some(ConflictTarget::Columns(names)) => {
                let mut ordinals = Vec::new();
                for name in names {
                    ordinals.push(target_column(self.schema, &folded(name))?);
                }
                ordinals.sort_unstable();
                let mut key = self.schema.key.clone();
                key.sort_unstable();
                if ordinals != key || self.schema.hidden_key {
                    return Err(no_constraint());
                }
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = single(name).unwrap_or_default();
                if self.schema.hidden_key || name != self.schema.key_name {
                    return Err(Error::new(
                        ErrorCode::UndefinedObject,
                        format!("constraint \"{name}\" for table \"{}\" does not exist", self.schema.name),
                    ));
                }
            }
        }
        let update = match on.action {
            OnConflictAction::DoNothing => return Ok(Conflict::Nothing),
            OnConflictAction::DoUpdate(update) => update,
        };
        if on.conflict_target.is_none() {
            return Err(Error::new(
                ErrorCode::SyntaxError,
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            ));
        }
        let row = self.engine_schema();
        let existing = DFSchema::try_from_qualified_schema(alias, &row).map_err(from_datafusion)?;
        let excluded = DFSchema::try_from_qualified_schema("excluded", &row).map_err(from_datafusion)?;
        let mut split = Vec::new();
        for Assignment { target, value } in split_assignments(update.assignments)? {
            let ordinal = self.assigned_column(&target)?;
            if self.schema.key.contains(&ordinal) {
                return Err(Error::unsupported("ON CONFLICT DO UPDATE of a key column is not supported"));
            }
            // Alone, a parameter is of the column's type.
            if let Some(number) = key_plan::parameter(&value) {
                self.know_parameter(number, self.schema.columns[ordinal].sql_type);
            }
            split.push((ordinal, value));
        }
        let mut read = ParametersRead::default();
        split.iter_mut().for_each(|(_, value)| read.replace_in(value));
        let mut selection = update.selection;
        selection.iter_mut().for_each(|selection| read.replace_in(selection));
        let mut parameters = Vec::new();
        for number in read.numbers {
            let known = self.parameter_types.get(number).copied().flatten();
            let declared = self.declared.get(number).and_then(|oid| SqlType::from_oid(*oid));
            let sql_type = known.or(declared).ok_or_else(|| {
                let message = format!("could not determine data type of parameter ${}", number + 1);
                Error::new(ErrorCode::IndeterminateDatatype, message)
                    .with_hint(format!("Cast it: ${}::integer.", number + 1))
            })?;
            self.know_parameter(number, sql_type);
            parameters.push((number, sql_type));
        }
        let both = existing.join(&excluded).map_err(from_datafusion)?;
        let both = both.join(&parameter_schema(&parameters)?).map_err(from_datafusion)?;
        let planner = Planner::new(self.engine, self.catalog);
        let mut assignments = Vec::new();
        for (ordinal, value) in split {
            let value = qualify(typed(value, self.schema.columns[ordinal].sql_type), alias, self.schema);
            let (expr, sql_type) = self.physical(&planner, value, &both)?;
            assignments.push((ordinal, expr, sql_type));
        }
        let filter = match selection {
            Some(selection) => Some(self.physical(&planner, qualify(selection, alias, self.schema), &both)?.0),
            None => None,
        };
        Ok(Conflict::Update { assignments, filter, parameters })
    }

    /// Gives a parameter a type, unless it has one.
    fn know_parameter(&mut self, number: usize, sql_type: SqlType) {
        if self.parameter_types.len() <= number {
            self.parameter_types.resize(number + 1, None);
        }
        self.parameter_types[number].get_or_insert(sql_type);
    }

    fn assigned_column(&self, target: &AssignmentTarget) -> Result<usize> {
        let AssignmentTarget::ColumnName(name) = target else {
            return Err(Error::unsupported("assigning several columns at once is not supported"));
        };
        let name = name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
        target_column(self.schema, &name)
    }

    fn engine_schema(&self) -> arrow::datatypes::Schema {
        let fields: Vec<arrow::datatypes::Field> =
            self.schema.columns.iter().map(ashlar_store::arrow_types::to_arrow_field).collect();
        arrow::datatypes::Schema::new(fields)
    }

    fn physical(
        &self,
        planner: &Planner<'_>,
        expr: Expr,
        schema: &DFSchema,
    ) -> Result<(Arc<dyn PhysicalExpr>, SqlType)> {
        use datafusion::logical_expr::ExprSchemable;
        let logical = planner.expression(expr, schema)?;
        let logical = crate::functions::analysed(self.engine.state(), logical, schema)?;
        let (_, field) = logical.to_field(schema).map_err(from_datafusion)?;
        let sql_type = ashlar_store::arrow_types::sql_type_of(&field)
            .ok_or_else(|| Error::unsupported(format!("type {} is not supported", field.data_type())))?;
        let physical = self.engine.state().create_physical_expr(logical, schema).map_err(from_datafusion)?;
        Ok((physical, sql_type))
    }

    /// `has_sources`: other tables stand beside the target, whose columns a star would mean too.
    fn returning(&self, items: Option<Vec<SelectItem>>, alias: &str, has_sources: bool) -> Result<Option<Returning>> {
        let Some(mut items) = items else { return Ok(None) };
        check_returning(&mut items, alias, has_sources)?;
        let row = self.engine_schema();
        let schema = DFSchema::try_from_qualified_schema(alias, &row).map_err(from_datafusion)?;
        let planner = Planner::new(self.engine, self.catalog);
        let mut plain = Some(Vec::new());
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        let mut columns = Vec::new();
        let visible: Vec<usize> = (0..self.schema.visible_columns().len()).collect();
        for item in items {
            let (expr, label) = match item {
                SelectItem::UnnamedExpr(expr) => {
                    let label = crate::select::names::label_of(&expr);
                    (expr, label)
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let label = folded(&alias);
                    (expr, label)
                }
                _ => {
                    if let Some(plain) = &mut plain {
                        plain.extend(&visible);
                    }
                    for ordinal in &visible {
                        exprs.push(Arc::new(datafusion::physical_expr::expressions::Column::new(
                            &self.schema.columns[*ordinal].name,
                            *ordinal,
                        )));
                    }
                    columns.extend(key_plan::table_columns(self.schema, &visible).iter().cloned());
                    continue;
                }
            };
            let column = match &expr {
                Expr::Identifier(name) => self.schema.column(&folded(name)),
                _ => None,
            };
            let (physical, sql_type) = self.physical(&planner, expr, &schema)?;
            exprs.push(physical);
            match column {
                Some(ordinal) => {
                    let mut column = key_plan::table_columns(self.schema, &[ordinal])[0].clone();
                    column.name = label;
                    columns.push(column);
                    if let Some(plain) = &mut plain {
                        plain.push(ordinal);
                    }
                }
                None => {
                    plain = None;
                    columns.push(Column::new(label, sql_type));
                }
            }
        }
        Ok(Some(Returning { plain, exprs, columns: columns.into() }))
    }
}

fn no_constraint() -> Error {
    Error::new(
        ErrorCode::InvalidColumnReference,
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
    )
}

/// Bare column names in ON CONFLICT mean the existing row.
fn qualify(mut expr: Expr, alias: &str, schema: &TableSchema) -> Expr {
    use datafusion::sql::sqlparser::ast::visit_expressions_mut;
    use std::ops::ControlFlow;
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |node| {
        if let Expr::Identifier(name) = node
            && schema.column(&folded(name)).is_some()
        {
            *node = Expr::CompoundIdentifier(vec![Ident::with_quote('"', alias), name.clone()]);
        }
        ControlFlow::Continue(())
    });
    expr
}

/// A quoted string or a parameter takes the type of the column that it is assigned to.
fn typed(expr: Expr, sql_type: SqlType) -> Expr {
    let open = matches!(key_plan::literal(&expr), Some(Literal::String(_) | Literal::Null))
        || key_plan::parameter(&expr).is_some();
    if open {
        Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(expr),
            data_type: ast_of(sql_type),
            array: false,
            format: None,
        }
    } else {
        expr
    }
}

/// A bare SELECT of items.
fn select_of(items: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Result<Query> {
    let AstStatement::Query(mut query) = crate::select::parse("SELECT 1")? else {
        return Err(Error::internal("a SELECT is a query"));
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = from;
        select.selection = selection;
    }
    Ok(*query)
}

/// The target of an UPDATE or DELETE: its table, and the name by which its columns are meant.
fn target_of(catalog: &CatalogState, table: &TableWithJoins) -> Result<(Arc<Region>, String)> {
    refuse(!table.joins.is_empty(), "a join as the target")?;
    let TableFactor::Table { name, alias, .. } = &table.relation else {
        return Err(Error::unsupported("this target is not supported"));
    };
    let name = single(name).ok_or_else(|| crate::error::undefined_table(&name.to_string()))?;
    let region = Arc::clone(catalog.grid(&name)?);
    let alias = alias.as_ref().map_or(name, |alias| folded(&alias.name));
    Ok((region, alias))
}

fn row_items(schema: &TableSchema, alias: &str) -> Vec<SelectItem> {
    let item = |(ordinal, column): (usize, &ashlar_base::ColumnDef)| SelectItem::ExprWithAlias {
        expr: Expr::CompoundIdentifier(vec![
            Ident::with_quote('"', alias),
            Ident::with_quote('"', column.name.clone()),
        ]),
        alias: Ident::with_quote('"', format!("r{ordinal}")),
    };
    schema.columns.iter().enumerate().map(item).collect()
}

impl UpdatePlan {
    /// Plans an UPDATE.
    ///
    /// # Errors
    /// What names and types find.
    pub fn new(engine: &Engine, catalog: &Arc<CatalogState>, update: Update, declared: &[u32]) -> Result<Self> {
        refuse(update.limit.is_some() || !update.order_by.is_empty(), "UPDATE with ORDER BY or LIMIT")?;
        let (region, alias) = target_of(catalog, &update.table)?;
        let schema = region.schema();
        let builder = Builder { engine, catalog, schema: &schema, declared, parameter_types: Vec::new() };
        let mut items = row_items(&schema, &alias);
        let mut assigned = Vec::new();
        for Assignment { target, value } in split_assignments(update.assignments)? {
            let ordinal = builder.assigned_column(&target)?;
            if assigned.contains(&ordinal) {
                return Err(Error::new(
                    ErrorCode::SyntaxError,
                    format!("multiple assignments to same column \"{}\"", schema.columns[ordinal].name),
                ));
            }
            let column = &schema.columns[ordinal];
            if matches!(&value, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
            {
                let default = match &column.default {
                    None => Expr::value(datafusion::sql::sqlparser::ast::Value::Null),
                    Some(ColumnDefault::Expression(sql)) => expression(sql)?,
                    Some(ColumnDefault::Constant(value)) => constant(value, column.sql_type)?,
                    Some(ColumnDefault::Sequence) => {
                        return Err(Error::unsupported("SET ... = DEFAULT of a sequence is not supported"));
                    }
                };
                items.push(named(typed(default, column.sql_type), assigned.len()));
            } else {
                items.push(named(typed(value, column.sql_type), assigned.len()));
            }
            assigned.push(ordinal);
        }
        let mut from = vec![update.table];
        let has_sources = update.from.is_some();
        match update.from {
            None => {}
            Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => from.extend(tables),
        }
        let query = select_of(items, from, update.selection)?;
        let planner = Planner::with_hidden(engine, catalog, region.id());
        let logical = planner.logical(AstStatement::Query(Box::new(query)), declared)?;
        let select = SelectPlan::from_logical(engine.state(), logical)?;
        let row = schema.columns.len();
        for (number, ordinal) in assigned.iter().enumerate() {
            // Types that cannot be assigned are found before anything runs.
            let field = select.schema().field(row + number).clone();
            let empty = arrow::array::new_empty_array(field.data_type());
            crate::assign::Assigned::new(&empty, &field, &schema.columns[*ordinal], engine.zone()).map(drop)?;
        }
        let returning = builder.returning(update.returning, &alias, has_sources)?;
        Ok(Self { region, select, assigned, returning, schema })
    }
}

/// `SET (a, b) = (x, y)` is `SET a = x, b = y`.
fn split_assignments(assignments: Vec<Assignment>) -> Result<Vec<Assignment>> {
    let mut result = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        match assignment {
            Assignment { target: AssignmentTarget::Tuple(names), value: Expr::Tuple(values) } => {
                if names.len() != values.len() {
                    return Err(Error::new(
                        ErrorCode::SyntaxError,
                        "number of columns does not match number of values",
                    ));
                }
                result.extend(
                    names
                        .into_iter()
                        .zip(values)
                        .map(|(name, value)| Assignment { target: AssignmentTarget::ColumnName(name), value }),
                );
            }
            other => result.push(other),
        }
    }
    Ok(result)
}

fn named(expr: Expr, number: usize) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("s{number}")) }
}

fn expression(sql: &str) -> Result<Expr> {
    let AstStatement::Query(query) = crate::select::parse(&format!("SELECT ({sql})"))? else {
        return Err(Error::internal("a SELECT is a query"));
    };
    match *query.body {
        SetExpr::Select(mut select) => match select.projection.pop() {
            Some(SelectItem::UnnamedExpr(expr)) => Ok(expr),
            _ => Err(Error::internal("a default is one expression")),
        },
        _ => Err(Error::internal("a default is one expression")),
    }
}

/// A constant default, written as its text in quotes, to be read as its type.
fn constant(value: &Value, sql_type: SqlType) -> Result<Expr> {
    use datafusion::sql::sqlparser::ast::Value as AstValue;
    if value.is_null() {
        return Ok(Expr::value(AstValue::Null));
    }
    let mut text = Vec::new();
    ashlar_base::value::text::write(
        sql_type,
        &value.as_datum(),
        &ashlar_base::value::text::TextStyle::default(),
        &mut text,
    );
    let text = String::from_utf8(text).map_err(|_| Error::internal("the text of a value is UTF-8"))?;
    Ok(Expr::value(AstValue::SingleQuotedString(text)))
}

impl DeletePlan {
    /// Plans a DELETE.
    ///
    /// # Errors
    /// What names and types find.
    pub fn new(engine: &Engine, catalog: &Arc<CatalogState>, delete: Delete, declared: &[u32]) -> Result<Self> {
        refuse(delete.limit.is_some() || !delete.order_by.is_empty(), "DELETE with ORDER BY or LIMIT")?;
        let (FromTable::WithFromKeyword(mut tables) | FromTable::WithoutKeyword(mut tables)) = delete.from;
        refuse(tables.len() != 1, "DELETE from several tables")?;
        let (region, alias) = target_of(catalog, &tables[0])?;
        let schema = region.schema();
        let has_sources = delete.using.is_some();
        tables.extend(delete.using.unwrap_or_default());
        let query = select_of(row_items(&schema, &alias), tables, delete.selection)?;
        let planner = Planner::with_hidden(engine, catalog, region.id());
        let logical = planner.logical(AstStatement::Query(Box::new(query)), declared)?;
        let select = SelectPlan::from_logical(engine.state(), logical)?;
        let builder = Builder { engine, catalog, schema: &schema, declared, parameter_types: Vec::new() };
        let returning = builder.returning(delete.returning, &alias, has_sources)?;
        Ok(Self { region, select, returning, schema })
    }
}

/// The table named in a statement, for messages.
pub fn table_name(name: &ObjectName) -> Result<String> {
    single(name).ok_or_else(|| undefined_column(&name.to_string(), true))
}
