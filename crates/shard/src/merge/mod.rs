//! One answer out of several: rows in the order of a sort, cut off where LIMIT says; or one row out of partial sums.
//!
//! A [`Merger`] is a pure state machine. Its user reads rows wherever they come from and asks which source is needed next;
//! it holds one row of each source, and never more but for one of each group, and the values of it that are added once. Values are decoded only
//! where they are compared or added.

mod computed;
mod decimal;
mod groups;
mod having;
mod value;

use std::cmp::Ordering;

use ashlar_base::{Error, ErrorCode, Result};

use groups::Groups;
use value::Comparable;

pub use computed::Computed;
pub(crate) use computed::{Expression, Function, Kind, Operator};
pub use having::Having;
pub(crate) use having::{Comparison, Condition, Operand};

/// How rows of several shards are put together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowMerge {
    /// What the rows of each shard are sorted by.
    pub keys: Vec<SortKey>,
    /// Columns at the end of the shards' rows that the client does not see.
    pub hidden: usize,
    /// What becomes of each column, where every shard answers with one row, or with one for each of its groups; otherwise none.
    pub aggregates: Vec<Aggregate>,
    /// Which of the groups are kept, once they are complete; `None`: all.
    pub having: Option<Having>,
    /// What is computed of those, in the order of its columns.
    pub computed: Vec<Computed>,
    /// Whether rows that are sorted like the last one that is wanted are wanted too.
    pub has_ties: bool,
    /// Whether the shards are asked for columns that nobody can name here, which may be others on each of them.
    pub has_open_stars: bool,
}

/// A column that rows are sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// Which.
    pub column: Place,
    /// DESC
    pub is_descending: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
    /// Whether the statement itself says that its text is compared byte by byte.
    pub is_c_collated: bool,
}

/// A column of the shards' rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Counted from 0.
    FromStart(usize),
    /// Counted from 1, the last.
    FromEnd(usize),
}

/// How the values of a column become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Added; there is no NULL among them.
    Count,
    /// Added.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Those bits that all have.
    BitAnd,
    /// Those bits that one has.
    BitOr,
    /// Those bits that an odd number has.
    BitXor,
    /// It tells groups apart.
    Group,
    /// The same in all rows of a group.
    Alike,
    /// What [`RowMerge::computed`] says of it; what the shards send is not looked at.
    Computed,
    /// It tells rows of one group apart, which are added once for each of its values.
    Value,
    /// Added once for each value of this column, counted from 0; 0 is no value.
    CountOf(usize),
    /// The same for sums; NULL is no value.
    SumOf(usize),
    /// What other columns come to, both counted from 0.
    Average {
        /// The sum of all values.
        sum: usize,
        /// The number of them.
        count: usize,
    },
    /// How far values are from their average.
    Deviation(Deviation),
}

/// A variance or a standard deviation, and the columns that it comes from, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The number of values.
    pub count: usize,
    /// Their sum.
    pub sum: usize,
    /// The sum of their squares.
    pub squares: usize,
    /// Whether they are a sample of more.
    pub is_sample: bool,
    /// Whether it is the standard deviation.
    pub is_root: bool,
}

/// A merge with the numbers of one execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gathering<'r> {
    /// How.
    pub merge: &'r RowMerge,
    /// Rows left out at the beginning.
    pub skip: u64,
    /// Rows at the most.
    pub take: Option<u64>,
}

/// A column of the shards' rows, as they describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its type.
    pub oid: u32,
    /// Whether its values are in PostgreSQL's binary form.
    pub is_binary: bool,
}

/// Rows of several sources becoming one sequence.
#[derive(Debug)]
pub struct Merger {
    keys: Vec<Key>,
    hidden: usize,
    /// `None`: rows stay what they are.
    groups: Option<Groups>,
    complete: Complete,
    sources: Vec<Source>,
    /// Sources with a row, the next one last.
    order: Vec<usize>,
    skip: u64,
    take: Option<u64>,
    has_ties: bool,
    /// What the last row is sorted by that was wanted by its number, where others may come with it.
    last: Option<Vec<Option<Comparable>>>,
    /// The rows of groups, once all of them are complete.
    answers: Option<std::vec::IntoIter<Vec<u8>>>,
}

