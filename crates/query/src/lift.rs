//! Constants lifted out of a statement's text, so that texts that differ only in them share one plan.
//!
//! Called for statements that arrive as plain text, without parameters. [`shape`] cuts a text at its constants with a scan that
//! knows quotes and nothing else; it decides nothing about meaning. PostgreSQL's own parse tree decides, once per shape, which
//! constants become parameters ([`lift`]): those that are compared with a column or assigned to one, because there a parameter of the
//! same type means the same. All others belong to the shape: a text shares a plan only if it has them letter for letter.
//!
//! A text about shards is sent unchanged, with its constants. The analysis of the first text of a shape tells in which constants other
//! texts may differ (`Lifting::of_shards`).

use std::ops::Range;

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{ScalarType, SqlType, Value};
use ashlar_shard::route::{ConstantKind, ConstantUse};
use pg_query::protobuf::{self, AExprKind};
use pg_query::{Node, NodeEnum};

use crate::grammar::ParsedStatement;
use crate::statement::{Kind, Statement};

/// Stands in a shape's key for a constant.
const MARK: char = '\u{1}';

/// Texts with more constants are not cut: such a text is a load of data and does not come again.
const CONSTANTS_MAX: usize = 256;

/// The types with which lifted integers are declared: those that PostgreSQL gives such digits.
const INT4: u32 = 23;
const INT8: u32 = 20;

/// A statement's text, cut at its constants.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape<'a> {
    /// The text itself.
    pub sql: &'a str,
    /// The text with a mark for each constant.
    pub key: String,
    /// The constants, in order.
    pub constants: Vec<Constant<'a>>,
}

impl Shape<'_> {
    /// The range in the text of the constant with this number, counted from 0.
    pub(crate) fn place(&self, number: usize) -> Option<Range<usize>> {
        self.constants.get(number).map(|constant| constant.start..constant.end())
    }
}

/// A constant of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant<'a> {
    /// Its first byte in the text.
    start: usize,
    /// As written, with its quotes.
    pub text: &'a str,
}

impl Constant<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn is_string(&self) -> bool {
        self.text.starts_with('\'')
    }

    /// The text of a quoted constant, without its quotes.
    fn unquoted(&self) -> String {
        self.text.get(1..self.text.len() - 1).unwrap_or_default().replace("''", "'")
    }
}

/// Cuts a text at its integers and plain strings. `None` if that is not worth it or not safe: the text has parameters of its own,
/// comments, more than one statement, or too many constants.
pub fn shape(sql: &str) -> Option<Shape<'_>> {
    let bytes = sql.as_bytes();
    let mut key = String::with_capacity(sql.len());
    let mut constants = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\'' => {
                at = end_of_quoted(bytes, at, b'\'')?;
                constants.push(Constant { start, text: &sql[start..at] });
                key.push(MARK);
            }
            b'"' => {
                at = end_of_quoted(bytes, at, b'"')?;
                key.push_str(&sql[start..at]);
            }
            b'0'..=b'9' => {
                at = end_of_word(bytes, at);
                if bytes[start..at].iter().all(u8::is_ascii_digit) {
                    constants.push(Constant { start, text: &sql[start..at] });
                    key.push(MARK);
                } else {
                    key.push_str(&sql[start..at]);
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                at = end_of_word(bytes, at);
                key.push_str(&sql[start..at]);
            }
            b'$' | 1 | b'\\' => return None,
            b'-' if bytes.get(at + 1) == Some(&b'-') => return None,
            b'/' if bytes.get(at + 1) == Some(&b'*') => return None,
            b';' if !sql[at + 1..].trim().is_empty() => return None,
            _ => {
                at += 1;
                key.push_str(&sql[start..at]);
            }
        }
        if constants.len() > CONSTANTS_MAX {
            return None;
        }
    }
    Some(Shape { sql, key, constants })
}

