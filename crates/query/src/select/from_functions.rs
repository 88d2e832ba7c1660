//! Functions in FROM that give rows, as queries that unnest arrays: `unnest`, `generate_series`.
//!
//! Called for each item of FROM while a statement is rewritten. An argument may read columns of the items before it: the
//! query is LATERAL then, as every function in FROM is in PostgreSQL.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result, ScalarType, SqlType};
use ashlar_functions::names::NAME_END;
use ashlar_functions::series::SERIES;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, SelectItem, SetExpr, Statement, TableAlias,
    TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins, UnaryOperator, Value, Visitor,
};

use super::lowering::strip;
use super::names::folded;
use super::nodes::{call, cast_as, table};
use super::rewrite::copies::{Copies, nodes_of};
use crate::sql_types::ast_of;

mod records;

/// Puts a query in the place of a call.
///
/// # Errors
/// XX000; 54001 for arguments that are too much to be said twice; as [`records::derived`].
pub(super) fn lower(factor: &mut TableFactor, copies: &mut Copies) -> Result<()> {
    let Some(from) = Call::of(factor) else { return Ok(()) };
    if from.name == "generate_series" && !from.ordinality && from.args.iter().all(is_whole_number) {
        *factor = from.of_engine();
        return Ok(());
    }
    if records::is_one(&from.name) && from.args.len() == 1 {
        *factor = records::derived(from)?;
        return Ok(());
    }
    if from.name.contains("_each") {
        copies.take(from.args.iter().map(nodes_of).sum())?;
    }
    let args = from.args.clone();
    let of = |name: &str| call(name, args.clone());
    let column = |array: Expr, name: &'static str, cast: Option<DataType>| Column { array, name, cast };
    let (columns, is_named) = match from.name.as_str() {
        "unnest" => (from.args.iter().map(|array| column(array.clone(), "unnest", None)).collect(), true),
        "generate_series" => (vec![column(of(SERIES), "generate_series", None)], true),
        "generate_subscripts" => (vec![column(of("generate_subscripts\u{1}"), "generate_subscripts", None)], true),
        "string_to_table" => (vec![column(of("string_to_table\u{1}"), "string_to_table", None)], true),
        "regexp_split_to_table" => {
            (vec![column(of("regexp_split_to_table\u{1}"), "regexp_split_to_table", None)], true)
        }
        "regexp_matches" => {
            let groups = array_type(&from.name);
            (vec![column(of("regexp_matches\u{1}"), "regexp_matches", groups)], true)
        }
        "json_object_keys" => (vec![column(of("json_object_keys\u{1}"), "json_object_keys", None)], true),
        "jsonb_object_keys" => (vec![column(of("jsonb_object_keys\u{1}"), "jsonb_object_keys", None)], true),
        "json_each" | "jsonb_each" => {
            let (keys, values) = (of(&format!("{} keys", from.name)), of(&format!("{} values", from.name)));
            (vec![column(keys, "key", None), column(values, "value", json_type(&from.name))], false)
        }
        "json_each_text" | "jsonb_each_text" => {
            let name = from.name.trim_end_matches("_text");
            let (keys, texts) = (of(&format!("{name} keys")), of(&format!("{name} texts")));
            (vec![column(keys, "key", None), column(texts, "value", None)], false)
        }
        "json_array_elements" | "jsonb_array_elements" => {
            (vec![column(of(&format!("{}\u{1}", from.name)), "value", json_type(&from.name))], false)
        }
        "json_array_elements_text" | "jsonb_array_elements_text" => {
            (vec![column(of(&format!("{}\u{1}", from.name)), "value", None)], false)
        }
        _ => return Ok(()),
    };
    *factor = Rows { function: from.name, columns, is_named }.derived(from.ordinality, from.alias)?;
    Ok(())
}

/// The type of the values of a function of json, or of jsonb.
pub(super) fn json_type(function: &str) -> Option<DataType> {
    Some(if function.starts_with("jsonb") { DataType::JSONB } else { DataType::JSON })
}

/// The type of the values of a function whose rows are arrays: the array that makes the rows has their texts.
pub(super) fn array_type(function: &str) -> Option<DataType> {
    (function == "regexp_matches").then(|| ast_of(SqlType::Array(ScalarType::Text)))
}

/// Rows of an array in the select list, or of a column of a function in FROM.
pub(super) fn unnested(array: Expr, cast: Option<DataType>) -> Expr {
    let rows = call("unnest", vec![array]);
    match cast {
        None => rows,
        Some(data_type) => cast_as(rows, data_type),
    }
}

/// A call in FROM.
struct Call {
    name: String,
    args: Vec<Expr>,
    ordinality: bool,
    alias: Option<TableAlias>,
}

