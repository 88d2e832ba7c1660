//! The settings of a session: SET and SHOW, and the parameters that are reported to clients.

mod commands;
mod custom;
mod duration;
mod numbers;
mod shown;
mod size;
mod table;

use std::sync::{Arc, OnceLock};

use ashlar_base::config::Config;
use ashlar_base::value::text::TextStyle;
use ashlar_base::value::text::Zone;
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::engine::{Operators, Whose};
use ashlar_query::statement::{TransactionModes, isolation};
use ashlar_query::transaction::Isolation;
use ashlar_query::{POSTGRES_VERSION, Setting};
use ashlar_shard::backend::{Carried, Given};

use self::table::{LOG_MIN_DURATION, NOT_GIVEN, Rule, SETTINGS, SEVERITIES, SHARDED_SERVER, Told};

/// The settings of one session.
///
/// A setting has the value in force and, while SET LOCAL hides it until the end of the transaction, the session's own. Both are noted
/// before a transaction first changes them, and once more after each savepoint, so that ROLLBACK and ROLLBACK TO SAVEPOINT can restore
/// them.
pub(super) struct Settings {
    /// The values in force, in the order of [`SETTINGS`], and behind them those of the user's own parameters. All numbers of settings here are
    /// positions in that list.
    values: Vec<String>,
    /// The names of the user's own parameters.
    custom: Vec<Arc<str>>,
    /// These parameters, with an empty text where they have no value.
    pub(super) own: Carried,
    /// The values that RESET restores.
    initial: Vec<String>,
    /// The session's own values that SET LOCAL hides.
    hidden: Vec<(usize, String)>,
    /// The changes that ROLLBACK undoes, in the order in which they were made.
    undo: Vec<Undo>,
    /// The position in `undo` of the innermost savepoint.
    savepoint: usize,
    /// The values that clients were last told, of settings that have changed since.
    untold: Vec<(usize, String)>,
    /// What is told of all of them, until one changes: each statement that is planned asks for it.
    listed: OnceLock<Arc<[Setting]>>,
    style: TextStyle,
    /// The modes of future transactions.
    pub(super) modes: Modes,
    pub(super) statement_timeout_ms: u64,
    pub(super) lock_timeout_ms: u64,
    /// Statements that take at least this long are logged; `None`: none are.
    pub(super) log_min_duration_ms: Option<u64>,
    /// The least severe messages that the client wants.
    pub(super) min_severity: MinSeverity,
    /// Which implementations of operators plans are made of.
    pub(super) operators: Operators,
    /// Whether queries over several shards read all of them as of one moment.
    pub(super) sharded_snapshots: bool,
    /// Whether UPDATE and DELETE must have a condition on the sharding key, or otherwise narrow down the shards.
    pub(super) refuses_keyless: bool,
    /// Whether the session keeps its connections to shards.
    pub(super) keeps_connections: bool,
    /// The server to which all statements are sent as they are written.
    pub(super) sharded_server: Option<Arc<str>>,
    /// Bytes that a query may hold.
    pub(super) query_memory_max: Option<usize>,
    /// The settings that connections to shards take over.
    pub(super) of_shards: ashlar_shard::backend::Settings,
    /// Whether replicas of shards are read by transactions that write nothing.
    pub(super) reads_replicas: bool,
    pub(super) idle_session_timeout_ms: u64,
    pub(super) idle_in_transaction_timeout_ms: u64,
}

/// The modes that a transaction begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modes {
    pub(super) isolation: Isolation,
    pub(super) read_only: bool,
    pub(super) deferrable: bool,
}

/// The value of a setting before a change.
struct Undo {
    setting: usize,
    value: String,
    hidden: Option<String>,
}

/// The value that a session begins with.
fn first(default: &'static str, told: Told) -> &'static str {
    if told == Told::Shards { "" } else { default }
}

/// Replaces a text only if it differs, so that holders of the old one can compare by address.
fn take_over(text: &mut Arc<str>, value: &str) {
    if **text != *value {
        *text = value.into();
    }
}

fn number_of(name: &str) -> Result<usize> {
    let name = if name.eq_ignore_ascii_case("time zone") { "TimeZone" } else { name };
    SETTINGS.iter().position(|(known, ..)| known.eq_ignore_ascii_case(name)).ok_or_else(|| {
        Error::new(ErrorCode::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""))
    })
}

