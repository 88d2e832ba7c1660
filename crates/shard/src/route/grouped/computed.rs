//! What outputs, sort keys and HAVING compute with aggregates: once groups are complete, with what the shards say of each.
//!
//! A shard would compute it with its own part of a group, which could fail: it is asked for a NULL of the same type and name instead.
//!
//! ```text
//!   sum(x) / count(y)      CASE WHEN false THEN (sum(x) / count(y)) END AS "?column?", sum(x) AS "_ashlar_1", count(y) AS "_ashlar_2"
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use pg_query::NodeEnum;
use pg_query::protobuf::{AConst, AExpr, AExprKind, CaseExpr, FuncCall, MinMaxOp, Node, TypeCast, TypeName, a_const};

use super::Asked;
use crate::merge::{Aggregate, Computed, Expression, Function, Kind, Operator};
use crate::rewrite::quoted;
use crate::route::functions::{self, Class};
use crate::route::nodes;
use crate::route::several::{Attempt, no};

/// What stands before and behind an expression that shards are not to compute.
const BEFORE: &str = "CASE WHEN false THEN (";
pub(super) const BEHIND: &str = ") END";

impl Asked<'_> {
    /// Has an output computed.
    pub(super) fn compute_output(&mut self, at: usize) -> Attempt<()> {
        let (value, name, place) = {
            let shown = &self.shown[at];
            (shown.value, shown.name, shown.place.clone())
        };
        let modifier = match value {
            NodeEnum::TypeCast(cast) => modifier(cast),
            _ => None,
        };
        let behind = match modifier {
            Some((precision, scale)) => {
                format!(") ELSE CAST(NULL AS pg_catalog.numeric({precision}, {scale})) END")
            }
            None if has_modifier(value) => return no("an output may be of a type with a modifier"),
            None => BEHIND.to_owned(),
        };
        let named = if name.is_empty() { format!(" AS {}", quoted(label(value))) } else { String::new() };
        let expression = self.expression(value)?;
        self.set_aside(place, format!("{behind}{named}"));
        self.computed.push(Computed { column: at, expression });
        self.becomes[at] = Some(Aggregate::Computed);
        Ok(())
    }

    /// Has a sort key computed: the column that it is.
    pub(super) fn compute_key(&mut self, node: &NodeEnum, place: &Range<usize>) -> Attempt<usize> {
        let expression = self.expression(node)?;
        let text = self.about.text;
        let column = self.push(&format!("{BEFORE}{}{BEHIND}", &text[place.clone()]), Aggregate::Computed);
        self.computed.push(Computed { column, expression });
        Ok(column)
    }

    /// Keeps the shards from computing what stands there.
    pub(super) fn set_aside(&mut self, place: Range<usize>, behind: String) {
        self.asides.push((place.start..place.start, BEFORE.to_owned()));
        self.asides.push((place.end..place.end, behind));
    }

    /// What is computed with the columns of complete groups.
    pub(super) fn expression(&mut self, node: &NodeEnum) -> Attempt<Expression> {
        match node {
            NodeEnum::ColumnRef(_) => self.named(node).map_or_else(unknown, |column| Ok(Expression::Column(column))),
            NodeEnum::AConst(constant) => number(constant).map_or_else(unknown, Ok),
            NodeEnum::FuncCall(call) => match functions::class(call) {
                Some(Class::Aggregate) => self.call(call).map(Expression::Column),
                _ => self.function(call),
            },
            NodeEnum::GroupingFunc(call) => self.grouping(call).map(Expression::Column),
            NodeEnum::AExpr(expr) => self.operation(expr),
            NodeEnum::TypeCast(cast) => self.cast(cast),
            NodeEnum::CoalesceExpr(of) => self.all_of(&of.args).map(Expression::Coalesce),
            NodeEnum::MinMaxExpr(of) => match MinMaxOp::try_from(of.op) {
                Ok(MinMaxOp::IsGreatest) => Ok(Expression::Extreme(Ordering::Greater, self.all_of(&of.args)?)),
                Ok(MinMaxOp::IsLeast) => Ok(Expression::Extreme(Ordering::Less, self.all_of(&of.args)?)),
                _ => unknown(),
            },
            NodeEnum::CaseExpr(case) => self.case(case),
            _ => unknown(),
        }
    }

    fn all_of(&mut self, nodes: &[Node]) -> Attempt<Vec<Expression>> {
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(node) = &node.node else { return unknown() };
            all.push(self.expression(node)?);
        }
        Ok(all)
    }

    fn operation(&mut self, expr: &AExpr) -> Attempt<Expression> {
        let Some(right) = nodes::inner(&expr.rexpr) else { return unknown() };
        let operator = nodes::operator(expr);
        let Some(left) = nodes::inner(&expr.lexpr) else {
            return match operator {
                Some("-") => Ok(Expression::Negated(Box::new(self.expression(right)?))),
                Some("+") => self.expression(right),
                _ => unknown(),
            };
        };
        let operator = match (nodes::kind(expr), operator) {
            (AExprKind::AexprNullif, Some("=")) => None,
            (AExprKind::AexprOp, Some("+")) => Some(Operator::Plus),
            (AExprKind::AexprOp, Some("-")) => Some(Operator::Minus),
            (AExprKind::AexprOp, Some("*")) => Some(Operator::Times),
            (AExprKind::AexprOp, Some("/")) => Some(Operator::Divide),
            (AExprKind::AexprOp, Some("%")) => Some(Operator::Modulo),
            _ => return unknown(),
        };
        let operands = Box::new([self.beside(left, right)?, self.beside(right, left)?]);
        Ok(match operator {
            Some(operator) => Expression::Binary(operator, operands),
            None => Expression::NullIf(operands),
        })
    }

    /// An operand beside another one, which a parameter has its type of.
    fn beside(&mut self, node: &NodeEnum, other: &NodeEnum) -> Attempt<Expression> {
        match node {
            NodeEnum::ParamRef(parameter) => {
                self.typed(&format!("${}", parameter.number), other).map(Expression::Column)
            }
            _ => self.expression(node),
        }
    }

    fn function(&mut self, call: &FuncCall) -> Attempt<Expression> {
        let is_plain = call.over.is_none() && call.agg_filter.is_none() && !call.agg_distinct && !call.func_variadic;
        let (true, Some(name)) = (is_plain && call.agg_order.is_empty(), functions::name(call)) else {
            return unknown();
        };
        let function = match name {
            "abs" => Function::Abs,
            "ceil" | "ceiling" => Function::Ceil,
            "floor" => Function::Floor,
            "round" => Function::Round,
            "trunc" => Function::Trunc,
            "mod" => {
                let Ok(operands) = <[Expression; 2]>::try_from(self.all_of(&call.args)?) else { return unknown() };
                return Ok(Expression::Binary(Operator::Modulo, Box::new(operands)));
            }
            _ => return unknown(),
        };
        match &call.args[..] {
            [of] => {
                let Some(of) = &of.node else { return unknown() };
                Ok(Expression::Call(function, Box::new(self.expression(of)?)))
            }
            [of, digits] if matches!(function, Function::Round | Function::Trunc) => {
                let (Some(of), Some(digits)) = (&of.node, digits.node.as_ref().and_then(small)) else {
                    return unknown();
                };
                Ok(Expression::Digits(function, digits, Box::new(self.expression(of)?)))
            }
            _ => unknown(),
        }
    }

    fn cast(&mut self, cast: &TypeCast) -> Attempt<Expression> {
        let (Some(of), Some(kind)) = (nodes::inner(&cast.arg), cast.type_name.as_ref().and_then(kind)) else {
            return unknown();
        };
        let is_modified = cast.type_name.as_ref().is_some_and(|name| !name.typmods.is_empty());
        let fitted = modifier(cast);
        let of = Box::new(self.expression(of)?);
        match fitted {
            Some(fitted) => Ok(Expression::Fitted(fitted, of)),
            None if is_modified => unknown(),
            None => Ok(Expression::Cast(kind, of)),
        }
    }

    fn case(&mut self, case: &CaseExpr) -> Attempt<Expression> {
        if case.arg.is_some() {
            return unknown();
        }
        let mut branches = Vec::with_capacity(case.args.len());
        for branch in &case.args {
            let Some(NodeEnum::CaseWhen(branch)) = &branch.node else { return unknown() };
            let (Some(condition), Some(result)) = (nodes::inner(&branch.expr), nodes::inner(&branch.result)) else {
                return unknown();
            };
            branches.push((self.condition(condition)?, self.expression(result)?));
        }
        let last = match nodes::inner(&case.defresult) {
            None => None,
            Some(NodeEnum::AConst(constant)) if constant.isnull => None,
            Some(last) => Some(Box::new(self.expression(last)?)),
        };
        Ok(Expression::Case(branches, last))
    }
}

