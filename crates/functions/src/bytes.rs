//! Functions of `bytea`, and between bytes and text.

use ashlar_base::{Datum, Error, ErrorCode, Result, Value};
use datafusion_functions::crypto;

use super::catalog::{Body, Call, Function, R, T, function, of};
use super::strings::{text, text_of};

const BYTEA: R = R::Is(T::Bytea);
const INT4: R = R::Is(T::Int4);

/// See the module. `length`, `substring` and the like are in `strings`, which has them for text.
pub const FUNCTIONS: &[Function] = &[
    function("sha224", &[of(&[T::Bytea], BYTEA, Body::Engine(crypto::sha224))]),
    function("sha256", &[of(&[T::Bytea], BYTEA, Body::Engine(crypto::sha256))]),
    function("sha384", &[of(&[T::Bytea], BYTEA, Body::Engine(crypto::sha384))]),
    function("sha512", &[of(&[T::Bytea], BYTEA, Body::Engine(crypto::sha512))]),
    function("get_byte", &[of(&[T::Bytea, T::Int4], INT4, Body::Strict(get_byte))]),
    function("set_byte", &[of(&[T::Bytea, T::Int4, T::Int4], BYTEA, Body::Strict(set_byte))]),
    function("get_bit", &[of(&[T::Bytea, T::Int8], INT4, Body::Strict(get_bit))]),
    function("set_bit", &[of(&[T::Bytea, T::Int8, T::Int4], BYTEA, Body::Strict(set_bit))]),
    function("bit_count", &[of(&[T::Bytea], R::Is(T::Int8), Body::Strict(bit_count))]),
    function("encode", &[of(&[T::Bytea, T::Text], R::Is(T::Text), Body::Strict(encode))]),
    function("decode", &[of(&[T::Text, T::Text], BYTEA, Body::Strict(decode))]),
    function("convert_from", &[of(&[T::Bytea, T::Text], R::Is(T::Text), Body::Strict(convert_from))]),
    function("convert_to", &[of(&[T::Text, T::Text], BYTEA, Body::Strict(convert_to))]),
];

fn bytes_of<'a>(datum: &'a Datum<'_>) -> &'a [u8] {
    match datum {
        Datum::Bytea(bytes) => bytes,
        _ => &[],
    }
}

fn int_of(datum: &Datum<'_>) -> i32 {
    match datum {
        Datum::Int4(value) => *value,
        _ => 0,
    }
}

fn bytea(bytes: impl Into<Box<[u8]>>) -> Result<Value> {
    Ok(Value::Bytea(bytes.into()))
}

/// `length(bytea)`, `octet_length(bytea)`
pub fn length(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(bytes_of(&args[0]).len()).unwrap_or(i32::MAX)))
}

/// `bit_length(bytea)`
pub fn bit_length(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(bytes_of(&args[0]).len() * 8).unwrap_or(i32::MAX)))
}

/// `position(bytea in bytea)`, the haystack first.
pub fn position(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (haystack, needle) = (bytes_of(&args[0]), bytes_of(&args[1]));
    let found =
        if needle.is_empty() { Some(0) } else { haystack.windows(needle.len()).position(|part| part == needle) };
    Ok(Value::Int4(found.map_or(0, |at| i32::try_from(at + 1).unwrap_or(i32::MAX))))
}

/// `substring(bytea from start for length)`
pub fn substring(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let bytes = bytes_of(&args[0]);
    let start = i64::from(int_of(&args[1]));
    let end = match args.get(2).map(int_of) {
        Some(length) if length < 0 => {
            return Err(Error::new(ErrorCode::SubstringError, "negative substring length not allowed"));
        }
        Some(length) => start + i64::from(length),
        None => i64::MAX,
    };
    let at = |place: i64| usize::try_from(place.max(1) - 1).unwrap_or(0).min(bytes.len());
    bytea(bytes.get(at(start)..at(end)).unwrap_or_default())
}

fn index_of(bytes: &[u8], index: i32) -> Result<usize> {
    usize::try_from(index).ok().filter(|index| *index < bytes.len()).ok_or_else(|| {
        Error::new(
            ErrorCode::ArraySubscriptError,
            format!("index {index} out of valid range, 0..{}", bytes.len() as i64 - 1),
        )
    })
}

