//! Rows of columns that lie in chunks, beside Arrow's own way: of columns that a processor's cache holds, and of such that it does not.

use arrow::array::{Int16Array, Int64Array, StringArray};

use super::*;
use crate::aggregate::tests::scrambled;
use crate::join::chunk::{CHUNK_ROWS, row_number};

#[test]
fn rows_of_chunks_are_gathered_near_and_far() {
    let value = |chunk: usize, place: usize| (!place.is_multiple_of(5)).then_some(chunk * 1000 + place);
    let short = |chunk: usize| -> ArrayRef {
        let values = (0..CHUNK_ROWS).map(|place| value(chunk, place).map(|value| value as i16));
        Arc::new(values.collect::<Int16Array>())
    };
    let long = |chunk: usize| -> ArrayRef {
        let values = (0..CHUNK_ROWS).map(|place| value(chunk, place).map(|value| value as i64));
        Arc::new(values.collect::<Int64Array>())
    };
    let (near, far): (Vec<ArrayRef>, Vec<ArrayRef>) = ((0..2).map(short).collect(), (0..3).map(long).collect());
    const { assert!(2 * CHUNK_ROWS * size_of::<i16>() <= NEAR && NEAR < 3 * CHUNK_ROWS * size_of::<i64>()) };
    for chunks in [near, far] {
        let places: Vec<(usize, usize)> = (0..1000_u64)
            .map(|row| (scrambled(row) as usize % chunks.len(), scrambled(row + 1) as usize % CHUNK_ROWS))
            .collect();
        let rows: Vec<u32> = places.iter().map(|(chunk, place)| row_number(*chunk, *place)).collect();
        let arrays: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
        assert_eq!(&gather(&chunks, &rows, &mut Vec::new()).unwrap(), &interleave(&arrays, &places).unwrap());
    }
}

#[test]
fn rows_of_one_array_are_its_places() {
    // More than a chunk has.
    let all = 70_000_u64;
    let numbers = (0..all).map(|place| (!place.is_multiple_of(5)).then_some(place as i64));
    let texts = (0..all).map(|place| (!place.is_multiple_of(3)).then(|| place.to_string()));
    let columns: [ArrayRef; 2] = [Arc::new(numbers.collect::<Int64Array>()), Arc::new(texts.collect::<StringArray>())];
    let rows: Vec<u32> = (0..1000).map(|row| (scrambled(row) % all) as u32).chain([all as u32 - 1]).collect();
    for column in columns {
        let expected = take(&column, &UInt32Array::from(rows.clone()), None).unwrap();
        assert_eq!(&gather(&[column], &rows, &mut Vec::new()).unwrap(), &expected);
    }
}
