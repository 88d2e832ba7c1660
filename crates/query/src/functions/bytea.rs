//! Functions of `bytea`.

use std::sync::Arc;

use arrow::array::{AsArray, Int32Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// `length(bytea)`, `octet_length(bytea)`: bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ByteaLength {
    signature: Signature,
}

impl ByteaLength {
    /// The function for plans.
    pub fn udf() -> ScalarUDF {
        ScalarUDF::from(Self { signature: Signature::exact(vec![DataType::Binary], Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for ByteaLength {
    fn name(&self) -> &str {
        "bytea_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.first() else {
            return datafusion::common::internal_err!("length takes one argument");
        };
        let array = value.to_array(args.number_rows)?;
        let lengths =
            array.as_binary::<i32>().iter().map(|bytes| bytes.and_then(|bytes| i32::try_from(bytes.len()).ok()));
        Ok(ColumnarValue::Array(Arc::new(lengths.collect::<Int32Array>())))
    }
}
