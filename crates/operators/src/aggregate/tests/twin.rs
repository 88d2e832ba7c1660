//! The node beside a naive twin: a map from keys to all values of each group. Rows, keys, aggregates, limits and hashes are drawn by lot.
//!
//! What fails names its seed; with `ASHLAR_TWIN_SEED` there is that one alone.
#![allow(clippy::mutable_key_type, reason = "of the values that are keys here none can change")]

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use datafusion_execution::config::SessionConfig;

use super::lot::{Drawn, Lot, compare_in_files, for_each_seed};
use super::*;
use crate::aggregate::exec::HashAggregateExec;
use crate::hash_table::hash::Secret;

/// Seeds that every run has, of one set of keys and of several.
const SEEDS: u64 = 60;
const SEEDS_OF_SETS: u64 = 40;

/// Columns of values.
const VALUES: [&str; 11] =
    ["flag", "amount", "price", "weight", "word", "day", "moment", "blob", "little", "ratio", "clock"];

/// What rows are like, how they are grouped, and with what.
#[derive(Clone, Debug)]
struct Shape {
    drawn: Drawn,
    columns: Vec<&'static str>,
    /// Sets of these, of which those are left out where it says so; `None` for all of them once.
    sets: Option<Vec<Vec<bool>>>,
    output_rows: usize,
    /// By how much the memory is divided that it takes when it may take all; 1 for all of it.
    share: usize,
    is_colliding: bool,
    /// A bit for each of [`aggregates`].
    aggregates: u64,
}

impl Shape {
    fn drawn(seed: u64) -> Self {
        let mut lot = Lot::of(seed);
        let columns = lot.columns();
        let rows = lot.one_of(&[0, 1, 60, 500, 3000, 3000]);
        let keys = lot.one_of(&[1, 7, 200, 4000]);
        Self {
            drawn: Drawn::of(&mut lot, seed, rows, keys),
            columns,
            sets: None,
            output_rows: lot.one_of(&[10, 500, 8192]),
            share: lot.one_of(&[1, 2, 6, 20]),
            // Each group is compared with all that were there before it.
            is_colliding: rows <= 500 && lot.below(3) == 0,
            aggregates: lot.below(1 << aggregates(u64::MAX).len()) & lot.below(1 << aggregates(u64::MAX).len()),
        }
    }

    /// Of one to five sets of keys, the last of them perhaps the first once more, and perhaps without any key.
    fn in_sets(seed: u64) -> Self {
        let drawn = Self::drawn(seed);
        let mut lot = Lot::of(seed.wrapping_add(1 << 40));
        let count = 1 + lot.below(4);
        let mut set = || -> Vec<bool> { drawn.columns.iter().map(|_| lot.below(2) == 0).collect() };
        let mut sets: Vec<Vec<bool>> = (0..count).map(|_| set()).collect();
        if lot.below(3) == 0 {
            sets.push(sets[0].clone());
        }
        Self { sets: Some(sets), ..drawn }
    }

    /// Columns of the results before those of the aggregates.
    fn key_count(&self) -> usize {
        self.columns.len() + usize::from(self.sets.is_some())
    }

    fn value_columns(&self) -> Vec<ArrayRef> {
        let of = |column: u64| {
            (0..self.drawn.rows).map(move |row| {
                let any = self.drawn.any(row, column + 32);
                (!any.is_multiple_of(5)).then_some(any >> 8)
            })
        };
        let word = |any: u64| format!("{}{}", "é".repeat((any % 30) as usize), any % 50);
        let blob = |any: u64| any.to_le_bytes()[..(any % 9) as usize].to_vec();
        let price = of(2).map(|any| any.map(|any| i128::from(any % 10_000) - 5_000)).collect::<Decimal128Array>();
        // Floats that are compared by rules of their own.
        let ratio = |any: u64| match any % 40 {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => f32::NEG_INFINITY,
            _ => (any % 1000) as f32 / 4.0 - 100.0,
        };
        let moment = of(6).map(|any| any.map(|any| (any % (1 << 50)) as i64 - (1 << 49)));
        vec![
            Arc::new(of(0).map(|any| any.map(|any| any % 3 > 0)).collect::<BooleanArray>()),
            Arc::new(of(1).map(|any| any.map(|any| (any % 2_000_001) as i64 - 1_000_000)).collect::<Int64Array>()),
            Arc::new(price.with_precision_and_scale(20, 2).unwrap()),
            // Whole numbers: in whatever order they are added up, sums are the same.
            Arc::new(of(3).map(|any| any.map(|any| (any % 1000) as f64)).collect::<Float64Array>()),
            Arc::new(of(4).map(|any| any.map(word)).collect::<StringArray>()),
            Arc::new(of(5).map(|any| any.map(|any| (any % 20_000) as i32 - 10_000)).collect::<Date32Array>()),
            Arc::new(moment.collect::<TimestampMicrosecondArray>()),
            Arc::new(of(7).map(|any| any.map(blob)).collect::<BinaryArray>()),
            Arc::new(of(8).map(|any| any.map(|any| any as i16)).collect::<Int16Array>()),
            Arc::new(of(9).map(|any| any.map(ratio)).collect::<Float32Array>()),
            Arc::new(
                of(10).map(|any| any.map(|any| (any % 86_400_000_000) as i64)).collect::<Time64MicrosecondArray>(),
            ),
        ]
    }

