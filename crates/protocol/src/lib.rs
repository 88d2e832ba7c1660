//! Wire formats as values: PostgreSQL messages, RESP commands and replies, and the rows of COPY.
//!
//! Called by the doors and by the session. Bytes in, messages out, messages in, bytes out: no sockets, no clock, no
//! state of the server. Whatever the bytes are, a decoder answers with a message, an error, or "more bytes, please";
//! it never panics, and it never allocates because of a length that a client merely claims.
//!
//! Decoders borrow from the caller's read buffer. Encoders append to the caller's write buffer, a `Vec<u8>`.

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod copy;
pub mod pg;
pub mod resp;
