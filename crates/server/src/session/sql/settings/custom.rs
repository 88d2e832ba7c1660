//! Parameters of the user's own, as `app.tenant`: names of two parts or more, which a session makes by setting them.
//!
//! Called by `settings`, which numbers them behind its own. A parameter stays to the end of the session, with an empty text where it has no
//! value any more, also where what made it is rolled back: as in PostgreSQL.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};

use super::{NOT_GIVEN, SETTINGS, Settings, number_of};

/// How many a session may have.
const COUNT_MAX: usize = 128;

/// Bytes of all their names and values: they go to each connection to a shard that the session has.
const BYTES_MAX: usize = 64 * 1024;

impl Settings {
    /// The number of a setting, or of a parameter that was made.
    ///
    /// # Errors
    /// 42704
    pub(super) fn number(&self, name: &str) -> Result<usize> {
        let place = self.custom.iter().position(|known| known.eq_ignore_ascii_case(name));
        place.map_or_else(|| number_of(name), |place| Ok(SETTINGS.len() + place))
    }

    /// The same of what is to have a value of so many bytes; a parameter is made where there is none.
    ///
    /// # Errors
    /// 42704; 42602 for what is no name of a parameter; 54000 where there are too many, or they are too large.
    pub(super) fn number_to_set(&mut self, name: &str, bytes: usize) -> Result<usize> {
        if !name.contains('.') {
            return number_of(name);
        }
        let known = self.number(name).ok();
        if known.is_none() {
            if !is_name(name) {
                let message = format!("invalid configuration parameter name \"{name}\"");
                return Err(Error::new(ErrorCode::InvalidName, message)
                    .with_detail("Custom parameter names must be two or more simple identifiers separated by dots."));
            }
            if self.custom.len() == COUNT_MAX {
                let message = format!("a session cannot have more than {COUNT_MAX} parameters of its own");
                return Err(Error::new(ErrorCode::ProgramLimitExceeded, message));
            }
        }
        let names: usize = self.custom.iter().map(|name| name.len()).sum();
        let others = (SETTINGS.len()..self.values.len()).filter(|number| Some(*number) != known);
        let others: usize = names + others.map(|number| self.bytes_of(number)).sum::<usize>();
        let own = known.map_or(name.len() + bytes, |number| bytes.max(self.bytes_of(number)));
        // Whatever there is, one can take it away.
        let is_less = known.is_some() && bytes == 0;
        if !is_less && others + own > BYTES_MAX {
            let message = format!("parameters of a session's own cannot be larger than {BYTES_MAX} bytes together");
            return Err(Error::new(ErrorCode::ProgramLimitExceeded, message)
                .with_detail(format!("With \"{name}\" they would be {} bytes.", others + own)));
        }
        Ok(known.unwrap_or_else(|| {
            self.custom.push(Arc::from(name));
            self.values.push(NOT_GIVEN.to_owned());
            self.initial.push(NOT_GIVEN.to_owned());
            self.values.len() - 1
        }))
    }

    /// The bytes of the longest value that a parameter has, and has again when its transaction ends, or when it is reset.
    fn bytes_of(&self, number: usize) -> usize {
        let hidden = self.hidden.iter().find(|(hidden, _)| *hidden == number).map_or(0, |(_, own)| own.len());
        let initial = self.initial.get(number).map_or(0, String::len);
        self.values[number].len().max(hidden).max(initial)
    }
}

/// Whether it is identifiers with dots between them.
fn is_name(name: &str) -> bool {
    let is_identifier = |part: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii();
        let is_within = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'$';
        part.bytes().next().is_some_and(is_letter) && part.bytes().all(is_within)
    };
    name.contains('.') && name.split('.').all(is_identifier)
}

#[cfg(test)]
mod tests {
    use ashlar_base::config::Config;
    use ashlar_shard::backend::Carried;

    use super::*;

    fn settings(parameters: &[(&str, &str)]) -> Settings {
        Settings::new(&Config::default(), parameters).unwrap()
    }

    fn texts(all: &Carried) -> Vec<String> {
        all.iter().map(|given| format!("{}={}", given.name, given.value)).collect()
    }

