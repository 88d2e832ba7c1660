//! Rows of a bulk load that wait for each other, to be put away partition by partition.
//!
//! ```text
//!   rows as they come ──▶ cells, texts in one string ──▶ ordered by partition ──▶ the load, row by row
//! ```
//!
//! Neighbours in the data belong to partitions far from each other: one by one, each row would wait for the ends of its partition's
//! columns, and for the line of the key index that is its own. So some thousands wait until there are several for each
//! partition, and the index is brought near some rows ahead. The first row of the data that is refused is the one that is told of,
//! whichever came first here.

use ashlar_base::{Datum, Error, Result, Value};

use crate::memory::Reservation;
use crate::region::KeyPlace;
use crate::segment::Need;
use crate::store::Store;

/// Rows that wait at most: some dozens for each partition. Where memory is short, the second has to do.
const ROWS: [usize; 2] = [8192, 512];
/// Bytes of text at which no more rows are taken.
const BYTES: usize = 4 << 20;
/// How far ahead the key index is looked at.
pub(crate) const AHEAD: usize = 6;

/// A value that waits.
enum Cell {
    Plain(Datum<'static>),
    /// Where it lies in the texts.
    Text(u32, u32),
    /// Where it lies in the bytes.
    Bytea(u32, u32),
    Array(Value),
}

/// See the module.
pub struct RowBatch {
    cells: Vec<Cell>,
    texts: String,
    bytes: Vec<u8>,
    places: Vec<KeyPlace>,
    rows_max: usize,
    /// Rows by partition, once they are being put away.
    order: Vec<u32>,
    /// How many have been.
    done: usize,
    /// The first row of the data that was refused.
    refused: Option<(usize, Error)>,
    /// Of all vectors, which stay as large as they have become.
    reservation: Reservation,
    /// Of arrays.
    arrays: Reservation,
}

impl RowBatch {
    /// An empty one.
    pub fn new(store: &Store) -> Self {
        Self {
            cells: Vec::new(),
            texts: String::new(),
            bytes: Vec::new(),
            places: Vec::new(),
            rows_max: 0,
            order: Vec::new(),
            done: 0,
            refused: None,
            reservation: store.reservation(),
            arrays: store.reservation(),
        }
    }

    /// Rows that wait.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether they are to be put away before others are taken.
    pub fn is_full(&self) -> bool {
        self.len() >= self.rows_max || self.texts.len() + self.bytes.len() >= BYTES
    }

    /// Takes a row.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub(crate) fn push(&mut self, place: KeyPlace, row: &[Datum<'_>]) -> Result<()> {
        if self.cells.capacity() == 0 {
            let bytes = row.len() * size_of::<Cell>() + ROW_BYTES;
            let [many, few] = ROWS;
            self.rows_max = many;
            if self.reservation.grow(many * bytes).is_err() {
                self.reservation.grow(few * bytes)?;
                self.rows_max = few;
            }
            self.cells.reserve_exact(self.rows_max * row.len());
            self.places.reserve_exact(self.rows_max);
            self.order.reserve_exact(self.rows_max);
        }
        let (mut texts, mut bytes) = (0, 0);
        for datum in row {
            match datum {
                Datum::Text(text) => texts += text.len(),
                Datum::Bytea(some) => bytes += some.len(),
                Datum::Array(_) => {
                    self.arrays.grow(Need::of(datum).bytes + Need::of(datum).items * size_of::<Value>())?
                }
                _ => {}
            }
        }
        if let Some(more) = missing(self.texts.len(), self.texts.capacity(), texts) {
            self.reservation.grow(more)?;
            self.texts.reserve_exact(self.texts.capacity() - self.texts.len() + more);
        }
        if let Some(more) = missing(self.bytes.len(), self.bytes.capacity(), bytes) {
            self.reservation.grow(more)?;
            self.bytes.reserve_exact(self.bytes.capacity() - self.bytes.len() + more);
        }
        for datum in row {
            self.cells.push(match datum {
                Datum::Text(text) => {
                    let start = self.texts.len() as u32;
                    self.texts.push_str(text);
                    Cell::Text(start, self.texts.len() as u32)
                }
                Datum::Bytea(bytes) => {
                    let start = self.bytes.len() as u32;
                    self.bytes.extend_from_slice(bytes);
                    Cell::Bytea(start, self.bytes.len() as u32)
                }
                other => other.to_value().into_datum().map_or_else(Cell::Array, Cell::Plain),
            });
        }
        self.places.push(place);
        Ok(())
    }

    /// The next rows to be put away, at most so many: each with its number among those that wait. Orders them by partition first.
    pub(crate) fn next(&mut self, rows_max: usize, partitions: usize) -> std::ops::Range<usize> {
        if self.order.is_empty() {
            // Counted by partition, the counts added up, the rows put in their places: those of a partition stay in order.
            let mut starts = vec![0_u32; partitions + 1];
            for place in &self.places {
                starts[usize::from(place.partition.0) + 1] += 1;
            }
            for at in 0..partitions {
                starts[at + 1] += starts[at];
            }
            self.order.resize(self.places.len(), 0);
            for (row, place) in self.places.iter().enumerate() {
                let start = &mut starts[usize::from(place.partition.0)];
                self.order[*start as usize] = row as u32;
                *start += 1;
            }
        }
        let end = self.len().min(self.done + rows_max);
        std::mem::replace(&mut self.done, end)..end
    }

    /// The row in a place of the order: its number, and where its key lives.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<(usize, KeyPlace)> {
        let row = *self.order.get(place)? as usize;
        Some((row, self.places[row]))
    }

    /// The values of a row.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = Datum<'_>> {
        let width = self.cells.len() / self.places.len().max(1);
        self.cells[row * width..(row + 1) * width].iter().map(|cell| match cell {
            Cell::Plain(datum) => datum.clone(),
            Cell::Text(start, end) => Datum::Text(&self.texts[*start as usize..*end as usize]),
            Cell::Bytea(start, end) => Datum::Bytea(&self.bytes[*start as usize..*end as usize]),
            Cell::Array(value) => value.as_datum(),
        })
    }

    /// Notes that a row was refused.
    pub(crate) fn refuse(&mut self, row: usize, error: Error) {
        if self.refused.as_ref().is_none_or(|(first, _)| row < *first) {
            self.refused = Some((row, error));
        }
    }

    /// Whether all rows are through; then it is empty again.
    ///
    /// # Errors
    /// Why the first one that was refused was, with its number.
    pub(crate) fn finish(&mut self) -> Result<bool, (usize, Error)> {
        if self.done < self.len() {
            return Ok(false);
        }
        self.cells.clear();
        self.texts.clear();
        self.bytes.clear();
        self.places.clear();
        self.order.clear();
        self.done = 0;
        self.arrays.clear();
        self.refused.take().map_or(Ok(true), Err)
    }
}

/// By how much a vector that is doubled at least has to grow for some more bytes.
fn missing(len: usize, capacity: usize, more: usize) -> Option<usize> {
    (len + more > capacity).then(|| capacity.max(len + more - capacity))
}

/// Bytes of a row beside its values: its place, and its number in the order.
const ROW_BYTES: usize = size_of::<KeyPlace>() + size_of::<u32>();

impl std::fmt::Debug for RowBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowBatch").field("rows", &self.len()).finish_non_exhaustive()
    }
}
