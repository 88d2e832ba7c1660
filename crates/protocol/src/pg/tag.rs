//! The tag of a command: what a statement has done, as `INSERT 0 1`. Kept where it is, since every statement has one.

use std::fmt::{self, Write};
use std::ops::Deref;

/// The longest tag: PostgreSQL's own are shorter than 64 bytes with the 0 at their end.
const BYTES_MAX: usize = 63;

/// A tag without memory of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CommandTag {
    length: u8,
    bytes: [u8; BYTES_MAX],
}

impl CommandTag {
    /// The tag that a text is; `None` where no tag is as long.
    pub fn read(text: &str) -> Option<Self> {
        (text.len() <= BYTES_MAX).then(|| Self::from(text))
    }

    /// Words, and a number behind them.
    pub fn counted(words: &str, number: u64) -> Self {
        let mut tag = Self::from(words);
        // There is room behind all words of ours.
        let _ = write!(tag, " {number}");
        tag
    }

    /// The number behind its words, where there is one.
    pub fn count(&self) -> Option<u64> {
        let written = self.written();
        let space = written.iter().rposition(|byte| *byte == b' ')?;
        std::str::from_utf8(&written[space + 1..]).ok()?.parse().ok()
    }

    /// The first of its words.
    pub fn first_word(&self) -> &[u8] {
        let written = self.written();
        let end = written.iter().position(|byte| *byte == b' ').unwrap_or(written.len());
        &written[..end]
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl From<&str> for CommandTag {
    /// What is longer than a tag is cut.
    fn from(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(BYTES_MAX)];
        let mut bytes = [0; BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self { length: text.len() as u8, bytes }
    }
}

impl Write for CommandTag {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let room = self.bytes.get_mut(start..start + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = (start + text.len()) as u8;
        Ok(())
    }
}

impl Deref for CommandTag {
    type Target = str;

    fn deref(&self) -> &str {
        // Only ever made of whole texts.
        std::str::from_utf8(self.written()).unwrap_or_default()
    }
}

impl fmt::Display for CommandTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for CommandTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq<str> for CommandTag {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for CommandTag {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_text_that_it_was_made_of() {
        assert_eq!(CommandTag::from("CREATE TABLE"), "CREATE TABLE");
        assert_eq!(CommandTag::counted("INSERT 0", u64::MAX), "INSERT 0 18446744073709551615");
        assert_eq!(CommandTag::counted("SELECT", 5).count(), Some(5));
        assert_eq!(CommandTag::from("BEGIN").count(), None);
        for text in ["", " ", "SELECT", "SELECT 5", "INSERT 0 1", "INSERT 0 ", " 7", "SELECT x", "SELECT +5", "a  -1"] {
            let tag = CommandTag::from(text);
            let number = text.rsplit_once(' ').and_then(|(_, number)| number.parse::<u64>().ok());
            let word = text.split(' ').next().unwrap_or_default();
            assert_eq!((tag.count(), tag.first_word()), (number, word.as_bytes()), "{text:?}");
        }
        assert_eq!(CommandTag::read(&"x".repeat(BYTES_MAX)).unwrap().len(), BYTES_MAX);
        assert_eq!(CommandTag::read(&"x".repeat(BYTES_MAX + 1)), None);
        // Cut between letters.
        assert_eq!(CommandTag::from("ä".repeat(40).as_str()).len(), BYTES_MAX - 1);
    }
}
