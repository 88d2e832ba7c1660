//! The functions that clients call when they read the system tables.
//!
//! [`all`] is registered with the other functions of SQL: these give every session the same answer. Functions that
//! need the catalog or the session are in `bound`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Int64Type};
use ashlar_base::{ScalarType, SqlType};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::relations::plain_type;

/// What a function answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    /// True, unless an argument is NULL: everything is in the search path, and the one role may do everything.
    True,
    /// False.
    False,
    /// NULL: there is nothing of the kind that is asked for.
    Nothing,
    /// The schemas that are searched for names.
    Schemas,
    /// The name of an encoding by its number.
    Encoding,
    /// The number of an encoding by its name, -1 where there is none.
    EncodingNumber,
    /// The name of the encoding of every text here.
    DatabaseEncoding,
    /// An empty text.
    Empty,
    /// A number of bytes in a unit that suits it.
    Bytes,
    /// A type by its OID and modifier.
    TypeName,
    /// The first argument.
    Expression,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SystemFunction {
    name: &'static str,
    answer: Answer,
    signature: Signature,
}

/// A function as it is listed.
struct Declaration {
    name: &'static str,
    answer: Answer,
    arities: &'static [usize],
}

macro_rules! function {
    ($name:literal, $answer:ident, $($arity:literal)|+) => {
        Declaration {
            name: $name,
            answer: Answer::$answer,
            arities: &[$($arity),+],
        }
    };
}

/// All of them.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    let functions = [
        function!("pg_table_is_visible", True, 1),
        function!("pg_type_is_visible", True, 1),
        function!("pg_function_is_visible", True, 1),
        function!("pg_collation_is_visible", True, 1),
        function!("pg_conversion_is_visible", True, 1),
        function!("pg_statistics_obj_is_visible", True, 1),
        function!("pg_opclass_is_visible", True, 1),
        function!("pg_operator_is_visible", True, 1),
        function!("pg_opfamily_is_visible", True, 1),
        function!("pg_ts_config_is_visible", True, 1),
        function!("pg_ts_dict_is_visible", True, 1),
        function!("pg_ts_parser_is_visible", True, 1),
        function!("pg_ts_template_is_visible", True, 1),
        function!("pg_tablespace_location", Empty, 1),
        function!("pg_char_to_encoding", EncodingNumber, 1),
        function!("getdatabaseencoding", DatabaseEncoding, 0),
        function!("pg_size_pretty", Bytes, 1),
        function!("pg_is_in_recovery", False, 0),
        function!("pg_get_partkeydef", Nothing, 1),
        function!("pg_get_viewdef", Nothing, 1 | 2),
        function!("pg_get_triggerdef", Nothing, 1 | 2),
        function!("pg_get_ruledef", Nothing, 1 | 2),
        function!("pg_get_function_result", Nothing, 1),
        function!("pg_get_function_arguments", Nothing, 1),
        function!("pg_get_function_sqlbody", Nothing, 1),
        function!("pg_get_functiondef", Nothing, 1),
        function!("pg_get_function_identity_arguments", Nothing, 1),
        function!("pg_get_statisticsobjdef_columns", Nothing, 1),
        function!("current_schemas", Schemas, 1),
        function!("pg_encoding_to_char", Encoding, 1),
        function!("format_type", TypeName, 2),
        function!("pg_get_expr", Expression, 2 | 3),
    ];
    let build = |Declaration { name, answer, arities }: Declaration| {
        let arity = |count: &usize| if *count == 0 { TypeSignature::Nullary } else { TypeSignature::Any(*count) };
        let signature = Signature::one_of(arities.iter().map(arity).collect(), Volatility::Stable);
        Arc::new(ScalarUDF::from(SystemFunction { name, answer, signature }))
    };
    functions.into_iter().map(build).collect()
}

impl ScalarUDFImpl for SystemFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.answer {
            Answer::True | Answer::False => DataType::Boolean,
            Answer::EncodingNumber => DataType::Int32,
            Answer::Schemas => schemas(false).data_type(),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        match self.answer {
            Answer::False => return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(false)))),
            Answer::Nothing => return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))),
            Answer::DatabaseEncoding => return Ok(ColumnarValue::Scalar(ScalarValue::from("UTF8"))),
            _ => {}
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let result = self.answer(&arrays)?;
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

