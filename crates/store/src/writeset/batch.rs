//! Rows buffered column by column before they are put away: by partition for a bulk load, in order for inserts.
//!
//! ```text
//!   values as they arrive ──▶ one column each ──▶ ordered by partition ──▶ the load
//! ```
//!
//! Neighbouring rows of the input usually belong to different partitions. Written one at a time, each would miss the
//! cache at the end of its partition's columns and in the key index. So some thousands of rows are buffered, and the
//! rows of a partition are copied together, column by column. If rows are refused, the error is that of the first of
//! them in the input, whichever was processed first here.

use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, PartitionId, Result};

use crate::memory::{Account, Reservation};
use crate::region::{KeyPlace, Region, changed};
use crate::segment::{Column, Need};
use crate::shape::Shape;

/// Rows that wait at most where they are loaded in bulk: some dozens for each partition.
const ROWS_MANY: usize = 8192;
/// Where they are not, or where memory is short.
const ROWS_FEW: usize = 512;
/// Rows that the first one makes room for.
const ROWS_FIRST: usize = 16;
/// Rows whose keys are placed together: what is done for one of them does not wait for what is done for the other.
const ROWS_PLACED: usize = 128;
/// Bytes of text, or of array elements, at which no more rows are taken.
const BYTES: usize = 4 << 20;
/// The same where rows wait for many others.
const BYTES_GROWN: usize = 16 << 20;
/// Rows wait for many others only where more than one part in so many of the memory is left.
const PART_LEFT: u64 = 8;

/// See the module.
pub struct RowBatch {
    region: Arc<Region>,
    shape: Arc<Shape>,
    /// Those of the shape; none where the table has another shape than the one that rows are made for.
    columns: Vec<Column>,
    rows: usize,
    /// Where the keys of the first of them live.
    places: Vec<KeyPlace>,
    rows_max: usize,
    /// Bytes of text and of array elements.
    bytes: usize,
    bytes_max: usize,
    /// What is wrong with the row that is put together, and in which column.
    wrong: Option<(usize, Error)>,
    /// Rows by partition, once they are being put away.
    order: Vec<u32>,
    /// How many have been.
    done: usize,
    refused: Refused,
    /// Of columns.
    account: Arc<Account>,
    /// Of places and order. They and the columns stay as large as they have become.
    reservation: Reservation,
}

impl RowBatch {
    /// An empty one, of rows for the table as it is at a version of its schema; if it is at another one, no row is taken.
    pub fn new(region: &Arc<Region>, version: u32) -> Self {
        let (shape, total) = (region.shape(), &region.common().total);
        let account = Account::of_statement(total);
        account.take_kept(true);
        let is_known = shape.schema.version == version;
        let types = shape.layout.columns.iter().filter(|_| is_known);
        Self {
            region: Arc::clone(region),
            columns: types.map(|&(_, sql_type)| Column::new(sql_type, &account)).collect(),
            shape,
            rows: 0,
            places: Vec::new(),
            rows_max: 0,
            bytes: 0,
            bytes_max: BYTES,
            wrong: None,
            order: Vec::new(),
            done: 0,
            refused: Refused::default(),
            account,
            reservation: Reservation::new(total),
        }
    }

