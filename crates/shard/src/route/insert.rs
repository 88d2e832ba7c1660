//! INSERT: which row goes where, and the text of those that go to one shard.

use std::ops::Range;

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{ColumnDef, ColumnDefault, Error, ErrorCode, Result, ScalarType, SqlType, Value};
use pg_query::NodeEnum;
use pg_query::protobuf::{InferClause, InsertStmt, Node, OnConflictAction, SelectStmt};

use super::analysis::{Analysis, Conjunct, Fed, Occurrence, Written};
use super::nodes;
use super::operand::{Known, Operand};
use super::query::Query;
use super::scope::{From, Named, Occurrences, Scope, Variable};
use super::{Request, ShardedTable};
use crate::rewrite::{quoted, scan};
use crate::rules::{Generator, Key, KeyClass, Placement, ShardId};

/// Rows that one INSERT may have: each is looked at by itself.
const ROWS_MAX: usize = 100_000;

/// The rows of `INSERT ... VALUES`.
#[derive(Debug, PartialEq)]
pub(super) struct Rows {
    /// Each row's bytes in the text, with its parentheses.
    pub(super) places: Vec<Range<usize>>,
    /// Of each row, the values of the sharding key's columns.
    keys: Vec<Vec<Source>>,
    pub(super) generated: Option<Generated>,
}

/// Where a key's value comes from.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    Operand(Operand),
    Generated,
}

/// A column whose values are made here.
#[derive(Debug, PartialEq)]
pub(super) struct Generated {
    pub(super) generator: Generator,
    pub(super) sql_type: SqlType,
    /// What the column list gets, and where.
    pub(super) column: Option<(usize, String)>,
    /// Of each row, what its value replaces; an empty range is the place before the closing parenthesis, or `None`: the
    /// row has a value of its own.
    pub(super) values: Vec<Option<Range<usize>>>,
}

/// The rows of a statement under its parameters.
pub(super) struct Placed {
    /// The shard of each row.
    pub(super) shards: Vec<ShardId>,
    /// The generated value of each row, as it is written in SQL; none where nothing is generated.
    pub(super) generated: Vec<Option<String>>,
}

impl Rows {
    /// Where each row goes.
    pub(super) fn place(&self, table: &ShardedTable, request: &Request<'_>) -> Result<Placed> {
        let rule = &table.rule;
        let mut placed = Placed { shards: Vec::with_capacity(self.keys.len()), generated: Vec::new() };
        for (at, key) in self.keys.iter().enumerate() {
            let mut made = None;
            if let Some(generated) = self.generated.as_ref().filter(|generated| generated.values[at].is_some()) {
                made = Some(generate(generated.generator, request)?);
            }
            if rule.placement() == Placement::Sharded {
                let mut keys = Vec::with_capacity(key.len());
                for ((source, class), column) in key.iter().zip(rule.classes()).zip(rule.key()) {
                    let column = &table.columns[*column];
                    keys.push(match source {
                        Source::Operand(operand) => {
                            known(operand, *class, &column.name, request)?.map(|key| assigned(column, key))
                        }
                        Source::Generated => match &made {
                            Some(value) => Key::new(*class, &value.as_datum())?,
                            None => None,
                        },
                    });
                }
                placed.shards.push(table.shard_of_keys(&keys)?);
            }
            if let Some(generated) = &self.generated {
                placed.generated.push(made.map(|value| literal(generated.sql_type, &value)));
            }
        }
        Ok(placed)
    }

    /// Values of each row, with the one that is made behind them.
    fn width(&self, select: &SelectStmt) -> usize {
        let written = select.values_lists.first().map_or(0, |row| cells(row).len());
        let made = self.generated.as_ref().and_then(|generated| generated.values.first()?.as_ref());
        written + usize::from(made.is_some_and(Range::is_empty))
    }

