//! The part that is the same in every aggregate around another one: what both answer alike.
//!
//! Called by `array_agg` and `framed` inside their `impl AggregateUDFImpl`. How rows are aggregated is never decided
//! here: each of them says that itself.

/// Methods of `AggregateUDFImpl` that give the answer of `self.inner`, an `Arc<AggregateUDF>`: name, arguments, types and the state of a
/// partial aggregate.
///
/// A macro, since a trait implementation cannot take some of its methods from elsewhere.
macro_rules! answers_of_inner_aggregate {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn signature(&self) -> &::datafusion_expr::Signature {
            self.inner.signature()
        }

        fn coerce_types(
            &self,
            types: &[::arrow::datatypes::DataType],
        ) -> ::datafusion_common::Result<Vec<::arrow::datatypes::DataType>> {
            self.inner.coerce_types(types)
        }

        fn return_type(
            &self,
            types: &[::arrow::datatypes::DataType],
        ) -> ::datafusion_common::Result<::arrow::datatypes::DataType> {
            self.inner.return_type(types)
        }

        fn state_fields(
            &self,
            args: ::datafusion_expr::function::StateFieldsArgs<'_>,
        ) -> ::datafusion_common::Result<Vec<::arrow::datatypes::FieldRef>> {
            self.inner.state_fields(args)
        }

        fn default_value(
            &self,
            data_type: &::arrow::datatypes::DataType,
        ) -> ::datafusion_common::Result<::datafusion_common::ScalarValue> {
            self.inner.default_value(data_type)
        }

        fn supports_null_handling_clause(&self) -> bool {
            self.inner.supports_null_handling_clause()
        }
    };
}

pub(crate) use answers_of_inner_aggregate;
