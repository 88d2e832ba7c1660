//! One answer out of several: rows in the order of a sort, cut off where LIMIT says; or one row out of partial sums.
//!
//! A [`Merger`] is a pure state machine. Its user reads rows wherever they come from and asks which source is needed next;
//! it holds one row of each source, and never more but for one of each group, and the values of it that are added once. Values are decoded only
//! where they are compared or added. Groups that come sorted by what tells them apart are put together one after the other, so that one of them
//! is held. Texts of which only a server knows the order are compared by the ranks that it has given them; until then all of a group are kept of
//! which one may be the least or the greatest.

mod computed;
mod decimal;
mod groups;
mod having;
mod value;

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, VecDeque};

use ashlar_base::{Error, ErrorCode, Result};

use groups::Groups;
use value::Comparable;

pub use computed::Computed;
pub(crate) use computed::{Expression, Function, Kind, Operator};
pub use having::Having;
pub(crate) use having::{Comparison, Condition, Operand};

/// Bytes of complete groups that are kept before the first of them is given out, where something may turn out to be more than is done here:
/// until then others can do it.
const HELD_BYTES: usize = 8 << 20;

/// How rows of several shards are put together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowMerge {
    /// What the rows of each shard are sorted by, or all groups when they are complete.
    pub keys: Vec<SortKey>,
    /// What the groups of each shard are sorted by, which tells all of them apart, and has the order of `keys`; otherwise none.
    pub streamed: Vec<SortKey>,
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

impl Place {
    /// Which of so many columns it is, counted from 0.
    fn of(self, count: usize) -> Option<usize> {
        match self {
            Self::FromStart(at) => Some(at),
            Self::FromEnd(at) => count.checked_sub(at),
        }
    }
}

impl RowMerge {
    /// The columns of texts of which the collation matters that shards compare them by: those that rows are sorted by in an order that the
    /// statement does not name there, and the least and greatest ones. `is_named`: it names a collation somewhere, which those of groups may have.
    pub fn text_columns(&self, fields: &[Field], is_named: bool) -> Vec<usize> {
        let keys = self.keys.iter().filter(|key| !key.is_c_collated);
        let keys = keys.filter_map(|key| key.column.of(fields.len()));
        let is_compared = |aggregate: &Aggregate| match aggregate {
            Aggregate::Min | Aggregate::Max => true,
            Aggregate::Group | Aggregate::Value => is_named,
            _ => false,
        };
        let columns = self.aggregates.iter().enumerate().filter(|(_, aggregate)| is_compared(aggregate));
        let is_text = |column: &usize| fields.get(*column).is_some_and(|field| value::is_text(*field));
        let mut found: Vec<usize> = keys.chain(columns.map(|(column, _)| column)).filter(is_text).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// 0A000 where groups are told apart in another way than by their bytes. `orders`: those of the columns that [`Self::text_columns`] has named.
    fn check_collations(&self, orders: &[(usize, TextOrder)]) -> Result<()> {
        let is_known = |(column, order): &(usize, TextOrder)| match self.aggregates.get(*column) {
            // Where texts are equal by their bytes only, their order does not tell groups apart.
            Some(Aggregate::Group | Aggregate::Value) => *order != TextOrder::Unknown,
            _ => true,
        };
        if orders.iter().all(is_known) {
            return Ok(());
        }
        Err(Error::unsupported(
            "texts of several shards are not compared here by another collation than the servers' own",
        ))
    }
}

/// In which order the texts of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOrder {
    /// In that of their bytes.
    Bytes,
    /// In that of the collation of this number, of which a server gives ranks. Only those with the same bytes are equal.
    Ranks(usize),
    /// Nobody knows, or it is not the same on all servers.
    Unknown,
}

impl TextOrder {
    /// That of a column, where it is known of these, and the servers compare texts byte by byte or do not.
    fn of(column: usize, is_c_collated: bool, orders: &[(usize, Self)]) -> Self {
        let known = orders.iter().find(|(of, _)| *of == column).map(|(_, order)| *order);
        known.unwrap_or(if is_c_collated { Self::Bytes } else { Self::Unknown })
    }

    /// The collation whose ranks texts are compared by.
    fn ranked(self) -> Option<usize> {
        if let Self::Ranks(collation) = self { Some(collation) } else { None }
    }
}