/// The byte behind a quoted token that begins at `at`; a doubled quote belongs to it.
fn end_of_quoted(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let mut end = at + 1;
    loop {
        end += bytes.get(end..)?.iter().position(|byte| *byte == quote)? + 1;
        if bytes.get(end) != Some(&quote) {
            return Some(end);
        }
        end += 1;
    }
}

/// The byte behind a word or a number, with everything that is attached to it.
fn end_of_word(bytes: &[u8], at: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | 0x80..);
    at + bytes[at..].iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len() - at)
}

/// How a plan uses the constants of its shape.
#[derive(Debug, Default, PartialEq)]
pub struct Lifting {
    slots: Vec<Slot>,
}

#[derive(Debug, PartialEq)]
enum Slot {
    /// Not lifted: other texts must have the same constant.
    Fixed(String),
    /// An integer that fits the type of this OID; `is_negative`: with a minus before it, which is a part of the shape.
    Integer { oid: u32, is_negative: bool },
    /// A string.
    String,
    /// A constant of this kind, which is sent to a shard as it is written.
    Sent(ConstantKind),
}

impl Lifting {
    /// No constant is lifted: the plan fits this text only.
    pub fn none(shape: &Shape<'_>) -> Self {
        Self { slots: shape.constants.iter().map(|constant| Slot::Fixed(constant.text.to_owned())).collect() }
    }

    /// The lifting of a text that is sent to shards. `None` if one of the constants cannot be shared.
    pub(crate) fn of_shards(shape: &Shape<'_>, uses: &[ConstantUse]) -> Option<Self> {
        let slot = |(constant, used): (&Constant<'_>, &ConstantUse)| match used {
            ConstantUse::Any => ConstantKind::of(constant.text).map(Slot::Sent),
            ConstantUse::Fixed => Some(Slot::Fixed(constant.text.to_owned())),
        };
        let slots = shape.constants.iter().zip(uses).map(slot).collect::<Option<_>>()?;
        Some(Self { slots })
    }

    /// Whether any constant may differ.
    pub fn is_any_lifted(&self) -> bool {
        self.slots.iter().any(|slot| !matches!(slot, Slot::Fixed(_)))
    }

    /// The lifted constants of another text of the same shape, as text; `None` if the plan does not fit it.
    fn lifted<'c>(&self, constants: &'c [Constant<'c>]) -> Option<Vec<String>> {
        let mut lifted = Vec::new();
        for (slot, constant) in self.slots.iter().zip(constants) {
            match slot {
                Slot::Fixed(text) if text == constant.text => {}
                Slot::Fixed(_) => return None,
                Slot::String if constant.is_string() => lifted.push(constant.unquoted()),
                Slot::String => return None,
                Slot::Sent(kind) if ConstantKind::of(constant.text) == Some(*kind) => {}
                Slot::Sent(_) => return None,
                Slot::Integer { oid, is_negative } => {
                    let digits = signed(constant.text, *is_negative);
                    if oid_of(&digits) != Some(*oid) {
                        return None;
                    }
                    lifted.push(digits);
                }
            }
        }
        Some(lifted)
    }

