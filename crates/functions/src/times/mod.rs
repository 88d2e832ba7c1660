//! PostgreSQL's functions and operators of dates, times and intervals, in place of DataFusion's.
//!
//! Each is a name with its overloads (`catalog`), resolved by the types of its arguments as PostgreSQL resolves them
//! (`resolve`), and computed a row at a time by `base`. A session's time zone is part of the function: each zone has its
//! own set (see `Engine::of_session`). What reads the clock is a literal by the time a plan runs (`clock`).

pub mod aggregates;
mod catalog;
pub mod clock;
pub mod operators;
mod resolve;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::value::coerce_with;
use ashlar_base::value::datetime::parts::Unit;
use ashlar_base::value::text::{self, TextStyle, Zone};
use ashlar_base::{Error, Result, ScalarType, SqlType, Value};
use ashlar_store::arrow_types::sql_type_of;
use ashlar_store::{ColumnReader, build_array};
use datafusion_common::{Result as PlanResult, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use crate::error::external;
use crate::fields::field_of;
pub use clock::StatementTime;

/// What an argument of an overload takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Text,
    Int,
    Float,
    Numeric,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
}

/// What an overload gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Of(Kind),
    /// `extract`: a numeric with the digits of its unit.
    Part {
        of_date: bool,
    },
}

/// What an overload may look at beside its arguments.
struct Context {
    zone: Zone,
    /// The type of the first argument, as it came.
    first: Option<SqlType>,
}

/// One meaning of a name. Strict: of NULL it is NULL.
#[derive(Debug)]
struct Overload {
    args: &'static [Kind],
    output: Output,
    run: fn(&[Value], &Context) -> Result<Value>,
}

/// How a name reads the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reads {
    Nothing,
    /// The same all through a statement.
    StatementClock,
    /// Anew with each row.
    WallClock,
}

/// A function with all its overloads, in one time zone.
#[derive(Debug)]
pub struct TimeFunction {
    name: &'static str,
    overloads: &'static [Overload],
    reads: Reads,
    /// The operator's symbol, for messages.
    symbol: Option<&'static str>,
    zone: Zone,
    signature: Signature,
}

impl PartialEq for TimeFunction {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.zone) == (other.name, other.zone)
    }
}

impl Eq for TimeFunction {}

impl std::hash::Hash for TimeFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.name, self.zone).hash(state);
    }
}

impl Kind {
    fn scalar(self) -> ScalarType {
        match self {
            Self::Bool => ScalarType::Bool,
            Self::Text => ScalarType::Text,
            Self::Int => ScalarType::Int4,
            Self::Float => ScalarType::Float8,
            Self::Numeric => ScalarType::Numeric { precision: 38, scale: 10 },
            Self::Date => ScalarType::Date,
            Self::Time => ScalarType::Time,
            Self::Timestamp => ScalarType::Timestamp,
            Self::Timestamptz => ScalarType::Timestamptz,
            Self::Interval => ScalarType::Interval,
        }
    }
}

impl TimeFunction {
    fn new(
        name: &'static str,
        overloads: &'static [Overload],
        reads: Reads,
        symbol: Option<&'static str>,
        zone: Zone,
    ) -> Self {
        let volatility = match reads {
            Reads::Nothing => Volatility::Immutable,
            Reads::StatementClock => Volatility::Stable,
            Reads::WallClock => Volatility::Volatile,
        };
        let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
        Self { name, overloads, reads, symbol, zone, signature: Signature::new(any, volatility) }
    }

    /// Whether a call with so many arguments must see the time of its statement.
    fn reads_clock(&self, args: usize) -> bool {
        // `age(x)` counts to the current day, `age(x, y)` does not.
        self.reads == Reads::StatementClock && !(self.name == "age" && args == 2)
    }

    fn output(&self, overload: &Overload, unit: Option<&ScalarValue>) -> Result<SqlType> {
        let of_date = match overload.output {
            Output::Of(kind) => return Ok(kind.scalar().into()),
            Output::Part { of_date } => of_date,
        };
        let Some(ScalarValue::Utf8(Some(name))) = unit else {
            return Err(Error::unsupported("the unit of extract must be a constant"));
        };
        // An unknown unit is refused when it is computed, with the type it was asked of.
        let unit = Unit::parse(name).unwrap_or(Unit::Year);
        let scale = unit.scale(of_date);
        let precision = match unit {
            Unit::Epoch if scale > 0 => 19,
            Unit::Epoch => 13,
            Unit::Second | Unit::Millisecond | Unit::Microsecond => 8,
            _ => 10,
        };
        Ok(ScalarType::Numeric { precision, scale }.into())
    }
}

/// What resolution has to know of an argument.
struct Argument {
    /// `None`: a quoted string or NULL, which takes any type.
    sql_type: Option<SqlType>,
    field: FieldRef,
}

fn arguments(fields: &[FieldRef], literals: &[Option<&ScalarValue>]) -> Result<Vec<Argument>> {
    fields
        .iter()
        .zip(literals)
        .map(|(field, literal)| {
            let is_open = matches!(field.data_type(), DataType::Null)
                || literal.is_some() && matches!(field.data_type(), DataType::Utf8);
            let sql_type = sql_type_of(field)
                .ok_or_else(|| Error::unsupported(format!("type {} is not supported here", field.data_type())))?;
            Ok(Argument { sql_type: (!is_open).then_some(sql_type), field: FieldRef::clone(field) })
        })
        .collect()
}

