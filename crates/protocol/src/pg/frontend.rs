//! Decodes what a PostgreSQL client sends.
//!
//! Called by the PostgreSQL door with its read buffer. Everything returned borrows from that buffer; only the
//! parameters of the startup packet, once per connection, need a vector. Never buffers: when bytes are missing, the
//! answer is `None` and the caller comes back with more.
//!
//! ```text
//! startup packet    | length i32 | code i32 | body |            length counts itself
//! message           | tag u8 | length i32 | body |              length counts itself, not the tag
//! ```

use std::ffi::CStr;

use super::{DecodeError, Problem, Target, ValueFormat};

/// The codes that stand in the place of a protocol version.
const CODE_CANCEL: i32 = 80_877_102;
const CODE_SSL: i32 = 80_877_103;
const CODE_GSSENC: i32 = 80_877_104;

/// The only major version there is.
const MAJOR: u16 = 3;

/// The length above which PostgreSQL refuses messages that have no reason to be long.
const SMALL_BYTES_MAX: usize = 10_000;

/// The first packet of a connection.
#[allow(clippy::enum_variant_names, reason = "StartupMessage is the protocol's own name for one of them")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Startup<'a> {
    /// Asks for TLS. Answered with one byte, then another startup packet follows.
    SslRequest,
    /// Asks for GSSAPI encryption. Answered likewise.
    GssEncRequest,
    /// Asks to cancel what another connection is doing.
    Cancel {
        /// The other connection's process id, from its BackendKeyData.
        pid: i32,
        /// The secret that came with it.
        secret: &'a [u8],
    },
    /// Starts a session.
    Startup {
        /// The major protocol version, always 3.
        major: u16,
        /// The minor protocol version asked for.
        minor: u16,
        /// Names and values, in the order sent: `user`, `database`, settings.
        parameters: Vec<(&'a str, &'a str)>,
    },
}

/// A message of a frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frontend<'a> {
    /// Statements of the simple protocol.
    Query(&'a str),
    /// Makes a prepared statement.
    Parse {
        /// The statement's name, empty for the unnamed one.
        name: &'a str,
        /// The statement.
        sql: &'a str,
        /// Types of the first parameters; 0 for one to be inferred.
        param_types: Oids<'a>,
    },
    /// Makes a portal of a prepared statement.
    Bind(Bind<'a>),
    /// Asks what a statement or portal looks like.
    Describe {
        /// Which of them.
        kind: Target,
        /// Its name.
        name: &'a str,
    },
    /// Runs a portal.
    Execute {
        /// Its name.
        portal: &'a str,
        /// Rows after which to suspend; none if zero or negative.
        max_rows: i32,
    },
    /// Forgets a statement or portal.
    Close {
        /// Which of them.
        kind: Target,
        /// Its name.
        name: &'a str,
    },
    /// Asks for what has been answered so far.
    Flush,
    /// Ends a group of messages of the extended protocol.
    Sync,
    /// Ends the connection.
    Terminate,
    /// A piece of COPY FROM STDIN.
    CopyData(&'a [u8]),
    /// The end of COPY FROM STDIN.
    CopyDone,
    /// COPY FROM STDIN failed on the client's side, for this reason.
    CopyFail(&'a str),
    /// A password or another answer to an authentication request: the whole body, terminator included.
    Password(&'a [u8]),
    /// A call of the old function protocol; its arguments are not decoded.
    FunctionCall,
}

/// The type OIDs of a Parse message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oids<'a>(&'a [u8]);

impl Iterator for Oids<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len() / 4, Some(self.0.len() / 4))
    }
}

impl ExactSizeIterator for Oids<'_> {}

/// A Bind message. Its counts, lengths and format codes have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal's name, empty for the unnamed one.
    pub portal: &'a str,
    /// The prepared statement's name.
    pub statement: &'a str,
    param_formats: &'a [u8],
    param_count: u16,
    params: &'a [u8],
    result_formats: &'a [u8],
}

impl<'a> Bind<'a> {
    /// The parameters, each with its format; None is NULL.
    pub fn params(&self) -> Params<'a> {
        let mut formats = Formats(self.param_formats);
        let single = match formats.len() {
            0 => Some(ValueFormat::Text),
            1 => formats.next(),
            _ => None,
        };
        Params { formats, single, left: self.param_count, bytes: self.params }
    }

    /// The formats asked for the result: none (all text), one (for all columns), or one per column.
    pub fn result_formats(&self) -> Formats<'a> {
        Formats(self.result_formats)
    }
}