    /// Rows that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether they are to be put away before others are taken.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.rows_max || self.bytes >= self.bytes_max
    }

    /// An empty one has room for as many rows as a bulk load is put away by, where there is memory for them, and for no more: what it
    /// has grown beyond that is given back.
    pub fn expect_many(&mut self) {
        if self.rows_max > ROWS_MANY || self.bytes_max > BYTES {
            self.columns.iter_mut().for_each(Column::trim);
            (self.places, self.order) = (Vec::new(), Vec::new());
            (self.rows_max, self.bytes_max) = (0, BYTES);
            self.reservation.clear();
        }
        if self.rows_max < ROWS_MANY && self.reserve(ROWS_MANY).is_ok() {
            self.rows_max = ROWS_MANY;
        }
    }

    /// Has a full one take twice as many rows, and at most so many, or twice as many bytes, where there is plenty of memory: whether it
    /// takes more.
    pub fn grow(&mut self, rows_max: usize) -> bool {
        let is_large = self.bytes >= self.bytes_max;
        let more = (2 * self.rows_max).clamp(ROWS_FEW, rows_max.max(ROWS_FEW));
        let is_most = if is_large { self.bytes_max >= BYTES_GROWN } else { more <= self.rows_max };
        if is_most || self.account.has_less_than(PART_LEFT) {
            return false;
        }
        if is_large {
            self.bytes_max *= 2;
            return true;
        }
        let has_room = self.reserve(more).is_ok();
        if has_room {
            self.rows_max = more;
        }
        has_room
    }

    fn reserve(&mut self, rows: usize) -> Result<()> {
        for column in &mut self.columns {
            let need = Need { rows: rows.saturating_sub(column.len()), bytes: 0, items: 0 };
            column.reserve(need, rows)?;
        }
        let more = rows.saturating_sub(self.places.capacity());
        self.reservation.grow(more * ROW_BYTES)?;
        self.places.reserve_exact(rows.saturating_sub(self.places.len()));
        self.order.reserve_exact(rows.saturating_sub(self.order.len()));
        Ok(())
    }

    /// Takes the next row's value of a column: one for each column, and then [`Self::end_row`]. What is wrong with it is said there,
    /// as it is less than what its data may have wrong elsewhere.
    ///
    /// # Errors
    /// 53200 over the memory bound, 54000 where a row is too large, 40001 where the table has another shape. Then no more rows are
    /// taken.
    pub fn put(&mut self, column: usize, datum: &Datum<'_>) -> Result<()> {
        if self.rows_max == 0 {
            self.reserve(ROWS_FIRST)?;
            self.rows_max = ROWS_FEW;
        }
        let Some(own) = self.columns.get_mut(column) else { return Err(changed(&self.shape.schema)) };
        if own.push_plain(datum) {
            if let Datum::Text(text) = datum {
                self.bytes += text.len();
            }
            return Ok(());
        }
        let null = Datum::Null;
        let datum = match self.shape.check_column(column, datum) {
            Ok(()) => datum,
            Err(error) => {
                note(&mut self.wrong, column, error);
                &null
            }
        };
        let need = Need::of(datum);
        if !own.can_hold(need) {
            return Err(Error::new(ErrorCode::ProgramLimitExceeded, "a row is too large"));
        }
        own.reserve(need, self.rows_max)?;
        own.push(datum);
        self.bytes += need.bytes + need.items * size_of::<u64>();
        Ok(())
    }

    /// The short way of [`Self::put`] for a value that is a text yet: a number of digits, or text without limits. False, and nothing is
    /// taken: what it is has to be found out, and put.
    #[inline]
    pub fn put_text(&mut self, column: usize, text: &[u8]) -> bool {
        let Some(own) = self.columns.get_mut(column) else { return false };
        let more = own.push_text(text);
        self.bytes += more.unwrap_or(0);
        more.is_some()
    }

    /// The row is there as a whole.
    ///
    /// # Errors
    /// 23502 for NULL where there must be none, and what else is wrong with a value of it. Then no more rows are taken.
    pub fn end_row(&mut self) -> Result<()> {
        if let Some((_, error)) = self.wrong.take() {
            return Err(error);
        }
        let row = self.rows;
        if self.columns.is_empty() || self.columns.iter().any(|column| column.len() != row + 1) {
            return Err(Error::internal("a row has a value for every column"));
        }
        if row >= self.places.capacity() {
            self.reservation.grow(row * ROW_BYTES)?;
            self.places.reserve_exact(2 * row - self.places.len());
            self.order.reserve_exact(2 * row);
        }
        self.rows += 1;
        if self.rows - self.places.len() >= ROWS_PLACED {
            self.place();
        }
        Ok(())
    }

    /// Finds out where the keys live of rows of which that is not known yet, and whether CHECK constraints forbid one; there is room
    /// for it.
    fn place(&mut self) {
        let Self { region, shape, columns, rows, places, refused, .. } = self;
        let known = places.len();
        if known == *rows {
            return;
        }
        if shape.has_conditions()
            && let Some((row, error)) = shape.first_forbidden(known..*rows, |row, column| columns[column].datum(row))
        {
            refused.note(row as u32, error);
        }
        if let [column] = shape.schema.key[..] {
            let key = &columns[column];
            let place = |row: usize| key.integer(row).and_then(|value| region.place_of_integer(value));
            places.extend((known..*rows).map_while(place));
        }
        // Keys of other types.
        for row in places.len()..*rows {
            let place = match shape.schema.key[..] {
                [column] => region.place_of(std::slice::from_ref(&columns[column].datum(row))),
                ref key => region.place_of(&key.iter().map(|&column| columns[column].datum(row)).collect::<Vec<_>>()),
            };
            let place = place.unwrap_or_else(|| {
                refused.note(row as u32, Error::internal("a row was checked, and its key is not"));
                KeyPlace { partition: PartitionId(0), hash: 0 }
            });
            places.push(place);
        }
    }

    /// The rows, and where it is noted that one of them is refused.
    pub(crate) fn parts(&mut self) -> (Waiting<'_>, &mut Refused) {
        let Self { shape, columns, places, order, refused, .. } = self;
        (Waiting { key: &shape.schema.key, columns, places, order }, refused)
    }

    /// The next rows to be put away as they came, at most so many.
    pub(crate) fn next(&mut self, rows_max: usize) -> Range<usize> {
        self.place();
        let end = self.len().min(self.done + rows_max);
        std::mem::replace(&mut self.done, end)..end
    }

    /// The next places in the order by partition, at most so many: see [`Waiting::runs`].
    pub(crate) fn next_ordered(&mut self, rows_max: usize, partitions: usize) -> Range<usize> {
        if self.order.is_empty() {
            self.place();
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
        self.next(rows_max)
    }

    /// Those that are left are not wanted.
    pub(crate) fn give_up(&mut self) {
        self.done = self.len();
    }

    /// Whether all rows are through; then it is empty again.
    ///
    /// # Errors
    /// Why the first one that was refused was, with its number.
    pub(crate) fn finish(&mut self) -> Result<bool, (usize, Error)> {
        if self.done < self.len() {
            return Ok(false);
        }
        self.columns.iter_mut().for_each(Column::clear);
        self.places.clear();
        self.order.clear();
        (self.rows, self.bytes, self.done) = (0, 0, 0);
        match self.refused.0.take() {
            Some((row, error)) => Err((row as usize, error)),
            None => Ok(true),
        }
    }
}

