//! The text of a conversation: lines, words, and what matches what. Used by `pg_wire` only.

use anyhow::{Context, Result, bail};

/// One line of a file.
pub(super) enum Line {
    /// A comment or an empty line, as it stands.
    Comment(String),
    /// A message from the client.
    Send { connection: String, words: Vec<Word>, number: usize },
    /// A message from the server.
    Expect { connection: String, words: Vec<Word>, number: usize },
}

impl Line {
    /// Whether the server must report an error here.
    pub(super) fn expects_error(&self) -> bool {
        matches!(self, Line::Expect { words, .. } if words.first().and_then(Word::bare) == Some("ErrorResponse"))
    }

    /// The bytes of a CopyData that the server must send.
    pub(super) fn copy_data(&self) -> Option<&[u8]> {
        match self {
            Line::Expect { words, .. } => match &words[..] {
                [Word::Bare(name), Word::Bytes(bytes)] if name == "CopyData" => Some(bytes),
                _ => None,
            },
            _ => None,
        }
    }
}

/// One word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// `ReadyForQuery`, `null`, `*`, `42`
    Bare(String),
    /// `"text with \n escapes"` or `x'00ff'`
    Bytes(Vec<u8>),
    /// `code=42601` or `message="some text"`
    Field(String, String),
    /// `[int4 text]`
    List(Vec<Word>),
}

impl Word {
    pub(super) fn bare(&self) -> Option<&str> {
        match self {
            Word::Bare(text) => Some(text),
            _ => None,
        }
    }
}

/// Splits a file into lines.
pub(super) fn parse(text: &str) -> Result<Vec<Line>> {
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            let number = index + 1;
            if line.is_empty() || line.starts_with('#') {
                return Ok(Line::Comment(line.to_owned()));
            }
            let at = line.find(['>', '<']).with_context(|| format!("line {number}: no direction"))?;
            let connection = line[..at].trim().to_owned();
            let words = words(&line[at + 1..]).with_context(|| format!("line {number}"))?;
            Ok(match line.as_bytes()[at] {
                b'>' => Line::Send { connection, words, number },
                _ => Line::Expect { connection, words, number },
            })
        })
        .collect()
}

fn words(text: &str) -> Result<Vec<Word>> {
    let mut rest = text;
    let words = list(&mut rest, false)?;
    if !rest.is_empty() {
        bail!("not understood: {rest:?}");
    }
    Ok(words)
}

fn list(rest: &mut &str, inner: bool) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    loop {
        *rest = rest.trim_start();
        match rest.chars().next() {
            None if inner => bail!("a list without its end"),
            None => return Ok(words),
            Some(']') if inner => {
                *rest = &rest[1..];
                return Ok(words);
            }
            Some('[') => {
                *rest = &rest[1..];
                words.push(Word::List(list(rest, true)?));
            }
            Some('"') => words.push(Word::Bytes(quoted(rest)?)),
            Some(_) if rest.starts_with("x'") => words.push(Word::Bytes(hex(rest)?)),
            Some(_) => {
                let end = rest.find([' ', ']', '=']).unwrap_or(rest.len());
                let name = rest[..end].to_owned();
                *rest = &rest[end..];
                if !rest.starts_with('=') {
                    words.push(Word::Bare(name));
                    continue;
                }
                *rest = &rest[1..];
                let value = if rest.starts_with('"') {
                    String::from_utf8(quoted(rest)?)?
                } else {
                    let end = rest.find([' ', ']']).unwrap_or(rest.len());
                    let value = rest[..end].to_owned();
                    *rest = &rest[end..];
                    value
                };
                words.push(Word::Field(name, value));
            }
        }
    }
}

/// A string in quotes, with `\n`, `\t`, `\"`, `\\` and `\0`.
fn quoted(rest: &mut &str) -> Result<Vec<u8>> {
    let mut out = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => {
                *rest = &rest[index + 1..];
                return Ok(out.into_bytes());
            }
            '\\' => out.push(match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('0') => '\0',
                Some(plain @ ('"' | '\\')) => plain,
                other => bail!("an unknown escape: {other:?}"),
            }),
            plain => out.push(plain),
        }
    }
    bail!("a string without its end")
}

/// Bytes as `x'00ff'`; spaces between the digits are for the reader.
fn hex(rest: &mut &str) -> Result<Vec<u8>> {
    let end = rest[2..].find('\'').context("bytes without their end")? + 2;
    let digits: String = rest[2..end].chars().filter(|character| *character != ' ').collect();
    *rest = &rest[end + 1..];
    if !digits.len().is_multiple_of(2) {
        bail!("an odd number of digits");
    }
    (0..digits.len()).step_by(2).map(|at| Ok(u8::from_str_radix(&digits[at..at + 2], 16)?)).collect()
}

/// Writes words as a file has them.
pub(super) fn write(words: &[Word]) -> String {
    let words: Vec<String> = words.iter().map(write_word).collect();
    words.join(" ")
}

fn write_word(word: &Word) -> String {
    match word {
        Word::Bare(text) => text.clone(),
        Word::List(words) => format!("[{}]", write(words)),
        Word::Field(name, value)
            if !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') =>
        {
            format!("{name}={value}")
        }
        Word::Field(name, value) => format!("{name}={}", quote(value)),
        Word::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t') => quote(text),
            _ => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("x'{digits}'")
            }
        },
    }
}

fn quote(text: &str) -> String {
    let escaped =
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t").replace('\0', "\\0");
    format!("\"{escaped}\"")
}

/// Whether a message is what the line says: `*` stands for any one word, and of errors only named fields count.
pub(super) fn matches(expected: &[Word], got: &[Word]) -> bool {
    let is_report =
        |words: &[Word]| matches!(words.first().and_then(Word::bare), Some("ErrorResponse" | "NoticeResponse"));
    if is_report(expected) && is_report(got) {
        return expected.iter().all(|word| got.contains(word));
    }
    expected.len() == got.len()
        && expected.iter().zip(got).all(|(expected, got)| match (expected, got) {
            (Word::Bare(any), _) if any == "*" => true,
            (Word::List(expected), Word::List(got)) => matches(expected, got),
            (expected, got) => expected == got,
        })
}

#[test]
fn words_survive_writing_and_reading() {
    let check = |text: &str| assert_eq!(write(&words(text).unwrap()), text);
    check("ReadyForQuery I");
    check(r#"Parse "a \"name\"" "SELECT\n1" [int4 0] code=42601 message="so \\ so" x'00ff10'"#);
    assert!(matches(&words("DataRow * null").unwrap(), &words("DataRow \"1\" null").unwrap()));
    assert!(!matches(&words("DataRow * null").unwrap(), &words("DataRow \"1\" \"2\"").unwrap()));
    assert!(matches(
        &words("ErrorResponse code=42601").unwrap(),
        &words("ErrorResponse severity=ERROR code=42601").unwrap()
    ));
    assert!(!matches(
        &words("ErrorResponse code=42601").unwrap(),
        &words("ErrorResponse severity=ERROR code=42P01").unwrap()
    ));
}
