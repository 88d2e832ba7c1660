//! Known slots are Redis's own, read with `CLUSTER KEYSLOT`.

use super::*;

#[test]
fn slots_are_those_of_redis_cluster() {
    for (key, slot) in [("foo", 12182), ("bar", 5061), ("123456789", 12739), ("", 0), ("hello", 866)] {
        assert_eq!(slot_of_key(key.as_bytes()), Slot(slot), "{key:?}");
    }
}

/// Bit by bit, as the polynomial has it.
fn crc16_by_definition(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 })
    })
}

#[test]
fn the_checksum_is_that_of_the_polynomial_at_every_length() {
    let mut random = 1u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    })
    .take(300)
    .collect();
    for start in 0..20 {
        for end in start..bytes.len() {
            assert_eq!(crc16(&bytes[start..end]), crc16_by_definition(&bytes[start..end]), "{start}..{end}");
        }
    }
}

#[test]
fn hash_tags_follow_the_first_braces() {
    assert_eq!(slot_of_key(b"{user1000}.following"), slot_of_key(b"user1000"));
    assert_eq!(slot_of_key(b"foo{{bar}}zap"), slot_of_key(b"{bar"));
    assert_eq!(slot_of_key(b"foo{bar}{zap}"), slot_of_key(b"bar"));
    assert_ne!(slot_of_key(b"foo{}{bar}"), slot_of_key(b"bar"));
}

#[test]
fn a_row_has_the_slot_of_its_resp_name() {
    for text in ["42", "", "}", "a}b", "{a", "a,b", "x{y}z"] {
        let name = format!("flights:{{{text}}}");
        assert_eq!(slot_of_row("flights", text.as_bytes()), slot_of_key(name.as_bytes()), "{text:?}");
    }
}

#[test]
fn partitions_are_contiguous_and_cover_all_slots() {
    for count in [1u16, 2, 256, 16384] {
        let mut last = 0;
        for slot in 0..SLOT_COUNT {
            let partition = partition_of_slot(Slot(slot), count).0;
            assert!(partition == last || partition == last + 1);
            last = partition;
        }
        assert_eq!(last, count - 1);
    }
}