fn unknown<T>() -> Attempt<T> {
    no("something is computed with groups that is more than arithmetic of numbers")
}

fn number(constant: &AConst) -> Option<Expression> {
    match constant.val.as_ref()? {
        a_const::Val::Ival(number) => Expression::number(&number.ival.to_string()),
        a_const::Val::Fval(number) => Expression::number(&number.fval),
        _ => None,
    }
}

/// A number of digits.
fn small(node: &NodeEnum) -> Option<i32> {
    match node {
        NodeEnum::AConst(AConst { val: Some(a_const::Val::Ival(number)), .. }) => Some(number.ival),
        _ => None,
    }
}

/// A type of PostgreSQL's own that is computed with.
fn kind(name: &TypeName) -> Option<Kind> {
    if name.setof || name.pct_type || !name.array_bounds.is_empty() {
        return None;
    }
    let name = match &name.names[..] {
        [name] => nodes::string(name)?,
        [schema, name] if nodes::string(schema) == Some("pg_catalog") => nodes::string(name)?,
        _ => return None,
    };
    Some(match name {
        "int2" => Kind::Int2,
        "int4" => Kind::Int4,
        "int8" => Kind::Int8,
        "numeric" => Kind::Numeric,
        "float8" => Kind::Float8,
        _ => return None,
    })
}

