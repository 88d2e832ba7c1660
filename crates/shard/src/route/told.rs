//! Errors of shards in the names that their tables have here: where a shard's table is called `t_4`, so are its keys, and a program that
//! looks for `t_pkey` would not find it.
//!
//! Called by the session with what a shard has said of a statement. Changes nothing but names that PostgreSQL itself has put there: what a
//! client has written stands in messages too, and stays.

use std::sync::Arc;

use ashlar_base::Error;

use super::ShardedTable;

/// What stands before a name in PostgreSQL's messages about tables.
const WORDS: [&str; 4] = ["relation", "table", "constraint", "index"];

/// Constraints that have the same name on every shard.
const CHECK_VIOLATION: &str = "23514";

/// What a function of the user's says.
const RAISED: &str = "P0001";

/// The error of a shard, which its context names last, about a statement with these tables.
pub fn told_here(mut error: Error, tables: &[Arc<ShardedTable>]) -> Error {
    let context = error.fields().context.as_deref().unwrap_or_default();
    let Some(server) = context.lines().last().and_then(|line| line.strip_prefix("shard ")).map(str::to_owned) else {
        return error;
    };
    for table in tables {
        for shard in table.rule.shards() {
            if *shard.server == *server && shard.table != table.name {
                error = renamed(error, table, &shard.table);
            }
        }
    }
    error
}

/// The same where one of the tables is called so there.
fn renamed(mut error: Error, table: &ShardedTable, there: &str) -> Error {
    let here = &*table.name;
    let fields = error.fields();
    let is_of_table = fields.table.as_deref() == Some(there);
    let has_own_names = error.sqlstate() != CHECK_VIOLATION;
    let constraint = fields.constraint.as_deref().filter(|_| is_of_table && has_own_names);
    let constraint = constraint.and_then(|name| Some((name.to_owned(), constraint_here(name, here, there)?)));
    let tail = format!("table \"{there}\".");
    let detail = fields.detail.as_deref().and_then(|detail| detail.strip_suffix(tail.as_str()));
    let detail = detail.map(|before| format!("{before}table \"{here}\"."));
    let copied = format!("COPY {there},");
    let context = fields.context.as_deref().and_then(|context| context.strip_prefix(copied.as_str()));
    let context = context.map(|behind| format!("COPY {here},{behind}"));
    let mut message = error.message().to_owned();
    let names = [Some((there.to_owned(), here.to_owned())), constraint.clone()];
    // These quote what a client has written.
    let quotes_values = error.sqlstate().starts_with("22") || error.sqlstate() == RAISED;
    for (old, new) in names.iter().flatten().filter(|_| !quotes_values) {
        for word in WORDS {
            message = message.replace(&format!("{word} \"{old}\""), &format!("{word} \"{new}\""));
        }
    }
    if message == format!("permission denied for table {there}") {
        message = format!("permission denied for table {here}");
    }
    error = error.with_message(message);
    if is_of_table {
        error = error.with_table(here);
    }
    if let Some((_, name)) = constraint {
        error = error.with_constraint(name);
    }
    if let Some(detail) = detail {
        error = error.with_detail(detail);
    }
    if let Some(context) = context {
        error = error.with_context(context);
    }
    error
}

/// What a constraint or an index is called here: one that a statement has named has the end that the table's name has there, and one that
/// PostgreSQL has named begins with the table's. `None`: it is not known to have another name.
fn constraint_here(name: &str, here: &str, there: &str) -> Option<String> {
    let end = there.strip_prefix(here).filter(|end| !end.is_empty());
    if let Some(own) = end.and_then(|end| name.strip_suffix(end)).filter(|own| !own.is_empty()) {
        return Some(own.to_owned());
    }
    let rest = name.strip_prefix(there).filter(|rest| rest.starts_with('_'))?;
    Some(format!("{here}{rest}"))
}
