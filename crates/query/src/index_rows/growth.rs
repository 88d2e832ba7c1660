//! An upper bound on the memory that computing an index expression takes, relative to its inputs.
//!
//! Called when an index is planned. Known for expressions whose parts have fixed-size values, or values not much longer
//! than their inputs. For all others, such as `repeat('x', n)`, the length of the result is not known in advance.

use arrow::datatypes::DataType;
use ashlar_functions::tree::each_operand;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::TryCast;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};

use super::is_text;

/// Bytes of a short text: those of a number, a time or an interval, and of constants.
const SHORT_BYTES: usize = 64;

/// The same as times of the bytes of a row's inputs, each of which counts the 32 of a value and those of its text.
const SHORT: usize = 2;

/// What takes more times the bytes of a row's inputs is not known: hardly any rows would be computed together.
const GROWTH_MAX: usize = 1000;

/// Times the bytes of a row's inputs.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// By what an expression gives.
    given: usize,
    /// By all that is made before, and with it.
    made: usize,
}

/// How many times the bytes of a row's inputs computing expressions takes, with values made of what they give. `None`: nobody knows.
///
/// # Errors
/// As the types of expressions are found.
pub(super) fn of(expressions: &[&Expr], schema: &DFSchema) -> Result<Option<usize>> {
    let mut growth = 0;
    for expr in expressions {
        let Some(taken) = taken(expr, schema)? else { return Ok(None) };
        growth += taken.made + taken.given + 1;
    }
    Ok((growth <= GROWTH_MAX).then_some(growth))
}

