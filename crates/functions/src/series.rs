//! `generate_series` as an array, of which FROM and the select list make rows: of integers, numerics and times, with
//! arguments that may differ from row to row.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use ashlar_base::value::datetime::arithmetic::{timestamp_plus, timestamptz_plus};
use ashlar_base::value::interval::arithmetic::order;
use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Error, ErrorCode, Interval, Result as OurResult, ScalarType, SqlType};
use ashlar_store::arrow_types::{sql_type_of, to_arrow_type};
use ashlar_store::{ColumnReader, build_array};
use datafusion_common::{Result, internal_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::catalog::{Arg, common_numeric, digits_of, numeric, unknown_function};
use crate::error::external;

/// The name of the function, which no user says; what stands before the mark is what a column is called after.
pub const SERIES: &str = "generate_series\u{1}";

/// Values of all series of a batch of rows together. They are made at once, in up to 16 bytes each.
const VALUES_MAX: usize = 10_000_000;

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Series {
    zone: Zone,
    signature: Signature,
}

impl Series {
    /// The function for sessions in a time zone.
    pub fn udf(zone: Zone) -> ScalarUDF {
        ScalarUDF::from(Self { zone, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

/// The type of a series and of its step, from the arguments' types, of which some may be open.
///
/// # Errors
/// 42883 where PostgreSQL has no such function, 42725 where nothing says which one is meant.
fn types_of(types: &[DataType]) -> OurResult<(ScalarType, ScalarType)> {
    let known: Vec<Option<SqlType>> = types
        .iter()
        .map(|found| match found {
            DataType::Null | DataType::Utf8 => None,
            found => sql_type_of(&Field::new("", found.clone(), true)),
        })
        .collect();
    let args = || -> Vec<Arg<'_>> { known.iter().map(|known| known.map_or(Arg::Unknown(None), Arg::Typed)).collect() };
    let undefined = || unknown_function("generate_series", &args());
    let is_instant =
        |of: &SqlType| matches!(of.scalar(), ScalarType::Date | ScalarType::Timestamp | ScalarType::Timestamptz);
    let (Some(ends), 2 | 3) = (known.get(..2), known.len()) else { return Err(undefined()) };
    let step = known.get(2).copied().flatten();
    let interval = SqlType::Scalar(ScalarType::Interval);
    if ends.iter().flatten().any(is_instant) || step == Some(interval) {
        let fits = ends.iter().flatten().all(is_instant) && step.is_none_or(|step| step == interval);
        if !fits || known.len() == 2 {
            return Err(undefined());
        }
        let has = |wanted: ScalarType| ends.iter().flatten().any(|of| *of == SqlType::Scalar(wanted));
        let is_plain = has(ScalarType::Timestamp) && !has(ScalarType::Timestamptz);
        let kind = if is_plain { ScalarType::Timestamp } else { ScalarType::Timestamptz };
        return Ok((kind, ScalarType::Interval));
    }
    let mut common: Option<SqlType> = None;
    for found in known.iter().flatten() {
        let met = match common {
            None => digits_of(*found).map(|_| *found),
            Some(common) => digits_of(*found).and_then(|_| common_numeric(common, *found)),
        };
        common = Some(met.ok_or_else(undefined)?);
    }
    let Some(common) = common else {
        return Err(Error::new(
            ErrorCode::AmbiguousFunction,
            "function generate_series(unknown, unknown) is not unique",
        )
        .with_hint("Could not choose a best candidate function. You might need to add explicit type casts."));
    };
    Ok(match common.scalar() {
        ScalarType::Int2 | ScalarType::Int4 => (ScalarType::Int4, ScalarType::Int4),
        ScalarType::Numeric { scale, .. } => {
            let kind = numeric(38, i32::from(scale)).scalar();
            (kind, kind)
        }
        kind => (kind, kind),
    })
}

impl ScalarUDFImpl for Series {
    fn name(&self) -> &str {
        SERIES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // What is wrong with them is said in PostgreSQL's words when the type of the series is asked for.
        let Ok((kind, step)) = types_of(types) else { return Ok(types.to_vec()) };
        let all = [kind, kind, step].into_iter().map(|scalar| to_arrow_type(scalar.into()));
        Ok(all.take(types.len()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (kind, _) = types_of(types).map_err(external)?;
        Ok(DataType::List(item(kind)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::List(item) = args.return_field.data_type() else { return internal_err!("a series is an array") };
        let Some(SqlType::Scalar(kind)) = sql_type_of(item) else { return internal_err!("a series of no type") };
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let readers = arrays.iter().zip(&args.arg_fields).map(|(array, field)| {
            let found = sql_type_of(field).unwrap_or(SqlType::Scalar(kind));
            ColumnReader::new(array, found)
        });
        let readers = readers.collect::<OurResult<Vec<_>>>().map_err(external)?;
        let mut values: Vec<i128> = Vec::new();
        let mut lengths = Vec::with_capacity(args.number_rows);
        let mut is_valid = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let bounds: Vec<Datum<'_>> = readers.iter().map(|reader| reader.datum(row)).collect();
            let before = values.len();
            let is_null = bounds.iter().any(Datum::is_null);
            if !is_null {
                self.append(kind, &bounds, &mut values).map_err(external)?;
            }
            is_valid.push(!is_null);
            lengths.push(values.len() - before);
        }
        let items = build_array(kind.into(), values.iter().map(|value| datum_of(kind, *value))).map_err(external)?;
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(is_valid));
        let list = ListArray::try_new(Arc::clone(item), offsets, items, Some(nulls))?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}

fn item(kind: ScalarType) -> FieldRef {
    Arc::new(Field::new_list_field(to_arrow_type(kind.into()), true))
}

/// A value of a series; all of its values lie between two of its type.
fn datum_of(kind: ScalarType, value: i128) -> Datum<'static> {
    match kind {
        ScalarType::Int4 => Datum::Int4(value as i32),
        ScalarType::Int8 => Datum::Int8(value as i64),
        ScalarType::Numeric { .. } => Datum::Numeric(value),
        _ => Datum::Timestamp(value as i64),
    }
}

/// A bound or a step of numbers or instants.
fn value_of(datum: &Datum<'_>) -> OurResult<i128> {
    match datum {
        Datum::Int4(value) => Ok(i128::from(*value)),
        Datum::Int8(value) | Datum::Timestamp(value) => Ok(i128::from(*value)),
        Datum::Numeric(value) => Ok(*value),
        _ => Err(Error::internal("a series is of numbers or of times")),
    }
}

impl Series {
    fn append(&self, kind: ScalarType, bounds: &[Datum<'_>], values: &mut Vec<i128>) -> OurResult<()> {
        let (start, stop) = (value_of(&bounds[0])?, value_of(&bounds[1])?);
        if let Some(Datum::Interval(step)) = bounds.get(2) {
            let direction = order(*step).signum();
            return fill((start, stop), direction, values, |from| self.later(kind, from, *step));
        }
        let step = match (bounds.get(2), kind) {
            (Some(step), _) => value_of(step)?,
            (None, ScalarType::Numeric { scale, .. }) => 10_i128.pow(u32::from(scale)),
            (None, _) => 1,
        };
        fill((start, stop), step.signum(), values, |from| Ok(from.saturating_add(step)))
    }

    fn later(&self, kind: ScalarType, from: i128, step: Interval) -> OurResult<i128> {
        let from = i64::try_from(from).map_err(|_| Error::internal("an instant out of range"))?;
        Ok(i128::from(match kind {
            ScalarType::Timestamp => timestamp_plus(from, step)?,
            _ => timestamptz_plus(from, step, self.zone)?,
        }))
    }
}

fn fill(
    (start, stop): (i128, i128),
    direction: i128,
    values: &mut Vec<i128>,
    next: impl Fn(i128) -> OurResult<i128>,
) -> OurResult<()> {
    if direction == 0 {
        return Err(Error::new(ErrorCode::InvalidParameterValue, "step size cannot equal zero"));
    }
    let mut current = start;
    while if direction > 0 { current <= stop } else { current >= stop } {
        if values.len() == VALUES_MAX {
            return Err(Error::unsupported(format!(
                "generate_series of more than {VALUES_MAX} values for one batch of rows is not supported"
            ))
            .with_hint("In FROM, a series between whole numbers that are constants has no limit."));
        }
        values.push(current);
        current = next(current)?;
    }
    Ok(())
}
