//! The prepared statements of one connection: which text has which name there.
//!
//! Names are the connection's own, so that sessions that prepared the same text share one, and a session finds its
//! statement on whichever connection it is lent. A name counts only when the shard has said that it took it. What is long, or declares more
//! types than it could name, has none: neither side keeps it, but for the last one on the shard, and it is parsed each time.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write};
use std::sync::Arc;

use ashlar_protocol::pg::Target;
use ashlar_protocol::pg::client::{self, BadMessage};

use super::Described;
use super::numbered::{At, Numbered, TextNumber};

/// Bytes of a text that connections remember: with as many statements as they may, what they remember stays small. Longer ones, such as lists of
/// hundreds of constants, rarely come twice, and take longer to run than to parse.
pub const KEPT_TEXT_BYTES_MAX: usize = 8 * 1024;

/// Types of parameters that connections remember with a text. One that is short enough names fewer parameters, but as many types as a
/// client likes may be declared for it.
const KEPT_TYPES_MAX: usize = KEPT_TEXT_BYTES_MAX / 4;

/// Bytes of a key that are kept for the next one to be written over.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// Numbers of texts that are kept for each statement that may be: plans that are made anew have others.
const NUMBERS_EACH: usize = 2;

/// See the module.
pub(super) struct Statements {
    known: Vec<Known>,
    /// Places among them, by text, types and time zone.
    places: HashMap<Arc<str>, usize>,
    /// The same, by the number of the text.
    numbered: Numbered,
    /// The key of the statement that was asked for last: kept for its memory.
    key: String,
    /// The name of the one that is being sent or used.
    current: Option<u64>,
    /// Whether it is being parsed, or one without a name is.
    is_new: bool,
    /// Names of those that are sent one after the other, before any is answered.
    ahead: VecDeque<u64>,
    /// Names that are of no use any more, and to be closed when the next statement is queued.
    stale: Vec<u64>,
    /// Counts names and uses.
    count: u64,
    max: usize,
}

struct Known {
    key: Arc<str>,
    /// Counted up: no two of the connection ever have one name.
    name: u64,
    /// The same as the shard is told it.
    called: StatementName,
    used: u64,
    /// What it was found to look like, once the shard has been asked.
    looks: Option<Arc<Described>>,
}

/// What a statement is called on the connection: `s` and a number, or nothing. It has no memory of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatementName {
    length: u8,
    bytes: [u8; 21],
}

impl StatementName {
    fn new(number: u64) -> Self {
        let mut name = Self::default();
        // No number is longer than its 20 digits.
        let _ = write!(name, "s{number}");
        name
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl Write for StatementName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        self.bytes.get_mut(start..start + text.len()).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = (start + text.len()) as u8;
        Ok(())
    }
}

impl Statements {
    pub(super) fn new(max: usize) -> Self {
        Self {
            known: Vec::new(),
            places: HashMap::new(),
            numbered: Numbered::default(),
            key: String::new(),
            current: None,
            is_new: false,
            ahead: VecDeque::new(),
            stale: Vec::new(),
            count: 0,
            max: max.max(1),
        }
    }

    /// The name of a text; Parse is queued where the connection does not know it. `zone`: the time zone of the connection
    /// now, in which a server reads the times of a text once, when it parses it.
    pub(super) fn queue(&mut self, out: &mut Vec<u8>, text: &str, types: &[u32], zone: &str) -> StatementName {
        if !is_kept(text, types) {
            return self.queue_unnamed(out, text, types);
        }
        self.ask_for(text, types, zone);
        self.close_stale(out);
        match self.place() {
            Some(place) => self.use_known(place),
            None => self.parse(out, text, types),
        }
    }

    /// The same, and whether the text is known to look as expected. One that is known to look otherwise is of another time, and is parsed
    /// anew.
    pub(super) fn queue_expecting(
        &mut self,
        out: &mut Vec<u8>,
        text: &str,
        types: &[u32],
        zone: &str,
        expected: &Arc<Described>,
    ) -> (StatementName, bool) {
        if !is_kept(text, types) {
            return (self.queue_unnamed(out, text, types), false);
        }
        self.close_stale(out);
        if let Some(place) = self.find_text(text, types, zone, expected) {
            return (self.use_known(place), true);
        }
        let name = match self.place() {
            Some(place) if self.known[place].looks.is_some() => {
                let gone = self.remove(place);
                client::close(out, Target::Statement, gone.called.as_str());
                self.parse(out, text, types)
            }
            Some(place) => self.use_known(place),
            None => self.parse(out, text, types),
        };
        (name, false)
    }

