//! Unique indexes and buffered writes: what a statement has written must not have values of other rows.
//!
//! Called at the end of each statement, so that it learns of a clash and not only the commit, and for ON CONFLICT. What
//! counts are all rows of the statement at once: values may change hands within it. Others may take a value before the
//! commit, which looks again (`commit::checks`).

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::{Datum, IndexDef, PartitionId, Result, TableId, Value};
use foldhash::fast::RandomState;

use super::{Staged, WriteSet, own};
use crate::key_parts::{KeyParts, may_repeat, taken_error};
use crate::memory::Charge;
use crate::region::{Region, changed};
use crate::row::RowRef;
use crate::shape::Shape;
use crate::snapshot::Snapshot;
use crate::taken::{Fingerprint, Taken};

/// Rows that are looked at in one step where they are many.
const ROWS_PER_STEP: usize = 512;

/// Who has which values among pending rows. Filled as far as somebody asked, and forgotten whenever rows are taken back.
#[derive(Default)]
pub(super) struct PendingValues {
    indexes: Vec<PendingIndex>,
    /// Rows from here on were not looked at.
    seen: u64,
    /// Nor were the loads from this one on.
    seen_loads: usize,
    /// What is being looked at in steps.
    looking: Option<Looking>,
    charge: Option<Charge>,
    /// See [`Staged::yields`].
    yields: Option<Snapshot>,
}

/// Rows that are looked at: those that were written until somebody began to.
struct Looking {
    written: Vec<Who>,
    /// The first that was not looked at.
    next: usize,
    /// Rows and loads that are behind them.
    end: u64,
    loads: usize,
    _charge: Charge,
}

struct PendingIndex {
    definition: Arc<IndexDef>,
    key_parts: KeyParts,
    /// `None`: it is not unique, and only what it computes has to be possible.
    taken: Option<Arc<Taken>>,
    rows: HashMap<Fingerprint, Who, RandomState>,
}

/// A row that is pending.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Written by itself.
    Row(u32),
    /// Arrived in bulk: in which load, in which partition of it, and its id there.
    Loaded(u32, PartitionId, u32),
}

impl PendingValues {
    pub(super) fn forget(&mut self) {
        let yields = self.yields.take();
        *self = Self { yields, ..Self::default() };
    }

    /// The indexes are those of now. Those that the transaction drops are asked nothing.
    fn refresh(&mut self, region: &Region, shape: &Shape, ignored: &[TableId]) {
        // Errors tell the name, which may be another one by now.
        fn named(index: &Arc<IndexDef>) -> (TableId, &str) {
            (index.id, index.name.as_str())
        }
        let wanted = region.every_index();
        let wanted = wanted.iter().filter(|index| {
            let is_asked = index.unique.is_some() || !index.is_plain();
            is_asked && !ignored.contains(&index.id) && shape.schema.has_columns_of(index)
        });
        let wanted: Vec<&Arc<IndexDef>> = wanted.collect();
        if wanted.iter().copied().map(named).eq(self.indexes.iter().map(|index| named(&index.definition))) {
            return;
        }
        self.forget();
        for definition in wanted {
            let Some(key_parts) = KeyParts::of(definition, shape) else { continue };
            let taken = region.taken(definition.id);
            let definition = Arc::clone(definition);
            self.indexes.push(PendingIndex { definition, key_parts, taken, rows: HashMap::default() });
        }
    }
}

/// What a row has in an index: its values, and their fingerprint where no other row may have them.
struct Has {
    values: Vec<Value>,
    /// What is shown of them, where that is something else.
    shown: Option<Vec<Value>>,
    fingerprint: Option<Fingerprint>,
}

impl PendingIndex {
    /// `None`: the row is not in the index.
    #[expect(
        clippy::redundant_closure,
        reason = "the closure's values live as long as what is computed, which the function's do not say"
    )]
    fn of<'d>(&self, value: impl Fn(usize) -> Datum<'d> + Clone) -> Result<Option<Has>> {
        let Some(computed) = self.key_parts.compute(&self.definition, value.clone())? else { return Ok(None) };
        let values = self.key_parts.values(&computed, |ordinal| value(ordinal));
        let fingerprint = match &self.taken {
            Some(taken) if !may_repeat(&self.definition, values.clone()) => Some(taken.fingerprint(values.clone())),
            _ => None,
        };
        let shown = self.key_parts.has_stand_ins().then(|| {
            let shown = self.key_parts.shown(&computed, |ordinal| value(ordinal));
            shown.map(|value| value.to_value()).collect()
        });
        Ok(Some(Has { values: values.map(|value| value.to_value()).collect(), shown, fingerprint }))
    }
}