    fn made(&self) -> RecordBatch {
        let values = VALUES.into_iter().zip(self.value_columns()).map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(self.drawn.key_columns().chain(values)).unwrap()
    }
}

/// Those of all aggregates whose bits are set.
fn aggregates(bits: u64) -> Vec<Wanted> {
    let all = vec![
        Wanted(count_udaf(), "*", false, None),
        Wanted(count_udaf(), "word", false, Some("flag")),
        Wanted(count_udaf(), "word", true, None),
        Wanted(count_udaf(), "day", true, Some("flag")),
        Wanted(sum_udaf(), "amount", false, None),
        Wanted(sum_udaf(), "price", false, Some("flag")),
        Wanted(sum_udaf(), "weight", false, None),
        Wanted(avg_udaf(), "weight", false, Some("flag")),
        Wanted(min_udaf(), "day", false, None),
        Wanted(max_udaf(), "day", false, Some("flag")),
        Wanted(min_udaf(), "moment", false, Some("flag")),
        Wanted(max_udaf(), "moment", false, None),
        Wanted(min_udaf(), "word", false, None),
        Wanted(max_udaf(), "word", false, Some("flag")),
        Wanted(max_udaf(), "blob", false, None),
        Wanted(min_udaf(), "price", false, None),
        Wanted(max_udaf(), "amount", false, None),
        Wanted(min_udaf(), "weight", false, None),
        Wanted(min_udaf(), "little", false, None),
        Wanted(max_udaf(), "little", false, Some("flag")),
        Wanted(min_udaf(), "ratio", false, Some("flag")),
        Wanted(max_udaf(), "ratio", false, None),
        Wanted(min_udaf(), "clock", false, None),
        Wanted(max_udaf(), "clock", false, Some("flag")),
    ];
    all.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, wanted)| wanted).collect()
}

/// Keys of groups, and what comes of each.
type Groups = HashMap<Vec<ScalarValue>, Vec<ScalarValue>>;

/// A key as it is compared.
fn comparable(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(0.0)),
        ScalarValue::Float32(Some(value)) if value.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(0.0)),
        ScalarValue::Float64(Some(value)) if value.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        other => other,
    }
}

/// What an aggregate makes of the values of a group, of which none is NULL.
fn naive(wanted: &Wanted, values: &[ScalarValue], result: &DataType) -> ScalarValue {
    let null = ScalarValue::try_from(result).unwrap();
    let sum = || {
        values.iter().fold(null.clone(), |sum, value| match (sum, value) {
            (ScalarValue::Int64(sum), ScalarValue::Int64(Some(value))) => {
                ScalarValue::Int64(Some(sum.unwrap_or(0) + value))
            }
            (ScalarValue::Float64(sum), ScalarValue::Float64(Some(value))) => {
                ScalarValue::Float64(Some(sum.unwrap_or(0.0) + value))
            }
            (ScalarValue::Decimal128(sum, precision, scale), ScalarValue::Decimal128(Some(value), ..)) => {
                ScalarValue::Decimal128(Some(sum.unwrap_or(0) + value), precision, scale)
            }
            (sum, value) => panic!("{value:?} is added to {sum:?}"),
        })
    };
    let extreme = |wanted: Ordering| {
        let better = |best: ScalarValue, value: ScalarValue| {
            if value.partial_cmp(&best) == Some(wanted) { value } else { best }
        };
        values.iter().cloned().reduce(better).unwrap_or_else(|| null.clone())
    };
    match (wanted.0.name(), wanted.2) {
        ("count", true) => ScalarValue::Int64(Some(values.iter().collect::<HashSet<_>>().len() as i64)),
        ("count", false) => ScalarValue::Int64(Some(values.len() as i64)),
        ("sum", _) => sum(),
        ("avg", _) => match sum() {
            ScalarValue::Float64(Some(sum)) => ScalarValue::Float64(Some(sum / values.len() as f64)),
            other => other,
        },
        ("min", _) => extreme(Ordering::Less),
        ("max", _) => extreme(Ordering::Greater),
        (other, _) => panic!("an aggregate {other}"),
    }
}

/// The number by which the groups of a set are known, the last of these: a bit for each key that is left out, and before them how often the set
/// was there before.
fn number_of(sets: &[Vec<bool>]) -> Option<u64> {
    let (set, before) = sets.split_last()?;
    let bits = set.iter().fold(0, |bits, is_left_out| bits << 1 | u64::from(*is_left_out));
    let times = before.iter().filter(|other| *other == set).count() as u64;
    Some(times << set.len() | bits)
}

/// The groups of rows; `schema` is of the results.
fn twin(rows: &RecordBatch, shape: &Shape, wanted: &[Wanted], schema: &Schema) -> Groups {
    let keys = &shape.columns[..];
    let Some(sets) = &shape.sets else {
        return twin_of_set(rows, keys, None, wanted, schema);
    };
    let mut groups = Groups::new();
    for (at, set) in sets.iter().enumerate() {
        groups.extend(twin_of_set(rows, keys, Some((&set[..], number_of(&sets[..=at]).unwrap())), wanted, schema));
    }
    groups
}

