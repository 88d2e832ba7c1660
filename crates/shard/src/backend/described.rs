//! The columns and parameter types of a statement, as its shard describes them, checked against what is expected before
//! a row is passed on.
//!
//! Called by sessions, and by code that merges answers. This is where a table is found out that differs between shards,
//! or that has changed since a statement was prepared: rows are never taken for rows of other columns than the client
//! was told of. A statement that a connection has found to look as expected is not described again, because the shard
//! itself refuses (0A000) to run a prepared statement whose columns have changed.

use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};
use ashlar_protocol::pg::client::{self, BadMessage, HEADER_BYTES};
use ashlar_protocol::pg::{Target, TransactionStatus, ValueFormat};

use super::scan::no_message;
use super::{Backend, Nothing, STALE, StatementName, TextNumber};

/// Numbers of types from here on are each database's own.
const OWN_TYPE_MIN: u32 = 16_384;

/// What a statement looks like, as its shard says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Types of its parameters.
    pub parameters: Vec<u32>,
    /// Its columns; `None` where no rows come back.
    pub columns: Option<Vec<DescribedColumn>>,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedColumn {
    /// Its name.
    pub name: String,
    /// The number of its type.
    pub oid: u32,
    /// The type's length in bytes, or -1.
    pub typlen: i16,
    /// The type's modifier, or -1.
    pub typmod: i32,
}

/// The type that values in binary form are read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadType {
    oid: u32,
    /// Where values are others with another one.
    typmod: Option<i32>,
}

impl From<u32> for ReadType {
    fn from(oid: u32) -> Self {
        Self { oid, typmod: None }
    }
}

impl From<SqlType> for ReadType {
    fn from(sql_type: SqlType) -> Self {
        let is_modified = matches!(sql_type.scalar(), ScalarType::Numeric { .. } | ScalarType::Char { .. });
        Self { oid: sql_type.oid(), typmod: is_modified.then(|| sql_type.typmod()) }
    }
}

impl Described {
    /// What the RowDescription of an answer says, whole.
    ///
    /// # Errors
    /// 08P01 where it is none.
    pub fn of_answer(server: &str, message: &[u8]) -> Result<Self> {
        let columns = message.get(HEADER_BYTES..).and_then(|body| columns_of(body).ok());
        let columns = columns.ok_or_else(|| no_message(server))?;
        Ok(Self { parameters: Vec::new(), columns: Some(columns) })
    }

    /// Holds the RowDescription of a server's answer, whole, against this.
    ///
    /// # Errors
    /// 42804 where its columns are others; 08P01 where it is none.
    pub fn check_answer(&self, server: &str, message: &[u8]) -> Result<()> {
        self.check_shown(server, &Self::of_answer(server, message)?, 0)
    }

    /// Holds the columns of a server's answer, but for so many at the end, against this.
    ///
    /// # Errors
    /// 42804 where they are others.
    pub fn check_shown(&self, server: &str, found: &Self, hidden: usize) -> Result<()> {
        let shown = found.columns.as_deref().map(|columns| &columns[..columns.len().saturating_sub(hidden)]);
        other_columns(self.columns.as_deref(), shown).map_or(Ok(()), |told| Err(other(server, told)))
    }

    /// Whether a column is of a type that only its database knows, such as the row of a table.
    pub fn has_own_types(&self) -> bool {
        self.columns.iter().flatten().any(|column| is_own(column.oid))
    }

    /// Whether there is nothing in which a statement could differ from this.
    pub(super) fn is_silent(&self) -> bool {
        self.parameters.is_empty() && self.columns.is_none()
    }
}

