//! Servers, user mappings and sharded tables that a file declares: created at startup if they do not exist, as the
//! statements that make them. An object that exists as declared stays as it is; one that differs is an error, and
//! nothing is altered.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::times::StatementTime;
use ashlar_shard::fleet::Fleet;
use ashlar_shard::server::{GivenOption, Mapping, Server};
use pg_query::NodeEnum;
use pg_query::protobuf::RoleSpecType;

use super::checks::name_checks;
use super::ddl;
use super::stored_definition::StoredTable;
use crate::ddl::relation_name;
use crate::engine::Engine;
use crate::grammar;
use crate::resources::StatementResources;
use crate::statement::statement_text;

/// Runs the statements of a text. Waits for shards, where a table has to be made or looked at: for a thread that may.
///
/// # Errors
/// 55000 for what is known and differs, 0A000 for other statements; as the statements themselves.
pub fn declare(engine: &Engine, fleet: &Arc<Fleet>, text: &str) -> Result<()> {
    let resources = engine.resources(StatementTime::now(), None);
    for parsed in grammar::parse(text)? {
        one(engine, fleet, &parsed.node, &parsed.text, &resources)?;
    }
    Ok(())
}

/// Whether a text has a password in it: then its file is for nobody but its owner to read.
///
/// # Errors
/// 42601 where it is no SQL.
pub fn has_password(text: &str) -> Result<bool> {
    for parsed in grammar::parse(text)? {
        if let NodeEnum::CreateUserMappingStmt(statement) = &parsed.node {
            let is_password = |option: &GivenOption| {
                option.name == "password" && option.value.as_ref().is_some_and(|value| !value.reveal().is_empty())
            };
            if ddl::options(&statement.options)?.iter().any(is_password) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn one(engine: &Engine, fleet: &Arc<Fleet>, node: &NodeEnum, text: &str, resources: &StatementResources) -> Result<()> {
    let known = fleet.catalog().known();
    match node {
        NodeEnum::CreateForeignServerStmt(statement) => {
            let name = &statement.servername;
            let wanted = Server::new(name, &ddl::options(&statement.options)?)?;
            match known.servers.get(name) {
                None => ddl::server(engine, node, false, resources).map(drop),
                Some(there) if **there == wanted => Ok(()),
                Some(_) => Err(differs(&format!("server \"{name}\""), "ALTER SERVER")),
            }
        }
        NodeEnum::CreateUserMappingStmt(statement) => {
            let user = statement.user.as_ref();
            let role = match user.map(|user| RoleSpecType::try_from(user.roletype)) {
                Some(Ok(RoleSpecType::RolespecPublic)) => None,
                Some(Ok(RoleSpecType::RolespecCstring)) => user.map(|user| user.rolename.clone()),
                _ => {
                    return Err(Error::unsupported("a user mapping is declared for PUBLIC or for a name")
                        .with_hint("At start there is no current user."));
                }
            };
            let server = &statement.servername;
            let wanted = Mapping::new(server, role.as_deref(), "", &ddl::options(&statement.options)?)?;
            match known.mappings.get(&(server.clone(), role.clone().unwrap_or_default())) {
                None => ddl::server(engine, node, false, resources).map(drop),
                Some(there) if **there == wanted => Ok(()),
                Some(_) => {
                    let role = role.as_deref().unwrap_or("public");
                    let what = format!("user mapping for \"{role}\" and server \"{server}\"");
                    Err(differs(&what, "ALTER USER MAPPING"))
                }
            }
        }
        NodeEnum::CreateStmt(statement) if statement.access_method == ddl::ACCESS_METHOD => {
            let name = relation_name(statement.relation.as_ref())?;
            let Some(kept) = known.tables.get(&name) else {
                return engine.block_on(ddl::create(engine, statement, text, false, resources))?.map(drop);
            };
            let there = StoredTable::read(&name, kept)?.made;
            let written = |statement| statement_text(&NodeEnum::CreateStmt(statement));
            let mut wanted = statement.clone();
            // That is said of the statement, and not of the table.
            wanted.if_not_exists = there.if_not_exists;
            name_checks(&mut wanted)?;
            if written(there)? == written(wanted)? {
                return Ok(());
            }
            Err(differs(&format!("table \"{name}\""), "ALTER TABLE"))
        }
        _ => {
            let message = "only CREATE SERVER, CREATE USER MAPPING and CREATE TABLE ... USING sharded can be declared";
            Err(Error::unsupported(format!("{message}: {}", text.lines().next().unwrap_or_default())))
        }
    }
}

/// 55000
fn differs(what: &str, command: &str) -> Error {
    let message = format!("{what} is declared otherwise than it is known here");
    Error::new(ErrorCode::ObjectNotInPrerequisiteState, message)
        .with_hint(format!("Start without the declaration and use {command}, or declare it as it is."))
}
