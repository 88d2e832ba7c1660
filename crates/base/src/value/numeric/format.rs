//! `to_char` of numbers: the patterns `9 0 . , D G` and `FM`, as PostgreSQL writes them, and what stands around them and means itself, as `%`;
//! every other is refused.
//!
//! Called by the query crate's function, with the number's decimal text.

use crate::{Error, Result};

/// What a template asks for.
struct Template {
    /// Omits blanks and the zeros that nobody asked for.
    fill: bool,
    /// `9`, `0` and `,` before the point.
    whole: Vec<u8>,
    /// `9` and `0` behind it; `None` without a point.
    fraction: Option<Vec<u8>>,
    /// What is written before the number, and behind it.
    around: (String, String),
}

/// Whether a character of a template means itself, before the patterns and behind them.
fn is_itself(character: char) -> bool {
    matches!(character, '%' | '$' | '€' | '£' | ' ' | '(' | ')' | '#' | '/' | ':')
}

fn template(pattern: &str) -> Result<Template> {
    let unsupported = || Error::unsupported(format!("the template \"{pattern}\" of to_char is not supported"));
    let (fill, rest) = match pattern.strip_prefix("FM").or_else(|| pattern.strip_prefix("fm")) {
        Some(rest) => (false, rest),
        None => (true, pattern),
    };
    let core = rest.trim_start_matches(is_itself);
    let before = rest[..rest.len() - core.len()].to_owned();
    let rest = core.trim_end_matches(is_itself);
    let around = (before, core[rest.len()..].to_owned());
    let rest = rest.to_ascii_uppercase().replace('D', ".").replace('G', ",");
    let (whole, fraction) = match rest.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (rest.as_str(), None),
    };
    let is_digit = |byte: u8| matches!(byte, b'9' | b'0');
    let fits = whole.bytes().all(|byte| is_digit(byte) || byte == b',')
        && whole.bytes().next().is_some_and(is_digit)
        && whole.bytes().next_back().is_some_and(is_digit)
        && fraction.is_none_or(|fraction| !fraction.is_empty() && fraction.bytes().all(is_digit));
    if !fits {
        return Err(unsupported());
    }
    let fraction = fraction.map(|fraction| fraction.as_bytes().to_vec());
    Ok(Template { fill, whole: whole.into(), fraction, around })
}

/// How many digits behind the point a template shows.
///
/// # Errors
/// 0A000
pub fn fraction_digits(pattern: &str) -> Result<usize> {
    Ok(template(pattern)?.fraction.map_or(0, |fraction| fraction.len()))
}

/// A number by a template: `digits` is its decimal text, without a sign, rounded to the template's fraction.
///
/// # Errors
/// 0A000
pub fn to_char(is_negative: bool, digits: &str, pattern: &str) -> Result<String> {
    let template = template(pattern)?;
    let (before, behind) = &template.around;
    Ok(format!("{before}{}{behind}", shown(is_negative, digits, &template)))
}

/// The number itself.
fn shown(is_negative: bool, digits: &str, template: &Template) -> String {
    let (fill, whole, fraction) = (template.fill, &template.whole, template.fraction.as_ref());
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let before = before.trim_start_matches('0');
    let is_zero = before.is_empty() && behind.bytes().all(|byte| byte == b'0');
    let sign = if is_negative && !is_zero {
        "-"
    } else if fill {
        " "
    } else {
        ""
    };
    let places = whole.iter().filter(|byte| **byte != b',').count();
    if before.len() > places {
        let hidden = whole.iter().map(|byte| if *byte == b',' { ',' } else { '#' }).collect::<String>();
        let behind = fraction.map_or_else(String::new, |fraction| format!(".{}", "#".repeat(fraction.len())));
        return format!("{sign}{hidden}{behind}");
    }
    // A template with FM drops the zeros at the end that are `9` in it.
    let kept = match fraction {
        None => 0,
        Some(fraction) if fill => fraction.len(),
        Some(fraction) => {
            let asked = fraction.iter().rposition(|byte| *byte == b'0').map_or(0, |last| last + 1);
            let needed = behind.bytes().rposition(|byte| byte != b'0').map_or(0, |last| last + 1);
            asked.max(needed)
        }
    };
    // Less than one has no digit before the point, unless nothing else would be left.
    let shown = if before.is_empty() && (fraction.is_none() || kept == 0) { "0" } else { before };
    let digit_places = whole.iter().filter(|byte| **byte != b',');
    let first_zero = digit_places.clone().position(|byte| *byte == b'0').unwrap_or(places);
    let start = first_zero.min(places - shown.len());
    let mut out = String::new();
    let mut place = 0;
    for byte in whole {
        if *byte == b',' {
            if place > start {
                out.push(',');
            }
            continue;
        }
        if place >= start {
            let digit = (place + shown.len()).checked_sub(places).map_or('0', |at| char::from(shown.as_bytes()[at]));
            out.push(digit);
        }
        place += 1;
    }
    let blanks = if fill { whole.len() - out.len() } else { 0 };
    let mut result = " ".repeat(blanks);
    result.push_str(sign);
    result.push_str(&out);
    if fraction.is_some() {
        result.push('.');
        result.push_str(&behind[..kept]);
    }
    result
}

#[cfg(test)]
mod tests;
