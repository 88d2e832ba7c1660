//! The name of a statement that is not supported, for the error that refuses it.
//!
//! Called for statements that no other part of planning knows.

use ashlar_base::Error;
use pg_query::NodeEnum;

/// 0A000, and what a dump can leave out.
pub(super) fn refusal(node: &NodeEnum, text: &str) -> Error {
    let error = Error::unsupported(format!("{} is not supported", command(node, text)));
    match node {
        NodeEnum::GrantStmt(_) | NodeEnum::GrantRoleStmt(_) | NodeEnum::AlterDefaultPrivilegesStmt(_) => {
            error.with_hint("Every user may do everything here. pg_dump --no-privileges leaves such statements out.")
        }
        NodeEnum::AlterOwnerStmt(_) => error.with_hint("pg_dump --no-owner leaves such statements out."),
        NodeEnum::CheckPointStmt(_) => error.with_hint("Tables in memory are on no disk: there is nothing to write."),
        NodeEnum::ClusterStmt(_) => {
            error.with_hint("Rows in memory have no order. ORDER BY of a query gives them one.")
        }
        NodeEnum::ViewStmt(_) => error.with_hint("Make a table of its rows with CREATE TABLE ... AS, or leave it out."),
        _ => error,
    }
}

/// The command, as PostgreSQL's documentation is titled; the first word of the text where it is a rare one.
pub(super) fn command(node: &NodeEnum, text: &str) -> String {
    let name = match node {
        NodeEnum::AlterDatabaseStmt(_) | NodeEnum::AlterDatabaseSetStmt(_) => "ALTER DATABASE",
        NodeEnum::AlterDefaultPrivilegesStmt(_) => "ALTER DEFAULT PRIVILEGES",
        NodeEnum::AlterOwnerStmt(_) => "ALTER ... OWNER TO",
        NodeEnum::AlterRoleStmt(_) | NodeEnum::AlterRoleSetStmt(_) => "ALTER ROLE",
        NodeEnum::AlterSeqStmt(_) => "ALTER SEQUENCE",
        NodeEnum::AlterSystemStmt(_) => "ALTER SYSTEM",
        NodeEnum::CallStmt(_) => "CALL",
        NodeEnum::CheckPointStmt(_) => "CHECKPOINT",
        NodeEnum::ClusterStmt(_) => "CLUSTER",
        NodeEnum::CommentStmt(_) => "COMMENT",
        NodeEnum::CompositeTypeStmt(_) | NodeEnum::CreateEnumStmt(_) | NodeEnum::CreateRangeStmt(_) => "CREATE TYPE",
        NodeEnum::ConstraintsSetStmt(_) => "SET CONSTRAINTS",
        NodeEnum::CreateDomainStmt(_) => "CREATE DOMAIN",
        NodeEnum::CreateExtensionStmt(_) => "CREATE EXTENSION",
        NodeEnum::CreateFunctionStmt(statement) if statement.is_procedure => "CREATE PROCEDURE",
        NodeEnum::CreateFunctionStmt(_) => "CREATE FUNCTION",
        NodeEnum::CreatePolicyStmt(_) => "CREATE POLICY",
        NodeEnum::CreatePublicationStmt(_) => "CREATE PUBLICATION",
        NodeEnum::CreateRoleStmt(_) => "CREATE ROLE",
        NodeEnum::CreateSchemaStmt(_) => "CREATE SCHEMA",
        NodeEnum::CreateSeqStmt(_) => "CREATE SEQUENCE",
        NodeEnum::CreateStatsStmt(_) => "CREATE STATISTICS",
        NodeEnum::CreateTrigStmt(_) => "CREATE TRIGGER",
        NodeEnum::CreatedbStmt(_) => "CREATE DATABASE",
        NodeEnum::DoStmt(_) => "DO",
        NodeEnum::DropRoleStmt(_) => "DROP ROLE",
        NodeEnum::DropdbStmt(_) => "DROP DATABASE",
        NodeEnum::GrantStmt(statement) if statement.is_grant => "GRANT",
        NodeEnum::GrantRoleStmt(statement) if statement.is_grant => "GRANT",
        NodeEnum::GrantStmt(_) | NodeEnum::GrantRoleStmt(_) => "REVOKE",
        NodeEnum::ListenStmt(_) => "LISTEN",
        NodeEnum::LockStmt(_) => "LOCK TABLE",
        NodeEnum::MergeStmt(_) => "MERGE",
        NodeEnum::NotifyStmt(_) => "NOTIFY",
        NodeEnum::RefreshMatViewStmt(_) => "REFRESH MATERIALIZED VIEW",
        NodeEnum::ReindexStmt(_) => "REINDEX",
        NodeEnum::RuleStmt(_) => "CREATE RULE",
        NodeEnum::ViewStmt(_) => "CREATE VIEW",
        _ => return text.split_whitespace().next().unwrap_or("this statement").to_uppercase(),
    };
    name.to_owned()
}
