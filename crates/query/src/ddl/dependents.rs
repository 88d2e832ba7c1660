//! Defaults that take numbers from the sequence of another column: they keep it, and its table, from being dropped.
//!
//! Called by `DROP TABLE` and `ALTER TABLE ... DROP COLUMN` of tables in memory. A default is kept as text, so its calls are looked for when
//! it matters.

use ashlar_base::{ColumnDefault, ColumnId, Error, ErrorCode, Result, TableId};
use pg_query::protobuf::{AlterTableCmd, AlterTableStmt, AlterTableType, DropBehavior, ObjectType, RangeVar};
use pg_query::{Node, NodeEnum, NodeRef};

use super::{Done, alter, named_sequence};
use crate::catalog::{CatalogState, Table};
use crate::engine::Engine;
use crate::grammar;
use crate::resources::StatementResources;
use crate::sequences;
use crate::sql_types::string_of;
use crate::transaction::Transaction;

/// Functions of a sequence that is named by their first argument.
const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// A default that names a sequence.
pub(super) struct Dependent {
    table: String,
    column: String,
    sequence: String,
}

impl Dependent {
    fn what(&self) -> String {
        format!("default value for column {} of table {}", self.column, self.table)
    }
}

/// The defaults that take numbers from a column of which `is_gone` says so, but for those that are gone themselves.
///
/// # Errors
/// 42601, which no default that was taken has.
pub(super) fn of(state: &CatalogState, is_gone: impl Fn(TableId, ColumnId) -> bool) -> Result<Vec<Dependent>> {
    let mut found = Vec::new();
    for (table, region) in state.tables() {
        let Table::Grid(region) = region else { continue };
        let schema = region.schema();
        for column in schema.visible_columns() {
            let Some(ColumnDefault::Expression(text)) = &column.default else { continue };
            if !text.contains("val") || is_gone(region.id(), column.id) {
                continue;
            }
            for (sequence, (of_table, of_column)) in named_in(state, text)? {
                if is_gone(of_table, of_column) {
                    found.push(Dependent { table: table.to_owned(), column: column.name.clone(), sequence });
                }
            }
        }
    }
    Ok(found)
}

/// The sequences that an expression names, each with the column that counts by it.
fn named_in(state: &CatalogState, text: &str) -> Result<Vec<(String, (TableId, ColumnId))>> {
    let mut names = Vec::new();
    for statement in grammar::parse(&format!("SELECT {text}"))? {
        for (node, ..) in statement.node.nodes() {
            let NodeRef::FuncCall(call) = node else { continue };
            let function = call.funcname.last().and_then(string_of);
            if function.is_some_and(|name| OF_SEQUENCES.contains(&name))
                && let Some(written) = call.args.first().and_then(named_sequence::text_of)
                && let Some(sequence) = sequences::column_of(state, written)
            {
                names.push(sequence);
            }
        }
    }
    Ok(names)
}

/// 2BP01, which says what keeps `object` from being dropped.
pub(super) fn refusal(object: &str, dependents: &[Dependent]) -> Error {
    let details = dependents.iter().map(|one| format!("{} depends on sequence {}", one.what(), one.sequence));
    let details: Vec<String> = details.collect();
    Error::new(ErrorCode::DependentObjects, format!("cannot drop {object} because other objects depend on it"))
        .with_detail(details.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Sees that no default names a sequence of these tables, which are about to be dropped: by CASCADE they are dropped, or nothing is.
///
/// # Errors
/// 2BP01; what ALTER TABLE finds.
pub(super) async fn before_tables(
    engine: &Engine,
    transaction: &mut Transaction,
    (names, behavior): (&[String], i32),
    resources: &StatementResources,
    done: &mut Done,
) -> Result<()> {
    let state = transaction.catalog(engine.catalog());
    let gone: Vec<TableId> = names.iter().filter_map(|name| state.table(name).map(Table::id)).collect();
    let dependents = of(&state, |table, _| gone.contains(&table))?;
    if dependents.is_empty() {
        return Ok(());
    }
    if behavior != DropBehavior::DropCascade as i32 {
        return Err(match names {
            [name] => refusal(&format!("table {name}"), &dependents),
            _ => {
                let message = "cannot drop desired object(s) because other objects depend on them";
                refusal("", &dependents).with_message(message)
            }
        });
    }
    for one in dependents {
        let command = AlterTableCmd {
            subtype: AlterTableType::AtColumnDefault as i32,
            name: one.column.clone(),
            ..AlterTableCmd::default()
        };
        let statement = AlterTableStmt {
            relation: Some(RangeVar { relname: one.table.clone(), ..RangeVar::default() }),
            cmds: vec![Node { node: Some(NodeEnum::AlterTableCmd(Box::new(command))) }],
            objtype: ObjectType::ObjectTable as i32,
            missing_ok: false,
        };
        // As in a block: it is done when the tables are dropped, or not at all.
        Box::pin(alter::alter(engine, transaction, &statement, true, resources)).await?;
        let message = format!("drop cascades to {}", one.what());
        done.notices.push(Error::new(ErrorCode::SuccessfulCompletion, message));
    }
    Ok(())
}
