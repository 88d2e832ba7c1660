//! A value that is of the type of another one.
//!
//! The engine has json and jsonb as texts, and a field says which they are; CASE, COALESCE and the like say nothing of it. The planner is
//! told by a call of this function: of such an expression, and of one of the values that meet in it. A rule takes the call away when types
//! are settled, and leaves a cast in its place where there is one to make.
//!
//! A quoted literal beside arrays is an array too: the engine, which has it for a text, would know no function of both.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::fields::field_of;

/// The function: a value, and one of its type. No user names it.
pub const KIN: &str = "kin of";

/// See the module.
pub fn udf() -> ScalarUDF {
    ScalarUDF::from(Kin { signature: Signature::any(2, Volatility::Immutable) })
}

/// json or jsonb, where a field is of one of them.
fn json_type(field: &FieldRef) -> Option<SqlType> {
    sql_type_of(field).filter(|found| matches!(found, SqlType::Scalar(ScalarType::Json | ScalarType::Jsonb)))
}

/// The type of an array of which a quoted literal is one; `None`: it stays as it is.
fn array_type(field: &FieldRef) -> Option<SqlType> {
    sql_type_of(field).filter(|found| found.is_array())
}

/// The value of a call, of its type; `None` for a call of another function.
pub fn value_of(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    if function.func.name() != KIN {
        return None;
    }
    let [value, other] = &function.args[..] else { return None };
    let is_quoted = matches!(value, Expr::Literal(ScalarValue::Utf8(Some(_)), _));
    let found = other.to_field(schema).ok();
    let found = found.and_then(|(_, field)| if is_quoted { array_type(&field) } else { json_type(&field) });
    Some(match found {
        Some(sql_type) => Expr::Cast(Cast { expr: Box::new(value.clone()), field: field_of("value", sql_type) }),
        None => value.clone(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Kin {
    signature: Signature,
}

impl ScalarUDFImpl for Kin {
    fn name(&self) -> &str {
        KIN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [value, other] = args.arg_fields else { return internal_err!("a value and one of its type") };
        let is_quoted = matches!(args.scalar_arguments.first(), Some(Some(ScalarValue::Utf8(Some(_)))));
        let found = if is_quoted { array_type(other) } else { json_type(other) };
        Ok(match found {
            Some(sql_type) => field_of(self.name(), sql_type),
            None => Arc::clone(value),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("the type of a value was not settled")
    }
}