/// Precision and scale of a cast to a `numeric` that says them.
fn modifier(cast: &TypeCast) -> Option<(u8, u8)> {
    let name = cast.type_name.as_ref().filter(|name| kind(name) == Some(Kind::Numeric))?;
    let number = |node: &Node| u8::try_from(node.node.as_ref().and_then(small)?).ok();
    let (precision, scale) = match &name.typmods[..] {
        [precision] => (number(precision)?, 0),
        [precision, scale] => (number(precision)?, number(scale)?),
        _ => return None,
    };
    ((1..=38).contains(&precision) && scale <= precision).then_some((precision, scale))
}

/// Whether the type of an expression may have a modifier: it is that of a column, or of a cast. Source: PostgreSQL's `exprTypmod`.
fn has_modifier(node: &NodeEnum) -> bool {
    let of = |node: &Option<Box<Node>>| nodes::inner(node).is_some_and(has_modifier);
    let all = |nodes: &[Node]| nodes.iter().filter_map(|node| node.node.as_ref()).all(has_modifier);
    match node {
        NodeEnum::AConst(_) | NodeEnum::FuncCall(_) => false,
        NodeEnum::AExpr(expr) if nodes::kind(expr) == AExprKind::AexprNullif => of(&expr.lexpr),
        NodeEnum::AExpr(_) => false,
        NodeEnum::TypeCast(cast) => {
            cast.type_name.as_ref().is_some_and(|name| !name.typmods.is_empty()) || of(&cast.arg)
        }
        NodeEnum::CoalesceExpr(expr) => all(&expr.args),
        NodeEnum::MinMaxExpr(expr) => all(&expr.args),
        NodeEnum::CaseExpr(case) => of(&case.defresult),
        _ => true,
    }
}

/// What PostgreSQL calls an output without a name. Source: `FigureColname` in its parse_target.c.
fn label(node: &NodeEnum) -> &str {
    figured(node).0.unwrap_or("?column?")
}

/// The name of an expression, and whether nothing around it gives a better one.
fn figured(node: &NodeEnum) -> (Option<&str>, bool) {
    match node {
        NodeEnum::ColumnRef(_) => (nodes::column_name(node).and_then(|fields| fields.last().copied()), true),
        NodeEnum::FuncCall(call) => (call.funcname.last().and_then(nodes::string), true),
        NodeEnum::AExpr(expr) if nodes::kind(expr) == AExprKind::AexprNullif => (Some("nullif"), true),
        NodeEnum::CoalesceExpr(_) => (Some("coalesce"), true),
        NodeEnum::MinMaxExpr(expr) if MinMaxOp::try_from(expr.op) == Ok(MinMaxOp::IsLeast) => (Some("least"), true),
        NodeEnum::MinMaxExpr(_) => (Some("greatest"), true),
        NodeEnum::TypeCast(cast) => {
            let own = || cast.type_name.as_ref().and_then(|name| name.names.last()).and_then(nodes::string);
            better(nodes::inner(&cast.arg), own)
        }
        NodeEnum::CaseExpr(case) => better(nodes::inner(&case.defresult), || Some("case")),
        _ => (None, false),
    }
}

/// The name of what is inside, where nothing gives a better one; else its own.
fn better<'n>(inside: Option<&'n NodeEnum>, own: impl FnOnce() -> Option<&'n str>) -> (Option<&'n str>, bool) {
    match inside.map(figured) {
        Some((name, true)) => (name, true),
        _ => (own(), false),
    }
}