    /// The shard of the only row, where its key is there as it is and can be read.
    pub(super) fn only_shard(&self, table: &ShardedTable, request: &Request<'_>) -> Option<ShardId> {
        let ([key], None, [class]) = (&self.keys[..], &self.generated, table.rule.classes()) else { return None };
        let [Source::Operand(operand)] = &key[..] else { return None };
        let column = &table.columns[*table.rule.key().first()?];
        match operand.key(*class, request) {
            Known::Key(key) => table.rule.shard_of_keys(&[Some(assigned(column, key))]).ok(),
            Known::Null | Known::Unknown => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let keys: usize = self
            .keys
            .iter()
            .flatten()
            .map(|source| match source {
                Source::Operand(operand) => operand.bytes(),
                Source::Generated => 0,
            })
            .sum();
        keys + self.places.len() * (size_of::<Range<usize>>() + size_of::<Vec<Source>>() + size_of::<Source>())
    }
}

fn generate(generator: Generator, request: &Request<'_>) -> Result<Value> {
    let generate = request.generate.ok_or_else(|| Error::internal("nobody makes keys here"))?;
    generate(generator)
}

fn known(operand: &Operand, class: KeyClass, column: &str, request: &Request<'_>) -> Result<Option<Key>> {
    match operand.key(class, request) {
        Known::Key(key) => Ok(Some(key)),
        Known::Null => Ok(None),
        // Of another type, or none of its own: the engine assigns it to the column.
        Known::Unknown => Err(no_key(column)),
    }
}

/// A generated value as SQL has it.
fn literal(sql_type: SqlType, value: &Value) -> String {
    let mut written = Vec::new();
    text::write(sql_type, &value.as_datum(), &TextStyle::default(), &mut written);
    let written = String::from_utf8_lossy(&written).into_owned();
    match value {
        Value::Int8(_) => written,
        _ => format!("'{written}'"),
    }
}

/// What an INSERT is besides its target.
pub(super) enum Inserted {
    /// VALUES
    Rows(Rows),
    /// A query.
    Query(Query),
    /// VALUES in WITH, whose rows are all for one shard.
    Given,
    /// DEFAULT VALUES
    Defaults,
}

impl Analysis<'_> {
    /// Walks an INSERT, and what RETURNING sees of it; its target is the first occurrence from here on.
    pub(super) fn insert(&mut self, insert: &InsertStmt, is_in_with: bool) -> Result<(Inserted, From)> {
        let Some(relation) = &insert.relation else { return Err(Error::internal("an INSERT without a table")) };
        let Some(table) = self.find(relation) else {
            return Err(Error::unsupported("INSERT into another table from sharded ones is not supported"));
        };
        let number = self.occurrences.len();
        let named = self.occurrence(relation, std::sync::Arc::clone(&table))?;
        let target = From::of(named, Occurrences::between(number, number + 1), vec![number]);
        self.names_stars = true;
        if let Some(with) = &insert.with_clause {
            self.with(with, None)?;
        }
        let columns = columns(insert, &table)?;
        let select = match nodes::inner(&insert.select_stmt) {
            None => None,
            Some(NodeEnum::SelectStmt(select)) => Some(select),
            Some(_) => return Err(Error::internal("an INSERT from something that is no query")),
        };
        let inserted = match select {
            None => Inserted::Defaults,
            Some(select) if is_plain_values(select) => {
                for row in &select.values_lists {
                    self.walk(row, &Scope { from: &From::default(), outer: None })?;
                }
                if is_in_with {
                    self.give(number, select, &columns, &table)?;
                    self.name_columns(
                        insert,
                        number,
                        &table,
                        select.values_lists.first().map_or(0, |row| cells(row).len()),
                    )?;
                    Inserted::Given
                } else {
                    let rows = self.rows(insert, select, &columns, &table)?;
                    self.name_columns(insert, number, &table, rows.width(select))?;
                    Inserted::Rows(rows)
                }
            }
            Some(select) => {
                let query = self.query(select, None)?;
                self.feed(number, select, &query, &columns, &table)?;
                self.name_columns(insert, number, &table, query.outputs.len())?;
                Inserted::Query(query)
            }
        };
        self.names_stars = false;
        self.behind(insert, &table, &target)?;
        Ok((inserted, target))
    }

