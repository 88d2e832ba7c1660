//! PostgreSQL's own hash functions, as its hash partitioning uses them: Bob Jenkins' lookup3 with a seed of 64 bits.
//!
//! Called by the rules `hash_mod` and `pg_hash`. What these return must never change, and must equal what a server
//! says of the same value: rows are found by it.

/// The seed of hash partitioning: `HASH_PARTITION_SEED`.
pub(super) const PARTITION_SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Where the three words start, before the length is added.
const START: u32 = 0x9e37_79b9_u32.wrapping_add(3_923_095);

/// `hashint2extended`, `hashint4extended` and `hashint8extended`: equal numbers have equal hashes whatever their width.
pub(super) fn integer(value: i64, seed: u64) -> u64 {
    let low = value as u32;
    let high = (value >> 32) as u32;
    word(low ^ if value >= 0 { high } else { !high }, seed)
}

/// `hash_uint32_extended`.
pub(super) fn word(value: u32, seed: u64) -> u64 {
    let mut state = State::new(size_of::<u32>(), seed);
    state.a = state.a.wrapping_add(value);
    state.finish()
}

/// `hash_any_extended`: of `text` under a deterministic collation, and of `uuid`.
pub(super) fn bytes(value: &[u8], seed: u64) -> u64 {
    let mut state = State::new(value.len(), seed);
    let (blocks, rest) = value.as_chunks::<12>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        state.add(u32::from_le_bytes(words[0]), u32::from_le_bytes(words[1]), u32::from_le_bytes(words[2]));
        state.mix();
    }
    // The lowest byte of the third word is the length's: what is left of the value begins above it there.
    let mut last = [0_u8; 12];
    for (at, byte) in rest.iter().enumerate() {
        last[if at < 8 { at } else { at + 1 }] = *byte;
    }
    let (words, _) = last.as_chunks::<4>();
    state.add(u32::from_le_bytes(words[0]), u32::from_le_bytes(words[1]), u32::from_le_bytes(words[2]));
    state.finish()
}

/// `hash_combine64`.
pub(super) fn combine(a: u64, b: u64) -> u64 {
    a ^ b.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(a << 54).wrapping_add(a >> 7)
}

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(length: usize, seed: u64) -> Self {
        let start = START.wrapping_add(length as u32);
        let mut state = Self { a: start, b: start, c: start };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        state
    }

    fn add(&mut self, a: u32, b: u32, c: u32) {
        self.a = self.a.wrapping_add(a);
        self.b = self.b.wrapping_add(b);
        self.c = self.c.wrapping_add(c);
    }

    fn mix(&mut self) {
        let Self { a, b, c } = self;
        for (first, second) in [(4, 6), (16, 19)] {
            *a = a.wrapping_sub(*c) ^ c.rotate_left(first);
            *c = c.wrapping_add(*b);
            *b = b.wrapping_sub(*a) ^ a.rotate_left(second);
            *a = a.wrapping_add(*c);
            let third = if first == 4 { 8 } else { 4 };
            *c = c.wrapping_sub(*b) ^ b.rotate_left(third);
            *b = b.wrapping_add(*a);
        }
    }

    fn finish(self) -> u64 {
        let Self { mut a, mut b, mut c } = self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        (u64::from(b) << 32) | u64::from(c)
    }
}

#[cfg(test)]
mod tests;
