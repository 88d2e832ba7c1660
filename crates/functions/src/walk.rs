//! Walks over the tree of sqlparser: by visitors of many kinds, all through the same code.
//!
//! `Visit::visit` is generic. For every visitor that it is called with, the compiler makes anew the walk over some five
//! hundred kinds of nodes: that was half of what it cost to compile those who call it. Here a walk is made once, for a
//! visitor behind a pointer.

use std::ops::ControlFlow;

use datafusion_expr::sqlparser::ast::{
    Expr, Function, GroupByExpr, ObjectName, OrderBy, Query, Select, SelectItem, Statement, TableFactor, ValueWithSpan,
    Visit, VisitMut, Visitor, VisitorMut, WindowSpec,
};

/// Shows a node and all under it to a visitor.
pub fn visit<V: Visitor>(node: &impl Root, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut keeping = Keeping { visitor, broken: None };
    let _ = node.show(&mut keeping);
    keeping.broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Shows a node and all under it to a visitor that may change them.
pub fn visit_mut<V: VisitorMut>(node: &mut impl Root, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut keeping = Keeping { visitor, broken: None };
    let _ = node.show_mut(&mut keeping);
    keeping.broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// A result as visitors have it.
pub fn flow<E>(result: Result<(), E>) -> ControlFlow<E> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// How a walk has ended, as a result.
///
/// # Errors
/// What it was broken off with.
pub fn outcome<E>(end: ControlFlow<E>) -> Result<(), E> {
    match end {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// A kind of node that walks begin at. Its functions are not generic, so that the walk is compiled here, while the
/// engine is, and not in the crates that call it.
pub trait Root {
    /// Shows it and all under it.
    fn show(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()>;

    /// Shows it and all under it, to be changed.
    fn show_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>;
}

macro_rules! roots {
    ($($node:ty),+) => {$(
        impl Root for $node {
            fn show(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
                self.visit(&mut Pointed(visitor))
            }

            fn show_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
                self.visit(&mut Pointed(visitor))
            }
        }
    )+};
}

roots!(Expr, Function, GroupByExpr, Query, SelectItem, Statement, WindowSpec, Option<Expr>, Option<OrderBy>);

/// Calls `f` with every expression, those around others first.
pub fn expressions<B>(node: &impl Root, f: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    struct Expressions<F>(F);
    impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
        type Break = B;

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
            self.0(expr)
        }
    }
    visit(node, &mut Expressions(f))
}

/// Calls `f` with every expression that is not one of a query inside, those around others first.
pub fn own_expressions<B>(node: &impl Root, f: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    struct Own<F> {
        f: F,
        /// Queries around what is looked at.
        queries: usize,
    }
    impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Own<F> {
        type Break = B;

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
            if self.queries == 0 { (self.f)(expr) } else { ControlFlow::Continue(()) }
        }
    }
    visit(node, &mut Own { f, queries: 0 })
}

/// Calls `f` with every expression, those inside others first.
pub fn expressions_mut<B>(node: &mut impl Root, f: impl FnMut(&mut Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    struct Expressions<F>(F);
    impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Expressions<F> {
        type Break = B;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
            self.0(expr)
        }
    }
    visit_mut(node, &mut Expressions(f))
}

/// Calls `f` with every expression that is not one of a query inside, those inside others first.
pub fn own_expressions_mut<B>(node: &mut impl Root, f: impl FnMut(&mut Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    struct Own<F> {
        f: F,
        /// Queries around what is looked at.
        queries: usize,
    }
    impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Own<F> {
        type Break = B;

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<B> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<B> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
            if self.queries == 0 { (self.f)(expr) } else { ControlFlow::Continue(()) }
        }
    }
    visit_mut(node, &mut Own { f, queries: 0 })
}

/// The one visitor that a walk is made for.
struct Pointed<'v, V: ?Sized>(&'v mut V);

