//! Rows of tables as values: `count(t)`, `t.* IS NULL`, `row_to_json(t)`; other uses are refused.
//!
//! `t` is a row if no column has that name. The engine has no such values, and takes `count(t.*)` for `count(*)`,
//! which also counts the rows that an outer join fills with NULL. If the bare name could mean something else, it
//! stays as it is, and the planner refuses an unknown column.
//!
//! Called by the planner for each query in which `references` has found a possible row, after tables have lost their
//! schemas.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use ashlar_base::{Error, Result, TableSchema};
use ashlar_functions::names::NAME_END;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Value,
};

use super::aliases::{outputs, renamed};
use super::joins::nullable_sides;
use super::levels::{self, Levels, Named, Pass};
use super::lowering::{is_named, strip};
use super::names::folded;
use crate::catalog::CatalogState;
use crate::key_plan::single;
use crate::system_tables;

/// What gives a row as an object; the function that makes it of columns has a mark behind its name.
const OBJECTS: [&str; 3] = ["row_to_json", "to_json", "to_jsonb"];

/// Says such rows by their columns, in a query and in every query inside it.
///
/// # Errors
/// 0A000
pub(super) fn settle(catalog: &CatalogState, query: &mut Query) -> Result<()> {
    walk::outcome(levels::visit(query, &mut WholeRows { catalog, levels: Levels::default() }))
}

struct WholeRows<'a> {
    catalog: &'a CatalogState,
    levels: Levels<Rows>,
}

/// A table of FROM.
struct Rows {
    name: String,
    /// Its columns, where they are known.
    columns: Option<Vec<String>>,
    /// One of them that is NULL in no row.
    present: Option<String>,
    /// Whether rows of an outer join may have nothing of it.
    is_filled: bool,
    /// Whether it may be a function that gives values: to PostgreSQL its name is such a value, and no row.
    is_of_values: bool,
    /// The column of such values, where it is one for certain.
    value: Option<String>,
}

impl Rows {
    fn called(name: String) -> Self {
        Self { name, columns: None, present: None, is_filled: false, is_of_values: false, value: None }
    }
}

impl Named for Rows {
    fn name(&self) -> &str {
        &self.name
    }
}

