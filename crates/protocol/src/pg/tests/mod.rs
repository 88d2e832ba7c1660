//! Tests of the PostgreSQL protocol: bytes against messages, both ways.

mod backend;
mod frontend;
mod properties;

/// A frontend message: tag, length, body.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A startup packet: length, code, body.
fn startup(code: i32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as i32 + 8).to_be_bytes().to_vec();
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}
