//! Comparisons of arrays as PostgreSQL has them: item by item, NULL above all others, and then the shorter one first.
//!
//! The engine takes NULL among the items for the least, tells the zeros of floats apart, and compares intervals field
//! by field. What else is equal is so to both, and that stays the engine's, which joins by it. Called by the rule that
//! resolves operators, and by whoever looks for conditions that an index answers.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{Datum, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use ashlar_store::{ColumnReader, compare_datums};
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::expr::{Placeholder, ScalarFunction};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::error::external;
use crate::fields::field_of;

/// A comparison of two arrays with items of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ArrayComparison {
    operator: Operator,
    signature: Signature,
}

/// The greatest or the least of several arrays with items of one type, NULL ones left out.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ArrayExtreme {
    is_greatest: bool,
    signature: Signature,
}

/// GREATEST or LEAST of these, if they are arrays, which the caller has made one type.
pub fn extreme(is_greatest: bool, args: &[Expr], schema: &DFSchema) -> Option<Expr> {
    // A NULL without a type is none of them.
    let is_null = |arg: &&Expr| arg.get_type(schema).is_ok_and(|found| found.is_null());
    let args: Vec<Expr> = args.iter().filter(|arg| !is_null(arg)).cloned().collect();
    items_of(args.first()?, schema)?;
    let signature = Signature::variadic_any(Volatility::Immutable);
    let func = Arc::new(ScalarUDF::from(ArrayExtreme { is_greatest, signature }));
    Some(Expr::ScalarFunction(ScalarFunction { func, args }))
}

impl ScalarUDFImpl for ArrayExtreme {
    fn name(&self) -> &str {
        if self.is_greatest { "greatest" } else { "least" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(first) => Ok(first.clone()),
            None => internal_err!("{} of nothing", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(first) => Ok(Arc::new(first.as_ref().clone().with_name(self.name()).with_nullable(true))),
            None => internal_err!("{} of nothing", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let sides = args.args.iter().zip(&args.arg_fields);
        let sides: Vec<Side> =
            sides.map(|(values, field)| Side::new(values, field, args.number_rows)).collect::<Result<_>>()?;
        let readers: Vec<ColumnReader<'_>> = sides.iter().map(Side::reader).collect::<Result<_>>()?;
        let is_scalar = sides.iter().all(|side| side.is_scalar);
        let wanted = if self.is_greatest { Ordering::Greater } else { Ordering::Less };
        let best_at = |row: usize| {
            let mut best: Option<(usize, Datum<'_>)> = None;
            for (at, (side, reader)) in sides.iter().zip(&readers).enumerate() {
                let datum = reader.datum(side.place(row));
                let is_better =
                    !datum.is_null() && best.as_ref().is_none_or(|(_, best)| compare_datums(&datum, best) == wanted);
                if is_better {
                    best = Some((at, datum));
                }
            }
            // Where all are NULL, the first of them.
            let at = best.map_or(0, |(at, _)| at);
            (at, sides[at].place(row))
        };
        let rows = if is_scalar { 1 } else { args.number_rows };
        let places: Vec<(usize, usize)> = (0..rows).map(best_at).collect();
        let arrays: Vec<&dyn Array> = sides.iter().map(|side| side.array.as_ref()).collect();
        let chosen = interleave(&arrays, &places)?;
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&chosen, 0)?));
        }
        Ok(ColumnarValue::Array(chosen))
    }
}

/// Two sides as a comparison of arrays; `None`: they are something else, or the engine compares them as well.
pub fn comparison(left: &Expr, operator: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    if items_of(left, schema).is_none() && items_of(right, schema).is_none() {
        return None;
    }
    let (left, right) = (typed_beside(left, right, schema), typed_beside(right, left, schema));
    let (items, others) = (items_of(&left, schema)?, items_of(&right, schema)?);
    let is_ours = match operator {
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => true,
        Operator::Eq | Operator::NotEq => items.is_floating() || matches!(items, DataType::Interval(_)),
        _ => false,
    };
    if !is_ours || items != others {
        return None;
    }
    let signature = Signature::any(2, Volatility::Immutable);
    let func = Arc::new(ScalarUDF::from(ArrayComparison { operator, signature }));
    Some(Expr::ScalarFunction(ScalarFunction { func, args: vec![left, right] }))
}

