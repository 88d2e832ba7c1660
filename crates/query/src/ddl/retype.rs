//! ALTER TABLE ... ALTER COLUMN ... TYPE for tables in memory.
//!
//! A text that may be longer from now on is stored as it was: such a column is altered with the shape of its table, in a block too. For any
//! other type a second table is made, and in one commit it takes over rows, name, counters, indexes and comments. Others read and write
//! meanwhile; if they have written, the commit fails.

use std::sync::Arc;

use arrow::array::new_empty_array;
use ashlar_base::{
    CheckDef, ColumnDef, ColumnDefault, Error, ErrorCode, IndexDef, Result, ScalarType, SqlType, TableSchema,
};
use ashlar_functions::quoting::quote_ident;
use ashlar_store::arrow_types::arrow_field;
use ashlar_store::{Region, build_array, violated_by_some_row};
use pg_query::protobuf::{AlterTableCmd, AlterTableType};
use pg_query::{Node, NodeEnum};

use super::{alter, check, check_life, copy_rows, defaults, index, put_region, sequence};
use crate::assign::{Assigned, mismatch};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::resources::StatementResources;
use crate::select::{self, Planner, SelectPlan};
use crate::sql_types;
use crate::statement::expression_text;
use crate::system_tables::plain_type;
use crate::transaction::Transaction;

/// What is done to a table, and what it has then, as [`check_life`] says it.
const IN_WORDS: (&str, &str) = ("this change of a column's type in", "that type");

const JSONB: SqlType = SqlType::Scalar(ScalarType::Jsonb);

/// What one command says.
struct Stated {
    ordinal: usize,
    to: SqlType,
    /// How the values are computed, where it says so.
    using: Option<String>,
    /// Whether that is only a cast to the column's new type.
    is_plain: bool,
    /// The type that the values have before they become the column's: of the last cast, or the column's own. `None`: none of ours.
    given: Option<SqlType>,
}

/// Whether rows have to be written again for the commands of an ALTER TABLE.
///
/// # Errors
/// 42703 for a column and 42704 for a type that there is not, 0A000 for a column that stands there twice, for a type that is not offered, and
/// for USING of anything but casts of the column.
pub(super) fn rewrites(schema: &TableSchema, cmds: &[Node]) -> Result<bool> {
    let (mut seen, mut rewrites) = (Vec::new(), false);
    for command in cmds.iter().filter_map(command_of) {
        let Some(one) = stated(schema, command)? else { continue };
        if seen.contains(&one.ordinal) {
            return Err(Error::unsupported(format!("cannot alter type of column \"{}\" twice", command.name)));
        }
        seen.push(one.ordinal);
        rewrites |= !is_in_place(schema, &one);
    }
    Ok(rewrites)
}

/// Gives a column, in a shape that is being made, a type whose values are stored as those that it has.
///
/// # Errors
/// 0A000 where a constraint or an index computes with the column and the type is not only longer.
pub(super) fn in_place(schema: &mut TableSchema, command: &AlterTableCmd, region: &Region) -> Result<()> {
    let Some(one) = stated(schema, command)? else { return Ok(()) };
    let column = &schema.columns[one.ordinal];
    if !is_read_alike(column.sql_type, one.to) {
        refuse_readers(schema, region, column)?;
    }
    schema.columns[one.ordinal].sql_type = one.to;
    Ok(())
}

