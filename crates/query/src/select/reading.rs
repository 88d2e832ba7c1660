//! Whether two expressions of one query are the same, as far as their text tells. Quotes and capitals of names,
//! parentheses, the forms of a cast and the synonyms of a type make no difference; nor does the table's name before a
//! column if the query has only one table.

use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, CastKind, Expr, Ident, ObjectName, ObjectNamePart, Query, Value, VisitorMut,
};

use super::names::folded;
use crate::expressions::sql_type_of;
use crate::sql_types::ast_of;

/// How alike two expressions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    Same,
    /// The same, if a name without a table is the column of the table that the other one says.
    Unsure,
    Other,
}

/// How an expression reads.
pub(super) struct Reading {
    text: String,
    /// The same without the names of tables.
    bare: String,
    /// Whether a name in it has no table.
    has_bare: bool,
}

impl Reading {
    /// `table`: the one table of the query, whose columns bare names are.
    pub(super) fn of(expr: &Expr, table: Option<&Ident>) -> Self {
        let mut full = Plain { table: table.map(plain), drops_tables: false, has_bare: false, queries: 0 };
        let text = full.text(expr);
        Self { text, bare: without_tables(expr), has_bare: full.has_bare }
    }

    pub(super) fn likeness(&self, other: &Self) -> Likeness {
        if self.text == other.text {
            Likeness::Same
        } else if self.bare == other.bare && (self.has_bare || other.has_bare) {
            Likeness::Unsure
        } else {
            Likeness::Other
        }
    }
}

/// How an expression reads without the names of tables.
pub(super) fn without_tables(expr: &Expr) -> String {
    Plain { table: None, drops_tables: true, has_bare: false, queries: 0 }.text(expr)
}

/// A name as it is stored.
fn plain(name: &Ident) -> Ident {
    Ident::with_quote('"', folded(name))
}

struct Plain {
    table: Option<Ident>,
    drops_tables: bool,
    has_bare: bool,
    /// Queries inside have names of their own.
    queries: usize,
}

impl Plain {
    fn text(&mut self, expr: &Expr) -> String {
        let mut expr = expr.clone();
        let _ = walk::visit_mut(&mut expr, self);
        expr.to_string()
    }

    fn name(&mut self, name: &Ident) -> Expr {
        let name = plain(name);
        match &self.table {
            Some(table) if self.queries == 0 => Expr::CompoundIdentifier(vec![table.clone(), name]),
            _ => {
                self.has_bare |= self.queries == 0;
                Expr::Identifier(name)
            }
        }
    }

    fn names(&self, names: &[Ident]) -> Expr {
        let mut names: Vec<Ident> = names.iter().map(plain).collect();
        if self.queries == 0 {
            // `public.t.a` is `t.a`.
            let is_own = names.len() > 2 && names.get(names.len() - 2) == self.table.as_ref();
            let kept = match (self.drops_tables, is_own) {
                (true, _) => 1,
                (false, true) => 2,
                (false, false) => names.len(),
            };
            names.drain(..names.len() - kept);
        }
        match names.pop() {
            Some(name) if names.is_empty() => Expr::Identifier(name),
            last => Expr::CompoundIdentifier(names.into_iter().chain(last).collect()),
        }
    }
}

impl VisitorMut for Plain {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    /// What is computed stands in parentheses of its own: `(a + b) * c` is not `a + b * c`.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
            let inner = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = Expr::Nested(Box::new(inner));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while let Expr::Nested(inner) = expr {
            *expr = Expr::clone(inner);
        }
        match expr {
            Expr::Identifier(name) => *expr = self.name(name),
            Expr::CompoundIdentifier(names) => *expr = self.names(names),
            // `t.tags[1]`
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let Expr::Identifier(first) = root.as_ref() {
                    let mut names = vec![first.clone()];
                    while let Some(AccessExpr::Dot(Expr::Identifier(name))) = access_chain.first() {
                        names.push(name.clone());
                        access_chain.remove(0);
                    }
                    if names.len() > 1 {
                        **root = Expr::CompoundIdentifier(names);
                    }
                }
            }
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(name) = part {
                        *name = plain(name);
                    }
                }
            }
            Expr::Collate { collation, .. } => {
                if let Some(name) = collation.0.last().and_then(|part| part.as_ident()).map(plain) {
                    *collation = ObjectName::from(vec![name]);
                }
            }
            Expr::Cast { kind, data_type, .. } => {
                *kind = CastKind::Cast;
                // One that is not offered is refused elsewhere.
                if let Ok(Some(sql_type)) = sql_type_of(data_type) {
                    *data_type = ast_of(sql_type);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
