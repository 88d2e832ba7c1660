//! Functions of the catalog as DataFusion sees them: a name with all its signatures, and a settled call.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringBuilder};
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Result as OurResult, ScalarType, SqlType, Value};
use ashlar_store::arrow_types::{sql_type_of, to_arrow_type};
use ashlar_store::{ArrayBuilder, ColumnReader};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::resolve::{Arg, Chosen, resolve, unknown_function};
use super::{Body, Call, Function};
use crate::error::external;
use crate::fields::field_of;
use crate::lengths::{BATCH_BYTES_MAX, VALUE_BYTES_MAX};

/// Times that the bytes which stand for a document in an order are longer than its text, at most.
const KEY_GROWTH: usize = 12;

/// A name of the catalog, before its call is settled.
#[derive(Debug)]
pub struct PgFunction {
    function: &'static Function,
    /// The name with PostgreSQL's schema.
    aliases: [String; 1],
    signature: Signature,
}

/// A call of one signature, with arguments of exactly its types.
#[derive(Debug)]
pub struct PgCall {
    function: &'static Function,
    chosen: Chosen,
    zone: Zone,
    signature: Signature,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for PgFunction {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}
impl Eq for PgFunction {}
impl Hash for PgFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}
impl PartialEq for PgCall {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name && self.chosen == other.chosen && self.zone == other.zone
    }
}
impl Eq for PgCall {}
impl Hash for PgCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
        self.chosen.hash(state);
    }
}

/// The function of this name, for plans.
pub fn pg_function(function: &'static Function) -> ScalarUDF {
    let aliases = [format!("pg_catalog.{}", function.name)];
    ScalarUDF::from(PgFunction { function, aliases, signature: Signature::user_defined(function.volatility) })
}

/// What an argument is for the choice of a signature.
fn arg_of<'a>(field: &FieldRef, scalar: Option<&'a ScalarValue>) -> OurResult<Arg<'a>> {
    Ok(match scalar {
        Some(ScalarValue::Utf8(text)) if !field.metadata().contains_key("ashlar.type") => Arg::Unknown(text.as_deref()),
        Some(ScalarValue::Null) => Arg::Unknown(None),
        // A whole number is an integer where it fits; the planner has not narrowed it yet.
        Some(ScalarValue::Int64(Some(value))) if i32::try_from(*value).is_ok() => Arg::Typed(ScalarType::Int4.into()),
        _ if *field.data_type() == DataType::Null => Arg::Unknown(None),
        _ => Arg::Typed(sql_type_of(field).ok_or_else(|| {
            ashlar_base::Error::unsupported(format!("values of type {} are not supported here", field.data_type()))
        })?),
    })
}

fn constant_of(scalar: Option<&ScalarValue>) -> Option<i64> {
    match scalar? {
        ScalarValue::Int64(value) => *value,
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        _ => None,
    }
}

impl PgFunction {
    /// The signature that these arguments choose.
    ///
    /// `is_narrowed`: literals that fit are integers already.
    ///
    /// # Errors
    /// 42883, 42725
    pub fn choose(
        &self,
        fields: &[FieldRef],
        scalars: &[Option<&ScalarValue>],
        is_narrowed: bool,
    ) -> OurResult<Chosen> {
        let scalar_at = |at: usize| scalars.get(at).copied().flatten();
        let args = fields
            .iter()
            .enumerate()
            .map(|(at, field)| arg_of(field, scalar_at(at)))
            .collect::<OurResult<Vec<Arg<'_>>>>()?;
        let constants: Vec<Option<i64>> = (0..fields.len()).map(|at| constant_of(scalar_at(at))).collect();
        let chosen = resolve(self.function.name, self.function.overloads, &args, &constants);
        if chosen.is_ok() || is_narrowed {
            return chosen;
        }
        // The planner asks before the rules have run: whole-number expressions are bigint until their literals are
        // narrowed, and averages are double precision until they are numeric.
        let early = |is_average: bool| -> Vec<Arg<'_>> {
            args.iter()
                .map(|arg| match arg {
                    Arg::Typed(SqlType::Scalar(ScalarType::Int8)) => Arg::Typed(ScalarType::Int4.into()),
                    Arg::Typed(SqlType::Scalar(ScalarType::Float8)) if is_average => Arg::Typed(super::numeric(38, 16)),
                    other => *other,
                })
                .collect()
        };
        [false, true]
            .into_iter()
            .find_map(|is_average| {
                resolve(self.function.name, self.function.overloads, &early(is_average), &constants).ok()
            })
            .map_or(chosen, Ok)
    }

    /// The settled call's function, or the engine's own.
    pub fn settled(&self, chosen: Chosen, zone: Zone) -> Arc<ScalarUDF> {
        match self.function.overloads[chosen.index].body {
            Body::Engine(engine) => engine(),
            _ => {
                let signature = Signature::user_defined(self.function.volatility);
                Arc::new(ScalarUDF::from(PgCall { function: self.function, chosen, zone, signature }))
            }
        }
    }
}

