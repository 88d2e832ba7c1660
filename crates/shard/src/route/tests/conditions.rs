//! Random conditions on the keys of tables of every rule: each row that satisfies one lies on a shard of its route, and
//! routes leave shards out.

use super::twin::Dice;
use super::{Decision, Parameter, Request, World, decided, text};
use crate::rules::Key;

const CONDITIONS: u64 = 1500;

/// A key column with the values that are tried, as SQL has them, and as numbers in their order. The order of texts is
/// turned round: only their server knows it.
struct Column {
    name: &'static str,
    oid: u32,
    values: Vec<(String, Key, i64)>,
}

#[derive(Debug)]
enum Condition {
    /// Column, operator, value.
    Compare(usize, &'static str, usize),
    Null(usize),
    In(usize, Vec<usize>),
    Between(usize, usize, usize),
    /// All columns at once.
    Row(Vec<Vec<usize>>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
}

fn integers(name: &'static str, range: std::ops::Range<i64>) -> Column {
    let values = range.map(|number| (number.to_string(), Key::Number(number), number)).collect();
    Column { name, oid: 20, values }
}

fn texts(name: &'static str) -> Column {
    let all = ["at", "de", "fr", "us", "x y"];
    let values = all.iter().zip(0_i64..).map(|(text, at)| (format!("'{text}'"), Key::Text((*text).into()), -at));
    Column { name, oid: 25, values: values.collect() }
}

fn dates(name: &'static str) -> Column {
    let all = [("2025-12-31", 20_453), ("2026-01-01", 20_454), ("2026-06-30", 20_634), ("2026-07-01", 20_635)];
    let values = all.iter().map(|(text, day)| (format!("'{text}'"), Key::Number(*day), *day)).collect();
    Column { name, oid: 1082, values }
}

fn condition(dice: &mut Dice, columns: &[Column], nesting: usize) -> Condition {
    let column = dice.roll(columns.len());
    let value = |dice: &mut Dice| dice.roll(columns[column].values.len());
    match dice.roll(if nesting > 0 { 11 } else { 6 }) {
        0 | 1 => Condition::Compare(column, "=", value(dice)),
        2 => Condition::Compare(column, ["<", "<=", ">", ">=", "<>"][dice.roll(5)], value(dice)),
        3 => Condition::In(column, (0..1 + dice.roll(3)).map(|_| value(dice)).collect()),
        4 if columns.len() == 1 => Condition::Between(column, value(dice), value(dice)),
        4 => {
            let row = |dice: &mut Dice| columns.iter().map(|column| dice.roll(column.values.len())).collect();
            Condition::Row((0..1 + dice.roll(2)).map(|_| row(dice)).collect())
        }
        5 => Condition::Null(column),
        6..=8 => {
            let (a, b) = (condition(dice, columns, nesting - 1), condition(dice, columns, nesting - 1));
            Condition::And(Box::new(a), Box::new(b))
        }
        9 => {
            let (a, b) = (condition(dice, columns, nesting - 1), condition(dice, columns, nesting - 1));
            Condition::Or(Box::new(a), Box::new(b))
        }
        _ => Condition::Not(Box::new(condition(dice, columns, nesting - 1))),
    }
}

/// Writes a condition; some of its values become parameters.
struct Writer<'c> {
    dice: &'c mut Dice,
    columns: &'c [Column],
    parameters: Vec<(u32, String)>,
}

impl Writer<'_> {
    fn value(&mut self, column: usize, value: usize) -> String {
        let column = &self.columns[column];
        let written = &column.values[value].0;
        if self.dice.one_in(3) {
            self.parameters.push((column.oid, written.trim_matches('\'').to_owned()));
            return format!("${}", self.parameters.len());
        }
        written.clone()
    }

    fn write(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Compare(column, operator, value) => {
                format!("{} {operator} {}", self.columns[*column].name, self.value(*column, *value))
            }
            Condition::Null(column) => format!("{} = NULL", self.columns[*column].name),
            Condition::In(column, values) => {
                let values: Vec<String> = values.iter().map(|value| self.value(*column, *value)).collect();
                format!("{} IN ({})", self.columns[*column].name, values.join(", "))
            }
            Condition::Between(column, low, high) => {
                let (low, high) = (self.value(*column, *low), self.value(*column, *high));
                format!("{} BETWEEN {low} AND {high}", self.columns[*column].name)
            }
            Condition::Row(rows) => {
                let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
                let rows: Vec<String> = rows
                    .iter()
                    .map(|row| {
                        let cells: Vec<String> =
                            row.iter().enumerate().map(|(column, value)| self.value(column, *value)).collect();
                        format!("({})", cells.join(", "))
                    })
                    .collect();
                format!("({}) IN ({})", names.join(", "), rows.join(", "))
            }
            Condition::And(a, b) => format!("({} AND {})", self.write(a), self.write(b)),
            Condition::Or(a, b) => format!("({} OR {})", self.write(a), self.write(b)),
            Condition::Not(a) => format!("NOT ({})", self.write(a)),
        }
    }
}