    fn carried(settings: &Settings) -> Vec<String> {
        texts(&settings.of_shards.carried)
    }

    fn own(settings: &Settings) -> Vec<String> {
        texts(&settings.own)
    }

    #[test]
    fn a_parameter_is_made_where_it_is_set() {
        let mut settings = settings(&[("user", "test")]);
        assert_eq!(settings.show("app.tenant").unwrap_err().sqlstate(), "42704");
        settings.set("app.tenant", Some("5"), false).unwrap();
        settings.end_transaction(true);
        assert_eq!(settings.show("APP.Tenant").unwrap(), "5");
        settings.set("App.Tenant", Some("6"), true).unwrap();
        settings.set("app.other.part", Some("x"), false).unwrap();
        assert_eq!(carried(&settings), ["app.tenant=6", "app.other.part=x"]);
        settings.end_transaction(false);
        assert_eq!(carried(&settings), ["app.tenant=5"]);
        assert_eq!(own(&settings), ["app.tenant=5", "app.other.part="]);
        assert_eq!(settings.show("app.other.part").unwrap(), "");
        settings.set("app.other.part", Some(""), false).unwrap();
        assert_eq!(carried(&settings), ["app.tenant=5", "app.other.part="]);
        // What is reset is what the server has: an empty text may be no value there.
        settings.reset_all().unwrap();
        assert!(carried(&settings).is_empty());
        assert_eq!(own(&settings), ["app.tenant=", "app.other.part="]);
        assert_eq!(settings.show("app.tenant").unwrap(), "");
        assert!(settings.all().iter().all(|setting| !setting.name.contains('.')));
    }

    #[test]
    fn what_a_session_begins_with_is_what_reset_goes_back_to() {
        let mut settings = settings(&[("user", "test"), ("options", "-c app.a=1"), ("app.b", "2")]);
        settings.set("app.a", Some("x"), false).unwrap();
        settings.set("app.b", Some("x"), false).unwrap();
        settings.set("app.a", None, false).unwrap();
        assert_eq!(carried(&settings), ["app.a=1", "app.b=x"]);
        settings.reset_all().unwrap();
        assert_eq!(carried(&settings), ["app.a=1", "app.b=2"]);
    }

    #[test]
    fn names_are_those_of_postgresql() {
        for name in ["a.b", "_a.b_1", "a.b.c", "a.b$", "grüße.ä"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["a", "a.", ".a", "a..b", "a.1", "a b.c", "a.b c", "a.b-c", "a.\"b\"", "a.b;", "a.$b"] {
            assert!(!is_name(name), "{name}");
        }
        let mut settings = settings(&[("user", "test")]);
        assert_eq!(settings.set("a.b-c", Some("x"), false).unwrap_err().sqlstate(), "42602");
        assert_eq!(settings.set("tenant", Some("x"), false).unwrap_err().sqlstate(), "42704");
    }

    #[test]
    fn they_have_a_bound() {
        let mut settings = settings(&[("user", "test")]);
        let large = "x".repeat(BYTES_MAX - "a.a".len());
        settings.set("a.a", Some(&large), false).unwrap();
        settings.set("a.a", Some(&large), false).unwrap();
        let refused = |settings: &mut Settings, name: &str, value: &str| {
            let error = settings.set(name, Some(value), false).unwrap_err();
            assert_eq!(error.sqlstate(), "54000");
        };
        refused(&mut settings, "a.b", "x");
        refused(&mut settings, "a.a", &format!("{large}x"));
        assert_eq!(settings.show("a.b").unwrap_err().sqlstate(), "42704");
        // What comes back at the end of the transaction counts too.
        settings.set("a.a", Some("x"), true).unwrap();
        refused(&mut settings, "a.b", "x");
        settings.end_transaction(true);
        settings.set("a.a", Some(""), false).unwrap();
        (1..COUNT_MAX).for_each(|number| settings.set(&format!("a.b{number}"), Some("x"), false).unwrap());
        refused(&mut settings, "a.c", "x");
        settings.set("a.b1", Some("y"), false).unwrap();
    }
}
