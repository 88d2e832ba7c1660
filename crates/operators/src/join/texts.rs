//! The size of rows in columns of variable length. Some thousand pairs with a row that has a long text can exceed what an array holds,
//! and any amount of memory.
//!
//! Called by `chunk`, `build`, `probe` and `output`.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{ArrowNativeType, DataType};

/// Bytes of such columns at which a batch that comes out has fewer rows than others.
pub(crate) const BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 16 << 20 };

/// How long the values of a column are, one by one.
pub(crate) struct Lengths<'a> {
    ends: Ends<'a>,
    items: Items<'a>,
}

/// Where values begin, and where the last one ends.
#[derive(Clone, Copy)]
enum Ends<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

/// What values consist of.
enum Items<'a> {
    /// Items of so many bytes: one by one, or on average.
    Alike(usize),
    /// Items of any length, as the texts of a list are.
    Long(Box<Lengths<'a>>),
}

impl<'a> Lengths<'a> {
    /// `None` of a column whose values are all of one length.
    pub(crate) fn of(array: &'a dyn Array) -> Option<Self> {
        let (ends, items) = match array.data_type() {
            DataType::Utf8 => (Ends::Small(array.as_string::<i32>().value_offsets()), Items::Alike(1)),
            DataType::LargeUtf8 => (Ends::Large(array.as_string::<i64>().value_offsets()), Items::Alike(1)),
            DataType::Binary => (Ends::Small(array.as_binary::<i32>().value_offsets()), Items::Alike(1)),
            DataType::LargeBinary => (Ends::Large(array.as_binary::<i64>().value_offsets()), Items::Alike(1)),
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let items = match Self::of(lists.values().as_ref()) {
                    Some(lengths) => Items::Long(Box::new(lengths)),
                    None => Items::Alike(width_of(lists.values())),
                };
                (Ends::Small(lists.value_offsets()), items)
            }
            _ => return None,
        };
        Some(Self { ends, items })
    }

    /// How many values there are.
    fn count(&self) -> usize {
        let ends = match self.ends {
            Ends::Small(ends) => ends.len(),
            Ends::Large(ends) => ends.len(),
        };
        ends.saturating_sub(1)
    }

    /// Of the values from one row to before another, bytes.
    fn of_rows(&self, start: usize, end: usize) -> usize {
        let (start, end) = match self.ends {
            Ends::Small(ends) => (ends[start].as_usize(), ends[end].as_usize()),
            Ends::Large(ends) => (ends[start].as_usize(), ends[end].as_usize()),
        };
        match &self.items {
            Items::Alike(width) => (end - start) * width,
            Items::Long(items) => items.of_rows(start, end),
        }
    }

    /// Of the value of a row, bytes.
    pub(crate) fn of_row(&self, row: usize) -> usize {
        self.of_rows(row, row + 1)
    }

    /// Of the longest value, bytes.
    pub(crate) fn longest(&self) -> usize {
        fn of<O: OffsetSizeTrait>(ends: &[O]) -> usize {
            ends.windows(2).map(|two| (two[1] - two[0]).as_usize()).max().unwrap_or(0)
        }
        match (self.ends, &self.items) {
            (Ends::Small(ends), Items::Alike(width)) => of(ends) * width,
            (Ends::Large(ends), Items::Alike(width)) => of(ends) * width,
            (_, Items::Long(_)) => (0..self.count()).map(|row| self.of_row(row)).max().unwrap_or(0),
        }
    }

    /// Of all values together, bytes.
    fn of_all(&self) -> usize {
        if self.count() == 0 { 0 } else { self.of_rows(0, self.count()) }
    }
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

    use arrow::array::{BinaryArray, Int64Array, LargeStringArray, ListArray, ListBuilder, StringArray, StringBuilder};
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
                let Items::Alike(width) = lengths.items else { panic!("{}", array.data_type()) };
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

    #[test]
    fn a_list_of_texts_is_as_long_as_its_texts() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        let long = "x".repeat(5000);
        // One long text is more than many short ones.
        lists.append_value([Some("a"), None, Some("bc")]);
        lists.append_null();
        lists.append_value([Some(long.as_str())]);
        lists.append_value(std::iter::repeat_n(Some("abcd"), 100));
        let lists = lists.finish();
        for (lists, expected) in [(lists.slice(0, 4), vec![3, 0, 5000, 400]), (lists.slice(1, 1), vec![0])] {
            let lengths = Lengths::of(&lists).unwrap();
            assert_eq!((0..lists.len()).map(|row| lengths.of_row(row)).collect::<Vec<_>>(), expected);
            assert_eq!(lengths.longest(), expected.iter().copied().max().unwrap());
            assert_eq!(lengths.of_all(), expected.iter().sum::<usize>());
        }
    }
}
