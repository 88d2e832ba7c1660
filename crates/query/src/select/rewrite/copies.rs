//! Counts what a rewrite duplicates, over a whole statement: a copy may contain what is copied again, so each level
//! of nesting could double the one before it.
//!
//! Called before anything is copied. What is moved, and not copied, does not count.

use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, TableFactor, Visitor};

/// Nodes that a statement may grow by: some megabytes, and a second of planning. Without such a bound twenty subqueries in each other that
/// are said twice took all memory.
const NODES_MAX: usize = 1 << 14;

/// See the module.
pub(crate) struct Copies {
    left: usize,
}

impl Default for Copies {
    fn default() -> Self {
        Self { left: NODES_MAX }
    }
}

impl Copies {
    /// Counts nodes that are about to be copied.
    ///
    /// # Errors
    /// 54001 for more than a statement may grow by.
    pub(crate) fn take(&mut self, nodes: usize) -> Result<()> {
        match self.left.checked_sub(nodes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::new(ErrorCode::StatementTooComplex, "the statement is too complex")
                .with_hint("Nest less rows that are compared, BETWEEN SYMMETRIC and the like.")),
        }
    }
}

/// The expressions, queries and items of FROM of a part of a statement, itself among them.
pub(crate) fn nodes_of(part: &impl walk::Root) -> usize {
    struct Count(usize);
    impl Count {
        fn one(&mut self) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.one()
        }
        fn pre_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
            self.one()
        }
        fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
            self.one()
        }
        fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
            self.one()
        }
    }
    let mut count = Count(0);
    let _ = walk::visit(part, &mut count);
    count.0
}

#[cfg(test)]
mod tests {
    use ashlar_base::{ErrorCode, Result};

    use super::{NODES_MAX, nodes_of};

    /// What a text grows to while it is rewritten, in nodes.
    fn grown(text: &str) -> Result<usize> {
        crate::select::parse(text).map(|statement| nodes_of(&statement))
    }

    #[test]
    fn what_doubles_at_each_level_is_refused_before_it_is_made() {
        /// What is nested, how it begins, the innermost of it, and what stands around each level.
        type Case = (&'static str, &'static str, &'static str, fn(&str) -> String);
        let cases: [Case; 8] = [
            ("a row in a subquery", "", "SELECT 1, 1", |inner| format!("SELECT 1, 1 HAVING (1, 1) IN ({inner})")),
            ("BETWEEN SYMMETRIC", "SELECT ", "1", |inner| format!("({inner})::int BETWEEN SYMMETRIC 1 AND 2")),
            ("a row below another", "SELECT ", "true", |inner| format!("(({inner}), 1) < (true, 2)")),
            ("a row in a list", "SELECT ", "true", |inner| format!("(({inner}), 1) IN ((true, 1), (false, 2))")),
            ("an array of a subquery", "SELECT ", "1", |inner| format!("ARRAY(SELECT {inner} ORDER BY 1)")),
            ("a window with a name", "", "SELECT 1", |inner| {
                format!("SELECT sum(1) OVER w + sum(2) OVER w FROM t WINDOW w AS (PARTITION BY ({inner}))")
            }),
            ("members of an object", "", "SELECT '{}'::json", |inner| {
                format!("SELECT value FROM json_each(({inner})) AS members")
            }),
            ("an aggregate of rows in order", "", "SELECT 1", |inner| {
                format!("SELECT mode() WITHIN GROUP (ORDER BY ({inner}))")
            }),
        ];
        for (what, start, innermost, around) in cases {
            let nested = |levels: usize| {
                let text = (0..levels).fold(innermost.to_owned(), |inner, _| around(&inner));
                grown(&format!("{start}{text}"))
            };
            assert!(nested(3).unwrap() > nested(2).unwrap(), "{what}");
            assert!(nested(3).unwrap() < NODES_MAX, "{what}");
            assert_eq!(nested(14).unwrap_err().code(), ErrorCode::StatementTooComplex, "{what}");
        }
    }

    #[test]
    fn what_is_long_and_not_deep_stays() {
        let rows: Vec<String> = (0..100).map(|number| format!("({number}, {number})")).collect();
        let listed = format!("SELECT 1 WHERE (1, 2) IN ({})", rows.join(", "));
        assert!(grown(&listed).unwrap() > 4 * rows.len());
    }
}
