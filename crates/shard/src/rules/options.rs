//! The options of `USING sharded WITH (...)`: names, numbers, lists of values. Knows how they are written, not what they
//! mean together.

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, Result};

use super::{Key, KeyClass};

/// All options there are, with what they say.
const KNOWN: &[(&str, &str)] = &[
    ("servers", "names of servers, separated by commas"),
    ("algorithm", "hash_mod, pg_hash, mod, list, range, boundary, volume or interval"),
    ("shards", "how many physical tables, where that is not one for each server"),
    ("lists", "values of each shard: 'de,at; us; *'"),
    ("ranges", "a range for each shard: '0..100; 100..200'"),
    ("boundaries", "where one shard ends and the next begins: '100,200'"),
    ("lower", "where the first volume or interval begins"),
    ("upper", "where the last volume or interval ends"),
    ("volume", "numbers in each shard"),
    ("interval", "time in each shard: '1 month'"),
    ("schema", "the tables' schema on the servers"),
    ("schema_suffix", "what is added to the schema's name; {} stands for the shard"),
    ("table_suffix", "what is added to the table's name; {} stands for the shard"),
    ("colocate_with", "a sharded table whose rule this one takes over"),
    ("broadcast", "every row is on every server"),
    ("single", "all rows are on one server"),
    ("key_generator", "snowflake or uuidv7"),
    ("generated_column", "the column of key_generator"),
    ("attach", "the tables are there already"),
    ("attach_check", "whether all rows of such tables are looked at"),
];

/// Options as written, each known and given once.
pub(super) struct Options<'a>(&'a [(String, String)]);

/// An error about an option's value.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameterValue, message)
}

impl<'a> Options<'a> {
    /// # Errors
    /// 22023 for an option that nobody knows, 42601 for one that is given twice.
    pub(super) fn new(given: &'a [(String, String)]) -> Result<Self> {
        for (at, (name, _)) in given.iter().enumerate() {
            if !KNOWN.iter().any(|(known, _)| known == name) {
                let names: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
                return Err(invalid(format!("unrecognized parameter \"{name}\""))
                    .with_hint(format!("Parameters of sharded tables: {}.", names.join(", "))));
            }
            if given[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::new(
                    ErrorCode::SyntaxError,
                    format!("parameter \"{name}\" specified more than once"),
                ));
            }
        }
        Ok(Self(given))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.trim())
    }

    /// An option that something else makes necessary.
    pub(super) fn required(&self, name: &str, by: &str) -> Result<&'a str> {
        self.get(name).ok_or_else(|| {
            let meaning = KNOWN.iter().find(|(known, _)| *known == name).map_or("", |(_, meaning)| *meaning);
            invalid(format!("{by} needs the parameter \"{name}\"")).with_hint(format!("{name} = {meaning}."))
        })
    }

    /// A yes or no; no where it is not given.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "off" | "no" | "0") => Ok(false),
            Some("true" | "on" | "yes" | "1") => Ok(true),
            Some(other) => Err(invalid(format!("invalid value for boolean parameter \"{name}\": {other}"))
                .with_hint("Write true or false.")),
        }
    }

    /// A number of at least one.
    pub(super) fn count(&self, name: &str) -> Result<Option<usize>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse::<usize>() {
            Ok(count @ 1..) => Ok(Some(count)),
            _ => Err(invalid(format!("invalid value for parameter \"{name}\": \"{text}\""))
                .with_hint("Write a whole number of at least one.")),
        }
    }

    /// Refuses options that mean nothing here.
    pub(super) fn only(&self, allowed: &[&str], here: &str) -> Result<()> {
        match self.0.iter().find(|(name, _)| !allowed.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => Err(invalid(format!("parameter \"{name}\" has no meaning for {here}"))
                .with_hint(format!("Leave it out; {here} takes: {}.", allowed.join(", ")))),
        }
    }
}

/// Cuts at a separator outside of single quotes; pieces are trimmed and keep their quotes.
pub(super) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        if character == '\'' {
            is_quoted = !is_quoted;
        } else if character == separator && !is_quoted {
            pieces.push(text[start..at].trim());
            start = at + 1;
        }
    }
    pieces.push(text[start..].trim());
    pieces
}

/// Cuts `low..high` in two.
pub(super) fn split_range(text: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let at = text.char_indices().find(|(at, character)| {
        is_quoted ^= *character == '\'';
        !is_quoted && text[*at..].starts_with("..")
    });
    at.map(|(at, _)| (text[..at].trim(), text[at + 2..].trim()))
}

/// A key as an option writes it, in quotes or without.
pub(super) fn key(class: KeyClass, option: &str, written: &str) -> Result<Key> {
    let unquoted = match written.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => written.to_owned(),
    };
    let hint = || format!("The sharding key is of type {}.", class.sql_type());
    let wrong = || invalid(format!("invalid value \"{written}\" in parameter \"{option}\"")).with_hint(hint());
    if unquoted.is_empty() && !written.starts_with('\'') {
        return Err(wrong());
    }
    let value = text::parse(class.sql_type(), &unquoted, &TextStyle::default()).map_err(|_| wrong())?;
    Key::new(class, &value.as_datum())?.ok_or_else(wrong)
}
