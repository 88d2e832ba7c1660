//! Placement of tables that do not state it: with `SET default_table_access_method = sharded` a plain CREATE TABLE
//! makes a sharded table.
//!
//! Rows are divided by the first column of the primary key, or else by the first column, among the servers that the
//! session names.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::quoting::quote_ident;
use pg_query::NodeEnum;
use pg_query::protobuf::{ConstrType, CreateStmt};

use super::ddl::ACCESS_METHOD;
use crate::ddl::{Ddl, given_options};
use crate::engine::Engine;
use crate::grammar;
use crate::sql_types::string_of;
use crate::statement::statement_text;

/// A plain CREATE TABLE as that of a sharded table on these servers, or, where none is named, on all.
///
/// # Errors
/// 55000 where there is no server.
pub fn by_default(engine: &Engine, statement: &CreateStmt, servers: &str) -> Result<Ddl> {
    let fleet = engine.catalog().fleet()?;
    let servers = match servers.trim() {
        "" => fleet.catalog().known().servers.keys().cloned().collect::<Vec<_>>().join(","),
        named => named.to_owned(),
    };
    if servers.is_empty() {
        return Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, "there is no server for a sharded table")
            .with_hint("CREATE SERVER ... FOREIGN DATA WRAPPER postgres OPTIONS (...)"));
    }
    let key =
        key_of(statement).ok_or_else(|| Error::unsupported("a sharded table without columns is not supported"))?;
    let (key, list) = (quote_ident(key), servers.replace('\'', "''"));
    let template = format!(
        "CREATE TABLE t () PARTITION BY HASH ({key}) USING {ACCESS_METHOD} \
         WITH (servers = '{list}', algorithm = 'hash_mod')"
    );
    let Some(NodeEnum::CreateStmt(template)) = grammar::only_one(grammar::parse(&template)?)?.map(|parsed| parsed.node)
    else {
        return Err(Error::internal("a template is a statement"));
    };
    let mut placed = statement.clone();
    placed.access_method = template.access_method;
    placed.partspec = placed.partspec.or(template.partspec);
    // How full PostgreSQL makes its pages is no rule of ours.
    placed
        .options
        .retain(|option| !matches!(&option.node, Some(NodeEnum::DefElem(option)) if option.defname == "fillfactor"));
    placed.options.extend(template.options);
    // What makes text of trees forgets a space between USING and WITH.
    let bare = CreateStmt { options: Vec::new(), ..placed.clone() };
    let options = given_options(&placed.options).into_iter();
    let options: Vec<String> =
        options.map(|(name, value)| format!("{} = '{}'", quote_ident(&name), value.replace('\'', "''"))).collect();
    let text = format!("{} WITH ({})", statement_text(&NodeEnum::CreateStmt(bare))?, options.join(", "));
    Ok(Ddl::CreateSharded(Box::new(placed), text))
}

/// Whether a session's default decides where a table is.
pub fn is_open(statement: &CreateStmt) -> bool {
    let is_temporary = statement.relation.as_ref().is_some_and(|relation| relation.relpersistence == "t");
    statement.access_method.is_empty() && !is_temporary
}

/// The first column of the primary key, or else of the table.
fn key_of(statement: &CreateStmt) -> Option<&str> {
    let is_primary = |node: &pg_query::Node| matches!(&node.node, Some(NodeEnum::Constraint(found)) if found.contype == ConstrType::ConstrPrimary as i32);
    let mut first = None;
    for element in &statement.table_elts {
        match &element.node {
            Some(NodeEnum::ColumnDef(column)) => {
                if column.constraints.iter().any(is_primary) {
                    return Some(&column.colname);
                }
                first = first.or(Some(column.colname.as_str()));
            }
            Some(NodeEnum::Constraint(constraint)) if is_primary(element) => {
                return constraint.keys.iter().find_map(string_of);
            }
            _ => {}
        }
    }
    first
}
