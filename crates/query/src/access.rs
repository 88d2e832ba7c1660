//! How a scan of a grid table finds its rows: it reads all of them, or those named by the key, an index or another
//! table.
//!
//! Called by `grid_table` when a scan is planned and while it runs, and by `short_plan`. The result may contain rows
//! that are not wanted: the scan evaluates its conditions again, and the operators above it do their whole work.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use ashlar_base::{ColumnId, Comparison, Datum, IndexDef, IndexKind, PartitionId, Result, ScalarType, SqlType};
use ashlar_base::{TableSchema, Value};
use ashlar_functions::quantified::Quantified;
use ashlar_store::{ColumnReader, Overlay, Partitions, Probe, ReadView, Region, ScanBatch, Walk};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

use crate::probes::{self, Asked, PART_MAX, compared_in, value_of};

pub(crate) mod count;
pub(crate) mod settle;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// As conditions ask.
    Asked(Arc<Asked>),
    /// The rows of some keys.
    Keys(Arc<Keys>),
    /// What any of some probes of one index finds.
    Any(Arc<[Probe]>),
    /// The first rows in the order of an index, or the last.
    Walks(Arc<[Walk]>),
}

impl Default for Access {
    fn default() -> Self {
        Self::Asked(Arc::default())
    }
}

/// Values of the primary key, by the partitions that their rows are in.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    by_partition: HashMap<PartitionId, Vec<Box<[Value]>>>,
    count: usize,
}

/// The partitions that can have wanted rows.
pub(crate) struct Candidates {
    partitions: Option<Partitions>,
    /// What the transaction itself has written is in no index.
    overlay: Option<Arc<Overlay>>,
}

/// Values that a list in a condition may have: each is a look at a key or an index.
const LISTED_MAX: usize = 1024;

impl Keys {
    /// Of keys that may be no row's.
    pub(crate) fn of(region: &Region, keys: impl IntoIterator<Item = Box<[Value]>>) -> Self {
        let mut found = Self::default();
        for key in keys {
            let datums: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
            if let Some(partition) = region.partition_of(&datums) {
                found.by_partition.entry(partition).or_default().push(key);
                found.count += 1;
            }
        }
        found
    }
}

impl Candidates {
    /// Whether a partition is among them.
    pub(crate) fn contains(&self, partition: PartitionId) -> bool {
        self.partitions.as_ref().is_none_or(|partitions| partitions.contains(partition))
            || self.overlay.as_ref().is_some_and(|overlay| overlay.touches(partition))
    }
}

impl Access {
    /// What conditions ask, all of which hold for a wanted row.
    pub(crate) fn of(region: &Region, conditions: &[Expr]) -> Self {
        let asked = probes::of(region, conditions);
        // Of most rows of a table, as ANALYZE has found it, each is looked at faster than it is looked up.
        let is_most = asked.part.is_some_and(|part| part > PART_MAX);
        if asked.is_narrow() || conditions.is_empty() || is_most {
            return Self::Asked(Arc::new(asked));
        }
        listed(region, conditions).unwrap_or_else(|| Self::Asked(Arc::new(asked)))
    }

    /// Whether few rows are looked at, as far as that is known.
    pub(crate) fn is_narrow(&self) -> bool {
        match self {
            Self::Asked(asked) => asked.is_narrow(),
            Self::Keys(_) | Self::Any(_) | Self::Walks(_) => true,
        }
    }

