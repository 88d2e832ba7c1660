//! Random queries: joins of all kinds, subqueries, sets, groups and windows, within one another, with parameters or constants.
//!
//! Whatever an order leaves open is equal in all that is read of it, so that one answer is right. All types fit.

use crate::random::Random;

/// What a column or an expression is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Text,
    Date,
    Bool,
}

use Type::{Bool, Date, Int, Text};

impl Type {
    fn name(self) -> &'static str {
        match self {
            Int => "int",
            Text => "text",
            Date => "date",
            Bool => "bool",
        }
    }

    /// Values that meet those of the tables, and some that do not; as SQL, and as a parameter.
    fn values(self) -> &'static [(&'static str, Option<&'static str>)] {
        match self {
            Int => &[
                ("0", Some("0")),
                ("1", Some("1")),
                ("2", Some("2")),
                ("3", Some("3")),
                ("5", Some("5")),
                ("10", Some("10")),
                ("-1", Some("-1")),
                ("NULL::int", None),
            ],
            Text => {
                &[("'a'", Some("a")), ("'b'", Some("b")), ("''", Some("")), ("'Ab'", Some("Ab")), ("NULL::text", None)]
            }
            Date => &[
                ("DATE '2024-01-01'", Some("2024-01-01")),
                ("DATE '2024-02-01'", Some("2024-02-01")),
                ("NULL::date", None),
            ],
            Bool => &[("true", Some("t")), ("false", Some("f")), ("NULL::bool", None)],
        }
    }
}

/// A table: its columns, of which the first is the key, and its rows.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    columns: &'static [(&'static str, Type)],
    /// The keys are multiples of this.
    step: usize,
    rows: usize,
}

/// All of them.
pub(crate) const TABLES: &[Table; 3] = &[
    Table { name: "ta", columns: &[("id", Int), ("x", Int), ("y", Int), ("s", Text)], step: 1, rows: 14 },
    Table { name: "tb", columns: &[("id", Int), ("x", Int), ("s", Text), ("d", Date)], step: 2, rows: 11 },
    Table { name: "tc", columns: &[("k", Int), ("y", Int), ("s", Text), ("o", Bool)], step: 3, rows: 9 },
];

impl Table {
    pub(crate) fn key(&self) -> &'static str {
        self.columns[0].0
    }

    /// What makes it.
    pub(crate) fn definition(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|(name, kind)| format!("{name} {}", kind.name())).collect();
        format!("CREATE TABLE {} ({}, PRIMARY KEY ({}))", self.name, columns.join(", "), self.key())
    }

    /// All rows of it, which are the same each time.
    pub(crate) fn inserts(&self) -> String {
        let mut random = Random::from_seed(9);
        let rows = (0..self.rows).map(|row| {
            let cells = self.columns[1..].iter().map(|(_, kind)| {
                let values = kind.values();
                // NULL, which is the last one, is there once in five rows.
                let count = values.len() as u64;
                let at = if random.one_in(5) { count - 1 } else { random.below((count - 1).min(4)) };
                values[at as usize].0
            });
            format!("({}, {})", row * self.step, cells.collect::<Vec<_>>().join(", "))
        });
        format!("INSERT INTO {} VALUES {}", self.name, rows.collect::<Vec<_>>().join(", "))
    }
}

/// A column that can be named.
#[derive(Clone)]
struct Column {
    name: String,
    kind: Type,
}

type Scope = Vec<Column>;

fn named(scope: &[Column], kind: Type) -> Vec<&str> {
    scope.iter().filter(|column| column.kind == kind).map(|column| column.name.as_str()).collect()
}

/// The columns that a subquery gives under an alias.
fn aliased(alias: &str, types: &[Type]) -> Scope {
    types.iter().enumerate().map(|(at, &kind)| Column { name: format!("{alias}.c{at}"), kind }).collect()
}

/// A query with the parameters that it has been given in the end, numbered in a row, and their types.
fn in_a_row(mut sql: String, all: Vec<Type>) -> (String, Vec<Type>) {
    let mut parameters = Vec::new();
    for (at, kind) in all.into_iter().enumerate() {
        let given = format!("${}::", at + 1);
        if sql.contains(&given) {
            parameters.push(kind);
            sql = sql.replace(&given, &format!("${}::", parameters.len()));
        }
    }
    (sql, parameters)
}