/// Gives columns types for which rows have to be written again.
///
/// # Errors
/// 42804 where values cannot be cast; 22003, 22001 and the like where one of them cannot, 23505 where values are not unique any more; 0A000
/// in a block, beside other commands, for rows that end by themselves, and where a constraint or an index computes with the column; 55000
/// while an index is being made.
pub(super) async fn rewrite(
    engine: &Engine,
    transaction: &mut Transaction,
    region: &Arc<Region>,
    cmds: &[Node],
    in_block: bool,
    resources: &StatementResources,
) -> Result<()> {
    let before = region.schema();
    let mut all = Vec::new();
    for node in cmds {
        let one = match command_of(node) {
            Some(command) => stated(&before, command)?,
            None => None,
        };
        all.push(one.ok_or_else(beside_others)?);
    }
    check_table(region, &before, in_block)?;
    let state = transaction.catalog(engine.catalog());
    let indexes = region.every_index();
    let mut schema = TableSchema { id: engine.catalog().next_id(), ..TableSchema::clone(&before) };
    for one in &all {
        let column = &before.columns[one.ordinal];
        if !is_read_alike(column.sql_type, one.to) {
            refuse_readers(&before, region, column)?;
        }
        refuse_indexes(&indexes, column, one.to)?;
        schema.columns[one.ordinal] = retyped(region, column, one.to)?;
    }
    let select = SelectPlan::new(&Planner::new(engine, &state), select::parse(&selecting(&before, &all))?, &[])?;
    check_casts(engine, &select, &schema, &all)?;
    for one in &all {
        let column = &before.columns[one.ordinal];
        schema.columns[one.ordinal].default = default_of(engine, &state, column, &schema.columns[one.ordinal])?;
    }
    let snapshot = transaction.snapshot(engine.store());
    // Once more: rows that got an end before it are among those that are copied, and ends are not.
    check_life(region, &before, IN_WORDS)?;
    let view = transaction.view(snapshot.clone(), &state);
    let heir = put_region(engine, transaction, &before.name, schema)?;
    for index in indexes.iter() {
        heir.add_index(index);
        heir.complete_index(index);
    }
    let copied = copy_rows(engine, transaction, &heir, &select, (&snapshot, view), true, resources).await;
    copied.map_err(|error| match error.fields().constraint.clone() {
        Some(constraint) if error.code() == ErrorCode::CheckViolation => {
            violated_by_some_row(&before.name, &constraint)
        }
        Some(constraint) => index::cannot_create(&constraint, error),
        None => error,
    })?;
    // As it is when this is committed: others may say something of the table, or give it a sequence, until then.
    engine.catalog().inherit(transaction.draft(engine.catalog()), region.id(), heir.id());
    transaction.writes.retire(region, before.version, (&heir, indexes), &snapshot)
}

fn command_of(node: &Node) -> Option<&AlterTableCmd> {
    match &node.node {
        Some(NodeEnum::AlterTableCmd(command)) => Some(command.as_ref()),
        _ => None,
    }
}

/// What a command says; `None` where it is about something else.
fn stated(schema: &TableSchema, command: &AlterTableCmd) -> Result<Option<Stated>> {
    if command.subtype != AlterTableType::AtAlterColumnType as i32 {
        return Ok(None);
    }
    let Some(NodeEnum::ColumnDef(wanted)) = command.def.as_ref().and_then(|def| def.node.as_ref()) else {
        return Ok(None);
    };
    let ordinal = schema.column(&command.name).ok_or_else(|| alter::no_column(schema, &command.name))?;
    let type_name = wanted.type_name.as_ref().ok_or_else(|| Error::internal("a column without its type"))?;
    if wanted.coll_clause.is_some() {
        return Err(Error::unsupported("COLLATE on a column is not supported"));
    }
    let to = sql_types::resolve(type_name)?;
    let (using, is_plain) = match &wanted.raw_default {
        None => (None, true),
        Some(node) => (Some(expression_text(node)?), casts_only(node, &command.name, to)?),
    };
    let given = match wanted.raw_default.as_ref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::TypeCast(cast)) => cast.type_name.as_ref().and_then(|name| sql_types::resolve(name).ok()),
        _ => Some(schema.columns[ordinal].sql_type),
    };
    Ok(Some(Stated { ordinal, to, using, is_plain, given }))
}

/// Whether USING casts a column to the type that it gets, or to none.
///
/// # Errors
/// 0A000 where it computes anything but casts of the column.
fn casts_only(node: &Node, column: &str, to: SqlType) -> Result<bool> {
    let (mut inner, mut is_plain) = (node, true);
    while let Some(NodeEnum::TypeCast(cast)) = &inner.node {
        let (Some(arg), Some(type_name)) = (cast.arg.as_deref(), cast.type_name.as_ref()) else { break };
        is_plain &= sql_types::resolve(type_name).is_ok_and(|known| known == to);
        inner = arg;
    }
    match &inner.node {
        Some(NodeEnum::ColumnRef(reference))
            if reference.fields.len() == 1
                && reference.fields.iter().filter_map(sql_types::string_of).any(|name| name == column) =>
        {
            Ok(is_plain)
        }
        _ => Err(Error::unsupported("USING of anything but casts of the column itself is not supported")
            .with_hint("Add a column of that type, UPDATE the table, and drop the column that there was.")),
    }
}