    /// Whether every row of the table is looked at.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Asked(asked) if asked.is_nothing())
    }

    /// The partitions that can have wanted rows.
    pub(crate) fn candidates(&self, region: &Region, view: &ReadView) -> Candidates {
        let overlay = view.overlays.get(&region.id()).cloned();
        let of_probes = |probes: &[Probe]| region.candidates(&view.snapshot, probes);
        let partitions = match self {
            Self::Asked(asked) => asked.candidates(region, view),
            Self::Keys(keys) => {
                let mut partitions = Partitions::none(region);
                keys.by_partition.keys().for_each(|partition| partitions.add(*partition));
                Some(partitions)
            }
            Self::Any(probes) => joined(region, probes.iter().map(|probe| of_probes(std::slice::from_ref(probe)))),
            Self::Walks(walks) => joined(region, walks.iter().map(|walk| of_probes(std::slice::from_ref(&walk.probe)))),
        };
        Candidates { partitions, overlay }
    }

    /// What a view sees of one partition.
    ///
    /// # Errors
    /// 40001 where the table has another shape by now, 42P01 where it is gone.
    pub(crate) fn scan(
        &self,
        region: &Region,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: u32,
    ) -> Result<Vec<ScanBatch>> {
        match self {
            Self::Asked(asked) => asked.scan(region, view, partition, columns, version),
            Self::Keys(keys) => {
                let keys = keys.by_partition.get(&partition).map(Vec::as_slice).unwrap_or_default();
                region.scan_keys(view, partition, columns, Some(version), keys)
            }
            Self::Any(probes) => region.scan_any(view, partition, columns, Some(version), probes),
            Self::Walks(walks) => region.scan_walks(view, partition, columns, Some(version), walks),
        }
    }

    /// What EXPLAIN shows.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Asked(asked) if asked.key.is_some() => ", by its key".to_owned(),
            Self::Asked(asked) if asked.unions.is_empty() => String::new(),
            Self::Asked(asked) => format!(", indexes=[{}]", asked.index_names().join(", ")),
            Self::Keys(keys) => format!(", by {} keys", keys.count),
            Self::Any(probes) => {
                let name = probes.first().map_or("", |probe| probe.index.name.as_str());
                format!(", indexes=[{name}], by {} values", probes.len())
            }
            Self::Walks(walks) => {
                let walk = |walk: &Walk| {
                    let is_backwards = walk.backwards.first() == Some(&true);
                    let direction = if is_backwards { "last" } else { "first" };
                    let is_mixed = walk.backwards.contains(&!is_backwards);
                    let groups = if is_mixed { " by groups" } else { "" };
                    format!("{direction} {} of {}{groups}", walk.count, walk.probe.index.name)
                };
                format!(", order=[{}]", walks.iter().map(walk).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// All of several sets; `None`: all there are.
fn joined(region: &Region, sets: impl Iterator<Item = Option<Partitions>>) -> Option<Partitions> {
    let mut all = Partitions::none(region);
    for set in sets {
        all.join(&set?);
    }
    Some(all)
}

/// What one column is compared with.
enum Listed {
    Equal(Value),
    Within(Vec<Value>),
}

/// Rows by the values of a list, `column IN (...)`: of the key, or of an index.
fn listed(region: &Region, conditions: &[Expr]) -> Option<Access> {
    let schema = region.schema();
    let mut said: HashMap<ColumnId, Listed> = HashMap::new();
    for condition in conditions.iter().flat_map(split_conjunction) {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                let found = match (left.as_ref(), right.as_ref()) {
                    (side, Expr::Literal(literal, _)) | (Expr::Literal(literal, _), side) => {
                        value_of(&schema, side, literal)
                    }
                    _ => None,
                };
                said.extend(found.map(|(id, value)| (id, Listed::Equal(value))));
            }
            other => {
                if let Some((id, values)) = list_of(&schema, other).filter(|(_, values)| values.len() <= LISTED_MAX) {
                    said.entry(id).or_insert(Listed::Within(values));
                }
            }
        }
    }
    let products = |columns: &mut dyn Iterator<Item = &ColumnId>| -> (Vec<Vec<Value>>, usize) {
        let (mut rows, mut known) = (vec![Vec::new()], 0);
        for id in columns {
            let values = match said.get(id) {
                Some(Listed::Equal(value)) => std::slice::from_ref(value),
                Some(Listed::Within(values)) => values.as_slice(),
                None => break,
            };
            if rows.len() * values.len() > LISTED_MAX {
                break;
            }
            let with = |row: &Vec<Value>, value: &Value| row.iter().chain([value]).cloned().collect::<Vec<Value>>();
            rows = rows.iter().flat_map(|row| values.iter().map(move |value| with(row, value))).collect();
            known += 1;
        }
        (rows, known)
    };
    let (keys, known) = products(&mut schema.key.iter().map(|ordinal| &schema.columns[*ordinal].id));
    if known == schema.key.len() && !schema.hidden_key {
        let keys = Keys::of(region, keys.into_iter().map(Vec::into_boxed_slice));
        return Some(Access::Keys(Arc::new(keys)));
    }
    let of_index = |index: &Arc<IndexDef>| {
        let (rows, known) = products(&mut index.columns.iter());
        let is_useful = known > 0 && (index.kind == IndexKind::Btree || known == index.columns.len());
        let probe = |equal| Probe { index: Arc::clone(index), equal, range: (Bound::Unbounded, Bound::Unbounded) };
        is_useful.then(|| (known, rows.into_iter().map(probe).collect::<Vec<Probe>>()))
    };
    let found = usable_indexes(region).iter().filter_map(of_index).max_by_key(|(known, _)| *known);
    found.map(|(_, probes)| Access::Any(probes.into()))
}

