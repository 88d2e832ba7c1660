//! Refuses values for numeric parameters that have more decimals than the parameter's type.
//!
//! Called for each value of a Bind message.

use ashlar_base::{Error, Result, ScalarType, SqlType};
use ashlar_protocol::pg::ValueFormat;

/// A numeric parameter that is not for a column of its own scale has ten decimals or those of what it is compared with, and so has
/// each item of an array: more would be lost without a word.
///
/// # Errors
/// 0A000
pub(super) fn refuse(sql_type: SqlType, format: ValueFormat, bytes: Option<&[u8]>, number: usize) -> Result<()> {
    let ScalarType::Numeric { precision: 38, scale } = sql_type.scalar() else { return Ok(()) };
    let Some(bytes) = bytes else { return Ok(()) };
    let decimals = match (format, sql_type.is_array()) {
        (ValueFormat::Binary, false) => of_binary(bytes),
        (ValueFormat::Binary, true) => of_binary_items(bytes),
        (ValueFormat::Text, false) => of_text(bytes),
        (ValueFormat::Text, true) => {
            let items = bytes.split(|byte| matches!(byte, b'{' | b'}' | b',' | b'"'));
            items.map(of_text).max().unwrap_or(0)
        }
    };
    if decimals > i64::from(scale) {
        let brackets = if sql_type.is_array() { "[]" } else { "" };
        return Err(Error::unsupported(format!("parameter ${number} has more than {scale} decimals"))
            .with_hint(format!("Cast it in the statement: $1::numeric(38, 20){brackets}.")));
    }
    Ok(())
}

/// The display scale: the fourth of the header's 16-bit numbers.
fn of_binary(bytes: &[u8]) -> i64 {
    match bytes.get(6..8) {
        Some(&[high, low]) => i64::from(u16::from_be_bytes([high, low])),
        _ => 0,
    }
}

/// Behind five numbers of 32 bits, each item after its length.
fn of_binary_items(bytes: &[u8]) -> i64 {
    let mut rest = bytes.get(20..).unwrap_or_default();
    let mut decimals = 0;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        // NULL has a length of -1.
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let Some((item, after)) = after.split_at_checked(length) else { break };
        decimals = decimals.max(of_binary(item));
        rest = after;
    }
    decimals
}

fn of_text(bytes: &[u8]) -> i64 {
    let bytes = bytes.trim_ascii();
    let exponent_at = bytes.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match exponent_at {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &bytes[..0]),
    };
    let exponent: i64 = std::str::from_utf8(exponent).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let fraction =
        mantissa.iter().position(|byte| *byte == b'.').map_or(&mantissa[..0], |point| &mantissa[point + 1..]);
    let shown = fraction.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last as i64 + 1);
    let is_zero = mantissa.iter().all(|byte| !matches!(byte, b'1'..=b'9'));
    if is_zero { 0 } else { shown.saturating_sub(exponent) }
}

#[cfg(test)]
mod tests {
    use super::{of_text, refuse};
    use ashlar_base::{ScalarType, SqlType};
    use ashlar_protocol::pg::ValueFormat;

    #[test]
    fn decimals_are_counted_as_they_are_written() {
        for (text, expected) in [("1.50", 1), ("-3", 0), (" 0.001 ", 3), ("1e-20", 20), ("2.5e1", 0), ("0e-30", 0)] {
            assert_eq!(of_text(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn items_with_more_decimals_than_a_parameter_has_are_refused() {
        let numeric = ScalarType::Numeric { precision: 38, scale: 10 };
        let (one, many) = (SqlType::Scalar(numeric), SqlType::Array(numeric));
        let text = |sql_type, text: &str| refuse(sql_type, ValueFormat::Text, Some(text.as_bytes()), 1).is_ok();
        assert!(text(one, "1.0123456789") && !text(one, "1.01234567891"));
        assert!(text(many, "{1.5,NULL,0.0123456789}") && !text(many, "{1,0.01234567891}"));
        let mut binary = vec![0; 20];
        for scale in [2u8, 11] {
            binary.extend_from_slice(&[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, scale]);
        }
        assert!(refuse(many, ValueFormat::Binary, Some(&binary[..32]), 1).is_ok());
        assert!(refuse(many, ValueFormat::Binary, Some(&binary), 1).is_err());
    }
}
