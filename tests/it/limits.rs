//! Random queries within queries, each with an order, a limit and an offset of its own: the same rows as from a real PostgreSQL.
//!
//! Rows that an order leaves in any order are equal in all that is read of them, so one answer is right. Queries come from a seed, which is
//! printed; `ASHLAR_SEED` sets another one.

use anyhow::Result;
use ashlar_tests::{Ashlar, Options, Postgres, pg};

use crate::random::Random;
use crate::threeways::Rows;

/// Queries of one run. The second half of them finds an index.
const QUERIES: usize = 400;

/// Of a hundred queries, fewer are refused.
const REFUSED_PERCENT_MAX: usize = 5;

/// And so many have several rows at least: else they would say little of orders.
const SEVERAL_ROWS_PERCENT_MIN: usize = 10;

/// What both servers have. A value of `n` is that of some eight rows, and as many have none.
const TABLE: &[&str] = &[
    "CREATE TABLE t (k int PRIMARY KEY, n int)",
    "INSERT INTO t SELECT i, CASE WHEN i % 13 <> 5 THEN i * 7 % 11 END FROM generate_series(0, 99) AS g(i)",
];

const INDEX: &str = "CREATE INDEX ON t (n, k)";

/// A query with the columns `k` and `n`.
struct Nested {
    sql: String,
    /// No two rows have the same `k`.
    is_key: bool,
}

struct Grammar {
    random: Random,
}

impl Grammar {
    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    /// Both, one or none. `above`: how many queries read what is left; the more there are, the more is left for them, mostly.
    fn limit(&mut self, above: u64) -> String {
        let bound = if self.percent(33) { 13 } else { 13 + 15 * above };
        let limit = if self.percent(70) { format!(" LIMIT {}", self.random.below(bound)) } else { String::new() };
        let offset = if self.percent(60) { format!(" OFFSET {}", self.random.below(10)) } else { String::new() };
        limit + &offset
    }

    /// An order of all rows: its last column tells them apart, or all of them do.
    fn order(&mut self, is_key: bool) -> &'static str {
        if is_key {
            self.pick(&["k", "n, k", "n DESC, k", "k DESC", "n NULLS FIRST, k DESC", "k % 7, k"])
        } else {
            self.pick(&["k, n", "n, k", "n DESC, k", "k DESC, n", "n NULLS FIRST, k DESC", "k % 7, k, n"])
        }
    }

    /// A query of the table, or of another one that is so many deep. `above`: how many queries read from it.
    fn nested(&mut self, depth: u64, above: u64) -> Nested {
        let (from, is_key) = match depth.checked_sub(1) {
            None => ("t a".to_owned(), true),
            Some(depth) => {
                let beneath = self.nested(depth, above + 1);
                (format!("({}) a", beneath.sql), beneath.is_key)
            }
        };
        let condition = self.pick(&["", " WHERE n > 2", " WHERE k % 3 <> 1"]);
        let (order, limit) = (self.order(is_key), self.limit(above));
        let sql = match self.random.below(20) {
            // Groups of the table itself would be too few for those above.
            0..4 if depth > 0 => {
                let order = self.pick(&["n", "n DESC"]);
                format!("SELECT max(k) AS k, n FROM {from}{condition} GROUP BY n ORDER BY {order}{limit}")
            }
            4..7 => {
                let places = if self.percent(50) { order } else { self.order(is_key) };
                format!(
                    "SELECT k, row_number() OVER (ORDER BY {places}) AS n FROM {from}{condition} ORDER BY {order}{limit}"
                )
            }
            7..9 => {
                let order = self.pick(&["a.k", "a.k DESC", "b.n DESC, a.k"]);
                format!("SELECT a.k, b.n FROM {from} JOIN t b ON b.k = a.k ORDER BY {order}{limit}")
            }
            9..11 => {
                let (others, first, both) = (self.order(true), self.limit(above + 1), self.limit(above));
                let whole = self.pick(&["k, n", "n DESC, k"]);
                let sql = format!(
                    "(SELECT k, n FROM {from}{condition} ORDER BY {order}{limit}) UNION ALL \
                     (SELECT k, n FROM t ORDER BY {others}{first}) ORDER BY {whole}{both}"
                );
                return Nested { sql, is_key: false };
            }
            11 => {
                let order = self.pick(&["k, n", "n DESC, k", "n NULLS FIRST, k DESC"]);
                format!("SELECT DISTINCT k, n FROM {from}{condition} ORDER BY {order}{limit}")
            }
            _ => format!("SELECT k, n FROM {from}{condition} ORDER BY {order}{limit}"),
        };
        Nested { sql, is_key }
    }

    /// A query of others, one to four deep.
    fn query(&mut self) -> String {
        let depth = 1 + self.random.below(4);
        let Nested { sql, .. } = self.nested(depth, 0);
        match self.random.below(10) {
            0..3 => format!("SELECT count(*), sum(k), sum(n) FROM ({sql}) z"),
            3..5 => format!("SELECT k FROM ({sql}) z ORDER BY k, n"),
            5 => format!("SELECT DISTINCT n FROM ({sql}) z ORDER BY 1"),
            _ => sql,
        }
    }
}

