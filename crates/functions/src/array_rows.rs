//! Functions of arrays by which other constructs are said: no user names them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// `ARRAY(SELECT ...)` of no rows is an empty array, where an aggregate gives NULL.
pub const ARRAY_OR_EMPTY: &str = "array_or_empty";

/// The rows of `information_schema._pg_expandarray` as an array: each element `x` with its number `n`.
pub const NUMBERED: &str = "numbered_array";

/// A row of columns as one value.
pub const ROW: &str = "row_of_columns";

/// All of them that SQL can say.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::from(OrEmpty { signature: Signature::any(1, Volatility::Immutable) })),
        Arc::new(ScalarUDF::from(Numbered { signature: Signature::any(1, Volatility::Immutable) })),
    ]
}

/// An array, empty in place of NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrEmpty {
    signature: Signature,
}

impl ScalarUDFImpl for OrEmpty {
    fn name(&self) -> &str {
        ARRAY_OR_EMPTY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let DataType::List(item) = array.data_type() else { return exec_err!("{ARRAY_OR_EMPTY} takes an array") };
        if array.null_count() == 0 {
            return Ok(ColumnarValue::Array(array));
        }
        let lists = array.as_list::<i32>();
        let empty = ScalarValue::List(ScalarValue::new_list(&[], item.data_type(), item.is_nullable()));
        let filled = (0..lists.len()).map(|row| match lists.is_valid(row) {
            true => ScalarValue::try_from_array(lists, row),
            false => Ok(empty.clone()),
        });
        let filled: ArrayRef = ScalarValue::iter_to_array(filled.collect::<Result<Vec<_>>>()?)?;
        Ok(ColumnarValue::Array(filled))
    }
}

/// The elements of an array with their numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Numbered {
    signature: Signature,
}

impl Numbered {
    fn fields(element: &FieldRef) -> Fields {
        let element = Field::clone(element).with_name("x").with_nullable(true);
        Fields::from(vec![element, Field::new("n", DataType::Int32, true)])
    }
}

impl ScalarUDFImpl for Numbered {
    fn name(&self) -> &str {
        NUMBERED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(DataType::List(element)) = types.first() else { return plan_err!("_pg_expandarray takes an array") };
        Ok(DataType::List(Arc::new(Field::new("item", DataType::Struct(Self::fields(element)), true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let DataType::List(element) = array.data_type() else { return exec_err!("_pg_expandarray takes an array") };
        let lists = array.as_list::<i32>();
        let fields = Self::fields(element);
        // Only what the lists point at: a slice keeps the elements of its neighbours.
        let offsets = lists.offsets();
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let elements =
            lists.values().slice(usize::try_from(first).unwrap_or(0), usize::try_from(last - first).unwrap_or(0));
        let numbers = offsets.windows(2).flat_map(|pair| 1..=pair[1] - pair[0]).collect::<Int32Array>();
        let rows = StructArray::try_new(fields.clone(), vec![elements, Arc::new(numbers)], None)?;
        let starts = OffsetBuffer::new(offsets.iter().map(|offset| offset - first).collect());
        let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
        let numbered = ListArray::try_new(item, starts, Arc::new(rows), lists.nulls().cloned())?;
        Ok(ColumnarValue::Array(Arc::new(numbered)))
    }
}

/// A row of columns as one value, which knows the columns' types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Row {
    signature: Signature,
}

/// The row of these columns.
pub fn row(columns: Vec<Expr>) -> Expr {
    let signature = Signature::variadic_any(Volatility::Immutable);
    let func = Arc::new(ScalarUDF::from(Row { signature }));
    Expr::ScalarFunction(ScalarFunction { func, args: columns })
}

impl ScalarUDFImpl for Row {
    fn name(&self) -> &str {
        ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of a row follows from its columns")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let columns = args.arg_fields.iter().enumerate();
        let fields: Fields = columns
            .map(|(place, field)| field.as_ref().clone().with_name(format!("c{place}")).with_nullable(true))
            .collect();
        Ok(Arc::new(Field::new(ROW, DataType::Struct(fields), false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = args.return_field.data_type() else { return exec_err!("a row has columns") };
        let columns = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<ArrayRef>>>()?;
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(fields.clone(), columns, None)?)))
    }
}

/// A column of a row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ColumnOf {
    place: usize,
    signature: Signature,
}

/// The column at a place of a row.
pub fn column_of(row: Expr, place: usize) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let func = Arc::new(ScalarUDF::from(ColumnOf { place, signature }));
    Expr::ScalarFunction(ScalarFunction { func, args: vec![row] })
}

impl ScalarUDFImpl for ColumnOf {
    fn name(&self) -> &str {
        "column_of_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of a column follows from its row")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields[0].data_type() {
            DataType::Struct(fields) if self.place < fields.len() => Ok(Arc::clone(&fields[self.place])),
            other => plan_err!("a value of type {other} is no row"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args[0].to_array(args.number_rows)?;
        let Some(rows) = rows.as_struct_opt() else { return exec_err!("a row is a struct") };
        let column = rows.column(self.place);
        // A row that is not there has no values, whatever lies beneath it.
        let Some(missing) = rows.nulls() else { return Ok(ColumnarValue::Array(Arc::clone(column))) };
        let missing = BooleanArray::new(!missing.inner(), None);
        Ok(ColumnarValue::Array(nullif(column, &missing)?))
    }
}
