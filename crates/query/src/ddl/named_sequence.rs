//! CREATE, ALTER and DROP SEQUENCE, and `nextval` of a sequence as a column's default: what dumps write for a `serial`
//! column.
//!
//! A sequence describes how a column counts. It hands out no numbers by itself, and a user who creates one is told so.

use ashlar_base::{ColumnDef, ColumnId, Error, ErrorCode, Result, ScalarType, SequenceKind, SqlType, TableId};
use ashlar_functions::error::undefined_table;
use pg_query::NodeEnum;
use pg_query::protobuf::{AlterSeqStmt, CreateSeqStmt, DefElem, DropStmt, RangeVar, a_const};

use super::{Done, exists, object_name, options, relation_name, sequence, skipping};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::sequences::{NamedSequence, user_of};
use crate::sql_types;
use crate::system_tables::objects;
use crate::transaction::Transaction;

/// The option that names the column that a sequence goes with.
const OWNER: &str = "owned_by";

/// The option that names the type of its numbers.
const TYPE: &str = "as";

/// The option by which a dump names the sequence of an identity column.
pub(super) const NAME: &str = "sequence_name";

/// CREATE SEQUENCE and ALTER SEQUENCE
///
/// # Errors
/// 42P07, 42P01, 22023, 42703; 0A000 for a temporary one, and for changes of how one counts.
pub(super) fn run(engine: &Engine, transaction: &mut Transaction, statement: &NodeEnum) -> Result<Done> {
    match statement {
        NodeEnum::CreateSeqStmt(statement) => create(engine, transaction, statement),
        NodeEnum::AlterSeqStmt(statement) => alter(engine, transaction, statement),
        _ => Err(Error::internal("this is no statement about sequences")),
    }
}

fn create(engine: &Engine, transaction: &mut Transaction, statement: &CreateSeqStmt) -> Result<Done> {
    let name = relation_name(statement.sequence.as_ref())?;
    if statement.sequence.as_ref().is_some_and(|sequence| sequence.relpersistence == "t") {
        return Err(Error::unsupported("temporary sequences are not supported"));
    }
    let state = transaction.catalog(engine.catalog());
    if state.is_relation(&name) {
        return if statement.if_not_exists { Ok(skipping("CREATE SEQUENCE", &name)) } else { Err(exists(&name)) };
    }
    let (mut scalar, mut column) = (ScalarType::Int8, None);
    for element in options::elements(&statement.options) {
        match element.defname.as_str() {
            TYPE => scalar = type_of(element)?,
            OWNER => column = owner(&state, element)?,
            _ => {}
        }
    }
    let counts = sequence::of_options(&statement.options, &[TYPE, OWNER], scalar, SequenceKind::Serial)?;
    let draft = transaction.draft(engine.catalog());
    engine.catalog().put_sequence(draft, &name, Some(NamedSequence { counts, column }));
    let message = format!("sequence \"{name}\" gives no numbers before it is the default of a column");
    Ok(Done::notice("CREATE SEQUENCE", ErrorCode::SuccessfulCompletion, message))
}

fn alter(engine: &Engine, transaction: &mut Transaction, statement: &AlterSeqStmt) -> Result<Done> {
    let name = relation_name(statement.sequence.as_ref())?;
    let state = transaction.catalog(engine.catalog());
    let Some(mut sequence) = state.sequence(&name) else {
        if state.is_relation(&name) {
            return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not a sequence")));
        }
        if statement.missing_ok {
            let message = format!("relation \"{name}\" does not exist, skipping");
            return Ok(Done::notice("ALTER SEQUENCE", ErrorCode::SuccessfulCompletion, message));
        }
        return Err(undefined_table(&name));
    };
    for element in options::elements(&statement.options) {
        if element.defname != OWNER {
            return Err(Error::unsupported("only OWNED BY of a sequence can be altered").with_hint(
                "ALTER TABLE ... ALTER COLUMN ... RESTART and setval() change the next number of its column.",
            ));
        }
        let column = owner(&state, element)?;
        if let Some(user) = user_of(&state, sequence).filter(|_| column != sequence.column) {
            return Err(Error::unsupported(format!("sequence \"{name}\" gives numbers to {user}")));
        }
        sequence.column = column;
    }
    let draft = transaction.draft(engine.catalog());
    engine.catalog().put_sequence(draft, &name, Some(sequence));
    Ok(Done::tag("ALTER SEQUENCE"))
}

/// DROP SEQUENCE
///
/// # Errors
/// 42P01, 42809; 2BP01 where a column counts by it.
pub(super) fn drop(engine: &Engine, transaction: &mut Transaction, statement: &DropStmt) -> Result<Done> {
    let mut done = Done::tag("DROP SEQUENCE");
    let state = transaction.catalog(engine.catalog());
    let mut names = Vec::new();
    for object in &statement.objects {
        let Some(name) = object_name(object, statement.missing_ok, &mut done)? else { continue };
        match state.sequence(&name) {
            Some(sequence) => {
                if let Some(user) = user_of(&state, sequence) {
                    let message = format!("cannot drop sequence {name} because other objects depend on it");
                    return Err(Error::new(ErrorCode::DependentObjects, message)
                        .with_detail(format!("default value for {user} depends on sequence {name}"))
                        .with_hint("Drop the default of the column before."));
                }
                names.push(name);
            }
            None if state.is_relation(&name) => {
                return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not a sequence")));
            }
            None if statement.missing_ok => done.notices.push(Error::new(
                ErrorCode::SuccessfulCompletion,
                format!("sequence \"{name}\" does not exist, skipping"),
            )),
            None => {
                return Err(Error::new(ErrorCode::UndefinedTable, format!("sequence \"{name}\" does not exist")));
            }
        }
    }
    for name in names {
        let draft = transaction.draft(engine.catalog());
        engine.catalog().put_sequence(draft, &name, None);
    }
    Ok(done)
}