impl WholeRows<'_> {
    fn collect(&self, table: &TableWithJoins, tables: &mut Vec<Rows>) {
        let first = tables.len();
        self.add(&table.relation, tables);
        for join in &table.joins {
            let joined = tables.len();
            self.add(&join.relation, tables);
            let (left, right) = nullable_sides(&join.join_operator);
            for (number, rows) in tables.iter_mut().enumerate().skip(first) {
                rows.is_filled |= if number < joined { left } else { right };
            }
        }
    }

    fn add(&self, factor: &TableFactor, tables: &mut Vec<Rows>) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.collect(table_with_joins, tables),
            TableFactor::Table { name, alias, args: None, .. } => {
                let schema = single(name).and_then(|name| self.schema_of(&name));
                let own = || name.0.last().and_then(|part| part.as_ident()).map(folded);
                let Some(known) = alias.as_ref().map(|alias| folded(&alias.name)).or_else(own) else { return };
                let columns = schema.as_ref().map(|schema| {
                    let names = schema.visible_columns().iter().map(|column| column.name.clone());
                    renamed(names.collect(), alias.as_ref())
                });
                let place = schema.and_then(|known| known.visible_columns().iter().position(|column| !column.nullable));
                let present = place.and_then(|place| columns.as_ref()?.get(place).cloned());
                tables.push(Rows { columns, present, ..Rows::called(known) });
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                let names: Option<Vec<String>> = outputs(&subquery.body).map(|all| all.iter().map(folded).collect());
                let columns = names.map(|names| renamed(names, Some(alias))).filter(|names| are_different(names));
                let array = array_of(subquery);
                let value = array.filter(|array| is_marked(array)).and_then(|_| columns.as_ref()?.first().cloned());
                let is_of_values = array.is_some();
                tables.push(Rows { columns, is_of_values, value, ..Rows::called(folded(&alias.name)) });
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => {
                tables.push(Rows::called(folded(&alias.name)));
            }
            _ => {}
        }
    }

    /// The schema of a user's table that is no file.
    fn schema_of(&self, name: &str) -> Option<Arc<TableSchema>> {
        if self.levels.is_with(name) || system_tables::is_known("pg_catalog", name) {
            return None;
        }
        self.catalog.table(name)?.schema()
    }

    /// The table of the query's own FROM that a name with a star means.
    fn starred(&self, name: &ObjectName) -> Option<&Rows> {
        self.levels.own_named(&single(name)?)
    }

    /// Whether a name by itself may be a column, of a query around too.
    fn may_be_column(&self, name: &str) -> bool {
        let has_it = |columns: &Vec<String>| columns.iter().any(|column| column == name);
        self.levels.all().any(|table| table.columns.as_ref().is_none_or(has_it))
    }

    /// The table of the query's own FROM whose rows a name by itself means; `None` where it may be a column, of a query around too.
    fn named(&self, name: &Ident) -> Option<&Rows> {
        let name = folded(name);
        if self.may_be_column(&name) { None } else { self.levels.own_named(&name) }
    }

    /// The column that a name by itself means which is that of a function in FROM that gives values, such as `jsonb_array_elements`.
    fn value_named(&self, name: &Ident) -> Option<Expr> {
        let name = folded(name);
        let found = self.levels.all().find(|table| table.name == name)?;
        if self.may_be_column(&name) {
            return None;
        }
        Some(column_of(&found.name, found.value.as_ref()?))
    }

    /// The table whose rows an expression is.
    fn row_of(&self, expr: &Expr) -> Option<&Rows> {
        match expr {
            Expr::Nested(inner) => self.row_of(inner),
            Expr::QualifiedWildcard(name, _) => self.starred(name),
            Expr::Identifier(name) => self.named(name),
            _ => None,
        }
    }

    fn row_in(&self, arg: &FunctionArgExpr) -> Option<&Rows> {
        match arg {
            FunctionArgExpr::QualifiedWildcard(name) => self.starred(name),
            FunctionArgExpr::Expr(expr) => self.row_of(expr),
            _ => None,
        }
    }

    /// `row_to_json(t)` and its like make an object of the columns, where the row is one of the table.
    fn shown(&self, function: &mut Function) {
        let mut name = function.name.clone();
        strip(&mut name);
        let known = OBJECTS.into_iter().find(|known| is_named(&name, known));
        let (Some(known), FunctionArguments::List(list)) = (known, &mut function.args) else { return };
        let [FunctionArg::Unnamed(arg)] = &list.args[..] else { return };
        let Some(table) = self.row_in(arg).filter(|table| !table.is_of_values) else { return };
        let Some(columns) = &table.columns else { return };
        let is_there = match &table.present {
            Some(column) => Expr::IsNotNull(Box::new(column_of(&table.name, column))),
            None if table.is_filled => return,
            None => Expr::value(Value::Boolean(true)),
        };
        let members = columns.iter().flat_map(|column| {
            [Expr::value(Value::SingleQuotedString(column.clone())), column_of(&table.name, column)]
        });
        let args = std::iter::once(is_there).chain(members);
        list.args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
        function.name = ObjectName::from(vec![Ident::with_quote('"', format!("{known}{NAME_END}"))]);
    }

    /// `count(t)` counts the rows that are one of the table.
    fn counted(&self, function: &mut Function) {
        let mut name = function.name.clone();
        strip(&mut name);
        let FunctionArguments::List(list) = &mut function.args else { return };
        if !is_named(&name, "count") || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
            return;
        }
        let [FunctionArg::Unnamed(arg)] = &mut list.args[..] else { return };
        let Some(table) = self.row_in(arg).filter(|table| !table.is_of_values) else { return };
        if let Some(column) = &table.present {
            *arg = FunctionArgExpr::Expr(column_of(&table.name, column));
        } else if !table.is_filled {
            *arg = FunctionArgExpr::Wildcard;
        }
    }

    /// `t IS NULL`: whether all columns are; `t IS NOT NULL`: whether none is.
    fn tested(&self, row: &Expr, negated: bool) -> Option<Expr> {
        let table = self.row_of(row)?;
        let tests = table.columns.as_ref()?.iter().map(|column| {
            let column = Box::new(column_of(&table.name, column));
            if negated { Expr::IsNotNull(column) } else { Expr::IsNull(column) }
        });
        let tests: Vec<Expr> = tests.collect();
        if tests.is_empty() { None } else { Some(all_of(&tests)) }
    }
}