impl Backend {
    /// What a statement looks like; the connection remembers it as prepared.
    ///
    /// # Errors
    /// What the shard says; 08006 where it is gone.
    pub async fn describe(&mut self, text: &str, types: &[u32]) -> Result<Described> {
        let name = self.statements.queue(&mut self.outbox, text, types, &self.settings.time_zone);
        match self.described(name).await {
            // It was parsed when its tables were others, and is forgotten by now. In a transaction that has ended all of it.
            Err(error) if self.status == TransactionStatus::Idle && is_stale(&error) && !self.is_broken() => {
                let name = self.statements.queue(&mut self.outbox, text, types, &self.settings.time_zone);
                self.described(name).await
            }
            described => described,
        }
    }

    /// The same of a text that will not come again: the connection remembers nothing of it.
    ///
    /// # Errors
    /// What the shard says; 08006 where it is gone.
    pub async fn describe_once(&mut self, text: &str) -> Result<Described> {
        let name = self.statements.queue_unnamed(&mut self.outbox, text, &[]);
        self.described(name).await
    }

    /// What a statement looks like that is parsed, or queued to be.
    async fn described(&mut self, name: StatementName) -> Result<Described> {
        self.queue_description(name);
        client::sync(&mut self.outbox);
        self.awaited += 1;
        self.flush().await?;
        let mut described = Described::default();
        let mut failure = None;
        loop {
            let (tag, range) = self.message().await?;
            let body = &self.inbox[range];
            // What was queued before may have columns, too.
            let is_asked = self.awaited == 1;
            match tag {
                b't' if is_asked => {
                    let types = client::parameter_description(body);
                    described.parameters = types.map_err(|BadMessage| self.garbled())?;
                }
                b'T' if is_asked => {
                    let columns = columns_of(body);
                    described.columns = Some(columns.map_err(|BadMessage| self.garbled())?);
                }
                b'E' => {
                    let error = self.failure_of(body);
                    failure.get_or_insert(error);
                }
                _ => {}
            }
            if is_asked && matches!(tag, b'T' | b'n') {
                self.statements.looks(Arc::new(described.clone()));
            }
            if self.note(tag, failure.as_ref())? {
                break;
            }
        }
        failure.map_or(Ok(described), Err)
    }

    /// Queues the question what a text looks like that will not come again: [`super::Taker::describe`] is told.
    pub fn queue_look(&mut self, text: &str) {
        let name = self.statements.queue_unnamed(&mut self.outbox, text, &[]);
        self.queue_description(name);
        client::sync(&mut self.outbox);
        self.awaited += 1;
    }

    /// Queues the question whether a statement looks as expected, which has no rows: the answer is 42804 where it does not. `false`: the
    /// connection knows that it does, and nothing is queued.
    pub fn queue_check(&mut self, statement: (&str, bool), types: &[u32], expected: &Arc<Described>) -> bool {
        if expected.is_silent() {
            return false;
        }
        let (name, is_checked) = self.queue_parsed(statement, types, expected);
        if is_checked {
            return false;
        }
        self.queue_description(name);
        client::sync(&mut self.outbox);
        self.awaited += 1;
        self.check = Some(Arc::clone(expected));
        true
    }

    /// Makes sure that a statement looks as expected, before it is run.
    ///
    /// # Errors
    /// 42804 where it does not; what the shard says; 08006 where it is gone.
    pub async fn check(&mut self, statement: (&str, bool), types: &[u32], expected: &Arc<Described>) -> Result<()> {
        match self.queue_check(statement, types, expected) {
            true => self.answer(&mut Nothing).await.map(drop),
            false => Ok(()),
        }
    }

    /// Queues a statement of the extended protocol: Parse where the connection does not know it, Bind, Execute, Sync. Where it is not known
    /// to look as expected it is asked that on the way: where it does not the answer is 42804, and none of its rows is passed on; what it
    /// has changed it has. The flag says whether its text is likely to come again.
    pub fn queue_checked<'a>(
        &mut self,
        statement: (&str, bool),
        types: &[u32],
        (portal, rows_max): (&str, i32),
        parameters: impl ExactSizeIterator<Item = (ValueFormat, Option<&'a [u8]>)> + Clone,
        formats: &[ValueFormat],
        expected: &Arc<Described>,
    ) {
        let (name, is_checked) = self.queue_parsed(statement, types, expected);
        if !is_checked && !expected.is_silent() {
            self.queue_description(name);
            self.check = Some(Arc::clone(expected));
        }
        self.queue_bound(name, (portal, rows_max), parameters, formats);
    }