/// By text: its place among all that are held, as a server says it. Equal ones have one place.
pub type Ranks = HashMap<Box<[u8]>, u32>;

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
    /// The last row that was wanted by its number, where others may come with it.
    last: Option<Row>,
    /// By collation: what is known of the order of texts.
    ranks: Vec<Ranks>,
    /// Complete groups that wait for the ranks of what they are sorted by.
    unsorted: Option<Vec<Vec<u8>>>,
    /// Whether groups come sorted by `keys`, which tell them apart.
    is_streaming: bool,
    /// A row of the group whose rows are taken.
    run: Option<Row>,
    /// Complete groups, and the bytes of their rows.
    ready: VecDeque<Vec<u8>>,
    ready_bytes: usize,
    /// Whether they are given out: it is certain that all that are to come can be made, or too many are kept.
    is_released: bool,
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
    /// The collation whose ranks its texts are compared by.
    collation: Option<usize>,
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
        Self::ordered(gathering, fields, sources, is_c_collated, &[])
    }

    /// The same where it is known of some columns in which order their texts are. Whoever names [`TextOrder::Ranks`] calls [`Self::rank`] before
    /// rows come if [`Self::is_ranked`], and when [`Self::wanted_texts`] names some.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn ordered(
        gathering: &Gathering<'_>,
        fields: &[Field],
        sources: usize,
        is_c_collated: bool,
        orders: &[(usize, TextOrder)],
    ) -> Result<Self> {
        let merge = gathering.merge;
        let is_aggregated = !merge.aggregates.is_empty();
        merge.check_collations(orders)?;
        if is_aggregated && merge.aggregates.len() != fields.len() {
            return Err(Error::internal("an aggregate that no row has"));
        }
        let groups =
            is_aggregated.then(|| Groups::new(&merge.aggregates, fields, is_c_collated, orders)).transpose()?;
        let sorted_by = |keys: &[SortKey]| -> Result<Vec<Key>> {
            keys.iter().map(|key| Key::new(key, fields, is_c_collated, orders)).collect()
        };
        // Where that is not known to be their order they are put together all at once, and where one of their values waits for ranks.
        let may_stream = !merge.streamed.is_empty() && groups.as_ref().is_some_and(|groups| !groups.is_undecided());
        let streamed = if may_stream { sorted_by(&merge.streamed).ok() } else { None };
        let is_streaming = streamed.is_some();
        let mut keys = match streamed {
            Some(keys) => keys,
            None => sorted_by(&merge.keys)?,
        };
        if sources == 1 && (!is_aggregated || is_streaming) {
            // Its rows come in their order: all that is asked is whether two are sorted alike, which bytes say.
            keys.iter_mut().for_each(|key| key.collation = None);
        }
        // What is compared of complete groups may be a text whose collation the statement names, and which is not that of bytes.
        let is_by_bytes = is_c_collated && orders.iter().all(|(_, order)| *order == TextOrder::Bytes);
        merge.having.iter().try_for_each(|condition| condition.check(fields, is_by_bytes))?;
        merge.computed.iter().try_for_each(|column| column.check(fields, is_by_bytes))?;
        let is_sure = merge.computed.is_empty()
            && !merge.having.as_ref().is_some_and(Having::computes)
            && !fields.iter().any(|field| value::is_numeric(*field));
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
            ranks: Vec::new(),
            unsorted: None,
            is_streaming,
            run: None,
            ready: VecDeque::new(),
            ready_bytes: 0,
            is_released: is_sure,
            answers: None,
        })
    }

    /// Whether it compares texts of rows by ranks as they come.
    pub fn is_ranked(&self) -> bool {
        (self.groups.is_none() || self.is_streaming) && self.keys.iter().any(|key| key.collation.is_some())
    }

    /// The texts, of so many collations, whose ranks complete groups wait for: those of which the least or the greatest is wanted, and then those
    /// that the groups are sorted by. `None`: nothing, or there are groups to come.
    ///
    /// # Errors
    /// As [`Self::pop`].
    pub fn wanted_texts(&mut self, collations: usize) -> Result<Option<Vec<BTreeSet<Vec<u8>>>>> {
        let is_complete =
            !self.is_streaming && self.answers.is_none() && self.sources.iter().all(|source| source.is_finished);
        let Some(groups) = self.groups.as_mut().filter(|_| is_complete && self.unsorted.is_none()) else {
            return Ok(None);
        };
        let mut found = vec![BTreeSet::new(); collations];
        if groups.is_undecided() {
            groups.undecided_texts(&mut found);
            return Ok(Some(found));
        }
        if self.keys.iter().all(|key| key.collation.is_none()) {
            return Ok(None);
        }
        let rows = complete_rows(groups, &self.complete, None)?;
        rows.iter().try_for_each(|row| self.texts(row, &mut found))?;
        self.unsorted = Some(rows);
        Ok(Some(found))
    }

    /// Adds the texts of a row whose ranks have to be known before it is pushed, by collation.
    ///
    /// # Errors
    /// 08P01 for a row that is none.
    pub fn texts(&self, body: &[u8], found: &mut [BTreeSet<Vec<u8>>]) -> Result<()> {
        for (column, cell) in cells(body).enumerate() {
            let Some(bytes) = cell? else { continue };
            for key in self.keys.iter().filter(|key| key.column == column) {
                let Some(texts) = key.collation.and_then(|collation| found.get_mut(collation)) else { continue };
                let text = value::compared(key.field, bytes);
                if !texts.contains(text) {
                    texts.insert(text.to_vec());
                }
            }
        }
        Ok(())
    }

    /// The same of all rows that it holds.
    ///
    /// # Errors
    /// None but those of rows that were pushed.
    pub fn held_texts(&self, found: &mut [BTreeSet<Vec<u8>>]) -> Result<()> {
        let rows = self.sources.iter().filter_map(|source| source.row.as_ref()).chain(&self.last).chain(&self.run);
        rows.map(|row| row.body.as_slice()).try_for_each(|body| self.texts(body, found))
    }

    /// From now on texts are in the order of these ranks, by collation; those of [`Self::held_texts`] are among them, in the order that they had,
    /// or those of [`Self::wanted_texts`].
    ///
    /// # Errors
    /// XX000 where one of them is not.
    pub fn rank(&mut self, ranks: Vec<Ranks>) -> Result<()> {
        self.ranks = ranks;
        if let Some(groups) = self.groups.as_mut().filter(|groups| groups.is_undecided()) {
            return groups.decide(&self.ranks);
        }
        let rows = self.sources.iter_mut().filter_map(|source| source.row.as_mut());
        for row in rows.chain(&mut self.last).chain(&mut self.run) {
            row.keys = keys_of(&self.keys, &self.ranks, &row.body)?;
        }
        Ok(())
    }

    /// Whether groups are put together one after the other, as they come.
    pub fn is_streaming(&self) -> bool {
        self.is_streaming
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
            || (self.order.is_empty()
                && (self.groups.is_none() || self.is_streaming)
                && self.run.is_none()
                && self.ready.is_empty()
                && self.sources.iter().all(|source| source.is_finished))
    }

    /// Whether the next row may be sorted like the last one that was wanted.
    fn may_have_ties(&self) -> bool {
        let Some(last) = &self.last else { return false };
        if self.sources.iter().any(|source| source.row.is_none() && !source.is_finished) {
            return true;
        }
        let next = self.order.last().and_then(|source| self.sources[*source].row.as_ref());
        next.is_some_and(|row| compare(&self.keys, &row.keys, &last.keys).is_eq())
    }

    /// Bytes that groups hold, about.
    pub fn bytes(&self) -> usize {
        self.groups.as_ref().map_or(0, Groups::bytes) + self.ready_bytes
    }

    /// The next row of a source: a DataRow's body, the number of columns first.
    ///
    /// # Errors
    /// 08P01 for a row that is none, and what reading and adding values finds.
    pub fn push(&mut self, source: usize, body: &[u8]) -> Result<()> {
        if let Some(groups) = self.groups.as_mut().filter(|_| !self.is_streaming) {
            return groups.add(body);
        }
        let keys = keys_of(&self.keys, &self.ranks, body)?;
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
        if self.is_streaming {
            return self.pop_group();
        }
        if let Some(groups) = &mut self.groups {
            let answers = match &mut self.answers {
                Some(answers) => answers,
                None => {
                    let rows = match self.unsorted.take() {
                        Some(rows) => rows,
                        None => {
                            // Which of them come first is anybody's choice where nothing sorts them.
                            let most = self.take.map(|take| take.saturating_add(self.skip));
                            complete_rows(groups, &self.complete, most.filter(|_| self.keys.is_empty()))?
                        }
                    };
                    self.answers.insert(in_order(rows, &self.keys, &self.ranks)?.into_iter())
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
                self.last = Some(Row { body: row.body.clone(), keys: row.keys });
            }
        }
        shown(row.body, self.hidden).map(Some)
    }

    /// The same of groups that come one after the other.
    fn pop_group(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if self.is_released
                && let Some(row) = self.ready.pop_front()
            {
                self.ready_bytes -= row.len();
                if let Some(take) = &mut self.take {
                    *take = take.saturating_sub(1);
                }
                return shown(row, self.hidden).map(Some);
            }
            let Some(source) = self.order.last().copied() else {
                // No source has another row.
                self.is_released = true;
                match self.run.take() {
                    Some(_) => self.complete_group()?,
                    None if self.ready.is_empty() => return Ok(None),
                    None => {}
                }
                continue;
            };
            let next = self.sources[source].row.as_ref();
            let is_other = |(run, row): (&Row, &Row)| compare(&self.keys, &run.keys, &row.keys).is_ne();
            if self.run.as_ref().zip(next).is_some_and(is_other) {
                self.run = None;
                self.complete_group()?;
                continue;
            }
            self.order.pop();
            let Some(row) = self.sources[source].row.take() else { return Ok(None) };
            if let Some(groups) = &mut self.groups {
                groups.add(&row.body)?;
            }
            if self.run.is_none() {
                self.run = Some(row);
            }
            // Its source has to say what comes next.
            return Ok(None);
        }
    }

    /// All rows of a group have been taken.
    fn complete_group(&mut self) -> Result<()> {
        let Some(groups) = &mut self.groups else { return Ok(()) };
        for body in groups.take()? {
            let Some(row) = self.complete.row(body?)? else { continue };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.ready_bytes += row.len();
            self.ready.push_back(row);
        }
        let is_enough = self.take.is_some_and(|take| self.ready.len() as u64 >= take);
        self.is_released |= is_enough || self.ready_bytes > HELD_BYTES;
        Ok(())
    }

    /// The order of two sources' rows; of equal ones, that of the sources.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (Some(a_row), Some(b_row)) = (&self.sources[a].row, &self.sources[b].row) else { return a.cmp(&b) };
        compare(&self.keys, &a_row.keys, &b_row.keys).then(a.cmp(&b))
    }
}

