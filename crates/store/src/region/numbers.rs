//! The numbers that a region's columns count by.

use ashlar_base::{
    ColumnDef, ColumnDefault, ColumnId, Error, ErrorCode, Result, ScalarType, Sequence, SqlType, TableId, Value,
};

use super::Region;

impl Region {
    /// The next number of a column's counter, in the column's type.
    ///
    /// # Errors
    /// 2200H after the last number; XX000 if the column has no counter.
    pub fn next_number(&self, column: &ColumnDef) -> Result<Value> {
        let Some(ColumnDefault::Sequence(sequence)) = &column.default else {
            return Err(Error::internal("only a column with a sequence counts"));
        };
        let value = self.life.counters.take(column.id, sequence).and_then(|number| match column.sql_type {
            SqlType::Scalar(ScalarType::Int2) => i16::try_from(number).ok().map(Value::Int2),
            SqlType::Scalar(ScalarType::Int4) => i32::try_from(number).ok().map(Value::Int4),
            _ => Some(Value::Int8(number)),
        });
        value.ok_or_else(|| {
            let (end, bound) =
                if sequence.increment > 0 { ("maximum", sequence.max) } else { ("minimum", sequence.min) };
            let name = format!("{}_{}_seq", self.schema().name, column.name);
            let message = format!("nextval: reached {end} value of sequence \"{name}\" ({bound})");
            Error::new(ErrorCode::SequenceLimitExceeded, message)
        })
    }

    /// The number that a column has given last, or that it begins with.
    pub fn last_number(&self, column: ColumnId, sequence: &Sequence) -> i64 {
        self.life.counters.position(column, sequence)
    }

    /// Restarts a column's counter at `number`.
    pub fn restart_numbers(&self, column: ColumnId, number: i64) {
        self.life.counters.restart(column, number);
    }

    /// The table by which the counters are known as long as they count: the region's own id, or that of the first one from which they have
    /// come here.
    pub fn counts_as(&self) -> TableId {
        self.life.counters.first_table().unwrap_or(self.id)
    }

    /// Continues the counters of another table's columns.
    pub(super) fn take_numbers_of(&self, other: &Self) {
        self.life.counters.take_those_of(other.id, &other.life.counters);
    }
}
