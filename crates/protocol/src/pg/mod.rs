//! The PostgreSQL protocol, version 3: what a frontend sends, and what a backend answers.
//!
//! Called by the PostgreSQL door. Never interprets SQL, values or parameters.

pub mod backend;
pub mod client;
mod error;
pub mod frontend;
mod tag;

#[cfg(test)]
mod tests;

pub use error::{DecodeError, Problem};
pub use tag::CommandTag;

/// How a value travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueFormat {
    /// The text form, format code 0.
    #[default]
    Text,
    /// The type's own binary form, format code 1.
    Binary,
}

impl ValueFormat {
    /// The format code on the wire.
    pub fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// The format of a code, if there is one.
    pub fn from_code(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }
}

/// What Describe and Close are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement,
    /// A portal: a statement with its parameters bound.
    Portal,
}

/// The state that ReadyForQuery reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Outside a transaction block.
    #[default]
    Idle,
    /// Inside a transaction block.
    InBlock,
    /// Inside a block that failed: everything is refused until it ends.
    Failed,
}
