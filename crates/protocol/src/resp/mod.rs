//! The Redis protocol: commands in, as arrays of bulk strings or as lines of text; replies out, in RESP2 or RESP3.
//!
//! Called by the RESP door. Never knows what a command means.

mod decode;
mod encode;
mod error;
mod inline;
mod peek;
mod queue;

#[cfg(test)]
mod tests;

pub use decode::{Args, Command, CommandDecoder, Limits};
pub use encode::{ReplyWriter, Version};
pub use error::DecodeError;
pub use peek::FirstArguments;
pub use queue::CommandQueue;