/// The indexes that have an entry for every row, of plain columns: what a partial index leaves out, or an index of
/// expressions has computed, nobody walks or counts here.
pub(crate) fn usable_indexes(region: &Region) -> Vec<Arc<IndexDef>> {
    let mut standing = region.standing_indexes();
    standing.retain(|index| index.is_plain());
    standing
}

/// The values of which a column must have one: of `IN`, `= ANY`, and of equalities between OR.
fn list_of(schema: &TableSchema, condition: &Expr) -> Option<(ColumnId, Vec<Value>)> {
    match condition {
        Expr::InList(InList { expr, list, negated: false }) => {
            let mut literals = Vec::with_capacity(list.len());
            for item in list {
                let Expr::Literal(literal, _) = item else { return None };
                literals.push(literal.clone());
            }
            values_of(schema, expr, &literals)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (column, mut values) = list_of(schema, left)?;
            let (other, more) = list_of(schema, right)?;
            values.extend(more);
            (column == other).then_some((column, values))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => match (left.as_ref(), right.as_ref()) {
            (side, Expr::Literal(literal, _)) | (Expr::Literal(literal, _), side) => {
                values_of(schema, side, std::slice::from_ref(literal))
            }
            _ => None,
        },
        Expr::ScalarFunction(function) => {
            let any = function.func.inner().downcast_ref::<Quantified>()?;
            let ([column, Expr::Literal(ScalarValue::List(list), _)], Comparison::Equal, false) =
                (&function.args[..], any.comparison, any.is_all)
            else {
                return None;
            };
            let items = list.iter().next().flatten()?;
            let items: Option<Vec<ScalarValue>> =
                (0..items.len()).map(|item| ScalarValue::try_from_array(&items, item).ok()).collect();
            values_of(schema, column, &items?)
        }
        _ => None,
    }
}

/// NULLs are left out: nothing is equal to them.
fn values_of(schema: &TableSchema, side: &Expr, literals: &[ScalarValue]) -> Option<(ColumnId, Vec<Value>)> {
    let Expr::Column(name) = compared_in(side) else { return None };
    let id = schema.columns[schema.column(&name.name)?].id;
    let literals = literals.iter().filter(|literal| !literal.is_null());
    let values = literals.map(|literal| value_of(schema, side, literal).map(|(_, value)| value));
    Some((id, values.collect::<Option<_>>()?))
}

/// The values of a column in some rows, to be looked up: those of a type that the column has.
pub(crate) fn value_at(array: &arrow::array::ArrayRef, row: usize, sql_type: SqlType) -> Option<Value> {
    ColumnReader::new(array, sql_type).ok().map(|reader| reader.datum(row).to_value())
}

/// Columns that conditions compare with a constant, and the constants; other conditions may stand beside these.
pub(crate) fn equalities(region: &Region, conditions: &[Expr]) -> Vec<(ColumnId, Value)> {
    let schema = region.schema();
    let equality = |condition: &Expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
        match (left.as_ref(), right.as_ref()) {
            (side, Expr::Literal(literal, _)) | (Expr::Literal(literal, _), side) => value_of(&schema, side, literal),
            _ => None,
        }
    };
    conditions.iter().flat_map(split_conjunction).filter_map(equality).collect()
}

/// The equalities of columns with constants, where conditions are these and at most bounds of other columns.
pub(crate) struct Exactly {
    /// Each column once.
    pub(crate) equal: Vec<(ColumnId, Value)>,
    /// Columns that have bounds, one for each bound.
    pub(crate) bounded: Vec<ColumnId>,
}