impl ScalarUDFImpl for PgFunction {
    fn name(&self) -> &str {
        self.function.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} follows from its arguments' fields", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let chosen = self.choose(args.arg_fields, args.scalar_arguments, false).map_err(external)?;
        Ok(field_of(self.name(), chosen.ret))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a call of {} was not settled", self.name())
    }
}

impl ScalarUDFImpl for PgCall {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(field_of(self.name(), self.chosen.ret).data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(field_of(self.name(), self.chosen.ret))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = self.function.volatility != Volatility::Volatile
            && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let array = match self.function.overloads[self.chosen.index].body {
            Body::Float(of) => float(&args.args, rows, of)?,
            Body::Strict(of) => self.by_rows(&args.args, rows, true, of).map_err(external)?,
            Body::Text(of) => self.texts(&args.args, rows, of).map_err(external)?,
            Body::Called(of) => self.by_rows(&args.args, rows, false, of).map_err(external)?,
            Body::Engine(_) => return internal_err!("{} is the engine's", self.name()),
        };
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

impl PgCall {
    fn by_rows(
        &self,
        args: &[ColumnarValue],
        rows: usize,
        is_strict: bool,
        of: super::RowFunction,
    ) -> OurResult<ArrayRef> {
        let call = self.call();
        let arrays = Arguments::arrays(args)?;
        let arguments = Arguments::of(&arrays, &self.chosen.args)?;
        let mut results = ArrayBuilder::new(self.chosen.ret);
        let mut datums = Vec::with_capacity(args.len());
        let mut held = Held::default();
        for row in 0..rows {
            arguments.read(row, &mut datums);
            let value = if is_strict && datums.iter().any(Datum::is_null) { Value::Null } else { of(&call, &datums)? };
            // What a column has is there already. A constant is there once, and in each of the results.
            let longest = || {
                let columns =
                    arrays.iter().zip(&self.chosen.args).zip(&datums).filter(|(((_, is_scalar), _), _)| !is_scalar);
                columns.map(|((_, sql_type), datum)| bytes_of(datum, *sql_type)).max().unwrap_or(0)
            };
            match &value {
                Value::Text(text) => self.charge(&mut held, text.len(), 0)?,
                Value::Bytea(bytes) => self.charge(&mut held, bytes.len(), KEY_GROWTH.saturating_mul(longest()))?,
                Value::Array(_) => self.charge(&mut held, bytes_of(&value.as_datum(), self.chosen.ret), longest())?,
                _ => {}
            }
            results.push(&value.as_datum())?;
        }
        Ok(results.finish())
    }

    fn texts(&self, args: &[ColumnarValue], rows: usize, of: super::TextFunction) -> OurResult<ArrayRef> {
        let call = self.call();
        let arrays = Arguments::arrays(args)?;
        let arguments = Arguments::of(&arrays, &self.chosen.args)?;
        let mut texts = StringBuilder::new();
        let mut datums = Vec::with_capacity(args.len());
        let mut held = Held::default();
        for row in 0..rows {
            arguments.read(row, &mut datums);
            let text = if datums.iter().any(Datum::is_null) { None } else { of(&call, &datums)? };
            if let Some(text) = &text {
                self.charge(&mut held, text.len(), 0)?;
            }
            texts.append_option(text);
        }
        Ok(Arc::new(texts.finish()))
    }

    fn call(&self) -> Call<'_> {
        Call { args: &self.chosen.args, ret: self.chosen.ret, zone: self.zone }
    }

    /// Adds a result to the bytes of its batch, of which so many are as many as in a column that it is made of.
    fn charge(&self, held: &mut Held, bytes: usize, known: usize) -> OurResult<()> {
        held.all = held.all.saturating_add(bytes);
        held.added = held.added.saturating_add(bytes.saturating_sub(known));
        if held.added > BATCH_BYTES_MAX || held.all > VALUE_BYTES_MAX {
            return Err(ashlar_base::Error::new(
                ashlar_base::ErrorCode::OutOfMemory,
                format!("the results of {} hold more bytes than a batch of rows may", self.function.name),
            ));
        }
        Ok(())
    }
}

/// Bytes of the results of a call for a batch of rows.
#[derive(Default)]
struct Held {
    all: usize,
    /// Those beyond what columns have that the results are made of.
    added: usize,
}

/// Bytes of a value of no fixed width in a column; 0 of the others.
fn bytes_of(datum: &Datum<'_>, sql_type: SqlType) -> usize {
    match datum {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        Datum::Array(items) => {
            let element = SqlType::Scalar(sql_type.scalar());
            match to_arrow_type(element).primitive_width() {
                Some(width) => items.len() * width,
                // Where it begins, and what it is.
                None => items.iter().map(|item| size_of::<i32>() + bytes_of(&item, element)).sum(),
            }
        }
        _ => 0,
    }
}

/// The arguments of a call, to be read row by row.
struct Arguments<'a>(Vec<(ColumnReader<'a>, bool)>);

