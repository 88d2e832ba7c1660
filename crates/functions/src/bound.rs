//! Parameters in expressions that are made once and evaluated with other values each time.
//!
//! The engine has no physical expression for a parameter. Here one is a call without arguments, which finds the values
//! in its thread while it is evaluated: see [`with_parameters`]. For expressions that are evaluated where they are
//! called, not for plans, whose parts run on other threads.

use std::cell::RefCell;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

thread_local! {
    static VALUES: RefCell<Vec<Option<ScalarValue>>> = const { RefCell::new(Vec::new()) };
}

/// Evaluates expressions with these parameters, by number from 0; `None` for one that no expression reads.
pub fn with_parameters<T>(values: Vec<Option<ScalarValue>>, evaluate: impl FnOnce() -> T) -> T {
    struct Restore(Vec<Option<ScalarValue>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            VALUES.set(std::mem::take(&mut self.0));
        }
    }
    let _restore = Restore(VALUES.replace(values));
    evaluate()
}

/// The parameter of a number, from 0, with the type that its values have.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Parameter {
    number: usize,
    field: FieldRef,
    signature: Signature,
}

/// An expression for a parameter: of this number, from 0, and with values of this field's type.
pub fn parameter(number: usize, field: FieldRef) -> Expr {
    // Whoever simplifies expressions must not take it for a constant.
    let signature = Signature::nullary(Volatility::Volatile);
    let func = ScalarUDF::from(Parameter { number, field, signature });
    Expr::ScalarFunction(ScalarFunction { func: func.into(), args: Vec::new() })
}

impl ScalarUDFImpl for Parameter {
    fn name(&self) -> &str {
        "parameter"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(FieldRef::clone(&self.field))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = VALUES.with_borrow(|values| values.get(self.number).cloned().flatten());
        match value {
            Some(value) => Ok(ColumnarValue::Scalar(value)),
            None => internal_err!("parameter ${} is read outside of its statement", self.number + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_has_the_value_of_the_innermost_statement() {
        let field = crate::fields::field_of("parameter", ashlar_base::ScalarType::Int4.into());
        let parameter = Parameter {
            number: 1,
            field: FieldRef::clone(&field),
            signature: Signature::nullary(Volatility::Volatile),
        };
        let read = || {
            let args = ScalarFunctionArgs {
                args: Vec::new(),
                arg_fields: Vec::new(),
                number_rows: 1,
                return_field: FieldRef::clone(&field),
                config_options: Default::default(),
            };
            match parameter.invoke_with_args(args) {
                Ok(ColumnarValue::Scalar(ScalarValue::Int32(value))) => value,
                _ => None,
            }
        };
        let values = |value: i32| vec![None, Some(ScalarValue::Int32(Some(value)))];
        assert_eq!(read(), None);
        with_parameters(values(1), || {
            assert_eq!(read(), Some(1));
            with_parameters(values(2), || assert_eq!(read(), Some(2)));
            assert_eq!(read(), Some(1));
        });
        assert_eq!(read(), None);
    }
}