/// A query of a WITH, by its name.
struct Named {
    name: String,
    types: Vec<Type>,
}

/// A query, and the values of its parameters: as many sets as it is to be run with.
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) values: Vec<Vec<Option<&'static str>>>,
}

pub(crate) struct Grammar {
    random: Random,
    /// How many aliases there are.
    aliases: usize,
    /// The types of the parameters so far, of which some may be in no text; None where constants are written out.
    parameters: Option<Vec<Type>>,
    /// What the WITH gives.
    with: Vec<Named>,
}

impl Grammar {
    pub(crate) fn of(random: Random) -> Grammar {
        Grammar { random, aliases: 0, parameters: None, with: Vec::new() }
    }

    /// A query, `sets` of values for it where it has parameters.
    pub(crate) fn query(&mut self, has_parameters: bool, sets: usize) -> Query {
        self.aliases = 0;
        self.parameters = has_parameters.then(Vec::new);
        self.with.clear();
        let mut parts = Vec::new();
        if self.percent(35) {
            for at in 0..=self.random.below(2) {
                let (sql, types) = self.select(1);
                let name = format!("w{at}");
                let kept = self.pick(&["", "", "MATERIALIZED ", "NOT MATERIALIZED "]);
                parts.push(format!("{name} AS {kept}({sql})"));
                self.with.push(Named { name, types });
            }
        }
        let (sql, _) = self.select(2);
        let with = if parts.is_empty() { String::new() } else { format!("WITH {} ", parts.join(", ")) };
        let (sql, parameters) = in_a_row(with + &sql, self.parameters.take().unwrap_or_default());
        let sets = if has_parameters { sets } else { 1 };
        let values =
            (0..sets).map(|_| parameters.iter().map(|kind| self.pick(kind.values()).1).collect::<Vec<_>>()).collect();
        Query { sql, values }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    /// A table under an alias, and its columns.
    fn table(&mut self) -> (String, Scope) {
        let (table, alias) = (&TABLES[self.random.below(TABLES.len() as u64) as usize], self.alias());
        let column = |&(name, kind): &(&str, Type)| Column { name: format!("{alias}.{name}"), kind };
        (format!("{} {alias}", table.name), table.columns.iter().map(column).collect())
    }

    fn constant(&mut self, kind: Type) -> String {
        let is_parameter = self.percent(60);
        match &mut self.parameters {
            Some(parameters) if is_parameter => {
                parameters.push(kind);
                format!("${}::{}", parameters.len(), kind.name())
            }
            _ => self.pick(kind.values()).0.to_owned(),
        }
    }

    /// A column, or a constant where there is none, and now and then where there is.
    fn column(&mut self, scope: &[Column], kind: Type) -> String {
        let names = named(scope, kind);
        if names.is_empty() || self.percent(15) { self.constant(kind) } else { self.pick(&names).to_owned() }
    }

    fn expression(&mut self, scope: &[Column], kind: Type, depth: u32) -> String {
        if depth == 0 || self.percent(50) {
            return self.column(scope, kind);
        }
        let column = self.column(scope, kind);
        match (kind, self.random.below(7)) {
            (Int, 0) => {
                let (left, right) = (self.expression(scope, Int, depth - 1), self.expression(scope, Int, depth - 1));
                format!("({left} + {right})")
            }
            (Int, 1) => format!("({column} * 2)"),
            (Int, 2) => format!("length({})", self.column(scope, Text)),
            (Int, 3) => {
                let (condition, other) = (self.condition(scope, 0, false), self.column(scope, Int));
                format!("CASE WHEN {condition} THEN {column} ELSE {other} END")
            }
            (Int, 4 | 5) => self.scalar(scope),
            (Text, 0 | 1) => format!("({column} || {})", self.column(scope, Text)),
            (Text, 2 | 3) => format!("upper({column})"),
            (Int | Text, _) => format!("coalesce({column}, {})", self.constant(kind)),
            (Date, _) => format!("({column} + 1)"),
            (Bool, _) => self.condition(scope, depth - 1, true),
        }
    }

    /// A subquery of one value.
    fn scalar(&mut self, outer: &[Column]) -> String {
        let (table, mut scope) = self.table();
        let (function, column) = (self.pick(&["max", "min", "count", "sum"]), self.column(&scope, Int));
        if self.percent(70) {
            scope.extend_from_slice(outer);
        }
        format!("(SELECT {function}({column})::int FROM {table} WHERE {})", self.condition(&scope, 1, false))
    }

    fn condition(&mut self, scope: &[Column], depth: u32, has_subqueries: bool) -> String {
        if depth > 0 {
            let (chance, beneath) = (self.random.below(100), depth - 1);
            match chance {
                0..30 => {
                    let left = self.condition(scope, beneath, has_subqueries);
                    let right = self.condition(scope, beneath, has_subqueries);
                    let operator = if chance < 15 { "AND" } else { "OR" };
                    return format!("({left} {operator} {right})");
                }
                30..36 => return format!("(NOT {})", self.condition(scope, beneath, has_subqueries)),
                36..62 if has_subqueries => return self.subquery_condition(scope),
                _ => {}
            }
        }
        let kind = self.pick(&[Int, Int, Int, Text, Date]);
        let (left, right) = (self.column(scope, kind), self.column(scope, kind));
        let not = self.pick(&["", "NOT "]);
        match self.random.below(20) {
            0..2 => format!("{left} IS {not}NULL"),
            2..4 => format!("{left} {not}IN ({}, {right})", self.constant(kind)),
            4..6 => format!("{left} IS {not}DISTINCT FROM {right}"),
            6 => format!("{left} {not}BETWEEN {} AND {right}", self.constant(kind)),
            7 => self.column(scope, Bool),
            _ => format!("{left} {} {right}", self.pick(&["=", "=", "<", ">", "<>", "<="])),
        }
    }

    fn subquery_condition(&mut self, outer: &[Column]) -> String {
        let (table, inner) = self.table();
        let mut scope = inner.clone();
        if self.percent(70) {
            scope.extend_from_slice(outer);
        }
        let is_nested = self.percent(20);
        let condition = self.condition(&scope, 1, is_nested);
        let (left, right) = (self.column(outer, Int), self.column(&inner, Int));
        let not = self.pick(&["", "NOT "]);
        match self.random.below(10) {
            0..4 => format!("{not}EXISTS (SELECT 1 FROM {table} WHERE {condition})"),
            4..7 => format!("{left} {not}IN (SELECT {right} FROM {table} WHERE {condition})"),
            7 => format!("{left} {not}IN (SELECT {right} FROM {table})"),
            8 => {
                let (operator, of) = (self.pick(&["=", "<", ">=", "<>"]), self.pick(&["ANY", "ALL"]));
                format!("{left} {operator} {of} (SELECT {right} FROM {table} WHERE {condition})")
            }
            _ => {
                let (operator, function) = (self.pick(&["=", "<", ">"]), self.pick(&["max", "min", "count"]));
                format!("{left} {operator} (SELECT {function}({right}) FROM {table} WHERE {condition})")
            }
        }
    }

    /// What stands alone in a FROM.
    fn relation(&mut self, depth: u32) -> (String, Scope) {
        let chance = self.random.below(100);
        if chance < 25 && !self.with.is_empty() {
            let (alias, at) = (self.alias(), self.random.below(self.with.len() as u64) as usize);
            let Named { name, types } = &self.with[at];
            return (format!("{name} {alias}"), aliased(&alias, types));
        }
        if chance < 45 && depth > 0 {
            let (sql, types) = self.select(depth - 1);
            let alias = self.alias();
            return (format!("({sql}) {alias}"), aliased(&alias, &types));
        }
        if chance < 50 {
            let alias = self.alias();
            let scope = aliased(&alias, &[Int, Text]);
            return (format!("(VALUES (1, 'a'), (2, 'b'), (NULL, 'c')) {alias} (c0, c1)"), scope);
        }
        self.table()
    }

    /// A FROM of one to three.
    fn from(&mut self, depth: u32) -> (String, Scope) {
        let (mut sql, mut scope) = self.relation(depth);
        for _ in 0..self.pick(&[0, 0, 1, 1, 2]) {
            if self.percent(12) {
                let (query, alias) = (self.lateral(&scope), self.alias());
                let (join, on) = self.pick(&[("CROSS JOIN", ""), ("LEFT JOIN", " ON true")]);
                sql.push_str(&format!(" {join} LATERAL ({query}) {alias}{on}"));
                scope.extend(aliased(&alias, &[Int, Int]));
                continue;
            }
            let (other, columns) = self.relation(depth.saturating_sub(1));
            let join = self.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
            let (left, right) = (named(&scope, Int), named(&columns, Int));
            let mut on = if left.is_empty() || right.is_empty() {
                "true".to_owned()
            } else {
                format!("{} = {}", self.pick(&left), self.pick(&right))
            };
            scope.extend(columns);
            // PostgreSQL has no FULL JOIN by other conditions.
            if join != "FULL JOIN" && self.percent(35) {
                on = format!("{on} AND {}", self.condition(&scope, 1, false));
            }
            let on = if join == "CROSS JOIN" { String::new() } else { format!(" ON {on}") };
            sql.push_str(&format!(" {join} {other}{on}"));
        }
        (sql, scope)
    }

    /// A query of two integers that may name the columns of `outer`.
    fn lateral(&mut self, outer: &[Column]) -> String {
        let (table, inner) = self.table();
        let scope: Scope = inner.iter().chain(outer).cloned().collect();
        let (condition, column) = (self.condition(&scope, 1, false), self.column(&inner, Int));
        if self.percent(50) {
            return format!("SELECT {column} AS c0, count(*)::int AS c1 FROM {table} WHERE {condition} GROUP BY 1");
        }
        let key = &inner[0].name;
        let order = inner[self.random.below(inner.len() as u64) as usize].name.clone();
        let limit = 1 + self.random.below(3);
        format!(
            "SELECT {key} AS c0, {column} AS c1 FROM {table} WHERE {condition} ORDER BY {order}, {key} LIMIT {limit}"
        )
    }

    /// A query, so many deep at most, with the types of its columns `c0` and so on.
    fn select(&mut self, depth: u32) -> (String, Vec<Type>) {
        if depth > 0 && self.percent(14) {
            let types: Vec<Type> = (0..=self.random.below(2)).map(|_| self.pick(&[Int, Text])).collect();
            let (left, right) = (self.select_of(depth - 1, &types), self.select_of(depth - 1, &types));
            let operator = self.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
            return (format!("({left}) {operator} ({right})"), types);
        }
        let types: Vec<Type> = (0..=self.random.below(3)).map(|_| self.pick(&[Int, Int, Text, Date])).collect();
        (self.select_of(depth, &types), types)
    }

    fn select_of(&mut self, depth: u32, types: &[Type]) -> String {
        let (from, scope) = self.from(depth);
        let condition =
            if self.percent(55) { format!(" WHERE {}", self.condition(&scope, 2, true)) } else { String::new() };
        match self.random.below(10) {
            0..3 => self.grouped(types, &scope, &format!("{from}{condition}")),
            3..5 => self.windowed(types, &scope, &format!("{from}{condition}")),
            _ => self.plain(types, &scope, &format!("{from}{condition}")),
        }
    }

    fn plain(&mut self, types: &[Type], scope: &[Column], from: &str) -> String {
        let cells = types.iter().enumerate().map(|(at, &kind)| format!("{} AS c{at}", self.expression(scope, kind, 1)));
        let cells = cells.collect::<Vec<_>>().join(", ");
        match self.random.below(20) {
            0..4 => format!("SELECT DISTINCT {cells} FROM {from}"),
            4..7 => {
                let all: Vec<&str> = scope.iter().map(|column| column.name.as_str()).collect();
                format!("SELECT DISTINCT ON ({}) {cells} FROM {from} ORDER BY {}", all[0], all.join(", "))
            }
            7..10 => {
                let places: Vec<String> = (1..=types.len()).map(|place| place.to_string()).collect();
                let (limit, offset) = (self.random.below(7), self.random.below(4));
                format!("SELECT {cells} FROM {from} ORDER BY {} LIMIT {limit} OFFSET {offset}", places.join(", "))
            }
            _ => format!("SELECT {cells} FROM {from}"),
        }
    }

    fn aggregate(&mut self, scope: &[Column], kind: Type) -> String {
        let column = self.column(scope, kind);
        let extreme = self.pick(&["max", "min"]);
        match (kind, self.random.below(7)) {
            (Int, 0) => "count(*)::int".to_owned(),
            (Int, 1) => format!("count({column})::int"),
            (Int, 2) => format!("count(DISTINCT {column})::int"),
            (Int, 3) => format!("sum({column})::int"),
            (Int, 4) => format!("(count(*) FILTER (WHERE {}))::int", self.condition(scope, 0, false)),
            (Text, 0..3) => format!("string_agg({column}, ',' ORDER BY {column})"),
            (Bool, _) => format!("bool_or({column})"),
            _ => format!("{extreme}({column})"),
        }
    }

    /// Some columns are keys, the others aggregates.
    fn grouped(&mut self, types: &[Type], scope: &[Column], from: &str) -> String {
        let (mut cells, mut keys, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (at, &kind) in types.iter().enumerate() {
            let cell = if self.percent(60) {
                let key = self.column(scope, kind);
                keys.push(key.clone());
                places.push((at + 1).to_string());
                key
            } else {
                self.aggregate(scope, kind)
            };
            cells.push(format!("{cell} AS c{at}"));
        }
        // Sets are of columns that differ: what a constant or a column twice is in them is another question.
        let are_columns = keys.iter().all(|key| scope.iter().any(|column| column.name == *key))
            && keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key));
        let groups = match self.random.below(10) {
            _ if keys.is_empty() => String::new(),
            0..2 if are_columns => format!(" GROUP BY {} ({})", self.pick(&["ROLLUP", "CUBE"]), keys.join(", ")),
            2 if are_columns => format!(" GROUP BY GROUPING SETS (({}), ())", keys.join(", ")),
            _ => format!(" GROUP BY {}", places.join(", ")),
        };
        let having = if self.percent(25) {
            format!(" HAVING count(*) {} {}", self.pick(&[">", "<", ">="]), self.random.below(4))
        } else {
            String::new()
        };
        format!("SELECT {} FROM {from}{groups}{having}", cells.join(", "))
    }

