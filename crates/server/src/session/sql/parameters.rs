//! Values of a Bind message, and what is charged for them.
//!
//! Called when a portal is bound.

use ashlar_base::value::binary;
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, Value};
use ashlar_protocol::pg::ValueFormat;
use ashlar_store::{Reservation, Store};

use super::lost_digits;

/// Fewer bytes are not worth a charge of their own, for a portal that the next one replaces.
const LONG_BYTES: usize = 4096;

/// The charge for the values of a portal. Short ones are charged some together.
pub(super) struct Charges<'s> {
    store: &'s Store,
    held: Option<Reservation>,
    /// Not charged yet.
    owed: usize,
    /// Whether there may be many such portals.
    has_name: bool,
}

impl<'s> Charges<'s> {
    /// Nothing yet, for a portal of this name.
    pub(super) fn new(store: &'s Store, name: &str) -> Self {
        Self::of_portal(store, !name.is_empty())
    }

    /// The same for one that has a name or none.
    pub(super) fn of_portal(store: &'s Store, has_name: bool) -> Self {
        Self { store, held: None, owed: 0, has_name }
    }

    /// Charges for what is about to be kept.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub(super) fn add(&mut self, bytes: usize) -> Result<()> {
        self.owed += bytes;
        if self.owed < LONG_BYTES { Ok(()) } else { self.pay() }
    }

    /// The charge, when all has come.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) fn finish(mut self) -> Result<Option<Reservation>> {
        if self.has_name && self.owed > 0 {
            self.pay()?;
        }
        Ok(self.held)
    }

    fn pay(&mut self) -> Result<()> {
        let (store, bytes) = (self.store, std::mem::take(&mut self.owed));
        let held = self.held.get_or_insert_with(|| store.reservation());
        // What is charged in advance is too much for one of many.
        if self.has_name { held.grow_exactly(bytes) } else { held.grow(bytes) }
    }
}

/// Bytes that a parameter may take beside its place: in an array's text, each two bytes may be an element.
fn value_bytes_max(sql_type: SqlType, bytes: usize) -> usize {
    if sql_type.is_array() { bytes / 2 * size_of::<Value>() + bytes } else { bytes }
}

/// Reads the values of a Bind message, and counts them.
///
/// # Errors
/// What is wrong with one of them; 53200 over the memory bound.
pub(super) fn read_parameters<'a>(
    types: &[SqlType],
    parameters: impl Iterator<Item = (ValueFormat, Option<&'a [u8]>)>,
    style: &TextStyle,
    charges: &mut Charges<'_>,
) -> Result<(Vec<Value>, usize)> {
    charges.add(types.len() * size_of::<Value>())?;
    let mut values = Vec::with_capacity(types.len());
    let mut given = 0;
    for (format, bytes) in parameters {
        let sql_type = types.get(given).copied();
        given += 1;
        let Some(sql_type) = sql_type else { continue };
        lost_digits::refuse(sql_type, format, bytes, given)?;
        charges.add(bytes.map_or(0, |bytes| value_bytes_max(sql_type, bytes.len())))?;
        values.push(match (bytes, format) {
            (None, _) => Value::Null,
            (Some(bytes), ValueFormat::Binary) if is_short(sql_type, bytes) => {
                return Err(Error::new(ErrorCode::ProtocolViolation, "insufficient data left in message"));
            }
            (Some(bytes), ValueFormat::Binary) => {
                binary::decode(sql_type, bytes).map_err(|error| in_parameter(error, given))?
            }
            (Some(bytes), ValueFormat::Text) => text::parse(sql_type, text::utf8(bytes)?, style)?,
        });
    }
    Ok((values, given))
}

/// Whether a value in binary form is shorter than its type.
fn is_short(sql_type: SqlType, bytes: &[u8]) -> bool {
    match sql_type {
        // A header of four 16-bit numbers, the first of them the count of digits, each 16 bits.
        SqlType::Scalar(ScalarType::Numeric { .. }) => match bytes {
            [high, low, _, _, _, _, _, _, digits @ ..] => {
                digits.len() / 2 < usize::from(u16::from_be_bytes([*high, *low]))
            }
            _ => true,
        },
        other => usize::try_from(other.typlen()).is_ok_and(|length| bytes.len() < length),
    }
}

/// Adds to an error the number of the parameter that it is about.
fn in_parameter(error: Error, number: usize) -> Error {
    if error.code() == ErrorCode::InvalidBinaryRepresentation && error.message() == "incorrect binary data format" {
        return Error::new(error.code(), format!("incorrect binary data format in bind parameter {number}"));
    }
    error
}

#[cfg(test)]
mod tests {
    use ashlar_store::StoreConfig;

    use super::*;

    /// What is charged for so many texts of so many bytes.
    fn charged(name: &str, count: usize, bytes: usize) -> Option<u64> {
        let store = Store::new(StoreConfig::default());
        let types = vec![SqlType::Scalar(ScalarType::Text); count];
        let text = "x".repeat(bytes);
        let parameters = std::iter::repeat_n((ValueFormat::Text, Some(text.as_bytes())), count);
        let before = store.memory_used();
        let mut charges = Charges::new(&store, name);
        let (values, given) = read_parameters(&types, parameters, &TextStyle::default(), &mut charges).unwrap();
        let held = charges.finish().unwrap();
        assert_eq!((values.len(), given), (count, count));
        held.map(|_held| store.memory_used() - before)
    }

    #[test]
    fn many_short_values_are_charged_as_long_ones_are() {
        let least = |count: usize, bytes: usize| (count * (bytes + size_of::<Value>())) as u64;
        for (count, bytes) in [(1, 5000), (1000, 3), (60_000, 0), (100, 4000)] {
            let unnamed = charged("", count, bytes).unwrap();
            assert!(unnamed + LONG_BYTES as u64 >= least(count, bytes), "{count} of {bytes}: {unnamed}");
            assert_eq!(charged("p", count, bytes), Some(least(count, bytes)), "{count} of {bytes}");
        }
        // There is one without a name, and few bytes of it.
        assert_eq!(charged("", 1, 100), None);
        assert_eq!(charged("p", 1, 100), Some(least(1, 100)));
        assert_eq!(charged("p", 0, 0), None);
    }
}
