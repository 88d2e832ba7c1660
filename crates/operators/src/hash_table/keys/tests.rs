//! Columns of every type, packed and unpacked.

use arrow::array::*;
use arrow::compute::{concat, take};
use arrow::datatypes::TimeUnit;

use super::*;

/// Columns of every form, of a few rows, with NULLs in each and values of both ends.
fn columns() -> Vec<ArrayRef> {
    let texts = vec![Some("a"), None, Some(""), Some("a text of more than eight bytes"), Some("b")];
    vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), Some(false)])),
        Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(0), Some(1), Some(i8::MAX)])),
        Arc::new(Int16Array::from(vec![Some(i16::MIN), Some(-1), None, Some(1), Some(i16::MAX)])),
        Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(-1), Some(0), None, Some(i32::MAX)])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(-1), Some(0), Some(1), None])),
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0), Some(1), Some(2)])),
        Arc::new(Float32Array::from(vec![Some(f32::MIN), None, Some(0.0), Some(1.5), Some(f32::INFINITY)])),
        Arc::new(Float64Array::from(vec![Some(f64::MIN), None, Some(0.0), Some(1.5), Some(f64::INFINITY)])),
        Arc::new(Date32Array::from(vec![None, Some(-5), Some(0), Some(1), Some(7)])),
        Arc::new(
            TimestampMicrosecondArray::from(vec![None, Some(-5), Some(0), Some(1), Some(7)]).with_timezone("+00:00"),
        ),
        Arc::new(Time64MicrosecondArray::from(vec![None, Some(5), Some(0), Some(1), Some(7)])),
        Arc::new(
            Decimal128Array::from(vec![Some(-(10_i128.pow(37))), None, Some(0), Some(1), Some(10_i128.pow(37))])
                .with_precision_and_scale(38, 2)
                .unwrap(),
        ),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                [Some([1_u8; 16]), None, Some([0; 16]), Some([255; 16]), Some([7; 16])].into_iter(),
                16,
            )
            .unwrap(),
        ),
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(BinaryArray::from_iter(texts.iter().map(|text| text.map(str::as_bytes)))),
        Arc::new(LargeBinaryArray::from_iter(texts.iter().map(|text| text.map(str::as_bytes)))),
    ]
}

fn packing_of(arrays: &[ArrayRef]) -> Packing {
    let types: Vec<(DataType, bool)> = arrays.iter().map(|array| (array.data_type().clone(), true)).collect();
    Packing::of(&types).unwrap()
}

/// What comes back of some columns, row by row.
fn there_and_back(arrays: &[ArrayRef]) -> (Shape, Vec<ArrayRef>) {
    let packing = packing_of(arrays);
    let packed = packing.pack(arrays).unwrap();
    assert_eq!(packed.len(), arrays[0].len());
    // What is charged before they are packed.
    let (held, most) = (packed.held(), packing.bytes_for(arrays));
    assert!(held <= most && most <= 2 * held + 64, "{most} for {held}");
    let null = packed.nulls.as_ref().and_then(|nulls| nulls.iter().position(|is_valid| !is_valid));
    let mut back = packing.unpack(packed.keys, null).unwrap();
    if let Some(null) = null {
        // Of groups one is NULL: of these rows all that are.
        let rows: UInt32Array =
            (0..arrays[0].len()).map(|row| if arrays[0].is_null(row) { null as u32 } else { row as u32 }).collect();
        back = back.iter().map(|array| take(array, &rows, None).unwrap()).collect();
    }
    (packing.shape, back)
}

#[test]
fn every_column_comes_back_as_it_was() {
    for column in columns() {
        let (_, back) = there_and_back(std::slice::from_ref(&column));
        assert_eq!(back, [column]);
    }
}

