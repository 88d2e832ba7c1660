//! A segment: up to 65,536 rows of one partition, column by column, appended to until it is sealed.
//!
//! Called by `rows` alone. A row is named by its offset and never moves; its death is a bit beside it, and its values
//! change only where nobody else can look (`Segment::overwrite`). `unsafe` of
//! this crate is in here and nowhere else: `arena` (the memory) and `borrow` (what Arrow need not verify again).
#![allow(unsafe_code, reason = "memory that Arrow borrows while one writer appends to it")]
#![deny(clippy::undocumented_unsafe_blocks)]

mod arena;
mod bitmap;
mod borrow;
mod column;
mod life;
pub(crate) mod prefetch;

use std::borrow::Borrow;
use std::sync::Arc;

use ashlar_base::{ColumnId, Datum, Result, SqlType};

pub(crate) use bitmap::Dead;
pub(crate) use column::{Column, NANOS_PER_MICRO, Need};

use crate::memory::{Account, Charge};

/// Rows of a segment at most: an offset has 16 bits.
pub(crate) const ROWS_MAX: u32 = 1 << 16;
/// Bytes of text, or array elements, that a column of a segment has at most, unless one row alone has more. What is
/// copied under a lock when an arena grows, and what a rewrite copies at once, is of this order.
pub(crate) const BYTES_MAX: usize = 16 << 20;
/// Columns of a row that are brought near: those of the plain keys and some more.
const PREFETCHED_COLUMNS: usize = 4;
/// Rows that the first rows of a segment make room for.
const ROWS_FIRST: usize = 4;

/// The columns of a segment. Where a table's columns change, its next segments have another layout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// In the order of the schema that the layout was made for.
    pub(crate) columns: Box<[(ColumnId, SqlType)]>,
    /// Where the key's columns are, in key order.
    pub(crate) key: Box<[usize]>,
}

/// See the module.
pub(crate) struct Segment {
    /// Greater than that of every segment whose rows are older.
    pub(crate) sequence: u64,
    pub(crate) layout: Arc<Layout>,
    columns: Columns,
    len: u32,
    dead: Option<Dead>,
    dead_count: u32,
    life: Option<Box<life::Life>>,
    account: Arc<Account>,
    _charge: Charge,
}

/// Columns are shared, with readers and the compactor, only when sealed.
enum Columns {
    Active(Vec<Column>),
    Sealed(Arc<Vec<Column>>),
}

impl std::ops::Deref for Columns {
    type Target = [Column];

    #[inline]
    fn deref(&self) -> &[Column] {
        match self {
            Self::Active(columns) => columns,
            Self::Sealed(columns) => columns,
        }
    }
}

impl Segment {
    /// An empty segment that takes rows.
    pub(crate) fn new(layout: &Arc<Layout>, sequence: u64, account: &Arc<Account>) -> Result<Self> {
        let charge = Charge::new(account, Self::own_bytes(layout))?;
        Ok(Self::with_charge(layout, sequence, account, charge))
    }

    /// Like [`Segment::new`], but goes over the memory bound.
    pub(crate) fn forced(layout: &Arc<Layout>, sequence: u64, account: &Arc<Account>) -> Self {
        Self::with_charge(layout, sequence, account, Charge::forced(account, Self::own_bytes(layout)))
    }

    /// The segment itself, and per column: itself and the headers of two allocations.
    fn own_bytes(layout: &Layout) -> usize {
        size_of::<Self>() + layout.columns.len() * (size_of::<Column>() + 2 * 56)
    }

    fn with_charge(layout: &Arc<Layout>, sequence: u64, account: &Arc<Account>, charge: Charge) -> Self {
        let columns = layout.columns.iter().map(|&(_, sql_type)| Column::new(sql_type, account)).collect();
        Self {
            sequence,
            layout: Arc::clone(layout),
            columns: Columns::Active(columns),
            len: 0,
            dead: None,
            dead_count: 0,
            life: None,
            account: Arc::clone(account),
            _charge: charge,
        }
    }

    /// Rows, dead ones included.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Rows that are ended.
    pub(crate) fn dead_count(&self) -> u32 {
        self.dead_count
    }