    /// The rows of VALUES in WITH: their keys are what the statement says they are, and where that is not known, nothing is.
    fn give(&mut self, number: usize, select: &SelectStmt, columns: &[usize], table: &ShardedTable) -> Result<()> {
        let key = self.key_of(number);
        let mut rows = Vec::with_capacity(select.values_lists.len());
        for row in &select.values_lists {
            let cells = cells(row);
            let cell = |column: &usize| {
                let listed = columns.iter().position(|listed| listed == column);
                let cell = listed.and_then(|at| cells.get(at)).and_then(|cell| cell.node.as_ref());
                cell.filter(|cell| !matches!(cell, NodeEnum::SetToDefault(_)))
            };
            if let Some((made, _)) = table.rule.generated()
                && cell(&made).is_none()
            {
                return Err(Error::unsupported(
                    "WITH that changes rows of a table whose keys are generated is not supported",
                )
                .with_hint("Give the row a key."));
            }
            let mut own = Vec::with_capacity(key.len());
            let mut operands = Vec::with_capacity(key.len());
            for ((column, variable), class) in table.rule.key().iter().zip(&key).zip(table.rule.classes()) {
                let definition = &table.columns[*column];
                let operand = match cell(column) {
                    None => self.default_of(table, *column, *class)?,
                    Some(cell) => Operand::new(cell, *class).ok_or_else(|| no_key(&definition.name))?,
                };
                let operand = stored(definition, operand).ok_or_else(|| no_key(&definition.name))?;
                own.push(Written::OneOf(*variable, vec![operand.clone()]));
                operands.push(Some(operand));
            }
            rows.push(Written::And(own));
            if !operands.is_empty() {
                self.fed.push(Fed { occurrence: number, operands });
            }
        }
        let restricts = Occurrences::between(number, number + 1);
        self.conjuncts.push(Conjunct { condition: Written::Or(rows), restricts });
        Ok(())
    }

    /// Walks what stands behind the rows: ON CONFLICT and RETURNING.
    pub(super) fn behind(&mut self, insert: &InsertStmt, table: &ShardedTable, target: &From) -> Result<()> {
        if let Some(conflict) = &insert.on_conflict_clause {
            let scope = Scope { from: target, outer: None };
            if OnConflictAction::try_from(conflict.action) == Ok(OnConflictAction::OnconflictUpdate) {
                let mut inner = target.clone();
                let mut excluded = inner.named[0].clone();
                excluded.alias = "excluded".to_owned();
                excluded.columns.iter_mut().for_each(|column| column.variable = None);
                inner.named.push(excluded);
                let scope = Scope { from: &inner, outer: None };
                self.assignments(&conflict.target_list, table, &scope)?;
                if let Some(condition) = conflict.where_clause.as_deref() {
                    self.walk(condition, &scope)?;
                }
            }
            if let Some(infer) = conflict.infer.as_deref() {
                if let Some(condition) = infer.where_clause.as_deref() {
                    self.walk(condition, &scope)?;
                }
                if !infer.conname.is_empty() {
                    self.name_arbiter(infer, table);
                }
            }
        }
        self.returning(insert.returning_clause.as_ref(), target)
    }

    /// ON CONFLICT ON CONSTRAINT becomes ON CONFLICT with the constraint's columns: where a shard's table has another name, so has the
    /// constraint. One that is not known here is left to the shards.
    fn name_arbiter(&mut self, infer: &InferClause, table: &ShardedTable) {
        if table.rule.shards().iter().all(|shard| shard.table == table.name) {
            return;
        }
        let Some(key) = table.keys.iter().find(|key| *key.name == *infer.conname) else { return };
        let Ok(start) = self.place(infer.location) else { return };
        // Three words: ON, CONSTRAINT and the name.
        let Some((scan::Token::Word | scan::Token::Quoted, place)) = scan::Tokens::new(self.text, start).nth(2) else {
            return;
        };
        let columns: Vec<String> = key.columns.iter().map(|column| quoted(column)).collect();
        self.named.push((start..place.end, format!("({})", columns.join(", "))));
    }

