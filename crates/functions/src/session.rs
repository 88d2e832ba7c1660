//! What clients ask a PostgreSQL server about itself.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The version of PostgreSQL whose grammar and protocol are spoken.
pub const POSTGRES_VERSION: &str = "18.0";

/// A function without arguments that is constant for the server.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    name: &'static str,
    value: String,
    signature: Signature,
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(self.value.clone()))))
    }
}

/// All of them.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    let version = format!("PostgreSQL {POSTGRES_VERSION} (Ashlar {})", env!("CARGO_PKG_VERSION"));
    let constants = [("version", version.as_str()), ("current_schema", "public"), ("pg_client_encoding", "UTF8")];
    let function = |(name, value): (&'static str, &str)| {
        let signature = Signature::nullary(Volatility::Stable);
        Arc::new(ScalarUDF::from(Constant { name, value: value.to_owned(), signature }))
    };
    constants.into_iter().map(function).collect()
}