/// Whether the values of a column can stay as they are stored.
fn is_in_place(schema: &TableSchema, one: &Stated) -> bool {
    let from = schema.columns[one.ordinal].sql_type;
    let is_kept = keeps_values(from, one.to) && !schema.key.contains(&one.ordinal);
    one.is_plain && (from == one.to || is_kept)
}

/// Whether every value of a type is one of the other, and stored as such.
fn keeps_values(from: SqlType, to: SqlType) -> bool {
    use ScalarType::{Text, Varchar};
    from.is_array() == to.is_array()
        && match (from.scalar(), to.scalar()) {
            (Varchar { .. } | Text, Text | Varchar { length: None }) => true,
            (Varchar { length: Some(before) }, Varchar { length: Some(after) }) => before <= after,
            _ => false,
        }
}

/// Whether what was planned to compute with values of a type computes the same with those of the other.
fn is_read_alike(from: SqlType, to: SqlType) -> bool {
    from == to || keeps_values(from, to) && plain_type(from) == plain_type(to)
}

/// Whether values are texts that are to become JSON: PostgreSQL casts them where that is said, and not by assignment. (Where an INSERT
/// assigns them they may be what functions give, which is JSON as a text here.)
fn is_text_as_json(from: SqlType, to: SqlType) -> bool {
    use ScalarType::{Char, Json, Jsonb, Text, Varchar};
    matches!((from.scalar(), to.scalar()), (Text | Varchar { .. } | Char { .. }, Json | Jsonb))
}

/// What can be said of the table before anything is looked at.
fn check_table(region: &Region, schema: &TableSchema, in_block: bool) -> Result<()> {
    if in_block {
        return Err(Error::unsupported("this change of a column's type in a transaction block is not supported")
            .with_hint("Use a statement of its own."));
    }
    check_life(region, schema, IN_WORDS)?;
    let indexes = region.every_index();
    match indexes.iter().find(|index| !region.is_complete(index)) {
        None => Ok(()),
        Some(unready) => {
            let message = format!("index \"{}\" is being made", unready.name);
            Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message).with_hint("Try again."))
        }
    }
}

fn beside_others() -> Error {
    Error::unsupported("this change of a column's type beside other changes in one ALTER TABLE is not supported")
        .with_hint("Use statements of their own.")
}

/// 0A000 where something computes with a column: it was planned with the type that the column has.
fn refuse_readers(schema: &TableSchema, region: &Region, column: &ColumnDef) -> Result<()> {
    let indexes = region.standing_indexes();
    let reads = |index: &&Arc<IndexDef>| index.rows.as_ref().is_some_and(|rows| rows.inputs().contains(&column.id));
    let by_index = indexes.iter().find(reads).map(|index| format!("index \"{}\"", index.name));
    let is_about = |constraint: &&CheckDef| check::is_about(constraint, column.id);
    let by_check = schema.checks.iter().find(is_about).map(|constraint| format!("constraint \"{}\"", constraint.name));
    match by_check.or(by_index) {
        None => Ok(()),
        Some(what) => {
            let message =
                format!("another type of column \"{}\", which {what} computes with, is not supported", column.name);
            Err(Error::unsupported(message)
                .with_table(&schema.name)
                .with_hint("Drop it, and make it again when the column has its type."))
        }
    }
}

/// 0A000 where a column gets a type that its indexes cannot be on as they are.
fn refuse_indexes(indexes: &[Arc<IndexDef>], column: &ColumnDef, to: SqlType) -> Result<()> {
    if to.can_be_indexed() && SqlType::Scalar(to.scalar()) != JSONB {
        return Ok(());
    }
    match indexes.iter().find(|index| index.columns.contains(&column.id)) {
        None => Ok(()),
        Some(index) => {
            let message = format!(
                "type {to} of column \"{}\", which index \"{}\" is on, is not supported",
                column.name, index.name
            );
            Err(Error::unsupported(message).with_hint("Drop the index before."))
        }
    }
}