    /// The places and keys of rows of VALUES.
    fn rows(
        &mut self,
        insert: &InsertStmt,
        select: &SelectStmt,
        columns: &[usize],
        table: &ShardedTable,
    ) -> Result<Rows> {
        if select.values_lists.len() > ROWS_MAX {
            return Err(Error::new(
                ErrorCode::ProgramLimitExceeded,
                format!("an INSERT can have at most {ROWS_MAX} rows"),
            )
            .with_hint("Use COPY, or several statements."));
        }
        let at = self.occurrences[0].at;
        let places = match scan::word(self.text, at, "values") {
            Some(values) => scan::lists(self.text, values.end),
            None => Vec::new(),
        };
        if places.len() != select.values_lists.len() {
            return Err(Error::unsupported("the rows of this INSERT cannot be told apart in its text"));
        }
        let wanted = table.rule.generated();
        let is_listed = wanted.is_some_and(|(column, _)| columns.contains(&column));
        let mut generated = None;
        if let Some((column, generator)) = wanted {
            let name = quoted(&table.columns[column].name);
            let before = match insert.cols.is_empty() {
                true => None,
                false => {
                    scan::lists(self.text, self.list_start(at)?).first().map(|list| (list.end - 1, format!(", {name}")))
                }
            };
            let mut values = Vec::with_capacity(places.len());
            for (row, place) in select.values_lists.iter().zip(&places) {
                let cells = cells(row);
                values.push(match columns.iter().position(|listed| *listed == column) {
                    Some(at) => match cells.get(at).and_then(|cell| cell.node.as_ref()) {
                        Some(NodeEnum::SetToDefault(default)) => {
                            let start = self.place(default.location)?;
                            Some(start..start + "default".len())
                        }
                        // A row that ends before it leaves it out.
                        None if insert.cols.is_empty() && cells.len() == at => Some(place.end - 1..place.end - 1),
                        Some(_) | None => None,
                    },
                    None => Some(place.end - 1..place.end - 1),
                });
            }
            if !is_listed && before.is_none() {
                return Err(Error::unsupported("an INSERT that leaves out a generated column has to name its columns"));
            }
            generated = Some(Generated {
                generator,
                sql_type: table.columns[column].sql_type,
                column: before.filter(|_| !is_listed),
                values,
            });
        }
        let mut keys = Vec::with_capacity(places.len());
        for (at, row) in select.values_lists.iter().enumerate() {
            let cells = cells(row);
            let is_made = |column: usize| {
                wanted.is_some_and(|(made, _)| made == column)
                    && generated.as_ref().is_some_and(|generated| generated.values[at].is_some())
            };
            let sources = table.rule.key().iter().zip(table.rule.classes()).map(|(column, class)| {
                if is_made(*column) {
                    return Ok(Source::Generated);
                }
                let listed = columns.iter().position(|listed| listed == column);
                let cell = listed.and_then(|at| cells.get(at)).and_then(|cell| cell.node.as_ref());
                let operand = match cell {
                    None | Some(NodeEnum::SetToDefault(_)) => self.default_of(table, *column, *class)?,
                    Some(cell) => Operand::new(cell, *class).ok_or_else(|| no_key(&table.columns[*column].name))?,
                };
                Ok(Source::Operand(operand))
            });
            keys.push(sources.collect::<Result<Vec<_>>>()?);
        }
        Ok(Rows { places, keys, generated })
    }

    /// Names the columns that an INSERT counts: so many of the target's first.
    fn name_columns(&mut self, insert: &InsertStmt, number: usize, table: &ShardedTable, count: usize) -> Result<()> {
        if !insert.cols.is_empty() || count == 0 {
            return Ok(());
        }
        let Some(end) = end_of_target(self.text, &self.occurrences[number]) else {
            return Err(Error::unsupported("the columns of this INSERT cannot be named in its text"));
        };
        let names: Vec<String> = table.columns.iter().take(count).map(|column| quoted(&column.name)).collect();
        self.named.push((end..end, format!(" ({})", names.join(", "))));
        Ok(())
    }

    /// Names the columns of a star of rows that are inserted. `of`: what is written before it.
    pub(super) fn name_star(&mut self, target: &Node, of: &[&str], from: &From) -> Result<()> {
        let Some((place, names)) = self.named_star(target, of, from) else {
            return Err(Error::unsupported("the columns of a star in this INSERT cannot be named in its text"));
        };
        self.named.push((place, names));
        Ok(())
    }

    /// Where a star stands, and the columns that it is; `None` where these are not certain. `of`: what is written before it.
    pub(super) fn named_star(&self, target: &Node, of: &[&str], from: &From) -> Option<(Range<usize>, String)> {
        self.place_of_star(target, of).zip(columns_of_star(of, from))
    }