/// The rows of a batch, by their numbers.
pub(crate) struct Waiting<'b> {
    key: &'b [usize],
    columns: &'b [Column],
    places: &'b [KeyPlace],
    order: &'b [u32],
}

impl<'b> Waiting<'b> {
    /// Those of the table, a value of each row in each.
    pub(crate) fn columns(&self) -> &'b [Column] {
        self.columns
    }

    /// Where a row's key lives.
    #[inline]
    pub(crate) fn place(&self, row: u32) -> KeyPlace {
        self.places[row as usize]
    }

    /// The values of a row's key.
    #[inline]
    pub(crate) fn key(&self, row: u32) -> impl Iterator<Item = Datum<'b>> {
        let columns = self.columns;
        self.key.iter().map(move |&column| columns[column].datum(row as usize))
    }

    /// The values of a row.
    pub(crate) fn row(&self, row: u32) -> impl Iterator<Item = Datum<'b>> {
        self.columns.iter().map(move |column| column.datum(row as usize))
    }

    /// What is in some places of the order by partition: the rows of one partition after the other, which are in order.
    pub(crate) fn runs(&self, places: Range<usize>) -> impl Iterator<Item = (PartitionId, &'b [u32])> {
        let (all, order) = (self.places, self.order);
        let partition = move |row: u32| all[row as usize].partition;
        let runs = order[places].chunk_by(move |one, next| partition(*one) == partition(*next));
        runs.map(move |rows| (partition(rows[0]), rows))
    }
}

/// The first row of the data that was refused.
#[derive(Default)]
pub(crate) struct Refused(Option<(u32, Error)>);

impl Refused {
    /// One more.
    pub(crate) fn note(&mut self, row: u32, error: Error) {
        if self.0.as_ref().is_none_or(|(first, _)| row < *first) {
            self.0 = Some((row, error));
        }
    }
}

/// Keeps what is wrong with the first column, and a NULL before all else: as if all values were looked at when all are there.
fn note(wrong: &mut Option<(usize, Error)>, column: usize, error: Error) {
    let rank = |column: usize, error: &Error| (error.code() != ErrorCode::NotNullViolation, column);
    if wrong.as_ref().is_none_or(|(other, before)| rank(column, &error) < rank(*other, before)) {
        *wrong = Some((column, error));
    }
}

/// Bytes of a row beside its values: its place, and its number in the order.
const ROW_BYTES: usize = size_of::<KeyPlace>() + size_of::<u32>();

impl std::fmt::Debug for RowBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowBatch").field("rows", &self.len()).finish_non_exhaustive()
    }
}
