//! Statements about one row by its key: they are recognised when planned, and run on the row's partition without DataFusion.
//!
//! `SELECT columns FROM t WHERE key = x`, `UPDATE t SET c = x, n = n + x WHERE key = x`, `DELETE FROM t WHERE key = x`,
//! the latter two also with `RETURNING columns`; `x` is a constant or a parameter.

use std::sync::Arc;

use ashlar_base::value::text::Zone;
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, TableSchema, Value};
use ashlar_store::{Region, Strength};
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Expr, FromTable, GroupByExpr, LimitClause, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement as AstStatement, TableFactor, TableWithJoins, UnaryOperator,
};
use datafusion::sql::sqlparser::ast::{ObjectName, Value as AstValue};

use crate::assign::{self, Literal};
use crate::catalog::{CatalogState, Table};
use crate::columns::Column;
use crate::parameters::number_of;
use crate::select::names::folded;
use crate::transaction::Policy;

pub(crate) mod computed;
mod run;

use computed::Computed;

/// A constant or a parameter, as a value of one column.
#[derive(Clone, Debug)]
pub enum Operand {
    /// Already of the column's type.
    Constant(Value),
    /// The parameter of this number, from 0, coming as `from` and used as `to`.
    Parameter {
        /// From 0.
        number: usize,
        /// The type that the client was told.
        from: SqlType,
        /// The type of the column.
        to: SqlType,
    },
    /// The parameter of this number, from 0, an integer: NULL where it is none of the column's type, which then is
    /// equal to no value.
    Narrowed {
        /// From 0.
        number: usize,
        /// The type of the column.
        to: SqlType,
    },
}

impl Operand {
    /// The value under these parameters.
    ///
    /// # Errors
    /// 22003 and the like where the parameter does not fit.
    pub fn value(&self, parameters: &[Value]) -> Result<Value> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Parameter { number, from, to } => {
                let value = parameters.get(*number).ok_or_else(|| missing_parameter(*number))?;
                assign::parameter(value, *from, *to)
            }
            Self::Narrowed { number, to } => {
                let value = match parameters.get(*number).ok_or_else(|| missing_parameter(*number))? {
                    Value::Int2(value) => i64::from(*value),
                    Value::Int4(value) => i64::from(*value),
                    Value::Int8(value) => *value,
                    _ => return Ok(Value::Null),
                };
                let fitting = match to.scalar() {
                    ScalarType::Int2 => i16::try_from(value).ok().map(Value::Int2),
                    ScalarType::Int4 => i32::try_from(value).ok().map(Value::Int4),
                    _ => Some(Value::Int8(value)),
                };
                Ok(fitting.unwrap_or(Value::Null))
            }
        }
    }
}

/// 08P01-like: a parameter that was not bound.
pub fn missing_parameter(number: usize) -> Error {
    Error::new(ErrorCode::UndefinedParameter, format!("there is no parameter ${}", number + 1))
}

/// The new value of a column.
#[derive(Clone, Debug)]
pub enum NewValue {
    /// Whatever was there before.
    Operand(Operand),
    /// Integer arithmetic on the value of a column of the row.
    Arithmetic {
        /// The column read.
        column: usize,
        /// Plus, minus or times.
        operator: Arithmetic,
        /// The other side.
        operand: Operand,
        /// The type computed and stored.
        scalar: ScalarType,
    },
}

/// Integer operators of the key path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// What is done with the row.
#[derive(Clone, Debug)]
pub enum KeyAction {
    /// SELECT
    Read,
    /// UPDATE
    Update(Vec<(usize, NewValue)>),
    /// DELETE
    Delete,
}

/// A statement about one row.
#[derive(Clone)]
pub struct KeyPlan {
    /// The table.
    pub region: Arc<Region>,
    schema: Arc<TableSchema>,
    key: Vec<Operand>,
    action: KeyAction,
    /// SELECT ... FOR UPDATE and its like.
    lock: Option<(Strength, Policy)>,
    /// Ordinals of the columns that come back; `None` where no rows do.
    outputs: Option<Vec<usize>>,
    /// Types of the parameters.
    pub parameter_types: Vec<SqlType>,
    /// Result columns.
    pub columns: Option<Arc<[Column]>>,
    /// What is computed of the row: in the place of assignments, and of outputs that are no plain columns.
    computed: Option<Arc<Computed>>,
}