    fn place_of_star(&self, target: &Node, of: &[&str]) -> Option<Range<usize>> {
        let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
        let Some(NodeEnum::ColumnRef(column)) = nodes::inner(&target.val) else { return None };
        let start = nodes::offset(column.location)?.checked_sub(self.offset)?;
        // Each name before it with its dot.
        let (token, place) = scan::Tokens::new(self.text, start).nth(2 * of.len())?;
        (token == scan::Token::Sign(b'*')).then_some(start..place.end)
    }

    /// The byte behind the target's name and alias, where its column list begins.
    fn list_start(&self, at: usize) -> Result<usize> {
        let mut tokens = scan::Tokens::new(self.text, at);
        tokens
            .find(|(token, _)| *token == scan::Token::Sign(b'('))
            .map(|(_, place)| place.start)
            .ok_or_else(|| Error::internal("an INSERT without a column list"))
    }

    /// The value of a key column that a row does not give.
    fn default_of(&self, table: &ShardedTable, column: usize, class: KeyClass) -> Result<Operand> {
        let name = &table.columns[column].name;
        match &table.columns[column].default {
            None => Ok(Operand::Null),
            Some(ColumnDefault::Constant(value)) => {
                Ok(Key::new(class, &value.as_datum())?.map_or(Operand::Null, Operand::Constant))
            }
            Some(ColumnDefault::Expression(_) | ColumnDefault::Sequence(_)) => Err(no_key(name)),
        }
    }

    /// The rows of a query become rows of the target: their keys are those of columns that the query reads.
    fn feed(
        &mut self,
        number: usize,
        select: &SelectStmt,
        query: &Query,
        columns: &[usize],
        table: &ShardedTable,
    ) -> Result<()> {
        let key = self.key_of(number);
        let restricts = Occurrences::between(number, number + 1);
        let mut operands = Vec::with_capacity(key.len());
        for ((column, variable), class) in table.rule.key().iter().zip(key).zip(table.rule.classes()) {
            let Some(at) = columns.iter().position(|listed| listed == column).filter(|at| *at < query.outputs.len())
            else {
                let default = self.default_of(table, *column, *class)?;
                operands.push(Some(default.clone()));
                self.conjuncts.push(Conjunct { condition: Written::OneOf(variable, vec![default]), restricts });
                continue;
            };
            let own = &table.columns[*column];
            // A row that has NULL there instead of the column's value has another place, if any.
            let is_kept = |source: &Variable| fits(self.column_of(*source), own) && !(own.nullable && self.makes_nulls);
            if let Some(source) = query.outputs[at].variable.filter(is_kept) {
                self.hand_on(source, variable);
            }
            let target = select.target_list.get(at).filter(|_| !select.target_list.iter().any(super::query::is_star));
            if let Some(NodeEnum::ResTarget(target)) = target.and_then(|target| target.node.as_ref())
                && let Some(operand) = nodes::inner(&target.val).and_then(|value| Operand::new(value, *class))
                && let Some(operand) = stored(own, operand)
            {
                operands.push(Some(operand.clone()));
                self.conjuncts.push(Conjunct { condition: Written::OneOf(variable, vec![operand]), restricts });
            } else {
                operands.push(None);
            }
        }
        if operands.iter().any(Option::is_some) {
            self.fed.push(Fed { occurrence: number, operands });
        }
        if table.rule.generated().is_some_and(|(column, _)| !columns.contains(&column)) {
            return Err(Error::unsupported("keys are not generated for INSERT ... SELECT")
                .with_hint("Select a value for the generated column."));
        }
        Ok(())
    }
}

/// An INSERT's columns, by their positions in the table.
fn columns(insert: &InsertStmt, table: &ShardedTable) -> Result<Vec<usize>> {
    if insert.cols.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut columns = Vec::with_capacity(insert.cols.len());
    for column in &insert.cols {
        let Some(NodeEnum::ResTarget(target)) = &column.node else { continue };
        let at = table.columns.iter().position(|column| column.name == target.name).ok_or_else(|| {
            Error::new(
                ErrorCode::UndefinedColumn,
                format!("column \"{}\" of relation \"{}\" does not exist", target.name, table.name),
            )
        })?;
        if !target.indirection.is_empty() && table.rule.key().contains(&at) {
            return Err(no_key(&target.name));
        }
        columns.push(at);
    }
    Ok(columns)
}

