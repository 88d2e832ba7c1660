//! WITH (...) and OPTIONS (...): the options that a table may have, and their values.

use ashlar_base::{Error, ErrorCode, Eviction, LifeOptions, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{DefElem, a_const};

/// Options of a grid table that exist in this version with one value only: name, the values that mean it.
const FIXED: [(&str, &[&str]); 3] = [("placement", &["partitioned"]), ("backups", &["0"]), ("persistence", &["none"])];

/// What WITH says about a table.
#[derive(Default)]
pub(crate) struct TableOptions {
    /// The column whose text gives the slot.
    pub(crate) partition_by: Option<String>,
    /// How long rows live, and how much memory they may take.
    pub(crate) life: LifeOptions,
}

/// Milliseconds at most: some ten thousand years, so that no time that is computed with them overflows.
const MS_MAX: u64 = 1 << 48;
/// Bytes at least: each of a table's partitions takes some hundred, and each of their columns.
const MEMORY_MIN: u64 = 1 << 20;
/// Units of memory, the largest first.
const UNITS: [(&str, u64); 5] = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

/// The options themselves.
pub(super) fn elements(options: &[pg_query::Node]) -> impl Iterator<Item = &DefElem> {
    options.iter().filter_map(|option| match &option.node {
        Some(NodeEnum::DefElem(element)) => Some(element.as_ref()),
        _ => None,
    })
}

/// The value of an option as text.
pub(super) fn value_of(element: &DefElem) -> Option<String> {
    match element.arg.as_ref()?.node.as_ref()? {
        NodeEnum::String(string) => Some(string.sval.clone()),
        NodeEnum::Integer(integer) => Some(integer.ival.to_string()),
        NodeEnum::Float(float) => Some(float.fval.clone()),
        NodeEnum::Boolean(boolean) => Some(boolean.boolval.to_string()),
        NodeEnum::TypeName(name) => {
            name.names.iter().filter_map(crate::sql_types::string_of).next_back().map(str::to_owned)
        }
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Sval(value) => Some(value.sval.clone()),
            a_const::Val::Ival(value) => Some(value.ival.to_string()),
            a_const::Val::Fval(value) => Some(value.fval.clone()),
            a_const::Val::Boolval(value) => Some(value.boolval.to_string()),
            a_const::Val::Bsval(_) => None,
        },
        _ => None,
    }
}

/// Options of CREATE TABLE.
///
/// # Errors
/// 22023 for an unknown option or a value that is none, 0A000 for a value that is not offered.
pub(super) fn table(options: &[pg_query::Node]) -> Result<TableOptions> {
    let mut result = TableOptions::default();
    for element in elements(options) {
        let value = value_of(element).unwrap_or_default();
        if element.defname == "fillfactor" {
            check_fill(&value)?;
        } else if element.defname == "partition_by" {
            result.partition_by = Some(value);
        } else if !set_life(&mut result.life, &element.defname, &value)? {
            check_fixed(&element.defname, &value)?;
        }
    }
    Ok(result)
}

/// PostgreSQL's hint of how full its pages are to be. There are no pages here, and no answer depends on it.
///
/// # Errors
/// 22023 for a value that is none.
pub(super) fn check_fill(value: &str) -> Result<()> {
    let invalid = |message: String| Error::new(ErrorCode::InvalidParameterValue, message);
    // A number with a fraction is rounded.
    let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    match number.map(f64::round_ties_even) {
        Some(number) if (10.0..=100.0).contains(&number) => Ok(()),
        Some(_) => Err(invalid(format!("value {value} out of bounds for option \"fillfactor\""))
            .with_detail("Valid values are between \"10\" and \"100\".")),
        None => Err(invalid(format!("invalid value for integer option \"fillfactor\": {value}"))),
    }
}

fn check_fixed(name: &str, value: &str) -> Result<()> {
    match FIXED.iter().find(|(known, _)| *known == name) {
        Some((_, values)) if values.contains(&value) => Ok(()),
        Some((_, values)) => {
            let error = Error::unsupported(format!("{name} = '{value}' is not supported"));
            Err(match values.first() {
                Some(only) => error.with_hint(format!("In this version {name} can only be '{only}'.")),
                None => error,
            })
        }
        None => Err(Error::new(ErrorCode::InvalidParameterValue, format!("unrecognized parameter \"{name}\""))),
    }
}

/// ALTER TABLE ... SET (...)
///
/// # Errors
/// As [`table`]; 0A000 for `partition_by`.
pub(super) fn set(life: &mut LifeOptions, options: &[pg_query::Node]) -> Result<()> {
    for element in elements(options) {
        let value = value_of(element).unwrap_or_default();
        if element.defname == "partition_by" {
            return Err(Error::unsupported("partition_by of a table cannot be changed"));
        }
        if !set_life(life, &element.defname, &value)? {
            check_fixed(&element.defname, &value)?;
        }
    }
    Ok(())
}