/// The groups by one set of keys, with its number, or by all keys.
fn twin_of_set(
    rows: &RecordBatch,
    keys: &[&str],
    set: Option<(&[bool], u64)>,
    wanted: &[Wanted],
    schema: &Schema,
) -> Groups {
    let type_of = |column: usize| schema.field(column).data_type();
    let number = set.map(|(_, number)| ScalarValue::UInt64(Some(number)).cast_to(type_of(keys.len())).unwrap());
    let key_of = |value: &dyn Fn(&str) -> ScalarValue| -> Vec<ScalarValue> {
        let of_column = |(place, name): (usize, &&str)| match set {
            Some((set, _)) if set[place] => ScalarValue::try_from(type_of(place)).unwrap(),
            _ => comparable(value(name)),
        };
        keys.iter().enumerate().map(of_column).chain(number.clone()).collect()
    };
    let value = |name: &str, row: usize| ScalarValue::try_from_array(rows.column_by_name(name).unwrap(), row).unwrap();
    let mut groups: HashMap<Vec<ScalarValue>, Vec<Vec<ScalarValue>>> = HashMap::new();
    // Without a key all rows are a group, even if there are none.
    if set.is_some_and(|(set, _)| set.iter().all(|is_left_out| *is_left_out)) {
        groups.insert(key_of(&|name| panic!("{name} is left out")), vec![Vec::new(); wanted.len()]);
    }
    for row in 0..rows.num_rows() {
        let key = key_of(&|name| value(name, row));
        let of_group = groups.entry(key).or_insert_with(|| vec![Vec::new(); wanted.len()]);
        for (values, Wanted(_, column, _, filter)) in of_group.iter_mut().zip(wanted) {
            let is_taken = filter.is_none_or(|filter| value(filter, row) == ScalarValue::Boolean(Some(true)));
            let one = if *column == "*" { ScalarValue::Int64(Some(1)) } else { value(column, row) };
            if is_taken && !one.is_null() {
                values.push(one);
            }
        }
    }
    let results = |of_group: &[Vec<ScalarValue>]| -> Vec<ScalarValue> {
        let fields = schema.fields().iter().skip(keys.len() + usize::from(set.is_some()));
        let each = wanted.iter().zip(of_group).zip(fields);
        each.map(|((wanted, values), field)| naive(wanted, values, field.data_type())).collect()
    };
    groups.into_iter().map(|(key, of_group)| (key, results(&of_group))).collect()
}

/// The same of what the node gave.
fn groups_of(batch: &RecordBatch, keys: usize) -> Groups {
    let value = |column: &ArrayRef, row: usize| ScalarValue::try_from_array(column, row).unwrap();
    let of_row = |row: usize| {
        let mut key: Vec<ScalarValue> = batch.columns().iter().map(|column| value(column, row)).collect();
        let results = key.split_off(keys);
        (key, results)
    };
    (0..batch.num_rows()).map(of_row).collect()
}

/// Holds what the node gives against the twin; whether it wrote files, where it had a limit.
fn check(shape: &Shape) -> Option<bool> {
    let rows = shape.made();
    let input = shape.drawn.table(&rows);
    let plan = || -> Arc<dyn ExecutionPlan> {
        let wanted = aggregates(shape.aggregates);
        let plan = match &shape.sets {
            None => own(&input, &shape.columns, &wanted),
            Some(sets) => {
                let stock = stock_by(&input, &grouping(&input, &shape.columns, sets), &wanted, false);
                HashAggregates.optimize(stock, &ConfigOptions::default()).unwrap()
            }
        };
        let Some(own) = plan.downcast_ref::<HashAggregateExec>() else { panic!("{} of {shape:?}", plan.name()) };
        if shape.is_colliding { Arc::new(own.with_secret(Secret::colliding())) } else { plan }
    };
    let expected = twin(&rows, shape, &aggregates(shape.aggregates), &plan().schema());
    let compare = |plan: &Arc<dyn ExecutionPlan>, memory: usize| {
        let config = SessionConfig::new().with_batch_size(shape.output_rows);
        let context = TaskContext::default().with_runtime(context(memory).runtime_env()).with_session_config(config);
        let found = run(Arc::clone(plan), Arc::new(context)).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        let groups = groups_of(&found, shape.key_count());
        assert_eq!((found.num_rows(), groups.len()), (expected.len(), expected.len()), "{shape:?}");
        for (key, results) in &expected {
            assert_eq!(groups.get(key), Some(results), "{key:?} of {shape:?}");
        }
    };
    compare_in_files(shape, shape.share, &plan, &compare)
}

#[test]
fn groups_are_those_of_a_naive_twin() {
    for_each_seed(SEEDS, |seed| check(&Shape::drawn(seed)));
}

#[test]
fn groups_of_sets_are_those_of_a_naive_twin() {
    for_each_seed(SEEDS_OF_SETS, |seed| check(&Shape::in_sets(seed)));
}