    /// The name of a text that the connection knows, and knows to look as expected. It is found by its number where it has been found
    /// before: then nobody reads it.
    pub(super) fn find(
        &mut self,
        (text, number): (&str, TextNumber),
        types: &[u32],
        zone: &Arc<str>,
        expected: &Arc<Described>,
    ) -> Option<StatementName> {
        if let Some(At { place, name }) = self.numbered.find(number, types, zone)
            && self.known.get(place).is_some_and(|known| known.name == name)
            && self.looks_as(place, expected)
        {
            return Some(self.use_known(place));
        }
        if !is_kept(text, types) {
            return None;
        }
        let place = self.find_text(text, types, zone, expected)?;
        let at = At { place, name: self.known[place].name };
        self.numbered.keep(number, types, zone, at, NUMBERS_EACH * self.max);
        Some(self.use_known(place))
    }

    /// The place of a text that the connection knows, and knows to look as expected. Its key is there afterwards.
    fn find_text(&mut self, text: &str, types: &[u32], zone: &str, expected: &Arc<Described>) -> Option<usize> {
        self.ask_for(text, types, zone);
        let place = self.place()?;
        self.looks_as(place, expected).then_some(place)
    }

    /// Whether what is known at this place looks as expected.
    fn looks_as(&mut self, place: usize, expected: &Arc<Described>) -> bool {
        match &mut self.known[place].looks {
            Some(looks) if Arc::ptr_eq(looks, expected) => true,
            Some(looks) if **looks == **expected => {
                // Seen at a glance the next time.
                *looks = Arc::clone(expected);
                true
            }
            // There is nothing in which it could differ.
            _ => expected.is_silent(),
        }
    }

    /// The place of what is asked for, where the connection knows it.
    fn place(&self) -> Option<usize> {
        self.places.get(self.key.as_str()).copied()
    }

    /// Takes away what is known at a place, where another one may be afterwards.
    fn remove(&mut self, place: usize) -> Known {
        let gone = self.known.swap_remove(place);
        self.places.remove(&gone.key);
        if let Some(moved) = self.known.get(place)
            && let Some(at) = self.places.get_mut(&moved.key)
        {
            *at = place;
        }
        gone
    }

    /// Makes the key of a text.
    fn ask_for(&mut self, text: &str, types: &[u32], zone: &str) {
        self.key.clear();
        self.key.shrink_to(KEY_BYTES_MAX);
        write_key(&mut self.key, text, types, zone);
    }

    fn close_stale(&mut self, out: &mut Vec<u8>) {
        for gone in self.stale.drain(..) {
            client::close(out, Target::Statement, StatementName::new(gone).as_str());
        }
    }

    /// The name of what is known at this place, which is used now.
    fn use_known(&mut self, place: usize) -> StatementName {
        self.count += 1;
        let known = &mut self.known[place];
        known.used = self.count;
        (self.current, self.is_new) = (Some(known.name), false);
        known.called
    }

    /// Queues Parse of what is asked for, which the connection does not know.
    fn parse(&mut self, out: &mut Vec<u8>, text: &str, types: &[u32]) -> StatementName {
        if self.known.len() >= self.max {
            let oldest = self.known.iter().enumerate().min_by_key(|(_, known)| known.used).map(|(place, _)| place);
            if let Some(oldest) = oldest {
                let gone = self.remove(oldest);
                client::close(out, Target::Statement, gone.called.as_str());
            }
        }
        self.count += 1;
        let (number, called) = (self.count, StatementName::new(self.count));
        client::parse(out, called.as_str(), text, types);
        let key: Arc<str> = self.key.as_str().into();
        self.places.insert(Arc::clone(&key), self.known.len());
        self.known.push(Known { key, name: number, called, used: number, looks: None });
        (self.current, self.is_new) = (Some(number), true);
        called
    }

