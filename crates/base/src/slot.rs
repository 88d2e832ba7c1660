//! Key -> slot -> partition: the one function that says where a key lives.
//!
//! The slot is Redis Cluster's (CRC16/XMODEM modulo 16384, hash tags honoured), so that a cluster-aware Redis
//! client and the server agree. Partitions are contiguous ranges of slots.
//! Source: the Redis Cluster specification, "Keys distribution model".

use crate::{PartitionId, Slot};

/// Slots in all.
pub const SLOT_COUNT: u16 = 16384;

/// Bytes taken at one step: the lookups of a step do not wait for each other.
const STEP: usize = 8;
/// `CRC16_TABLES[n][byte]`: the checksum of the byte and `n` zero bytes after it.
static CRC16_TABLES: [[u16; 256]; STEP] = crc16_tables();

const fn crc16_tables() -> [[u16; 256]; STEP] {
    let mut tables = [[0u16; 256]; STEP];
    tables[0] = crc16_table();
    let mut zeros = 1;
    while zeros < STEP {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = (crc << 8) ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

const fn crc16_table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// CRC16/XMODEM, eight bytes at a step ("slicing by 8", Kounavis and Berry 2005). The first step has what the others leave, behind
/// zeros, which change nothing there: one by one, each of these bytes would wait for the one before it.
fn crc16(bytes: &[u8]) -> u16 {
    let tables = &CRC16_TABLES;
    let step = |crc: u16, &[a, b, c, d, e, f, g, h]: &[u8; STEP]| {
        let [high, low] = crc.to_be_bytes();
        let at = |zeros: usize, byte: u8| tables[zeros][usize::from(byte)];
        at(7, a ^ high) ^ at(6, b ^ low) ^ at(5, c) ^ at(4, d) ^ at(3, e) ^ at(2, f) ^ at(1, g) ^ at(0, h)
    };
    let (first, steps) = bytes.as_rchunks::<STEP>();
    let first = first.iter().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let crc = if first == 0 { 0 } else { step(0, &first.to_be_bytes()) };
    steps.iter().fold(crc, step)
}

/// The slot of a key as Redis Cluster computes it: of the text between the first `{` and the first `}` after it,
/// if there is any such text, else of the whole key.
pub fn slot_of_key(key: &[u8]) -> Slot {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    Slot(crc16(tag.unwrap_or(key)) % SLOT_COUNT)
}

/// The slot of a row whose partition key has this canonical text: that of the RESP name `table:{text}`.
pub fn slot_of_row(table: &str, text: &[u8]) -> Slot {
    // `{` + text + `}`: the tag ends at the first `}`, which may be the text's own.
    let end = text.iter().position(|&byte| byte == b'}').unwrap_or(text.len());
    if end > 0 {
        return Slot(crc16(&text[..end]) % SLOT_COUNT);
    }
    // An empty tag is no tag: Redis hashes the whole name.
    let mut name = Vec::with_capacity(table.len() + text.len() + 3);
    name.extend_from_slice(table.as_bytes());
    name.extend_from_slice(b":{");
    name.extend_from_slice(text);
    name.push(b'}');
    slot_of_key(&name)
}

/// The partition that owns a slot, of `partition_count` (a power of two, at most 16384) equal ranges.
#[inline]
pub fn partition_of_slot(slot: Slot, partition_count: u16) -> PartitionId {
    debug_assert!(partition_count.is_power_of_two() && partition_count <= SLOT_COUNT);
    // By the number of slots, which is known: dividing by a range's would take longer than all else here.
    PartitionId((u32::from(slot.0) * u32::from(partition_count) / u32::from(SLOT_COUNT)) as u16)
}

#[cfg(test)]
mod tests;
