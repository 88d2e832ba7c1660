//! Replies as they came, and whether they are right: judged when nothing is timed.

use std::ops::Range;

use anyhow::{Result, bail};

use super::stored::Stored;
use crate::door::resp::{Reply, RespClient};
use crate::workload::keys::{fault, version_of};
use crate::workload::structured;

/// Replies as they came: kept until they can be judged without being timed.
#[derive(Default)]
pub(super) struct Replies {
    values: Vec<u8>,
    replies: Vec<Kept>,
    /// Where the replies of each command end, in `replies`.
    ends: Vec<usize>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Ok,
    Number(i64),
    /// A value, in [`Replies::values`].
    Value(Range<usize>),
    /// Anything else, as text.
    Other(String),
}

impl Replies {
    pub(super) fn forget(&mut self) {
        self.values.clear();
        self.replies.clear();
        self.ends.clear();
    }

    /// Reads the reply to one command; where it may be an array, of so many elements at most, to its end.
    pub(super) fn read(&mut self, client: &mut RespClient, many: Option<usize>) -> Result<()> {
        match (client.reply()?, many) {
            (Reply::Array(Some(count)), Some(most)) if count <= most => {
                for _ in 0..count {
                    match client.reply()? {
                        other @ Reply::Array(_) => bail!("an element of an answer is {other}"),
                        reply => self.keep(reply),
                    }
                }
            }
            // Nobody knows where the next reply begins.
            (other @ Reply::Array(_), _) => bail!("a command was answered by {other}"),
            (other, _) => self.keep(other),
        }
        self.ends.push(self.replies.len());
        Ok(())
    }

    fn keep(&mut self, reply: Reply<'_>) {
        self.replies.push(match reply {
            Reply::Simple(b"OK") => Kept::Ok,
            Reply::Integer(number) => Kept::Number(number),
            Reply::Bulk(Some(value)) => {
                let start = self.values.len();
                self.values.extend_from_slice(value);
                Kept::Value(start..self.values.len())
            }
            other => Kept::Other(other.to_string()),
        });
    }

