//! The grammar gate: PostgreSQL's own parser decides what is SQL, what class a statement has, and where an error is.
//!
//! Called once per statement text. Never interprets names: that is planning.

use ashlar_base::{Error, ErrorCode, Result};
use pg_query::NodeEnum;

/// What SHOW has a view for instead of a setting, as users of PgBouncer know it.
pub(crate) const SHOWN_POOLS: &str = "pools";

/// One statement of a query string.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// The statement's own text, without the separating semicolon.
    pub text: String,
    /// Where that begins in the query string, in bytes; locations in the tree count from the string's beginning.
    pub offset: usize,
    /// Its parse tree.
    pub node: NodeEnum,
}

impl ParsedStatement {
    /// Whether its plan is worth keeping: it depends on nothing but the catalog, and is likely to come again.
    pub fn is_plan_kept(&self) -> bool {
        matches!(
            self.node,
            NodeEnum::SelectStmt(_) | NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_)
        )
    }

    /// Whether there is nothing to plan in it: what it does stands in its tree.
    pub fn is_command(&self) -> bool {
        match &self.node {
            NodeEnum::VariableShowStmt(show) => show.name != SHOWN_POOLS,
            node => matches!(
                node,
                NodeEnum::TransactionStmt(_)
                    | NodeEnum::VariableSetStmt(_)
                    | NodeEnum::FetchStmt(_)
                    | NodeEnum::ClosePortalStmt(_)
                    | NodeEnum::DeallocateStmt(_)
                    | NodeEnum::DiscardStmt(_)
            ),
        }
    }

    /// Whether there may be a password in its text.
    pub fn may_hold_password(&self) -> bool {
        matches!(
            self.node,
            NodeEnum::CreateForeignServerStmt(_)
                | NodeEnum::AlterForeignServerStmt(_)
                | NodeEnum::CreateUserMappingStmt(_)
                | NodeEnum::AlterUserMappingStmt(_)
                | NodeEnum::CreateRoleStmt(_)
                | NodeEnum::AlterRoleStmt(_)
        )
    }

    /// Whether it ends a transaction block: what a block that has failed accepts.
    pub fn ends_failed_block(&self) -> bool {
        use pg_query::protobuf::TransactionStmtKind;
        match &self.node {
            NodeEnum::TransactionStmt(statement) => matches!(
                TransactionStmtKind::try_from(statement.kind),
                Ok(TransactionStmtKind::TransStmtCommit
                    | TransactionStmtKind::TransStmtRollback
                    | TransactionStmtKind::TransStmtRollbackTo)
            ),
            _ => false,
        }
    }
}

/// Whether a statement's text holds a time that means another instant in another time zone. PostgreSQL reads such a
/// constant when a statement is prepared, and not again.
pub fn holds_local_time(sql: &str) -> bool {
    use ashlar_base::value::datetime::parse_timestamptz;
    use ashlar_base::value::text::Zone;
    let read = |text: &str, zone: Zone| parse_timestamptz(text, zone).ok();
    // Every piece between quotes, whichever side of them it is on: one too many is only looked at in vain.
    sql.split('\'').any(|piece| read(piece, Zone::Utc) != read(piece, Zone::Fixed(3600)))
}

/// Whether a text may hold a query that locks rows: not without the word that the clause begins with.
pub fn may_lock(sql: &str) -> bool {
    sql.as_bytes().windows(4).any(|word| word[..3].eq_ignore_ascii_case(b"for") && word[3].is_ascii_whitespace())
}

/// How many places of one token are tried when the place of a syntax error is looked for.
const ERROR_CANDIDATES_MAX: usize = 64;

