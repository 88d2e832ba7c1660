//! Tests of the Redis protocol: bytes against commands, replies against bytes.

mod decode;
mod encode;
mod peek;
mod properties;