    /// The replies to each command.
    pub(super) fn by_command(&self) -> impl Iterator<Item = &[Kept]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.replies[start..*end])
    }

    /// The fields of a row that are the reply to a command; None if it is no list of names and texts.
    fn row<'a>(&'a self, replies: &[Kept]) -> Option<Vec<(&'a [u8], &'a [u8])>> {
        let text = |reply: &Kept| match reply {
            Kept::Value(place) => Some(&self.values[place.clone()]),
            Kept::Ok | Kept::Number(_) | Kept::Other(_) => None,
        };
        let pair = |pair: &[Kept]| Some((text(pair.first()?)?, text(pair.get(1)?)?));
        replies.chunks(2).map(pair).collect()
    }

    /// The version of the only value that came, if it has one.
    pub(super) fn version(&self, stored: Stored) -> Option<u32> {
        match (stored, &self.replies[..]) {
            (Stored::Bytes(_), [Kept::Value(place)]) => version_of(&self.values[place.clone()]),
            (Stored::Bytes(_), _) => None,
            (Stored::Row, replies) => structured::version_of(&self.row(replies)?),
        }
    }

    /// What is wrong with all that came, as the answer to a read of one key.
    pub(super) fn fault_of_one(&self, stored: Stored, key: u64) -> Option<String> {
        self.fault(stored, true, &[key], &self.replies)
    }

    /// What is wrong with the reply to a command for these keys.
    pub(super) fn fault(&self, stored: Stored, reads: bool, keys: &[u64], replies: &[Kept]) -> Option<String> {
        let said = |reply: &Kept| match reply {
            Kept::Ok => "OK".to_owned(),
            Kept::Number(number) => number.to_string(),
            Kept::Value(place) => format!("{} bytes", place.len()),
            Kept::Other(text) => text.clone(),
        };
        match (stored, replies) {
            // All fields were there before.
            (Stored::Bytes(_), [Kept::Ok]) | (Stored::Row, [Kept::Number(0)]) if !reads => None,
            (Stored::Bytes(bytes), replies) if reads && replies.len() == keys.len() => {
                keys.iter().zip(replies).find_map(|(number, reply)| match reply {
                    Kept::Value(place) => fault(*number, bytes, &self.values[place.clone()]),
                    other => Some(format!("key {number} was answered by {}", said(other))),
                })
            }
            (_, replies) => {
                if let (Stored::Row, true, Some(row)) = (stored, reads, self.row(replies)) {
                    return structured::fault(keys[0], &row);
                }
                let said = replies.first().map_or("nothing".to_owned(), said);
                let what = if reads { "a read" } else { "a write" };
                Some(format!("{what} from key {} on was answered by {said}", keys[0]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored::FIRST_VERSION;
    use super::*;
    use crate::workload::keys::value;
    use crate::workload::structured::Structured;

    /// What is said of these replies to one command.
    fn said(reads: bool, keys: &[u64], given: &[Reply<'_>]) -> Option<String> {
        let mut replies = Replies::default();
        given.iter().for_each(|reply| replies.keep(*reply));
        replies.ends.push(given.len());
        let command = replies.by_command().next().unwrap();
        replies.fault(Stored::Bytes(100), reads, keys, command)
    }

    #[test]
    fn replies_are_judged_by_what_was_asked() {
        let mut values = [Vec::new(), Vec::new()];
        value(5, 0, 100, &mut values[0]);
        value(6, 7, 100, &mut values[1]);
        let (first, second) = (Reply::Bulk(Some(&values[0])), Reply::Bulk(Some(&values[1])));
        let ok = Reply::Simple(b"OK");
        assert_eq!(said(true, &[5], &[first]), None);
        assert_eq!(said(true, &[5, 6], &[first, second]), None);
        assert_eq!(said(false, &[5], &[ok]), None);
        for (reads, keys, given, part) in [
            (true, &[6][..], &[first][..], "key 6 has the value of key 5"),
            (true, &[5, 6], &[first, Reply::Bulk(None)], "key 6 was answered by no value"),
            (true, &[5, 6], &[Reply::Error(b"ERR no")], "a read from key 5 on was answered by error ERR no"),
            (true, &[5], &[ok], "key 5 was answered by OK"),
            (false, &[5], &[Reply::Error(b"OOM")], "a write from key 5 on was answered by error OOM"),
            (false, &[5], &[first], "a write from key 5 on was answered by 100 bytes"),
        ] {
            let fault = said(reads, keys, given).unwrap();
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn rows_are_judged_by_all_of_their_fields() {
        let mut value = Structured::default();
        value.set(5, 0);
        let judged = |reads: bool, key: u64, given: &[Reply<'_>]| {
            let mut replies = Replies::default();
            given.iter().for_each(|reply| replies.keep(*reply));
            (replies.fault(Stored::Row, reads, &[key], &replies.replies), replies.version(Stored::Row))
        };
        let pairs = value.fields().flat_map(|(name, text)| [name.as_bytes(), text]);
        let given: Vec<Reply<'_>> = pairs.map(|text| Reply::Bulk(Some(text))).collect();
        assert_eq!(judged(true, 5, &given), (None, Some(FIRST_VERSION)));
        assert_eq!(judged(false, 5, &[Reply::Integer(0)]).0, None);
        for (reads, key, given, part) in [
            (true, 6, &given[..], "key 6, version 0: id is 5 instead of 6"),
            (true, 5, &given[..18], "there is no note"),
            (true, 5, &given[..19], "a read from key 5 on was answered by 2 bytes"),
            (true, 5, &[], "key 5 has no value"),
            (true, 5, &[Reply::Error(b"WRONGTYPE")], "was answered by error WRONGTYPE"),
            // A row that was there is gone, and was made anew.
            (false, 5, &[Reply::Integer(10)], "a write from key 5 on was answered by 10"),
        ] {
            let fault = judged(reads, key, given).0.unwrap();
            assert!(fault.contains(part), "{fault}");
        }
    }
}
