//! `+ - * /` of dates, times and intervals, planned as functions; and what intervals are compared by.

use std::sync::{Arc, LazyLock};

use arrow::array::Decimal128Array;
use arrow::datatypes::DataType;
use ashlar_base::value::interval::arithmetic::order;
use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Error, ScalarType, SqlType};
use ashlar_store::ColumnReader;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Placeholder, ScalarFunction};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::sqlparser::ast::BinaryOperator;
use datafusion_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{Overload, Reads, TimeFunction, catalog};
use crate::error::external;
use crate::fields::field_of;

/// Plans the operators in one zone.
#[derive(Debug)]
pub struct TimeOperators {
    plus: Arc<ScalarUDF>,
    minus: Arc<ScalarUDF>,
    times: Arc<ScalarUDF>,
    divided: Arc<ScalarUDF>,
}

fn operator(name: &'static str, symbol: &'static str, overloads: &'static [Overload], zone: Zone) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(TimeFunction::new(name, overloads, Reads::Nothing, Some(symbol), zone)))
}

impl TimeOperators {
    /// The operators of a zone.
    pub fn new(zone: Zone) -> Self {
        Self {
            plus: operator("time_plus", "+", catalog::PLUS, zone),
            minus: operator("time_minus", "-", catalog::MINUS, zone),
            times: operator("time_times", "*", catalog::TIMES, zone),
            divided: operator("time_divided", "/", catalog::DIVIDED, zone),
        }
    }

    /// What an operator of these sides means; `None` where no side is a time.
    fn function(&self, op: &BinaryOperator, left: &DataType, right: &DataType) -> Option<&Arc<ScalarUDF>> {
        let is_time = |side: &DataType| side.is_temporal();
        if !is_time(left) && !is_time(right) {
            return None;
        }
        match op {
            BinaryOperator::Plus => Some(&self.plus),
            BinaryOperator::Minus => Some(&self.minus),
            BinaryOperator::Multiply => Some(&self.times),
            BinaryOperator::Divide => Some(&self.divided),
            _ => None,
        }
    }
}

impl ExprPlanner for TimeOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (Ok(left), Ok(right)) = (type_of(&expr.left, schema), type_of(&expr.right, schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        // A quoted string or a parameter beside an interval is one.
        let is_comparison = matches!(
            expr.op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        );
        if is_comparison {
            let RawBinaryExpr { op, left: left_expr, right: right_expr } = expr;
            let (left_expr, right_expr) = match (is_interval(&left), is_interval(&right)) {
                (true, false) => (left_expr, as_interval(right_expr)),
                (false, true) => (as_interval(left_expr), right_expr),
                _ => (left_expr, right_expr),
            };
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left: left_expr, right: right_expr }));
        }
        let Some(function) = self.function(&expr.op, &left, &right) else {
            return Ok(PlannerResult::Original(expr));
        };
        let args = vec![typed_beside(expr.left, &expr.op, &right), typed_beside(expr.right, &expr.op, &left)];
        let call = Expr::ScalarFunction(ScalarFunction { func: Arc::clone(function), args });
        // No such operator: told now, while the types are known by name.
        call.get_type(schema)?;
        Ok(PlannerResult::Planned(call))
    }
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    match expr {
        Expr::Placeholder(Placeholder { field: None, .. }) => Ok(DataType::Null),
        other => other.get_type(schema),
    }
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

fn as_interval(expr: Expr) -> Expr {
    let field = field_of("interval", SqlType::Scalar(ScalarType::Interval));
    match expr {
        Expr::Literal(ScalarValue::Utf8(_), _) => Expr::Cast(Cast { expr: Box::new(expr), field }),
        Expr::Placeholder(Placeholder { id, field: None }) => Expr::Placeholder(Placeholder { id, field: Some(field) }),
        other => other,
    }
}

/// The type of a parameter beside a time, as PostgreSQL infers it.
fn typed_beside(expr: Expr, op: &BinaryOperator, other: &DataType) -> Expr {
    let Expr::Placeholder(Placeholder { id, field: None }) = expr else { return expr };
    let scalar = match (op, other) {
        (BinaryOperator::Multiply | BinaryOperator::Divide, _) => ScalarType::Float8,
        (BinaryOperator::Minus, DataType::Date32) => ScalarType::Date,
        (BinaryOperator::Minus, DataType::Timestamp(_, None)) => ScalarType::Timestamp,
        (BinaryOperator::Minus, DataType::Timestamp(_, Some(_))) => ScalarType::Timestamptz,
        (BinaryOperator::Minus, DataType::Time64(_)) => ScalarType::Time,
        (BinaryOperator::Plus, DataType::Date32) => ScalarType::Int4,
        _ => ScalarType::Interval,
    };
    Expr::Placeholder(Placeholder { id, field: Some(field_of("parameter", scalar.into())) })
}

/// What intervals are compared by, as a number: a month is thirty days, a day twenty-four hours.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IntervalOrder {
    signature: Signature,
}

static INTERVAL_ORDER: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(IntervalOrder { signature: Signature::any(1, Volatility::Immutable) })));
static INTERVAL_NEGATE: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| operator("interval_negate", "-", catalog::NEGATED, Zone::Utc));

/// The number that stands for an interval where it is compared.
pub fn ordered(interval: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&INTERVAL_ORDER), args: vec![interval] })
}

/// The interval that [`ordered`] was given, where an expression is that.
pub fn within_order(expr: &Expr) -> Option<&Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    args.first().filter(|_| is_interval_order(func))
}

/// Whether a function is that of [`ordered`].
pub fn is_interval_order(function: &ScalarUDF) -> bool {
    function.inner().is::<IntervalOrder>()
}

/// `-interval`, checked.
pub fn negated(interval: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&INTERVAL_NEGATE), args: vec![interval] })
}

impl ScalarUDFImpl for IntervalOrder {
    fn name(&self) -> &str {
        "interval_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Interval(_) | DataType::Null] => Ok(DataType::Decimal128(38, 0)),
            _ => Err(external(Error::unsupported("comparing an interval with another type is not supported"))),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [arg] = &args.args[..] else {
            return datafusion_common::internal_err!("interval_order takes one argument");
        };
        let is_scalar = matches!(arg, ColumnarValue::Scalar(_));
        let array = arg.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let orders: Decimal128Array = if array.data_type() == &DataType::Null {
            (0..array.len()).map(|_| None::<i128>).collect()
        } else {
            let reader = ColumnReader::new(&array, ScalarType::Interval.into()).map_err(external)?;
            let order_at = |row: usize| match reader.datum(row) {
                Datum::Interval(interval) => Some(order(interval)),
                _ => None,
            };
            (0..array.len()).map(order_at).collect()
        };
        let orders: arrow::array::ArrayRef = Arc::new(orders.with_precision_and_scale(38, 0)?);
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&orders, 0)?));
        }
        Ok(ColumnarValue::Array(orders))
    }
}