/// A statement that both must carry out.
fn done(clients: [&mut pg::Connection; 2], sql: &str) {
    for client in clients {
        if let Err(error) = client.query(sql) {
            panic!("{sql}\n{error:#}");
        }
    }
}

/// An answer to read: a row a line, or the error.
fn text(answer: &Result<Rows>) -> String {
    let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
    let line = |row: &Vec<Option<String>>| row.iter().map(cell).collect::<Vec<_>>().join("\t");
    match answer {
        Ok(rows) => rows.iter().map(line).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn limits_within_queries_leave_the_rows_that_they_leave_on_postgresql() {
    let server = Ashlar::start(Options { expected_log: vec!["a plan was refused"], ..Options::default() }).unwrap();
    let oracle = Postgres::start().unwrap();
    let (mut client, mut alone) = (server.connect(), pg::Connection::connect(oracle.address()).unwrap());
    let mut grammar = Grammar { random: Random::from_environment() };
    for sql in TABLE {
        done([&mut client, &mut alone], sql);
    }
    let (mut refused, mut wrong, mut several) = (Vec::new(), Vec::new(), 0);
    for number in 0..QUERIES {
        if number == QUERIES / 2 {
            done([&mut client, &mut alone], INDEX);
        }
        // Joins of the engine's let sorts pass, ours do not.
        let operators = if number % 4 == 3 { "stock" } else { "own" };
        client.query(&format!("SET operators = '{operators}'")).unwrap();
        let sql = grammar.query();
        let expected = alone.query(&sql).unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        several += usize::from(expected.len() > 1);
        match client.query(&sql) {
            Ok(found) if found == expected => {}
            Err(error) if error.to_string().starts_with("0A000") => refused.push(format!("{error:#}: {sql}")),
            found => {
                let plan = client.query(&format!("EXPLAIN {sql}"));
                let (found, expected, plan) = (text(&found), text(&Ok(expected)), text(&plan));
                wrong.push(format!("{sql}\nfound:\n{found}\nexpected:\n{expected}\nplan:\n{plan}\n"));
            }
        }
    }
    eprintln!("{QUERIES} queries, {several} with several rows; refused:\n{}", refused.join("\n"));
    crate::slt::report(&wrong);
    assert!(100 * refused.len() < REFUSED_PERCENT_MAX * QUERIES, "{} queries were refused", refused.len());
    assert!(100 * several >= SEVERAL_ROWS_PERCENT_MIN * QUERIES, "only {several} queries have several rows");
    server.stop();
}

/// A sort with a limit keeps so many rows, and no more: it stays above a join that gives more rows than it gets.
#[test]
fn the_first_rows_of_a_join_are_no_sort_of_its_input() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut client = server.connect();
    for sql in [
        "CREATE TABLE d (id int PRIMARY KEY)",
        "CREATE TABLE f (k int PRIMARY KEY, d int, n int)",
        "INSERT INTO d SELECT i FROM generate_series(1, 20) i",
        "INSERT INTO f SELECT i, i % 20, i * 7 % 5000 FROM generate_series(1, 5000) i",
    ] {
        client.query(sql).unwrap();
    }
    for operators in ["own", "stock"] {
        client.query(&format!("SET operators = '{operators}'")).unwrap();
        for of in ["n DESC", "n, k", "d.id, k"] {
            let sql = format!("SELECT f.k, n FROM d JOIN f ON f.d = d.id ORDER BY {of} LIMIT 20");
            let plan = text(&client.query(&format!("EXPLAIN {sql}")));
            let sort = plan.find("SortExec: TopK(fetch=20)").unwrap_or_else(|| panic!("{sql}: {plan}"));
            let join = plan.find("Join").unwrap_or_else(|| panic!("{sql}: {plan}"));
            assert!(sort < join && plan.matches("SortExec").count() == 1, "{sql}: {plan}");
            assert_eq!(client.query(&sql).unwrap().len(), 20);
        }
    }
    server.stop();
}
