//! What HAVING says of groups, as a condition on the columns of the shards' rows.
//!
//! A constant that is no number is of the type of what it is compared with, and so is a parameter. Only a server knows which that is: the
//! shards send both as columns, of one type.
//!
//! ```text
//!   HAVING min(t) > $1      CASE WHEN true THEN $1 ELSE min(t) END AS "_ashlar_2"
//! ```

use pg_query::NodeEnum;
use pg_query::protobuf::{AConst, AExpr, AExprKind, BoolExpr, BoolExprType, NullTestType, TypeName, a_const};

use super::{Asked, name_of, place_of};
use crate::merge::{Aggregate, Comparison, Condition, Operand};
use crate::rewrite::{quoted, scan};
use crate::route::functions::{self, Class};
use crate::route::nodes;
use crate::route::several::{Attempt, no};

impl Asked<'_> {
    /// What HAVING says.
    pub(super) fn condition(&mut self, node: &NodeEnum) -> Attempt<Condition> {
        match node {
            NodeEnum::BoolExpr(expr) => self.joined(expr),
            NodeEnum::AExpr(expr) => self.comparison(expr),
            NodeEnum::NullTest(test) => {
                let Some(tested) = nodes::inner(&test.arg) else { return other_condition() };
                let is_null = Condition::IsNull(self.column(tested)?);
                match NullTestType::try_from(test.nulltesttype) {
                    Ok(NullTestType::IsNull) => Ok(is_null),
                    Ok(NullTestType::IsNotNull) => Ok(Condition::Not(Box::new(is_null))),
                    _ => other_condition(),
                }
            }
            _ => self.column(node).map(Condition::Column),
        }
    }

    fn joined(&mut self, expr: &BoolExpr) -> Attempt<Condition> {
        let mut parts = Vec::with_capacity(expr.args.len());
        for part in &expr.args {
            let Some(part) = &part.node else { return other_condition() };
            parts.push(self.condition(part)?);
        }
        match BoolExprType::try_from(expr.boolop) {
            Ok(BoolExprType::AndExpr) => Ok(Condition::All(parts)),
            Ok(BoolExprType::OrExpr) => Ok(Condition::Any(parts)),
            // Of its one part.
            Ok(BoolExprType::NotExpr) => Ok(Condition::Not(Box::new(Condition::All(parts)))),
            _ => other_condition(),
        }
    }

    fn comparison(&mut self, expr: &AExpr) -> Attempt<Condition> {
        let (Some(a), Some(b)) = (nodes::inner(&expr.lexpr), nodes::inner(&expr.rexpr)) else {
            return other_condition();
        };
        match (nodes::kind(expr), b) {
            (AExprKind::AexprOp, _) => {
                let Some(comparison) = nodes::operator(expr).and_then(comparison_of) else { return other_condition() };
                self.compared(a, comparison, b)
            }
            (AExprKind::AexprBetween, NodeEnum::List(bounds)) => {
                let [low, high] = &bounds.items[..] else { return other_condition() };
                let (Some(low), Some(high)) = (&low.node, &high.node) else { return other_condition() };
                let from = self.compared(a, Comparison::GreaterOrEqual, low)?;
                Ok(Condition::All(vec![from, self.compared(a, Comparison::LessOrEqual, high)?]))
            }
            (AExprKind::AexprIn, NodeEnum::List(list)) => {
                let comparison = if list.items.len() > 1 { Comparison::Among } else { Comparison::Equal };
                let mut parts = Vec::with_capacity(list.items.len());
                for item in &list.items {
                    let Some(item) = &item.node else { return other_condition() };
                    parts.push(self.compared(a, comparison, item)?);
                }
                let is_one = Condition::Any(parts);
                match nodes::operator(expr) {
                    Some("=") => Ok(is_one),
                    Some("<>") => Ok(Condition::Not(Box::new(is_one))),
                    _ => other_condition(),
                }
            }
            _ => other_condition(),
        }
    }

    fn compared(&mut self, a: &NodeEnum, comparison: Comparison, b: &NodeEnum) -> Attempt<Condition> {
        Ok(Condition::Compare(self.operand(a, b)?, comparison, self.operand(b, a)?))
    }

    /// What is compared with another operand.
    fn operand(&mut self, node: &NodeEnum, other: &NodeEnum) -> Attempt<Operand> {
        if let NodeEnum::AConst(constant) = node
            && let Some(number) = number(constant)
        {
            return Ok(number);
        }
        if let Some(written) = constant(node) {
            return self.typed(&written, other).map(Operand::Column);
        }
        let is_column = match node {
            NodeEnum::FuncCall(call) => functions::class(call) == Some(Class::Aggregate),
            _ => matches!(node, NodeEnum::ColumnRef(_) | NodeEnum::GroupingFunc(_)),
        };
        match is_column {
            true => self.column(node).map(Operand::Column),
            false => self.expression(node).map(|expression| Operand::Computed(Box::new(expression))),
        }
    }

    /// The column of a constant, of the type that it has beside another operand.
    pub(super) fn typed(&mut self, written: &str, other: &NodeEnum) -> Attempt<usize> {
        let other = match other {
            NodeEnum::FuncCall(call) => {
                let Some((start, arguments)) = place_of(call, self.about) else {
                    return no("an aggregate cannot be found in the text");
                };
                let text = self.about.text;
                text[start..arguments.end].to_owned()
            }
            _ => match nodes::column_name(other) {
                Some(fields) => name_of(&fields),
                None => return other_condition(),
            },
        };
        let given = scan::parameters(self.about.text);
        let is_once = |number: u16| given.iter().filter(|(_, other)| *other == number).count() == 1;
        if !scan::parameters(written).iter().all(|(_, number)| is_once(*number)) {
            // Where it stands first it is given its type.
            return no("a parameter that something is compared or computed with stands elsewhere too");
        }
        self.has_constants = true;
        Ok(self.push(&format!("CASE WHEN true THEN {written} ELSE {other} END"), Aggregate::Alike))
    }

    /// The column of what a condition names.
    fn column(&mut self, node: &NodeEnum) -> Attempt<usize> {
        match node {
            NodeEnum::FuncCall(call) => self.call(call),
            NodeEnum::GroupingFunc(call) => self.grouping(call),
            _ => self.named(node).map_or_else(other_condition, Ok),
        }
    }
}

