//! Settings of a session: what clients SET, SHOW and are told of.

use std::collections::BTreeMap;

use ashlar_base::config::Config;
use ashlar_base::value::text::TextStyle;
use ashlar_base::value::text::Zone;
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::functions::session::POSTGRES_VERSION;
use ashlar_query::statement::{TransactionModes, isolation};
use ashlar_query::transaction::Isolation;

/// What a value of a setting has to be.
#[derive(Clone, Copy)]
enum Rule {
    /// Any text.
    Any,
    /// One of these, case ignored: what the server does, under its names.
    Only(&'static [&'static str]),
    /// A time zone.
    Zone,
    /// Milliseconds, with an optional unit.
    Milliseconds,
    /// An isolation level.
    Isolation,
    /// on or off.
    Bool,
    /// Cannot be changed.
    Fixed,
}

/// Name, default, rule, and whether clients are told.
const SETTINGS: &[(&str, &str, Rule, bool)] = &[
    ("application_name", "", Rule::Any, true),
    ("bytea_output", "hex", Rule::Only(&["hex"]), false),
    ("client_encoding", "UTF8", Rule::Only(&["utf8", "utf-8", "unicode"]), true),
    ("client_min_messages", "notice", Rule::Any, false),
    ("DateStyle", "ISO, MDY", Rule::Only(&["iso, mdy", "iso", "iso,mdy", "mdy"]), true),
    ("default_transaction_isolation", "read committed", Rule::Isolation, false),
    ("default_transaction_read_only", "off", Rule::Bool, true),
    ("extra_float_digits", "1", Rule::Only(&["1", "2", "3"]), false),
    ("idle_in_transaction_session_timeout", "0", Rule::Only(&["0"]), false),
    ("integer_datetimes", "on", Rule::Fixed, true),
    ("in_hot_standby", "off", Rule::Fixed, true),
    ("IntervalStyle", "postgres", Rule::Only(&["postgres"]), true),
    ("is_superuser", "on", Rule::Fixed, true),
    ("lock_timeout", "0", Rule::Only(&["0"]), false),
    ("max_identifier_length", "63", Rule::Fixed, false),
    ("search_path", "public", Rule::Only(&["public", "\"$user\", public", "$user, public", "\"$user\",public"]), false),
    ("server_encoding", "UTF8", Rule::Fixed, true),
    ("server_version", "", Rule::Fixed, true),
    ("server_version_num", "180000", Rule::Fixed, false),
    ("session_authorization", "ashlar", Rule::Fixed, true),
    ("standard_conforming_strings", "on", Rule::Only(&["on"]), true),
    ("statement_timeout", "0", Rule::Milliseconds, false),
    ("synchronous_commit", "on", Rule::Any, false),
    ("TimeZone", "UTC", Rule::Zone, true),
    ("transaction_isolation", "read committed", Rule::Fixed, false),
    ("transaction_read_only", "off", Rule::Fixed, false),
];

/// The settings of one session.
pub(super) struct Settings {
    values: BTreeMap<&'static str, String>,
    /// What RESET goes back to.
    initial: BTreeMap<&'static str, String>,
    /// Values before SET LOCAL, and before SET in a transaction that may yet be rolled back.
    before_local: Vec<(&'static str, String)>,
    before_set: Vec<(&'static str, String)>,
    changes: Vec<(&'static str, String)>,
    style: TextStyle,
    pub(super) isolation: Isolation,
    pub(super) read_only: bool,
    pub(super) statement_timeout_ms: u64,
}

fn rule_of(name: &str) -> Result<(&'static str, Rule, bool)> {
    let alias = match name.to_ascii_lowercase().as_str() {
        "timezone" | "time zone" => "TimeZone".to_owned(),
        other => other.to_owned(),
    };
    SETTINGS
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(&alias))
        .map(|(known, _, rule, told)| (*known, *rule, *told))
        .ok_or_else(|| {
            Error::new(ErrorCode::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""))
        })
}

impl Settings {
    pub(super) fn new(config: &Config, parameters: &[(&str, &str)]) -> Result<Self> {
        let mut values: BTreeMap<&'static str, String> =
            SETTINGS.iter().map(|(name, default, ..)| (*name, (*default).to_owned())).collect();
        values.insert("server_version", format!("{POSTGRES_VERSION} (Ashlar {})", env!("CARGO_PKG_VERSION")));
        values.insert("statement_timeout", config.query.statement_timeout_ms.to_string());
        let mut settings = Self {
            initial: BTreeMap::new(),
            values,
            before_local: Vec::new(),
            before_set: Vec::new(),
            changes: Vec::new(),
            style: TextStyle::default(),
            isolation: Isolation::default(),
            read_only: false,
            statement_timeout_ms: config.query.statement_timeout_ms,
        };
        for (name, value) in parameters {
            match *name {
                "user" => {
                    settings.values.insert("session_authorization", (*value).to_owned());
                }
                "database" | "replication" => {}
                "options" => settings.options(value)?,
                // Protocol extensions are negotiated by the door.
                name if name.starts_with("_pq_.") => {}
                name => settings.put(name, value)?,
            }
        }
        settings.changes.clear();
        settings.before_set.clear();
        settings.initial = settings.values.clone();
        Ok(settings)
    }