impl<'a> Arguments<'a> {
    /// Each argument as an array, and whether that has one row for all.
    fn arrays(args: &[ColumnarValue]) -> OurResult<Vec<(ArrayRef, bool)>> {
        args.iter()
            .map(|arg| match arg {
                ColumnarValue::Array(array) => Ok((Arc::clone(array), false)),
                ColumnarValue::Scalar(scalar) => Ok((scalar.to_array().map_err(crate::error::from_datafusion)?, true)),
            })
            .collect()
    }

    fn of(arrays: &'a [(ArrayRef, bool)], types: &[SqlType]) -> OurResult<Self> {
        let readers = arrays.iter().zip(types);
        readers
            .map(|((array, is_scalar), sql_type)| Ok((ColumnReader::new(array, *sql_type)?, *is_scalar)))
            .collect::<OurResult<_>>()
            .map(Self)
    }

    fn read<'r>(&'r self, row: usize, datums: &mut Vec<Datum<'r>>) {
        datums.clear();
        datums.extend(self.0.iter().map(|(reader, is_scalar)| reader.datum(if *is_scalar { 0 } else { row })));
    }
}

fn float(args: &[ColumnarValue], rows: usize, of: fn(f64) -> OurResult<f64>) -> Result<ArrayRef> {
    let [arg] = args else { return internal_err!("one argument") };
    let array = arg.to_array(rows)?;
    if *array.data_type() == DataType::Null {
        return Ok(arrow::array::new_null_array(&DataType::Float64, array.len()));
    }
    let values = array.as_primitive::<Float64Type>();
    let result: Float64Array = values.try_unary(|value| of(value).map_err(external))?;
    Ok(Arc::new(result))
}

/// A name that nothing has: its error knows the arguments' types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct UnknownFunction {
    name: String,
    signature: Signature,
}