fn type_of(element: &DefElem) -> Result<ScalarType> {
    let named = element.arg.as_ref().and_then(|arg| arg.node.as_ref());
    let Some(NodeEnum::TypeName(name)) = named else {
        return Err(Error::internal("a sequence without its type"));
    };
    match sql_types::resolve(name)? {
        SqlType::Scalar(scalar) => Ok(scalar),
        SqlType::Array(_) => {
            let message = "sequence type must be smallint, integer, or bigint";
            Err(Error::new(ErrorCode::InvalidParameterValue, message))
        }
    }
}

/// The parts of the name that an option gives.
fn parts(element: &DefElem) -> Vec<&str> {
    match element.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::List(list)) => list.items.iter().filter_map(sql_types::string_of).collect(),
        Some(NodeEnum::String(name)) => vec![name.sval.as_str()],
        _ => Vec::new(),
    }
}

/// The column of OWNED BY; `None` for NONE.
fn owner(state: &CatalogState, element: &DefElem) -> Result<Option<(TableId, ColumnId)>> {
    let (schema, table, column) = match parts(element)[..] {
        ["none"] => return Ok(None),
        [table, column] => ("", table, column),
        [schema, table, column] => (schema, table, column),
        _ => {
            return Err(Error::new(ErrorCode::SyntaxError, "invalid OWNED BY option")
                .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
        }
    };
    let table = relation(schema, table)?;
    let schema = state.grid(&table)?.schema();
    let Some(ordinal) = schema.column(column) else {
        let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
        return Err(Error::new(ErrorCode::UndefinedColumn, message));
    };
    Ok(Some((schema.id, schema.columns[ordinal].id)))
}

/// The plain name of a relation of a schema.
fn relation(schema: &str, name: &str) -> Result<String> {
    let relation = RangeVar { schemaname: schema.to_owned(), relname: name.to_owned(), ..RangeVar::default() };
    relation_name(Some(&relation))
}

/// The name that a dump gives to the sequence of an identity column.
///
/// # Errors
/// 42P07 where something else has it.
pub(super) fn given_name(state: &CatalogState, elements: &[pg_query::Node]) -> Result<Option<String>> {
    let Some(element) = options::elements(elements).find(|element| element.defname == NAME) else { return Ok(None) };
    let parts = parts(element);
    let (name, schema) = parts.split_last().ok_or_else(|| Error::internal("a sequence without its name"))?;
    let name = relation(schema.last().unwrap_or(&""), name)?;
    if state.is_relation(&name) { Err(exists(&name)) } else { Ok(Some(name)) }
}

/// The sequence that a default calls `nextval` of, and its name; `None`: it is another expression.
///
/// # Errors
/// 42P01 where there is none of the name; 0A000 where it is another column's, and for a column that is no integer.
pub(super) fn called(
    state: &CatalogState,
    default: &pg_query::Node,
    table: TableId,
    column: &ColumnDef,
) -> Result<Option<(String, NamedSequence)>> {
    let Some(text) = named_by(default) else { return Ok(None) };
    let mut parts = objects::names(text)?;
    let name = parts.pop().unwrap_or_default();
    let name = relation(&parts.pop().unwrap_or_default(), &name)?;
    let Some(sequence) = state.sequence(&name) else { return Err(undefined_table(&name)) };
    if sequence.column.is_some_and(|known| known != (table, column.id)) {
        return Err(Error::unsupported(format!("sequence \"{name}\" goes with another column"))
            .with_hint("Give each column a sequence of its own."));
    }
    if !matches!(column.sql_type, SqlType::Scalar(ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8)) {
        let message = format!("numbers of a sequence in a column of type {} are not supported", column.sql_type);
        return Err(Error::unsupported(message).with_column(&column.name));
    }
    Ok(Some((name, NamedSequence { column: Some((table, column.id)), ..sequence })))
}

/// The name in `nextval('name'::regclass)`.
fn named_by(node: &pg_query::Node) -> Option<&str> {
    let Some(NodeEnum::FuncCall(call)) = &node.node else { return None };
    let names: Vec<&str> = call.funcname.iter().filter_map(sql_types::string_of).collect();
    let ([argument], ["nextval"] | ["pg_catalog", "nextval"]) = (&call.args[..], &names[..]) else { return None };
    text_of(argument)
}

/// The text of a constant, cast or not.
pub(crate) fn text_of(node: &pg_query::Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Sval(text) => Some(&text.sval),
            _ => None,
        },
        NodeEnum::TypeCast(cast) => text_of(cast.arg.as_ref()?),
        _ => None,
    }
}