/// Whether a row, given by the positions of its values, satisfies the condition; `None`: it is NULL.
fn holds(condition: &Condition, columns: &[Column], row: &[usize]) -> Option<bool> {
    let order = |column: usize, value: usize| columns[column].values[value].2;
    Some(match condition {
        Condition::Compare(column, operator, value) => {
            let (a, b) = (order(*column, row[*column]), order(*column, *value));
            match *operator {
                "=" => a == b,
                "<>" => a != b,
                "<" => a < b,
                "<=" => a <= b,
                ">" => a > b,
                _ => a >= b,
            }
        }
        Condition::Null(_) => return None,
        Condition::In(column, values) => values.contains(&row[*column]),
        Condition::Between(column, low, high) => {
            (order(*column, *low)..=order(*column, *high)).contains(&order(*column, row[*column]))
        }
        Condition::Row(rows) => rows.iter().any(|other| other == row),
        Condition::And(a, b) => match (holds(a, columns, row), holds(b, columns, row)) {
            (Some(false), _) | (_, Some(false)) => false,
            (a, b) => a? && b?,
        },
        Condition::Or(a, b) => match (holds(a, columns, row), holds(b, columns, row)) {
            (Some(true), _) | (_, Some(true)) => true,
            (a, b) => a? || b?,
        },
        Condition::Not(a) => !holds(a, columns, row)?,
    })
}

/// All rows, by positions of their values.
fn rows(columns: &[Column]) -> Vec<Vec<usize>> {
    columns.iter().fold(vec![Vec::new()], |rows, column| {
        let longer = |row: &Vec<usize>, value| row.iter().copied().chain([value]).collect::<Vec<usize>>();
        rows.iter().flat_map(|row| (0..column.values.len()).map(move |value| longer(row, value))).collect()
    })
}

#[test]
fn every_row_that_satisfies_a_condition_is_on_one_of_its_shards() {
    let world = World::new();
    let tables = [
        ("a", vec![integers("k", -3..6)]),
        ("r", vec![integers("k", 8..22)]),
        ("h", vec![integers("k", 0..9)]),
        ("l", vec![texts("t")]),
        ("d", vec![dates("day")]),
        ("p", vec![integers("m", 0..4), texts("n")]),
    ];
    for (table, columns) in tables {
        let (mut asked, mut possible) = (0, 0);
        for seed in 1..=CONDITIONS {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let condition = condition(&mut dice, &columns, 3);
            let mut writer = Writer { dice: &mut dice, columns: &columns, parameters: Vec::new() };
            let sql = format!("SELECT * FROM {table} WHERE {}", writer.write(&condition));
            let parameters: Vec<Parameter<'_>> =
                writer.parameters.iter().map(|(oid, value)| text(*oid, value)).collect();
            let route = world.route(&sql).unwrap().unwrap();
            let Decision::Forward(forward) =
                decided(&route, &Request { parameters: &parameters, ..Request::default() }).unwrap()
            else {
                panic!("{sql}: left to the engine")
            };
            let rule = &route.tables()[0].rule;
            asked += forward.statements.len();
            possible += rule.shards().len();
            for row in rows(&columns) {
                if holds(&condition, &columns, &row) != Some(true) {
                    continue;
                }
                let keys = columns.iter().zip(&row).map(|(column, value)| Some(column.values[*value].1.clone()));
                let shard = rule.shard_of_keys(&keys.collect::<Vec<_>>()).unwrap();
                let is_asked = forward.statements.iter().any(|statement| statement.shard == shard);
                assert!(is_asked, "seed {seed}: {sql}\nrow {row:?} is on shard {shard}");
            }
        }
        assert!(asked * 10 < possible * 9, "{table}: {asked} of {possible} shards were asked");
    }
}