    /// The same as [`Self::find`] of one that is used before what was sent before it is answered.
    pub(super) fn queue_ahead(
        &mut self,
        text: (&str, TextNumber),
        types: &[u32],
        zone: &Arc<str>,
        expected: &Arc<Described>,
    ) -> Option<StatementName> {
        let name = self.find(text, types, zone, expected)?;
        self.ahead.extend(self.current);
        Some(name)
    }

    /// How many are used before those before them are answered.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// A statement has come to its end.
    pub(super) fn completed(&mut self) {
        self.ahead.pop_front();
    }

    /// Parses a text that will not come again, or is too long to be remembered: without a name, in the place of the last such one.
    pub(super) fn queue_unnamed(&mut self, out: &mut Vec<u8>, text: &str, types: &[u32]) -> StatementName {
        client::parse(out, "", text, types);
        (self.current, self.is_new) = (None, true);
        StatementName::default()
    }

    /// Whether a statement is being parsed of which is noted that it is.
    pub(super) fn is_parsing(&self) -> bool {
        self.is_new
    }

    /// ParseComplete.
    pub(super) fn parsed(&mut self) -> Result<(), BadMessage> {
        if !self.is_new {
            return Err(BadMessage);
        }
        self.is_new = false;
        Ok(())
    }

    /// An error: a statement that was being parsed is not there; one that is stale has to be parsed anew.
    pub(super) fn failed(&mut self, is_stale: bool) {
        let is_new = std::mem::take(&mut self.is_new);
        // Those behind it are not carried out.
        if let Some(first) = self.ahead.front() {
            self.current = Some(*first);
            self.ahead.clear();
        }
        let Some(name) = self.current.take_if(|_| is_new || is_stale) else { return };
        let Some(place) = self.known.iter().position(|known| known.name == name) else { return };
        drop(self.remove(place));
        if !is_new {
            self.stale.push(name);
        }
    }

    /// The statement that was asked for last has been found to look like this.
    pub(super) fn looks(&mut self, described: Arc<Described>) {
        let Some(name) = self.current else { return };
        if let Some(known) = self.known.iter_mut().find(|known| known.name == name) {
            known.looks = Some(described);
        }
    }

    /// The shard has forgotten all of them.
    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        self.places.clear();
        self.numbered.clear();
        self.stale.clear();
        self.current = None;
    }

    /// Everything is answered.
    pub(super) fn settled(&mut self) {
        self.ahead.clear();
        self.current = None;
    }
}

/// Whether a connection remembers a text with these types.
fn is_kept(text: &str, types: &[u32]) -> bool {
    text.len() <= KEPT_TEXT_BYTES_MAX && types.len() <= KEPT_TYPES_MAX
}