    /// The same of a statement that the connection knows, and knows to look as expected. `false`, and nothing is queued: it does not.
    pub fn queue_known<'a>(
        &mut self,
        text: (&str, TextNumber),
        types: &[u32],
        parameters: impl ExactSizeIterator<Item = (ValueFormat, Option<&'a [u8]>)> + Clone,
        formats: &[ValueFormat],
        expected: &Arc<Described>,
    ) -> bool {
        let Some(name) = self.statements.find(text, types, &self.settings.time_zone, expected) else { return false };
        self.queue_bound(name, ("", 0), parameters, formats);
        true
    }

    /// Queues a string of statements, the last of which answers with columns as expected or with 42804: nobody is told of them once more.
    pub fn queue_query_expecting(&mut self, sql: &str, expected: &Arc<Described>) {
        self.queue_query(sql);
        self.check = Some(Arc::clone(expected));
    }

    /// Parse, where the connection does not know the text, and whether it is known to look as expected.
    fn queue_parsed(
        &mut self,
        (text, is_kept): (&str, bool),
        types: &[u32],
        expected: &Arc<Described>,
    ) -> (StatementName, bool) {
        let out = &mut self.outbox;
        match is_kept {
            true => self.statements.queue_expecting(out, text, types, &self.settings.time_zone, expected),
            false => (self.statements.queue_unnamed(out, text, types), false),
        }
    }

    fn queue_description(&mut self, name: StatementName) {
        client::describe(&mut self.outbox, Target::Statement, name.as_str());
    }

    /// Holds what a statement says of itself, a message of this kind, against what is expected: 42804 where it differs.
    ///
    /// # Errors
    /// 08P01 where it is no such message.
    pub(super) fn compare(&mut self, tag: u8, range: Range<usize>) -> Result<Option<Error>> {
        let Some(expected) = self.check.clone() else { return Ok(None) };
        let body = &self.inbox[range];
        let columns = expected.columns.as_deref();
        let difference = match tag {
            b't' => client::parameter_description(body).map(|found| other_parameters(&expected.parameters, &found)),
            b'n' => Ok(other_columns(columns, None)),
            _ => columns_of(body).map(|found| other_columns(columns, Some(&found))),
        };
        let difference = difference.map_err(|BadMessage| self.garbled())?;
        // Its columns are the last that it says of itself.
        if tag != b't' {
            self.check = None;
        }
        match difference {
            Some(told) => {
                self.statements.failed(true);
                Ok(Some(other(&self.server.name, told)))
            }
            None => {
                if tag != b't' {
                    self.statements.looks(expected);
                }
                Ok(None)
            }
        }
    }
}

/// Whether a prepared statement is not what it was.
pub(super) fn is_stale(error: &Error) -> bool {
    STALE.contains(&error.sqlstate())
}

/// The columns in the body of a RowDescription.
fn columns_of(body: &[u8]) -> Result<Vec<DescribedColumn>, BadMessage> {
    let column = |column: client::DescribedColumn<'_>| DescribedColumn {
        name: column.name.to_owned(),
        oid: column.type_oid,
        typlen: column.typlen,
        typmod: column.typmod,
    };
    Ok(client::row_description(body)?.into_iter().map(column).collect())
}

/// 42804
fn other(server: &str, difference: String) -> Error {
    let message = format!("a table of shard \"{server}\" is not what this statement expects");
    Error::new(ErrorCode::DatatypeMismatch, message)
        .with_detail(difference)
        .with_hint("A table is altered alike on all of its shards, and a statement prepared again afterwards.")
        .with_context(format!("shard {server}"))
}

