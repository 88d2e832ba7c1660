//! How many bytes rows have in columns whose values are of any length: some thousand pairs of a row that has a long text are more than an array
//! holds, and more than anybody has memory for.
//!
//! Called by `build`, `probe` and `output`.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::DataType;

/// Bytes of such columns at which a batch that comes out has fewer rows than others.
pub(crate) const BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 16 << 20 };

/// How long the values of a column are, one by one.
pub(crate) struct Lengths<'a> {
    ends: Ends<'a>,
    /// Bytes of what lists have elements of, on average; 1 of texts.
    width: usize,
}

/// Where values begin, and where the last one ends.
enum Ends<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl<'a> Lengths<'a> {
    /// `None` of a column whose values are all of one length.
    pub(crate) fn of(array: &'a dyn Array) -> Option<Self> {
        let (ends, width) = match array.data_type() {
            DataType::Utf8 => (Ends::Small(array.as_string::<i32>().value_offsets()), 1),
            DataType::LargeUtf8 => (Ends::Large(array.as_string::<i64>().value_offsets()), 1),
            DataType::Binary => (Ends::Small(array.as_binary::<i32>().value_offsets()), 1),
            DataType::LargeBinary => (Ends::Large(array.as_binary::<i64>().value_offsets()), 1),
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                (Ends::Small(lists.value_offsets()), width_of(lists.values()))
            }
            _ => return None,
        };
        Some(Self { ends, width })
    }

    /// Of the value of a row, bytes.
    pub(crate) fn of_row(&self, row: usize) -> usize {
        let length = match self.ends {
            Ends::Small(ends) => between(ends[row], ends[row + 1]),
            Ends::Large(ends) => between(ends[row], ends[row + 1]),
        };
        length * self.width
    }

    /// Of the longest value, bytes.
    pub(crate) fn longest(&self) -> usize {
        fn of<O: OffsetSizeTrait>(ends: &[O]) -> usize {
            ends.windows(2).map(|two| between(two[0], two[1])).max().unwrap_or(0)
        }
        let length = match self.ends {
            Ends::Small(ends) => of(ends),
            Ends::Large(ends) => of(ends),
        };
        length * self.width
    }

    /// Of all values together, bytes.
    fn of_all(&self) -> usize {
        fn of<O: OffsetSizeTrait>(ends: &[O]) -> usize {
            ends.first().zip(ends.last()).map_or(0, |(first, last)| between(*first, *last))
        }
        let length = match self.ends {
            Ends::Small(ends) => of(ends),
            Ends::Large(ends) => of(ends),
        };
        length * self.width
    }
}

fn between<O: OffsetSizeTrait>(start: O, end: O) -> usize {
    (end - start).as_usize()
}

/// Bytes of a value, on average.
fn width_of(values: &ArrayRef) -> usize {
    let bytes = values.to_data().get_slice_memory_size().unwrap_or_else(|_| values.get_array_memory_size());
    bytes.div_ceil(values.len().max(1))
}

/// The longest value of a column, bytes; 0 where all are of one length.
pub(crate) fn longest(array: &dyn Array) -> usize {
    Lengths::of(array).map_or(0, |lengths| lengths.longest())
}

/// Bytes of the rows of a batch.
pub(crate) fn of_batch(batch: &RecordBatch) -> usize {
    batch.columns().iter().filter_map(|column| Lengths::of(column.as_ref())).map(|lengths| lengths.of_all()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, Int64Array, LargeStringArray, ListArray, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn values_are_as_long_as_their_bytes() {
        let texts = vec![Some("four"), None, Some(""), Some("ninebytes"), Some("two")];
        let bytes = texts.iter().map(|text| text.map(str::as_bytes));
        let lists = vec![Some(vec![Some(1); 4]), None, Some(vec![]), Some(vec![Some(2); 9]), Some(vec![Some(3); 3])];
        let columns: Vec<(ArrayRef, usize)> = vec![
            (Arc::new(StringArray::from(texts.clone())), 1),
            (Arc::new(LargeStringArray::from(texts.clone())), 1),
            (Arc::new(bytes.collect::<BinaryArray>()), 1),
            (Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)), 8),
        ];
        for (column, least) in columns {
            // Of a part of an array what is in the part.
            for (array, expected) in [(column.slice(0, 5), vec![4, 0, 0, 9, 3]), (column.slice(3, 2), vec![9, 3])] {
                let lengths = Lengths::of(array.as_ref()).unwrap();
                let width = lengths.width;
                // Whether a value is there is a bit more.
                assert!((least..=least + 1).contains(&width), "{} {width}", array.data_type());
                let found: Vec<usize> = (0..array.len()).map(|row| lengths.of_row(row) / width).collect();
                assert_eq!(found, expected, "{}", array.data_type());
                assert_eq!(lengths.longest(), 9 * width);
                assert_eq!(lengths.of_all(), expected.iter().sum::<usize>() * width);
            }
            assert_eq!(longest(column.slice(0, 0).as_ref()), 0);
        }
        assert_eq!(longest(&Int64Array::from(vec![5])), 0);
    }
}