/// Keeps what a visitor breaks with, so that all of them break with the same type.
struct Keeping<'v, V, B> {
    visitor: &'v mut V,
    broken: Option<B>,
}

impl<V, B> Keeping<'_, V, B> {
    fn keep(&mut self, step: impl FnOnce(&mut V) -> ControlFlow<B>) -> ControlFlow<()> {
        match step(self.visitor) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(broken) => {
                self.broken = Some(broken);
                ControlFlow::Break(())
            }
        }
    }
}

type Shared<'n, N> = &'n N;
type Exclusive<'n, N> = &'n mut N;

/// Every step of a visitor, handed on. A step that is missing here would be left out of every walk.
macro_rules! steps {
    ($visitor:ident, $reference:ident, $($step:ident: $node:ty,)+) => {
        impl $visitor for Pointed<'_, dyn $visitor<Break = ()> + '_> {
            type Break = ();
            $(
                fn $step(&mut self, node: $reference<'_, $node>) -> ControlFlow<()> {
                    self.0.$step(node)
                }
            )+
        }

        impl<V: $visitor> $visitor for Keeping<'_, V, V::Break> {
            type Break = ();
            $(
                fn $step(&mut self, node: $reference<'_, $node>) -> ControlFlow<()> {
                    self.keep(|visitor| visitor.$step(node))
                }
            )+
        }
    };
    ($visitor:ident of $reference:ident) => {
        steps! {
            $visitor, $reference,
            pre_visit_query: Query,
            post_visit_query: Query,
            pre_visit_select: Select,
            post_visit_select: Select,
            pre_visit_relation: ObjectName,
            post_visit_relation: ObjectName,
            pre_visit_table_factor: TableFactor,
            post_visit_table_factor: TableFactor,
            pre_visit_expr: Expr,
            post_visit_expr: Expr,
            pre_visit_statement: Statement,
            post_visit_statement: Statement,
            pre_visit_value: ValueWithSpan,
            post_visit_value: ValueWithSpan,
        }
    };
}

steps!(Visitor of Shared);
steps!(VisitorMut of Exclusive);

#[cfg(test)]
mod tests {
    use datafusion_expr::sqlparser::dialect::PostgreSqlDialect;
    use datafusion_expr::sqlparser::parser::Parser;

    use super::*;

    fn parsed(text: &str) -> Expr {
        Parser::new(&PostgreSqlDialect {}).try_with_sql(text).unwrap().parse_expr().unwrap()
    }

    #[test]
    fn own_expressions_are_of_no_query_inside() {
        let mut expr = parsed("a + (SELECT b FROM t WHERE EXISTS (SELECT c)) * d");
        let mut seen = Vec::new();
        let _: ControlFlow<()> = own_expressions(&expr, |expr| {
            if let Expr::Identifier(name) = expr {
                seen.push(name.value.clone());
            }
            ControlFlow::Continue(())
        });
        assert_eq!(seen, ["a", "d"]);
        let _: ControlFlow<()> = own_expressions_mut(&mut expr, |expr| {
            if let Expr::Identifier(name) = expr {
                name.value.push('2');
            }
            ControlFlow::Continue(())
        });
        assert_eq!(expr.to_string(), "a2 + (SELECT b FROM t WHERE EXISTS (SELECT c)) * d2");
    }

    #[test]
    fn what_is_inside_an_expression_is_changed_before_it_and_not_again() {
        let mut expr = parsed("f(a)");
        let _: ControlFlow<()> = own_expressions_mut(&mut expr, |expr| {
            *expr = Expr::Nested(Box::new(expr.clone()));
            ControlFlow::Continue(())
        });
        assert_eq!(expr.to_string(), "(f((a)))");
        let found = own_expressions_mut(&mut expr, |expr| match expr {
            Expr::Function(_) => ControlFlow::Break(expr.to_string()),
            _ => ControlFlow::Continue(()),
        });
        assert_eq!(found, ControlFlow::Break("f((a))".to_owned()));
    }
}
