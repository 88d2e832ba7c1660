//! Expressions of indexes and conditions of CHECK constraints as PostgreSQL prints them, and the names it makes of them.
//!
//! Follows `ruleutils.c`: types that were added to constants and columns are shown, operators stand in parentheses. What
//! is not known here is shown as it was written. Used for the catalog and for error messages only: nothing is planned from
//! these texts.

use ashlar_base::{ColumnId, Result, ScalarType, SqlType, TableSchema};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::route::column_references;
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AExpr, AExprKind, BoolExpr, BoolExprType, BoolTestType, BooleanTest, CoalesceExpr, ColumnRef, FuncCall, NullTest,
    NullTestType, TypeCast, a_const,
};

use crate::grammar;
use crate::sql_types::{self, string_of};
use crate::statement::expression_text;
use crate::system_tables::plain_type;

/// An expression's text, in which columns keep their place when they get other names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    plain: String,
    /// Without the parentheses that nobody needs.
    pretty: String,
}

/// Around the id of a column in a text.
const START: char = '\u{1}';
const END: char = '\u{2}';

/// What was printed, and what it is.
struct Printed {
    text: String,
    sql_type: Option<SqlType>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A constant in quotes or NULL, whose type is what stands around it.
    Unknown,
    /// A name, a constant or a call.
    Simple,
    /// Needs parentheses within others.
    Operator,
}

struct Printer<'s> {
    schema: &'s TableSchema,
    is_pretty: bool,
}

const TEXT: SqlType = SqlType::Scalar(ScalarType::Text);
const BOOL: SqlType = SqlType::Scalar(ScalarType::Bool);
/// Whatever its digits: they are not shown.
const NUMERIC: SqlType = SqlType::Scalar(ScalarType::Numeric { precision: 38, scale: 10 });
const SELECT: &str = "SELECT ";

impl Text {
    /// Of an expression of an index, of a predicate, or of a condition.
    ///
    /// # Errors
    /// 0A000 for a tree that nobody can print.
    pub(crate) fn of(node: &pg_query::Node, schema: &TableSchema) -> Result<Self> {
        let print = |is_pretty: bool| -> Result<String> {
            let printer = Printer { schema, is_pretty };
            let printed = printer.print(node)?;
            Ok(if printed.form == Form::Unknown { printer.constant(&printed, TEXT) } else { printed.text })
        };
        Ok(Self { plain: print(false)?, pretty: print(true)? })
    }

    /// Of an expression among the columns of an index: in parentheses, unless it is a call.
    pub(crate) fn of_key(node: &pg_query::Node, schema: &TableSchema) -> Result<Self> {
        let text = Self::of(node, schema)?;
        let is_call =
            matches!(&node.node, Some(NodeEnum::FuncCall(_) | NodeEnum::CoalesceExpr(_) | NodeEnum::MinMaxExpr(_)));
        if is_call {
            return Ok(text);
        }
        Ok(Self { plain: format!("({})", text.plain), pretty: format!("({})", text.pretty) })
    }

    /// With the names that columns have now.
    pub(crate) fn show(&self, schema: &TableSchema, is_pretty: bool) -> String {
        let mut shown = String::new();
        let mut rest = if is_pretty { self.pretty.as_str() } else { self.plain.as_str() };
        while let Some((before, after)) = rest.split_once(START) {
            shown.push_str(before);
            let (id, after) = after.split_once(END).unwrap_or((after, ""));
            let column = schema.columns.iter().find(|column| column.id.to_string() == id);
            shown.push_str(&column.map_or_else(|| "?".to_owned(), |column| quote_ident(&column.name)));
            rest = after;
        }
        shown.push_str(rest);
        shown
    }
}

/// The name that PostgreSQL makes of an expression for the name of its index.
pub(crate) fn name_of(node: &pg_query::Node) -> String {
    figure(node).unwrap_or_else(|| "expr".to_owned())
}

