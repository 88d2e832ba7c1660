//! Random expressions and conditions of the grammar.

use super::{Grammar, TABLES};

/// What an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
    Text,
    Date,
    Timestamp,
    Timestamptz,
    Bool,
    Uuid,
}

impl Type {
    /// Those that results have.
    pub(super) const ALL: &[Type] = &[
        Type::Int8,
        Type::Int4,
        Type::Numeric,
        Type::Text,
        Type::Date,
        Type::Timestamptz,
        Type::Timestamp,
        Type::Bool,
        Type::Float8,
        Type::Int2,
        Type::Uuid,
    ];

    /// Those that are compared with `<`.
    const ORDERED: &[Type] = &[
        Type::Int8,
        Type::Int4,
        Type::Numeric,
        Type::Text,
        Type::Date,
        Type::Timestamptz,
        Type::Timestamp,
        Type::Float8,
        Type::Uuid,
    ];

    pub(super) fn is_integer(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8)
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Type::Float4 | Type::Float8)
    }

    pub(super) fn is_number(self) -> bool {
        self.is_integer() || self.is_float() || self == Type::Numeric
    }
}

/// A column that an expression may name.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
}

/// The columns that an expression may name.
pub(super) type Scope = Vec<Column>;

/// Texts that collations, cases and widths tell apart.
const WORDS: &[&str] = &[
    "'a'",
    "'B'",
    "'b'",
    "'Zebra'",
    "'äpfel'",
    "'apfel'",
    "'éclair'",
    "'_x'",
    "'  '",
    "''",
    "'a b'",
    "'ab'",
    "'10'",
    "'9'",
    "'ñ'",
    "'Straße'",
    "'strasse'",
    "'O''Hara'",
    "'日本'",
];

impl Grammar {
    /// A value as it is written.
    pub(super) fn constant(&mut self, kind: Type) -> String {
        let (month, day, hour) = (self.below(3) + 1, self.below(28) + 1, self.below(24));
        let eighths = self.below(240) as f64 / 8.0 - 10.0;
        match kind {
            Type::Int2 | Type::Int4 | Type::Int8 => (self.below(30) as i64 - 5).to_string(),
            Type::Numeric => match self.below(3) {
                0 => format!("{}.{:03}", self.below(80) as i64 - 20, self.below(1000)),
                1 => (self.below(39) as i64 - 9).to_string(),
                _ => format!("{}.5", self.below(10)),
            },
            // Exact in any order of addition.
            Type::Float4 => format!("'{eighths}'::real"),
            Type::Float8 => format!("'{eighths}'::float8"),
            Type::Text => self.pick(WORDS).to_owned(),
            Type::Date => format!("date '2024-{month:02}-{day:02}'"),
            Type::Timestamp => format!("timestamp '2024-{month:02}-{day:02} {hour:02}:15:00.5'"),
            Type::Timestamptz => {
                format!("timestamptz '2024-{month:02}-{day:02} {hour:02}:30:00+0{}'", self.below(6))
            }
            Type::Bool => self.pick(&["true", "false"]).to_owned(),
            Type::Uuid => format!("uuid '00000000-0000-0000-0000-0000000000{}'", self.below(90) + 10),
        }
    }

    /// A column that fits.
    pub(super) fn column(&mut self, scope: &[Column], fits: impl Fn(Type) -> bool) -> Option<Column> {
        let fitting: Vec<&Column> = scope.iter().filter(|column| fits(column.kind)).collect();
        if fitting.is_empty() {
            return None;
        }
        Some(fitting[self.below(fitting.len() as u64) as usize].clone())
    }

    /// A column or a constant.
    fn leaf(&mut self, scope: &[Column], kind: Type) -> String {
        let column = self.column(scope, |found| found == kind);
        match column {
            Some(column) if self.percent(80) => column.name,
            _ => self.constant(kind),
        }
    }

    /// An expression of a type, `depth` levels down.
    pub(super) fn expression(&mut self, scope: &[Column], kind: Type, depth: u32) -> String {
        if depth > 1 || self.percent(40) {
            return self.leaf(scope, kind);
        }
        let deeper = depth + 1;
        match self.below(6) {
            0 => {
                let (first, second) = (self.expression(scope, kind, deeper), self.expression(scope, kind, deeper));
                format!("coalesce({first}, {second})")
            }
            1 => {
                let condition = self.condition(scope, deeper);
                let (yes, no) = (self.expression(scope, kind, deeper), self.expression(scope, kind, deeper));
                format!("CASE WHEN {condition} THEN {yes} ELSE {no} END")
            }
            2 => {
                let (first, second) = (self.expression(scope, kind, deeper), self.expression(scope, kind, deeper));
                // What nullif of integers of two widths is announced as is said to differ.
                if kind.is_integer() {
                    format!("nullif({first}, {first})")
                } else {
                    format!("nullif({first}, {second})")
                }
            }
            _ => self.own_expression(scope, kind, deeper),
        }
    }