    /// The values of the plan's parameters; `None` if the plan does not fit this text, or a constant cannot be read as the type that it
    /// is compared with: then the text is planned by itself, for PostgreSQL's error.
    pub fn values(&self, constants: &[Constant<'_>], types: &[SqlType], style: &TextStyle) -> Option<Vec<Value>> {
        let lifted = self.lifted(constants)?;
        lifted.iter().zip(types).map(|(constant, sql_type)| text::parse(*sql_type, constant, style).ok()).collect()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let text = |slot: &Slot| if let Slot::Fixed(text) = slot { text.capacity() } else { 0 };
        self.slots.iter().map(|slot| size_of::<Slot>() + text(slot)).sum()
    }
}

fn signed(digits: &str, is_negative: bool) -> String {
    if is_negative { format!("-{digits}") } else { digits.to_owned() }
}

/// The type that PostgreSQL gives these digits; `None` beyond a bigint.
fn oid_of(digits: &str) -> Option<u32> {
    if digits.parse::<i32>().is_ok() { Some(INT4) } else { digits.parse::<i64>().is_ok().then_some(INT8) }
}

/// A statement with parameters in place of constants.
#[derive(Debug)]
pub struct Lifted {
    /// To be planned in place of the original.
    pub parsed: ParsedStatement,
    /// Types of its parameters; 0 if the type follows from where the parameter stands.
    pub declared: Vec<u32>,
    /// How texts of this shape become parameters.
    pub lifting: Lifting,
    /// By parameter: whether it is assigned to a column, not compared with one.
    is_assigned: Vec<bool>,
}

/// Lifts the constants that can be lifted; `None` if there are none.
pub fn lift(sql: &str, shape: &Shape<'_>, parsed: &ParsedStatement) -> Option<Lifted> {
    let mut places = Places::default();
    places.of_statement(&parsed.node);
    let mut lifting = Lifting::none(shape);
    let mut declared = Vec::new();
    let mut is_assigned = Vec::new();
    let end = parsed.offset + parsed.text.len();
    let mut lifted_text = String::with_capacity(parsed.text.len());
    let mut copied = parsed.offset;
    for (slot, constant) in lifting.slots.iter_mut().zip(&shape.constants) {
        // A minus belongs to the constant behind it.
        let before = sql[..constant.start].trim_end();
        let minus = before.ends_with('-').then(|| before.len() - 1);
        let found = |start: usize| places.found.iter().find(|place| place.start == start);
        let (start, is_negative, place) = match (found(constant.start), minus.map(|minus| (minus, found(minus)))) {
            (Some(place), _) => (constant.start, false, place),
            (None, Some((minus, Some(place)))) => (minus, true, place),
            _ => continue,
        };
        if constant.is_string() {
            *slot = Slot::String;
            declared.push(0);
        } else {
            let Some(oid) = oid_of(&signed(constant.text, is_negative)) else { continue };
            *slot = Slot::Integer { oid, is_negative };
            declared.push(oid);
        }
        is_assigned.push(place.is_assigned);
        lifted_text.push_str(&sql[copied..start]);
        lifted_text.push_str(&format!("${}", declared.len()));
        copied = constant.end();
    }
    if declared.is_empty() {
        return None;
    }
    lifted_text.push_str(sql.get(copied..end)?);
    let parsed = ParsedStatement { text: lifted_text, offset: 0, node: parsed.node.clone() };
    Some(Lifted { parsed, declared, lifting, is_assigned })
}

impl Lifted {
    /// Whether the plan means the same as the text with its constants: integers have their declared types, and a string is read as its
    /// column's type without losing anything.
    pub fn is_faithful(&self, planned: &Statement) -> bool {
        // What stands behind its rows is sent to shards as it is written.
        if matches!(planned.kind, Kind::Spread(_)) {
            return false;
        }
        let assigns_as_written = match &planned.kind {
            Kind::Key(_) => true,
            Kind::Insert(plan) => plan.is_inline(),
            _ => false,
        };
        planned.parameter_types.len() == self.declared.len()
            && planned.parameter_types.iter().zip(&self.declared).zip(&self.is_assigned).all(
                |((sql_type, declared), is_assigned)| match declared {
                    0 => (*is_assigned && assigns_as_written) || is_lossless(*sql_type),
                    oid => sql_type.oid() == *oid,
                },
            )
    }
}

/// Whether every text of the type is read as exactly what it says, without rounding to a scale or cutting to a length.
fn is_lossless(sql_type: SqlType) -> bool {
    matches!(
        sql_type,
        SqlType::Scalar(
            ScalarType::Bool
                | ScalarType::Int2
                | ScalarType::Int4
                | ScalarType::Int8
                | ScalarType::Float8
                | ScalarType::Text
                | ScalarType::Bytea
                | ScalarType::Date
                | ScalarType::Timestamp
                | ScalarType::Timestamptz
                | ScalarType::Uuid
        )
    )
}

/// The constants that can be lifted, by their byte offsets in the text.
#[derive(Default)]
struct Places {
    found: Vec<Place>,
}

struct Place {
    start: usize,
    is_assigned: bool,
}

impl Places {
    fn of_statement(&mut self, node: &NodeEnum) {
        match node {
            NodeEnum::SelectStmt(select) => self.condition(select.where_clause.as_deref()),
            NodeEnum::DeleteStmt(delete) => self.condition(delete.where_clause.as_deref()),
            NodeEnum::UpdateStmt(update) => {
                for target in &update.target_list {
                    let Some(NodeEnum::ResTarget(target)) = &target.node else { continue };
                    match target.val.as_ref().and_then(|value| value.node.as_ref()) {
                        // `n = n + 1`
                        Some(NodeEnum::AExpr(expr))
                            if is_operator(expr, &["+", "-", "*"]) && is_column(&expr.lexpr) =>
                        {
                            self.constant(expr.rexpr.as_deref(), true);
                        }
                        _ => self.constant(target.val.as_deref(), true),
                    }
                }
                self.condition(update.where_clause.as_deref());
            }
            NodeEnum::InsertStmt(insert) => {
                let source = insert.select_stmt.as_ref().and_then(|source| source.node.as_ref());
                let Some(NodeEnum::SelectStmt(select)) = source else { return };
                for row in &select.values_lists {
                    let Some(NodeEnum::List(row)) = &row.node else { continue };
                    for cell in &row.items {
                        self.constant(Some(cell), true);
                    }
                }
            }
            _ => {}
        }
    }