/// How columns differ from those that are expected; `None`: they do not.
fn other_columns(expected: Option<&[DescribedColumn]>, found: Option<&[DescribedColumn]>) -> Option<String> {
    let (expected, found) = match (expected, found) {
        (None, None) => return None,
        (Some(_), None) => return Some("There it answers with no rows.".to_owned()),
        (None, Some(_)) => return Some("There it answers with rows.".to_owned()),
        (Some(expected), Some(found)) => (expected, found),
    };
    if expected.len() != found.len() {
        return Some(format!("There it answers with {} columns instead of {}.", found.len(), expected.len()));
    }
    let told = |column: &DescribedColumn| {
        format!("\"{}\" of type {}", column.name, type_name(column.oid, Some(column.typmod)))
    };
    let at = expected.iter().zip(found).position(|(expected, found)| !is_alike(expected, found))?;
    Some(format!("There column {} is {} instead of {}.", at + 1, told(&found[at]), told(&expected[at])))
}

/// Whether rows of a column may be passed on as those of another. Without a modifier (-1) it takes those with any:
/// PostgreSQL tells a statement's before it plans, and a portal's afterwards, when a CASE may have become the one column
/// that it comes to, with that column's modifier.
fn is_alike(expected: &DescribedColumn, found: &DescribedColumn) -> bool {
    let is_same = (expected.oid == found.oid && (expected.typmod == -1 || expected.typmod == found.typmod))
        || (is_own(expected.oid) && is_own(found.oid) && expected.typlen == found.typlen);
    is_same && expected.name == found.name
}

/// Whether the number of a type says nothing between databases.
fn is_own(oid: u32) -> bool {
    oid >= OWN_TYPE_MIN
}

/// The same for the types of parameters.
fn other_parameters(expected: &[u32], found: &[u32]) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!("There it takes {} parameters instead of {}.", found.len(), expected.len()));
    }
    let is_other = |(expected, found): (&u32, &u32)| expected != found && !(is_own(*expected) && is_own(*found));
    let at = expected.iter().zip(found).position(is_other)?;
    let (found, expected) = (type_name(found[at], None), type_name(expected[at], None));
    Some(format!("There parameter ${} is of type {found} instead of {expected}.", at + 1))
}

/// How columns differ from those that are read; `None`: they do not.
pub(super) fn other_types<T: Copy + Into<ReadType>>(
    types: &[T],
    found: &[client::DescribedColumn<'_>],
) -> Option<String> {
    if types.len() != found.len() {
        return Some(format!("It answers with {} columns instead of {}.", found.len(), types.len()));
    }
    let is_other = |wanted: ReadType, found: &client::DescribedColumn<'_>| {
        wanted.oid != found.type_oid || wanted.typmod.is_some_and(|typmod| typmod != found.typmod)
    };
    let at = types.iter().zip(found).position(|(wanted, found)| is_other((*wanted).into(), found))?;
    let (wanted, found): (ReadType, _) = (types[at].into(), &found[at]);
    let (is, instead) = (type_name(found.type_oid, Some(found.typmod)), type_name(wanted.oid, wanted.typmod));
    Some(format!("Column \"{}\" is of type {is} instead of {instead}.", found.name))
}

