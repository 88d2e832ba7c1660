//! Profiles in the format of `pprof`: a protocol buffer that `go tool pprof`, Speedscope, Grafana and others read.
//!
//! The format: <https://github.com/google/pprof/blob/main/proto/profile.proto>. Written without compression, which readers
//! take as well.

use std::collections::HashMap;

use prost::Message;

use crate::Stacks;

/// What the values of a profile count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// As `cpu`, `wall` or `space`.
    pub kind: &'static str,
    /// As `nanoseconds` or `bytes`.
    pub unit: &'static str,
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueTypeMessage>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueTypeMessage {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

/// Texts by their place in the table of a profile; the first is empty, as the format wants it.
struct Strings {
    places: HashMap<String, i64>,
    table: Vec<String>,
}

impl Strings {
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.table.len() as i64;
        self.table.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

/// The bytes of a profile that ended at `ended_at` (nanoseconds since 1970) and took so many nanoseconds.
pub fn encode(stacks: &Stacks, counted: ValueType, ended_at: i64, duration: i64) -> Vec<u8> {
    let mut strings = Strings { places: HashMap::from([(String::new(), 0)]), table: vec![String::new()] };
    let sample_type = vec![ValueTypeMessage { kind: strings.place(counted.kind), unit: strings.place(counted.unit) }];
    // A function has one location, for stacks are of names, not of addresses: one number serves for both.
    let mut functions: Vec<Function> = Vec::new();
    let mut ids: HashMap<&str, u64> = HashMap::new();
    let mut sample = Vec::new();
    for (stack, value) in stacks.values() {
        // The format has the leaf first.
        let location_id = stack.rsplit(';').map(|name| {
            *ids.entry(name).or_insert_with(|| {
                let id = functions.len() as u64 + 1;
                functions.push(Function { id, name: strings.place(name) });
                id
            })
        });
        let location_id = location_id.collect();
        sample.push(Sample { location_id, value: vec![i64::try_from(*value).unwrap_or(i64::MAX)] });
    }
    let location =
        functions.iter().map(|function| Location { id: function.id, line: vec![Line { function_id: function.id }] });
    let profile = Profile {
        sample_type,
        sample,
        location: location.collect(),
        function: functions,
        string_table: strings.table,
        time_nanos: ended_at.saturating_sub(duration),
        duration_nanos: duration,
    };
    profile.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::profile::request::answer;

    /// The stacks that a reader of the format finds.
    fn decode(bytes: &[u8]) -> Stacks {
        let profile = Profile::decode(bytes).unwrap();
        let text = |place: i64| profile.string_table[place as usize].as_str();
        assert_eq!(text(0), "");
        assert_eq!((text(profile.sample_type[0].kind), text(profile.sample_type[0].unit)), ("cpu", "nanoseconds"));
        let mut stacks = Stacks::default();
        for sample in &profile.sample {
            let frames = sample.location_id.iter().rev().map(|id| {
                let location = profile.location.iter().find(|location| location.id == *id).unwrap();
                let function = profile.function.iter().find(|one| one.id == location.line[0].function_id).unwrap();
                text(function.name)
            });
            stacks.add(frames, sample.value[0] as u64);
        }
        stacks
    }

    #[inline(never)]
    fn burn_until(over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    /// Nanoseconds that a thread burnt in a profile of a second, as a reader finds them.
    fn burnt() -> u64 {
        let over = AtomicBool::new(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| burn_until(&over));
            let answer = runtime.block_on(answer("cpu", "seconds=1", "*/*"));
            over.store(true, Ordering::Relaxed);
            answer
        });
        assert_eq!((answer.status, answer.media_type), (200, "application/octet-stream"));
        let profile = Profile::decode(&answer.body[..]).unwrap();
        assert_eq!(profile.duration_nanos, 1_000_000_000);
        let burnt = decode(&answer.body);
        let burnt =
            burnt.iter().filter(|(frames, _)| frames.clone().any(|frame| frame.ends_with("pprof::tests::burn_until")));
        burnt.map(|(_, value)| value).sum()
    }

    #[test]
    fn a_reader_finds_what_a_processor_did_meanwhile() {
        let mut found = Vec::new();
        // It had a processor for some of the second, and no more than one: in one of a few, on a machine that has much else to do.
        while found.len() < 8 {
            let burnt = burnt();
            if (50_000_000..2_000_000_000).contains(&burnt) {
                return;
            }
            found.push(burnt);
        }
        panic!("{found:?} ns");
    }

    #[test]
    fn a_reader_finds_the_stacks() {
        let stacks = Stacks::parse("main;run 5\nmain;run;read 7\nother;run 1\n").unwrap();
        let bytes = encode(&stacks, ValueType { kind: "cpu", unit: "nanoseconds" }, 10, 3);
        assert_eq!(decode(&bytes), stacks);
        let profile = Profile::decode(&bytes[..]).unwrap();
        assert_eq!((profile.time_nanos, profile.duration_nanos), (7, 3));
    }
}