    /// Some integers are those of a window.
    fn windowed(&mut self, types: &[Type], scope: &[Column], from: &str) -> String {
        let mut cells = Vec::new();
        // Of rows that are equal in all columns, two windows may each put another one first: which values of the two then
        // meet in a row is nobody's to say.
        let mut has_places = false;
        for (at, &kind) in types.iter().enumerate() {
            let cell = if kind == Int && self.percent(70) {
                self.window(scope, &mut has_places)
            } else {
                self.expression(scope, kind, 1)
            };
            cells.push(format!("{cell} AS c{at}"));
        }
        format!("SELECT {} FROM {from}", cells.join(", "))
    }

    /// A value of a window: of rows that come together or, where there is none yet of them, of a row's place.
    fn window(&mut self, scope: &[Column], has_places: &mut bool) -> String {
        const FRAMES: &[&str] = &[
            "",
            "",
            " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
            " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ];
        let column = self.column(scope, Int);
        let function = self.pick(&[
            "sum(#)",
            "count(#)",
            "max(#)",
            "min(#)",
            "first_value(#)",
            "last_value(#)",
            "rank()",
            "dense_rank()",
            "lag(#)",
            "lead(#, 2, 7)",
            "ntile(2)",
        ]);
        // Functions of places have no frame.
        let is_of_frame = ["sum", "count", "max", "min", "first", "last"].iter().any(|name| function.starts_with(name));
        let frame = if is_of_frame { self.pick(FRAMES) } else { "" };
        // Rows that come together are the same to these, however they are ordered.
        let takes_peers = !frame.starts_with(" ROWS")
            && ["sum", "count", "max", "min", "rank", "dense"].iter().any(|name| function.starts_with(name));
        if !takes_peers && std::mem::replace(has_places, true) {
            return self.window(scope, has_places);
        }
        let mut left: Vec<&str> = scope.iter().map(|column| column.name.as_str()).collect();
        let by = if self.percent(60) { format!("PARTITION BY {} ", self.pick(&left)) } else { String::new() };
        let mut order = Vec::new();
        while !left.is_empty() && (order.is_empty() || !takes_peers || self.percent(70)) {
            let at = self.random.below(left.len() as u64) as usize;
            order.push(format!("{}{}", left.swap_remove(at), self.pick(&["", " DESC", " NULLS FIRST"])));
        }
        let function = function.replace('#', &column);
        format!("({function} OVER ({by}ORDER BY {}{frame}))::int", order.join(", "))
    }
}