impl ScalarUDFImpl for TimeFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        datafusion_common::internal_err!("{} tells its type by its arguments", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let arguments = arguments(args.arg_fields, args.scalar_arguments).map_err(external)?;
        let overload = self.resolve(&arguments).map_err(external)?;
        let output = self.output(overload, args.scalar_arguments.first().copied().flatten()).map_err(external)?;
        Ok(field_of(self.name, output))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        if self.reads != Reads::Nothing && self.reads_clock(args.args.len()) {
            let time =
                clock::current().ok_or_else(|| external(Error::internal("a clock was read outside of a statement")))?;
            return clock::value(self, &args.args, time, args.number_rows);
        }
        let literals: Vec<Option<&ScalarValue>> = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Scalar(scalar) => Some(scalar),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        self.compute(&args, &literals).map_err(external)
    }
}

/// An argument on its way into an overload: read once where it is constant.
enum Input<'a> {
    Constant(Value),
    Column(ColumnReader<'a>, SqlType, SqlType),
}

impl TimeFunction {
    fn compute(&self, args: &ScalarFunctionArgs, literals: &[Option<&ScalarValue>]) -> Result<ColumnarValue> {
        let arguments = arguments(&args.arg_fields, literals)?;
        let overload = self.resolve(&arguments)?;
        let output = sql_type_of(&args.return_field).ok_or_else(|| Error::internal("a result without a type"))?;
        let style = TextStyle { zone: self.zone };
        let context = Context { zone: self.zone, first: arguments.first().and_then(|argument| argument.sql_type) };
        let mut inputs = Vec::with_capacity(args.args.len());
        for ((arg, argument), kind) in args.args.iter().zip(&arguments).zip(overload.args) {
            let from = sql_type_of(&argument.field).ok_or_else(|| Error::internal("an argument without a type"))?;
            // A number keeps its own digits.
            let to = if *kind == Kind::Numeric { from } else { kind.scalar().into() };
            inputs.push(match arg {
                ColumnarValue::Scalar(scalar) => {
                    let array = scalar.to_array().map_err(crate::error::from_datafusion)?;
                    Input::Constant(converted(ColumnReader::new(&array, from)?.datum(0).to_value(), from, to, &style)?)
                }
                ColumnarValue::Array(array) => Input::Column(ColumnReader::new(array, from)?, from, to),
            });
        }
        let is_constant =
            inputs.iter().all(|input| matches!(input, Input::Constant(_))) && self.reads == Reads::Nothing;
        let rows = if is_constant { 1 } else { args.number_rows };
        let mut values = Vec::with_capacity(rows);
        // Constants stay in their places; only columns change from row to row.
        let mut row_values: Vec<Value> = inputs
            .iter()
            .map(|input| match input {
                Input::Constant(value) => value.clone(),
                Input::Column(..) => Value::Null,
            })
            .collect();
        for row in 0..rows {
            for (value, input) in row_values.iter_mut().zip(&inputs) {
                if let Input::Column(reader, from, to) = input {
                    *value = converted(reader.datum(row).to_value(), *from, *to, &style)?;
                }
            }
            values.push(if row_values.iter().any(Value::is_null) {
                Value::Null
            } else {
                checked((overload.run)(&row_values, &context)?)?
            });
        }
        let array = build_array(output, &values)?;
        if is_constant {
            return ScalarValue::try_from_array(&array, 0)
                .map(ColumnarValue::Scalar)
                .map_err(crate::error::from_datafusion);
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// A quoted string is read as the type, another value converted to it.
fn converted(value: Value, from: SqlType, to: SqlType, style: &TextStyle) -> Result<Value> {
    match value {
        Value::Text(text) if to != SqlType::Scalar(ScalarType::Text) => text::parse(to, &text, style),
        value => coerce_with(value, from, to, style),
    }
}

/// Rows hold nanoseconds of an interval: one of more than 292 years of time has no place in them.
fn checked(value: Value) -> Result<Value> {
    match value {
        Value::Interval(interval) if interval.micros.checked_mul(1000).is_none() => {
            Err(Error::unsupported("intervals with more than 2562047 hours are not supported"))
        }
        value => Ok(value),
    }
}

/// Functions of DataFusion that PostgreSQL does not have, or has with another meaning.
const FOREIGN: [&str; 18] = [
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "from_unixtime",
    "make_date",
    "make_time",
    "now",
    "to_char",
    "to_date",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
];

/// Puts PostgreSQL's functions in the place of DataFusion's.
///
/// # Errors
/// As the registry's.
pub fn register(registry: &mut dyn datafusion_expr::registry::FunctionRegistry, zone: Zone) -> PlanResult<()> {
    for name in FOREIGN.iter().chain(&["to_unixtime"]) {
        registry.deregister_udf(name)?;
    }
    for function in catalog::all(zone) {
        registry.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}