fn taken(expr: &Expr, schema: &DFSchema) -> Result<Option<Taken>> {
    match expr {
        Expr::Column(_) => return Ok(Some(Taken { given: 1, made: 0 })),
        Expr::Literal(value, _) => {
            let is_short = value.size() <= size_of_val(value) + SHORT_BYTES;
            return Ok(is_short.then_some(Taken { given: SHORT, made: SHORT }));
        }
        _ => {}
    }
    let (mut operands, mut count, mut are_known) = (Taken::default(), 0, true);
    each_operand(expr, |operand| {
        match taken(operand, schema)? {
            Some(one) => {
                operands.given += one.given;
                operands.made += one.made;
                count += 1;
            }
            None => are_known = false,
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !are_known {
        return Ok(None);
    }
    let given = given(expr, operands.given, schema)?.filter(|given| *given <= GROWTH_MAX);
    let Some(given) = given else { return Ok(None) };
    // Operands may be converted, and the rows that one is computed of copied. What comes of it is values, and then a column.
    Ok(Some(Taken { given, made: operands.made + operands.given + count + 2 * given }))
}

/// What an expression gives whose operands give so much.
fn given(expr: &Expr, operands: usize, schema: &DFSchema) -> Result<Option<usize>> {
    let is_fixed = has_fixed_size(&expr.get_type(schema)?);
    Ok(match expr {
        Expr::Between(_)
        | Expr::BinaryExpr(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::InList(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotNull(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsUnknown(_)
        | Expr::Like(_)
        | Expr::Negative(_)
        | Expr::Not(_)
        | Expr::ScalarFunction(_)
        | Expr::TryCast(_)
            if is_fixed =>
        {
            Some(1)
        }
        Expr::Case(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }) => Some(operands),
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) if is_text(field.data_type()) => {
            as_text(&expr.get_type(schema)?, operands)
        }
        Expr::ScalarFunction(call) => match (call.func.name(), &call.args[..]) {
            ("to_text", [argument]) => as_text(&argument.get_type(schema)?, operands),
            // An item may be much shorter than its key.
            ("jsonb key", [argument]) if matches!(argument.get_type(schema)?, DataType::List(_)) => None,
            (name, _) => times(name).map(|times| times * operands),
        },
        _ => None,
    })
}

/// What a value of this type gives as a text.
fn as_text(from: &DataType, given: usize) -> Option<usize> {
    match from {
        from if is_text(from) => Some(given),
        from if has_fixed_size(from) => Some(SHORT),
        _ => None,
    }
}

/// How many times longer what a function gives is than what it takes. Letters in another case have up to three times their bytes; the key of a
/// document has up to twelve bytes for a number of one digit and the comma behind it.
fn times(name: &str) -> Option<usize> {
    match name {
        "btrim" | "coalesce" | "greatest" | "least" | "left" | "ltrim" | "md5" | "nullif" | "reverse" | "right"
        | "rtrim" | "split_part" | "substr" | "substring" => Some(1),
        "->" | "->>" | "initcap" | "lower" | "upper" => Some(3),
        "jsonb key" => Some(8),
        _ => None,
    }
}

fn has_fixed_size(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null | DataType::FixedSizeBinary(_))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ashlar_base::{IndexRows, Value};

    use crate::{counting, testing};

    /// What an index of a table with columns `v`, `s` and `d` computes.
    fn rows(on: &str) -> Arc<dyn IndexRows> {
        let table = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint, s text, d jsonb)";
        let engine = testing::engine_with(&[table, &format!("CREATE INDEX i ON t {on}")]);
        let (_, index) = engine.catalog().current().index("i", |_| false).unwrap();
        Arc::clone(index.rows.as_ref().unwrap())
    }

    /// As `IndexRows::growth` counts.
    fn bytes(values: &[Value]) -> usize {
        let own = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::Bytea(bytes) => bytes.len(),
            _ => 0,
        };
        size_of_val(values) + values.iter().map(own).sum::<usize>()
    }

    #[test]
    fn of_what_grows_with_what_it_reads_it_is_known() {
        for on in [
            "((v + 1))",
            "(lower(s))",
            "(upper(substr(s, 2, 5)))",
            "(length(s)) WHERE v > 3",
            "((s || '-' || s))",
            "((CASE WHEN v > 3 THEN s ELSE lower(s) END))",
            "(v) WHERE s IS NOT NULL AND s LIKE 'a%'",
            "((d ->> 'a'))",
            "(d)",
        ] {
            assert!(rows(on).growth().is_some(), "{on}");
        }
        for on in ["(repeat(s, 3))", "(length(repeat(s, 3)))", "(lpad(s, 1000))", "(lower(repeat(s, 3)))"] {
            assert_eq!(rows(on).growth(), None, "{on}");
        }
        // Each might make it three times as long.
        let nested = format!("({}s{})", "lower(".repeat(10), ")".repeat(10));
        assert_eq!(rows(&nested).growth(), None);
        let long = format!("((s || '{}'))", "x".repeat(100));
        assert_eq!(rows(&long).growth(), None, "it is longer than what it is made of");
    }

    #[test]
    fn what_is_computed_is_no_longer_than_was_said() {
        let text = |text: &str| Value::Text(text.into());
        let letters = [String::new(), "\u{390}".repeat(500), "\u{149}".repeat(500), "\u{130}".repeat(500)];
        let letters = letters.map(|letters| text(&letters));
        let numbers = format!("[{}]", ["1"; 500].join(", "));
        let nested = format!("[{}]", ["[]", "{}"].repeat(250).join(", "));
        let documents = ["0", "[]", "\"\"", numbers.as_str(), nested.as_str()].map(text);
        for (on, values) in [
            ("(lower(s))", &letters[..]),
            ("(upper(s))", &letters[..]),
            ("(initcap(s))", &letters[..]),
            ("(md5(s))", &letters[..]),
            ("((s || s || '-'))", &letters[..]),
            ("(d)", &documents[..]),
            ("((d ->> 0))", &documents[..]),
            ("((d -> 0))", &documents[..]),
        ] {
            let rows = rows(on);
            let growth = rows.growth().unwrap();
            for value in values {
                let row = vec![value.clone()];
                let read = bytes(&row);
                let computed = rows.compute(&[row]).unwrap().pop().unwrap().unwrap();
                assert!(bytes(&computed) <= growth * read, "{on}: {} of {read}", bytes(&computed));
            }
        }
    }

    #[test]
    fn computing_takes_no_more_than_was_said() {
        const ROWS: usize = 200;
        let text = "Some words of a text, ".repeat(50);
        let document = format!(r#"{{"a": "{text}"}}"#);
        let (text, document) = (text.as_str(), document.as_str());
        let values = [("(lower(s))", text), ("((s || s))", text), ("(d)", document), ("((d ->> 'a'))", document)];
        for (on, value) in values {
            let rows = rows(on);
            let growth = rows.growth().unwrap();
            let inputs: Vec<Vec<Value>> = (0..ROWS).map(|_| vec![Value::Text(value.into())]).collect();
            let read: usize = inputs.iter().map(|row| bytes(row)).sum();
            let before = counting::allocated();
            let computed = rows.compute(&inputs).unwrap();
            let taken = (counting::allocated() - before) as usize;
            assert_eq!(computed.len(), ROWS);
            // The columns of what is read are counted beside.
            assert!(taken <= (growth + 1) * read, "{on}: {taken} of {read}, {growth} times");
        }
    }
}
