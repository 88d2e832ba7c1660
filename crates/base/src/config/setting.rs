//! How the text of one configured value becomes a value and back.
//!
//! Called by the table in `config` only. Knows types, not fields.

use std::net::SocketAddr;

use crate::Eviction;

/// A type that a configured value can have.
pub(crate) trait Setting: Sized {
    /// What may be written, in words.
    const ACCEPTS: &'static str;
    /// Whether the file writes it between quotation marks.
    const QUOTED: bool;
    /// Reads it; the error says what was expected.
    fn parse(text: &str) -> Result<Self, String>;
    /// Writes it as `parse` reads it.
    fn write(&self) -> String;
    /// The value as a number, where a range can apply.
    fn number(&self) -> Option<u64> {
        None
    }
}

/// Reads a value and holds it to its range.
pub(crate) fn read<T: Setting>(text: &str, range: Option<(u64, u64)>) -> Result<T, String> {
    let refused = |low: u64, high: u64| format!("{text} is outside {low} to {high}");
    let value = T::parse(text).map_err(|error| match range {
        // A number too large for the type is a number out of range to the reader of the message.
        Some((low, high)) if text.parse::<i128>().is_ok() => refused(low, high),
        _ => error,
    })?;
    match (range, value.number()) {
        (Some((low, high)), Some(number)) if number < low || number > high => Err(refused(low, high)),
        _ => Ok(value),
    }
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Setting for $type {
            const ACCEPTS: &'static str = "integer";
            const QUOTED: bool = false;
            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("\"{text}\" is not a whole number"))
            }
            fn write(&self) -> String {
                self.to_string()
            }
            fn number(&self) -> Option<u64> {
                Some(u64::from(*self))
            }
        }
    )* };
}
integers!(u16, u32, u64);

impl Setting for bool {
    const ACCEPTS: &'static str = "true or false";
    const QUOTED: bool = false;
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("\"{text}\" is neither true nor false"))
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

/// Taken as it is written; what a file would have to escape is no part of it.
impl Setting for String {
    const ACCEPTS: &'static str = "text";
    const QUOTED: bool = true;
    fn parse(text: &str) -> Result<Self, String> {
        let is_plain = !text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\'));
        if is_plain {
            Ok(text.to_owned())
        } else {
            Err("quotation marks, backslashes and control characters are not taken".to_owned())
        }
    }
    fn write(&self) -> String {
        self.clone()
    }
}

impl Setting for SocketAddr {
    const ACCEPTS: &'static str = "address with port";
    const QUOTED: bool = true;
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("\"{text}\" is not an address with a port, such as 127.0.0.1:5433"))
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

/// In the words of the option of tables.
impl Setting for Eviction {
    const ACCEPTS: &'static str = "none, lru, lfu, random";
    const QUOTED: bool = true;
    fn parse(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|eviction| eviction.name() == text);
        known.ok_or_else(|| format!("\"{text}\" is not one of: {}", Self::ACCEPTS))
    }
    fn write(&self) -> String {
        self.name().to_owned()
    }
}

macro_rules! choice {
    ($(#[doc = $doc:literal])* $name:ident, $accepts:literal { $( $(#[doc = $variant_doc:literal])* $variant:ident = $text:literal ),* $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $variant_doc])* $variant, )* }

        impl $name {
            /// The word that the file uses.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
        }

        impl Setting for $name {
            const ACCEPTS: &'static str = $accepts;
            const QUOTED: bool = true;
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $( $text => Ok(Self::$variant), )*
                    _ => Err(format!("\"{text}\" is not one of: {}", $accepts)),
                }
            }
            fn write(&self) -> String {
                self.as_str().to_owned()
            }
        }
    };
}

choice!(
    /// How much is logged.
    LogLevel, "error, warn, info, debug, trace" {
        /// Someone must look.
        Error = "error",
        /// Odd, but the server carried on.
        Warn = "warn",
        /// Starts, stops and the like.
        Info = "info",
        /// What each session does.
        Debug = "debug",
        /// What each statement does.
        Trace = "trace",
    }
);

choice!(
    /// How an event is written.
    LogFormat, "text, json" {
        /// A line for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
);

choice!(
    /// How long a session has a connection to a shard.
    PoolMode, "transaction, session" {
        /// For a transaction, or for a statement that is one.
        Transaction = "transaction",
        /// From its first statement there to its end.
        Session = "session",
    }
);

choice!(
    /// What becomes of changes of all shards that give no sharding key.
    KeylessWrites, "allow, refuse" {
        /// They are run.
        Allow = "allow",
        /// They fail with 21000.
        Refuse = "refuse",
    }
);