impl Key {
    fn new(key: &SortKey, fields: &[Field], is_c_collated: bool, orders: &[(usize, TextOrder)]) -> Result<Self> {
        let found = key.column.of(fields.len()).and_then(|column| Some((column, *fields.get(column)?)));
        let (column, field) = found.ok_or_else(|| Error::internal("a sort key that no row has"))?;
        let order = if key.is_c_collated { TextOrder::Bytes } else { TextOrder::of(column, is_c_collated, orders) };
        value::check_order(field, order != TextOrder::Unknown)?;
        let collation = order.ranked();
        Ok(Self { column, field, is_descending: key.is_descending, nulls_first: key.nulls_first, collation })
    }

    /// A value that is not NULL.
    fn read(&self, ranks: &[Ranks], bytes: &[u8]) -> Result<Comparable> {
        let Some(collation) = self.collation else { return Comparable::read(self.field, bytes) };
        let rank = ranks.get(collation).and_then(|ranks| ranks.get(value::compared(self.field, bytes)));
        rank.map(|rank| Comparable::Rank(*rank)).ok_or_else(|| Error::internal("a text has no rank"))
    }
}

/// The values that a row is sorted by.
fn keys_of(keys: &[Key], ranks: &[Ranks], body: &[u8]) -> Result<Vec<Option<Comparable>>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let cells: Vec<Option<&[u8]>> = cells(body).collect::<Result<_>>()?;
    let of = |key: &Key| {
        let cell = cells.get(key.column).copied().ok_or_else(broken)?;
        cell.map(|bytes| key.read(ranks, bytes)).transpose()
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

/// The rows of those groups that are kept. `most`: how many are needed.
fn complete_rows(groups: &mut Groups, complete: &Complete, most: Option<u64>) -> Result<Vec<Vec<u8>>> {
    let mut rows = Vec::new();
    for body in groups.take()? {
        // What is not needed is not computed either, which could fail.
        if most.is_some_and(|most| rows.len() as u64 >= most) {
            break;
        }
        rows.extend(complete.row(body?)?);
    }
    Ok(rows)
}

/// Sorts rows.
fn in_order(rows: Vec<Vec<u8>>, keys: &[Key], ranks: &[Ranks]) -> Result<Vec<Vec<u8>>> {
    if keys.is_empty() {
        return Ok(rows);
    }
    let with_keys = |body: Vec<u8>| Ok((keys_of(keys, ranks, &body)?, body));
    let mut rows: Vec<(Vec<Option<Comparable>>, Vec<u8>)> = rows.into_iter().map(with_keys).collect::<Result<_>>()?;
    rows.sort_by(|(a, _), (b, _)| compare(keys, a, b));
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