impl Staged {
    /// A value that somebody else has taken since the last statement with ON CONFLICT began is a conflict, and no violation:
    /// the statement would do something else now.
    pub(crate) fn yields(&self) -> bool {
        self.values.yields.is_some()
    }

    /// Looks at the rows that were written since the last time.
    ///
    /// # Errors
    /// 23505 where a row has values of another one, 40001 for what [`Self::yields`] says, and what expressions find.
    pub(super) fn check_values(&mut self, ignored: &[TableId]) -> Result<()> {
        self.check_some(ignored, false, usize::MAX).map(|_| ())
    }

    /// Looks at so many of them at most; with `goes_on` at the next ones. True when there are no more.
    fn check_some(&mut self, ignored: &[TableId], goes_on: bool, rows_max: usize) -> Result<bool> {
        let (region, shape) = (Arc::clone(self.region()), Arc::clone(self.shape()));
        let mut values = std::mem::take(&mut self.values);
        let looking = values.looking.take().filter(|_| goes_on);
        if looking.is_none() {
            values.refresh(&region, &shape, ignored);
        }
        let done = self.check_new(&region, &shape, &mut values, looking, rows_max);
        self.values = values;
        done
    }

    fn check_new(
        &self,
        region: &Region,
        shape: &Shape,
        values: &mut PendingValues,
        looking: Option<Looking>,
        rows_max: usize,
    ) -> Result<bool> {
        let looking = match looking {
            Some(looking) => looking,
            None => self.look_at(values)?,
        };
        let end = looking.written.len().min(looking.next.saturating_add(rows_max));
        for index in &mut values.indexes {
            for &row in &looking.written[looking.next..end] {
                let Some(pending) = self.row_of(row) else { continue };
                let Some(has) = index.of(|ordinal| pending.get(ordinal))? else { continue };
                let Some(fingerprint) = has.fingerprint else { continue };
                let other = index.rows.get(&fingerprint).copied().filter(|&other| other != row && self.is_there(other));
                let shown = has.shown.as_ref().unwrap_or(&has.values);
                let clash = || taken_error(&index.definition, shape, shown.iter().map(Value::as_datum));
                if other.is_some() {
                    return Err(clash());
                }
                if let Some((_, is_new)) = self.committed(region, index, &has, values.yields.as_ref()) {
                    return Err(if is_new { self.conflict() } else { clash() });
                }
                index.rows.insert(fingerprint, row);
            }
        }
        if end < looking.written.len() {
            values.looking = Some(Looking { next: end, ..looking });
            return Ok(false);
        }
        (values.seen, values.seen_loads) = (looking.end, looking.loads);
        Ok(true)
    }

    /// What was written since the last time. Room for what it has is charged.
    fn look_at(&self, values: &mut PendingValues) -> Result<Looking> {
        let (rows, end) = self.written_since(values.seen);
        let loads = self.loads().iter().enumerate().skip(values.seen_loads);
        let count = rows.len() + loads.clone().map(|(_, load)| load.row_count()).sum::<usize>();
        let charge = Charge::new(self.account(), count * size_of::<Who>())?;
        let mut written: Vec<Who> = Vec::with_capacity(count);
        written.extend(rows.into_iter().filter(|&row| !self.state(row).is_deleted()).map(Who::Row));
        for (number, load) in loads {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            written.extend(load.living().map(|(partition, row)| Who::Loaded(number, partition, row)));
        }
        let uniques = values.indexes.iter().filter(|index| index.taken.is_some()).count();
        let entries: usize = values.indexes.iter().map(|index| index.rows.len()).sum();
        // Maps grow by doubling.
        let bytes = (entries + written.len() * uniques) * 2 * (size_of::<(Fingerprint, Who)>() + 1);
        match &mut values.charge {
            Some(charge) => charge.try_resize(bytes)?,
            None => values.charge = Some(Charge::new(self.account(), bytes)?),
        }
        Ok(Looking { written, next: 0, end, loads: self.loads().len(), _charge: charge })
    }