    /// `-c name=value` of the startup parameter `options`.
    fn options(&mut self, text: &str) -> Result<()> {
        let words = text.replace("\\ ", "\u{0}");
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            let assignment = match word.strip_prefix("-c") {
                Some("") => words.next().unwrap_or_default(),
                Some(rest) => rest,
                None => word.strip_prefix("--").unwrap_or_default(),
            };
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(Error::new(
                    ErrorCode::InvalidParameterValue,
                    format!("invalid command-line argument for server process: {word}"),
                ));
            };
            self.put(name, &value.replace('\u{0}', " "))?;
        }
        Ok(())
    }

    pub(super) fn style(&self) -> &TextStyle {
        &self.style
    }

    pub(super) fn reported(&self) -> Vec<(&'static str, String)> {
        let told = SETTINGS.iter().filter(|(.., told)| *told);
        told.filter_map(|(name, ..)| Some((*name, self.values.get(name)?.clone()))).collect()
    }

    pub(super) fn take_changes(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.changes)
    }

    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        let (known, ..) = rule_of(name)?;
        let before = self.values.get(known).cloned().unwrap_or_default();
        match value {
            Some(value) => self.put(name, value)?,
            None => {
                let initial = self.initial.get(known).cloned().unwrap_or_default();
                self.accept(known, initial);
                self.derive()?;
            }
        }
        if local { &mut self.before_local } else { &mut self.before_set }.push((known, before));
        Ok(())
    }

    fn put(&mut self, name: &str, value: &str) -> Result<()> {
        let (known, rule, _) = rule_of(name)?;
        let invalid = || {
            Error::new(
                ErrorCode::InvalidParameterValue,
                format!("invalid value for parameter \"{known}\": \"{value}\""),
            )
        };
        let accepted = match rule {
            Rule::Any => value.to_owned(),
            Rule::Fixed => {
                return Err(Error::new(
                    ErrorCode::ObjectNotInPrerequisiteState,
                    format!("parameter \"{known}\" cannot be changed"),
                ));
            }
            Rule::Only(values) => {
                if !values.contains(&value.to_ascii_lowercase().as_str()) {
                    return Err(Error::unsupported(format!("{known} = '{value}' is not supported")));
                }
                // One meaning under several names: told under the first.
                self.initial
                    .get(known)
                    .or_else(|| self.values.get(known))
                    .filter(|_| known != "extra_float_digits")
                    .cloned()
                    .unwrap_or_else(|| value.to_owned())
            }
            Rule::Zone => Zone::parse(value)
                .map_err(|error| if error.fields().detail.is_some() { error } else { invalid() })?
                .to_string(),
            Rule::Milliseconds => milliseconds(value).ok_or_else(invalid)?.to_string(),
            Rule::Isolation => {
                isolation(value)?;
                value.to_ascii_lowercase()
            }
            Rule::Bool => match value.to_ascii_lowercase().as_str() {
                "on" | "true" | "1" | "yes" => "on".to_owned(),
                "off" | "false" | "0" | "no" => "off".to_owned(),
                _ => return Err(invalid()),
            },
        };
        self.accept(known, accepted);
        self.derive()
    }

    fn accept(&mut self, known: &'static str, value: String) {
        let told = SETTINGS.iter().any(|(name, .., told)| *name == known && *told);
        if told && self.values.get(known) != Some(&value) {
            self.changes.push((known, value.clone()));
        }
        self.values.insert(known, value);
    }

    /// What is computed from the texts.
    fn derive(&mut self) -> Result<()> {
        let value = |name: &str| self.values.get(name).map_or("", String::as_str);
        self.style.zone = Zone::parse(value("TimeZone"))?;
        self.isolation = isolation(value("default_transaction_isolation"))?;
        self.read_only = value("default_transaction_read_only") == "on";
        self.statement_timeout_ms = value("statement_timeout").parse().unwrap_or(0);
        Ok(())
    }

    pub(super) fn set_characteristics(&mut self, modes: TransactionModes) {
        if let Some(isolation) = modes.isolation {
            self.isolation = isolation;
            let name = match isolation {
                Isolation::ReadCommitted => "read committed",
                Isolation::RepeatableRead => "repeatable read",
            };
            self.accept("default_transaction_isolation", name.to_owned());
        }
        if let Some(read_only) = modes.read_only {
            self.read_only = read_only;
            self.accept("default_transaction_read_only", if read_only { "on" } else { "off" }.to_owned());
        }
    }

    pub(super) fn reset_all(&mut self) {
        for (name, value) in self.initial.clone() {
            self.accept(name, value);
        }
        // The initial values have been derived from before.
        if self.derive().is_err() {
            self.style = TextStyle::default();
        }
    }

    /// SET LOCAL ends with its transaction; SET too where that is rolled back.
    pub(super) fn end_transaction(&mut self, committed: bool) {
        let mut undo = std::mem::take(&mut self.before_local);
        let set = std::mem::take(&mut self.before_set);
        if !committed {
            undo.splice(0..0, set);
        }
        if undo.is_empty() {
            return;
        }
        for (name, value) in undo.into_iter().rev() {
            self.accept(name, value);
        }
        if self.derive().is_err() {
            self.style = TextStyle::default();
        }
    }

    pub(super) fn show(&self, name: &str) -> Result<String> {
        let (known, ..) = rule_of(name)?;
        Ok(self.values.get(known).cloned().unwrap_or_default())
    }
}

/// Milliseconds of `100`, `100ms`, `2s`, `1min`.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}
