//! `tableoid`, PostgreSQL's system column: the OID of the table that a row comes from, which is known when a query is
//! planned.
//!
//! Called by the planner for each query before the other passes. If it could refer to several tables, or to none in
//! the catalog, the name stays, and planning reports an unknown column.

use std::ops::ControlFlow;

use ashlar_base::ScalarType;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, TableFactor, Value, VisitorMut,
};

use super::levels::{called, factors, with_names};
use super::names::{folded, label_of};
use super::nodes::cast;
use crate::catalog::CatalogState;
use crate::system_tables;

/// Its name.
const NAME: &str = "tableoid";

/// Puts the numbers in.
pub(super) fn settle(catalog: &CatalogState, query: &mut Query) {
    let names_it = |expr: &Expr| match last(expr) {
        Some(name) if folded(name) == NAME => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if walk::expressions(&*query, names_it).is_break() {
        let _ = walk::visit_mut(query, &mut Numbers { catalog, with: Vec::new(), scopes: Vec::new() });
    }
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
        let number = match factor {
            TableFactor::Table { name, args: None, .. } => self.of_table(name),
            _ => None,
        };
        Known { name, number }
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

impl VisitorMut for Numbers<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.with.push(with_names(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.with.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
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

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(number) = self.of(expr) {
            let number = Expr::value(Value::Number(number.to_string(), false));
            *expr = cast(number, ScalarType::Int8.into());
        }
        ControlFlow::Continue(())
    }
}