impl Call {
    fn of(factor: &TableFactor) -> Option<Self> {
        let named = |name: &ObjectName| {
            let mut name = name.clone();
            strip(&mut name);
            if let [part] = &name.0[..] { part.as_ident().map(folded) } else { None }
        };
        let (name, args, ordinality, alias) = match factor {
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                (named(name)?, plain(&args.args)?, with_ordinality, alias)
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                (named(name)?, plain(args)?, with_ordinality, alias)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                ("unnest".to_owned(), array_exprs.clone(), with_ordinality, alias)
            }
            _ => return None,
        };
        Some(Self { name, args, ordinality: *ordinality, alias: alias.clone() })
    }

    /// The engine's own function, which makes its rows as they are read.
    fn of_engine(self) -> TableFactor {
        let name = Ident::new(self.name);
        let mut alias = self.alias.unwrap_or_else(|| named(name.clone()));
        name_column(&mut alias);
        let args = self.args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
        table(name, alias, Some(TableFunctionArgs { args, settings: None }))
    }
}

fn named(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// A column of what a function gives.
struct Column {
    array: Expr,
    name: &'static str,
    /// The type of its values, where it is not that of the array's.
    cast: Option<DataType>,
}

/// What a function gives.
struct Rows {
    function: String,
    columns: Vec<Column>,
    /// Whether the function's alias is its one column's name too.
    is_named: bool,
}

impl Rows {
    /// The query that unnests the arrays side by side.
    fn derived(self, ordinality: bool, alias: Option<TableAlias>) -> Result<TableFactor> {
        let lateral = self.columns.iter().any(|column| reads_columns(&column.array));
        let mut alias = alias.unwrap_or_else(|| named(Ident::new(self.function)));
        if self.is_named && self.columns.len() == 1 {
            name_column(&mut alias);
        }
        let mut names: Vec<Ident> = Vec::new();
        let known = self.columns.iter().map(|column| column.name).chain(ordinality.then_some("ordinality"));
        for (number, known) in known.enumerate() {
            names.push(match alias.columns.get(number) {
                Some(column) => column.name.clone(),
                None if names.iter().any(|name| name.value == known) => {
                    Ident::with_quote('"', format!("{known}{NAME_END}{number}"))
                }
                None => Ident::new(known),
            });
        }
        // Names beyond the columns there are, are for the planner to refuse.
        if alias.columns.len() <= names.len() {
            alias.columns = Vec::new();
        }
        let columns = self.columns.into_iter();
        let subquery = if ordinality {
            let (arrays, casts): (Vec<Expr>, Vec<_>) = columns.map(|column| (column.array, column.cast)).unzip();
            let places: Vec<Ident> = (0..arrays.len()).map(|number| Ident::new(format!("a{number}"))).collect();
            let arrays = query_of(arrays.into_iter().zip(places.iter().cloned()), None)?;
            let places = places.into_iter().map(Expr::Identifier);
            let lengths = places.clone().map(|place| call("cardinality", vec![place]));
            let numbers = call(SERIES, vec![bigint("1"), call("greatest", lengths.collect())]);
            let columns = places.zip(casts).chain([(numbers, None)]).map(|(array, cast)| unnested(array, cast));
            query_of(columns.zip(names), Some(arrays))?
        } else {
            query_of(columns.map(|column| unnested(column.array, column.cast)).zip(names), None)?
        };
        Ok(TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None })
    }
}

/// `SELECT ... FROM (...) AS arrays`
fn query_of(items: impl Iterator<Item = (Expr, Ident)>, from: Option<Box<Query>>) -> Result<Box<Query>> {
    let unexpected = || Error::internal("a template is a query");
    let Ok(Statement::Query(mut query)) = super::parse("SELECT 1") else { return Err(unexpected()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
    select.projection = items.map(|(expr, alias)| SelectItem::ExprWithAlias { expr, alias }).collect();
    if let Some(subquery) = from {
        let alias = Some(named(Ident::new("arrays")));
        let relation = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
    Ok(query)
}

fn bigint(digits: &str) -> Expr {
    cast_as(Expr::value(Value::Number(digits.to_owned(), false)), DataType::BigInt(None))
}

fn plain(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    args.iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect()
}

/// The alias of a function that gives one column names the column too.
fn name_column(alias: &mut TableAlias) {
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
}

/// Whether an argument is a whole number as it is written.
fn is_whole_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_whole_number(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_whole_number(expr),
        Expr::Value(value) => {
            matches!(&value.value, Value::Number(digits, _) if digits.parse::<i64>().is_ok())
        }
        _ => false,
    }
}

/// Whether an argument may read a column of another item of FROM.
fn reads_columns(expr: &Expr) -> bool {
    struct Columns;
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::visit(expr, &mut Columns).is_break()
}
