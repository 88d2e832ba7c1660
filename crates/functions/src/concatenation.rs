//! `||` of texts and of bytes with a bound: what the engine's own makes of a batch of rows takes memory that nobody charges for, and beyond
//! 2 GiB it has no column for it.
//!
//! Called when an expression is about to be made one that runs; until then it is the engine's operator, which its rules know.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::{DataType, Field, FieldRef};
use ashlar_base::{Error, ErrorCode};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::external;
use crate::lengths::{BATCH_BYTES_MAX, VALUE_BYTES_MAX};
use crate::tree::{any_expression, rewrite_expressions_of, rewrite_nodes_with_subqueries, rewrite_parts};

/// What it is called in plans; [`crate::guards`] knows that it gives something of every row.
const NAME: &str = "text_concatenation";

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenation {
    signature: Signature,
}

static CONCATENATION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Concatenation { signature }))
});

/// A plan whose outputs and conditions bound what they put together. What a table has taken, or a node that is not the engine's, is for
/// whoever reads it.
///
/// # Errors
/// As DataFusion's traversal.
pub fn of_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_concatenation =
        |expr: &Expr| Ok(matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. })));
    if !any_expression(&plan, is_concatenation)? {
        return Ok(plan);
    }
    rewrite_nodes_with_subqueries(plan, |node| {
        if matches!(node, LogicalPlan::TableScan(_) | LogicalPlan::Extension(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let named = |expr: Expr| -> Result<Transformed<Expr>> {
            let saved = names.save(&expr);
            let result = of_expr(expr, &schema)?;
            Ok(if result.transformed { result.update_data(|expr| saved.restore(expr)) } else { result })
        };
        // Sets that rows are grouped by have no names.
        let rewritten = rewrite_expressions_of(node, |expr| match expr {
            Expr::GroupingSet(_) => expr.map_children(named),
            expr => named(expr),
        })?;
        if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
    })
}

/// An expression over rows with these columns.
///
/// # Errors
/// As DataFusion's traversal.
pub fn of_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_ours = |left: &Expr, right: &Expr| match (left.get_type(schema), right.get_type(schema)) {
        (Ok(left), Ok(right)) => left == right && matches!(left, DataType::Utf8 | DataType::Binary),
        _ => false,
    };
    rewrite_parts(expr, |part| match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if is_ours(left.as_ref(), right.as_ref()) =>
        {
            let (func, args) = (Arc::clone(&CONCATENATION), vec![*left, *right]);
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        other => Ok(Transformed::no(other)),
    })
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Utf8))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(first) = args.arg_fields.first() else { return internal_err!("{NAME} takes two values") };
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(NAME, first.data_type().clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else { return internal_err!("{NAME} takes two values") };
        concatenated(left, right, args.number_rows)
    }
}

fn concatenated(left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<ColumnarValue> {
    let is_constant = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { rows };
    let (of_left, of_right) = (bytes_of(left, rows), bytes_of(right, rows));
    // What a column has is there already. A constant is there once, and in each row of the result.
    let known = [(left, of_left), (right, of_right)].map(|(side, bytes)| match side {
        ColumnarValue::Array(_) => bytes,
        ColumnarValue::Scalar(_) => 0,
    });
    let all = of_left.saturating_add(of_right);
    if all - known[0].max(known[1]) > BATCH_BYTES_MAX || all > VALUE_BYTES_MAX {
        let message = "the results of || hold more bytes than a batch of rows may";
        return Err(external(Error::new(ErrorCode::OutOfMemory, message)));
    }
    let joined: ArrayRef = concat_elements_dyn(&left.to_array(rows)?, &right.to_array(rows)?)?;
    if is_constant {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?));
    }
    Ok(ColumnarValue::Array(joined))
}

/// Bytes that one side has in all rows.
fn bytes_of(side: &ColumnarValue, rows: usize) -> usize {
    match side {
        ColumnarValue::Array(array) => {
            let offsets: &[i32] = match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().value_offsets(),
                DataType::Binary => array.as_binary::<i32>().value_offsets(),
                _ => &[],
            };
            match (offsets.first(), offsets.last()) {
                (Some(first), Some(last)) => usize::try_from(last - first).unwrap_or(usize::MAX),
                _ => 0,
            }
        }
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))) => text.len().saturating_mul(rows),
        ColumnarValue::Scalar(ScalarValue::Binary(Some(bytes))) => bytes.len().saturating_mul(rows),
        ColumnarValue::Scalar(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;
    use datafusion_expr::{binary_expr, col, lit};

    use super::*;
    use crate::error::from_datafusion;

    fn column(text: &str, rows: usize) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(StringArray::from(vec![text; rows])))
    }

    fn constant(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(text))
    }

    fn code(result: Result<ColumnarValue>) -> ErrorCode {
        from_datafusion(result.unwrap_err()).code()
    }

    #[test]
    fn a_batch_of_texts_is_bounded_beyond_what_its_columns_have() {
        let long = "x".repeat(1_000_000);
        let joined = concatenated(&column(&long, 100), &constant("!"), 100).unwrap();
        let joined = joined.into_array(100).unwrap();
        assert!(joined.as_string::<i32>().value(99).ends_with("x!"));
        // A constant is in each row, and twice what is there is once more of it.
        assert_eq!(code(concatenated(&column("!", 100), &constant(&long), 100)), ErrorCode::OutOfMemory);
        assert_eq!(code(concatenated(&column(&long, 100), &column(&long, 100), 100)), ErrorCode::OutOfMemory);
        assert!(concatenated(&column(&long, 50), &column(&long, 50), 50).is_ok());
        let largest = "x".repeat(BATCH_BYTES_MAX);
        assert_eq!(code(concatenated(&constant(&largest), &constant("!"), 8192)), ErrorCode::OutOfMemory);
    }

    #[test]
    fn what_is_null_stays_so() {
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec![Some("a"), None])));
        let joined = concatenated(&texts, &constant("b"), 2).unwrap().into_array(2).unwrap();
        assert_eq!(joined.as_string::<i32>(), &StringArray::from(vec![Some("ab"), None]));
        let none = ColumnarValue::Scalar(ScalarValue::Utf8(None));
        let joined = concatenated(&none, &constant("b"), 1).unwrap();
        assert!(matches!(joined, ColumnarValue::Scalar(ScalarValue::Utf8(None))));
    }

    #[test]
    fn texts_and_bytes_alone_are_put_together_here() {
        let fields = vec![Field::new("a", DataType::Utf8, true), Field::new("n", DataType::Int64, true)];
        let schema = DFSchema::try_from(arrow::datatypes::Schema::new(fields)).unwrap();
        let joined =
            binary_expr(col("a"), Operator::StringConcat, binary_expr(col("a"), Operator::StringConcat, lit("!")));
        let bounded = of_expr(joined, &schema).unwrap();
        assert_eq!(bounded.data.to_string(), format!("{NAME}(a, {NAME}(a, Utf8(\"!\")))"));
        let other = binary_expr(col("n"), Operator::StringConcat, col("a"));
        assert!(!of_expr(other, &schema).unwrap().transformed);
    }
}
