//! Words of a conversation to messages of the protocol, and back. Used by `pg_wire` only.

use anyhow::{Context, Result, bail};
use ashlar_tests::pg::{Cursor, Message, message, startup};

use super::text::Word;

/// The types that conversations name, with PostgreSQL's OIDs and lengths.
const TYPES: &[(&str, i32, i16)] = &[
    ("bool", 16, 1),
    ("bytea", 17, -1),
    ("int8", 20, 8),
    ("int2", 21, 2),
    ("int4", 23, 4),
    ("text", 25, -1),
    ("json", 114, -1),
    ("float4", 700, 4),
    ("float8", 701, 8),
    ("unknown", 705, -2),
    ("int4[]", 1007, -1),
    ("text[]", 1009, -1),
    ("varchar", 1043, -1),
    ("date", 1082, 4),
    ("time", 1083, 8),
    ("timestamp", 1114, 8),
    ("timestamptz", 1184, 8),
    ("interval", 1186, 16),
    ("numeric", 1700, -1),
    ("uuid", 2950, 16),
    ("jsonb", 3802, -1),
];

fn oid(name: &str) -> Result<i32> {
    match TYPES.iter().find(|(known, ..)| *known == name) {
        Some((_, oid, _)) => Ok(*oid),
        None => name.parse().with_context(|| format!("unknown type {name}")),
    }
}

fn type_word(oid: i32) -> Word {
    let known = TYPES.iter().find(|(_, known, _)| *known == oid);
    Word::Bare(known.map_or_else(|| oid.to_string(), |(name, ..)| (*name).to_owned()))
}

/// The bytes of one message of the client.
pub(super) fn encode(words: &[Word]) -> Result<Vec<u8>> {
    let name = words.first().and_then(Word::bare).context("no message name")?;
    let rest = &words[1..];
    Ok(match name {
        "Raw" => bytes(rest, 0)?.to_vec(),
        "SSLRequest" => request(80_877_103),
        "GSSENCRequest" => request(80_877_104),
        "Startup" => {
            let mut parameters = Vec::new();
            let mut version = "3.0";
            for word in rest {
                match word {
                    Word::Field(name, value) if name == "version" => version = value,
                    Word::Field(name, value) => parameters.push((name.as_str(), value.as_str())),
                    _ => bail!("Startup takes name=value"),
                }
            }
            let (major, minor) = version.split_once('.').context("version=MAJOR.MINOR")?;
            let mut bytes = startup(&parameters);
            bytes[4..6].copy_from_slice(&major.parse::<u16>()?.to_be_bytes());
            bytes[6..8].copy_from_slice(&minor.parse::<u16>()?.to_be_bytes());
            bytes
        }
        "Query" => message(b'Q', &[bytes(rest, 0)?, b"\0"]),
        "Parse" => {
            let types = rest.get(2).map_or(Ok(&[][..]), list)?;
            let mut tail = (types.len() as i16).to_be_bytes().to_vec();
            for word in types {
                tail.extend_from_slice(&oid(word.bare().context("a type")?)?.to_be_bytes());
            }
            message(b'P', &[bytes(rest, 0)?, b"\0", bytes(rest, 1)?, b"\0", &tail])
        }
        "Bind" => {
            let mut tail = formats(rest.get(2))?;
            let parameters = rest.get(3).map_or(Ok(&[][..]), list)?;
            tail.extend_from_slice(&(parameters.len() as i16).to_be_bytes());
            for parameter in parameters {
                match parameter {
                    Word::Bytes(value) => {
                        tail.extend_from_slice(&(value.len() as i32).to_be_bytes());
                        tail.extend_from_slice(value);
                    }
                    Word::Bare(null) if null == "null" => tail.extend_from_slice(&(-1_i32).to_be_bytes()),
                    other => bail!("not a parameter: {other:?}"),
                }
            }
            tail.extend_from_slice(&formats(rest.get(4))?);
            message(b'B', &[bytes(rest, 0)?, b"\0", bytes(rest, 1)?, b"\0", &tail])
        }
        "Describe" | "Close" => {
            let target = rest.first().and_then(Word::bare).context("S or P")?;
            let kind = if name == "Describe" { b'D' } else { b'C' };
            message(kind, &[target.as_bytes(), bytes(rest, 1)?, b"\0"])
        }
        "Execute" => {
            let rows: i32 = rest.get(1).and_then(Word::bare).unwrap_or("0").parse()?;
            message(b'E', &[bytes(rest, 0)?, b"\0", &rows.to_be_bytes()])
        }
        "Sync" => message(b'S', &[]),
        "Flush" => message(b'H', &[]),
        "Terminate" => message(b'X', &[]),
        "CopyData" => message(b'd', &[bytes(rest, 0)?]),
        "CopyDone" => message(b'c', &[]),
        "CopyFail" => message(b'f', &[bytes(rest, 0)?, b"\0"]),
        other => bail!("unknown message {other}"),
    })
}

fn request(code: i32) -> Vec<u8> {
    [8_i32.to_be_bytes(), code.to_be_bytes()].concat()
}