/// A text cannot hold the byte 0.
fn write_key(key: &mut String, text: &str, types: &[u32], zone: &str) {
    key.push_str(text);
    key.push('\u{0}');
    key.push_str(zone);
    for oid in types {
        // Writing to a String cannot fail.
        let _ = write!(key, "\u{0}{oid}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::DescribedColumn;
    use super::*;

    #[test]
    fn a_text_is_parsed_once_and_again_after_it_failed() {
        let mut statements = Statements::new(10);
        let mut out = Vec::new();
        let first = statements.queue(&mut out, "SELECT $1", &[23], "UTC");
        assert_eq!(out[0], b'P');
        statements.parsed().unwrap();
        statements.settled();
        out.clear();
        assert_eq!(statements.queue(&mut out, "SELECT $1", &[23], "UTC"), first);
        assert!(out.is_empty());
        // In another time zone it may mean other moments.
        assert_ne!(statements.queue(&mut out, "SELECT $1", &[23], "Europe/Berlin"), first);
        statements.parsed().unwrap();
        // Another type is another statement.
        assert_ne!(statements.queue(&mut out, "SELECT $1", &[25], "UTC"), first);
        statements.failed(false);
        out.clear();
        statements.queue(&mut out, "SELECT $1", &[25], "UTC");
        assert_eq!(out[0], b'P');
        // An answer to a Parse that nobody sent.
        statements.parsed().unwrap();
        assert_eq!(statements.parsed(), Err(BadMessage));
        // An error of its execution leaves it where it is; one of its plan does not.
        statements.failed(false);
        out.clear();
        statements.queue(&mut out, "SELECT $1", &[25], "UTC");
        assert!(out.is_empty());
        statements.failed(true);
        statements.queue(&mut out, "SELECT $1", &[25], "UTC");
        let tags: Vec<u8> = [0, 9].map(|place| out[place]).to_vec();
        assert_eq!(tags, [b'C', b'P'], "{out:?}");
    }

    /// A statement with a column of this type.
    fn described(oid: u32) -> Arc<Described> {
        let column = DescribedColumn { name: "c".to_owned(), oid, typlen: -1, typmod: -1 };
        Arc::new(Described { parameters: vec![23], columns: Some(vec![column]) })
    }

    #[test]
    fn a_text_is_asked_what_it_looks_like_once_and_again_where_something_else_is_expected() {
        let mut statements = Statements::new(10);
        let mut out = Vec::new();
        let (text, types, zone): (_, _, Arc<str>) = ("SELECT $1", [23], "UTC".into());
        let (zone, number) = (&zone, TextNumber::make());
        let numbered = (text, number);
        let first = described(20);
        assert_eq!(statements.find(numbered, &types, zone, &first), None);
        let (name, is_checked) = statements.queue_expecting(&mut out, text, &types, zone, &first);
        assert_eq!((out[0], is_checked), (b'P', false));
        statements.parsed().unwrap();
        statements.looks(Arc::clone(&first));
        statements.settled();
        out.clear();
        // The same, and one that says the same.
        for expected in [&first, &described(20)] {
            assert_eq!(statements.queue_expecting(&mut out, text, &types, zone, expected), (name, true));
            assert_eq!(statements.find(numbered, &types, zone, expected), Some(name));
        }
        assert!(out.is_empty());
        // Another plan: what was parsed before is not asked whether it has changed.
        let second = described(25);
        assert_eq!(statements.find(numbered, &types, zone, &second), None);
        let (other, is_checked) = statements.queue_expecting(&mut out, text, &types, zone, &second);
        assert!(other != name && !is_checked);
        let closed = 1 + usize::try_from(u32::from_be_bytes(out[1..5].try_into().unwrap())).unwrap();
        assert_eq!((out[0], out[closed]), (b'C', b'P'));
        // It has turned out to look otherwise still: it is parsed anew.
        statements.parsed().unwrap();
        statements.failed(true);
        out.clear();
        let (third, is_checked) = statements.queue_expecting(&mut out, text, &types, zone, &second);
        assert!(third != other && !is_checked && out[0] == b'C', "{out:?}");
        // What is queued behind others is known to look as expected, too.
        assert_eq!((statements.queue_ahead(numbered, &types, zone, &second), statements.ahead()), (None, 0));
        statements.parsed().unwrap();
        statements.looks(Arc::clone(&second));
        assert_eq!(statements.queue_ahead(numbered, &types, zone, &second), Some(third));
        assert_eq!((statements.queue_ahead(numbered, &types, zone, &first), statements.ahead()), (None, 1));
        statements.settled();
        // Where nothing is expected it only has to be known.
        let nothing = Arc::new(Described::default());
        let delete = ("DELETE", TextNumber::make());
        assert_eq!(statements.find(delete, &[], zone, &nothing), None);
        let (name, is_checked) = statements.queue_expecting(&mut out, "DELETE", &[], zone, &nothing);
        assert!(!is_checked);
        for _ in 0..2 {
            assert_eq!(statements.find(delete, &[], zone, &nothing), Some(name));
        }
    }

    #[test]
    fn a_long_text_is_parsed_each_time_and_has_no_name() {
        let mut statements = Statements::new(10);
        let mut out = Vec::new();
        let expected = described(20);
        for (bytes, is_kept) in [(KEPT_TEXT_BYTES_MAX, true), (KEPT_TEXT_BYTES_MAX + 1, false)] {
            let text = " ".repeat(bytes);
            let (numbered, zone) = ((text.as_str(), TextNumber::make()), Arc::<str>::from("UTC"));
            for time in 0..3 {
                out.clear();
                let (name, is_checked) = statements.queue_expecting(&mut out, &text, &[23], "UTC", &expected);
                assert_eq!((is_checked, !out.is_empty()), (is_kept && time > 0, !is_kept || time == 0));
                assert_eq!(name.as_str().is_empty(), !is_kept);
                if !out.is_empty() {
                    statements.parsed().unwrap();
                }
                statements.looks(Arc::clone(&expected));
                statements.settled();
            }
            out.clear();
            assert_eq!(statements.queue(&mut out, &text, &[23], "UTC").as_str().is_empty(), !is_kept);
            assert_eq!(out.is_empty(), is_kept);
            if !is_kept {
                statements.parsed().unwrap();
            }
            assert_eq!(statements.find(numbered, &[23], &zone, &expected).is_some(), is_kept);
            assert_eq!(statements.queue_ahead(numbered, &[23], &zone, &expected).is_some(), is_kept);
            statements.settled();
        }
        assert_eq!(statements.known.len(), 1);
    }

    #[test]
    fn what_is_found_by_its_number_is_what_the_connection_knows_now() {
        let mut statements = Statements::new(3);
        let mut out = Vec::new();
        let (zone, expected): (Arc<str>, _) = ("UTC".into(), described(20));
        let texts = ["1", "2", "3"].map(|text| (text, TextNumber::make()));
        let mut parse = |statements: &mut Statements, text: &str| {
            let (name, is_checked) = statements.queue_expecting(&mut out, text, &[], &zone, &expected);
            assert!(!is_checked);
            statements.parsed().unwrap();
            statements.looks(Arc::clone(&expected));
            statements.settled();
            name
        };
        let names = texts.map(|(text, _)| parse(&mut statements, text));
        // By the text, and then by the number: nobody looks at the text any more.
        for (text, name) in texts.iter().zip(names) {
            assert_eq!(statements.find(*text, &[], &zone, &expected), Some(name));
            assert_eq!(statements.find(("", text.1), &[], &zone, &expected), Some(name));
        }
        assert_eq!(statements.find(("", texts[0].1), &[23], &zone, &expected), None);
        assert_eq!(statements.find(("", texts[0].1), &[], &"Europe/Berlin".into(), &expected), None);
        // Another number of the same text, as another plan has it, and another plan that expects the same.
        assert_eq!(statements.find(("1", TextNumber::make()), &[], &zone, &described(20)), Some(names[0]));
        assert_eq!(statements.find(("", texts[0].1), &[], &zone, &expected), Some(names[0]));
        assert_eq!(statements.find(("", texts[0].1), &[], &zone, &described(25)), None);
        // The first fails for good: the last is in its place, where it is not taken for the first.
        assert_eq!(statements.find(texts[0], &[], &zone, &expected), Some(names[0]));
        statements.failed(true);
        assert_eq!(statements.find(texts[0], &[], &zone, &expected), None);
        for (text, name) in texts.iter().zip(names).skip(1) {
            assert_eq!(statements.find(*text, &[], &zone, &expected), Some(name));
            assert_eq!(statements.find(("", text.1), &[], &zone, &expected), Some(name));
        }
        let again = parse(&mut statements, "1");
        assert!(!names.contains(&again));
        assert_eq!(statements.find(texts[0], &[], &zone, &expected), Some(again));
        // One that was used by its number last is not the oldest: the second is.
        for number in [texts[2].1, texts[0].1] {
            assert!(statements.find(("", number), &[], &zone, &expected).is_some());
        }
        parse(&mut statements, "4");
        assert_eq!(statements.find(texts[1], &[], &zone, &expected), None);
        assert_eq!(statements.find(texts[2], &[], &zone, &expected), Some(names[2]));
        statements.forget_all();
        assert!(texts.iter().all(|text| statements.find(*text, &[], &zone, &expected).is_none()));
        assert_eq!((statements.known.len(), statements.places.len()), (0, 0));
    }

    #[test]
    fn numbers_beyond_their_bound_are_forgotten_and_their_statements_found_by_their_texts() {
        let mut statements = Statements::new(2);
        let mut out = Vec::new();
        let (zone, expected): (Arc<str>, _) = ("UTC".into(), described(20));
        let texts = ["1", "2"];
        let names = texts.map(|text| {
            let (name, _) = statements.queue_expecting(&mut out, text, &[], &zone, &expected);
            statements.parsed().unwrap();
            statements.looks(Arc::clone(&expected));
            statements.settled();
            name
        });
        // As plans have them that are made anew again and again.
        let made: Vec<TextNumber> = (0..1000).map(|_| TextNumber::make()).collect();
        for (place, number) in made.iter().enumerate() {
            let (text, name) = (texts[place % 2], names[place % 2]);
            assert_eq!(statements.find((text, *number), &[], &zone, &expected), Some(name));
            assert!((1..=NUMBERS_EACH * 2).contains(&statements.numbered.len()), "{place}");
            // The one that came last is there.
            assert_eq!(statements.find(("", *number), &[], &zone, &expected), Some(name));
        }
        // Of those before it none is another one by now, and all are found again.
        for (place, number) in made.iter().enumerate() {
            let (text, name) = (texts[place % 2], names[place % 2]);
            let by_number = statements.find(("", *number), &[], &zone, &expected);
            assert!(by_number.is_none_or(|found| found == name), "{place}");
            assert_eq!(statements.find((text, *number), &[], &zone, &expected), Some(name));
            assert!(statements.numbered.len() <= NUMBERS_EACH * 2);
        }
        // The same where the statement that a number stands for has gone meanwhile.
        let last = made[made.len() - 2..].to_vec();
        statements.queue(&mut out, "3", &[], &zone);
        statements.parsed().unwrap();
        statements.settled();
        for (number, (text, name)) in last.into_iter().zip([("1", None), ("2", Some(names[1]))]) {
            // The second is in the place of the first.
            assert_eq!(statements.find(("", number), &[], &zone, &expected), None);
            assert_eq!(statements.find((text, number), &[], &zone, &expected), name);
            assert_eq!(statements.find(("", number), &[], &zone, &expected), name);
        }
    }

    #[test]
    fn a_text_with_more_types_than_it_could_name_is_not_remembered() {
        let mut statements = Statements::new(10);
        let mut out = Vec::new();
        let (zone, expected, text): (Arc<str>, _, _) = ("UTC".into(), described(20), "SELECT 1");
        for (count, is_kept) in [(KEPT_TYPES_MAX, true), (KEPT_TYPES_MAX + 1, false), (65_535, false)] {
            let (numbered, types) = ((text, TextNumber::make()), vec![23_u32; count]);
            for time in 0..3 {
                out.clear();
                let (name, is_checked) = statements.queue_expecting(&mut out, text, &types, &zone, &expected);
                assert_eq!((is_checked, name.as_str().is_empty()), (is_kept && time > 0, !is_kept));
                assert_eq!(out.is_empty(), is_checked);
                if !is_checked {
                    statements.parsed().unwrap();
                }
                statements.looks(Arc::clone(&expected));
                statements.settled();
                assert_eq!(statements.find(numbered, &types, &zone, &expected).is_some(), is_kept);
                statements.settled();
            }
            assert_eq!(statements.queue(&mut out, text, &types, &zone).as_str().is_empty(), !is_kept);
            if !is_kept {
                statements.parsed().unwrap();
            }
            statements.settled();
        }
        assert_eq!((statements.known.len(), statements.numbered.len()), (1, 1));
    }

    #[test]
    fn the_least_recently_used_goes() {
        let mut statements = Statements::new(2);
        let mut out = Vec::new();
        let one = statements.queue(&mut out, "1", &[], "UTC");
        let two = statements.queue(&mut out, "2", &[], "UTC");
        statements.queue(&mut out, "1", &[], "UTC");
        out.clear();
        statements.queue(&mut out, "3", &[], "UTC");
        assert_eq!(out[0], b'C');
        assert_eq!(&out[6..6 + two.as_str().len()], two.as_str().as_bytes());
        out.clear();
        assert_eq!(statements.queue(&mut out, "1", &[], "UTC"), one);
        assert!(out.is_empty());
    }
}