impl Settings {
    pub(super) fn new(config: &Config, parameters: &[(&str, &str)]) -> Result<Self> {
        let mut settings = Self {
            values: SETTINGS.iter().map(|(_, default, _, told)| first(default, *told).to_owned()).collect(),
            custom: Vec::new(),
            own: Carried::default(),
            initial: Vec::new(),
            hidden: Vec::new(),
            undo: Vec::new(),
            savepoint: 0,
            untold: Vec::new(),
            listed: OnceLock::new(),
            style: TextStyle::default(),
            modes: Modes::default(),
            statement_timeout_ms: 0,
            lock_timeout_ms: 0,
            log_min_duration_ms: None,
            min_severity: MinSeverity::default(),
            operators: Operators::default(),
            sharded_snapshots: false,
            refuses_keyless: false,
            keeps_connections: false,
            sharded_server: None,
            query_memory_max: None,
            of_shards: ashlar_shard::backend::Settings::default(),
            reads_replicas: false,
            idle_session_timeout_ms: 0,
            idle_in_transaction_timeout_ms: 0,
        };
        let version = format!("{POSTGRES_VERSION} (Ashlar {})", env!("CARGO_PKG_VERSION"));
        settings.put(number_of("server_version")?, version);
        settings.put(number_of("statement_timeout")?, config.query.statement_timeout_ms.to_string());
        settings.put(number_of("query_memory_max")?, (config.query.query_memory_mib_max << 10).to_string());
        settings.put(number_of("sharded_keyless_writes")?, config.shard.keyless_writes.as_str().to_owned());
        settings.put(number_of("sharded_pool_mode")?, config.shard.pool_mode.as_str().to_owned());
        for (name, value) in parameters {
            match *name {
                "user" => settings.put(number_of("session_authorization")?, (*value).to_owned()),
                "database" | "replication" => {}
                "options" => settings.options(value)?,
                // Protocol extensions are negotiated by the door.
                name if name.starts_with("_pq_.") => {}
                name => settings.start_with(name, value)?,
            }
        }
        settings.derive()?;
        settings.untold.clear();
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
            self.start_with(name, &value.replace('\u{0}', " "))?;
        }
        Ok(())
    }

    fn start_with(&mut self, name: &str, value: &str) -> Result<()> {
        let number = self.number_to_set(name, value.len())?;
        let value = if number < SETTINGS.len() { accepted(number, value)? } else { value.to_owned() };
        self.put(number, value);
        Ok(())
    }

    pub(super) fn style(&self) -> &TextStyle {
        &self.style
    }

    /// The value in force of a setting; the name is one of those in [`SETTINGS`].
    pub(super) fn value(&self, name: &str) -> &str {
        SETTINGS.iter().position(|(known, ..)| *known == name).map_or("", |number| self.values[number].as_str())
    }

    pub(super) fn reported(&self) -> Vec<(&'static str, String)> {
        let told = SETTINGS.iter().zip(&self.values).filter(|((.., told), _)| *told == Told::Client);
        told.map(|((name, ..), value)| (*name, value.clone())).collect()
    }

    /// Changes that clients have not been told yet. A value that was changed back in between is left out.
    pub(super) fn take_changes(&mut self) -> Vec<(&'static str, String)> {
        if self.untold.is_empty() {
            return Vec::new();
        }
        let untold = std::mem::take(&mut self.untold);
        let changed = untold.into_iter().filter(|(number, told)| self.values[*number] != *told);
        changed.map(|(number, _)| (SETTINGS[number].0, self.values[number].clone())).collect()
    }

    /// SET, RESET and SET ... TO DEFAULT; the latter two have no value.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        let number = self.number_to_set(name, value.map_or(0, str::len))?;
        let value = match (SETTINGS.get(number), value) {
            (None, Some(value)) => value.to_owned(),
            (Some((_, _, Rule::Own, _)), Some(value)) if value == self.initial[number] => value.to_owned(),
            (Some(_), Some(value)) => accepted(number, value)?,
            (Some((name, _, Rule::Fixed, _)), None) => return Err(fixed(name)),
            (_, None) => self.initial[number].clone(),
        };
        self.change(number, value, local);
        self.derive()
    }

    pub(super) fn set_characteristics(&mut self, modes: TransactionModes) -> Result<()> {
        let on = |on: bool| if on { "on" } else { "off" };
        let given = [
            ("default_transaction_isolation", modes.isolation.map(Isolation::name)),
            ("default_transaction_read_only", modes.read_only.map(on)),
            ("default_transaction_deferrable", modes.deferrable.map(on)),
        ];
        given
            .into_iter()
            .filter(|(_, value)| value.is_some())
            .try_for_each(|(name, value)| self.set(name, value, false))
    }

    pub(super) fn reset_all(&mut self) -> Result<()> {
        for number in 0..self.values.len() {
            let is_fixed = SETTINGS.get(number).is_some_and(|(_, _, rule, _)| matches!(rule, Rule::Fixed));
            let own =
                self.hidden.iter().find(|(hidden, _)| *hidden == number).map_or(&self.values[number], |(_, own)| own);
            let is_initial = self.values[number] == self.initial[number] && *own == self.initial[number];
            if !is_fixed && !is_initial {
                self.change(number, self.initial[number].clone(), false);
            }
        }
        self.derive()
    }

    /// Changes a setting so that the transaction can undo it.
    fn change(&mut self, number: usize, value: String, local: bool) {
        let hidden = self.hidden.iter().position(|(hidden, _)| *hidden == number);
        if !self.undo[self.savepoint..].iter().any(|undo| undo.setting == number) {
            let hidden = hidden.map(|place| self.hidden[place].1.clone());
            self.undo.push(Undo { setting: number, value: self.values[number].clone(), hidden });
        }
        match (hidden, local) {
            (None, true) => self.hidden.push((number, self.values[number].clone())),
            (Some(place), false) => drop(self.hidden.swap_remove(place)),
            (None, false) | (Some(_), true) => {}
        }
        self.put(number, value);
    }

    fn put(&mut self, number: usize, value: String) {
        let before = std::mem::replace(&mut self.values[number], value);
        self.listed = OnceLock::new();
        let is_told = SETTINGS.get(number).is_some_and(|(.., told)| *told == Told::Client);
        if is_told && !self.untold.iter().any(|(untold, _)| *untold == number) {
            self.untold.push((number, before));
        }
    }

    /// Recomputes the fields that follow from the texts of values.
    fn derive(&mut self) -> Result<()> {
        for ((name, ..), value) in SETTINGS.iter().zip(&self.values) {
            match *name {
                "TimeZone" => {
                    self.style.zone = Zone::parse(value)?;
                    take_over(&mut self.of_shards.time_zone, value);
                }
                "application_name" => take_over(&mut self.of_shards.application_name, value),
                "default_transaction_isolation" => self.modes.isolation = isolation(name, value)?,
                "default_transaction_read_only" => self.modes.read_only = value == "on",
                "default_transaction_deferrable" => self.modes.deferrable = value == "on",
                "client_min_messages" => {
                    let least = SEVERITIES.iter().position(|severity| severity == value).unwrap_or(0);
                    self.min_severity = MinSeverity(least);
                }
                "join_operators" => self.operators.joins = whose(value),
                // Behind the one for joins, which it overrules.
                "operators" => {
                    self.operators.groups = whose(value);
                    if self.operators.groups == Whose::Stock {
                        self.operators.joins = Whose::Stock;
                    }
                }
                "query_memory_max" => {
                    let kilobytes = value.parse::<usize>().ok().filter(|kilobytes| *kilobytes > 0);
                    self.query_memory_max = kilobytes.map(|kilobytes| kilobytes.saturating_mul(1024));
                }
                "sharded_keyless_writes" => self.refuses_keyless = value == "refuse",
                "sharded_pool_mode" => self.keeps_connections = value == "session",
                "sharded_reads" => self.sharded_snapshots = value == "snapshot",
                SHARDED_SERVER if self.sharded_server.as_deref().unwrap_or_default() != value.as_str() => {
                    self.sharded_server = (!value.is_empty()).then(|| value.as_str().into());
                }
                "read_from" => self.reads_replicas = value == "replica",
                "statement_timeout" => self.statement_timeout_ms = value.parse().unwrap_or(0),
                "lock_timeout" => {
                    self.lock_timeout_ms = value.parse().unwrap_or(0);
                    self.of_shards.lock_timeout_ms = self.lock_timeout_ms;
                }
                LOG_MIN_DURATION => self.log_min_duration_ms = value.parse().ok(),
                "idle_session_timeout" => self.idle_session_timeout_ms = value.parse().unwrap_or(0),
                "idle_in_transaction_session_timeout" => {
                    self.idle_in_transaction_timeout_ms = value.parse().unwrap_or(0);
                }
                _ => {}
            }
        }
        self.carry();
        Ok(())
    }

    /// Notes what the user's own parameters are, and what connections to shards take over beside what every session gives them.
    fn carry(&mut self) {
        let given =
            SETTINGS.iter().zip(&self.values).filter(|((.., told), value)| *told == Told::Shards && !value.is_empty());
        let mut carried: Vec<Given> = given.map(|((name, ..), value)| Given::new(name, value)).collect();
        let mut own = Vec::with_capacity(self.custom.len());
        for (name, value) in self.custom.iter().zip(self.values.iter().skip(SETTINGS.len())) {
            let is_given = value.as_str() != NOT_GIVEN;
            let value = if is_given { value.as_str() } else { "" };
            let parameter = Given { name: Arc::clone(name), value: value.into() };
            // What is not is the server's own again: an empty text may be no value of it, and its name none there.
            if is_given {
                carried.push(parameter.clone());
            }
            own.push(parameter);
        }
        let (carried, own) = (Carried::new(carried), Carried::new(own));
        // Only where they differ, so that holders of the old ones can compare by address.
        if carried != self.of_shards.carried {
            self.of_shards.carried = carried;
        }
        if own != self.own {
            self.own = own;
        }
    }

    /// Begins a savepoint; [`Self::rollback_to`] takes the mark that is returned.
    pub(super) fn mark(&mut self) -> usize {
        self.savepoint = self.undo.len();
        self.savepoint
    }

    /// Releases a savepoint: what was set after it stays. `before` is the mark of the savepoint before it, if there is one.
    pub(super) fn release(&mut self, before: usize) {
        // What a setting was at the outer savepoint is all that counts now.
        let mut seen = Vec::new();
        for undo in self.undo.drain(before..).collect::<Vec<_>>() {
            if !seen.contains(&undo.setting) {
                seen.push(undo.setting);
                self.undo.push(undo);
            }
        }
        self.savepoint = before;
    }

    /// ROLLBACK TO SAVEPOINT.
    pub(super) fn rollback_to(&mut self, mark: usize) {
        self.savepoint = mark;
        let undone = self.undo.split_off(mark);
        if undone.is_empty() {
            return;
        }
        for Undo { setting, value, hidden } in undone.into_iter().rev() {
            self.hidden.retain(|(number, _)| *number != setting);
            self.hidden.extend(hidden.map(|own| (setting, own)));
            self.put(setting, value);
        }
        self.derive_again();
    }

    /// Ends what SET LOCAL has set; if the transaction was rolled back, what SET has set as well.
    pub(super) fn end_transaction(&mut self, committed: bool) {
        self.savepoint = 0;
        if self.undo.is_empty() {
            return;
        }
        if !committed {
            self.rollback_to(0);
            return;
        }
        self.undo.clear();
        for (number, own) in std::mem::take(&mut self.hidden) {
            self.put(number, own);
        }
        self.derive_again();
    }

    /// Recomputes the fields from values that were in force before, and so are valid.
    fn derive_again(&mut self) {
        if self.derive().is_err() {
            tracing::error!("a setting that was in force cannot be read any more");
        }
    }

    pub(super) fn show(&self, name: &str) -> Result<String> {
        let number = self.number(name)?;
        Ok(shown::as_shown(number, &self.values[number]))
    }
}