fn get_byte(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let bytes = bytes_of(&args[0]);
    Ok(Value::Int4(i32::from(bytes[index_of(bytes, int_of(&args[1]))?])))
}

fn set_byte(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let mut bytes = bytes_of(&args[0]).to_vec();
    let index = index_of(&bytes, int_of(&args[1]))?;
    bytes[index] = int_of(&args[2]) as u8;
    bytea(bytes)
}

/// The byte that a bit is in, and the bit alone: those of a byte are counted from its lowest.
fn bit_of(bytes: &[u8], datum: &Datum<'_>) -> Result<(usize, u8)> {
    let index = if let Datum::Int8(index) = datum { *index } else { 0 };
    let found = usize::try_from(index / 8).ok().filter(|byte| index >= 0 && *byte < bytes.len());
    let Some(byte) = found else {
        let last = bytes.len() as i64 * 8 - 1;
        let message = format!("index {index} out of valid range, 0..{last}");
        return Err(Error::new(ErrorCode::ArraySubscriptError, message));
    };
    Ok((byte, 1 << (index % 8)))
}

fn get_bit(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let bytes = bytes_of(&args[0]);
    let (byte, bit) = bit_of(bytes, &args[1])?;
    Ok(Value::Int4(i32::from(bytes[byte] & bit != 0)))
}

fn set_bit(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let mut bytes = bytes_of(&args[0]).to_vec();
    let (byte, bit) = bit_of(&bytes, &args[1])?;
    match int_of(&args[2]) {
        0 => bytes[byte] &= !bit,
        1 => bytes[byte] |= bit,
        _ => return Err(Error::new(ErrorCode::InvalidParameterValue, "new bit must be 0 or 1")),
    }
    bytea(bytes)
}

fn bit_count(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Int8(bytes_of(&args[0]).iter().map(|byte| i64::from(byte.count_ones())).sum()))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base64, as PostgreSQL breaks it.
const LINE: usize = 76;

fn encode(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (bytes, format) = (bytes_of(&args[0]), text_of(&args[1]));
    let mut out = String::new();
    match format.to_ascii_lowercase().as_str() {
        "hex" => out.extend(bytes.iter().map(|byte| format!("{byte:02x}"))),
        "base64" => {
            for (group, chunk) in bytes.chunks(3).enumerate() {
                if group > 0 && (group * 4).is_multiple_of(LINE) {
                    out.push('\n');
                }
                let bits =
                    chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
                for digit in 0..4 {
                    let value = (bits >> (18 - 6 * digit)) & 63;
                    out.push(if digit <= chunk.len() { char::from(BASE64[value as usize]) } else { '=' });
                }
            }
        }
        "escape" => {
            for byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0 | 0x80..=0xff => out.push_str(&format!("\\{byte:03o}")),
                    byte => out.push(char::from(*byte)),
                }
            }
        }
        _ => return Err(unknown_format(format)),
    }
    text(out)
}

fn unknown_format(format: &str) -> Error {
    Error::new(ErrorCode::InvalidParameterValue, format!("unrecognized encoding: \"{format}\""))
}

fn decode(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (encoded, format) = (text_of(&args[0]), text_of(&args[1]));
    match format.to_ascii_lowercase().as_str() {
        "hex" => bytea(decode_hex(encoded)?),
        "base64" => bytea(decode_base64(encoded)?),
        "escape" => bytea(decode_escape(encoded)?),
        _ => Err(unknown_format(format)),
    }
}

fn decode_hex(encoded: &str) -> Result<Vec<u8>> {
    let digits = encoded
        .chars()
        .filter(|character| !matches!(character, ' ' | '\n' | '\t' | '\r'))
        .map(|character| {
            character.to_digit(16).map(|digit| digit as u8).ok_or_else(|| {
                Error::new(ErrorCode::InvalidParameterValue, format!("invalid hexadecimal digit: \"{character}\""))
            })
        })
        .collect::<Result<Vec<u8>>>()?;
    if digits.len() % 2 == 1 {
        return Err(Error::new(ErrorCode::InvalidParameterValue, "invalid hexadecimal data: odd number of digits"));
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn decode_base64(encoded: &str) -> Result<Vec<u8>> {
    let invalid_end = || {
        Error::new(ErrorCode::InvalidParameterValue, "invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted.")
    };
    let (mut bits, mut count, mut padding) = (0u32, 0, 0);
    let mut out = Vec::new();
    for character in encoded.chars().filter(|character| !matches!(character, ' ' | '\n' | '\t' | '\r')) {
        let value = if character == '=' {
            if count < 2 {
                return Err(Error::new(
                    ErrorCode::InvalidParameterValue,
                    "unexpected \"=\" while decoding base64 sequence",
                ));
            }
            padding += 1;
            0
        } else {
            let place = BASE64.iter().position(|digit| char::from(*digit) == character).filter(|_| padding == 0);
            place.ok_or_else(|| {
                Error::new(
                    ErrorCode::InvalidParameterValue,
                    format!("invalid symbol \"{character}\" found while decoding base64 sequence"),
                )
            })?
        };
        bits = bits << 6 | value as u32;
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding.min(2)]);
            (bits, count) = (0, 0);
        }
    }
    if count == 0 { Ok(out) } else { Err(invalid_end()) }
}

