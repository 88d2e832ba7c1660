//! Encodes replies.
//!
//! Called by the RESP door and its commands. A reply is said once, in the terms of RESP3; for a RESP2 connection the
//! writer says it the way Redis does: maps as flat arrays, doubles as strings, booleans as 0 and 1. Never flushes.
//!
//! An aggregate is its header and then, by further calls, its elements; the caller sends as many as it announced.

use ashlar_base::Error;

/// The protocol a connection speaks, chosen by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// What every connection starts with.
    #[default]
    Resp2,
    /// HELLO 3.
    Resp3,
}

/// Appends replies to a write buffer.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> ReplyWriter<'a> {
    /// A writer in the connection's version.
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Self {
        Self { out, version }
    }

    /// The connection's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Bytes in the write buffer, for callers that flush when it is long.
    pub fn buffered_bytes(&self) -> usize {
        self.out.len()
    }

    /// Appends replies that another writer made: elements that were counted while they were written.
    pub fn append(&mut self, written: &[u8]) {
        self.out.extend_from_slice(written);
    }

    /// The reply of most writes.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short status. Line ends become spaces.
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.line(text);
    }

    /// An error of ours: the prefix of its code and its message.
    pub fn error(&mut self, error: &Error) {
        self.out.push(b'-');
        self.out.extend_from_slice(error.code().resp_prefix().as_bytes());
        self.out.push(b' ');
        self.line(error.message());
    }

    /// An error in Redis's own words, prefix included: `ERR syntax error`.
    pub fn error_text(&mut self, text: &str) {
        self.out.push(b'-');
        self.line(text);
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        // Once for header, bytes and line ends.
        self.out.reserve(bytes.len() + 24);
        self.header(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string that `write` appends; its length is written in front afterwards. It must append only.
    pub fn bulk_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.sized_with(b'$', write);
    }

    /// No value: a missing key or field.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// No value where an array would be.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// So many elements follow.
    pub fn array(&mut self, elements: usize) {
        self.header(b'*', elements as i64);
    }

    /// So many pairs follow, each a key and a value.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Resp2 => self.header(b'*', pairs as i64 * 2),
            Version::Resp3 => self.header(b'%', pairs as i64),
        }
    }

    /// So many distinct elements follow.
    pub fn set(&mut self, elements: usize) {
        self.header(if self.version == Version::Resp3 { b'~' } else { b'*' }, elements as i64);
    }

    /// An out-of-band message of so many elements follows.
    pub fn push(&mut self, elements: usize) {
        self.header(if self.version == Version::Resp3 { b'>' } else { b'*' }, elements as i64);
    }

    /// A truth value.
    pub fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.version, value) {
            (Version::Resp2, false) => b":0\r\n",
            (Version::Resp2, true) => b":1\r\n",
            (Version::Resp3, false) => b"#f\r\n",
            (Version::Resp3, true) => b"#t\r\n",
        });
    }

    /// A floating-point number.
    pub fn double(&mut self, value: f64) {
        match self.version {
            Version::Resp2 => self.bulk_with(|out| double_text(value, out)),
            Version::Resp3 => {
                self.out.push(b',');
                double_text(value, self.out);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An integer beyond 64 bits, as its digits.
    pub fn big_number(&mut self, digits: &str) {
        match self.version {
            Version::Resp2 => self.bulk(digits.as_bytes()),
            Version::Resp3 => {
                self.out.push(b'(');
                self.line(digits);
            }
        }
    }

    /// Text for people, of the format `txt` or `mkd`.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    #[inline]
    fn header(&mut self, tag: u8, number: i64) {
        self.out.push(tag);
        match number {
            0..=9 => self.out.push(b'0' + number as u8),
            _ => self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// Leaves room for a length of one digit, and moves the bytes when it turns out longer.
    fn sized_with(&mut self, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let digits_at = self.out.len() + 1;
        self.out.extend_from_slice(&[tag, b'0', b'\r', b'\n']);
        let start = self.out.len();
        write(self.out);
        let (end, mut buffer) = (self.out.len(), itoa::Buffer::new());
        let digits = buffer.format(end - start).as_bytes();
        let shift = digits.len() - 1;
        if shift > 0 {
            self.out.resize(end + shift, 0);
            self.out.copy_within(digits_at + 1..end, digits_at + 1 + shift);
        }
        self.out[digits_at..digits_at + digits.len()].copy_from_slice(digits);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A line ends with the first line end, so there must be none inside.
    fn line(&mut self, text: &str) {
        if text.bytes().any(|byte| matches!(byte, b'\r' | b'\n')) {
            self.out.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        } else {
            self.out.extend_from_slice(text.as_bytes());
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The shortest digits that read back as the same number, laid out as Redis's d2string does: integers below 2^52
/// plainly, others plainly while the zeros to add are few, with an exponent beyond.
fn double_text(value: f64, out: &mut Vec<u8>) {
    const INTEGER_MAX: f64 = (1u64 << 52) as f64;
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    } else if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if value.abs() < INTEGER_MAX && value.trunc() == value {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else {
        fraction_text(value, out);
    }
}

fn fraction_text(value: f64, out: &mut Vec<u8>) {
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits = mantissa.bytes().filter(|byte| *byte != b'.').count() as i32;
    // The number is its digits, read as an integer, times ten to this power.
    let power = exponent - digits + 1;
    if value < 0.0 {
        out.push(b'-');
    }
    let plain = if power >= 0 { exponent < digits + 7 } else { power > -7 || exponent.abs() < 4 };
    if plain {
        out.extend_from_slice(value.abs().to_string().as_bytes());
        return;
    }
    out.extend_from_slice(mantissa.as_bytes());
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    out.extend_from_slice(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
}