/// What becomes of groups that are complete.
#[derive(Debug)]
struct Complete {
    having: Option<Having>,
    computed: Vec<Computed>,
    /// Of their columns.
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Key {
    column: usize,
    field: Field,
    is_descending: bool,
    nulls_first: bool,
}

#[derive(Debug, Default)]
struct Source {
    row: Option<Row>,
    is_finished: bool,
}

#[derive(Debug)]
struct Row {
    body: Vec<u8>,
    keys: Vec<Option<Comparable>>,
}

impl Merger {
    /// For rows of these columns from so many sources. `is_c_collated`: the servers compare text byte by byte.
    ///
    /// # Errors
    /// 0A000 where the order of a column's type, or the sum of its values, is not known here: before any row was taken.
    pub fn new(gathering: &Gathering<'_>, fields: &[Field], sources: usize, is_c_collated: bool) -> Result<Self> {
        let merge = gathering.merge;
        let mut keys = Vec::with_capacity(merge.keys.len());
        for key in &merge.keys {
            let column = match key.column {
                Place::FromStart(at) => Some(at),
                Place::FromEnd(at) => fields.len().checked_sub(at),
            };
            let found = column.and_then(|column| Some((column, *fields.get(column)?)));
            let (column, field) = found.ok_or_else(|| Error::internal("a sort key that no row has"))?;
            value::check_order(field, is_c_collated || key.is_c_collated)?;
            keys.push(Key { column, field, is_descending: key.is_descending, nulls_first: key.nulls_first });
        }
        let is_aggregated = !merge.aggregates.is_empty();
        if is_aggregated && merge.aggregates.len() != fields.len() {
            return Err(Error::internal("an aggregate that no row has"));
        }
        let groups = is_aggregated.then(|| Groups::new(&merge.aggregates, fields, is_c_collated)).transpose()?;
        merge.having.iter().try_for_each(|condition| condition.check(fields, is_c_collated))?;
        merge.computed.iter().try_for_each(|column| column.check(fields, is_c_collated))?;
        let complete =
            Complete { having: merge.having.clone(), computed: merge.computed.clone(), fields: fields.to_vec() };
        Ok(Self {
            keys,
            hidden: merge.hidden,
            groups,
            complete,
            sources: std::iter::repeat_with(Source::default).take(sources).collect(),
            order: Vec::with_capacity(sources),
            skip: gathering.skip,
            take: gathering.take,
            has_ties: merge.has_ties,
            last: None,
            answers: None,
        })
    }

    /// The source whose next row, or end, has to be known before there can be an answer; `None`: call [`Self::pop`].
    pub fn needs(&self) -> Option<usize> {
        if self.is_done() {
            return None;
        }
        if self.keys.is_empty() && self.groups.is_none() && !self.order.is_empty() {
            return None;
        }
        self.sources.iter().position(|source| source.row.is_none() && !source.is_finished)
    }

    /// Whether no row will come any more: what the sources still have is not needed.
    pub fn is_done(&self) -> bool {
        (self.take == Some(0) && !self.may_have_ties())
            || self.answers.as_ref().is_some_and(|answers| answers.len() == 0)
            || (self.order.is_empty() && self.groups.is_none() && self.sources.iter().all(|source| source.is_finished))
    }

    /// Whether the next row may be sorted like the last one that was wanted.
    fn may_have_ties(&self) -> bool {
        let Some(last) = &self.last else { return false };
        if self.sources.iter().any(|source| source.row.is_none() && !source.is_finished) {
            return true;
        }
        let next = self.order.last().and_then(|source| self.sources[*source].row.as_ref());
        next.is_some_and(|row| compare(&self.keys, &row.keys, last).is_eq())
    }

    /// Bytes that groups hold, about.
    pub fn bytes(&self) -> usize {
        self.groups.as_ref().map_or(0, Groups::bytes)
    }

    /// The next row of a source: a DataRow's body, the number of columns first.
    ///
    /// # Errors
    /// 08P01 for a row that is none, and what reading and adding values finds.
    pub fn push(&mut self, source: usize, body: &[u8]) -> Result<()> {
        if let Some(groups) = &mut self.groups {
            return groups.add(body);
        }
        let keys = keys_of(&self.keys, body)?;
        self.sources[source].row = Some(Row { body: body.to_vec(), keys });
        let at = self.order.partition_point(|other| self.compare(*other, source) == Ordering::Greater);
        self.order.insert(at, source);
        Ok(())
    }

    /// A source has no more rows.
    pub fn finish(&mut self, source: usize) {
        self.sources[source].is_finished = true;
    }

