//! `serial` and `GENERATED ... AS IDENTITY (...)`: how a column counts.

use ashlar_base::{Error, ErrorCode, Result, ScalarType, Sequence, SequenceKind, SqlType};
use pg_query::protobuf::{Constraint, DefElem};

use super::{named_sequence, options};

/// The largest and the smallest number of an integer type; `None` for another type.
fn bounds(scalar: ScalarType) -> Option<(i64, i64)> {
    match scalar {
        ScalarType::Int2 => Some((i16::MIN.into(), i16::MAX.into())),
        ScalarType::Int4 => Some((i32::MIN.into(), i32::MAX.into())),
        ScalarType::Int8 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

/// How a `serial` column of the integer type counts.
pub(super) fn of_type(scalar: ScalarType) -> Sequence {
    Sequence { max: bounds(scalar).map_or(i64::MAX, |(_, max)| max), ..Sequence::BY_ONES }
}

/// How an identity column counts.
///
/// # Errors
/// 22023 where the type or an option does not fit, 42601 for an option that stands there twice, 0A000 for CYCLE.
pub(super) fn of_identity(constraint: &Constraint, sql_type: SqlType) -> Result<Sequence> {
    let SqlType::Scalar(scalar @ (ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8)) = sql_type else {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(Error::new(ErrorCode::InvalidParameterValue, message));
    };
    let kind = if constraint.generated_when == "a" { SequenceKind::Always } else { SequenceKind::ByDefault };
    of_options(&constraint.options, &[], scalar, kind)
}

/// How a column counts that becomes an identity column later; a dump names its sequence, too.
///
/// # Errors
/// As [`of_identity`].
pub(super) fn of_added_identity(constraint: &Constraint, sql_type: SqlType) -> Result<Sequence> {
    let is_name = |node: &pg_query::Node| {
        options::elements(std::slice::from_ref(node)).any(|option| option.defname == named_sequence::NAME)
    };
    let mut plain = constraint.clone();
    plain.options.retain(|node| !is_name(node));
    of_identity(&plain, sql_type)
}

/// How something counts in numbers of a type; options of these names are none of its business.
///
/// # Errors
/// As [`of_identity`].
pub(super) fn of_options(
    elements: &[pg_query::Node],
    others: &[&str],
    scalar: ScalarType,
    kind: SequenceKind,
) -> Result<Sequence> {
    let invalid = |message: String| Error::new(ErrorCode::InvalidParameterValue, message);
    let Some((type_min, type_max)) = bounds(scalar) else {
        return Err(invalid("sequence type must be smallint, integer, or bigint".to_owned()));
    };
    let (one, all) = match kind {
        SequenceKind::Serial => ("a sequence", "sequences"),
        SequenceKind::ByDefault | SequenceKind::Always => ("an identity column", "identity columns"),
    };
    let (mut start, mut increment, mut min, mut max) = (None, None, None, None);
    for element in options::elements(elements) {
        if others.contains(&element.defname.as_str()) {
            continue;
        }
        let target = match element.defname.as_str() {
            "start" => &mut start,
            "increment" => &mut increment,
            "minvalue" => &mut min,
            "maxvalue" => &mut max,
            // Numbers are taken one by one, which is what a cache of any size may do.
            "cache" if number(element)?.is_none_or(|size| size > 0) => continue,
            "cache" => return Err(invalid("CACHE (0) must be greater than zero".to_owned())),
            "cycle" if options::value_of(element).is_none_or(|value| value == "false") => continue,
            "cycle" => return Err(Error::unsupported(format!("{all} that CYCLE are not supported"))),
            other => {
                let option = other.replace('_', " ").to_uppercase();
                return Err(Error::unsupported(format!("{option} of {one} is not supported")));
            }
        };
        if target.replace(number(element)?).is_some() {
            return Err(Error::new(ErrorCode::SyntaxError, "conflicting or redundant options"));
        }
    }
    let increment = increment.flatten().unwrap_or(1);
    if increment == 0 {
        return Err(invalid("INCREMENT must not be zero".to_owned()));
    }
    let of_sign = if increment > 0 { (1, type_max) } else { (type_min, -1) };
    let (min, max) = (min.flatten().unwrap_or(of_sign.0), max.flatten().unwrap_or(of_sign.1));
    for (name, value) in [("MAXVALUE", max), ("MINVALUE", min)] {
        if !(type_min..=type_max).contains(&value) {
            return Err(invalid(format!("{name} ({value}) is out of range for sequence data type {scalar}")));
        }
    }
    let start = start.flatten().unwrap_or(if increment > 0 { min } else { max });
    check_bounds(min, max)?;
    check_number("START", start, (min, max))?;
    Ok(Sequence { start, increment, min, max, kind })
}

/// How a column goes on counting that gets another type: the sequence of an identity column gets it too, that of a `serial` column stays as
/// it is. `last` is the number that it has given last.
///
/// # Errors
/// 22023 for a type that is no integer, for one that has not the numbers between the sequence's bounds, and where the first or the last number
/// is out of the new bounds; 0A000 for a `serial` column.
pub(super) fn of_retyped(counts: Sequence, from: SqlType, to: SqlType, last: i64) -> Result<Sequence> {
    let invalid = |message: String| Error::new(ErrorCode::InvalidParameterValue, message);
    let bounds_of = |sql_type: SqlType| match sql_type {
        SqlType::Scalar(scalar) => bounds(scalar),
        SqlType::Array(_) => None,
    };
    let is_serial = counts.kind == SequenceKind::Serial;
    let (Some((from_min, from_max)), Some((to_min, to_max))) = (bounds_of(from), bounds_of(to)) else {
        return Err(match is_serial {
            true => Error::unsupported(format!("type {to} of a column that counts is not supported"))
                .with_hint("Drop its default before."),
            false => invalid("identity column type must be smallint, integer, or bigint".to_owned()),
        });
    };
    if is_serial {
        return Ok(counts);
    }
    // A bound that was the type's is that of the new one.
    let max = if counts.max == from_max { to_max } else { counts.max };
    let min = if counts.min == from_min { to_min } else { counts.min };
    for (name, value) in [("MAXVALUE", max), ("MINVALUE", min)] {
        if !(to_min..=to_max).contains(&value) {
            return Err(invalid(format!("{name} ({value}) is out of range for sequence data type {to}")));
        }
    }
    check_bounds(min, max)?;
    check_number("START", counts.start, (min, max))?;
    // PostgreSQL calls it so, whether or not there was a RESTART.
    check_number("RESTART", last, (min, max))?;
    Ok(Sequence { min, max, ..counts })
}

fn check_bounds(min: i64, max: i64) -> Result<()> {
    if min < max {
        return Ok(());
    }
    let message = format!("MINVALUE ({min}) must be less than MAXVALUE ({max})");
    Err(Error::new(ErrorCode::InvalidParameterValue, message))
}

/// 22023 for a number of a sequence that is out of its bounds.
fn check_number(what: &str, number: i64, (min, max): (i64, i64)) -> Result<()> {
    let (side, bound) = if number < min {
        ("less than MINVALUE", min)
    } else if number > max {
        ("greater than MAXVALUE", max)
    } else {
        return Ok(());
    };
    let message = format!("{what} value ({number}) cannot be {side} ({bound})");
    Err(Error::new(ErrorCode::InvalidParameterValue, message))
}

/// The number of `RESTART [WITH n]`, as the options of ALTER COLUMN say it; `None` where they say anything else.
///
/// # Errors
/// 22023 where the number is out of the sequence's bounds.
pub(super) fn restart(elements: &[pg_query::Node], sequence: &Sequence) -> Result<Option<i64>> {
    let mut elements = options::elements(elements);
    let (Some(element), None) = (elements.next(), elements.next()) else { return Ok(None) };
    if element.defname != "restart" {
        return Ok(None);
    }
    let number = number(element)?.unwrap_or(sequence.start);
    check_number("RESTART", number, (sequence.min, sequence.max))?;
    Ok(Some(number))
}

/// The number of an option; `None` for `NO MINVALUE` and the like.
fn number(element: &DefElem) -> Result<Option<i64>> {
    let Some(text) = options::value_of(element) else { return Ok(None) };
    let out_of_range =
        || Error::new(ErrorCode::NumericOutOfRange, format!("value \"{text}\" is out of range for type bigint"));
    text.parse().map(Some).map_err(|_| out_of_range())
}