    /// Comparisons of columns with constants, and AND and OR of them.
    fn condition(&mut self, node: Option<&Node>) {
        match node.and_then(|node| node.node.as_ref()) {
            Some(NodeEnum::BoolExpr(expr)) => expr.args.iter().for_each(|arg| self.condition(Some(arg))),
            Some(NodeEnum::AExpr(expr)) if is_operator(expr, &["=", "<>", "<", "<=", ">", ">="]) => {
                if is_column(&expr.lexpr) {
                    self.constant(expr.rexpr.as_deref(), false);
                } else if is_column(&expr.rexpr) {
                    self.constant(expr.lexpr.as_deref(), false);
                }
            }
            Some(NodeEnum::AExpr(expr))
                if matches!(kind_of(expr), AExprKind::AexprBetween | AExprKind::AexprIn) && is_column(&expr.lexpr) =>
            {
                if let Some(NodeEnum::List(list)) = expr.rexpr.as_ref().and_then(|node| node.node.as_ref()) {
                    list.items.iter().for_each(|item| self.constant(Some(item), false));
                }
            }
            _ => {}
        }
    }

    fn constant(&mut self, node: Option<&Node>, is_assigned: bool) {
        use protobuf::a_const::Val;
        if let Some(NodeEnum::AConst(constant)) = node.and_then(|node| node.node.as_ref())
            && matches!(constant.val, Some(Val::Ival(_) | Val::Fval(_) | Val::Sval(_)))
            && let Ok(start) = usize::try_from(constant.location)
        {
            self.found.push(Place { start, is_assigned });
        }
    }
}

fn kind_of(expr: &protobuf::AExpr) -> AExprKind {
    AExprKind::try_from(expr.kind).unwrap_or(AExprKind::Undefined)
}

fn is_operator(expr: &protobuf::AExpr, names: &[&str]) -> bool {
    let name = expr.name.first().and_then(crate::sql_types::string_of);
    kind_of(expr) == AExprKind::AexprOp && expr.name.len() == 1 && name.is_some_and(|name| names.contains(&name))
}

fn is_column(node: &Option<Box<Node>>) -> bool {
    matches!(node.as_ref().and_then(|node| node.node.as_ref()), Some(NodeEnum::ColumnRef(_)))
}

#[cfg(test)]
mod tests;
