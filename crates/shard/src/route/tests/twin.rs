//! Random queries, evaluated by nested loops over all rows, and over the rows of each shard that a route names: both
//! must be the same. The evaluator knows three-valued logic, outer joins and sub-queries, and nothing of shards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ashlar_base::ErrorCode;

use super::{Decision, Merge, Request, World, decided};

const SHARDS: i64 = 3;
const QUERIES: u64 = 6000;

/// Two columns: the key, and another.
type Row = [Option<i64>; 2];
/// Rows by table.
type Database = [Vec<Row>; 3];
/// The row of each alias in force.
type Names = BTreeMap<usize, Row>;

const TABLES: [(&str, [&str; 2]); 3] = [("a", ["k", "x"]), ("b", ["k", "y"]), ("c", ["k", "x"])];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Join {
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Clone, Debug)]
enum Item {
    Table { table: usize, alias: usize },
    Query { query: Box<Query>, alias: usize },
    Join { kind: Join, left: Box<Item>, right: Box<Item>, on: Condition },
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    Column { alias: usize, column: usize, is_table: Option<usize> },
    Number(i64),
}

#[derive(Clone, Debug)]
enum Condition {
    Compare(&'static str, Operand, Operand),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    Exists(Box<Query>),
    In(Operand, Box<Query>),
    IsNull(Operand),
    True,
}

#[derive(Clone, Debug)]
struct Query {
    from: Vec<Item>,
    condition: Condition,
    /// One or two columns.
    outputs: Vec<Operand>,
    is_distinct: bool,
    /// The first output is grouped by, the second one is the number of rows.
    is_grouped: bool,
    /// So many rows, the least by all outputs.
    limit: Option<usize>,
}

/// A small generator of numbers: the same ones for the same seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    pub(super) fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

/// What can be named: alias, and the table where it is one.
type Visible = Vec<(usize, Option<usize>)>;

struct Maker {
    dice: Dice,
    aliases: usize,
}

impl Maker {
    fn alias(&mut self) -> usize {
        self.aliases += 1;
        self.aliases
    }

    fn database(&mut self) -> Database {
        std::array::from_fn(|_| {
            let count = 1 + self.dice.roll(5);
            let row = |_| {
                let other = self.dice.roll(6) as i64;
                [Some(self.dice.roll(5) as i64), (other < 5).then_some(other)]
            };
            (0..count).map(row).collect()
        })
    }

    fn query(&mut self, outer: &Visible, depth: usize, width: usize) -> Query {
        let mut from = Vec::new();
        let mut visible = Vec::new();
        for _ in 0..1 + usize::from(self.dice.one_in(3)) {
            from.push(self.item(depth, &mut visible));
        }
        let all: Visible = visible.iter().chain(outer).copied().collect();
        let condition = self.condition(&visible, &all, depth, 2);
        let is_grouped = width == 2 && self.dice.one_in(8);
        let outputs = (0..if is_grouped { 1 } else { width }).map(|at| {
            let column = if self.dice.one_in(4) { 1 - at } else { at };
            self.column(&visible, column)
        });
        let outputs = outputs.collect();
        let limit = self.dice.one_in(7).then(|| 1 + self.dice.roll(3));
        Query { from, condition, outputs, is_distinct: !is_grouped && self.dice.one_in(6), is_grouped, limit }
    }

    fn item(&mut self, depth: usize, visible: &mut Visible) -> Item {
        match self.dice.roll(if depth > 0 { 8 } else { 4 }) {
            4 | 5 => {
                let mut left_visible = Vec::new();
                let left = self.item(depth - 1, &mut left_visible);
                let right = self.item(depth - 1, &mut left_visible);
                let kind = [Join::Inner, Join::Left, Join::Left, Join::Right, Join::Full][self.dice.roll(5)];
                let on = self.condition(&left_visible, &left_visible, 0, 1);
                visible.extend(left_visible);
                Item::Join { kind, left: Box::new(left), right: Box::new(right), on }
            }
            6 => {
                let query = self.query(&Vec::new(), depth - 1, 2);
                let alias = self.alias();
                visible.push((alias, None));
                Item::Query { query: Box::new(query), alias }
            }
            _ => {
                let (table, alias) = (self.dice.roll(3), self.alias());
                visible.push((alias, Some(table)));
                Item::Table { table, alias }
            }
        }
    }

    fn column(&mut self, visible: &Visible, column: usize) -> Operand {
        let (alias, is_table) = visible[self.dice.roll(visible.len())];
        Operand::Column { alias, column, is_table }
    }