/// ALTER TABLE ... RESET (...); what is not known is not set either, as in PostgreSQL.
///
/// # Errors
/// 42601 where a value is given.
pub(super) fn reset(life: &mut LifeOptions, options: &[pg_query::Node]) -> Result<()> {
    let none = LifeOptions::default();
    for element in elements(options) {
        if element.arg.is_some() {
            return Err(Error::new(ErrorCode::SyntaxError, "RESET must not include values for parameters"));
        }
        match element.defname.as_str() {
            "ttl_ms" => life.ttl_ms = none.ttl_ms,
            "max_idle_ms" => life.max_idle_ms = none.max_idle_ms,
            "memory_max" => life.memory_max = none.memory_max,
            "eviction" => life.eviction = none.eviction,
            _ => {}
        }
    }
    Ok(())
}

/// Sets one option, if it is about the life of rows.
fn set_life(life: &mut LifeOptions, name: &str, value: &str) -> Result<bool> {
    match name {
        "ttl_ms" => life.ttl_ms = milliseconds(name, value)?,
        "max_idle_ms" => life.max_idle_ms = milliseconds(name, value)?,
        "memory_max" => life.memory_max = bytes(name, value)?,
        "eviction" => {
            let wanted = value.to_ascii_lowercase();
            let known = Eviction::ALL.into_iter().find(|eviction| eviction.name() == wanted);
            life.eviction = known.ok_or_else(|| {
                Error::new(
                    ErrorCode::InvalidParameterValue,
                    format!("invalid value for enum option \"{name}\": {value}"),
                )
                .with_detail("Valid values are \"none\", \"lru\", \"lfu\" and \"random\".")
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn milliseconds(name: &str, value: &str) -> Result<u64> {
    let number: i128 = value.trim().parse().map_err(|_| {
        Error::new(ErrorCode::InvalidParameterValue, format!("invalid value for integer option \"{name}\": {value}"))
    })?;
    u64::try_from(number).ok().filter(|number| *number <= MS_MAX).ok_or_else(|| {
        Error::new(ErrorCode::InvalidParameterValue, format!("value {value} out of bounds for option \"{name}\""))
            .with_detail(format!("Valid values are between \"0\" and \"{MS_MAX}\"."))
    })
}

/// `2147483648`, `2GB`, `512 MB`.
fn bytes(name: &str, value: &str) -> Result<u64> {
    let text = value.trim();
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim());
    let factor =
        if unit.is_empty() { Some(1) } else { UNITS.iter().find(|(known, _)| *known == unit).map(|unit| unit.1) };
    let number = digits.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    let number = number.ok_or_else(|| {
        Error::new(ErrorCode::InvalidParameterValue, format!("invalid value for option \"{name}\": {value}"))
            .with_hint("A whole number of bytes, or of \"B\", \"kB\", \"MB\", \"GB\" or \"TB\".")
    })?;
    if number > 0 && number < MEMORY_MIN {
        let message = format!("value {value} out of bounds for option \"{name}\"");
        return Err(Error::new(ErrorCode::InvalidParameterValue, message)
            .with_detail("Valid values are \"0\", which is no bound, and \"1MB\" and more."));
    }
    Ok(number)
}

/// What a table says, as `name=value`.
pub(crate) fn stated(life: &LifeOptions) -> Vec<String> {
    let mut stated = Vec::new();
    for (name, value) in [("ttl_ms", life.ttl_ms), ("max_idle_ms", life.max_idle_ms)] {
        if value > 0 {
            stated.push(format!("{name}={value}"));
        }
    }
    if life.memory_max > 0 {
        let whole = UNITS.iter().find(|(_, factor)| life.memory_max.is_multiple_of(*factor));
        let (unit, factor) = whole.copied().unwrap_or(("B", 1));
        stated.push(format!("memory_max={}{unit}", life.memory_max / factor));
    }
    if life.eviction != Eviction::None {
        stated.push(format!("eviction={}", life.eviction.name()));
    }
    stated
}

/// OPTIONS of a table over files: path and format.
///
/// # Errors
/// 22023 where the path is missing or an option is unknown.
pub(super) fn file(options: &[pg_query::Node]) -> Result<(String, String)> {
    let mut path = None;
    let mut format = "parquet".to_owned();
    for element in elements(options) {
        let value = value_of(element).unwrap_or_default();
        match element.defname.as_str() {
            "path" => path = Some(value),
            "format" => format = value,
            other => {
                return Err(Error::new(ErrorCode::InvalidParameterValue, format!("invalid option \"{other}\""))
                    .with_hint("Valid options are: path, format"));
            }
        }
    }
    let path = path.ok_or_else(|| {
        Error::new(ErrorCode::InvalidParameterValue, "option \"path\" is required")
            .with_hint("OPTIONS (path 'directory/*.parquet', format 'parquet')")
    })?;
    Ok((path, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_are_read_and_shown() {
        let cases =
            [("2GB", "2GB"), ("2147483648", "2GB"), ("512 MB", "512MB"), ("1025kB", "1025kB"), ("2000001", "2000001B")];
        for (written, shown) in cases {
            let mut life = LifeOptions::default();
            assert_eq!(set_life(&mut life, "memory_max", written), Ok(true));
            assert_eq!(stated(&life), [format!("memory_max={shown}")], "{written}");
        }
        for refused in ["", "GB", "-1", "1.5GB", "1gb", "1000", "99999999999TB"] {
            let error = set_life(&mut LifeOptions::default(), "memory_max", refused).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidParameterValue, "{refused}");
        }
    }
}
