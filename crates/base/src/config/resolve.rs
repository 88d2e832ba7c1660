//! From what was written to what is in force: default < file < environment < flag, with the origin of each value.
//!
//! Called by the command line. Collects every mistake instead of stopping at the first, and never reads a file.

use super::{Config, FIELDS, Field, ROOMS};
use std::fmt;
use toml::de::{DeTable, DeValue};

/// The prefix of environment variables; `ASHLAR_SERVER__PG_ADDRESS` is `server.pg_address`.
const ENVIRONMENT_PREFIX: &str = "ASHLAR_";

/// Where in a file something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file, as the user named it.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody: the built-in value.
    Default,
    /// The configuration file.
    File(Spot),
    /// This environment variable.
    Environment(String),
    /// This command line flag.
    Flag(String),
}

/// One mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written.
    pub origin: Origin,
    /// `section.field`, where one is concerned.
    pub field: Option<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

/// What a file says, not yet checked against each other.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    written: Vec<(&'static Field, String, Spot)>,
    /// Names that nothing reads: an error in `config check`, a warning at start, so that an older server still
    /// starts with the file of a newer one.
    unknown: Vec<Problem>,
}

/// Everything that may decide a value.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file, if one was named.
    pub file: ConfigFile,
    /// The process environment; variables of others are passed over.
    pub environment: Vec<(String, String)>,
    /// (the flag as typed, `section.field`, value), the last one wins.
    pub flags: Vec<(String, String, String)>,
}

/// The configuration in force and where it came from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The values.
    pub config: Config,
    /// Who decided each of [`FIELDS`], in that order.
    pub origins: Vec<Origin>,
    /// Names in the file or the environment that nothing reads.
    pub unknown: Vec<Problem>,
}

impl ConfigFile {
    /// Reads the text of a file. Wrong values are all reported, each with its line.
    pub fn parse(path: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let spot = |offset: usize| Spot {
            path: path.to_owned(),
            line: 1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count(),
        };
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let problem = |error: &toml::de::Error| Problem {
                origin: Origin::File(spot(error.span().map_or(0, |span| span.start))),
                field: None,
                message: error.message().to_owned(),
            };
            return Err(errors.iter().map(problem).collect());
        }

        let mut file = Self::default();
        let mut wrong = Vec::new();
        for (room_name, room_value) in document.get_ref() {
            let room = room_name.get_ref().as_ref();
            let at = Origin::File(spot(room_name.span().start));
            if !ROOMS.iter().any(|known| known.name == room) {
                let known = ROOMS.iter().map(|room| room.name).collect::<Vec<_>>().join(", ");
                let message = format!("unknown section; the sections are {known}");
                file.unknown.push(Problem { origin: at, field: Some(room.to_owned()), message });
                continue;
            }
            let DeValue::Table(entries) = room_value.get_ref() else {
                wrong.push(Problem {
                    origin: at,
                    field: Some(room.to_owned()),
                    message: format!("is a section: write [{room}]"),
                });
                continue;
            };
            for (name, value) in entries {
                let spot = spot(name.span().start);
                match field_named(room, name.get_ref()) {
                    Err(problem) => file.unknown.push(Problem { origin: Origin::File(spot), ..problem }),
                    Ok(field) => match text_of(field, value.get_ref()).and_then(|text| check(field, text)) {
                        Ok(text) => file.written.push((field, text, spot)),
                        Err(message) => {
                            wrong.push(Problem { origin: Origin::File(spot), field: Some(field.path()), message });
                        }
                    },
                }
            }
        }
        // The parser's tables are sorted by name; people read by line.
        let line = |problem: &Problem| match &problem.origin {
            Origin::File(spot) => spot.line,
            Origin::Default | Origin::Environment(_) | Origin::Flag(_) => 0,
        };
        wrong.sort_by_key(line);
        file.unknown.sort_by_key(line);
        if wrong.is_empty() { Ok(file) } else { Err(wrong) }
    }
}