/// Recognises a statement about one row.
pub fn recognise(catalog: &CatalogState, statement: &AstStatement, declared: &[u32]) -> Result<Option<KeyPlan>> {
    match statement {
        AstStatement::Query(query) => recognise_select(catalog, query, declared),
        AstStatement::Update(update) => {
            if update.from.is_some() || update.or.is_some() || update.limit.is_some() || !update.order_by.is_empty() {
                return Ok(None);
            }
            let Some(mut builder) = Builder::for_table(catalog, &update.table, declared) else {
                return Ok(None);
            };
            let Some(key) = builder.key(update.selection.as_ref())? else { return Ok(None) };
            let mut assignments = Vec::new();
            for assignment in &update.assignments {
                let AssignmentTarget::ColumnName(name) = &assignment.target else { return Ok(None) };
                let Some(column) = single(name).and_then(|name| builder.schema.column(&name)) else {
                    return Ok(None);
                };
                // What a name of two parts assigns to is refused by the planner.
                if name.0.len() != 1 {
                    return Ok(None);
                }
                // What numbers itself is refused by the planner too.
                if builder.schema.columns[column].is_always_generated() {
                    return Ok(None);
                }
                if builder.schema.key.contains(&column) || assignments.iter().any(|(known, _)| *known == column) {
                    return Ok(None);
                }
                let Some(value) = builder.new_value(column, &assignment.value)? else { return Ok(None) };
                assignments.push((column, value));
            }
            let outputs = match &update.returning {
                Some(items) => match builder.outputs(items) {
                    Some(outputs) => Some(outputs),
                    None => return Ok(None),
                },
                None => None,
            };
            Ok(Some(builder.finish(key, KeyAction::Update(assignments), outputs)))
        }
        AstStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let ([table], None, true, None) = (&from[..], &delete.using, delete.order_by.is_empty(), &delete.limit)
            else {
                return Ok(None);
            };
            let Some(mut builder) = Builder::for_table(catalog, table, declared) else { return Ok(None) };
            let Some(key) = builder.key(delete.selection.as_ref())? else { return Ok(None) };
            let outputs = match &delete.returning {
                Some(items) => match builder.outputs(items) {
                    Some(outputs) => Some(outputs),
                    None => return Ok(None),
                },
                None => None,
            };
            Ok(Some(builder.finish(key, KeyAction::Delete, outputs)))
        }
        _ => Ok(None),
    }
}

fn recognise_select(catalog: &CatalogState, query: &Query, declared: &[u32]) -> Result<Option<KeyPlan>> {
    let plain = query.with.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.order_by.is_none();
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
    if !plain || !is_plain(select) || !at_least_one(query.limit_clause.as_ref()) {
        return Ok(None);
    }
    let [table] = &select.from[..] else { return Ok(None) };
    let Some(mut builder) = Builder::for_table(catalog, table, declared) else { return Ok(None) };
    let Some(key) = builder.key(select.selection.as_ref())? else { return Ok(None) };
    let Some(outputs) = builder.outputs(&select.projection) else { return Ok(None) };
    Ok(Some(builder.finish(key, KeyAction::Read, Some(outputs))))
}

pub(crate) fn is_plain(select: &Select) -> bool {
    select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.having.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty())
}

/// Whether a LIMIT leaves one row alone.
fn at_least_one(limit: Option<&LimitClause>) -> bool {
    match limit {
        None => true,
        Some(LimitClause::LimitOffset { limit: Some(Expr::Value(value)), offset: None, limit_by }) => {
            limit_by.is_empty()
                && matches!(&value.value, AstValue::Number(digits, _) if digits.parse::<u64>().is_ok_and(|rows| rows > 0))
        }
        _ => false,
    }
}

/// The name where it has one part, or is in the schema `public`.
pub fn single(name: &ObjectName) -> Option<String> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    match &parts[..] {
        [name] => Some(name.clone()),
        [schema, name] if schema == "public" => Some(name.clone()),
        _ => None,
    }
}