    /// What only this type has.
    fn own_expression(&mut self, scope: &[Column], kind: Type, depth: u32) -> String {
        let other = match kind {
            Type::Text => self.pick(&[Type::Text, Type::Int4, Type::Numeric, Type::Timestamptz, Type::Date]),
            Type::Date => self.pick(&[Type::Date, Type::Timestamp, Type::Timestamptz]),
            Type::Timestamp | Type::Timestamptz => self.pick(&[Type::Timestamp, Type::Timestamptz]),
            kind => kind,
        };
        let inner = match (kind, other) {
            // How many digits a computed numeric shows is said to differ.
            (Type::Text, Type::Numeric) => self.leaf(scope, other),
            _ => self.expression(scope, other, depth),
        };
        match (kind, other) {
            (Type::Int4 | Type::Int8 | Type::Numeric, _) => match self.below(8) {
                0 => format!("abs({inner})"),
                1 => format!("({inner} / 3)"),
                2 => format!("mod({inner}, 7)"),
                3 => format!("(- ({inner}))"),
                4 if self.percent(20) => format!("({inner} / ({}))", self.expression(scope, kind, depth)),
                _ => {
                    let second = self.expression(scope, kind, depth);
                    format!("({inner} {} {second})", self.pick(&["+", "-", "*"]))
                }
            },
            (Type::Float8, _) => {
                let second = self.expression(scope, kind, depth);
                format!("({inner} {} {second})", self.pick(&["+", "-"]))
            }
            (Type::Text, Type::Text) => match self.below(6) {
                0 => format!("upper({inner})"),
                1 => format!("lower({inner})"),
                2 => format!("substr({inner}, 1, 2)"),
                3 => format!("replace({inner}, 'a', 'x')"),
                4 => format!("trim({inner})"),
                _ => format!("({inner} || {})", self.expression(scope, kind, depth)),
            },
            (Type::Text, Type::Date) => format!("to_char({inner}, 'YYYY-MM')"),
            (Type::Text, _) => format!("({inner})::text"),
            (Type::Date, Type::Date) => format!("({inner} + {})", self.below(9)),
            (Type::Date, _) => format!("({inner})::date"),
            (Type::Timestamp, Type::Timestamptz) => format!("({inner} AT TIME ZONE 'America/New_York')"),
            (Type::Timestamptz, Type::Timestamp) => format!("({inner} AT TIME ZONE 'Europe/Berlin')"),
            (Type::Timestamp, _) => {
                if self.percent(50) {
                    format!("({inner} - interval '1 month')")
                } else {
                    format!("date_trunc('hour', {inner})")
                }
            }
            (Type::Timestamptz, _) => {
                if self.percent(50) {
                    format!("({inner} + interval '{} hours')", self.below(40))
                } else {
                    format!("date_trunc('day', {inner})")
                }
            }
            (Type::Bool, _) => format!("({})", self.condition(scope, depth)),
            (Type::Int2 | Type::Float4 | Type::Uuid, _) => inner,
        }
    }

    /// A condition, `depth` levels down.
    pub(super) fn condition(&mut self, scope: &[Column], depth: u32) -> String {
        let kind = self.pick(Type::ORDERED);
        match self.below(13) {
            0..4 => {
                let (left, right) = (self.expression(scope, kind, depth + 1), self.expression(scope, kind, depth + 1));
                format!("{left} {} {right}", self.pick(&["=", "<>", "<", ">", "<=", ">="]))
            }
            4 => {
                let column = self.column(scope, |_| true).expect("a scope has columns");
                format!("{} IS {}NULL", column.name, self.pick(&["", "NOT "]))
            }
            5 => {
                let left = self.leaf(scope, kind);
                let list: Vec<String> = (0..3).map(|_| self.constant(kind)).collect();
                format!("{left} {}IN ({}{})", self.pick(&["", "NOT "]), list.join(", "), self.pick(&["", ", NULL"]))
            }
            6 => {
                let left = self.expression(scope, kind, depth + 1);
                format!("{left} BETWEEN {} AND {}", self.constant(kind), self.constant(kind))
            }
            7 if depth < 2 => {
                format!("({} AND {})", self.condition(scope, depth + 1), self.condition(scope, depth + 1))
            }
            8 if depth < 2 => format!("({} OR {})", self.condition(scope, depth + 1), self.condition(scope, depth + 1)),
            9 if depth < 2 => format!("NOT ({})", self.condition(scope, depth + 1)),
            10 => {
                let left = self.expression(scope, Type::Text, depth + 1);
                format!("{left} LIKE {}", self.pick(&["'%a%'", "'_b%'", "'a%'", "'%'"]))
            }
            11 if depth == 0 => self.subquery(scope),
            12 => {
                let key = self.column(scope, Type::is_integer);
                match key {
                    Some(key) => format!("{} = {}", key.name, self.below(50)),
                    None => "true".to_owned(),
                }
            }
            _ => {
                let (left, right) = (self.expression(scope, kind, depth + 1), self.expression(scope, kind, depth + 1));
                format!("{left} IS {}DISTINCT FROM {right}", self.pick(&["", "NOT "]))
            }
        }
    }

    /// A condition on another table's rows.
    fn subquery(&mut self, scope: &[Column]) -> String {
        let table = &TABLES[self.below(TABLES.len() as u64) as usize];
        let alias = format!("q{}", self.below(100));
        let inner: Scope = table
            .columns
            .iter()
            .map(|(name, kind, _)| Column { name: format!("{alias}.{name}"), kind: *kind })
            .collect();
        let column = self.column(&inner, |_| true).expect("a table has columns");
        let Some(outer) = self.column(scope, |kind| kind == column.kind) else { return "true".to_owned() };
        let condition = self.condition(&inner, 2);
        match self.below(3) {
            0 => format!("{} IN (SELECT {} FROM {} {alias} WHERE {condition})", outer.name, column.name, table.name),
            1 => format!(
                "{}EXISTS (SELECT 1 FROM {} {alias} WHERE {} = {} AND {condition})",
                self.pick(&["", "NOT "]),
                table.name,
                column.name,
                outer.name
            ),
            _ if matches!(column.kind, Type::Bool | Type::Uuid) => "true".to_owned(),
            _ => format!(
                "{} {} (SELECT {}({}) FROM {} {alias} WHERE {condition})",
                outer.name,
                self.pick(&["=", "<", ">"]),
                self.pick(&["min", "max"]),
                column.name,
                table.name
            ),
        }
    }
}
