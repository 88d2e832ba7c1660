//! INSERT whose rows are computed before any shard is asked: each shard is sent its own rows as constants.
//!
//! Called by code that has computed the rows. The clauses after the rows, ON CONFLICT and RETURNING, are sent to the
//! shards as written, so they may refer only to the rows themselves. Where the rows come from does not matter here.

use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Error, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{OnConflictAction, OverridingKind};

use super::analysis::Analysis;
use super::functions;
use super::scope::{From, Occurrences};
use super::{ShardedTable, Source, Tables};
use crate::rewrite::quoted;
use crate::rewrite::scan::{self, Token, Tokens};
use crate::rules::{Placement, Shard};

/// See the module.
#[derive(Debug)]
pub struct Spread {
    table: Arc<ShardedTable>,
    /// What the table is called behind the rows.
    alias: Box<str>,
    /// From ON CONFLICT or RETURNING to the end; empty where there is neither.
    tail: Box<str>,
    /// Whether ON CONFLICT changes rows.
    updates: bool,
    /// Whether it says OVERRIDING SYSTEM VALUE, which stands before the rows.
    overrides: bool,
}

impl Spread {
    /// What an INSERT into a table of a fleet is besides its rows.
    ///
    /// # Errors
    /// 0A000 where ON CONFLICT or RETURNING cannot be given to shards that have some of the rows each.
    pub fn new(source: &Source<'_>, tables: &dyn Tables) -> Result<Self> {
        let NodeEnum::InsertStmt(insert) = source.node else { return Err(Error::internal("this is no INSERT")) };
        let Some(relation) = &insert.relation else { return Err(Error::internal("an INSERT without a table")) };
        let mut analysis = Analysis::new(tables, source.text, source.offset);
        let Some(table) = analysis.find(relation) else {
            return Err(Error::internal("the rows of an INSERT are for a table that is not sharded"));
        };
        let named = analysis.occurrence(relation, Arc::clone(&table))?;
        let alias = named.alias.as_str().into();
        let target = From::of(named, Occurrences::between(0, 1), vec![0]);
        analysis.behind(insert, &table, &target)?;
        if let Some(objection) = &analysis.objection {
            return Err(Error::unsupported(format!("cannot be done on shards: {objection}")));
        }
        if analysis.occurrences.len() > 1 || analysis.is_elsewhere {
            return Err(Error::unsupported(
                "a table that is read in ON CONFLICT or RETURNING of rows for several shards is not supported",
            ));
        }
        if analysis.has_schema_columns {
            return Err(Error::unsupported(
                "columns named with their table's schema cannot be given to shards with other tables",
            ));
        }
        let has_conflict = insert.on_conflict_clause.is_some();
        let tail: Box<str> = if has_conflict || insert.returning_clause.is_some() {
            let start = tail_of(source.text, has_conflict);
            let tail = start.and_then(|start| with_names(source.text, start, &analysis.named));
            tail.ok_or_else(|| Error::unsupported("the end of this INSERT cannot be found in its text"))?
        } else {
            Box::default()
        };
        let varies = match table.rule.placement() {
            Placement::Single => false,
            Placement::Sharded => analysis.differs || functions::names_a_moment(&tail),
            Placement::Broadcast => !analysis.is_same_everywhere || functions::names_a_moment(&tail),
        };
        if varies {
            return Err(Error::unsupported(
                "an expression in ON CONFLICT or RETURNING would have another value on each server",
            )
            .with_hint("Write constants and parameters."));
        }
        let updates = insert.on_conflict_clause.as_ref().is_some_and(|conflict| {
            OnConflictAction::try_from(conflict.action) == Ok(OnConflictAction::OnconflictUpdate)
        });
        let overrides = OverridingKind::try_from(insert.r#override) == Ok(OverridingKind::OverridingSystemValue);
        Ok(Self { table, alias, tail, updates, overrides })
    }

    /// What the table is called behind the rows.
    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// Whether there is an ON CONFLICT or a RETURNING.
    pub fn has_tail(&self) -> bool {
        !self.tail.is_empty()
    }

    /// Whether a shard has to be sent all of its rows at once: ON CONFLICT DO UPDATE changes no row twice in one statement, and says
    /// so where it would.
    pub fn is_whole(&self) -> bool {
        self.updates
    }

    /// Whether parameters are read behind the rows.
    pub fn has_parameters(&self) -> bool {
        !scan::parameters(&self.tail).is_empty()
    }

    /// What stands behind the rows, with what is written for each parameter, which has this number from 0.
    ///
    /// # Errors
    /// Those of `written`.
    pub fn tail(&self, mut written: impl FnMut(u16) -> Result<String>) -> Result<String> {
        let mut tail = String::with_capacity(self.tail.len());
        let mut copied = 0;
        for (place, number) in scan::parameters(&self.tail) {
            tail.push_str(&self.tail[copied..place.start]);
            tail.push_str(&written(number)?);
            copied = place.end;
        }
        tail.push_str(&self.tail[copied..]);
        Ok(tail)
    }

    /// What a shard is sent: rows, each in parentheses and with commas between them, of these columns.
    pub fn text(&self, shard: &Shard, columns: &[usize], rows: &str, tail: &str) -> String {
        let names: Vec<String> = columns.iter().map(|column| quoted(&self.table.columns[*column].name)).collect();
        let (schema, table, alias) = (quoted(&shard.schema), quoted(&shard.table), quoted(&self.alias));
        let overriding = if self.overrides { " OVERRIDING SYSTEM VALUE" } else { "" };
        format!("INSERT INTO {schema}.{table} AS {alias} ({}){overriding} VALUES {rows} {tail}", names.join(", "))
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.alias.len() + self.tail.len()
    }
}

/// The text from a place on, with names of columns in these places of it; `None` where one stands before.
fn with_names(text: &str, start: usize, named: &[(Range<usize>, String)]) -> Option<Box<str>> {
    let (mut tail, mut copied) = (String::new(), start);
    for (place, names) in named {
        tail.push_str(text.get(copied..place.start)?);
        tail.push_str(names);
        copied = place.end;
    }
    tail.push_str(text.get(copied..)?);
    Some(tail.into())
}

/// Where ON CONFLICT stands, or RETURNING where there is no such: the last of its words outside of parentheses that is no name.
fn tail_of(text: &str, has_conflict: bool) -> Option<usize> {
    let mut depth = 0_i32;
    let mut found = None;
    // The token before, and whether it makes a name of what follows.
    let mut before: Option<(Range<usize>, bool)> = None;
    for (token, place) in Tokens::new(text, 0) {
        match token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') => depth -= 1,
            _ => {}
        }
        let is = |word: &str| token == Token::Word && text[place.clone()].eq_ignore_ascii_case(word);
        let is_name = before.as_ref().is_some_and(|(_, makes_name)| *makes_name);
        if depth == 0 && !is_name {
            match &before {
                Some((on, _)) if has_conflict && is("conflict") && text[on.clone()].eq_ignore_ascii_case("on") => {
                    found = Some(on.start);
                }
                _ if !has_conflict && is("returning") => found = Some(place.start),
                _ => {}
            }
        }
        let makes_name = token == Token::Sign(b'.') || is("as");
        before = Some((place, makes_name));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::tail_of;

    #[test]
    fn what_is_behind_the_rows_is_found_by_its_words() {
        let all = [
            ("INSERT INTO t SELECT 1 RETURNING k", false, "RETURNING k"),
            ("INSERT INTO t SELECT 1 AS returning returning k, t.returning", false, "returning k, t.returning"),
            ("INSERT INTO t SELECT 1 RETURNING k AS returning", false, "RETURNING k AS returning"),
            ("INSERT INTO t SELECT (SELECT 1) /* RETURNING */ RETURNING 'RETURNING'", false, "RETURNING 'RETURNING'"),
            (
                "INSERT INTO t SELECT * FROM a JOIN b ON a.k = b.k on conflict do nothing RETURNING k",
                true,
                "on conflict do nothing RETURNING k",
            ),
            (
                "WITH c AS (SELECT 1) INSERT INTO t TABLE c ON CONFLICT (k) DO UPDATE SET v = 'ON CONFLICT'",
                true,
                "ON CONFLICT (k) DO UPDATE SET v = 'ON CONFLICT'",
            ),
        ];
        for (text, has_conflict, expected) in all {
            assert_eq!(tail_of(text, has_conflict).map(|start| &text[start..]), Some(expected), "{text}");
        }
        assert_eq!(tail_of("INSERT INTO t SELECT 1", false), None);
    }
}
