//! What the build side tells the scans beneath the probe side: which keys may have a match.
//!
//! ```text
//!   plan        a rule of the engine's asks the node for a filter and hands it to scans that take one: all rows pass yet
//!   execution   all rows of the build side are there -> least and greatest key, or the few that there are, and the table itself
//!   scan        parts of files without such a key are not read, and rows without one go no further
//! ```
//!
//! A filter leaves out rows that would come to nothing, and no others: the join looks at all that come, so that it may say less than
//! is known. It does not hold the table, which goes with its execution; then all rows pass again. Called by `exec`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, IsNullExpr, Literal, in_list, lit};

use super::build::Built;
use super::index::{Cursor, Key};
use super::spec::{Spec, evaluate};
use crate::hash_table::hash::Word;
use crate::hash_table::keys::{Keys, Packed};

/// Keys that are named one by one: as many as readers of files compare with what they know of their parts.
const FEW: usize = 20;

/// What a key takes that is listed, by its bytes: twice where it is packed, which grows by doubling, and the column that it becomes.
const COPIES: usize = 3;
/// Bytes that are charged at a time, at least.
const CHARGED: usize = 4096;
/// So many rows for each key that is wanted are walked through before it is given up.
const ROWS_PER_KEY: usize = 16;

/// Rows that are looked at before it is judged whether that pays.
const TRIED: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };
/// It does not where so many hundredths of them pass.
const TOO_MANY: usize = 90;

/// Whether a filter is one that a join of ours has given to a scan.
pub fn is_of_join(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let told = filter.downcast_ref::<DynamicFilterPhysicalExpr>();
    told.and_then(|told| told.current().ok()).is_some_and(|current| current.is::<MayMatch>())
}

/// What a join's filter tells a scan that requests its rows from another server.
#[derive(Debug)]
pub enum KeysOfJoin {
    /// Any row may have a match: the build side is not whole yet, is in files, or has more keys than were asked for.
    Any,
    /// No row has one.
    Nothing,
    /// A row with a match has these keys: expressions over the columns of the scan, each with its values, none of which is NULL. Of several
    /// expressions the values of one row belong together; a value may be there more than once.
    Among(Vec<(Arc<dyn PhysicalExpr>, ArrayRef)>),
}

/// The keys of the build side by a filter that a join of ours has given to a scan, where they are `keys_max` at most, of so many bytes.
/// Known as soon as the join asks its probe side for rows. `charge` is asked before so many bytes more are taken for them: where it
/// refuses, any row may have a match.
///
/// # Errors
/// Where keys are not what was packed, which is a bug.
pub fn keys_of_join(
    filter: &Arc<dyn PhysicalExpr>,
    keys_max: usize,
    bytes_max: usize,
    charge: &mut dyn FnMut(usize) -> bool,
) -> Result<KeysOfJoin> {
    let Some(told) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(KeysOfJoin::Any) };
    let current = told.current()?;
    if let Some(literal) = current.downcast_ref::<Literal>() {
        let is_never = matches!(literal.value(), ScalarValue::Boolean(Some(false)));
        return Ok(if is_never { KeysOfJoin::Nothing } else { KeysOfJoin::Any });
    }
    let Some(may_match) = may_match_in(&current) else { return Ok(KeysOfJoin::Any) };
    let Some(known) = &may_match.known else { return Ok(KeysOfJoin::Any) };
    let Some(values) = known.values(keys_max, bytes_max, charge)? else { return Ok(KeysOfJoin::Any) };
    Ok(KeysOfJoin::Among(may_match.keys.iter().cloned().zip(values).collect()))
}

/// Whether a filter that a join of ours has given to a scan has left too few rows out, in whichever streams it was asked, to be asked again.
///
/// # Errors
/// None that is known: the engine's way to put columns in their places.
pub fn is_in_vain(filter: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let Some(told) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(false) };
    let current = told.current()?;
    let known = may_match_in(&current).and_then(|may_match| may_match.known.as_ref());
    Ok(known.is_some_and(|known| known.is_in_vain()))
}

/// The part of a filter that knows the table, where all of the filter has to be met.
fn may_match_in(filter: &Arc<dyn PhysicalExpr>) -> Option<&MayMatch> {
    if let Some(found) = filter.downcast_ref::<MayMatch>() {
        return Some(found);
    }
    let both = filter.downcast_ref::<BinaryExpr>().filter(|both| *both.op() == Operator::And)?;
    may_match_in(both.right())
}