/// The least severe messages that a client wants, as a position in [`SEVERITIES`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinSeverity(usize);

impl MinSeverity {
    /// Whether the client wants messages of this severity.
    pub(super) fn tells(self, severity: &str) -> bool {
        let severity = SEVERITIES.iter().position(|known| known.eq_ignore_ascii_case(severity));
        severity.is_none_or(|severity| severity >= self.0)
    }
}

/// The implementation of an operator that a value names.
fn whose(value: &str) -> Whose {
    if value == "stock" { Whose::Stock } else { Whose::Own }
}

/// Checks a value, and returns it as it is stored.
fn accepted(number: usize, value: &str) -> Result<String> {
    let (name, default, rule, _) = SETTINGS[number];
    Ok(match rule {
        Rule::Any => value.to_owned(),
        Rule::Fixed => return Err(fixed(name)),
        Rule::Only(values) => {
            if !values.contains(&value.to_ascii_lowercase().as_str()) {
                return Err(Error::unsupported(format!("{name} = '{value}' is not supported")));
            }
            // One meaning under several names: told under the first.
            if name == "extra_float_digits" { value.to_owned() } else { default.to_owned() }
        }
        Rule::OneOf(values) => one_of(name, values, value)?,
        Rule::Encoding => {
            let letters = |c: &char| c.is_ascii_alphanumeric();
            match value.chars().filter(letters).collect::<String>().to_ascii_lowercase().as_str() {
                "utf8" | "unicode" => "UTF8".to_owned(),
                // Bytes as they are, and those are UTF-8.
                "sqlascii" => "SQL_ASCII".to_owned(),
                _ => {
                    return Err(Error::unsupported(format!("{name} = '{value}' is not supported"))
                        .with_hint("Set client_encoding to UTF8; for psql, PGCLIENTENCODING=UTF8."));
                }
            }
        }
        Rule::Kilobytes(least) => size::kilobytes(name, least, value)?.to_string(),
        Rule::Blocks(least) => size::blocks(name, least, value)?.to_string(),
        Rule::Integer(least, most) => numbers::integer(name, (least, most), value)?.to_string(),
        Rule::Real(least, most) => numbers::real(name, (least, most), value)?.to_string(),
        Rule::Own => return Err(Error::unsupported(format!("{name} cannot be changed here: there is one role"))),
        Rule::Zone => Zone::parse(value)
            .map_err(|error| if error.fields().detail.is_some() { error } else { invalid(name, value) })?
            .to_string(),
        Rule::Milliseconds if name == LOG_MIN_DURATION && value.trim() == "-1" => "-1".to_owned(),
        Rule::Milliseconds => duration::milliseconds(name, value)?.to_string(),
        Rule::Isolation => isolation(name, value)?.name().to_owned(),
        Rule::Bool => match boolean(value) {
            Some(true) => "on".to_owned(),
            Some(false) => "off".to_owned(),
            None => {
                let message = format!("parameter \"{name}\" requires a Boolean value");
                return Err(Error::new(ErrorCode::InvalidParameterValue, message));
            }
        },
    })
}

