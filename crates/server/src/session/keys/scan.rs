//! SCAN and KEYS: the names of all plain keys and rows, in an order that survives whatever others write meanwhile; and
//! RANDOMKEY, one of them.
//!
//! Called through the command table. Never holds more than one partition's lock, and that for as long as it takes to copy
//! the names of one step: they are compared with a pattern without it.

use std::hash::{BuildHasher, RandomState};

use ashlar_base::{Datum, PartitionId};
use ashlar_store::Region;

use super::arguments::{Args, cursor, integer_or_error, is};
use super::error::{KeyError, Outcome};
use super::keyspace::{tables, work};
use super::rows::RowTable;
use super::{KeyService, KeySession, Reply, glob, row_name};

/// Bytes of names after which a SCAN ends, however many were asked for: its cursor goes on from there.
const SCAN_BYTES: usize = 1 << 20;

/// Steps of one SCAN through places without keys.
const SCAN_STEPS_MAX: u32 = 4096;

/// Names that are copied in one hold of a lock, and their bytes, after which a step becomes a finer one.
const STEP_NAMES_MAX: usize = 1024;
const STEP_BYTES_MAX: usize = 128 << 10;

/// What a name, or a step without any, takes besides its bytes.
const NAME_WORK: usize = 128;

/// Names that a step of KEYS is meant to bring.
const KEYS_STEP: u64 = 256;

/// Whether a plain key cannot be reached by its own name, because a table was created later whose rows are named so.
/// Such a key still has the name of its row, `kv:{key}`.
fn is_hidden(service: &KeyService, key: &[u8]) -> bool {
    row_name::split(key).is_some_and(|row| service.shared.engine.catalog().grid_table(row.table).is_some())
}

/// The names of one step, end to end, as they were copied under a lock.
struct Names<'s> {
    text: &'s mut Vec<u8>,
    ends: Vec<usize>,
}

impl<'s> Names<'s> {
    fn new(text: &'s mut Vec<u8>) -> Self {
        Self { text, ends: Vec::new() }
    }

    /// Copies the names of the step that begins at a place of a table, and returns the place after it. `bits` grows where that
    /// would hold the lock for too long.
    fn copy(&mut self, service: &KeyService, table: &RowTable, place: Place, bits: &mut u32) -> Option<Place> {
        let is_plain = table.region.id() == service.kv.id();
        *bits = place.finest(*bits);
        loop {
            self.text.clear();
            self.ends.clear();
            let (partition, bucket) = (PartitionId(place.partition), place.bucket(*bits));
            let is_all = table.region.keys_in_bucket(partition, bucket, *bits, |row| {
                match (is_plain, row.get(0)) {
                    (true, Datum::Bytea(bytes)) => self.text.extend_from_slice(bytes),
                    _ => table.write_name_of(&row, self.text),
                }
                self.ends.push(self.text.len());
                let is_little = self.ends.len() < STEP_NAMES_MAX && self.text.len() < STEP_BYTES_MAX;
                is_little || *bits == HASH_BITS
            });
            if is_all {
                return place.after(*bits, table.region.partition_count());
            }
            *bits += 1;
        }
    }

    /// What it takes to find and compare them, in bytes that one could go through meanwhile.
    fn work(&self) -> u64 {
        (self.text.len() + NAME_WORK * (1 + self.ends.len())) as u64
    }

    /// Calls `f` with each of them.
    fn for_each(&self, service: &KeyService, table: &RowTable, mut f: impl FnMut(&[u8])) {
        let is_plain = table.region.id() == service.kv.id();
        let mut hidden = Vec::new();
        let mut start = 0;
        for &end in &self.ends {
            let name = &self.text[start..end];
            start = end;
            if is_plain && is_hidden(service, name) {
                hidden.clear();
                table.write_name(&[Datum::Bytea(name)], &mut hidden);
                f(&hidden);
            } else {
                f(name);
            }
        }
    }
}

/// A place in the order of SCAN within one table: a partition, and how far the hashes of its keys were visited.
///
/// A key never changes its partition or its hash, so that whatever is there during the whole scan is met, and hashes
/// are visited in steps of any size: 2^-bits of a partition at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    partition: u16,
    /// The first [`HASH_BITS`] bits of the hashes that come next.
    hash: u16,
}

/// A partition is visited in as many steps at the most.
const HASH_BITS: u32 = 14;

impl Place {
    /// A step of 2^-bits of a partition, or a finer one if this place lies within such a step.
    fn finest(self, bits: u32) -> u32 {
        let aligned = HASH_BITS - self.hash.trailing_zeros().min(HASH_BITS);
        bits.clamp(aligned, HASH_BITS)
    }