/// The sides of a comparison that [`comparison`] has made, and its operator.
pub fn compared(expr: &Expr) -> Option<(&Expr, Operator, &Expr)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let operator = func.inner().downcast_ref::<ArrayComparison>()?.operator;
    match &args[..] {
        [left, right] => Some((left, operator, right)),
        _ => None,
    }
}

/// The type of an array's items.
fn items_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    match expr.get_type(schema) {
        Ok(DataType::List(item)) => Some(item.data_type().clone()),
        _ => None,
    }
}

/// A parameter beside an array is one of its type.
fn typed_beside(expr: &Expr, other: &Expr, schema: &DFSchema) -> Expr {
    if let Expr::Placeholder(Placeholder { id, field: None }) = expr
        && let Ok((_, field)) = other.to_field(schema)
        && let Some(sql_type) = sql_type_of(&field).filter(|found| found.is_array())
    {
        return Expr::Placeholder(Placeholder { id: id.clone(), field: Some(field_of("parameter", sql_type)) });
    }
    expr.clone()
}

/// One side of a comparison.
struct Side {
    array: ArrayRef,
    sql_type: SqlType,
    /// It has one value for all rows.
    is_scalar: bool,
}

impl Side {
    fn new(values: &ColumnarValue, field: &FieldRef, rows: usize) -> Result<Self> {
        let is_scalar = matches!(values, ColumnarValue::Scalar(_));
        let array = values.to_array(if is_scalar { 1 } else { rows })?;
        match sql_type_of(field) {
            Some(sql_type) => Ok(Self { array, sql_type, is_scalar }),
            None => internal_err!("an array that is compared is of a type of ours"),
        }
    }

    fn reader(&self) -> Result<ColumnReader<'_>> {
        ColumnReader::new(&self.array, self.sql_type).map_err(external)
    }

    fn place(&self, row: usize) -> usize {
        if self.is_scalar { 0 } else { row }
    }
}

impl ArrayComparison {
    fn holds(&self, order: Ordering) -> bool {
        match self.operator {
            Operator::NotEq => order.is_ne(),
            Operator::Lt => order.is_lt(),
            Operator::LtEq => order.is_le(),
            Operator::Gt => order.is_gt(),
            Operator::GtEq => order.is_ge(),
            _ => order.is_eq(),
        }
    }
}

impl ScalarUDFImpl for ArrayComparison {
    fn name(&self) -> &str {
        match self.operator {
            Operator::NotEq => "array_ne",
            Operator::Lt => "array_lt",
            Operator::LtEq => "array_le",
            Operator::Gt => "array_gt",
            Operator::GtEq => "array_ge",
            _ => "array_eq",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ([left, right], [left_field, right_field]) = (&args.args[..], &args.arg_fields[..]) else {
            return internal_err!("{} takes two arrays", self.name());
        };
        let left = Side::new(left, left_field, args.number_rows)?;
        let right = Side::new(right, right_field, args.number_rows)?;
        let (lefts, rights) = (left.reader()?, right.reader()?);
        let is_scalar = left.is_scalar && right.is_scalar;
        let holds_at = |row: usize| {
            let (left, right) = (lefts.datum(left.place(row)), rights.datum(right.place(row)));
            (!left.is_null() && !right.is_null()).then(|| self.holds(compare_datums(&left, &right)))
        };
        let rows = if is_scalar { 1 } else { args.number_rows };
        let held: ArrayRef = Arc::new((0..rows).map(holds_at).collect::<BooleanArray>());
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&held, 0)?));
        }
        Ok(ColumnarValue::Array(held))
    }
}
