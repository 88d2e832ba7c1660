//! ALTER INDEX ... RENAME, and ALTER TABLE ... RENAME of an index, which PostgreSQL takes for the same.
//!
//! Called by `alter` where the name is no table's. An index gets its name for everybody at once: it is no part of a transaction.

use ashlar_base::{Error, Result};
use pg_query::protobuf::{ObjectType, RangeVar, RenameStmt};

use super::table_of_key;
use crate::ddl::{alter, check, exists};
use crate::engine::Engine;
use crate::sharded::maintain;
use crate::transaction::Transaction;

/// Renames the index of a name; false where there is none.
///
/// # Errors
/// 42P07 and 42710 where something else has the new name; 0A000 in a transaction block, but for a primary key, and for an index of a sharded
/// table.
pub(in crate::ddl) fn rename(
    engine: &Engine,
    transaction: &mut Transaction,
    (name, statement): (&str, &RenameStmt),
    in_block: bool,
) -> Result<bool> {
    let state = transaction.catalog(engine.catalog());
    let to = statement.newname.as_str();
    if let Some((region, index)) = state.index(name, |index| transaction.has_dropped_index(index)) {
        if in_block {
            return Err(Error::unsupported("renaming an index in a transaction block is not supported")
                .with_hint("Rename it by a statement of its own."));
        }
        if state.is_relation(to) {
            return Err(exists(to));
        }
        if index.unique.is_some_and(|unique| unique.is_constraint) {
            check::refuse_name(&region.schema(), to)?;
        }
        engine.catalog().rename_index(&region, &index, to)?;
        return Ok(true);
    }
    if let Some(table) = table_of_key(&state, name) {
        let of_constraint = RenameStmt {
            rename_type: ObjectType::ObjectTabconstraint as i32,
            relation: Some(RangeVar { relname: table, ..RangeVar::default() }),
            subname: name.to_owned(),
            ..statement.clone()
        };
        alter::rename(engine, transaction, &of_constraint, in_block)?;
        return Ok(true);
    }
    if maintain::has_index(engine, name)? {
        return Err(Error::unsupported("renaming an index of a sharded table is not supported")
            .with_hint("DROP INDEX, then CREATE INDEX."));
    }
    Ok(false)
}