/// What a call of a name is that PostgreSQL would not know either.
pub fn unknown(name: &str) -> ScalarUDF {
    ScalarUDF::from(UnknownFunction {
        name: name.to_owned(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

impl ScalarUDFImpl for UnknownFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("there is no function {}", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let scalars = args.scalar_arguments;
        let args = args
            .arg_fields
            .iter()
            .enumerate()
            .map(|(at, field)| arg_of(field, scalars.get(at).copied().flatten()))
            .collect::<OurResult<Vec<Arg<'_>>>>();
        Err(external(match args {
            Ok(args) => unknown_function(&self.name, &args),
            Err(error) => error,
        }))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("there is no function {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use ashlar_base::ErrorCode;
    use ashlar_store::build_array;

    use super::*;

    /// What a call gives of so many rows, with the first argument of each row, or of all.
    fn called(name: &str, types: &[SqlType], ret: SqlType, args: &[ColumnarValue], rows: usize) -> OurResult<ArrayRef> {
        let function = super::super::all().find(|function| function.name == name).unwrap();
        let is_this = |overload: &super::super::Overload| overload.args.len() == types.len();
        let index = function.overloads.iter().position(is_this).unwrap();
        let signature = Signature::user_defined(function.volatility);
        let chosen = Chosen { index, args: types.to_vec(), ret };
        let call = PgCall { function, chosen, zone: Zone::Utc, signature };
        match function.overloads[index].body {
            Body::Strict(of) => call.by_rows(args, rows, true, of),
            Body::Called(of) => call.by_rows(args, rows, false, of),
            _ => panic!("{name} is not of rows"),
        }
    }

    fn column(sql_type: SqlType, value: &Value, rows: usize) -> ColumnarValue {
        ColumnarValue::Array(build_array(sql_type, (0..rows).map(|_| value.as_datum())).unwrap())
    }

    fn constant(sql_type: SqlType, value: &Value) -> ColumnarValue {
        let array = build_array(sql_type, [value.as_datum()]).unwrap();
        ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0).unwrap())
    }

    #[test]
    fn arrays_of_a_batch_are_bounded_beyond_what_its_columns_have() {
        const ROWS: usize = 100;
        let (texts, single) = (SqlType::Array(ScalarType::Text), SqlType::Scalar(ScalarType::Text));
        let types = [texts, single];
        // 100 MB in all.
        let long = Value::Array([Value::Text("x".repeat(1_000_000).into())].into());
        let item = || column(single, &Value::Text("y".into()), ROWS);
        let grown = called("array_append", &types, texts, &[column(texts, &long, ROWS), item()], ROWS).unwrap();
        assert_eq!(grown.as_list::<i32>().value_length(ROWS - 1), 2);
        let error = called("array_append", &types, texts, &[constant(texts, &long), item()], ROWS).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        // Twice what is there is once more of it.
        let types = [texts, texts];
        let both = [column(texts, &long, ROWS), column(texts, &long, ROWS)];
        assert_eq!(called("array_cat", &types, texts, &both, ROWS).unwrap_err().code(), ErrorCode::OutOfMemory);
        assert_eq!(called("array_cat", &types, texts, &both, 50).unwrap().len(), 50);
    }

    #[test]
    fn bytes_of_a_constant_count_in_each_row() {
        const ROWS: usize = 100;
        let (bytea, int) = (SqlType::Scalar(ScalarType::Bytea), SqlType::Scalar(ScalarType::Int4));
        let types = [bytea, int, int];
        let long = Value::Bytea(vec![1; 1_000_000].into());
        let numbers = || [column(int, &Value::Int4(3), ROWS), column(int, &Value::Int4(9), ROWS)];
        let [place, byte] = numbers();
        let error = called("set_byte", &types, bytea, &[constant(bytea, &long), place, byte], ROWS).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        let [place, byte] = numbers();
        let changed = called("set_byte", &types, bytea, &[column(bytea, &long, ROWS), place, byte], ROWS).unwrap();
        assert_eq!(changed.as_binary::<i32>().value(ROWS - 1)[3], 9);
    }
}