    /// The number of the step that begins here.
    fn bucket(self, bits: u32) -> u64 {
        u64::from(self.hash) >> (HASH_BITS - bits)
    }

    /// Where the next step begins; none at the end of the table.
    fn after(self, bits: u32, partition_count: u16) -> Option<Self> {
        let hash = u32::from(self.hash) + (1 << (HASH_BITS - bits));
        if hash < 1 << HASH_BITS {
            return Some(Self { hash: hash as u16, ..self });
        }
        let partition = self.partition + 1;
        (partition < partition_count).then_some(Self { partition, hash: 0 })
    }
}

/// Steps of a partition that bring about `count` keys each.
fn step_bits(region: &Region, count: u64) -> u32 {
    let per_partition = region.row_estimate() / u64::from(region.partition_count());
    let steps = per_partition / count.max(1);
    steps.clamp(1, 1 << HASH_BITS).ilog2()
}

/// Where a SCAN goes on.
///
/// ```text
/// bit 52      28 27         14 13     0
///     | table   |  partition  |  hash  |     below 2^53: some clients hold a cursor in a double
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    table: u32,
    place: Place,
}

const PARTITION_BITS: u32 = 14;

impl Cursor {
    /// Any number is a place: as in Redis, a scan from behind the last one is over.
    fn decode(number: u64) -> Self {
        let low = |number: u64, bits: u32| (number & ((1 << bits) - 1)) as u16;
        let table = u32::try_from(number >> (PARTITION_BITS + HASH_BITS)).unwrap_or(u32::MAX);
        let partition = low(number >> HASH_BITS, PARTITION_BITS);
        Self { table, place: Place { partition, hash: low(number, HASH_BITS) } }
    }

    fn encode(self) -> u64 {
        (u64::from(self.table) << (PARTITION_BITS + HASH_BITS))
            | (u64::from(self.place.partition) << HASH_BITS)
            | u64::from(self.place.hash)
    }
}

/// The options of SCAN or HSCAN behind the cursor.
pub(super) struct ScanOptions<'a> {
    pub(super) pattern: &'a [u8],
    count: u64,
    /// Only names of this type: `string`, `hash`, or one that nothing has.
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    pub(super) fn parse(mut words: impl Iterator<Item = &'a [u8]>, has_type: bool) -> Outcome<Self> {
        let mut options = Self { pattern: b"*", count: 10, kind: None };
        while let Some(word) = words.next() {
            let value = words.next().ok_or(KeyError::SYNTAX)?;
            if is(word, "match") {
                options.pattern = value;
            } else if is(word, "count") {
                options.count = u64::try_from(integer_or_error(value)?).map_err(|_| KeyError::SYNTAX)?;
                if options.count == 0 {
                    return Err(KeyError::SYNTAX);
                }
            } else if has_type && is(word, "type") {
                options.kind = Some(value);
            } else {
                return Err(KeyError::SYNTAX);
            }
        }
        Ok(options)
    }

    fn wants(&self, plain: bool) -> bool {
        self.kind.is_none_or(|kind| is(kind, if plain { "string" } else { "hash" }))
    }
}

pub(super) fn scan(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let start = Cursor::decode(cursor(args.at(1))?);
    let options = ScanOptions::parse(args.from(2), true)?;
    let service = &session.service;
    let mut names = Names::new(&mut session.scratch);
    let mut found = Vec::new();
    let mut elements = Reply::new(&mut found, session.version);
    let (mut matched, mut visited, mut next) = (0, 0, None);
    let mut steps_left = SCAN_STEPS_MAX;
    'tables: for table in tables(service) {
        let id = table.region.id().0;
        if id < start.table || !options.wants(table.region.id() == service.kv.id()) {
            continue;
        }
        let place = if id == start.table { start.place } else { Place::default() };
        let mut place = Some(place).filter(|place| place.partition < table.region.partition_count());
        let step = step_bits(&table.region, options.count);
        while let Some(here) = place {
            if visited >= options.count || steps_left == 0 || elements.buffered_bytes() >= SCAN_BYTES {
                next = Some(Cursor { table: id, place: here });
                break 'tables;
            }
            steps_left -= 1;
            let mut bits = step;
            place = names.copy(service, &table, here, &mut bits);
            session.running.charge_work(names.work());
            names.for_each(service, &table, |name| {
                visited += 1;
                if glob::matches(options.pattern, name) {
                    matched += 1;
                    elements.bulk(name);
                }
            });
        }
    }
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next.map_or(0, Cursor::encode)).as_bytes());
    reply.array(matched);
    reply.append(&found);
    Ok(())
}