/// Makes a filter of the engine's one of this module's, by which all rows pass yet.
///
/// # Errors
/// None that is known: the engine's way to put keys in their places.
pub(crate) fn begin(told: &DynamicFilterPhysicalExpr, keys: &[Arc<dyn PhysicalExpr>]) -> Result<()> {
    told.update(Arc::new(MayMatch { keys: keys.to_vec(), known: None }))
}

/// Says what is known of the build side, which is whole; `None` where that is not in memory.
///
/// # Errors
/// Where keys are not what was packed, which is a bug.
pub(crate) fn publish(told: &DynamicFilterPhysicalExpr, spec: &Arc<Spec>, built: Option<&Arc<Built>>) -> Result<()> {
    if let Some(built) = built {
        told.update(of_table(spec, built)?)?;
    }
    told.mark_complete();
    Ok(())
}

/// Lets all rows pass again: what was said was said of other rows.
///
/// # Errors
/// As [`begin`].
pub(crate) fn take_back(told: &DynamicFilterPhysicalExpr) -> Result<()> {
    told.update(lit(true))
}

fn of_table(spec: &Arc<Spec>, built: &Arc<Built>) -> Result<Arc<dyn PhysicalExpr>> {
    let has_null = spec.null_is_equal && !built.nulls.is_empty();
    if built.findable == 0 && !has_null {
        return Ok(lit(false));
    }
    let known = Known {
        spec: Arc::clone(spec),
        built: Arc::downgrade(built),
        looked_at: AtomicUsize::new(0),
        passed: AtomicUsize::new(0),
    };
    let of_rows: Arc<dyn PhysicalExpr> =
        Arc::new(MayMatch { keys: spec.right_keys.clone(), known: Some(Arc::new(known)) });
    let [key] = &spec.right_keys[..] else { return Ok(of_rows) };
    let Some(said) = said(spec, built, key)? else { return Ok(of_rows) };
    let both = binary(said, Operator::And, of_rows);
    // Of NULL neither is true.
    Ok(if has_null { binary(both, Operator::Or, Arc::new(IsNullExpr::new(Arc::clone(key)))) } else { both })
}

/// What readers of files understand: the keys, if they are few, or the least and the greatest.
fn said(spec: &Spec, built: &Built, key: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let data_type = key.data_type(&spec.right_schema)?;
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8);
    if built.findable == 0 || (spec.packing.counting().is_none() && !is_text) {
        return Ok(None);
    }
    if built.findable <= FEW {
        let (mut rows, mut keys) = (Vec::new(), spec.packing.none());
        built.index.walk(&mut Cursor::default(), FEW, &|_| true, &mut rows, &mut keys);
        // A walk ends where keys are as long as a batch may be.
        if rows.len() < built.findable {
            return Ok(None);
        }
        let keys = values(spec, keys)?.into_iter().map(lit).collect();
        return in_list(Arc::clone(key), keys, &false, &spec.right_schema).map(Some);
    }
    let (Some(counting), Some((least, greatest))) = (spec.packing.counting(), built.bounds) else { return Ok(None) };
    let ends = [least, greatest].map(|place| counting.word(place));
    let ends = match spec.packing.none() {
        // Of the bits of a key none is lost.
        Keys::Word32(_) => Keys::Word32(ends.map(|word| word as u32).to_vec()),
        _ => Keys::Word64(ends.to_vec()),
    };
    let ends = values(spec, ends)?;
    // Of one key there is one.
    let (Some(least), Some(greatest)) = (ends.first(), ends.last()) else { return Ok(None) };
    let is = |operator, value: &ScalarValue| binary(Arc::clone(key), operator, lit(value.clone()));
    Ok(Some(binary(is(Operator::GtEq, least), Operator::And, is(Operator::LtEq, greatest))))
}

/// Keys of one column as values, each once.
fn values(spec: &Spec, keys: Keys) -> Result<Vec<ScalarValue>> {
    let columns = spec.packing.columns(Packed { keys, nulls: None })?;
    let mut values: Vec<ScalarValue> = Vec::new();
    for column in &columns {
        for row in 0..column.len() {
            let value = ScalarValue::try_from_array(column, row)?;
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    Ok(values)
}

fn binary(left: Arc<dyn PhysicalExpr>, operator: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, operator, right))
}

/// Whether rows may have a match, by the table: of words by the words, of texts by the tags of their slots, of numbers close together by
/// their slots.
#[derive(Debug)]
struct MayMatch {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// None as long as the build side is not whole.
    known: Option<Arc<Known>>,
}

struct Known {
    spec: Arc<Spec>,
    built: Weak<Built>,
    looked_at: AtomicUsize,
    passed: AtomicUsize,
}

