//! `tableoid`, PostgreSQL's system column: the OID of the table that a row comes from, which is known when a query is
//! planned. The other system columns, such as `ctid`, are refused for sharded tables: each shard has its own, which mean nothing
//! beside those of another.
//!
//! Called by the planner for each query before the other passes. If it could refer to several tables, or to none in
//! the catalog, the name stays, and planning reports an unknown column.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result, ScalarType};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, TableFactor, Value, VisitorMut,
};

use super::levels::{called, factors, with_names};
use super::names::{folded, label_of};
use super::nodes::cast;
use crate::catalog::{CatalogState, Table};
use crate::system_tables;

/// Its name.
const NAME: &str = "tableoid";

/// The others, which say where a row is and who has made it.
const OTHERS: [&str; 5] = ["ctid", "xmin", "xmax", "cmin", "cmax"];

/// Puts the numbers in.
///
/// # Errors
/// 0A000 for another one of PostgreSQL's system columns, of a table on shards.
pub(super) fn settle(catalog: &CatalogState, query: &mut Query) -> Result<()> {
    let names_one = |expr: &Expr| match last(expr).map(folded) {
        Some(name) if name == NAME || OTHERS.contains(&name.as_str()) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if walk::expressions(&*query, names_one).is_continue() {
        return Ok(());
    }
    walk::outcome(walk::visit_mut(query, &mut Numbers { catalog, with: Vec::new(), scopes: Vec::new() }))
}

/// The last part of a name.
fn last(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    }
}

/// A table of FROM, with its number where it has one.
struct Known {
    name: String,
    number: Option<i64>,
    /// Whether its rows are on shards.
    is_sharded: bool,
}

struct Numbers<'a> {
    catalog: &'a CatalogState,
    /// The names of the WITH queries around.
    with: Vec<Vec<String>>,
    /// The tables of the SELECTs around, from the outermost.
    scopes: Vec<Vec<Known>>,
}

impl Numbers<'_> {
    fn known(&self, factor: &TableFactor) -> Known {
        let name = called(factor).map(|(name, _)| name).unwrap_or_default();
        let (number, is_sharded) = match factor {
            TableFactor::Table { name, args: None, .. } => (self.of_table(name), self.is_sharded(name)),
            _ => (None, false),
        };
        Known { name, number, is_sharded }
    }

    fn is_sharded(&self, name: &ObjectName) -> bool {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        let name = match &parts[..] {
            [name] if self.with.iter().flatten().any(|known| known == name) => return false,
            [name] if system_tables::is_known("pg_catalog", name) => return false,
            [name] => name,
            [schema, name] if schema == "public" => name,
            _ => return false,
        };
        matches!(self.catalog.table(name), Some(Table::Sharded(_)))
    }

    fn of_table(&self, name: &ObjectName) -> Option<i64> {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        let of_user = |name: &str| self.catalog.table(name).map(|table| i64::from(table.id().0));
        match &parts[..] {
            [name] if self.with.iter().flatten().any(|known| known == name) => None,
            [name] => system_tables::system_table_oid("pg_catalog", name).or_else(|| of_user(name)),
            [schema, name] if schema == "public" => of_user(name),
            [schema, name] => system_tables::system_table_oid(schema, name),
            _ => None,
        }
    }

    /// The column of a table on shards that an expression names, which each shard makes for itself.
    fn of_shards(&self, expr: &Expr) -> Option<String> {
        let name = folded(last(expr)?);
        if !OTHERS.contains(&name.as_str()) {
            return None;
        }
        let is_sharded = match expr {
            Expr::CompoundIdentifier(names) => {
                let table = folded(names.get(names.len().checked_sub(2)?)?);
                self.scopes.iter().rev().flatten().find(|known| known.name == table)?.is_sharded
            }
            // PostgreSQL finds the column that a table has by itself beside another one that is called so, and takes neither.
            _ => self.scopes.last()?.iter().any(|known| known.is_sharded),
        };
        is_sharded.then_some(name)
    }

    /// The number that an expression stands for.
    fn of(&self, expr: &Expr) -> Option<i64> {
        if folded(last(expr)?) != NAME {
            return None;
        }
        match expr {
            Expr::CompoundIdentifier(names) => {
                let table = folded(names.get(names.len().checked_sub(2)?)?);
                self.scopes.iter().rev().flatten().find(|known| known.name == table)?.number
            }
            _ => match self.scopes.last()?.as_slice() {
                [only] => only.number,
                _ => None,
            },
        }
    }
}

/// 0A000
fn of_each_shard(name: &str) -> Error {
    let message = format!("system column \"{name}\" of rows of several shards is not supported");
    Error::unsupported(message)
        .with_hint("Each shard has its own: give the sharding key's values, so that one shard has all of the rows.")
}

impl VisitorMut for Numbers<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.with.push(with_names(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.with.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let tables = factors(&select.from).into_iter().map(|factor| self.known(factor)).collect();
        self.scopes.push(tables);
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && label_of(expr) == NAME
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', NAME) };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(name) = self.of_shards(expr) {
            return ControlFlow::Break(of_each_shard(&name));
        }
        if let Some(number) = self.of(expr) {
            let number = Expr::value(Value::Number(number.to_string(), false));
            *expr = cast(number, ScalarType::Int8.into());
        }
        ControlFlow::Continue(())
    }
}
