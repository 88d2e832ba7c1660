//! `x = ANY (array)`, `x <> ALL (array)` and the like, where a NULL in the array makes an open answer NULL.
//!
//! The parser's tree is rewritten to calls of these ([`name`]); the rule that settles functions gives both sides types.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{BooleanArray, BooleanBuilder};
use arrow::datatypes::DataType;
use ashlar_base::{Comparison, Datum, SqlType, Value};
use ashlar_store::ColumnReader;
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::expr::InList;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::external;

/// Those that SQL writes with a sign, in front of ANY and ALL.
const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// The comparison that SQL writes so in front of ANY or ALL.
pub fn of_sign(sign: &str) -> Option<Comparison> {
    let sign = if sign == "!=" { "<>" } else { sign };
    COMPARISONS.into_iter().find(|comparison| comparison.sign() == sign)
}

/// See the module.
#[derive(Debug)]
pub struct Quantified {
    name: String,
    /// The comparison.
    pub comparison: Comparison,
    /// ALL, not ANY.
    pub is_all: bool,
    signature: Signature,
}

impl PartialEq for Quantified {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Quantified {}
impl Hash for Quantified {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The name under which a quantified comparison is registered: nothing that SQL can write without quotes.
pub fn name(comparison: Comparison, is_all: bool) -> String {
    format!("{} {}", comparison.sign(), if is_all { "all" } else { "any" })
}

/// All twelve.
pub fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
    COMPARISONS.into_iter().flat_map(|comparison| [false, true].map(|is_all| (comparison, is_all))).map(
        |(comparison, is_all)| {
            Arc::new(ScalarUDF::from(Quantified {
                name: name(comparison, is_all),
                comparison,
                is_all,
                signature: Signature::any(2, Volatility::Immutable),
            }))
        },
    )
}

/// How two values of one type compare in PostgreSQL; `None` for types that have no order here.
pub(crate) fn compare(left: &Datum<'_>, right: &Value) -> Option<Ordering> {
    fn floats(left: f64, right: f64) -> Ordering {
        // NaN is equal to itself and greater than everything.
        left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
    }
    Some(match (left, right) {
        (Datum::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Datum::Int2(left), Value::Int2(right)) => left.cmp(right),
        (Datum::Int4(left), Value::Int4(right)) => left.cmp(right),
        (Datum::Int8(left), Value::Int8(right)) => left.cmp(right),
        (Datum::Float4(left), Value::Float4(right)) => floats(f64::from(*left), f64::from(*right)),
        (Datum::Float8(left), Value::Float8(right)) => floats(*left, *right),
        (Datum::Numeric(left), Value::Numeric(right)) => left.cmp(right),
        (Datum::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Datum::Bytea(left), Value::Bytea(right)) => (*left).cmp(right.as_ref()),
        (Datum::Date(left), Value::Date(right)) => left.cmp(right),
        (Datum::Time(left), Value::Time(right)) | (Datum::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        (Datum::Uuid(left), Value::Uuid(right)) => left.cmp(right),
        _ => return None,
    })
}

impl Quantified {
    fn decide(&self, needle: &Datum<'_>, items: &[Value]) -> Result<Option<bool>> {
        let mut has_null = false;
        for item in items {
            if item.is_null() || needle.is_null() {
                has_null = true;
                continue;
            }
            let Some(ordering) = compare(needle, item) else {
                return Err(external(ashlar_base::Error::unsupported(
                    "comparing values of this type with the items of an array is not supported",
                )));
            };
            if self.comparison.holds(ordering) != self.is_all {
                return Ok(Some(!self.is_all));
            }
        }
        Ok(if has_null { None } else { Some(self.is_all) })
    }
}

impl ScalarUDFImpl for Quantified {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    /// `= ANY` and `<> ALL` of a constant array are IN lists, which filters and scans know.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let negated = match (self.comparison, self.is_all) {
            (Comparison::Equal, false) => false,
            (Comparison::NotEqual, true) => true,
            _ => return Ok(ExprSimplifyResult::Original(args)),
        };
        let [needle, Expr::Literal(ScalarValue::List(list), _)] = &args[..] else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let items = list.value(0);
        if arrow::array::Array::is_null(list.as_ref(), 0) || items.is_empty() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let items = (0..items.len())
            .map(|row| Ok(Expr::Literal(ScalarValue::try_from_array(&items, row)?, None)))
            .collect::<Result<Vec<Expr>>>()?;
        let list = InList { expr: Box::new(needle.clone()), list: items, negated };
        Ok(ExprSimplifyResult::Simplified(Expr::InList(list)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [needle, items] = &args.args[..] else { return internal_err!("{} takes two arguments", self.name) };
        let (Some(needle_type), Some(items_type)) =
            (sql_type_of(&args.arg_fields[0]), sql_type_of(&args.arg_fields[1]))
        else {
            return internal_err!("{} compares SQL values", self.name);
        };
        if !matches!(items_type, SqlType::Array(_)) {
            // A NULL without a type.
            return Ok(ColumnarValue::Array(Arc::new(BooleanArray::new_null(args.number_rows))));
        }
        let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let rows = |value: &ColumnarValue| if is_constant(value) { 1 } else { args.number_rows };
        let needle_array = needle.to_array(rows(needle))?;
        let items_array = items.to_array(rows(items))?;
        let needles = ColumnReader::new(&needle_array, needle_type).map_err(external)?;
        let lists = ColumnReader::new(&items_array, items_type).map_err(external)?;
        // A constant array is read once.
        let constant = if is_constant(items) { Some(lists.datum(0)) } else { None };
        let mut builder = BooleanBuilder::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let needle = needles.datum(if is_constant(needle) { 0 } else { row });
            let read;
            let list = match &constant {
                Some(list) => list,
                None => {
                    read = lists.datum(row);
                    &read
                }
            };
            builder.append_option(match list {
                Datum::Array(items) => self.decide(&needle, &items.to_values())?,
                _ => None,
            });
        }
        Ok(ColumnarValue::Array(Arc::new(builder.finish())))
    }
}