    fn row_of(&self, who: Who) -> Option<RowRef<'_>> {
        match who {
            Who::Row(row) => Some(self.row(row)),
            Who::Loaded(load, partition, row) => self.loads().get(load as usize)?.row_at(self.shape(), partition, row),
        }
    }

    /// Whether a pending row still stands for its key.
    fn is_there(&self, who: Who) -> bool {
        match who {
            Who::Row(row) => self.is_pending(row),
            Who::Loaded(load, partition, row) => {
                self.loads().get(load as usize).is_some_and(|load| load.is_living(partition, row))
            }
        }
    }

    /// The key of the row that is committed with values of an index, unless that is about to go or to have others; and
    /// whether a snapshot does not see it yet.
    fn committed(
        &self,
        region: &Region,
        index: &PendingIndex,
        has: &Has,
        seen: Option<&Snapshot>,
    ) -> Option<(Vec<Value>, bool)> {
        let (fingerprint, taken) = (has.fingerprint?, index.taken.as_ref()?);
        if self.truncates() {
            return None;
        }
        let (key, is_new) = region.holder(&index.definition, taken, fingerprint, &has.values, |stored, row| {
            let is_new = seen.is_some_and(|seen| !stored.is_seen_at(row, seen.timestamp()));
            (key_of(&region.row(stored, row)), is_new)
        })?;
        let datums: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
        self.pending_row(&datums).is_none().then_some((key, is_new))
    }

    /// The key of the row, pending or committed, whose values of an index a row would have.
    fn conflicting(&mut self, index: TableId, row: &[Datum<'_>], ignored: &[TableId]) -> Result<Option<Vec<Value>>> {
        self.check_values(ignored)?;
        if ignored.contains(&index) {
            return Ok(None);
        }
        let Some(known) = self.values.indexes.iter().find(|known| known.definition.id == index) else {
            // Dropped since the statement was planned.
            return Err(changed(self.schema()));
        };
        let Some(has) = known.of(|ordinal| row[ordinal].clone())? else { return Ok(None) };
        let pending = has.fingerprint.and_then(|value| known.rows.get(&value).copied());
        if let Some(row) = pending.filter(|&row| self.is_there(row)).and_then(|row| self.row_of(row)) {
            return Ok(Some(key_of(&row)));
        }
        Ok(self.committed(self.region(), known, &has, None).map(|(key, _)| key))
    }
}

fn key_of(row: &RowRef<'_>) -> Vec<Value> {
    row.schema().key.iter().map(|&ordinal| row.get(ordinal).to_value()).collect()
}

impl WriteSet {
    /// Indexes that this transaction drops: what they would say of its rows does not count.
    pub fn ignore_indexes(&mut self, indexes: impl Iterator<Item = TableId>) {
        self.ignored = indexes.collect();
    }

    pub(crate) fn ignored_indexes(&self) -> Vec<TableId> {
        self.ignored.clone()
    }

    /// Looks at what was written to a region since the last time: at the end of a statement.
    ///
    /// # Errors
    /// 23505 where a row has values of another one in a unique index, 40001 where it has them since somebody asked by
    /// [`Self::conflicting`], 53200, and what expressions of indexes find.
    pub fn check_values(&mut self, region: &Region) -> Result<()> {
        self.check_some_values(region, false, usize::MAX).map(|_| ())
    }

    /// Does a step of the same: looks at some hundred rows, so that whoever looks at many can be told to stop in between. True when all were
    /// looked at. `goes_on`: the step before it did not look at all, and nothing was written since.
    ///
    /// # Errors
    /// As there.
    pub fn check_values_step(&mut self, region: &Region, goes_on: bool) -> Result<bool> {
        self.check_some_values(region, goes_on, ROWS_PER_STEP)
    }

    /// The same with so many rows.
    pub(crate) fn check_some_values(&mut self, region: &Region, goes_on: bool, rows_max: usize) -> Result<bool> {
        if !region.has_checks() {
            return Ok(true);
        }
        let Self { staged, ignored, .. } = self;
        match staged.iter_mut().find(|staged| staged.region().id() == region.id()) {
            Some(staged) => own(staged).check_some(ignored, goes_on, rows_max),
            None => Ok(true),
        }
    }

    /// Whether the commit fails with 40001 where a value was taken meanwhile: see [`Self::conflicting`].
    pub fn yields(&self, region: &Region) -> bool {
        self.staged.iter().any(|staged| staged.region().id() == region.id() && staged.yields())
    }

    /// The key of the row whose values of a unique index a row would have: ON CONFLICT. From then on this transaction's commit fails with
    /// 40001, not with 23505, where somebody else takes a value of its rows meanwhile. `version` and `read_at` as for
    /// [`WriteSet::upsert`].
    ///
    /// # Errors
    /// As [`Self::check_values`], and 40001 where the table has another shape.
    pub fn conflicting(
        &mut self,
        region: &Arc<Region>,
        version: u32,
        read_at: &Snapshot,
        index: TableId,
        row: &[Datum<'_>],
    ) -> Result<Option<Vec<Value>>> {
        let ignored = std::mem::take(&mut self.ignored);
        let found = self.staged_mut(region, version, read_at).and_then(|staged| {
            staged.values.yields = Some(read_at.clone());
            staged.conflicting(index, row, &ignored)
        });
        self.ignored = ignored;
        found
    }
}
