//! LIKE patterns: one that ends in its escape character is an error, as in PostgreSQL.

use std::sync::{Arc, LazyLock};

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Result, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Cast, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::external;

/// Passes a pattern through, checked.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LikePattern {
    signature: Signature,
}

static LIKE_PATTERN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
    Arc::new(ScalarUDF::from(LikePattern { signature }))
});

/// A pattern that is checked when it is used.
pub fn checked(pattern: Expr) -> Expr {
    let text = Expr::Cast(Cast::new(Box::new(pattern), DataType::Utf8));
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&LIKE_PATTERN), args: vec![text] })
}

/// # Errors
/// 22025
pub fn check_pattern(pattern: &str) -> ashlar_base::Result<()> {
    let escapes = pattern.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if escapes % 2 == 1 {
        return Err(Error::new(ErrorCode::InvalidEscapeSequence, "LIKE pattern must not end with escape character"));
    }
    Ok(())
}

impl ScalarUDFImpl for LikePattern {
    fn name(&self) -> &str {
        "like_pattern"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(pattern) = args.args.first() else { return internal_err!("one pattern") };
        let rows = if matches!(pattern, ColumnarValue::Scalar(_)) { 1 } else { args.number_rows };
        for text in pattern.to_array(rows)?.as_string::<i32>().iter().flatten() {
            check_pattern(text).map_err(external)?;
        }
        Ok(pattern.clone())
    }
}
