//! Random joins, subqueries, sets, groups and windows within one another: the same answers as a real PostgreSQL gives, whichever operators do the
//! work and wherever the tables are.
//!
//! Queries come from a seed, which is printed; `ASHLAR_SEED` sets another one, `ASHLAR_QUERIES` how many there are.

mod grammar;

use ashlar_tests::{Ashlar, Options, Postgres, pg};

use crate::comparison::{Protocol, Verdict, ask, ask_bound, judge};
use crate::random::Random;
pub(crate) use grammar::TABLES;
use grammar::{Grammar, Query};

/// Queries of one run.
const QUERIES: usize = 250;

/// With so many sets of values each of those that have parameters is run.
const SETS: usize = 3;

/// Of a hundred answers, so many may be refusals, and so many have a row at least: else they would say little.
const REFUSED_PERCENT_MAX: usize = 3;
const WITH_ROWS_PERCENT_MIN: usize = 40;

/// How long PostgreSQL may think: a join of joins by nothing says little, and takes long.
const PATIENCE: &str = "SET statement_timeout = '5s'";

/// SQLSTATEs of PostgreSQL about queries that are not compared: too many rows from such a join, or too much time.
const NO_ANSWER: &[&str] = &["57014"];

/// Nothing behind definitions.
const IN_MEMORY: [String; TABLES.len()] = [const { String::new() }; TABLES.len()];

/// Makes the tables of the grammar there, each with what is to stand behind its definition.
fn fill(client: &mut pg::Connection, placements: &[String; TABLES.len()]) {
    for (table, placement) in TABLES.iter().zip(placements) {
        for sql in [format!("{} {placement}", table.definition()), table.inserts()] {
            client.query(&sql).unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        }
    }
}

/// The queries of a seed to PostgreSQL and to a server, where the tables are placed so: what stands behind each one's definition.
pub(crate) fn agree(client: &mut pg::Connection, placements: &[String; TABLES.len()]) {
    let oracle = Postgres::start().unwrap();
    agree_with(pg::Connection::connect(oracle.address()).unwrap(), client, placements, REFUSED_PERCENT_MAX);
}

/// The same with this one of PostgreSQL, where of a hundred answers so many may be refusals.
pub(crate) fn agree_with(
    mut alone: pg::Connection,
    client: &mut pg::Connection,
    placements: &[String; TABLES.len()],
    refused_percent_max: usize,
) {
    alone.query(PATIENCE).unwrap();
    fill(&mut alone, &IN_MEMORY);
    fill(client, placements);
    let queries = std::env::var("ASHLAR_QUERIES").map_or(QUERIES, |count| count.parse().expect("a number of queries"));
    let mut grammar = Grammar::of(Random::from_environment());
    let (mut answers, mut with_rows) = (0, 0);
    let (mut refused, mut wrong) = (Vec::new(), Vec::new());
    for number in 0..queries {
        let operators = if number % 4 == 3 { "stock" } else { "own" };
        client.query(&format!("SET operators = '{operators}'")).unwrap();
        let has_parameters = number % 2 == 0;
        let Query { sql, values } = grammar.query(has_parameters, SETS);
        for values in values {
            let (expected, found) = if has_parameters {
                (ask_bound(&mut alone, &sql, &values), ask_bound(client, &sql, &values))
            } else {
                (ask(&mut alone, &sql, Protocol::Simple), ask(client, &sql, Protocol::Simple))
            };
            if expected.error.as_ref().is_some_and(|(state, _)| NO_ANSWER.contains(&state.as_str())) {
                continue;
            }
            answers += 1;
            with_rows += usize::from(expected.count() > 0);
            match judge(&sql, &expected, &found) {
                Verdict::Same => {}
                Verdict::Refused => refused.push(format!("{:?}: {sql}", found.error)),
                Verdict::Different(how) => wrong.push(format!("{how}\n{sql}\n{values:?}, {operators} operators\n")),
            }
        }
    }
    let told = refused.join("\n");
    eprintln!("{answers} answers, {with_rows} of them with rows; refused:\n{told}");
    crate::slt::report(&wrong);
    assert!(100 * refused.len() <= refused_percent_max * answers, "{} of {answers} were refused", refused.len());
    assert!(100 * with_rows >= WITH_ROWS_PERCENT_MIN * answers, "only {with_rows} of {answers} had rows");
}

#[test]
fn random_queries_agree_with_postgresql() {
    let server = Ashlar::start(Options { expected_log: vec!["a plan was refused"], ..Options::default() }).unwrap();
    agree(&mut server.connect(), &IN_MEMORY);
    server.stop();
}