/// A constant as the statement's text has it.
pub fn literal(expr: &Expr) -> Option<Literal> {
    match expr {
        Expr::Nested(inner) => literal(inner),
        Expr::Value(value) => match &value.value {
            AstValue::Number(digits, _) => Some(Literal::Number(digits.clone())),
            AstValue::SingleQuotedString(text) | AstValue::EscapedStringLiteral(text) => {
                Some(Literal::String(text.clone()))
            }
            AstValue::DollarQuotedString(quoted) => Some(Literal::String(quoted.value.clone())),
            AstValue::Boolean(value) => Some(Literal::Bool(*value)),
            AstValue::Null => Some(Literal::Null),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match literal(expr)? {
            Literal::Number(digits) if !digits.starts_with('-') => Some(Literal::Number(format!("-{digits}"))),
            _ => None,
        },
        _ => None,
    }
}

/// The parameter's number from 0, where the expression is one.
pub fn parameter(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => parameter(inner),
        Expr::Value(value) => match &value.value {
            AstValue::Placeholder(id) => number_of(id),
            _ => None,
        },
        _ => None,
    }
}

/// What a statement about one table says, in terms of that.
pub(crate) struct Builder<'a> {
    region: Arc<Region>,
    schema: Arc<TableSchema>,
    /// The name by which columns may be qualified.
    alias: String,
    declared: &'a [u32],
    parameter_types: Vec<Option<SqlType>>,
}

impl<'a> Builder<'a> {
    pub(crate) fn for_table(catalog: &CatalogState, table: &TableWithJoins, declared: &'a [u32]) -> Option<Self> {
        if !table.joins.is_empty() {
            return None;
        }
        let TableFactor::Table { name, alias, args: None, with_ordinality: false, sample: None, .. } = &table.relation
        else {
            return None;
        };
        let name = single(name)?;
        let Table::Grid(region) = catalog.table(&name)? else { return None };
        let alias = match alias {
            Some(alias) if !alias.columns.is_empty() => return None,
            Some(alias) => folded(&alias.name),
            None => name,
        };
        let schema = region.schema();
        if schema.hidden_key {
            return None;
        }
        Some(Self { region: Arc::clone(region), schema, alias, declared, parameter_types: Vec::new() })
    }