    /// The next row's body for the client; `None`: ask [`Self::needs`], or there is none.
    ///
    /// # Errors
    /// 08P01 for a row that is none.
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>> {
        if self.is_done() || self.needs().is_some() {
            return Ok(None);
        }
        if let Some(groups) = &mut self.groups {
            let answers = match &mut self.answers {
                Some(answers) => answers,
                None => {
                    let most = self.take.map(|take| take.saturating_add(self.skip));
                    self.answers.insert(in_order(groups, &self.keys, &self.complete, most)?.into_iter())
                }
            };
            while self.skip > 0 && answers.next().is_some() {
                self.skip -= 1;
            }
            let Some(row) = answers.next() else { return Ok(None) };
            if let Some(take) = &mut self.take {
                *take -= 1;
            }
            return shown(row, self.hidden).map(Some);
        }
        let Some(row) = self.order.pop().and_then(|source| self.sources[source].row.take()) else { return Ok(None) };
        if self.skip > 0 {
            self.skip -= 1;
            // Its source has to say what comes next.
            return Ok(None);
        }
        if let Some(take) = &mut self.take {
            // One more that is sorted like the last is not counted.
            *take = take.saturating_sub(1);
            if *take == 0 && self.has_ties && self.last.is_none() {
                self.last = Some(row.keys);
            }
        }
        shown(row.body, self.hidden).map(Some)
    }

    /// The order of two sources' rows; of equal ones, that of the sources.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (Some(a_row), Some(b_row)) = (&self.sources[a].row, &self.sources[b].row) else { return a.cmp(&b) };
        compare(&self.keys, &a_row.keys, &b_row.keys).then(a.cmp(&b))
    }
}

/// The values that a row is sorted by.
fn keys_of(keys: &[Key], body: &[u8]) -> Result<Vec<Option<Comparable>>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let cells: Vec<Option<&[u8]>> = cells(body).collect::<Result<_>>()?;
    let of = |key: &Key| {
        let cell = cells.get(key.column).copied().ok_or_else(broken)?;
        cell.map(|bytes| Comparable::read(key.field, bytes)).transpose()
    };
    keys.iter().map(of).collect()
}

/// The order of two rows with these values.
fn compare(keys: &[Key], a: &[Option<Comparable>], b: &[Option<Comparable>]) -> Ordering {
    for (key, (a, b)) in keys.iter().zip(a.iter().zip(b)) {
        let ordering = match (a, b) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if key.nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if key.nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) if key.is_descending => b.compare(a),
            (Some(a), Some(b)) => a.compare(b),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

impl Complete {
    /// A group's row as it is shown; `None`: it is left out.
    fn row(&self, body: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let is_kept = self.having.as_ref().map_or(Ok(true), |having| having.holds(&self.fields, &body))?;
        is_kept.then(|| computed::computed(&self.computed, &self.fields, body)).transpose()
    }
}

/// The rows of those groups that are kept, sorted. `most`: how many are needed, which are any where nothing sorts them.
fn in_order(groups: &mut Groups, keys: &[Key], complete: &Complete, most: Option<u64>) -> Result<Vec<Vec<u8>>> {
    let mut rows: Vec<(Vec<Option<Comparable>>, Vec<u8>)> = Vec::new();
    for body in groups.take()? {
        // What is not needed is not computed either, which could fail.
        if keys.is_empty() && most.is_some_and(|most| rows.len() as u64 >= most) {
            break;
        }
        if let Some(body) = complete.row(body?)? {
            rows.push((keys_of(keys, &body)?, body));
        }
    }
    if !keys.is_empty() {
        rows.sort_by(|(a, _), (b, _)| compare(keys, a, b));
    }
    Ok(rows.into_iter().map(|(_, body)| body).collect())
}

fn broken() -> Error {
    Error::new(ErrorCode::ProtocolViolation, "a shard sent a row that cannot be read")
}

/// The cells of a DataRow's body; `None` for NULL.
fn cells(body: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>>> {
    let count = body.first_chunk::<2>().map(|count| usize::from(u16::from_be_bytes(*count)));
    let mut rest = body.get(2..).unwrap_or_default();
    let broken_first = count.is_none();
    let mut next = move || -> Result<Option<&[u8]>> {
        let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
        let length = i32::from_be_bytes(*length);
        let length = match usize::try_from(length) {
            Ok(length) => length,
            Err(_) => {
                rest = behind;
                return Ok(None);
            }
        };
        let (cell, behind) = behind.split_at_checked(length).ok_or_else(broken)?;
        rest = behind;
        Ok(Some(cell))
    };
    (0..count.unwrap_or(0).max(usize::from(broken_first))).map(move |_| next())
}

/// A row without its last columns.
fn shown(mut body: Vec<u8>, hidden: usize) -> Result<Vec<u8>> {
    if hidden == 0 {
        return Ok(body);
    }
    let count = usize::from(u16::from_be_bytes(*body.first_chunk::<2>().ok_or_else(broken)?));
    let kept = count.checked_sub(hidden).ok_or_else(broken)?;
    let mut end = 2;
    for cell in cells(&body).take(kept) {
        end += 4 + cell?.map_or(0, <[u8]>::len);
    }
    body.truncate(end);
    body[..2].copy_from_slice(&u16::try_from(kept).map_err(|_| broken())?.to_be_bytes());
    Ok(body)
}

#[cfg(test)]
mod tests;