pub(super) fn keys(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let pattern = args.at(1);
    let service = &session.service;
    let mut names = Names::new(&mut session.scratch);
    let mut found = Vec::new();
    let mut elements = Reply::new(&mut found, session.version);
    let mut matched = 0;
    for table in tables(service) {
        let mut place = Some(Place::default());
        let mut bits = step_bits(&table.region, KEYS_STEP);
        while let Some(here) = place {
            place = names.copy(service, &table, here, &mut bits);
            session.running.charge_work(names.work());
            names.for_each(service, &table, |name| {
                if glob::matches(pattern, name) {
                    matched += 1;
                    elements.bulk(name);
                }
            });
            if elements.buffered_bytes() > super::REPLY_BYTES_MAX {
                return Err(KeyError::Redis("ERR too many keys match for one reply, use SCAN"));
            }
        }
    }
    reply.array(matched);
    reply.append(&found);
    Ok(())
}

/// Names of which RANDOMKEY gives one: with fewer, a key behind a gap in the order would come more often than others.
const CHOICE: u64 = 16;

/// Numbers that nobody can foresee: a keyed hash of how many were drawn.
#[derive(Default)]
struct Draw {
    state: RandomState,
    drawn: u64,
}

impl Draw {
    /// A number from 0 up to, and without, `bound`; 0 for a bound of 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        self.state.hash_one(self.drawn) % bound.max(1)
    }
}

/// RANDOMKEY: a place in the order of SCAN is drawn, and then one of the first names from there on.
pub(super) fn randomkey(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let service = &session.service;
    session.running.charge_work(work(service));
    let tables = tables(service);
    let mut draw = Draw::default();
    // A table comes as often as it has rows.
    let sizes: Vec<u64> = tables.iter().map(|table| table.region.row_estimate()).collect();
    let mut rest = draw.below(sizes.iter().sum());
    let first = sizes.iter().position(|&size| {
        let is_drawn = rest < size;
        rest = rest.saturating_sub(size);
        is_drawn
    });
    let Some(first) = first else {
        reply.null();
        return Ok(());
    };
    let region = &tables[first].region;
    let bits = step_bits(region, CHOICE);
    let start = Place {
        partition: draw.below(u64::from(region.partition_count())) as u16,
        hash: (draw.below(1 << bits) << (HASH_BITS - bits)) as u16,
    };
    let mut names = Names::new(&mut session.scratch);
    let (mut chosen, mut seen) = (Vec::new(), 0);
    // From there to the end of its table, all others, and its table from the beginning to there.
    let laps = tables.iter().cycle().skip(first).take(tables.len() + 1).enumerate();
    'found: for (lap, table) in laps {
        let mut place = Some(if lap == 0 { start } else { Place::default() });
        let end = (lap == tables.len()).then_some(start);
        let mut bits = step_bits(&table.region, CHOICE);
        while let Some(here) = place.filter(|here| end.is_none_or(|end| *here < end)) {
            place = names.copy(service, table, here, &mut bits);
            session.running.charge_work(names.work());
            names.for_each(service, table, |name| {
                seen += 1;
                // Each of those that were seen is chosen as often as the others.
                if draw.below(seen) == 0 {
                    chosen.clear();
                    chosen.extend_from_slice(name);
                }
            });
            if seen >= CHOICE {
                break 'found;
            }
        }
    }
    // Rows that are over, and not removed yet, have no names.
    if seen == 0 {
        reply.null();
    } else {
        reply.bulk(&chosen);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_the_way_through_a_client() {
        let cursor = Cursor { table: 16_400, place: Place { partition: 16_383, hash: (1 << HASH_BITS) - 1 } };
        assert_eq!(Cursor::decode(cursor.encode()), cursor);
        // A double holds it exactly for the first thirty million tables.
        assert!(cursor.encode() < 1 << 53);
        assert_eq!(Cursor::decode(u64::MAX).table, u32::MAX, "behind the last table");
        assert!(u32::from(ashlar_base::slot::SLOT_COUNT) <= 1 << PARTITION_BITS);
    }

    /// The part of a partition's hashes that a step covers, as a range of 14-bit prefixes.
    fn step(place: Place, bits: u32) -> std::ops::Range<u64> {
        let bits = place.finest(bits);
        let width = 1 << (HASH_BITS - bits);
        place.bucket(bits) * width..(place.bucket(bits) + 1) * width
    }

    #[test]
    fn steps_of_changing_size_meet_every_hash_once() {
        let mut place = Some(Place::default());
        let mut met = vec![0; 3];
        for bits in [4, 0, 2, 14, 7, 0, 1].into_iter().cycle() {
            let Some(here) = place else { break };
            let covered = step(here, bits);
            assert_eq!(covered.start, met[usize::from(here.partition)], "{here:?}");
            met[usize::from(here.partition)] = covered.end;
            place = here.after(here.finest(bits), 3);
        }
        assert_eq!(met, [1 << HASH_BITS; 3]);
    }
}