fn bytes(words: &[Word], index: usize) -> Result<&[u8]> {
    match words.get(index) {
        Some(Word::Bytes(bytes)) => Ok(bytes),
        other => bail!("a string is missing, found {other:?}"),
    }
}

fn list(word: &Word) -> Result<&[Word]> {
    match word {
        Word::List(words) => Ok(words),
        other => bail!("a list is missing, found {other:?}"),
    }
}

fn formats(word: Option<&Word>) -> Result<Vec<u8>> {
    let words = word.map_or(Ok(&[][..]), list)?;
    let mut bytes = (words.len() as i16).to_be_bytes().to_vec();
    for word in words {
        let code: i16 = match word.bare() {
            Some("text") => 0,
            Some("binary") => 1,
            Some(other) => other.parse()?,
            None => bail!("text or binary"),
        };
        bytes.extend_from_slice(&code.to_be_bytes());
    }
    Ok(bytes)
}

/// The words of one message of the server.
pub(super) fn decode(message: &Message) -> Vec<Word> {
    let mut body = Cursor(&message.body);
    let bare = |text: &str| Word::Bare(text.to_owned());
    let text = |text: String| Word::Bytes(text.into_bytes());
    let mut words = Vec::new();
    match message.kind {
        b'R' => match body.i32() {
            0 => words.push(bare("AuthenticationOk")),
            other => words.extend([bare("Authentication"), bare(&other.to_string())]),
        },
        b'S' => words.extend([bare("ParameterStatus"), text(body.string()), text(body.string())]),
        b'K' => {
            body.bytes(message.body.len());
            words.push(bare("BackendKeyData"));
        }
        b'Z' => words.extend([bare("ReadyForQuery"), bare(&(body.u8() as char).to_string())]),
        b'T' => {
            words.push(bare("RowDescription"));
            for _ in 0..body.i16() {
                words.push(column(&mut body));
            }
        }
        b'D' => {
            words.push(bare("DataRow"));
            for _ in 0..body.i16() {
                words.push(match body.i32() {
                    -1 => bare("null"),
                    length => Word::Bytes(body.bytes(length as usize).to_vec()),
                });
            }
        }
        b'C' => words.extend([bare("CommandComplete"), text(body.string())]),
        b'I' => words.push(bare("EmptyQueryResponse")),
        b's' => words.push(bare("PortalSuspended")),
        b'n' => words.push(bare("NoData")),
        b'1' => words.push(bare("ParseComplete")),
        b'2' => words.push(bare("BindComplete")),
        b'3' => words.push(bare("CloseComplete")),
        b't' => {
            let types = (0..body.i16()).map(|_| type_word(body.i32())).collect();
            words.extend([bare("ParameterDescription"), Word::List(types)]);
        }
        b'G' | b'H' => {
            words.push(bare(if message.kind == b'G' { "CopyInResponse" } else { "CopyOutResponse" }));
            words.push(format_word(i16::from(body.u8())));
            words.push(Word::List((0..body.i16()).map(|_| format_word(body.i16())).collect()));
        }
        b'd' => words.extend([bare("CopyData"), Word::Bytes(body.bytes(message.body.len()).to_vec())]),
        b'c' => words.push(bare("CopyDone")),
        b'v' => {
            words.extend([bare("NegotiateProtocolVersion"), bare(&body.i32().to_string())]);
            words.push(Word::List((0..body.i32()).map(|_| text(body.string())).collect()));
        }
        b'E' | b'N' => {
            words.push(bare(if message.kind == b'E' { "ErrorResponse" } else { "NoticeResponse" }));
            let fields = [(b'V', "severity"), (b'C', "code"), (b'M', "message"), (b'P', "position"), (b'D', "detail")];
            let names = [(b's', "schema"), (b't', "table"), (b'n', "constraint")];
            for (field, name) in fields.into_iter().chain(names) {
                words.extend(message.field(field).map(|value| Word::Field(name.to_owned(), value)));
            }
            body.bytes(message.body.len());
        }
        other => words.push(bare(&format!("unknown message {:?}", other as char))),
    }
    if !body.0.is_empty() {
        words.push(bare(&format!("and {} bytes too many", body.0.len())));
    }
    words
}

/// `["name" type]`, with `binary`, `typmod=N` and `typlen=N` where they are not the usual.
fn column(body: &mut Cursor<'_>) -> Word {
    let mut words = vec![Word::Bytes(body.string().into_bytes())];
    body.bytes(6); // the table's OID and the column's number differ between servers
    let oid = body.i32();
    words.push(type_word(oid));
    let length = body.i16();
    if TYPES.iter().any(|(_, known, expected)| *known == oid && *expected != length) {
        words.push(Word::Field("typlen".to_owned(), length.to_string()));
    }
    let typmod = body.i32();
    if body.i16() == 1 {
        words.push(Word::Bare("binary".to_owned()));
    }
    if typmod != -1 {
        words.push(Word::Field("typmod".to_owned(), typmod.to_string()));
    }
    Word::List(words)
}

fn format_word(code: i16) -> Word {
    Word::Bare(if code == 0 { "text" } else { "binary" }.to_owned())
}
