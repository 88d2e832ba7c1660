//! The sequences by which columns count, as `pg_sequence` and `regclass` know them. They have no rows in `pg_class`, whose relations
//! can all be read.

use ashlar_base::{ColumnDef, Result, Sequence, TableId, Value};

use super::layout::Rows;
use super::relations::{Relation, identity};
use super::{Definition, Picture};
use crate::catalog::CatalogState;
use crate::sequences::serial_of;

/// Sequences are numbered as the defaults of their columns, with this bit set.
const SEQUENCE_BIT: i64 = 1 << 30;

/// `pg_sequence`
pub(super) const TABLE: Definition = Definition {
    name: "pg_sequence",
    columns: "seqrelid bigint, seqtypid bigint, seqstart bigint, seqincrement bigint, seqmax bigint, seqmin bigint, \
        seqcache bigint = 1, seqcycle boolean = false",
    fill: Some(fill),
};

/// A sequence that a column counts by.
pub(super) struct ColumnSequence<'r> {
    /// Its OID.
    pub(super) oid: i64,
    /// Its name.
    pub(super) name: String,
    column: &'r ColumnDef,
    counts: Sequence,
}

/// The sequences of all columns of these relations.
pub(super) fn all<'r>(catalog: &CatalogState, relations: &'r [Relation]) -> Vec<ColumnSequence<'r>> {
    let mut found = Vec::new();
    for relation in relations {
        let Ok(table) = u32::try_from(relation.oid) else { continue };
        for (ordinal, column) in relation.columns.iter().enumerate() {
            let Some(counts) = identity(column) else { continue };
            let Ok(Some(name)) = serial_of(catalog, TableId(table), &column.name) else { continue };
            let oid = relation.default_oid(ordinal) | SEQUENCE_BIT;
            found.push(ColumnSequence { oid, name, column, counts: *counts });
        }
    }
    found
}

fn fill(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for sequence in all(&picture.catalog, &picture.relations) {
        rows.push([
            ("seqrelid", Value::Int8(sequence.oid)),
            ("seqtypid", Value::Int8(i64::from(sequence.column.sql_type.oid()))),
            ("seqstart", Value::Int8(sequence.counts.start)),
            ("seqincrement", Value::Int8(sequence.counts.increment)),
            ("seqmax", Value::Int8(sequence.counts.max)),
            ("seqmin", Value::Int8(sequence.counts.min)),
        ])?;
    }
    Ok(())
}