/// Parses a query string into its statements; empty statements are left out.
///
/// # Errors
/// 42601 with PostgreSQL's message and the position, in characters from 1.
pub fn parse(sql: &str) -> Result<Vec<ParsedStatement>> {
    if sql.contains('\0') {
        return Err(Error::new(
            ErrorCode::CharacterNotInRepertoire,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    let parsed = ashlar_functions::sql::parse(sql).map_err(|error| syntax_error(sql, &error))?;
    let mut statements = Vec::with_capacity(parsed.protobuf.stmts.len());
    for raw in parsed.protobuf.stmts {
        let start = usize::try_from(raw.stmt_location).unwrap_or(0);
        let length = usize::try_from(raw.stmt_len).unwrap_or(0);
        let end = if length == 0 { sql.len() } else { start + length };
        let text = sql.get(start..end).unwrap_or(sql);
        let offset = start + (text.len() - text.trim_start().len());
        let text = text.trim().trim_end_matches(';').trim_end();
        if let Some(node) = raw.stmt.and_then(|node| node.node) {
            statements.push(ParsedStatement { text: text.to_owned(), offset, node });
        }
    }
    Ok(statements)
}

/// The only statement of a string; `None` if it holds none.
///
/// # Errors
/// 42601 for more than one.
pub fn only_one(mut statements: Vec<ParsedStatement>) -> Result<Option<ParsedStatement>> {
    if statements.len() > 1 {
        return Err(Error::new(ErrorCode::SyntaxError, "cannot insert multiple commands into a prepared statement"));
    }
    Ok(statements.pop())
}

fn syntax_error(sql: &str, error: &pg_query::Error) -> Error {
    let text = error.to_string();
    let is_deep = text.contains("memory exhausted") || text.contains("stack depth limit exceeded");
    if matches!(error, pg_query::Error::Decode(_)) || is_deep {
        return Error::new(ErrorCode::StatementTooComplex, "stack depth limit exceeded")
            .with_hint("Nest less: the statement is too deep for the parser.");
    }
    let message = match error {
        pg_query::Error::Parse(message) => message.clone(),
        other => other.to_string(),
    };
    // What the grammar says of a window's frame itself has a code of its own.
    let is_of_frame = message.starts_with("frame start") || message.starts_with("frame end");
    let code = if is_of_frame { ErrorCode::WindowingError } else { ErrorCode::SyntaxError };
    let result = Error::new(code, message.clone());
    match error_offset(sql, &message) {
        Some(offset) => {
            let characters = sql[..offset].chars().count();
            result.at(u32::try_from(characters + 1).unwrap_or(u32::MAX))
        }
        None => result,
    }
}

/// The byte offset of a syntax error. The parser reports the token only. Of its occurrences, the error is at the one where the text up to
/// it fails with the same message.
fn error_offset(sql: &str, message: &str) -> Option<usize> {
    if message.ends_with("at end of input") {
        return Some(sql.len());
    }
    let token = message.split_once("at or near \"")?.1.strip_suffix('"')?;
    if token.is_empty() {
        return None;
    }
    let occurrences: Vec<usize> =
        sql.match_indices(token).map(|(offset, _)| offset).take(ERROR_CANDIDATES_MAX).collect();
    if let [only] = occurrences[..] {
        return Some(only);
    }
    occurrences.into_iter().find(|offset| {
        let prefix = &sql[..offset + token.len()];
        matches!(ashlar_functions::sql::parse(prefix), Err(pg_query::Error::Parse(again)) if again == message)
    })
}

/// Finds where a name stands in a statement, outside quotes and comments as far as a word search can tell:
/// characters from 1. For the position of errors that planning finds.
pub fn position_of_name(sql: &str, name: &str) -> Option<u32> {
    if name.is_empty() {
        return None;
    }
    let lower = sql.to_ascii_lowercase();
    let name = name.to_ascii_lowercase();
    let is_word = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut quotes = 0;
    let mut last = 0;
    for (offset, _) in lower.match_indices(&name) {
        quotes += lower[last..offset].matches('\'').count();
        last = offset;
        let before = lower[..offset].chars().next_back();
        let after = lower[offset + name.len()..].chars().next();
        if quotes % 2 == 0 && !is_word(before) && !is_word(after) {
            return u32::try_from(sql[..offset].chars().count() + 1).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests;
