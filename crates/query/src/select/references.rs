//! Tables of FROM, and names that refer to them with a schema: `public.t.a`, `public.t.*`.
//!
//! In PostgreSQL a table with an alias is known by the alias alone, and a table without one may be qualified by its
//! schema. The engine finds a table with an alias under any schema, and knows `t.*` only if FROM says `t` in the same
//! way. Here a table loses its schema, or gets its name as an alias, and so do the names that refer to it: later
//! passes see `t`, `t.a` and `t.*`.
//!
//! Called by the planner for each query, before any pass asks which columns FROM has.

use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk::{self, flow};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor,
};

use super::levels::{self, Levels, Named, Pass, called, factors};
use super::names::folded;
use super::whole_rows::is_row;
use crate::system_tables;

/// The schema whose names are found before all others.
const SYSTEM_SCHEMA: &str = "pg_catalog";
/// The schema of users' tables.
const USER_SCHEMA: &str = "public";
/// What names begin with that no user gives: those of the target of a statement, beside an alias that its user may not have written.
const OWN_MARK: char = '\u{1}';

/// Settles the names of a query and of the queries inside it, and says whether rows of tables may be named there: `whole_rows` is about those.
///
/// # Errors
/// 42712 for two tables of one name in one FROM, 0A000 where only their schemas tell them apart; 42P01 for a name with a schema, a star or
/// the name behind an alias that means no table of FROM.
pub(super) fn settle(query: &mut Query) -> Result<bool> {
    let mut references = References::default();
    walk::outcome(levels::visit(query, &mut references))?;
    Ok(references.names_rows)
}

/// A table of FROM.
struct Table {
    /// What its columns are said with.
    name: String,
    /// The schema that may be said before that.
    schema: Option<String>,
    /// Its own name, which an alias hides.
    hidden: Option<String>,
}

impl Named for Table {
    fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Default)]
struct References {
    levels: Levels<Table>,
    /// Whether rows of tables may be named.
    names_rows: bool,
}