fn figure(node: &pg_query::Node) -> Option<String> {
    Some(match node.node.as_ref()? {
        NodeEnum::ColumnRef(column) => column.fields.iter().filter_map(string_of).next_back()?.to_owned(),
        NodeEnum::FuncCall(call) => call.funcname.iter().filter_map(string_of).next_back()?.to_owned(),
        NodeEnum::TypeCast(cast) => {
            let inner = cast.arg.as_ref().and_then(|arg| figure(arg));
            let names = cast.type_name.as_ref().map(|name| &name.names);
            inner.or_else(|| names?.iter().filter_map(string_of).next_back().map(str::to_owned))?
        }
        NodeEnum::CoalesceExpr(_) => "coalesce".to_owned(),
        NodeEnum::MinMaxExpr(expr) => {
            let is_greatest = expr.op == i32::from(pg_query::protobuf::MinMaxOp::IsGreatest);
            if is_greatest { "greatest" } else { "least" }.to_owned()
        }
        NodeEnum::CaseExpr(case) => {
            case.defresult.as_ref().and_then(|result| figure(result)).unwrap_or_else(|| "case".to_owned())
        }
        _ => return None,
    })
}

impl Printer<'_> {
    fn print(&self, node: &pg_query::Node) -> Result<Printed> {
        let Some(inner) = &node.node else { return self.as_written(node) };
        match inner {
            NodeEnum::ColumnRef(column) => self.column(column, node),
            NodeEnum::AConst(constant) => self.literal(constant, node),
            NodeEnum::TypeCast(cast) => self.explicit_cast(cast, node),
            NodeEnum::AArrayExpr(array) => self.array(&array.elements, None),
            NodeEnum::FuncCall(call) => self.call(call, node),
            NodeEnum::CoalesceExpr(expr) => self.coalesce(expr),
            NodeEnum::BoolExpr(expr) => self.logic(expr, node),
            NodeEnum::NullTest(test) => self.null_test(test, node),
            NodeEnum::BooleanTest(test) => self.boolean_test(test, node),
            NodeEnum::AExpr(expr) => self.operation(expr, node),
            _ => self.as_written(node),
        }
    }

    /// A column, as a placeholder that `Text::show` replaces by its present name.
    fn column(&self, column: &ColumnRef, node: &pg_query::Node) -> Result<Printed> {
        let name = column.fields.iter().filter_map(string_of).next_back().unwrap_or_default();
        match self.schema.column(name) {
            Some(ordinal) => {
                let column = &self.schema.columns[ordinal];
                let text = format!("{START}{}{END}", column.id);
                Ok(Printed { text, sql_type: Some(column.sql_type), form: Form::Simple })
            }
            None => self.as_written(node),
        }
    }

    /// `CAST (a AS type)` and `a::type`
    fn explicit_cast(&self, cast: &TypeCast, node: &pg_query::Node) -> Result<Printed> {
        let (Some(arg), Some(name)) = (&cast.arg, &cast.type_name) else { return self.as_written(node) };
        let sql_type = match sql_types::resolve(name) {
            Ok(sql_type) => sql_type,
            Err(_) if sql_types::is_open_numeric(name) => NUMERIC,
            Err(_) => return self.as_written(node),
        };
        if let (Some(NodeEnum::AArrayExpr(array)), SqlType::Array(element)) = (&arg.node, sql_type) {
            // As PostgreSQL reads it: each element is cast.
            return self.array(&array.elements, Some(SqlType::Scalar(element)));
        }
        let printed = self.print(arg)?;
        Ok(Printed { text: self.cast(&printed, sql_type), sql_type: Some(sql_type), form: Form::Simple })
    }

    /// `COALESCE(a, b)`
    fn coalesce(&self, expr: &CoalesceExpr) -> Result<Printed> {
        let args = expr.args.iter().map(|arg| self.print(arg)).collect::<Result<Vec<_>>>()?;
        let sql_type = args.iter().find(|arg| arg.form != Form::Unknown).and_then(|arg| arg.sql_type);
        let args: Vec<String> = args.iter().map(|arg| self.constant(arg, sql_type.unwrap_or(TEXT))).collect();
        let text = format!("COALESCE({})", args.join(", "));
        Ok(Printed { text, sql_type, form: Form::Simple })
    }

    /// AND, OR and NOT.
    fn logic(&self, expr: &BoolExpr, node: &pg_query::Node) -> Result<Printed> {
        let part = |arg: &pg_query::Node| match &arg.node {
            // AND within OR, and NOT within both, bind closer.
            Some(NodeEnum::BoolExpr(inner)) => {
                let (or, not) = (i32::from(BoolExprType::OrExpr), i32::from(BoolExprType::NotExpr));
                let binds = expr.boolop != not && (inner.boolop != or || expr.boolop == or);
                if binds { self.print(arg).map(|printed| printed.text) } else { self.inner(arg) }
            }
            Some(NodeEnum::AExpr(expr)) if AExprKind::try_from(expr.kind) == Ok(AExprKind::AexprIn) => self.inner(arg),
            _ => self.print(arg).map(|printed| self.constant(&printed, BOOL)),
        };
        let args = expr.args.iter().map(part).collect::<Result<Vec<_>>>()?;
        let text = match BoolExprType::try_from(expr.boolop) {
            Ok(BoolExprType::AndExpr) => args.join(" AND "),
            Ok(BoolExprType::OrExpr) => args.join(" OR "),
            Ok(BoolExprType::NotExpr) => format!("NOT {}", args.join("")),
            _ => return self.as_written(node),
        };
        Ok(self.operator(text, Some(SqlType::Scalar(ScalarType::Bool))))
    }

    /// `a IS NULL` and `a IS NOT NULL`
    fn null_test(&self, test: &NullTest, node: &pg_query::Node) -> Result<Printed> {
        let Some(arg) = &test.arg else { return self.as_written(node) };
        let what = match NullTestType::try_from(test.nulltesttype) {
            Ok(NullTestType::IsNull) => "IS NULL",
            _ => "IS NOT NULL",
        };
        Ok(self.operator(format!("{} {what}", self.inner(arg)?), Some(SqlType::Scalar(ScalarType::Bool))))
    }

    /// `a IS TRUE` and its like.
    fn boolean_test(&self, test: &BooleanTest, node: &pg_query::Node) -> Result<Printed> {
        let Some(arg) = &test.arg else { return self.as_written(node) };
        let what = match BoolTestType::try_from(test.booltesttype) {
            Ok(BoolTestType::IsTrue) => "IS TRUE",
            Ok(BoolTestType::IsNotTrue) => "IS NOT TRUE",
            Ok(BoolTestType::IsFalse) => "IS FALSE",
            Ok(BoolTestType::IsNotFalse) => "IS NOT FALSE",
            Ok(BoolTestType::IsUnknown) => "IS UNKNOWN",
            _ => "IS NOT UNKNOWN",
        };
        Ok(self.operator(format!("{} {what}", self.inner(arg)?), Some(SqlType::Scalar(ScalarType::Bool))))
    }

    /// An operator with its operands, LIKE, IN, BETWEEN, IS DISTINCT FROM, ANY and ALL.
    fn operation(&self, expr: &AExpr, node: &pg_query::Node) -> Result<Printed> {
        let name = expr.name.iter().filter_map(string_of).next_back().unwrap_or_default();
        if let (None, Some(operand)) = (&expr.lexpr, &expr.rexpr) {
            let operand = self.print(operand)?;
            return Ok(self.operator(format!("{name} {}", self.within(&operand)), operand.sql_type));
        }
        let (Some(left), Some(right)) = (&expr.lexpr, &expr.rexpr) else { return self.as_written(node) };
        match AExprKind::try_from(expr.kind) {
            Ok(AExprKind::AexprOp) => self.binary(name, left, right),
            Ok(AExprKind::AexprLike) => self.binary(if name == "!~~" { "!~~" } else { "~~" }, left, right),
            Ok(AExprKind::AexprIlike) => self.binary(if name == "!~~*" { "!~~*" } else { "~~*" }, left, right),
            Ok(AExprKind::AexprIn) => self.list(name, left, right, node),
            Ok(AExprKind::AexprBetween) => {
                let Some(NodeEnum::List(bounds)) = &right.node else { return self.as_written(node) };
                let [low, high] = &bounds.items[..] else { return self.as_written(node) };
                let (low, high) = (self.binary(">=", left, low)?, self.binary("<=", left, high)?);
                let text = format!("{} AND {}", low.text, high.text);
                Ok(self.operator(text, Some(SqlType::Scalar(ScalarType::Bool))))
            }
            Ok(AExprKind::AexprNotBetween) => {
                let Some(NodeEnum::List(bounds)) = &right.node else { return self.as_written(node) };
                let [low, high] = &bounds.items[..] else { return self.as_written(node) };
                let (low, high) = (self.binary("<", left, low)?, self.binary(">", left, high)?);
                Ok(self.operator(format!("{} OR {}", low.text, high.text), Some(BOOL)))
            }
            Ok(AExprKind::AexprDistinct) => {
                Ok(Printed { sql_type: Some(BOOL), ..self.binary("IS DISTINCT FROM", left, right)? })
            }
            Ok(AExprKind::AexprNotDistinct) => {
                let same = self.binary("IS DISTINCT FROM", left, right)?;
                Ok(self.operator(format!("NOT {}", same.text), Some(BOOL)))
            }
            Ok(AExprKind::AexprOpAny) => self.quantified(name, "ANY", left, right),
            Ok(AExprKind::AexprOpAll) => self.quantified(name, "ALL", left, right),
            _ => self.as_written(node),
        }
    }

    /// `ARRAY[1, 2]`, each element as one of a type, or as one of what the first of known type has.
    fn array(&self, elements: &[pg_query::Node], element: Option<SqlType>) -> Result<Printed> {
        let items = elements.iter().map(|item| self.print(item)).collect::<Result<Vec<_>>>()?;
        let of = element.or_else(|| items.iter().find_map(|item| item.sql_type)).unwrap_or(TEXT);
        let text = |item: &Printed| if element.is_some() { self.cast(item, of) } else { self.constant(item, of) };
        let texts: Vec<String> = items.iter().map(text).collect();
        let text = format!("ARRAY[{}]", texts.join(", "));
        Ok(Printed { text, sql_type: Some(SqlType::Array(of.scalar())), form: Form::Simple })
    }

    /// `a = ANY (array)`
    fn quantified(&self, name: &str, word: &str, left: &pg_query::Node, right: &pg_query::Node) -> Result<Printed> {
        let (left, right) = (self.print(left)?, self.print(right)?);
        let is_varchar = matches!(left.sql_type, Some(SqlType::Scalar(ScalarType::Varchar { .. })));
        let left = if is_varchar { self.cast(&left, TEXT) } else { self.within(&left) };
        let right = self.within(&right);
        let operator = if name == "!=" { "<>" } else { name };
        Ok(self.operator(format!("{left} {operator} {word} ({right})"), Some(BOOL)))
    }

    /// In parentheses where it stands within another and needs them.
    fn inner(&self, node: &pg_query::Node) -> Result<String> {
        let printed = self.print(node)?;
        Ok(self.within(&printed))
    }

    fn within(&self, printed: &Printed) -> String {
        if self.is_pretty && printed.form == Form::Operator {
            format!("({})", printed.text)
        } else {
            printed.text.clone()
        }
    }

    fn operator(&self, text: String, sql_type: Option<SqlType>) -> Printed {
        let text = if self.is_pretty { text } else { format!("({text})") };
        Printed { text, sql_type, form: Form::Operator }
    }

    /// As it was written, with columns by their ids all the same.
    fn as_written(&self, node: &pg_query::Node) -> Result<Printed> {
        let mut text = format!("{SELECT}{}", expression_text(node)?);
        // From the last one on: what stands before a place stays where it is.
        let mut columns = self.places(&text)?;
        columns.sort_unstable();
        for (start, end, id) in columns.into_iter().rev() {
            text.replace_range(start..end, &format!("{START}{id}{END}"));
        }
        let text = text.strip_prefix(SELECT).map_or_else(String::new, str::to_owned);
        Ok(Printed { text, sql_type: None, form: Form::Simple })
    }

    /// Where columns stand in `SELECT expression`, and which: none where that is not known.
    fn places(&self, text: &str) -> Result<Vec<(usize, usize, ColumnId)>> {
        let mut found = Vec::new();
        for statement in grammar::parse(text)? {
            let NodeEnum::SelectStmt(select) = &statement.node else { continue };
            let Some(NodeEnum::ResTarget(target)) = select.target_list.first().and_then(|target| target.node.as_ref())
            else {
                continue;
            };
            let named = target.val.as_ref().and_then(|expression| column_references(expression));
            for column in named.unwrap_or_default() {
                let names: Vec<&str> = column.fields.iter().filter_map(string_of).collect();
                let known = names.last().and_then(|name| self.schema.column(name));
                let (Some(ordinal), Ok(start)) = (known, usize::try_from(column.location)) else { continue };
                let end = names.iter().enumerate().fold(start, |end, (number, name)| {
                    let end = end + usize::from(number > 0);
                    let is_quoted = text.as_bytes().get(end) == Some(&b'"');
                    end + if is_quoted { name.replace('"', "\"\"").len() + 2 } else { name.len() }
                });
                if text.get(start..end).is_some() {
                    found.push((start, end, self.schema.columns[ordinal].id));
                }
            }
        }
        Ok(found)
    }

    fn literal(&self, constant: &pg_query::protobuf::AConst, node: &pg_query::Node) -> Result<Printed> {
        let simple = |text: String, scalar: ScalarType| {
            Ok(Printed { text, sql_type: Some(SqlType::Scalar(scalar)), form: Form::Simple })
        };
        match &constant.val {
            Some(a_const::Val::Ival(value)) if value.ival < 0 => {
                simple(format!("'{}'::integer", value.ival), ScalarType::Int4)
            }
            Some(a_const::Val::Ival(value)) => simple(value.ival.to_string(), ScalarType::Int4),
            Some(a_const::Val::Fval(value)) => match value.fval.parse::<i64>() {
                Ok(number) => simple(format!("'{number}'::bigint"), ScalarType::Int8),
                Err(_) => simple(value.fval.clone(), NUMERIC.scalar()),
            },
            Some(a_const::Val::Boolval(value)) => simple(value.boolval.to_string(), ScalarType::Bool),
            Some(a_const::Val::Sval(value)) => {
                let text = format!("'{}'", value.sval.replace('\'', "''"));
                Ok(Printed { text, sql_type: None, form: Form::Unknown })
            }
            None if constant.isnull => Ok(Printed { text: "NULL".to_owned(), sql_type: None, form: Form::Unknown }),
            _ => self.as_written(node),
        }
    }

    /// A constant of open type as one of this type; anything else as it is.
    fn constant(&self, printed: &Printed, sql_type: SqlType) -> String {
        match printed.form {
            Form::Unknown => format!("{}::{}", printed.text, plain_type(sql_type)),
            _ => printed.text.clone(),
        }
    }

    fn cast(&self, printed: &Printed, sql_type: SqlType) -> String {
        if printed.form == Form::Unknown {
            return self.constant(printed, sql_type);
        }
        if printed.sql_type == Some(sql_type) {
            return printed.text.clone();
        }
        let is_bare = self.is_pretty && printed.form == Form::Simple;
        let text = if is_bare { printed.text.clone() } else { format!("({})", printed.text) };
        format!("{text}::{}", plain_type(sql_type))
    }

    /// What both sides of an operator are compared or computed as; `None`: as they are.
    fn common(&self, operator: &str, left: &Printed, right: &Printed) -> Option<SqlType> {
        if matches!(operator, "->" | "->>" | "#>" | "#>>") {
            return None;
        }
        let scalar = |printed: &Printed| printed.sql_type.map(SqlType::scalar);
        let is_integer = |scalar| matches!(scalar, ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8);
        let is_text = |scalar| matches!(scalar, ScalarType::Text | ScalarType::Varchar { .. });
        let is_float = |scalar| matches!(scalar, ScalarType::Float4 | ScalarType::Float8);
        let is_numeric = |scalar| matches!(scalar, ScalarType::Numeric { .. });
        match (scalar(left)?, scalar(right)?) {
            (left, right) if is_integer(left) && is_integer(right) => None,
            (left, right) if is_text(left) && is_text(right) => Some(TEXT),
            (left, right) if is_float(left) && is_float(right) => None,
            (left, right) if is_numeric(left) && is_numeric(right) => None,
            (left, right) if is_float(left) || is_float(right) => {
                let known = is_float(left) || is_numeric(left) || is_integer(left);
                known.then_some(SqlType::Scalar(ScalarType::Float8))
            }
            (left, right) if is_numeric(left) != is_numeric(right) && (is_integer(left) || is_integer(right)) => {
                Some(SqlType::Scalar(if is_numeric(left) { left } else { right }))
            }
            _ => None,
        }
    }

    fn binary(&self, operator: &str, left: &pg_query::Node, right: &pg_query::Node) -> Result<Printed> {
        let (left, right) = (self.print(left)?, self.print(right)?);
        // A constant on the right says where in a document something is: a step, or a path of steps.
        let step = match operator {
            "->" | "->>" => Some(TEXT),
            "#>" | "#>>" => Some(SqlType::Array(ScalarType::Text)),
            _ => None,
        };
        let (left_text, right_text) = match (left.form, right.form, step) {
            (Form::Unknown, Form::Unknown, _) => (self.constant(&left, TEXT), self.constant(&right, TEXT)),
            (_, Form::Unknown, Some(step)) => (self.within(&left), self.constant(&right, step)),
            (_, Form::Unknown, None) => self.beside_unknown(&left, &right),
            (Form::Unknown, ..) => {
                let (right, left) = self.beside_unknown(&right, &left);
                (left, right)
            }
            _ => match self.common(operator, &left, &right) {
                None => (self.within(&left), self.within(&right)),
                Some(to) => {
                    let as_common = |printed: &Printed| {
                        let is_same = printed.sql_type.is_some_and(|from| plain_type(from) == plain_type(to));
                        if is_same { self.within(printed) } else { self.cast(printed, to) }
                    };
                    (as_common(&left), as_common(&right))
                }
            },
        };
        let operator = if operator == "!=" { "<>" } else { operator };
        let sql_type = match operator {
            "->" => left.sql_type,
            "->>" | "#>>" | "||" => Some(TEXT),
            "=" | "<>" | "<" | "<=" | ">" | ">=" | "~~" | "!~~" | "~~*" | "!~~*" | "~" | "~*" | "!~" | "!~*" => {
                Some(SqlType::Scalar(ScalarType::Bool))
            }
            _ => left.sql_type.or(right.sql_type),
        };
        Ok(self.operator(format!("{left_text} {operator} {right_text}"), sql_type))
    }

    /// A side of known type and a constant that takes it.
    fn beside_unknown(&self, known: &Printed, unknown: &Printed) -> (String, String) {
        match known.sql_type {
            Some(SqlType::Scalar(ScalarType::Varchar { .. })) => (self.cast(known, TEXT), self.constant(unknown, TEXT)),
            Some(sql_type) => (self.within(known), self.constant(unknown, sql_type)),
            None => (self.within(known), self.constant(unknown, TEXT)),
        }
    }

    /// `a IN (1, 2)`
    fn list(
        &self,
        name: &str,
        left: &pg_query::Node,
        right: &pg_query::Node,
        node: &pg_query::Node,
    ) -> Result<Printed> {
        let Some(NodeEnum::List(items)) = &right.node else { return self.as_written(node) };
        let left = self.print(left)?;
        let items = items.items.iter().map(|item| self.print(item)).collect::<Result<Vec<_>>>()?;
        let of = left.sql_type.unwrap_or(TEXT);
        let texts: Vec<String> = items.iter().map(|item| self.constant(item, of)).collect();
        let array = format!("ARRAY[{}]", texts.join(", "));
        let is_varchar = matches!(left.sql_type, Some(SqlType::Scalar(ScalarType::Varchar { .. })));
        let (left, array) = match (is_varchar, self.is_pretty) {
            (false, _) => (self.within(&left), array),
            (true, true) => (self.cast(&left, TEXT), format!("{array}::text[]")),
            (true, false) => (self.cast(&left, TEXT), format!("({array})::text[]")),
        };
        let text = match name {
            "<>" => format!("{left} <> ALL ({array})"),
            _ => format!("{left} = ANY ({array})"),
        };
        Ok(self.operator(text, Some(SqlType::Scalar(ScalarType::Bool))))
    }

    fn call(&self, call: &FuncCall, node: &pg_query::Node) -> Result<Printed> {
        let Some(name) = call.funcname.iter().filter_map(string_of).next_back() else { return self.as_written(node) };
        let is_plain = !call.agg_star && !call.agg_distinct && call.over.is_none() && call.agg_filter.is_none();
        if !is_plain {
            return self.as_written(node);
        }
        let args = call.args.iter().map(|arg| self.print(arg)).collect::<Result<Vec<_>>>()?;
        let texts: Vec<String> = args
            .iter()
            .map(|arg| match arg.sql_type {
                Some(SqlType::Scalar(ScalarType::Varchar { .. })) => self.cast(arg, TEXT),
                _ => self.constant(arg, TEXT),
            })
            .collect();
        let sql_type = match name {
            "length" | "char_length" | "character_length" | "octet_length" | "ascii" | "strpos" => {
                Some(SqlType::Scalar(ScalarType::Int4))
            }
            "abs" | "round" | "floor" | "ceil" | "date_trunc" => args.last().and_then(|arg| arg.sql_type),
            "lower" | "upper" | "initcap" | "trim" | "btrim" | "ltrim" | "rtrim" | "substr" | "substring" | "left"
            | "right" | "replace" | "md5" | "reverse" | "lpad" | "rpad" | "concat" | "split_part" | "repeat"
            | "translate" => Some(TEXT),
            _ => None,
        };
        Ok(Printed { text: format!("{}({})", quote_ident(name), texts.join(", ")), sql_type, form: Form::Simple })
    }
}

#[cfg(test)]
mod tests;