    pub(crate) fn column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Nested(inner) => self.column(inner),
            Expr::Identifier(ident) => self.schema.column(&folded(ident)),
            Expr::CompoundIdentifier(idents) => match &idents[..] {
                [table, column] if folded(table) == self.alias => self.schema.column(&folded(column)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// One operand per key column, where the condition is exactly that.
    fn key(&mut self, selection: Option<&Expr>) -> Result<Option<Vec<Operand>>> {
        let Some(selection) = selection else { return Ok(None) };
        let mut conjuncts = Vec::new();
        split_and(selection, &mut conjuncts);
        let key = self.schema.key.clone();
        if conjuncts.len() != key.len() {
            return Ok(None);
        }
        let mut operands: Vec<Option<Operand>> = vec![None; key.len()];
        for conjunct in conjuncts {
            let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = conjunct else { return Ok(None) };
            let (column, other) = match (self.column(left), self.column(right)) {
                (Some(column), None) => (column, right),
                (None, Some(column)) => (column, left),
                _ => return Ok(None),
            };
            let Some(place) = key.iter().position(|ordinal| *ordinal == column) else { return Ok(None) };
            let Some(operand) = self.key_operand(column, other)? else { return Ok(None) };
            if operands[place].replace(operand).is_some() {
                return Ok(None);
            }
        }
        Ok(operands.into_iter().collect())
    }

    /// A key's operand: comparing has other rules than assigning, so only what means the same in both is taken.
    pub(crate) fn key_operand(&mut self, column: usize, expr: &Expr) -> Result<Option<Operand>> {
        if let Some(number) = parameter(expr) {
            return Ok(self.parameter_operand(number, column, true));
        }
        let definition = &self.schema.columns[column];
        if cuts_items(definition.sql_type) {
            return Ok(None);
        }
        match literal(expr) {
            // A string is compared as it is: no length cuts it.
            Some(Literal::String(text)) if is_text(definition.sql_type) => {
                Ok(Some(Operand::Constant(Value::Text(text.as_str().into()))))
            }
            // Rounded to the column's scale it would be another number.
            Some(Literal::String(_)) if is_numeric(definition.sql_type) => Ok(None),
            Some(Literal::String(_)) if reads_zone(definition.sql_type) => Ok(None),
            // Text that is not of the type: the planner knows what comparing with it means.
            Some(text @ Literal::String(_)) => Ok(text.assign(definition, Zone::Utc).ok().map(Operand::Constant)),
            Some(number @ Literal::Number(_)) if is_integer(definition.sql_type) => {
                // Out of range, or with a fraction: the planner knows what a comparison with it means.
                match &number {
                    Literal::Number(digits) if digits.parse::<i64>().is_ok() => {}
                    _ => return Ok(None),
                }
                Ok(number.assign(definition, Zone::Utc).ok().map(Operand::Constant))
            }
            _ => Ok(None),
        }
    }

    fn operand(&mut self, column: usize, expr: &Expr) -> Result<Option<Operand>> {
        if let Some(number) = parameter(expr) {
            return Ok(self.parameter_operand(number, column, false));
        }
        let definition = &self.schema.columns[column];
        match literal(expr) {
            Some(Literal::String(_)) if reads_zone(definition.sql_type) => Ok(None),
            Some(literal) => literal.assign(definition, Zone::Utc).map(|value| Some(Operand::Constant(value))),
            None => Ok(None),
        }
    }

    fn parameter_operand(&mut self, number: usize, column: usize, compares: bool) -> Option<Operand> {
        let to = match self.schema.columns[column].sql_type {
            // Rounded to the column's scale it would be another number: the planner compares it as it is.
            to if compares && (is_numeric(to) || cuts_items(to)) => return None,
            // No length cuts what is compared.
            to if compares && is_text(to) => SqlType::Scalar(ScalarType::Text),
            SqlType::Scalar(ScalarType::Char { .. }) if compares => SqlType::Scalar(ScalarType::Char { length: None }),
            to => to,
        };
        let from = declared_or(self.declared, number, to, compares)?;
        if self.parameter_types.len() <= number {
            self.parameter_types.resize(number + 1, None);
        }
        match self.parameter_types[number] {
            // A parameter that stands in two places has one type: the planner settles which.
            Some(known) if known != from => return None,
            _ => self.parameter_types[number] = Some(from),
        }
        Some(Operand::Parameter { number, from, to })
    }

    fn new_value(&mut self, column: usize, expr: &Expr) -> Result<Option<NewValue>> {
        if let Some(operand) = self.operand(column, expr)? {
            return Ok(Some(NewValue::Operand(operand)));
        }
        let expr = match expr {
            Expr::Nested(inner) => inner.as_ref(),
            other => other,
        };
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(None) };
        let operator = match op {
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            _ => return Ok(None),
        };
        let Some(read) = self.column(left) else { return Ok(None) };
        let sql_type = self.schema.columns[column].sql_type;
        if self.schema.columns[read].sql_type != sql_type || !is_integer(sql_type) {
            return Ok(None);
        }
        let is_integer_literal =
            matches!(literal(right), Some(Literal::Number(digits)) if digits.parse::<i64>().is_ok());
        match parameter(right) {
            // A parameter that may hold what the column cannot is computed with before it is assigned.
            Some(number) if declared_or(self.declared, number, sql_type, true).is_none() => return Ok(None),
            None if !is_integer_literal => return Ok(None),
            _ => {}
        }
        let Ok(Some(operand)) = self.operand(column, right) else { return Ok(None) };
        Ok(Some(NewValue::Arithmetic { column: read, operator, operand, scalar: sql_type.scalar() }))
    }

    /// The ordinals that a list of plain columns and stars stands for.
    pub(crate) fn outputs(&self, items: &[SelectItem]) -> Option<Vec<usize>> {
        let visible = self.schema.visible_columns().len();
        let mut outputs = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => outputs.push(self.column(expr)?),
                SelectItem::Wildcard(options) if options.to_string().is_empty() => outputs.extend(0..visible),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if options.to_string().is_empty() && single(name).as_deref() == Some(self.alias.as_str()) =>
                {
                    outputs.extend(0..visible);
                }
                _ => return None,
            }
        }
        Some(outputs)
    }

    fn finish(self, key: Vec<Operand>, action: KeyAction, outputs: Option<Vec<usize>>) -> KeyPlan {
        let columns = outputs.as_ref().map(|outputs| table_columns(&self.schema, outputs));
        let text = SqlType::Scalar(ScalarType::Text);
        let parameter_types = self.parameter_types.into_iter().map(|known| known.unwrap_or(text)).collect();
        KeyPlan {
            region: self.region,
            schema: self.schema,
            key,
            action,
            lock: None,
            outputs,
            parameter_types,
            columns,
            computed: None,
        }
    }
}