/// Decides every value, or says everything that is wrong.
pub fn resolve(sources: Sources) -> Result<Resolved, Vec<Problem>> {
    let mut config = Config::default();
    let mut origins = vec![Origin::Default; FIELDS.len()];
    let mut unknown = sources.file.unknown;
    let mut wrong = Vec::new();
    let mut decide = |field: &'static Field, text: &str, origin: Origin| match (field.set)(&mut config, text) {
        Ok(()) => origins[field.ordinal()] = origin,
        Err(message) => wrong.push(Problem { origin, field: Some(field.path()), message }),
    };

    for (field, text, spot) in sources.file.written {
        decide(field, &text, Origin::File(spot));
    }
    for (variable, text) in sources.environment {
        let Some(path) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        // Other ASHLAR_ variables (of test runs, of scripts) have no section.
        let Some((room, name)) = path.split_once("__") else { continue };
        match field_named(&room.to_ascii_lowercase(), &name.to_ascii_lowercase()) {
            Ok(field) => decide(field, &text, Origin::Environment(variable)),
            Err(problem) => unknown.push(Problem { origin: Origin::Environment(variable), ..problem }),
        }
    }
    let mut unknown_flags = Vec::new();
    for (flag, path, text) in sources.flags {
        let (room, name) = path.split_once('.').unwrap_or((path.as_str(), ""));
        match field_named(room, name) {
            Ok(field) => decide(field, &text, Origin::Flag(flag)),
            Err(problem) => unknown_flags.push(Problem { origin: Origin::Flag(flag), ..problem }),
        }
    }
    // Nobody types a flag for another version by accident: unlike in the file, an unknown one is a mistake.
    wrong.append(&mut unknown_flags);

    for (room, name, message) in config.contradictions() {
        if let Ok(field) = field_named(room, name) {
            wrong.push(Problem { origin: origins[field.ordinal()].clone(), field: Some(field.path()), message });
        }
    }
    if wrong.is_empty() { Ok(Resolved { config, origins, unknown }) } else { Err(wrong) }
}

impl Resolved {
    /// Whether nobody decided the value of `section.field`.
    pub fn is_default(&self, path: &str) -> bool {
        FIELDS.iter().zip(&self.origins).any(|(field, origin)| field.path() == path && *origin == Origin::Default)
    }

    /// The configuration as a file that would reproduce it, each value with its origin.
    pub fn show(&self) -> String {
        let mut out = String::new();
        for room in ROOMS {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&format!("[{}]\n", room.name));
            let lines = FIELDS.iter().zip(&self.origins).filter(|(field, _)| field.room == room.name);
            let lines: Vec<_> = lines.map(|(field, origin)| (field.assignment(&self.config), origin)).collect();
            let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
            for (line, origin) in lines {
                out.push_str(&format!("{line:width$}  # {origin}\n"));
            }
        }
        out
    }
}

impl Field {
    /// `section.field`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.room, self.name)
    }

    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}__{}", self.room, self.name).to_ascii_uppercase()
    }

    /// The line of a file that sets it to its value in `config`.
    pub(crate) fn assignment(&self, config: &Config) -> String {
        let value = (self.show)(config);
        if self.quoted { format!("{} = \"{value}\"", self.name) } else { format!("{} = {value}", self.name) }
    }

    fn ordinal(&self) -> usize {
        FIELDS.iter().position(|field| field.room == self.room && field.name == self.name).unwrap_or(0)
    }
}

fn field_named(room: &str, name: &str) -> Result<&'static Field, Problem> {
    if let Some(field) = FIELDS.iter().find(|field| field.room == room && field.name == name) {
        return Ok(field);
    }
    let nearest = FIELDS.iter().map(|field| (distance(&field.path(), &format!("{room}.{name}")), field));
    let message = match nearest.min_by_key(|(distance, _)| *distance) {
        Some((distance, field)) if distance <= 5 => format!("unknown field; did you mean {}?", field.path()),
        _ => "unknown field; `ashlar config show` lists all".to_owned(),
    };
    // What is typed without a dot is told without one.
    let field = if name.is_empty() { room.to_owned() } else { format!("{room}.{name}") };
    Err(Problem { origin: Origin::Default, field: Some(field), message })
}

/// The text of a value in the file, if it has the field's TOML type.
fn text_of(field: &Field, value: &DeValue<'_>) -> Result<String, String> {
    let (text, quoted) = match value {
        DeValue::String(text) => (text.as_ref().to_owned(), true),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            let number = i128::from_str_radix(&digits, number.radix()).map_err(|_| format!("{digits} is too large"))?;
            (number.to_string(), false)
        }
        DeValue::Boolean(value) => (value.to_string(), false),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            return Err(format!("expected {}, found {}", field.accepts, value.type_str()));
        }
    };
    if quoted == field.quoted {
        Ok(text)
    } else {
        let marks = if field.quoted { "between quotation marks" } else { "without quotation marks" };
        Err(format!("expected {} {marks}, found {}", field.accepts, value.type_str()))
    }
}

fn check(field: &Field, text: String) -> Result<String, String> {
    (field.set)(&mut Config::default(), &text).map(|()| text)
}

/// Levenshtein's distance, for names a few dozen characters long.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (place, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (column, to) in right.iter().enumerate() {
            let substitution = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = substitution.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(spot) => write!(f, "{}:{}", spot.path, spot.line),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}