#[test]
fn columns_together_come_back_as_they_were() {
    let all = columns();
    let mut shapes = Vec::new();
    for first in 0..all.len() {
        for count in (2..=all.len() - first).step_by(if cfg!(miri) { 5 } else { 1 }) {
            let some = &all[first..first + count];
            let (shape, back) = there_and_back(some);
            assert_eq!(back, some);
            shapes.push(shape);
            // Of a part of a batch too.
            let part: Vec<ArrayRef> = some.iter().map(|array| array.slice(1, 3)).collect();
            assert_eq!(there_and_back(&part).1, part);
        }
    }
    for shape in [Shape::Word32, Shape::Word64, Shape::Word128, Shape::Rows] {
        assert!(shapes.contains(&shape), "{shape:?}");
    }
}

#[test]
fn rows_behind_others_have_the_room_that_they_take() {
    let all = columns();
    for some in [&all[..1], &all[3..4], &all[3..5], &all[4..5], &all[11..12], &all[13..14], &all[..]] {
        let packing = packing_of(some);
        let pack = |rows: usize| {
            let part: Vec<ArrayRef> = some.iter().map(|array| array.slice(0, rows)).collect();
            packing.pack(&part).unwrap()
        };
        let mut together = pack(5);
        let others = [pack(3), pack(5), pack(2)];
        let expected = together.bytes() + others.iter().map(Packed::bytes).sum::<usize>();
        together.make_room(others.iter());
        assert_eq!(together.held(), expected, "{packing:?}");
        for other in others {
            together.append(other).unwrap();
        }
        assert_eq!((together.len(), together.bytes(), together.held()), (15, expected, expected), "{packing:?}");
        let joined = |array: &ArrayRef| {
            let parts = [5, 3, 5, 2].map(|rows| array.slice(0, rows));
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts).unwrap()
        };
        let expected: Vec<ArrayRef> = some.iter().map(joined).collect();
        assert_eq!(packing.columns(together).unwrap(), expected, "{packing:?}");
    }
}

#[test]
fn rows_are_alike_where_their_values_are() {
    let all = columns();
    for some in [&all[..1], &all[..3], &all[1..5], &all[6..8], &all[11..12], &all[13..14], &all[..]] {
        let packing = packing_of(some);
        let twice: Vec<ArrayRef> = some.iter().map(|array| concat(&[array, array]).unwrap()).collect();
        let packed = packing.pack(&twice).unwrap();
        let secret = Secret::random();
        let mut hashes = Vec::new();
        packed.hashes(secret, &mut hashes);
        let (first, second) = hashes.split_at(some[0].len());
        assert_eq!(first, second);
        let is_null = |row: usize| some.len() == 1 && some[0].is_null(row);
        for (row, hash) in first.iter().enumerate() {
            for (other, other_hash) in first.iter().enumerate().skip(row + 1) {
                let same = some.iter().all(|array| array.slice(row, 1) == array.slice(other, 1));
                let same = same || is_null(row) && is_null(other);
                assert_eq!(hash == other_hash, same, "{row} {other} of {packing:?}");
            }
        }
    }
}

#[test]
fn zeros_are_one_and_so_is_what_is_no_number() {
    let odd = f64::from_bits(f64::NAN.to_bits() ^ 1 ^ 1 << 63);
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, odd]));
    let floats: ArrayRef =
        Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, f32::from_bits(f32::NAN.to_bits() ^ 1 << 31)]));
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; 4]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["t"; 4]));
    for some in [
        vec![Arc::clone(&doubles)],
        vec![Arc::clone(&floats)],
        vec![Arc::clone(&doubles), Arc::clone(&flags)],
        vec![Arc::clone(&floats), flags],
        vec![doubles, floats, text],
    ] {
        let mut hashes = Vec::new();
        packing_of(&some).pack(&some).unwrap().hashes(Secret::random(), &mut hashes);
        assert!(hashes[0] == hashes[1] && hashes[2] == hashes[3] && hashes[0] != hashes[2], "{some:?}");
    }
}

#[test]
fn what_is_not_packed_is_told() {
    for data_type in [
        DataType::Null,
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
        DataType::List(Arc::new(arrow::datatypes::Field::new("item", DataType::Int32, true))),
    ] {
        assert!(Packing::of(&[(data_type, true)]).is_none());
    }
    assert!(Packing::of(&[]).is_none());
    assert!(Packing::of(&[(DataType::Timestamp(TimeUnit::Nanosecond, None), false)]).is_some());
}