impl SystemFunction {
    fn answer(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let Some(first) = args.first() else {
            return internal_err!("{} takes an argument", self.name);
        };
        let rows = 0..first.len();
        // An untyped NULL arrives as an array whose elements count as valid.
        let known = |row: usize| args.iter().all(|arg| !arg.data_type().is_null() && arg.is_valid(row));
        match self.answer {
            Answer::True => Ok(Arc::new(rows.map(|row| known(row).then_some(true)).collect::<BooleanArray>())),
            Answer::Schemas => {
                let implicit = cast(first, &DataType::Boolean)?;
                let implicit = implicit.as_boolean();
                let lists = rows.map(|row| match implicit.is_valid(row) {
                    true => Ok(schemas(implicit.value(row))),
                    false => ScalarValue::try_new_null(&schemas(false).data_type()),
                });
                ScalarValue::iter_to_array(lists.collect::<Result<Vec<_>>>()?)
            }
            Answer::Encoding => by_number(first, |number| {
                usize::try_from(number).ok().and_then(|number| ENCODINGS.get(number)).map_or("", |name| name).to_owned()
            }),
            Answer::TypeName => {
                let oids = cast(first, &DataType::Int64)?;
                let oids = oids.as_primitive::<Int64Type>();
                let modifiers = cast(&args[1], &DataType::Int64)?;
                let modifiers = modifiers.as_primitive::<Int64Type>();
                let name = |row: usize| {
                    let modifier = if modifiers.is_valid(row) { modifiers.value(row) } else { -1 };
                    oids.is_valid(row).then(|| format_type(oids.value(row), modifier))
                };
                Ok(Arc::new(rows.map(name).collect::<StringArray>()))
            }
            Answer::Expression => {
                let texts = cast(first, &DataType::Utf8)?;
                let texts = texts.as_string::<i32>();
                Ok(Arc::new(rows.map(|row| known(row).then(|| texts.value(row))).collect::<StringArray>()))
            }
            Answer::Empty => by_number(first, |_| String::new()),
            Answer::Bytes => by_number(first, size_pretty),
            Answer::EncodingNumber => {
                let names = cast(first, &DataType::Utf8)?;
                let number = |name: &str| {
                    let found = ENCODINGS.iter().position(|known| known.eq_ignore_ascii_case(name));
                    found.and_then(|number| i32::try_from(number).ok()).unwrap_or(-1)
                };
                Ok(Arc::new(names.as_string::<i32>().iter().map(|name| name.map(number)).collect::<Int32Array>()))
            }
            Answer::DatabaseEncoding | Answer::False | Answer::Nothing => {
                internal_err!("{} needs no arguments", self.name)
            }
        }
    }
}

pub(super) fn cast(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, data_type, &CastOptions { safe: false, ..CastOptions::default() })?)
}

fn by_number(array: &ArrayRef, text: impl Fn(i64) -> String) -> Result<ArrayRef> {
    let numbers = cast(array, &DataType::Int64)?;
    let texts = numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(&text));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// A number of bytes as PostgreSQL's `pg_size_pretty` writes it: whole numbers below 10240, then the next unit, rounded
/// half up.
fn size_pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    const LIMIT: i64 = 10 * 1024;
    if bytes.saturating_abs() < LIMIT {
        return format!("{bytes} bytes");
    }
    // One more binary digit than the unit needs, to round by.
    let mut halves = bytes / 512;
    for (place, unit) in UNITS.iter().enumerate().skip(1) {
        if halves.saturating_abs() < LIMIT * 2 - 1 || place + 1 == UNITS.len() {
            return format!("{} {unit}", (halves + if halves < 0 { -1 } else { 1 }) / 2);
        }
        halves /= 1024;
    }
    format!("{bytes} bytes")
}

/// The search path: `pg_catalog` is searched implicitly.
fn schemas(with_implicit: bool) -> ScalarValue {
    let names: &[&str] = if with_implicit { &["pg_catalog", "public"] } else { &["public"] };
    let names: Vec<ScalarValue> = names.iter().map(|name| ScalarValue::from(*name)).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8))
}

/// A type as PostgreSQL writes it; `???` for one that is not in `pg_type`.
pub(super) fn format_type(oid: i64, modifier: i64) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let Some(sql_type) = u32::try_from(oid).ok().and_then(SqlType::from_oid) else {
        return "???".to_owned();
    };
    let plain = plain_type(sql_type);
    if modifier < 0 {
        return plain;
    }
    let (element, brackets) = match plain.strip_suffix("[]") {
        Some(element) => (element, "[]"),
        None => (plain.as_str(), ""),
    };
    // numeric(p,s), varchar(n) and character(n) count from 4, the others from 0.
    match sql_type.scalar() {
        ScalarType::Numeric { .. } if modifier >= 4 => {
            let digits = modifier - 4;
            format!("{element}({},{}){brackets}", (digits >> 16) & 0xffff, digits & 0x7ff)
        }
        ScalarType::Varchar { .. } | ScalarType::Char { .. } if modifier > 4 => {
            format!("{element}({}){brackets}", modifier - 4)
        }
        ScalarType::Time | ScalarType::Timestamp | ScalarType::Timestamptz => {
            let (name, zone) = element.split_once(' ').unwrap_or((element, ""));
            format!("{name}({modifier}) {zone}{brackets}")
        }
        _ => plain,
    }
}

/// PostgreSQL's encodings by number.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_postgres_writes_them() {
        let cases = [
            (23, -1, "integer"),
            (1043, 14, "character varying(10)"),
            (1043, -1, "character varying"),
            (1700, (10 << 16) + 2 + 4, "numeric(10,2)"),
            (1231, (10 << 16) + 2 + 4, "numeric(10,2)[]"),
            (1700, -1, "numeric"),
            (1009, -1, "text[]"),
            (1184, 3, "timestamp(3) with time zone"),
            (0, -1, "-"),
            (4_000_000, -1, "???"),
        ];
        for (oid, modifier, expected) in cases {
            assert_eq!(format_type(oid, modifier), expected, "format_type({oid}, {modifier})");
        }
    }

    #[test]
    fn sizes_are_written_as_postgres_writes_them() {
        let cases = [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (10_751, "10 kB"),
            (10_752, "11 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (-20_000, "-20 kB"),
            (i64::MAX, "8192 PB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size_pretty(bytes), expected, "{bytes}");
        }
    }
}