/// A type as PostgreSQL writes it, or its number where it is none of ours.
fn type_name(oid: u32, typmod: Option<i32>) -> String {
    let Some(sql_type) = SqlType::from_oid(oid) else { return oid.to_string() };
    // Of a length, and of precision and scale.
    let modifier = typmod.and_then(|typmod| u32::try_from(typmod.checked_sub(4)?).ok());
    let scalar = match sql_type.scalar() {
        ScalarType::Varchar { .. } => ScalarType::Varchar { length: modifier },
        ScalarType::Char { .. } => ScalarType::Char { length: modifier },
        ScalarType::Numeric { .. } => {
            let name = modifier.map(|modifier| format!("numeric({},{})", modifier >> 16, modifier & 0x7ff));
            let name = name.unwrap_or_else(|| "numeric".to_owned());
            return if sql_type.is_array() { format!("{name}[]") } else { name };
        }
        other => other,
    };
    let named = if sql_type.is_array() { SqlType::Array(scalar) } else { SqlType::Scalar(scalar) };
    named.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, oid: u32, typmod: i32) -> DescribedColumn {
        let typlen = SqlType::from_oid(oid).map_or(4, SqlType::typlen);
        DescribedColumn { name: name.to_owned(), oid, typlen, typmod }
    }

    #[test]
    fn what_differs_is_told() {
        let expected = [column("k", 20, -1), column("n", 1700, (10 << 16) + 2 + 4)];
        let differs = |found: &[DescribedColumn]| other_columns(Some(&expected), Some(found));
        assert_eq!(differs(&expected), None);
        let all = [
            (vec![expected[0].clone()], "There it answers with 1 columns instead of 2."),
            (
                vec![expected[0].clone(), column("m", 1700, expected[1].typmod)],
                "There column 2 is \"m\" of type numeric(10,2) instead of \"n\" of type numeric(10,2).",
            ),
            (
                vec![expected[0].clone(), column("n", 1700, (12 << 16) + 4 + 4)],
                "There column 2 is \"n\" of type numeric(12,4) instead of \"n\" of type numeric(10,2).",
            ),
            (
                vec![column("k", 1043, 14), expected[1].clone()],
                "There column 1 is \"k\" of type character varying(10) instead of \"k\" of type bigint.",
            ),
        ];
        for (found, told) in all {
            assert_eq!(differs(&found).as_deref(), Some(told));
        }
        // What has no modifier takes any, and not the other way round.
        let plain = [column("k", 20, -1), column("n", 1700, -1)];
        assert_eq!(other_columns(Some(&plain), Some(&expected)), None);
        assert!(differs(&plain).is_some());
        assert_eq!(other_columns(None, None), None);
        assert!(other_columns(Some(&expected), None).is_some() && other_columns(None, Some(&expected)).is_some());
    }

    #[test]
    fn types_that_a_database_has_made_have_no_number_between_databases() {
        let differs = |found: DescribedColumn| other_columns(Some(&[column("m", 16_400, -1)]), Some(&[found]));
        assert_eq!(differs(column("m", 17_000, -1)), None);
        assert!(differs(column("m", 25, -1)).is_some());
        assert!(differs(DescribedColumn { typlen: -1, ..column("m", 17_000, -1) }).is_some());
        assert_eq!(other_parameters(&[16_400, 20], &[17_000, 20]), None);
        let told = other_parameters(&[20, 25], &[20, 1184]);
        assert_eq!(told.as_deref(), Some("There parameter $2 is of type timestamp with time zone instead of text."));
        assert!(other_parameters(&[20], &[]).is_some());
    }

    #[test]
    fn numbers_and_padded_texts_are_read_with_their_modifiers() {
        let found = |type_oid: u32, typmod: i32| client::DescribedColumn { name: "n", type_oid, typlen: -1, typmod };
        let numeric = SqlType::Scalar(ScalarType::Numeric { precision: 10, scale: 2 });
        assert_eq!(other_types(&[numeric], &[found(1700, numeric.typmod())]), None);
        let told = other_types(&[numeric], &[found(1700, (12 << 16) + 4 + 4)]);
        assert_eq!(told.as_deref(), Some("Column \"n\" is of type numeric(12,4) instead of numeric(10,2)."));
        let varchar = SqlType::Scalar(ScalarType::Varchar { length: Some(10) });
        assert_eq!(other_types(&[varchar], &[found(1043, 24)]), None);
        assert!(other_types(&[varchar], &[found(25, -1)]).is_some());
        let padded = SqlType::Scalar(ScalarType::Char { length: Some(4) });
        assert!(other_types(&[padded], &[found(1042, 9)]).is_some());
    }
}