/// The byte behind the name of an INSERT's target, and its alias.
fn end_of_target(text: &str, target: &Occurrence) -> Option<usize> {
    let name = scan::name(text, target.at)?;
    if !target.has_alias {
        return Some(name.end);
    }
    let mut tokens = scan::Tokens::new(text, name.end);
    let (word, place) = tokens.next()?;
    let is_as = word == scan::Token::Word && text[place].eq_ignore_ascii_case("as");
    let (alias, place) = tokens.next()?;
    (is_as && matches!(alias, scan::Token::Word | scan::Token::Quoted)).then_some(place.end)
}

/// The columns of a star by their names; `None` where these are not certain.
fn columns_of_star(of: &[&str], from: &From) -> Option<String> {
    let tables: Vec<&Named> = match of {
        [] if !from.is_incomplete => from.named.iter().collect(),
        [alias] => from.named.iter().filter(|named| named.alias == *alias).collect(),
        _ => return None,
    };
    let is_alone = |table: &&Named| tables.iter().filter(|other| other.alias == table.alias).count() == 1;
    if !tables.iter().all(|table| table.is_complete && !table.alias.is_empty() && is_alone(table)) {
        return None;
    }
    let mut written: Vec<String> = Vec::new();
    for table in &tables {
        for (at, column) in table.columns.iter().enumerate() {
            let name = column.name.as_ref()?;
            // One of two columns of this name cannot be told by it.
            if table.columns[..at].iter().any(|other| other.name.as_ref() == Some(name)) {
                return None;
            }
            written.push(format!("{}.{}", quoted(&table.alias), quoted(name)));
        }
    }
    // Columns that a join has merged are there once.
    let is_whole = !of.is_empty() || written.len() == from.visible.len();
    (is_whole && !written.is_empty()).then(|| written.join(", "))
}

/// Whether it is VALUES and nothing else.
fn is_plain_values(select: &SelectStmt) -> bool {
    !select.values_lists.is_empty()
        && select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none()
        && select.with_clause.is_none()
}

fn cells(row: &Node) -> &[Node] {
    match &row.node {
        Some(NodeEnum::List(list)) => &list.items,
        _ => &[],
    }
}

/// The characters that a column has room for; `None` where that has no bound.
fn length_of(column: &ColumnDef) -> Option<u32> {
    match column.sql_type {
        SqlType::Scalar(ScalarType::Varchar { length }) => length,
        _ => None,
    }
}

/// A key as its column keeps it: of a text that is too long, what is too much is left out where it is blanks. The server refuses any other.
fn assigned(column: &ColumnDef, key: Key) -> Key {
    match (length_of(column).and_then(|length| usize::try_from(length).ok()), key) {
        (Some(length), Key::Text(text)) => {
            let end = text.char_indices().nth(length).map_or(text.len(), |(end, _)| end);
            let is_cut = end < text.len() && text[end..].bytes().all(|byte| byte == b' ');
            Key::Text(if is_cut { text[..end].into() } else { text })
        }
        (_, key) => key,
    }
}

/// Whether all values of a column are kept by another one as they are.
fn fits(column: &ColumnDef, other: &ColumnDef) -> bool {
    length_of(other).is_none_or(|length| length_of(column).is_some_and(|own| own <= length))
}

/// What a column keeps of an operand; `None` where nobody knows before.
fn stored(column: &ColumnDef, operand: Operand) -> Option<Operand> {
    match operand {
        Operand::Constant(key) => Some(Operand::Constant(assigned(column, key))),
        Operand::Parameter(_) if length_of(column).is_some() => None,
        other => Some(other),
    }
}

/// 0A000
pub(super) fn no_defaults() -> Error {
    Error::unsupported("DEFAULT VALUES is not supported for sharded tables")
        .with_hint("Write the values of the row, DEFAULT among them.")
}

fn no_key(column: &str) -> Error {
    Error::unsupported(format!("the value for column \"{column}\" is not known before the row is sent to a shard"))
        .with_hint("The column decides where the row goes: give it a constant or a parameter.")
}
