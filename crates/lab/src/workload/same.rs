//! What the lab makes of given numbers, in the lines of `crates/lab/grids/Same.java`.

use std::fmt::{Result, Write};

use super::choose::Choice;
use super::documents;
use super::keys::{fault, key, value, version_of};
use super::rows::{ByValue, Sums, VALUES, joined, label_of, numbers_of, pick_of, value_of};
use super::sizes::Distribution;
use super::structured::{self, Structured};
use crate::numbers::Numbers;

/// All lines but those of the numbers themselves.
pub(crate) fn tell(out: &mut String) -> Result {
    for number in [0, 42, 999_999, 3_999_999_999] {
        for version in [0, 7, u32::MAX] {
            for bytes in [8, 9, 15, 16, 100, 801] {
                tell_value(number, version, bytes, out)?;
            }
        }
    }
    for number in [0, 42, 999_999, 3_999_999_999] {
        for version in [0, 7, u32::MAX] {
            tell_structured(number, version, out)?;
        }
    }
    for id in [0, 42, 999_999, 199_999_999] {
        let label = label_of(id, 0);
        write!(out, "row {} {label} {} {}|", value_of(id), label_of(id, (-7i32).cast_unsigned()), &label[..15])?;
        for number in numbers_of(id) {
            write!(out, " {number}")?;
        }
        writeln!(out)?;
    }
    for id in [0, 42, 999_999, 199_999_999] {
        for fields in [documents::FIELDS, 22] {
            let mut line = Vec::new();
            documents::line(id, fields, &mut line);
            let line = String::from_utf8_lossy(&line);
            write!(out, "document {}", line.split_once('\t').map_or("", |(_, document)| document))?;
        }
        let (row, amount) = pick_of(id, 1000);
        writeln!(out, "pick {row} {amount}")?;
    }
    writeln!(out, "joined {}", joined(50, 1000).1)?;
    let by_value = ByValue::of(1000);
    for place in [0, 1, 500, 999] {
        let low = by_value.at(place);
        writeln!(out, "by value {low} {} {}", by_value.rows(low, VALUES), by_value.ids(0, low + 1))?;
    }
    writeln!(out, "sum {}", Sums::of(1000).between(10, 900))?;
    for distribution in [Distribution::Uniform, Distribution::Zipfian] {
        for count in [1, 2, 3, 1000, 100_000] {
            let (choice, mut numbers) = (Choice::of(distribution, count), Numbers::new(count));
            write!(out, "choice")?;
            for _ in 0..100 {
                write!(out, " {}", choice.next(&mut numbers))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn tell_structured(number: u64, version: u32, out: &mut String) -> Result {
    let mut made = Structured::default();
    made.set(number, version);
    let fields: Vec<(&[u8], &[u8])> = made.fields().map(|(name, text)| (name.as_bytes(), text)).collect();
    let mut damaged = fields.clone();
    damaged[8].1 = b"x";
    write!(out, "structured {}", structured::name(number))?;
    for (_, text) in &fields {
        write!(out, " {}", String::from_utf8_lossy(text))?;
    }
    let fault = |fields: &[(&[u8], &[u8])]| structured::fault(number, fields);
    let (right, wrong, none) = (fault(&fields).is_none(), fault(&damaged), fault(&[]));
    writeln!(out, " {right}; {}; {}", wrong.unwrap_or_default(), none.unwrap_or_default())
}

fn tell_value(number: u64, version: u32, bytes: usize, out: &mut String) -> Result {
    let mut made = Vec::new();
    value(number, version, bytes, &mut made);
    write!(out, "value {} ", String::from_utf8_lossy(&key(number)))?;
    for byte in &made {
        write!(out, "{byte:02x}")?;
    }
    let mut damaged = made.clone();
    damaged[bytes - 1] ^= 1;
    let is_right = |found: &[u8]| fault(number, bytes, found).is_none();
    let version = version_of(&made).unwrap_or_default();
    let other = fault(number + 1, bytes, &made).unwrap_or_default();
    writeln!(out, " {version} {} {}; {other}", is_right(&made), is_right(&damaged))
}