/// Format codes of a Bind message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formats<'a>(&'a [u8]);

impl Iterator for Formats<'_> {
    type Item = ValueFormat;

    fn next(&mut self) -> Option<ValueFormat> {
        let (first, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        // Codes were checked when the message was decoded.
        Some(ValueFormat::from_code(i16::from_be_bytes(*first)).unwrap_or_default())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len() / 2, Some(self.0.len() / 2))
    }
}

impl ExactSizeIterator for Formats<'_> {}

/// The parameters of a Bind message.
#[derive(Clone, Debug)]
pub struct Params<'a> {
    formats: Formats<'a>,
    /// The format of all of them, when the message gives one or none.
    single: Option<ValueFormat>,
    left: u16,
    bytes: &'a [u8],
}

impl<'a> Iterator for Params<'a> {
    type Item = (ValueFormat, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let format = match self.single {
            Some(format) => format,
            None => self.formats.next()?,
        };
        let (length, rest) = self.bytes.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.bytes = rest;
            return Some((format, None));
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.bytes = rest;
        Some((format, Some(value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl ExactSizeIterator for Params<'_> {}

/// Decodes the packet that begins a connection: the packet and the bytes it took, or None if more are needed.
/// `limit` bounds the packet's length; PostgreSQL's own bound is 10000.
pub fn decode_startup(buf: &[u8], limit: usize) -> Result<Option<(Startup<'_>, usize)>, DecodeError> {
    let Some((length, rest)) = buf.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| DecodeError::StartupLength)?;
    if length < 8 || length > limit {
        return Err(DecodeError::StartupLength);
    }
    let Some(body) = rest.get(..length - 4) else {
        return Ok(None);
    };
    let Some((code, body)) = body.split_first_chunk::<4>() else {
        return Err(DecodeError::StartupLength);
    };
    let startup = match i32::from_be_bytes(*code) {
        CODE_SSL if body.is_empty() => Startup::SslRequest,
        CODE_GSSENC if body.is_empty() => Startup::GssEncRequest,
        CODE_SSL | CODE_GSSENC => return Err(DecodeError::StartupLength),
        CODE_CANCEL => decode_cancel(body)?,
        _ => {
            let major = u16::from_be_bytes([code[0], code[1]]);
            let minor = u16::from_be_bytes([code[2], code[3]]);
            if major != MAJOR {
                return Err(DecodeError::UnsupportedProtocol { major, minor });
            }
            Startup::Startup { major, minor, parameters: decode_parameters(body)? }
        }
    };
    Ok(Some((startup, length)))
}

/// The secret has 4 bytes in protocol 3.0 and up to 256 since 3.2.
fn decode_cancel(body: &[u8]) -> Result<Startup<'_>, DecodeError> {
    match body.split_first_chunk::<4>() {
        Some((pid, secret)) if (1..=256).contains(&secret.len()) => {
            Ok(Startup::Cancel { pid: i32::from_be_bytes(*pid), secret })
        }
        _ => Err(DecodeError::StartupLength),
    }
}

/// Names and values, each with a terminator, and one more terminator at the end.
fn decode_parameters(body: &[u8]) -> Result<Vec<(&str, &str)>, DecodeError> {
    let mut reader = Reader(body);
    let mut string = || match reader.string() {
        Ok(string) => Ok(string),
        Err(Problem::InvalidEncoding(bytes)) => Err(DecodeError::StartupEncoding(Problem::InvalidEncoding(bytes))),
        Err(_) => Err(DecodeError::StartupLayout),
    };
    let mut parameters = Vec::new();
    loop {
        let name = string()?;
        if name.is_empty() {
            break;
        }
        parameters.push((name, string()?));
    }
    if reader.0.is_empty() { Ok(parameters) } else { Err(DecodeError::StartupLayout) }
}

/// Decodes one message: the message and the bytes it took, or None if more are needed.
///
/// `limit` bounds the length field. An unknown tag, or a length that is out of bounds, is an error as soon as it is
/// seen, long before the body arrives.
pub fn decode(buf: &[u8], limit: usize) -> Result<Option<(Frontend<'_>, usize)>, DecodeError> {
    let Some((&tag, rest)) = buf.split_first() else {
        return Ok(None);
    };
    let limit = match tag {
        b'Q' | b'P' | b'B' | b'd' | b'F' | b'p' => limit,
        b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' => limit.min(SMALL_BYTES_MAX),
        _ => return Err(DecodeError::UnknownMessage(tag)),
    };
    let Some((length, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    let body_bytes = match usize::try_from(length) {
        Ok(bytes) if bytes >= 4 && bytes <= limit => bytes - 4,
        _ => return Err(DecodeError::MessageLength { tag, length }),
    };
    let Some(body) = rest.get(..body_bytes) else {
        return Ok(None);
    };
    let used = 5 + body_bytes;
    match decode_body(tag, body) {
        Ok(message) => Ok(Some((message, used))),
        Err(problem) => Err(DecodeError::Malformed { tag, used, problem }),
    }
}

fn decode_body(tag: u8, body: &[u8]) -> Result<Frontend<'_>, Problem> {
    let mut reader = Reader(body);
    let message = match tag {
        b'Q' => Frontend::Query(reader.string()?),
        b'P' => {
            let (name, sql) = (reader.string()?, reader.string()?);
            let count = usize::from(reader.u16()?);
            Frontend::Parse { name, sql, param_types: Oids(reader.bytes(count * 4)?) }
        }
        b'B' => Frontend::Bind(decode_bind(&mut reader)?),
        b'D' => Frontend::Describe { kind: reader.target("DESCRIBE")?, name: reader.string()? },
        b'C' => Frontend::Close { kind: reader.target("CLOSE")?, name: reader.string()? },
        b'E' => Frontend::Execute { portal: reader.string()?, max_rows: reader.i32()? },
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        b'X' => Frontend::Terminate,
        b'd' => Frontend::CopyData(reader.bytes(body.len())?),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(reader.string()?),
        b'p' => Frontend::Password(reader.bytes(body.len())?),
        // Only the function call is left: `decode` refused other tags.
        _ => {
            reader.bytes(body.len())?;
            Frontend::FunctionCall
        }
    };
    if reader.0.is_empty() { Ok(message) } else { Err(Problem::TrailingBytes) }
}

fn decode_bind<'a>(reader: &mut Reader<'a>) -> Result<Bind<'a>, Problem> {
    let (portal, statement) = (reader.string()?, reader.string()?);
    let (format_count, param_formats) = reader.formats()?;
    let param_count = reader.u16()?;
    if format_count > 1 && format_count != param_count {
        return Err(Problem::FormatCount { formats: format_count, parameters: param_count });
    }
    let params = reader.0;
    for _ in 0..param_count {
        match reader.i32()? {
            -1 => {}
            length => {
                let length = usize::try_from(length).map_err(|_| Problem::InsufficientData)?;
                reader.bytes(length)?;
            }
        }
    }
    let params = &params[..params.len() - reader.0.len()];
    let (_, result_formats) = reader.formats()?;
    Ok(Bind { portal, statement, param_formats, param_count, params, result_formats })
}

/// What is left of a message's body.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Problem::InsufficientData)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(Problem::InsufficientData)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u16(&mut self) -> Result<u16, Problem> {
        self.array().map(u16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, Problem> {
        self.array().map(i32::from_be_bytes)
    }

    fn string(&mut self) -> Result<&'a str, Problem> {
        let bytes = CStr::from_bytes_until_nul(self.0).map_err(|_| Problem::UnterminatedString)?.to_bytes();
        self.0 = &self.0[bytes.len() + 1..];
        std::str::from_utf8(bytes).map_err(|error| invalid_encoding(&bytes[error.valid_up_to()..]))
    }

    fn target(&mut self, message: &'static str) -> Result<Target, Problem> {
        match self.array()? {
            [b'S'] => Ok(Target::Statement),
            [b'P'] => Ok(Target::Portal),
            [subtype] => Err(Problem::InvalidTarget { message, subtype }),
        }
    }

    /// A count and that many format codes, all of them known.
    fn formats(&mut self) -> Result<(u16, &'a [u8]), Problem> {
        let count = self.u16()?;
        let formats = self.bytes(usize::from(count) * 2)?;
        for code in formats.as_chunks::<2>().0 {
            let code = i16::from_be_bytes(*code);
            if ValueFormat::from_code(code).is_none() {
                return Err(Problem::InvalidFormat(code));
            }
        }
        Ok((count, formats))
    }
}

/// Names the bytes of the first character that is none, as many as its first byte announces.
fn invalid_encoding(bytes: &[u8]) -> Problem {
    let announced = match bytes.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes.iter().take(announced).map(|byte| format!("0x{byte:02x}")).collect();
    Problem::InvalidEncoding(shown.join(" "))
}
