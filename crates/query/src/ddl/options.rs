//! WITH (...) and OPTIONS (...): what a table may say about itself.

use ashlar_base::{Error, ErrorCode, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{DefElem, a_const};

/// Options of a grid table that exist in this version with one value only: name, the values that mean it.
const FIXED: [(&str, &[&str]); 7] = [
    ("placement", &["partitioned"]),
    ("backups", &["0"]),
    ("persistence", &["none"]),
    ("ttl_ms", &["0"]),
    ("max_idle_ms", &["0"]),
    ("eviction", &["none"]),
    ("memory_max", &[]),
];

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

/// Options of CREATE TABLE: gives `partition_by`.
///
/// # Errors
/// 22023 for an unknown option, 0A000 for a value that is not offered.
pub(super) fn table(options: &[pg_query::Node]) -> Result<Option<String>> {
    let mut partition_by = None;
    for element in elements(options) {
        let value = value_of(element).unwrap_or_default();
        if element.defname == "partition_by" {
            partition_by = Some(value);
            continue;
        }
        match FIXED.iter().find(|(name, _)| *name == element.defname) {
            Some((_, values)) if values.contains(&value.as_str()) => {}
            Some((name, values)) => {
                let error = Error::unsupported(format!("{name} = '{value}' is not supported"));
                return Err(match values.first() {
                    Some(only) => error.with_hint(format!("In this version {name} can only be '{only}'.")),
                    None => error.with_hint("Limit the server's memory with store.memory_mib_max."),
                });
            }
            None => {
                return Err(Error::new(
                    ErrorCode::InvalidParameterValue,
                    format!("unrecognized parameter \"{}\"", element.defname),
                ));
            }
        }
    }
    Ok(partition_by)
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