/// The type that a parameter comes as: the declared one where it can serve, else the column's.
pub fn declared_or(declared: &[u32], number: usize, to: SqlType, compares: bool) -> Option<SqlType> {
    let oid = declared.get(number).copied().unwrap_or(0);
    match SqlType::from_oid(oid) {
        None => Some(to),
        Some(from) if from.oid() == to.oid() => Some(to),
        Some(from) if is_integer(from) && is_integer(to) => {
            // A wider comparison could mean a value that the column cannot hold.
            let widens = from.typlen() <= to.typlen();
            (widens || !compares).then_some(from)
        }
        Some(from) if is_text(from) && is_text(to) => Some(from),
        Some(from) if reads_zone(from) || reads_zone(to) => None,
        Some(from) if !compares && !from.is_array() && !is_text(to) && assign::assignable(from, to) => Some(from),
        Some(_) => None,
    }
}

/// Whether the text of a value, or what it is converted to, depends on the session's time zone. A plan by key is made
/// for every zone: the planner, which knows its zone, takes such a statement.
fn reads_zone(sql_type: SqlType) -> bool {
    sql_type.scalar() == ScalarType::Timestamptz
}

fn is_integer(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::Scalar(ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8))
}

fn is_numeric(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::Scalar(ScalarType::Numeric { .. }))
}

/// Whether the items of an array are rounded or cut where it becomes one of this type: it would be another array.
fn cuts_items(sql_type: SqlType) -> bool {
    let cuts = |item| matches!(item, ScalarType::Numeric { .. } | ScalarType::Varchar { length: Some(_) });
    sql_type.is_array() && cuts(sql_type.scalar())
}

fn is_text(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. }))
}

pub(crate) fn split_and<'e>(expr: &'e Expr, out: &mut Vec<&'e Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            split_and(left, out);
            split_and(right, out);
        }
        Expr::Nested(inner) => split_and(inner, out),
        other => out.push(other),
    }
}

/// Result columns that are columns of a table.
pub fn table_columns(schema: &TableSchema, ordinals: &[usize]) -> Arc<[Column]> {
    let column = |ordinal: &usize| {
        let definition = &schema.columns[*ordinal];
        let mut column = Column::new(definition.name.clone(), definition.sql_type);
        column.table_oid = schema.id.0;
        column.column_number = i16::try_from(ordinal + 1).unwrap_or(0);
        column
    };
    ordinals.iter().map(column).collect()
}

/// 40001 for a statement that was planned for another shape of the table.
pub(crate) fn altered(schema: &TableSchema) -> Error {
    Error::new(
        ErrorCode::SerializationFailure,
        format!("relation \"{}\" was altered by a concurrent statement", schema.name),
    )
}

/// 23502, as PostgreSQL words it.
pub fn not_null(schema: &TableSchema, column: usize) -> Error {
    let column = &schema.columns[column].name;
    Error::new(
        ErrorCode::NotNullViolation,
        format!("null value in column \"{column}\" of relation \"{}\" violates not-null constraint", schema.name),
    )
    .with_table(schema.name.clone())
    .with_column(column.clone())
}
