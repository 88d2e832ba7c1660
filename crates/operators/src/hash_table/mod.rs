//! Groups and rows by their keys: small numbers that stand for keys, in the order in which those came, and the rows that
//! have a key.
//!
//! ```text
//!   key of a row -> hash -> words -> group id -> states[id]                        groups by numbers that fit 8 bytes
//!   key of a row -> hash -> directory -> group id -> keys[id], states[id]          groups by others
//!   key of a row -> hash -> runs -> row, or rows of the key, side by side          joins by words
//!   key of a row -> hash -> unchained -> rows of the key, side by side             joins by bytes
//!   key of a row -> direct -> row                                                  joins by numbers close together
//! ```
//!
//! `keys` packs what rows are grouped by into words or bytes, `hash` mixes those, `directory` finds the group id of a
//! hash, `words` that of a word, and `groups` puts them together; `runs`, `unchained` and `direct` are made of all rows at once. `machine` has what the
//! processor does better than the language can say. Ids are offsets of 32 bits, not pointers: they are half as long, and depend on
//! no width of addresses. Nothing here knows a plan, or an engine besides Arrow. Memory is charged before it is taken: by `groups` to whatever
//! [`account::Account`] its operator brings, and otherwise by the caller, who is told beforehand how much will be taken.

pub(crate) mod account;
pub(crate) mod direct;
pub(crate) mod directory;
pub(crate) mod groups;
pub(crate) mod hash;
pub(crate) mod keys;
pub(crate) mod machine;
pub(crate) mod runs;
pub(crate) mod unchained;
pub(crate) mod words;

/// A number that looks like any other, the same for the same one: what tests have for a lot.
#[cfg(test)]
pub(crate) fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ mixed >> 32
}