/// A column with another type, in which it goes on counting if it does. Another default is still one of the type that it had.
fn retyped(region: &Region, column: &ColumnDef, to: SqlType) -> Result<ColumnDef> {
    let default = match &column.default {
        Some(ColumnDefault::Sequence(counts)) => {
            let last = region.last_number(column.id, counts);
            Some(ColumnDefault::Sequence(sequence::of_retyped(*counts, column.sql_type, to, last)?))
        }
        other => other.clone(),
    };
    Ok(ColumnDef { sql_type: to, default, ..column.clone() })
}

/// The default of a column as one of the type that it gets.
fn default_of(
    engine: &Engine,
    state: &Arc<CatalogState>,
    column: &ColumnDef,
    retyped: &ColumnDef,
) -> Result<Option<ColumnDefault>> {
    let no_default = |error: Error| match error.code() {
        ErrorCode::DatatypeMismatch => {
            let (name, to) = (&column.name, plain_type(retyped.sql_type));
            let message = format!("default for column \"{name}\" cannot be cast automatically to type {to}");
            Error::new(ErrorCode::DatatypeMismatch, message)
        }
        _ => error,
    };
    if column.default.is_some() && is_text_as_json(column.sql_type, retyped.sql_type) {
        return Err(no_default(mismatch(retyped, column.sql_type)));
    }
    Ok(match &column.default {
        None => None,
        Some(ColumnDefault::Constant(value)) => {
            let array = build_array(column.sql_type, [value])?;
            let field = arrow_field(&column.name, column.sql_type, true);
            let assigned = Assigned::new(&array, &field, retyped, engine.zone()).map_err(no_default)?;
            Some(ColumnDefault::Constant(assigned.value(0)?))
        }
        Some(ColumnDefault::Expression(text)) => {
            defaults::check(engine, state, text, retyped).map_err(no_default)?;
            Some(ColumnDefault::Expression(text.clone()))
        }
        Some(ColumnDefault::Sequence(_)) => retyped.default.clone(),
    })
}

/// The query for the rows as they were, with what USING computes of them.
fn selecting(schema: &TableSchema, all: &[Stated]) -> String {
    let item = |(ordinal, column): (usize, &ColumnDef)| {
        let name = quote_ident(&column.name);
        match all.iter().find(|one| one.ordinal == ordinal).and_then(|one| one.using.as_ref()) {
            Some(using) => format!("({using}) AS {name}"),
            None => name,
        }
    };
    let items: Vec<String> = schema.visible_columns().iter().enumerate().map(item).collect();
    format!("SELECT {} FROM {}", items.join(", "), quote_ident(&schema.name))
}

/// Whether values of the types that a query gives can become values of the columns, whether or not there are any.
///
/// # Errors
/// 42804
fn check_casts(engine: &Engine, select: &SelectPlan, schema: &TableSchema, all: &[Stated]) -> Result<()> {
    let output = select.schema();
    for one in all {
        let (field, column) = (output.field(one.ordinal), &schema.columns[one.ordinal]);
        let empty = new_empty_array(field.data_type());
        let assigned = match one.given.filter(|from| is_text_as_json(*from, one.to)) {
            Some(from) => Err(mismatch(column, from)),
            None => Assigned::new(&empty, field, column, engine.zone()).map(drop),
        };
        assigned.map_err(|error| {
            if error.code() != ErrorCode::DatatypeMismatch {
                return error;
            }
            let (name, to) = (&column.name, plain_type(one.to));
            let what = if one.using.is_some() { "result of USING clause for column" } else { "column" };
            let message = format!("{what} \"{name}\" cannot be cast automatically to type {to}");
            Error::new(ErrorCode::DatatypeMismatch, message).with_hint(match &one.using {
                Some(_) => "You might need to add an explicit cast.".to_owned(),
                None => format!("You might need to specify \"USING {}::{}\".", quote_ident(name), one.to),
            })
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