impl Known {
    /// Whether looking at rows has left too few out.
    fn is_in_vain(&self) -> bool {
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        looked_at >= TRIED && self.passed.load(Ordering::Relaxed) * 100 > looked_at * TOO_MANY
    }

    /// The keys of the table, by column; `None` where they are more than so many, or have more bytes, where there is no memory for them,
    /// and where NULL is one of them.
    fn values(
        &self,
        keys_max: usize,
        bytes_max: usize,
        charge: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<Vec<ArrayRef>>> {
        let Some(built) = self.built.upgrade() else { return Ok(None) };
        let has_null = self.spec.null_is_equal && !built.nulls.is_empty();
        if has_null || built.findable > keys_max.saturating_mul(ROWS_PER_KEY) {
            return Ok(None);
        }
        let mut all = Packed { keys: self.spec.packing.none(), nulls: None };
        let (mut room, mut fits) = (0, true);
        built.index.each_key(&mut |key| {
            if is_last(&all.keys, key) {
                return true;
            }
            let bytes = bytes_of(&all.keys, key);
            let taken = COPIES * bytes;
            fits = all.len() < keys_max && all.bytes() + bytes <= bytes_max;
            if fits && taken > room {
                let more = taken.max(CHARGED);
                fits = charge(more);
                room += more;
            }
            if fits {
                room -= taken;
                add(&mut all.keys, key);
            }
            fits
        });
        if !fits {
            return Ok(None);
        }
        let columns = self.spec.packing.columns(all)?;
        Ok(columns.iter().all(|column| column.null_count() == 0).then_some(columns))
    }
}

/// Whether a key is the one that was added last: equal ones are shown one after the other, if at all.
fn is_last(all: &Keys, key: Key<'_>) -> bool {
    match (all, key) {
        (Keys::Bytes(all), Key::Bytes(key)) => all.ends.len().checked_sub(1).is_some_and(|last| all.get(last) == key),
        // Words are shown once.
        _ => false,
    }
}

/// Bytes that a key takes among others.
fn bytes_of(all: &Keys, key: Key<'_>) -> usize {
    match (all, key) {
        (Keys::Word32(_), _) => size_of::<u32>(),
        (Keys::Word64(_), _) => size_of::<u64>(),
        (Keys::Word128(_), _) => size_of::<u128>(),
        (Keys::Bytes(_), Key::Bytes(key)) => key.len() + size_of::<u32>(),
        (Keys::Bytes(_), Key::Word(_)) => 0,
    }
}

fn add(all: &mut Keys, key: Key<'_>) {
    match (all, key) {
        (Keys::Word32(all), Key::Word(word)) => all.push(u32::narrow(word)),
        (Keys::Word64(all), Key::Word(word)) => all.push(u64::narrow(word)),
        (Keys::Word128(all), Key::Word(word)) => all.push(word),
        (Keys::Bytes(all), Key::Bytes(key)) => all.push(key),
        _ => {}
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }
}

impl MayMatch {
    fn known(&self) -> *const Known {
        self.known.as_ref().map_or(std::ptr::null(), Arc::as_ptr)
    }
}

impl PartialEq for MayMatch {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.known(), other.known()) && self.keys == other.keys
    }
}

impl Eq for MayMatch {}

impl Hash for MayMatch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.known().hash(state);
        self.keys.hash(state);
    }
}

impl fmt::Display for MayMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        write!(f, "may_match({})", keys.join(", "))
    }
}

impl PhysicalExpr for MayMatch {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let all = || Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))));
        let Some(known) = &self.known else { return all() };
        let Some(built) = known.built.upgrade().filter(|_| !known.is_in_vain()) else { return all() };
        let keys = evaluate(&self.keys, batch)?;
        let packed = known.spec.packing.pack(&keys)?;
        let mut passed = Vec::with_capacity(batch.num_rows());
        built.index.may_have(&packed, &mut passed);
        let findable = known.spec.findable(&keys);
        if let Some(valid) = findable.as_ref().or(packed.nulls.as_ref()) {
            let of_null = known.spec.null_is_equal && !built.nulls.is_empty();
            let nulls = passed.iter_mut().zip(valid).filter(|(_, is_valid)| !is_valid);
            nulls.for_each(|(passed, _)| *passed = of_null);
        }
        let passed = BooleanBuffer::from(passed);
        known.looked_at.fetch_add(batch.num_rows(), Ordering::Relaxed);
        known.passed.fetch_add(passed.count_set_bits(), Ordering::Relaxed);
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(passed, None))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, keys: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { keys, known: self.known.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