fn other_condition<T>() -> Attempt<T> {
    no("HAVING is more than comparisons of aggregates, columns, constants and arithmetic with them")
}

fn number(constant: &AConst) -> Option<Operand> {
    match constant.val.as_ref()? {
        a_const::Val::Ival(number) => Operand::number(&number.ival.to_string()),
        a_const::Val::Fval(number) => Operand::number(&number.fval),
        _ => None,
    }
}

/// A constant or a parameter as it may be written; `None` for what is none.
fn constant(node: &NodeEnum) -> Option<String> {
    match node {
        NodeEnum::ParamRef(parameter) => Some(format!("${}", parameter.number)),
        NodeEnum::AConst(constant) if constant.isnull => Some("NULL".to_owned()),
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Ival(number) => Some(number.ival.to_string()),
            a_const::Val::Fval(number) => Some(number.fval.clone()),
            a_const::Val::Boolval(value) => Some(value.boolval.to_string()),
            // What a backslash means depends on the session.
            a_const::Val::Sval(text) if !text.sval.contains('\\') => {
                Some(format!("'{}'", text.sval.replace('\'', "''")))
            }
            _ => None,
        },
        NodeEnum::TypeCast(cast) => {
            let written = constant(nodes::inner(&cast.arg)?)?;
            Some(format!("CAST({written} AS {})", type_of(cast.type_name.as_ref()?)?))
        }
        _ => None,
    }
}

/// A type's name as it may be written; `None` where it is more than a name.
fn type_of(name: &TypeName) -> Option<String> {
    let is_plain = !name.setof && !name.pct_type && name.typmods.is_empty() && name.array_bounds.is_empty();
    let names: Option<Vec<String>> = name.names.iter().map(|part| nodes::string(part).map(quoted)).collect();
    names.filter(|_| is_plain).map(|names| names.join("."))
}

fn comparison_of(operator: &str) -> Option<Comparison> {
    Some(match operator {
        "=" => Comparison::Equal,
        "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
