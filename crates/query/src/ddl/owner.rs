//! ALTER ... OWNER TO: accepted for the only owner there is, the session's user.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::error::undefined_table;
use pg_query::NodeEnum;
use pg_query::protobuf::{AlterTableStmt, AlterTableType, ObjectType, RoleSpec, RoleSpecType};

use super::{Done, relation_name};
use crate::catalog::CatalogState;

/// What an ALTER TABLE does that is about nothing but the owner, of tables of all homes, indexes and sequences; `None`: it is another one.
///
/// # Errors
/// 42704 for another role, 42P01 where there is nothing of the name.
pub(super) fn alter(state: &CatalogState, statement: &AlterTableStmt, user: &str) -> Result<Option<Done>> {
    let mut owners = Vec::new();
    for command in &statement.cmds {
        match &command.node {
            Some(NodeEnum::AlterTableCmd(command)) if command.subtype == AlterTableType::AtChangeOwner as i32 => {
                owners.push(command.newowner.as_ref());
            }
            _ => return Ok(None),
        }
    }
    if owners.is_empty() {
        return Ok(None);
    }
    let tag = match ObjectType::try_from(statement.objtype) {
        Ok(ObjectType::ObjectSequence) => "ALTER SEQUENCE",
        Ok(ObjectType::ObjectIndex) => "ALTER INDEX",
        Ok(ObjectType::ObjectView) => "ALTER VIEW",
        Ok(ObjectType::ObjectForeignTable) => "ALTER FOREIGN TABLE",
        _ => "ALTER TABLE",
    };
    let name = relation_name(statement.relation.as_ref())?;
    if !state.is_relation(&name) {
        if !statement.missing_ok {
            return Err(undefined_table(&name));
        }
        let message = format!("relation \"{name}\" does not exist, skipping");
        return Ok(Some(Done::notice(tag, ErrorCode::SuccessfulCompletion, message)));
    }
    owners.into_iter().try_for_each(|owner| check(owner, user))?;
    Ok(Some(Done::tag(tag)))
}

fn check(owner: Option<&RoleSpec>, user: &str) -> Result<()> {
    let Some(owner) = owner else { return Err(Error::internal("OWNER TO without a role")) };
    let name = match RoleSpecType::try_from(owner.roletype) {
        Ok(RoleSpecType::RolespecCstring) => owner.rolename.as_str(),
        Ok(RoleSpecType::RolespecPublic) => "public",
        _ => user,
    };
    if name == user {
        return Ok(());
    }
    Err(Error::new(ErrorCode::UndefinedObject, format!("role \"{name}\" does not exist"))
        .with_hint("The one role is the user of the session. pg_dump --no-owner leaves owners out."))
}