/// The array whose values a query gives, which a function in FROM was rewritten to, or which reads as such a one.
fn array_of(query: &Query) -> Option<&Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::ExprWithAlias { expr, .. }] = &select.projection[..] else { return None };
    let rows = match expr {
        Expr::Cast { expr, .. } => expr.as_ref(),
        other => other,
    };
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = rows else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] = &list.args[..] else { return None };
    (select.from.is_empty() && is_named(name, "unnest")).then_some(array)
}

/// Whether an array is made by a function that nobody can call: the query around it was a function in FROM.
fn is_marked(array: &Expr) -> bool {
    let Expr::Function(function) = array else { return false };
    let name = function.name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| name.value.ends_with(NAME_END))
}

fn are_different(names: &[String]) -> bool {
    let mut known = HashSet::new();
    names.iter().all(|name| known.insert(name))
}

fn column_of(table: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), Ident::with_quote('"', column)])
}

/// Conditions of which all must hold, at least one: as deep as their number has binary digits.
fn all_of(tests: &[Expr]) -> Expr {
    if let [test] = tests {
        return test.clone();
    }
    let (left, right) = tests.split_at(tests.len() / 2);
    let (left, right) = (Box::new(all_of(left)), Box::new(all_of(right)));
    Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::And, right }))
}

/// Whether an argument is `t.*`.
pub(super) fn is_row(arg: &FunctionArg) -> bool {
    let (FunctionArg::Unnamed(arg) | FunctionArg::Named { arg, .. } | FunctionArg::ExprNamed { arg, .. }) = arg;
    matches!(arg, FunctionArgExpr::QualifiedWildcard(_))
}

impl Pass for WholeRows<'_> {
    type Break = Error;
    type Table = Rows;

    fn levels(&mut self) -> &mut Levels<Rows> {
        &mut self.levels
    }

    fn tables_of(&self, select: &Select) -> Vec<Rows> {
        let mut tables = Vec::new();
        for table in &select.from {
            self.collect(table, &mut tables);
        }
        tables
    }

    fn select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // The column that such a name stands for is called otherwise.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
                && let Some(expr) = self.value_named(name)
            {
                *item = SelectItem::ExprWithAlias { expr, alias: name.clone() };
            }
        }
        ControlFlow::Continue(())
    }

    fn expression(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let tested = match &*expr {
            Expr::IsNull(row) => self.tested(row, false),
            Expr::IsNotNull(row) => self.tested(row, true),
            _ => None,
        };
        let value = match &*expr {
            Expr::Identifier(name) => self.value_named(name),
            _ => None,
        };
        if let Some(said) = tested.or(value) {
            *expr = said;
            return ControlFlow::Continue(());
        }
        let is_refused = match expr {
            Expr::Function(function) => {
                self.counted(function);
                self.shown(function);
                matches!(&function.args, FunctionArguments::List(list) if list.args.iter().any(is_row))
            }
            Expr::QualifiedWildcard(..) => true,
            _ => false,
        };
        if is_refused {
            return ControlFlow::Break(Error::unsupported("a row as a value is not supported"));
        }
        ControlFlow::Continue(())
    }
}