impl References {
    /// The schema in which a name without one is found.
    fn schema_of(&self, name: &str) -> &'static str {
        if system_tables::is_known(SYSTEM_SCHEMA, name) && !self.levels.is_with(name) {
            SYSTEM_SCHEMA
        } else {
            USER_SCHEMA
        }
    }

    /// An item of FROM that has a name.
    fn table_of(&self, factor: &TableFactor) -> Option<Table> {
        let (name, schema) = called(factor)?;
        let (schema, hidden) = match factor {
            TableFactor::Table { name: own, alias: Some(_), args: None, .. } => {
                let own = own.0.last().and_then(|part| part.as_ident()).map(folded);
                if own.as_ref().is_some_and(|own| own.starts_with(OWN_MARK)) {
                    (Some(USER_SCHEMA.to_owned()), None)
                } else {
                    (None, own)
                }
            }
            TableFactor::Table { alias: None, .. } | TableFactor::Function { alias: None, .. } => {
                (Some(schema.map_or_else(|| self.schema_of(&name).to_owned(), folded)), None)
            }
            _ => (None, None),
        };
        Some(Table { name, schema, hidden })
    }

    /// 42P01 for a name that means no table, which may be the one that an alias hides.
    fn missing(&self, name: &str) -> Error {
        let hidden = self.levels.seen().find(|table| table.hidden.as_deref() == Some(name));
        match hidden {
            Some(table) => {
                let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
                let hint = format!("Perhaps you meant to reference the table alias \"{}\".", table.name);
                Error::new(ErrorCode::UndefinedTable, message).with_hint(hint)
            }
            None => Error::new(ErrorCode::UndefinedTable, format!("missing FROM-clause entry for table \"{name}\"")),
        }
    }

    /// Whether the table that a name means is of the schema that stands before the name.
    ///
    /// # Errors
    /// 42P01 where none is; 0A000 where the name by itself means another table.
    fn check_schema(&self, schema: &Ident, table: &Ident) -> Result<()> {
        let (schema, name) = (folded(schema), folded(table));
        let mut is_other = false;
        for found in self.levels.seen().filter(|table| table.name == name) {
            if found.schema.as_ref() != Some(&schema) {
                is_other = true;
            } else if is_other {
                let message =
                    format!("\"{schema}.{name}\" beside another table that is called \"{name}\" is not supported");
                return Err(Error::unsupported(message).with_hint("Give one of them an alias."));
            } else {
                return Ok(());
            }
        }
        Err(self.missing(&name))
    }

    /// Looks at the table before a column's name: 42P01 where an alias hides it, and no other one is called so.
    fn check_table(&self, table: &Ident) -> Result<()> {
        let name = folded(table);
        let is_hidden = |table: &Table| table.hidden.as_ref() == Some(&name);
        if self.levels.all().any(|table| table.name == name) || !self.levels.seen().any(is_hidden) {
            return Ok(());
        }
        Err(self.missing(&name))
    }

    /// Looks at the table of a star.
    fn check_star(&self, table: &Ident) -> Result<()> {
        let name = folded(table);
        if self.levels.own_named(&name).is_some() {
            return Ok(());
        }
        if self.levels.seen().any(|table| table.name == name) {
            return Err(Error::unsupported(format!("{name}.* of a table of a query around is not supported"))
                .with_hint("Say the columns."));
        }
        Err(self.missing(&name))
    }

    fn check_stars(&self, list: &mut [SelectItem]) -> Result<()> {
        for item in list {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
                continue;
            };
            let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
            match parts[..] {
                [table] => self.check_star(table)?,
                [schema, table] => {
                    self.check_schema(schema, table)?;
                    self.check_star(table)?;
                    *name = ObjectName::from(vec![table.clone()]);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The tables of one FROM are called differently.
    fn check_names(tables: &[Table]) -> Result<()> {
        for (number, table) in tables.iter().enumerate() {
            let name = &table.name;
            // A part that a rewritten statement is made of.
            if name.contains(OWN_MARK) {
                continue;
            }
            let Some(other) = tables[..number].iter().find(|other| other.name == *name) else { continue };
            if table.schema.is_some() && other.schema.is_some() && table.schema != other.schema {
                let message = format!("tables \"{name}\" of two schemas in one FROM are not supported");
                return Err(Error::unsupported(message).with_hint("Give one of them an alias."));
            }
            let message = format!("table name \"{name}\" specified more than once");
            return Err(Error::new(ErrorCode::DuplicateAlias, message));
        }
        Ok(())
    }

    /// A table with a schema is said without it, or has its name for an alias where that would mean another one.
    fn settle_table(&self, factor: &mut TableFactor) {
        let TableFactor::Table { name, alias: alias @ None, args: None, .. } = factor else { return };
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let (schema, table) = match parts[..] {
            [schema, table] => (Some(folded(schema)), table.clone()),
            // Of a database, which the planner knows.
            [_, _, table] => (None, table.clone()),
            _ => return,
        };
        let known = folded(&table);
        if schema.is_some_and(|schema| schema == self.schema_of(&known)) && !self.levels.is_with(&known) {
            *name = ObjectName::from(vec![table]);
        } else {
            *alias = Some(TableAlias { explicit: true, name: table, columns: Vec::new(), at: None });
        }
    }

    /// Whether an expression is about rows of tables: one of those that `whole_rows` changes or refuses, if no column has the table's name.
    fn is_about_rows(&self, expr: &Expr) -> bool {
        match expr {
            Expr::QualifiedWildcard(..) => true,
            // Of a function that gives values the name is a value, in queries inside too.
            Expr::Identifier(name) => {
                let name = folded(name);
                self.levels.all().any(|table| table.name == name)
            }
            Expr::IsNull(row) | Expr::IsNotNull(row) => self.is_table(row),
            Expr::Function(function) => match &function.args {
                FunctionArguments::List(list) => list.args.iter().any(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.is_table(expr),
                    _ => is_row(arg),
                }),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether a name by itself is that of a table of the query's own FROM.
    fn is_table(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_table(inner),
            Expr::Identifier(name) => self.levels.own_named(&folded(name)).is_some(),
            _ => false,
        }
    }

    fn settle_expression(&self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::CompoundIdentifier(names) => match &names[..] {
                [table, _] => self.check_table(table)?,
                [schema, table, _] => {
                    self.check_schema(schema, table)?;
                    names.remove(0);
                }
                _ => {}
            },
            // `public.t.tags[1]`
            Expr::CompoundFieldAccess { root, access_chain } => {
                let name = |place: usize| match access_chain.get(place) {
                    Some(AccessExpr::Dot(Expr::Identifier(name))) => Some(name),
                    _ => None,
                };
                if let Expr::Identifier(schema) = root.as_ref()
                    && let (Some(table), Some(_)) = (name(0), name(1))
                {
                    self.check_schema(schema, table)?;
                    **root = Expr::Identifier(table.clone());
                    access_chain.remove(0);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Pass for References {
    type Break = Error;
    type Table = Table;

    fn levels(&mut self) -> &mut Levels<Table> {
        &mut self.levels
    }

    fn tables_of(&self, select: &Select) -> Vec<Table> {
        factors(&select.from).into_iter().filter_map(|factor| self.table_of(factor)).collect()
    }

    fn select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        flow(Self::check_names(self.levels.own()))?;
        flow(self.check_stars(&mut select.projection))
    }

    fn factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.settle_table(factor);
        ControlFlow::Continue(())
    }

    fn expression(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.names_rows = self.names_rows || self.is_about_rows(expr);
        flow(self.settle_expression(expr))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{engine_with, plan};

    #[test]
    fn a_table_with_its_database_is_called_by_its_name() {
        let engine = engine_with(&["CREATE TABLE t (id integer PRIMARY KEY, a integer)"]);
        let database = engine.catalog().current().identity().database.clone();
        let from = format!("FROM {database}.public.t");
        for list in ["t.*", "public.t.*", "t.id, public.t.a", "count(t.*)"] {
            plan(&engine, &format!("SELECT {list} {from} WHERE t.a > public.t.id"));
        }
    }
}
