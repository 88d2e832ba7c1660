//! COPY FROM STDIN into a sharded table: its columns, where the sharding key is in the data, and the command for each
//! shard.
//!
//! Planned here; carried out by the session, which has the connections.

use std::sync::Arc;

use ashlar_base::{ColumnDefault, Error, Result, SqlType, Value};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::rules::{Generator, Placement, Shard};

use super::ShardedTable;
use crate::copy::{CopyFormat, CopyOptions};

/// Where a column of the sharding key is.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    /// In the data, at this place.
    Field(usize),
    /// The same in every row.
    Constant(Value),
    /// Generated for each row.
    Made,
}

/// A planned COPY FROM STDIN into a sharded table.
pub struct CopyInto {
    /// The table.
    pub table: Arc<ShardedTable>,
    /// Ordinals of the columns that the input has.
    pub targets: Vec<usize>,
    /// Where each column of the sharding key is.
    pub key: Vec<KeySource>,
    /// The column whose values are generated here because the input does not have it.
    pub made: Option<(usize, Generator)>,
    /// The form.
    pub options: CopyOptions,
}

impl CopyInto {
    /// # Errors
    /// 0A000 if a value that is not in the input would be needed here.
    pub(crate) fn new(table: &Arc<ShardedTable>, targets: Vec<usize>, options: CopyOptions) -> Result<Self> {
        let rule = &table.routed.rule;
        let columns = &table.schema.columns;
        let made = rule.generated().filter(|(ordinal, _)| !targets.contains(ordinal));
        let refused = |ordinal: usize, why: &str| {
            let name = &columns[ordinal].name;
            let message = format!("COPY that leaves out column \"{name}\" {why} is not supported");
            Err(Error::unsupported(message).with_hint("Have the column in the data."))
        };
        let mut key = Vec::with_capacity(rule.key().len());
        for ordinal in rule.key() {
            key.push(match targets.iter().position(|target| target == ordinal) {
                Some(place) => KeySource::Field(place),
                None if made.is_some_and(|(made, _)| made == *ordinal) => KeySource::Made,
                None => match &columns[*ordinal].default {
                    None => KeySource::Constant(Value::Null),
                    Some(ColumnDefault::Constant(value)) => KeySource::Constant(value.clone()),
                    Some(_) => return refused(*ordinal, "of the sharding key, whose default is computed"),
                },
            });
        }
        let is_computed = |ordinal: &usize| {
            let is_left_out = !targets.contains(ordinal) && made.is_none_or(|(made, _)| made != *ordinal);
            is_left_out && matches!(columns[*ordinal].default, Some(ColumnDefault::Expression(_)))
        };
        // Each copy of a row would have a value of its own.
        if rule.placement() == Placement::Broadcast
            && let Some(ordinal) = (0..columns.len()).find(is_computed)
        {
            return refused(ordinal, "of a table that is on all servers, whose default is computed,");
        }
        Ok(Self { table: Arc::clone(table), targets, key, made, options })
    }

    /// Whether one shard takes the data unchanged.
    pub fn is_passed_on(&self) -> bool {
        self.table.routed.rule.shards().len() == 1 && self.made.is_none()
    }

    /// The COPY command for a shard: in the text format, or in the format that the client sends.
    pub fn text(&self, shard: &Shard) -> String {
        let (schema, table) = (quote_ident(&shard.schema), quote_ident(&shard.table));
        format!("COPY {schema}.{table} ({}) FROM STDIN{}", self.names(), self.form())
    }

    /// A query whose columns are those that a shard is sent values for.
    pub fn look(&self, shard: &Shard) -> String {
        format!("SELECT {} FROM {}.{}", self.names(), quote_ident(&shard.schema), quote_ident(&shard.table))
    }

    /// The types of these columns.
    pub fn types(&self) -> Vec<SqlType> {
        self.ordinals().map(|ordinal| self.table.schema.columns[ordinal].sql_type).collect()
    }

    /// The columns that a shard is sent values for.
    fn ordinals(&self) -> impl Iterator<Item = usize> {
        self.targets.iter().copied().chain(self.made.map(|(ordinal, _)| ordinal))
    }

    fn names(&self) -> String {
        let names = self.ordinals().map(|ordinal| quote_ident(&self.table.schema.columns[ordinal].name));
        names.collect::<Vec<String>>().join(", ")
    }

    fn form(&self) -> String {
        let options = &self.options;
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let byte = |byte: u8| quoted(&char::from(byte).to_string());
        let header = if options.header { ", HEADER" } else { "" };
        match (options.format, self.is_passed_on()) {
            (CopyFormat::Binary, _) => " WITH (FORMAT binary)".to_owned(),
            (_, false) => String::new(),
            (CopyFormat::Text, true) => {
                let (delimiter, null) = (byte(options.delimiter), quoted(&options.null));
                format!(" WITH (FORMAT text, DELIMITER {delimiter}, NULL {null}{header})")
            }
            (CopyFormat::Csv, true) => format!(
                " WITH (FORMAT csv, DELIMITER {}, NULL {}, QUOTE {}, ESCAPE {}{header})",
                byte(options.delimiter),
                quoted(&options.null),
                byte(options.quote),
                byte(options.escape)
            ),
        }
    }
}
