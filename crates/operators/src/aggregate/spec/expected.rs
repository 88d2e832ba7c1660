//! The expected memory of the groups of an input, estimated from statistics. EXPLAIN shows it; no decision depends on it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{ColumnStatistics, Statistics};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;

use super::{Aggregate, Kind, Spec};
use crate::hash_table::directory::Directory;
use crate::hash_table::keys::Keys;
use crate::hash_table::words::{Words32, Words64};

/// Of a group by bytes, beside those: where its key ends, and the hash.
const BESIDE_BYTES: usize = 4 + 8;

/// What is known of a column that is taken as it is.
fn known_of<'a>(expr: &Arc<dyn PhysicalExpr>, known: &'a Statistics) -> Option<&'a ColumnStatistics> {
    known.column_statistics.get(expr.downcast_ref::<Column>()?.index())
}

/// Bytes of a value of a column, on average over so many rows.
fn width(data_type: &DataType, column: &ColumnStatistics, rows: usize) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok(),
        other => other.primitive_width().or_else(|| Some(column.byte_size.get_value()?.div_ceil(rows.max(1)))),
    }
}

impl Spec {
    /// Bytes that the groups of an input take of which this is known; `None` where it is not known how many there will be, or how long what is kept
    /// of each.
    pub(crate) fn expected_bytes(&self, known: &Statistics) -> Option<usize> {
        let rows = *known.num_rows.get_value()?;
        let columns = self.keys.iter().map(|key| known_of(key, known)).collect::<Option<Vec<_>>>()?;
        let groups = self.expected_groups(&columns, rows)?;
        let keys = match self.packing.none() {
            Keys::Word32(_) => Words32::bytes_for(groups),
            Keys::Word64(_) => Words64::bytes_for(groups),
            Keys::Word128(_) => Directory::bytes_for(groups).saturating_add(groups.saturating_mul(size_of::<u128>())),
            Keys::Bytes(_) => {
                let widths = self.schema.fields().iter().zip(&columns);
                let widths = widths.map(|(field, column)| width(field.data_type(), column, rows));
                let each = BESIDE_BYTES + widths.sum::<Option<usize>>()?;
                Directory::bytes_for(groups).saturating_add(groups.saturating_mul(each))
            }
        };
        let states = self.aggregates.iter().map(|one| one.expected_bytes(known, rows)).sum::<Option<usize>>()?;
        Some(keys.saturating_add(groups.saturating_mul(states)))
    }

    /// Groups of all sets: as many as their keys may make, and no more than there are rows.
    fn expected_groups(&self, columns: &[&ColumnStatistics], rows: usize) -> Option<usize> {
        let of_column = |column: &&ColumnStatistics| {
            let has_nulls = column.null_count.get_value().is_some_and(|nulls| *nulls > 0);
            Some(column.distinct_count.get_value()? + usize::from(has_nulls))
        };
        let counts = columns.iter().map(of_column).collect::<Option<Vec<_>>>()?;
        let of_set = |set: &Vec<bool>| {
            let kept = counts.iter().zip(set).filter(|(_, is_left_out)| !**is_left_out);
            kept.fold(1, |groups: usize, (count, _)| groups.saturating_mul(*count)).min(rows.max(1))
        };
        Some(match &self.sets {
            None => of_set(&vec![false; counts.len()]),
            Some((sets, _)) => sets.groups().iter().map(of_set).sum(),
        })
    }
}

impl Aggregate {
    /// Bytes of the state of a group.
    fn expected_bytes(&self, known: &Statistics, rows: usize) -> Option<usize> {
        if self.distinct.is_some() {
            return None;
        }
        match &self.kind {
            // For as long as the fewest bits are enough.
            Kind::Count => Some(size_of::<u8>()),
            Kind::Sum(_) => Some(size_of::<i64>()),
            Kind::Min(value) | Kind::Max(value) if value.primitive_width().is_none() => {
                let column = known_of(self.args.first()?, known)?;
                Some(size_of::<u64>() + width(value, column, rows)?)
            }
            Kind::FloatSum | Kind::Min(_) | Kind::Max(_) | Kind::Stock => {
                self.state_fields.iter().map(|field| field.data_type().primitive_width()).sum()
            }
        }
    }
}