impl Exactly {
    /// What conditions say; `None` where they say anything else.
    pub(crate) fn of(region: &Region, conditions: &[Expr]) -> Option<Self> {
        let schema = region.schema();
        let mut said = Self { equal: Vec::new(), bounded: Vec::new() };
        for condition in conditions.iter().flat_map(split_conjunction) {
            match condition {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                    let (side, op, literal) = match (left.as_ref(), right.as_ref()) {
                        (side, Expr::Literal(literal, _)) => (side, Some(*op), literal),
                        (Expr::Literal(literal, _), side) => (side, op.swap(), literal),
                        _ => return None,
                    };
                    let (id, value) = value_of(&schema, side, literal)?;
                    match op? {
                        Operator::Eq if said.equal.iter().all(|(known, _)| *known != id) => {
                            said.equal.push((id, value))
                        }
                        Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq => said.bounded.push(id),
                        _ => return None,
                    }
                }
                Expr::Between(Between { expr, negated: false, low, high }) => {
                    for bound in [low, high] {
                        let Expr::Literal(literal, _) = bound.as_ref() else { return None };
                        said.bounded.push(value_of(&schema, expr, literal)?.0);
                    }
                }
                _ => return None,
            }
        }
        Some(said)
    }

    /// The probe of an index that finds exactly the rows that are meant, and the place of its first column that is not
    /// settled by an equality.
    pub(crate) fn probe(&self, asked: &[Probe], index: &Arc<IndexDef>) -> Option<Probe> {
        if index.kind != IndexKind::Btree {
            return None;
        }
        let of_column =
            |id: &ColumnId| self.equal.iter().find(|(known, _)| known == id).map(|(_, value)| value.clone());
        let equal: Vec<Value> = index.columns.iter().map_while(of_column).collect();
        if equal.len() != self.equal.len() {
            return None;
        }
        if self.bounded.is_empty() {
            return Some(Probe { index: Arc::clone(index), equal, range: (Bound::Unbounded, Bound::Unbounded) });
        }
        // What bounds there are is known to the probe: one of each kind, of the next column.
        let probe = asked.iter().find(|probe| probe.index.id == index.id)?;
        let bounds = [&probe.range.0, &probe.range.1].into_iter().filter(|bound| **bound != Bound::Unbounded).count();
        let is_all = self.bounded.iter().all(|id| index.columns.get(equal.len()) == Some(id));
        (is_all && bounds == self.bounded.len() && probe.equal == equal).then(|| probe.clone())
    }
}

/// A walk of an index that gives the first rows in an order of columns, of those that conditions leave.
pub(crate) fn walk_of(
    region: &Region,
    conditions: &[Expr],
    asked: &[Probe],
    order: &[(usize, bool, bool)],
    count: usize,
) -> Option<Walk> {
    let said = Exactly::of(region, conditions)?;
    let schema = region.schema();
    for index in usable_indexes(region) {
        let Some(probe) = said.probe(asked, &index) else { continue };
        // A column that has one value orders nothing.
        let wanted: Vec<&(usize, bool, bool)> = order
            .iter()
            .filter(|(ordinal, ..)| said.equal.iter().all(|(id, _)| schema.columns[*ordinal].id != *id))
            .collect();
        let rest = index.columns.get(probe.equal.len()..).unwrap_or_default();
        let fits = wanted.len() <= rest.len()
            && wanted.iter().zip(rest).all(|((ordinal, descending, nulls_first), id)| {
                let column = &schema.columns[*ordinal];
                // The engine, which sorts what the walk gives, has these in an order of its own.
                let is_sorted_alike = column.sql_type != SqlType::Array(ScalarType::Interval);
                // The index has NULLs last, and first on the way back: those among the items of arrays, too.
                let has_nulls = column.nullable || column.sql_type.is_array();
                let has_nulls_alike = !has_nulls || *nulls_first == *descending;
                column.id == *id && is_sorted_alike && has_nulls_alike
            });
        if fits {
            let backwards = wanted.iter().map(|(_, descending, _)| *descending).collect();
            return Some(Walk { probe, backwards, passes_null: false, count });
        }
    }
    None
}