    /// Mostly what a route can use: keys equal to numbers and to each other.
    fn condition(&mut self, own: &Visible, all: &Visible, depth: usize, nesting: usize) -> Condition {
        let both = |maker: &mut Self| {
            let mut part = || Box::new(maker.condition(own, all, depth, nesting - 1));
            (part(), part())
        };
        match self.dice.roll(if nesting > 0 { 16 } else { 8 }) {
            0 | 1 => Condition::Compare("=", self.column(own, 0), Operand::Number(self.dice.roll(5) as i64)),
            2 | 3 => {
                let other = self.column(all, 0);
                Condition::Compare("=", self.column(own, 0), other)
            }
            4 => {
                let operator = ["<", ">=", "=", "<>"][self.dice.roll(4)];
                let column = self.dice.roll(2);
                Condition::Compare(operator, self.column(all, column), Operand::Number(self.dice.roll(5) as i64))
            }
            5 => Condition::Compare("=", self.column(own, 1), self.column(all, 1)),
            6 => {
                let column = self.dice.roll(2);
                Condition::IsNull(self.column(own, column))
            }
            7 if self.dice.one_in(2) => Condition::True,
            7 => {
                let key = self.column(own, 0);
                let mut equal = || Box::new(Condition::Compare("=", key, Operand::Number(self.dice.roll(5) as i64)));
                Condition::Or(equal(), equal())
            }
            8..=11 => {
                let (a, b) = both(self);
                Condition::And(a, b)
            }
            12 => {
                let (a, b) = both(self);
                Condition::Or(a, b)
            }
            13 => Condition::Not(Box::new(self.condition(own, all, depth, nesting - 1))),
            14 if depth > 0 => Condition::Exists(Box::new(self.query(all, depth - 1, 1))),
            15 if depth > 0 => {
                let tested = self.column(own, 0);
                Condition::In(tested, Box::new(self.query(all, depth - 1, 1)))
            }
            _ => Condition::Compare("=", self.column(own, 0), Operand::Number(self.dice.roll(5) as i64)),
        }
    }
}

// As SQL.

fn operand(operand: Operand) -> String {
    match operand {
        Operand::Number(number) => number.to_string(),
        Operand::Column { alias, column, is_table } => {
            let name = is_table.map_or(["k", "x"][column], |table| TABLES[table].1[column]);
            format!("t{alias}.{name}")
        }
    }
}

fn condition(written: &Condition) -> String {
    match written {
        Condition::Compare(operator, a, b) => format!("{} {operator} {}", operand(*a), operand(*b)),
        Condition::And(a, b) => format!("({} AND {})", condition(a), condition(b)),
        Condition::Or(a, b) => format!("({} OR {})", condition(a), condition(b)),
        Condition::Not(a) => format!("NOT ({})", condition(a)),
        Condition::Exists(query) => format!("EXISTS ({})", sql(query)),
        Condition::In(a, query) => format!("{} IN ({})", operand(*a), sql(query)),
        Condition::IsNull(a) => format!("{} IS NULL", operand(*a)),
        Condition::True => "true".to_owned(),
    }
}

fn item(written: &Item) -> String {
    match written {
        Item::Table { table, alias } => format!("{} AS t{alias}", TABLES[*table].0),
        Item::Query { query, alias } => format!("({}) AS t{alias}", sql(query)),
        Item::Join { kind, left, right, on } => {
            let kind = format!("{kind:?}").to_uppercase();
            format!("({} {kind} JOIN {} ON {})", item(left), item(right), condition(on))
        }
    }
}

fn sql(query: &Query) -> String {
    let mut text = String::from(if query.is_distinct { "SELECT DISTINCT " } else { "SELECT " });
    for (at, output) in query.outputs.iter().enumerate() {
        write!(text, "{}{} AS {}", if at > 0 { ", " } else { "" }, operand(*output), ["k", "x"][at]).unwrap();
    }
    if query.is_grouped {
        text.push_str(", count(*) AS x");
    }
    let from: Vec<String> = query.from.iter().map(item).collect();
    write!(text, " FROM {} WHERE {}", from.join(", "), condition(&query.condition)).unwrap();
    if query.is_grouped {
        write!(text, " GROUP BY {}", operand(query.outputs[0])).unwrap();
    }
    if let Some(limit) = query.limit {
        let order = if query.is_grouped || query.outputs.len() > 1 { "1, 2" } else { "1" };
        write!(text, " ORDER BY {order} LIMIT {limit}").unwrap();
    }
    text
}

// By nested loops.

fn value(operand: Operand, names: &Names) -> Option<i64> {
    match operand {
        Operand::Number(number) => Some(number),
        Operand::Column { alias, column, .. } => names[&alias][column],
    }
}

fn holds(condition: &Condition, names: &Names, database: &Database) -> Option<bool> {
    match condition {
        Condition::Compare(operator, a, b) => {
            let (a, b) = (value(*a, names)?, value(*b, names)?);
            Some(match *operator {
                "=" => a == b,
                "<>" => a != b,
                "<" => a < b,
                _ => a >= b,
            })
        }
        Condition::And(a, b) => match (holds(a, names, database), holds(b, names, database)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Condition::Or(a, b) => match (holds(a, names, database), holds(b, names, database)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Condition::Not(a) => holds(a, names, database).map(|truth| !truth),
        Condition::Exists(query) => Some(!rows(query, names, database).is_empty()),
        Condition::In(a, query) => {
            let found = rows(query, names, database);
            let tested = value(*a, names);
            if found.is_empty() {
                return Some(false);
            }
            let tested = tested?;
            match found.iter().any(|row| row[0] == Some(tested)) {
                true => Some(true),
                false => found.iter().all(|row| row[0].is_some()).then_some(false),
            }
        }
        Condition::IsNull(a) => Some(value(*a, names).is_none()),
        Condition::True => Some(true),
    }
}

fn aliases(item: &Item, into: &mut Names) {
    match item {
        Item::Table { alias, .. } | Item::Query { alias, .. } => {
            into.insert(*alias, [None, None]);
        }
        Item::Join { left, right, .. } => {
            aliases(left, into);
            aliases(right, into);
        }
    }
}

fn with(names: &Names, more: &Names) -> Names {
    names.iter().chain(more).map(|(alias, row)| (*alias, *row)).collect()
}

/// What an item makes: the rows of its aliases.
fn combinations(item: &Item, names: &Names, database: &Database) -> Vec<Names> {
    match item {
        Item::Table { table, alias } => database[*table].iter().map(|row| Names::from([(*alias, *row)])).collect(),
        Item::Query { query, alias } => {
            let found = rows(query, &Names::new(), database);
            found.into_iter().map(|row| Names::from([(*alias, row)])).collect()
        }
        Item::Join { kind, left, right, on } => {
            let (lefts, rights) = (combinations(left, names, database), combinations(right, names, database));
            let (mut no_left, mut no_right) = (Names::new(), Names::new());
            aliases(left, &mut no_left);
            aliases(right, &mut no_right);
            let mut made = Vec::new();
            let mut is_matched = vec![false; rights.len()];
            for left in &lefts {
                let before = made.len();
                for (right, is_matched) in rights.iter().zip(&mut is_matched) {
                    let both = with(left, right);
                    if holds(on, &with(names, &both), database) == Some(true) {
                        made.push(both);
                        *is_matched = true;
                    }
                }
                if made.len() == before && matches!(kind, Join::Left | Join::Full) {
                    made.push(with(left, &no_right));
                }
            }
            if matches!(kind, Join::Right | Join::Full) {
                let missed = rights.iter().zip(&is_matched).filter(|(_, is_matched)| !**is_matched);
                made.extend(missed.map(|(right, _)| with(&no_left, right)));
            }
            made
        }
    }
}

/// A query's rows, in their order.
fn rows(query: &Query, outer: &Names, database: &Database) -> Vec<Row> {
    let mut combined = vec![Names::new()];
    for part in &query.from {
        let more = combinations(part, outer, database);
        combined = combined.iter().flat_map(|names| more.iter().map(|more| with(names, more))).collect();
    }
    let mut made: Vec<Row> = Vec::new();
    for names in combined {
        let names = with(outer, &names);
        if holds(&query.condition, &names, database) == Some(true) {
            let output = |at: usize| query.outputs.get(at).and_then(|output| value(*output, &names));
            made.push([output(0), output(1)]);
        }
    }
    if query.is_grouped {
        let mut groups: BTreeMap<Option<i64>, i64> = BTreeMap::new();
        made.iter().for_each(|row| *groups.entry(row[0]).or_default() += 1);
        made = groups.into_iter().map(|(key, count)| [key, Some(count)]).collect();
    }
    made.sort_by_key(nulls_last);
    if query.is_distinct {
        made.dedup();
    }
    made.truncate(query.limit.unwrap_or(usize::MAX));
    made
}

/// The order of ORDER BY.
fn nulls_last(row: &Row) -> [(bool, Option<i64>); 2] {
    row.map(|value| (value.is_none(), value))
}

/// The rows of a table that satisfy a query's condition together with some of its other rows.
fn touched(query: &Query, alias: usize, database: &Database) -> BTreeSet<Row> {
    let mut combined = vec![Names::new()];
    for part in &query.from {
        let more = combinations(part, &Names::new(), database);
        combined = combined.iter().flat_map(|names| more.iter().map(|more| with(names, more))).collect();
    }
    let is_touched = |names: &&Names| holds(&query.condition, names, database) == Some(true);
    combined.iter().filter(is_touched).map(|names| names[&alias]).collect()
}

#[test]
fn the_shards_of_a_write_change_the_rows_that_it_concerns() {
    let world = World::new();
    let (mut one, mut several) = (0, 0);
    for seed in 0..QUERIES {
        let mut maker = Maker { dice: Dice((seed + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)), aliases: 0 };
        let query = maker.query(&Vec::new(), 2, 2);
        let Item::Table { table, alias } = query.from[0] else { continue };
        let sources: Vec<String> = query.from[1..].iter().map(item).collect();
        let sources = sources.join(", ");
        let (name, condition) = (TABLES[table].0, condition(&query.condition));
        let text = if maker.dice.one_in(2) {
            let from = if sources.is_empty() { String::new() } else { format!(" FROM {sources}") };
            format!("UPDATE {name} AS t{alias} SET {} = 1{from} WHERE {condition}", TABLES[table].1[1])
        } else {
            let using = if sources.is_empty() { String::new() } else { format!(" USING {sources}") };
            format!("DELETE FROM {name} AS t{alias}{using} WHERE {condition}")
        };
        let database = maker.database();
        let route = world.route(&text).unwrap_or_else(|error| panic!("{text}: {error}")).unwrap();
        let forward = match decided(&route, &Request::default()) {
            Ok(Decision::Forward(forward)) => forward,
            Ok(Decision::Engine { .. }) => panic!("a write is left to the engine: {text}"),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::FeatureNotSupported, "{text}");
                continue;
            }
        };
        let shards: Vec<i64> = forward.statements.iter().map(|one| i64::from(one.shard.0)).collect();
        if shards.len() == 1 {
            one += 1
        } else {
            several += 1
        }
        let found: BTreeSet<Row> =
            shards.iter().flat_map(|shard| touched(&query, alias, &database_of(&database, *shard))).collect();
        assert_eq!(found, touched(&query, alias, &database), "seed {seed}, shards {shards:?} of {database:?}\n{text}");
    }
    assert!(one > 500 && several > 500, "vacuous: {one} {several}");
}

/// The rows of one shard.
fn database_of(database: &Database, shard: i64) -> Database {
    database.each_ref().map(|rows| rows.iter().filter(|row| row[0].unwrap() % SHARDS == shard).copied().collect())
}

#[test]
fn the_shards_of_a_route_answer_as_all_rows_together_do() {
    let world = World::new();
    let (mut one, mut several, mut pruned, mut added, mut folded) = (0, 0, 0, 0, 0);
    for seed in 0..QUERIES {
        let mut maker = Maker { dice: Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)), aliases: 0 };
        let query = maker.query(&Vec::new(), 2, 2);
        let database = maker.database();
        let text = sql(&query);
        let Some(route) = world.route(&text).unwrap_or_else(|error| panic!("{text}: {error}")) else { continue };
        let Decision::Forward(forward) = decided(&route, &Request::default()).unwrap() else { continue };
        let shards: Vec<i64> = forward.statements.iter().map(|one| i64::from(one.shard.0)).collect();
        match shards.len() {
            1 => one += 1,
            2 => pruned += 1,
            _ => several += 1,
        }
        let expected = rows(&query, &Names::new(), &database);
        let mut found: Vec<Row> = Vec::new();
        // Each makes one row of what it has of a group: they are counted off once they are added, or by an order of the groups.
        let is_added = matches!(&forward.merge, Merge::Rows(gathering) if !gathering.merge.aggregates.is_empty());
        let is_cut = !forward.statements[0].text.contains("LIMIT ALL");
        let asked = Query { limit: query.limit.filter(|_| is_cut), ..query.clone() };
        for shard in &shards {
            found.extend(rows(&asked, &Names::new(), &database_of(&database, *shard)));
        }
        if is_added && query.is_distinct {
            folded += 1;
            found = found.into_iter().collect::<BTreeSet<Row>>().into_iter().collect();
        } else if is_added {
            added += 1;
            let mut groups: BTreeMap<Option<i64>, i64> = BTreeMap::new();
            found.iter().for_each(|row| *groups.entry(row[0]).or_default() += row[1].unwrap());
            found = groups.into_iter().map(|(key, count)| [key, Some(count)]).collect();
        }
        found.sort_by_key(nulls_last);
        found.truncate(query.limit.unwrap_or(usize::MAX));
        assert_eq!(found, expected, "seed {seed}, shards {shards:?} of {database:?}\n{text}");
    }
    let all = [one, several, pruned, added, folded];
    assert!(one > 800 && several > 800 && pruned > 30 && added > 30 && folded > 5, "vacuous: {all:?}");
}
