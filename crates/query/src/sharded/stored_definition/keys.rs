//! Primary keys and UNIQUE constraints of a table, and the names of those that were given none: PostgreSQL's default
//! names, so that they can be dropped by name. Shards have names of their own for them.
//!
//! While the kept definition of a table is read, such a name carries a mark, so that renaming the table or a column
//! later does not change it. The mark is removed at the end: a shard that is added later names the key after its own
//! table.

use ashlar_base::Result;
use pg_query::NodeEnum;
use pg_query::protobuf::{ConstrType, Constraint, CreateStmt};

use super::super::checks::{constraints, free_of_table};
use crate::ddl::free_name;
use crate::sql_types::string_of;

/// Before a name that nobody has given: no user's constraint begins with it.
const MARK: char = '\u{1}';

/// A primary key or a UNIQUE constraint of a table.
pub(in crate::sharded) struct StoredKey {
    /// As the user gave it, or PostgreSQL's default name.
    pub(in crate::sharded) name: String,
    pub(in crate::sharded) is_primary: bool,
    pub(in crate::sharded) columns: Vec<String>,
}

/// The marked name of a constraint without a name of its own, while a stored definition is read.
pub(super) fn marked(name: &str) -> String {
    format!("{MARK}{name}")
}

fn is_primary(constraint: &Constraint) -> bool {
    constraint.contype == ConstrType::ConstrPrimary as i32
}

/// Goes through the keys of a table, with the columns of each.
fn each_key(made: &mut CreateStmt, mut visit: impl FnMut(&mut Constraint, &[String])) {
    let kinds = [ConstrType::ConstrPrimary as i32, ConstrType::ConstrUnique as i32];
    for element in &mut made.table_elts {
        match &mut element.node {
            Some(NodeEnum::ColumnDef(definition)) => {
                let columns = [definition.colname.clone()];
                for node in &mut definition.constraints {
                    if let Some(NodeEnum::Constraint(constraint)) = &mut node.node
                        && kinds.contains(&constraint.contype)
                    {
                        visit(constraint, &columns);
                    }
                }
            }
            Some(NodeEnum::Constraint(constraint)) if kinds.contains(&constraint.contype) => {
                let columns: Vec<String> = constraint.keys.iter().filter_map(string_of).map(str::to_owned).collect();
                visit(constraint, &columns);
            }
            _ => {}
        }
    }
}

/// Names the keys that have no name yet; the primary key first, as PostgreSQL does.
pub(super) fn name_keys(made: &mut CreateStmt) {
    let table = made.relation.as_ref().map_or_else(String::new, |relation| relation.relname.clone());
    let mut taken: Vec<String> =
        constraints(made).map(|constraint| constraint.conname.trim_start_matches(MARK).to_owned()).collect();
    for of_primary in [true, false] {
        each_key(made, |constraint, columns| {
            if !constraint.conname.is_empty() || is_primary(constraint) != of_primary {
                return;
            }
            let is_taken = |name: &str| taken.iter().any(|taken| taken == name);
            let name = if of_primary {
                free_of_table(&table, "pkey", is_taken)
            } else {
                free_name(&table, columns, "key", is_taken)
            };
            constraint.conname = marked(&name);
            taken.push(name);
        });
    }
}

/// The columns of the primary key, if it has this name.
pub(super) fn primary_named(made: &mut CreateStmt, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    each_key(made, |constraint, columns| {
        if is_primary(constraint) && constraint.conname == name {
            found.extend_from_slice(columns);
        }
    });
    found
}

/// The keys of a table that a statement makes, by the names that they have here.
pub(in crate::sharded) fn keys_of(statement: &CreateStmt) -> Vec<StoredKey> {
    let mut made = statement.clone();
    name_keys(&mut made);
    take_keys(&mut made)
}

/// Gives other names to the keys that were given one.
///
/// # Errors
/// Those of `renamed`.
pub(in crate::sharded) fn rename_keys(made: &mut CreateStmt, renamed: impl Fn(&str) -> Result<String>) -> Result<()> {
    let mut done = Ok(());
    each_key(made, |constraint, _| {
        if done.is_err() || constraint.conname.is_empty() {
            return;
        }
        match renamed(&constraint.conname) {
            Ok(name) => constraint.conname = name,
            Err(error) => done = Err(error),
        }
    });
    done
}

/// The keys of a table, all of which have names; those that were given none are without one again.
pub(super) fn take_keys(made: &mut CreateStmt) -> Vec<StoredKey> {
    let mut keys = Vec::new();
    each_key(made, |constraint, columns| {
        let name = constraint.conname.trim_start_matches(MARK).to_owned();
        if constraint.conname.starts_with(MARK) {
            constraint.conname.clear();
        }
        keys.push(StoredKey { name, is_primary: is_primary(constraint), columns: columns.to_vec() });
    });
    keys
}