fn decode_escape(encoded: &str) -> Result<Vec<u8>> {
    let invalid = || Error::new(ErrorCode::InvalidTextRepresentation, "invalid input syntax for type bytea");
    let bytes = encoded.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte != b'\\' {
            out.push(*byte);
            at += 1;
        } else if bytes.get(at + 1) == Some(&b'\\') {
            out.push(b'\\');
            at += 2;
        } else {
            let octal = bytes.get(at + 1..at + 4).ok_or_else(invalid)?;
            if !matches!(octal, [b'0'..=b'3', b'0'..=b'7', b'0'..=b'7']) {
                return Err(invalid());
            }
            out.push(octal.iter().fold(0, |value, digit| value << 3 | (digit - b'0')));
            at += 4;
        }
    }
    Ok(out)
}

enum Encoding {
    Utf8,
    Latin1,
}

fn encoding_of(name: &str, is_source: bool) -> Result<Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(Encoding::Utf8),
        "latin1" | "iso88591" => Ok(Encoding::Latin1),
        "sqlascii" | "latin2" | "latin5" | "latin9" | "win1250" | "win1251" | "win1252" | "koi8r" | "eucjp"
        | "sjis" | "big5" | "gbk" | "gb18030" | "euckr" | "euccn" | "euctw" => {
            Err(Error::unsupported(format!("the encoding {name} is not supported")).with_hint("UTF8 and LATIN1 are."))
        }
        _ => {
            let which = if is_source { "source" } else { "destination" };
            Err(Error::new(ErrorCode::InvalidParameterValue, format!("invalid {which} encoding name \"{name}\"")))
        }
    }
}

fn convert_from(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let bytes = bytes_of(&args[0]);
    let invalid = |byte: &[u8]| {
        let shown = byte.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(" ");
        Error::new(ErrorCode::CharacterNotInRepertoire, format!("invalid byte sequence for encoding \"UTF8\": {shown}"))
    };
    if bytes.contains(&0) {
        return Err(invalid(&[0]));
    }
    match encoding_of(text_of(&args[1]), true)? {
        Encoding::Latin1 => text(bytes.iter().map(|byte| char::from(*byte)).collect::<String>()),
        Encoding::Utf8 => match std::str::from_utf8(bytes) {
            Ok(valid) => text(valid),
            Err(error) => {
                let at = error.valid_up_to();
                // As many bytes as the first one announces.
                let length = match bytes[at] {
                    0xc0..=0xdf => 2,
                    0xe0..=0xef => 3,
                    0xf0..=0xf7 => 4,
                    _ => 1,
                };
                Err(invalid(&bytes[at..bytes.len().min(at + length)]))
            }
        },
    }
}

fn convert_to(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let source = text_of(&args[0]);
    match encoding_of(text_of(&args[1]), false)? {
        Encoding::Utf8 => bytea(source.as_bytes()),
        Encoding::Latin1 => {
            let bytes = source.chars().map(|character| {
                u8::try_from(u32::from(character)).map_err(|_| {
                    let mut buffer = [0; 4];
                    let shown = character.encode_utf8(&mut buffer).bytes().map(|byte| format!("0x{byte:02x}"));
                    Error::new(
                        ErrorCode::UntranslatableCharacter,
                        format!(
                            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"",
                            shown.collect::<Vec<_>>().join(" ")
                        ),
                    )
                })
            });
            bytea(bytes.collect::<Result<Vec<u8>>>()?)
        }
    }
}