/// One of a list of values, as spelled there. Other spellings that PostgreSQL accepts are accepted.
fn one_of(name: &str, values: &'static [&'static str], value: &str) -> Result<String> {
    let wanted = value.to_ascii_lowercase();
    let wanted = match (name, wanted.as_str()) {
        ("client_min_messages", "debug") => "debug2",
        ("client_min_messages", "info") => "notice",
        ("synchronous_commit" | "constraint_exclusion", word) => match boolean(word) {
            Some(true) => "on",
            Some(false) => "off",
            None => word,
        },
        (_, word) => word,
    };
    match values.iter().find(|known| **known == wanted) {
        Some(known) => Ok((*known).to_owned()),
        None => Err(invalid(name, value).with_hint(format!("Available values: {}.", values.join(", ")))),
    }
}

/// A Boolean as PostgreSQL reads it in a setting: any beginning of a word that no other word has.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        "" | "o" => None,
        word if "true".starts_with(word) || "yes".starts_with(word) => Some(true),
        word if "false".starts_with(word) || "no".starts_with(word) => Some(false),
        _ => None,
    }
}

/// 22023
fn invalid(name: &str, value: &str) -> Error {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    Error::new(ErrorCode::InvalidParameterValue, message)
}

/// 55P02
fn fixed(name: &str) -> Error {
    Error::new(ErrorCode::CantChangeRuntimeParam, format!("parameter \"{name}\" cannot be changed"))
}

#[cfg(test)]
mod tests;