    /// Whether it takes no more rows.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self.columns, Columns::Sealed(_))
    }

    fn columns_mut(&mut self) -> &mut Vec<Column> {
        match &mut self.columns {
            Columns::Active(columns) => columns,
            Columns::Sealed(_) => panic!("a sealed segment takes no more rows"),
        }
    }

    /// Puts values, given with their positions, in the place of a row's; false, and nothing is changed, where they
    /// do not fit there (see [`Column::can_overwrite`]) or a reader borrows what would change.
    pub(crate) fn overwrite<'v, 'd: 'v>(
        &mut self,
        row: u32,
        values: impl Iterator<Item = (usize, &'v Datum<'d>)> + Clone,
    ) -> bool {
        let columns = match &mut self.columns {
            Columns::Active(columns) => columns,
            Columns::Sealed(columns) => match Arc::get_mut(columns) {
                Some(columns) => columns,
                None => return false,
            },
        };
        let row = row as usize;
        let fits = values.clone().all(|(position, datum)| columns[position].can_overwrite(row, datum));
        if fits {
            values.for_each(|(position, datum)| columns[position].overwrite(row, datum));
        }
        fits
    }

    /// Whether one more row goes in, of at most `rows_max`.
    pub(crate) fn fits(&self, needs: impl Iterator<Item = Need>, rows_max: u32) -> bool {
        let mut columns = self.columns.iter().zip(needs);
        !self.is_sealed() && self.len < rows_max && columns.all(|(column, need)| column.fits(need))
    }

    /// Whether one more row goes in without growing.
    pub(crate) fn has_room(&self, needs: impl Iterator<Item = Need>) -> bool {
        self.columns.iter().zip(needs).all(|(column, need)| column.has_room(need))
    }

    /// Makes room; over the memory bound it says 53200 and the rows are what they were.
    pub(crate) fn reserve(&mut self, needs: impl Iterator<Item = Need>, rows_max: u32) -> Result<()> {
        let first = if self.len == 0 { ROWS_FIRST.min(rows_max as usize) } else { 0 };
        for (column, mut need) in self.columns_mut().iter_mut().zip(needs) {
            need.rows = need.rows.max(first);
            column.reserve(need, rows_max as usize)?;
        }
        Ok(())
    }

    /// The same for a segment that goes on to grow until it is sealed: see `Arena::reserve_twice`.
    pub(crate) fn reserve_twice(&mut self, needs: impl Iterator<Item = Need>, rows_max: u32) -> Result<()> {
        let mut columns = self.columns_mut().iter_mut().zip(needs);
        columns.try_for_each(|(column, need)| column.reserve_twice(need, rows_max as usize))
    }

    /// Makes room for exactly these rows in a segment that will get no others, even over the memory bound: giving
    /// memory back takes a little first.
    pub(crate) fn reserve_exact(&mut self, needs: &[Need]) {
        self.columns_mut().iter_mut().zip(needs).for_each(|(column, &need)| column.reserve_exact(need));
    }

    /// Appends a row whose room is reserved; its offset.
    pub(crate) fn push<'d, D: Borrow<Datum<'d>>>(&mut self, row: impl Iterator<Item = D>) -> u32 {
        let mut count = 0;
        let columns = self.columns_mut();
        for datum in row {
            columns[count].push(datum.borrow());
            count += 1;
        }
        assert_eq!(count, columns.len(), "a row has a value for every column");
        self.len += 1;
        self.len - 1
    }

    /// Appends copies of rows of other columns, which are of this layout; room is reserved. The first one's offset.
    pub(crate) fn gather(&mut self, source: &[Column], rows: &[u32]) -> u32 {
        let columns = self.columns_mut();
        assert_eq!(source.len(), columns.len(), "a row has a value for every column");
        columns.iter_mut().zip(source).for_each(|(column, source)| column.gather(source, rows));
        self.len += rows.len() as u32;
        self.len - rows.len() as u32
    }

    /// Appends a copy of a row of this segment with other values in some columns; room is reserved.
    pub(crate) fn push_changed(&mut self, row: u32, changes: &[(usize, Datum<'_>)]) -> u32 {
        for (position, column) in self.columns_mut().iter_mut().enumerate() {
            match changes.iter().rfind(|(changed, _)| *changed == position) {
                Some((_, datum)) => column.push(datum),
                None => column.push_within(row as usize),
            }
        }
        self.len += 1;
        self.len - 1
    }

    /// What a copy of a row takes in a column.
    pub(crate) fn need(&self, row: u32, position: usize) -> Need {
        self.columns[position].need(row as usize)
    }

    /// The value at a position of the segment's own layout.
    #[inline]
    pub(crate) fn datum(&self, row: u32, position: usize) -> Datum<'_> {
        self.columns[position].datum(row as usize)
    }

    /// The values of the key.
    #[inline]
    pub(crate) fn key(&self, row: u32) -> impl Iterator<Item = Datum<'_>> {
        self.layout.key.iter().map(move |&position| self.datum(row, position))
    }

    /// The key, if it is one integer.
    #[inline]
    pub(crate) fn integer_key(&self, row: u32) -> Option<i64> {
        let [position] = self.layout.key[..] else { return None };
        self.columns[position].integer(row as usize)
    }

    /// The columns, to be read without the partition's lock. Sealed segments only.
    pub(crate) fn sealed_columns(&self) -> Arc<Vec<Column>> {
        match &self.columns {
            Columns::Sealed(columns) => Arc::clone(columns),
            Columns::Active(_) => panic!("active columns are lent one by one"),
        }
    }

    /// Brings near where the values of a row are said to be, or the values themselves where they have one width.
    #[inline]
    pub(crate) fn prefetch_places(&self, row: u32) {
        self.columns.iter().take(PREFETCHED_COLUMNS).for_each(|column| column.prefetch_place(row as usize));
    }

    /// Brings the bytes of a row's values near, once their places are.
    #[inline]
    pub(crate) fn prefetch_bytes(&self, row: u32) {
        self.columns.iter().take(PREFETCHED_COLUMNS).for_each(|column| column.prefetch_bytes(row as usize));
    }

    /// All columns, to be copied from.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// One column, to be lent under the partition's lock.
    pub(crate) fn column(&self, position: usize) -> &Column {
        &self.columns[position]
    }

    /// Bytes that the rows take.
    pub(crate) fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    /// Gives spare room back, where there is much; rows may come all the same.
    pub(crate) fn trim(&mut self) {
        if let Columns::Active(columns) = &mut self.columns {
            columns.iter_mut().for_each(Column::trim);
        }
    }

    /// Takes no more rows from now on.
    pub(crate) fn seal(&mut self) {
        if let Columns::Active(columns) = &mut self.columns {
            let mut columns = std::mem::take(columns);
            columns.iter_mut().for_each(Column::seal);
            self.columns = Columns::Sealed(Arc::new(columns));
            self.shrink_life();
        }
    }

    /// Whether the row is ended.
    #[inline]
    pub(crate) fn is_dead(&self, row: u32) -> bool {
        self.dead_count > 0 && self.dead.as_ref().is_some_and(|dead| dead.contains(row as usize))
    }

    /// Ends a row.
    pub(crate) fn kill(&mut self, row: u32) {
        let dead = self.dead.get_or_insert_with(|| Dead::new(&self.account));
        if dead.insert(row as usize, self.len as usize) {
            self.dead_count += 1;
            self.forget_deadline(row);
        }
    }

    /// Takes the end of a row back.
    pub(crate) fn revive(&mut self, row: u32) {
        if self.is_dead(row)
            && let Some(dead) = &mut self.dead
        {
            dead.remove(row as usize);
            self.dead_count -= 1;
            self.recall_deadline(row);
        }
    }

    /// One bit for each of the first `rows` rows: set where the row is ended. `None`: no row is.
    pub(crate) fn dead_words(&self, rows: u32) -> Option<Vec<u64>> {
        if self.dead_count == 0 {
            return None;
        }
        self.dead.as_ref().map(|dead| dead.copy(rows as usize))
    }
}

#[cfg(test)]
mod tests;
