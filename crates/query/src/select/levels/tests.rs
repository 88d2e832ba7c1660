//! What is around a place, by a pass that notes it at every name by itself.

use datafusion::sql::sqlparser::ast::Statement;

use super::*;

/// A table, of which the name is all that is kept.
struct Plain(String);

impl Named for Plain {
    fn name(&self) -> &str {
        &self.0
    }
}

#[derive(Default)]
struct Noting {
    levels: Levels<Plain>,
    notes: Vec<String>,
}

impl Pass for Noting {
    type Break = ();
    type Table = Plain;

    fn levels(&mut self) -> &mut Levels<Plain> {
        &mut self.levels
    }

    fn tables_of(&self, select: &Select) -> Vec<Plain> {
        factors(&select.from).into_iter().filter_map(called).map(|(name, _)| Plain(name)).collect()
    }

    fn expression(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = &*expr {
            let own = said(self.levels.own().iter());
            let (seen, all) = (said(self.levels.seen()), said(self.levels.all()));
            let with: Vec<&str> = ["v", "w"].into_iter().filter(|name| self.levels.is_with(name)).collect();
            self.notes.push(format!("{name}: own {own}, seen {seen}, all {all}, with {}", list(&with)));
        }
        ControlFlow::Continue(())
    }
}

fn said<'t>(tables: impl Iterator<Item = &'t Plain>) -> String {
    let names: Vec<&str> = tables.map(Named::name).collect();
    list(&names)
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}

/// What is noted on the way through a query that is not rewritten, in the order of its names.
fn notes(sql: &str) -> Vec<String> {
    let Statement::Query(mut query) = crate::select::parse_raw(sql).unwrap() else { panic!("{sql}") };
    let mut noting = Noting::default();
    assert!(visit(query.as_mut(), &mut noting).is_continue());
    assert!(noting.levels.levels.is_empty() && noting.levels.with.is_empty(), "{sql} is left");
    noting.notes.sort();
    noting.notes
}

#[test]
fn a_query_has_its_tables_to_its_end_and_sees_those_around() {
    assert_eq!(
        notes("SELECT a FROM t AS T1, \"S\" WHERE EXISTS (SELECT b FROM u) ORDER BY c"),
        [
            "a: own t1 S, seen t1 S, all t1 S, with -",
            "b: own u, seen u t1 S, all u t1 S, with -",
            "c: own t1 S, seen t1 S, all t1 S, with -",
        ]
    );
}

#[test]
fn a_query_in_from_sees_what_is_beside_it_where_it_is_lateral() {
    assert_eq!(
        notes("SELECT a FROM t, (SELECT b FROM s) x CROSS JOIN LATERAL (SELECT c FROM u) y WHERE d"),
        [
            "a: own t x y, seen t x y, all t x y, with -",
            "b: own s, seen s, all s t x y, with -",
            "c: own u, seen u t x y, all u t x y, with -",
            "d: own t x y, seen t x y, all t x y, with -",
        ]
    );
    // What is hidden is what stands beside it, and not what is further out.
    assert_eq!(
        notes("SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM s, (SELECT a FROM u, LATERAL (SELECT b FROM v) y) x)"),
        ["a: own u y, seen u y t, all u y s x t, with -", "b: own v, seen v u y t, all v u y s x t, with -"]
    );
}

#[test]
fn joins_in_parentheses_are_what_they_join() {
    assert_eq!(
        notes("SELECT a FROM (t JOIN (s JOIN public.u ON b) ON c) JOIN v ON d"),
        ["a", "b", "c", "d"].map(|name| format!("{name}: own t s u v, seen t s u v, all t s u v, with -"))
    );
}

#[test]
fn parts_of_a_union_have_tables_and_what_it_is_sorted_by_has_none() {
    assert_eq!(
        notes("WITH w AS (SELECT a FROM t UNION SELECT b FROM s ORDER BY c) SELECT d FROM w ORDER BY e"),
        [
            "a: own t, seen t, all t, with w",
            "b: own s, seen s, all s, with w",
            "c: own -, seen -, all -, with w",
            "d: own w, seen w, all w, with w",
            "e: own w, seen w, all w, with w",
        ]
    );
}

#[test]
fn a_with_query_sees_no_table_of_the_query_it_is_for() {
    assert_eq!(
        notes("SELECT (WITH w AS (SELECT a FROM s) SELECT b FROM w, u) FROM t"),
        ["a: own s, seen s t, all s t, with w", "b: own w u, seen w u t, all w u t, with w"]
    );
}

#[test]
fn names_of_with_queries_are_known_to_the_end_of_their_query() {
    assert_eq!(
        notes("WITH w AS (SELECT 1) SELECT a FROM (WITH v AS (SELECT 1), w AS (SELECT b) SELECT c FROM w) x WHERE d"),
        [
            "a: own x, seen x, all x, with w",
            "b: own -, seen -, all x, with v w",
            "c: own w, seen w, all w x, with v w",
            "d: own x, seen x, all x, with w",
        ]
    );
    assert_eq!(
        notes("SELECT a FROM (WITH w AS (SELECT 1) SELECT b FROM w) x, w"),
        ["a: own x w, seen x w, all x w, with -", "b: own w, seen w, all w x w, with w"]
    );
}

#[test]
fn a_pass_may_end_the_way() {
    struct Stopping(Levels<Plain>, Vec<String>);
    impl Pass for Stopping {
        type Break = String;
        type Table = Plain;
        fn levels(&mut self) -> &mut Levels<Plain> {
            &mut self.0
        }
        fn tables_of(&self, _: &Select) -> Vec<Plain> {
            Vec::new()
        }
        fn factor(&mut self, factor: &mut TableFactor) -> ControlFlow<String> {
            match called(factor) {
                Some((name, Some(schema))) => ControlFlow::Break(format!("{schema} before {name}")),
                _ => ControlFlow::Continue(()),
            }
        }
        fn expression(&mut self, expr: &mut Expr) -> ControlFlow<String> {
            self.1.push(expr.to_string());
            ControlFlow::Continue(())
        }
    }
    let Statement::Query(mut query) = crate::select::parse_raw("SELECT a FROM t, public.s, u WHERE b").unwrap() else {
        panic!("no query");
    };
    let mut stopping = Stopping(Levels::default(), Vec::new());
    assert_eq!(visit(query.as_mut(), &mut stopping), ControlFlow::Break("public before s".to_owned()));
    assert_eq!(stopping.1, ["a"]);
}
