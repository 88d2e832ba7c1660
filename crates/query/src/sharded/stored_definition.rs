//! The durable definition of a sharded table: the statement that created it, followed by one for each change since.
//!
//! Read at startup, and when the table is changed; written after all shards have made the change.

mod keys;

use std::mem;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::fleet::Fleet;
use ashlar_shard::route::columns_named;
use pg_query::protobuf::a_const::Val;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableType, ColumnDef, ConstrType, Constraint, CreateStmt, IndexStmt, ObjectType, TypeCast,
    TypeName,
};
use pg_query::{Node, NodeEnum};

pub(super) use self::keys::{StoredKey, keys_of, rename_keys};

use self::keys::{marked, name_keys, primary_named, take_keys};
use super::checks::{constraint_of, constraints, is_kind, name_checks};
use super::comments::TableComments;
use super::rule::{options_of, set_options};
use crate::grammar;
use crate::sql_types::{resolve, string_of};
use crate::statement::expression_text;

/// Separates the statements of a stored definition.
pub(super) const BETWEEN: &str = "\n;\n";

/// Prepended to an expression so that it can be parsed on its own.
const SELECT: &str = "SELECT ";

/// The error (55000) for a definition that changed between reading and writing it.
pub(super) fn changed(name: &str) -> Error {
    let message = format!("table \"{name}\" was changed by somebody else meanwhile");
    Error::new(ErrorCode::ObjectNotInPrerequisiteState, message).with_hint("Try again.")
}

/// Replaces the stored definition of a table, if it still is `before`.
pub(super) fn keep(fleet: &Fleet, name: &str, before: &str, text: &str) -> Result<()> {
    fleet.catalog().change(|known| match known.tables.get_mut(name) {
        Some(now) if *now == *before => {
            *now = text.to_owned();
            Ok(())
        }
        _ => Err(changed(name)),
    })
}

/// The stored definition of a table.
pub(super) fn kept_of(fleet: &Fleet, name: &str) -> Result<String> {
    fleet.catalog().known().tables.get(name).cloned().ok_or_else(|| changed(name))
}

/// A sharded table in its present state, as read from its stored definition.
pub(super) struct StoredTable {
    /// The statement that would create it as it is now.
    pub(super) made: CreateStmt,
    /// The statements that would create its indexes, in order of their creation.
    pub(super) indexes: Vec<IndexStmt>,
    /// Its primary key and UNIQUE constraints, by their names in Ashlar.
    pub(super) keys: Vec<StoredKey>,
    /// What COMMENT ON has said about it.
    pub(super) comments: TableComments,
}

impl StoredTable {
    /// Reads the stored definition of the table `name`.
    ///
    /// # Errors
    /// XX000 if the text is not one that this module wrote; 0A000 for a change whose effect on an index or a constraint is unknown.
    pub(super) fn read(name: &str, text: &str) -> Result<Self> {
        let none_of_ours =
            || Error::internal(format!("sharded table \"{name}\" was not kept as the statement that made it"));
        let mut nodes = grammar::parse(text)?.into_iter().map(|parsed| parsed.node);
        let Some(NodeEnum::CreateStmt(mut made)) = nodes.next() else { return Err(none_of_ours()) };
        name_checks(&mut made)?;
        name_keys(&mut made);
        let mut table = Self { made, indexes: Vec::new(), keys: Vec::new(), comments: TableComments::default() };
        for node in nodes {
            match node {
                NodeEnum::AlterTableStmt(statement) => {
                    for command in &statement.cmds {
                        let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { continue };
                        table.alter(command)?;
                        if !table.has_primary_key() {
                            table.comments.drop_key();
                        }
                    }
                    name_keys(&mut table.made);
                }
                NodeEnum::RenameStmt(statement) if statement.rename_type == ObjectType::ObjectTable as i32 => {
                    table.rename(&statement.newname);
                }
                NodeEnum::RenameStmt(statement) => table.rename_column(&statement.subname, &statement.newname)?,
                NodeEnum::IndexStmt(index) => table.indexes.push(*index),
                NodeEnum::CommentStmt(statement) => table.comments.say(&statement),
                _ => return Err(none_of_ours()),
            }
        }
        table.keys = take_keys(&mut table.made);
        Ok(table)
    }

    /// The key of this name, unless a CHECK constraint has the name.
    pub(super) fn key(&self, name: &str) -> Option<&StoredKey> {
        let check = ConstrType::ConstrCheck as i32;
        let is_check = |constraint: &Constraint| constraint.contype == check && constraint.conname == *name;
        let mut keys = self.keys.iter();
        if constraints(&self.made).any(is_check) { None } else { keys.find(|key| key.name == *name) }
    }

    /// Whether it has a CHECK constraint or a key of this name.
    pub(super) fn has_constraint(&self, name: &str) -> bool {
        constraints(&self.made).any(|constraint| constraint.conname == *name) || self.key(name).is_some()
    }

    fn has_primary_key(&self) -> bool {
        constraints(&self.made).any(|constraint| constraint.contype == ConstrType::ConstrPrimary as i32)
    }

    /// Whether two of its keys have the same columns: whether a shard has both nobody can tell by them.
    pub(super) fn has_twins(&self) -> bool {
        let before = |at: usize| self.keys.iter().take(at);
        self.keys.iter().enumerate().any(|(at, key)| before(at).any(|other| other.columns == key.columns))
    }

    fn alter(&mut self, command: &AlterTableCmd) -> Result<()> {
        if let Some((sets, options)) = options_of(command) {
            set_options(&mut self.made, sets, options);
            return Ok(());
        }
        let (name, def) = (command.name.as_str(), command.def.as_deref());
        match AlterTableType::try_from(command.subtype) {
            Ok(AlterTableType::AtDropColumn) => self.drop_column(name)?,
            Ok(AlterTableType::AtDropConstraint) => self.drop_constraint(name),
            Ok(AlterTableType::AtColumnDefault) => {
                let raw_expr = def.cloned().map(Box::new);
                let is_set = raw_expr.is_some();
                let default = Constraint { raw_expr, ..bare(ConstrType::ConstrDefault) };
                self.replace(name, &[ConstrType::ConstrDefault], is_set.then_some(default));
            }
            Ok(AlterTableType::AtAlterColumnType) => self.retype(name, def),
            Ok(AlterTableType::AtSetNotNull) => self.fill(name),
            Ok(AlterTableType::AtDropNotNull) => self.replace(name, &[ConstrType::ConstrNotnull], None),
            _ => self.made.table_elts.extend(def.cloned()),
        }
        Ok(())
    }

    /// A column is of another type from now on. Its default is the value that it was, as one of the new type.
    fn retype(&mut self, column: &str, def: Option<&Node>) {
        let Some(NodeEnum::ColumnDef(wanted)) = def.and_then(|def| def.node.as_ref()) else { return };
        for definition in self.columns_mut().filter(|definition| definition.colname == column) {
            let before = mem::replace(&mut definition.type_name, wanted.type_name.clone());
            definition.coll_clause.clone_from(&wanted.coll_clause);
            for node in &mut definition.constraints {
                if let Some(NodeEnum::Constraint(constraint)) = &mut node.node
                    && constraint.contype == ConstrType::ConstrDefault as i32
                {
                    constraint.raw_expr = constraint.raw_expr.take().map(|default| of_type(default, before.as_ref()));
                }
            }
        }
    }

    /// A column is without NULL from now on.
    fn fill(&mut self, column: &str) {
        let nullable = [ConstrType::ConstrNull, ConstrType::ConstrNotnull];
        self.replace(column, &nullable, Some(bare(ConstrType::ConstrNotnull)));
    }

    /// A column has another constraint instead of those of some kinds, or none.
    fn replace(&mut self, column: &str, kinds: &[ConstrType], constraint: Option<Constraint>) {
        for definition in self.columns_mut().filter(|definition| definition.colname == column) {
            definition.constraints.retain(|node| !kinds.iter().any(|kind| is_kind(node, *kind)));
            let constraint = constraint.clone().map(|constraint| NodeEnum::Constraint(Box::new(constraint)));
            definition.constraints.extend(constraint.map(|node| Node { node: Some(node) }));
        }
    }

    /// What was in a primary key stays without NULL.
    fn drop_constraint(&mut self, name: &str) {
        let kinds = [ConstrType::ConstrCheck as i32, ConstrType::ConstrPrimary as i32, ConstrType::ConstrUnique as i32];
        let is_given = |constraint: &Constraint| kinds.contains(&constraint.contype) && constraint.conname == *name;
        let name = if constraints(&self.made).any(is_given) { name.to_owned() } else { marked(name) };
        let columns = primary_named(&mut self.made, &name);
        self.retain_constraints(|constraint| constraint.conname != name);
        columns.iter().for_each(|column| self.fill(column));
    }

    /// Takes constraints away, of the table and of its columns.
    fn retain_constraints(&mut self, stays: impl Fn(&Constraint) -> bool) {
        let stays = |node: &Node| constraint_of(node).is_none_or(&stays);
        self.made.table_elts.retain(stays);
        self.columns_mut().for_each(|definition| definition.constraints.retain(stays));
    }

    /// Its columns.
    fn columns_mut(&mut self) -> impl Iterator<Item = &mut ColumnDef> {
        self.made.table_elts.iter_mut().filter_map(|element| match &mut element.node {
            Some(NodeEnum::ColumnDef(definition)) => Some(definition.as_mut()),
            _ => None,
        })
    }

    /// As PostgreSQL does: indexes and constraints go with any of their columns.
    fn drop_column(&mut self, column: &str) -> Result<()> {
        self.comments.drop_column(column);
        let mut lost_key: Vec<String> = Vec::new();
        for element in mem::take(&mut self.made.table_elts) {
            let goes = match &element.node {
                Some(NodeEnum::ColumnDef(definition)) => definition.colname == column,
                Some(NodeEnum::Constraint(constraint)) if is_about(constraint, column)? => {
                    if constraint.contype == ConstrType::ConstrPrimary as i32 {
                        lost_key.extend(constraint.keys.iter().filter_map(string_of).map(str::to_owned));
                    }
                    true
                }
                _ => false,
            };
            if !goes {
                self.made.table_elts.push(element);
            }
        }
        for definition in self.columns_mut() {
            for node in mem::take(&mut definition.constraints) {
                if !constraint_of(&node).map_or(Ok(false), |constraint| is_about(constraint, column))? {
                    definition.constraints.push(node);
                }
            }
        }
        // What was a part of the key stays without NULL.
        lost_key.iter().for_each(|name| self.fill(name));
        for index in mem::take(&mut self.indexes) {
            if !is_index_about(&index, column)? {
                self.indexes.push(index);
            }
        }
        Ok(())
    }

    /// Gives the table another name.
    fn rename(&mut self, to: &str) {
        let relations = self.indexes.iter_mut().map(|index| &mut index.relation).chain([&mut self.made.relation]);
        for relation in relations.flatten() {
            to.clone_into(&mut relation.relname);
        }
    }

    /// Gives a column another name, wherever it is named.
    fn rename_column(&mut self, from: &str, to: &str) -> Result<()> {
        self.comments.rename_column(from, to);
        for element in &mut self.made.table_elts {
            match &mut element.node {
                Some(NodeEnum::ColumnDef(definition)) => {
                    for node in &mut definition.constraints {
                        if let Some(NodeEnum::Constraint(constraint)) = &mut node.node {
                            rename_in_constraint(constraint, from, to)?;
                        }
                    }
                    if definition.colname == from {
                        to.clone_into(&mut definition.colname);
                    }
                }
                Some(NodeEnum::Constraint(constraint)) => rename_in_constraint(constraint, from, to)?,
                _ => {}
            }
        }
        for index in &mut self.indexes {
            for parameter in index.index_params.iter_mut().chain(&mut index.index_including_params) {
                let Some(NodeEnum::IndexElem(element)) = &mut parameter.node else { continue };
                if let Some(expression) = &mut element.expr {
                    rename_in(expression, from, to)?;
                } else if element.name == from {
                    to.clone_into(&mut element.name);
                }
            }
            if let Some(condition) = &mut index.where_clause {
                rename_in(condition, from, to)?;
            }
        }
        Ok(())
    }
}

/// A default, as a value of a type that it says itself.
fn of_type(default: Box<Node>, before: Option<&TypeName>) -> Box<Node> {
    let scalar = match before.and_then(|before| resolve(before).ok()) {
        Some(SqlType::Scalar(scalar)) => Some(scalar),
        Some(SqlType::Array(_)) | None => None,
    };
    let constant = match &default.node {
        Some(NodeEnum::AConst(constant)) => Some(constant),
        _ => None,
    };
    // Of these the value is the same without that, whatever becomes of it.
    let is_plain = constant.is_some_and(|constant| match &constant.val {
        None => constant.isnull,
        Some(Val::Boolval(_)) => scalar == Some(ScalarType::Bool),
        Some(Val::Sval(_)) => matches!(scalar, Some(ScalarType::Text | ScalarType::Varchar { .. })),
        Some(Val::Ival(_)) => matches!(scalar, Some(ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8)),
        Some(Val::Fval(_) | Val::Bsval(_)) => false,
    });
    if is_plain {
        return default;
    }
    let cast = TypeCast { arg: Some(default), type_name: before.cloned(), location: -1 };
    Box::new(Node { node: Some(NodeEnum::TypeCast(Box::new(cast))) })
}

/// A constraint of a column that says nothing more.
fn bare(kind: ConstrType) -> Constraint {
    Constraint { contype: kind as i32, ..Constraint::default() }
}

/// The expression of a CHECK.
fn condition_of(constraint: &Constraint) -> Option<&Node> {
    constraint.raw_expr.as_deref().filter(|_| constraint.contype == ConstrType::ConstrCheck as i32)
}

/// Whether a constraint has a column that it names.
fn is_about(constraint: &Constraint, column: &str) -> Result<bool> {
    let mut listed = constraint.keys.iter().chain(&constraint.including).filter_map(string_of);
    if listed.any(|name| name == column) {
        return Ok(true);
    }
    condition_of(constraint).map_or(Ok(false), |condition| mentions(condition, column))
}

fn is_index_about(index: &IndexStmt, column: &str) -> Result<bool> {
    for parameter in index.index_params.iter().chain(&index.index_including_params) {
        let Some(NodeEnum::IndexElem(element)) = &parameter.node else { continue };
        let is_it = match &element.expr {
            Some(expression) => mentions(expression, column)?,
            None => element.name == column,
        };
        if is_it {
            return Ok(true);
        }
    }
    index.where_clause.as_ref().map_or(Ok(false), |condition| mentions(condition, column))
}

fn rename_in_constraint(constraint: &mut Constraint, from: &str, to: &str) -> Result<()> {
    for name in constraint.keys.iter_mut().chain(&mut constraint.including) {
        if let Some(NodeEnum::String(name)) = &mut name.node
            && name.sval == from
        {
            to.clone_into(&mut name.sval);
        }
    }
    match &mut constraint.raw_expr {
        Some(condition) if constraint.contype == ConstrType::ConstrCheck as i32 => rename_in(condition, from, to),
        _ => Ok(()),
    }
}

/// 0A000
fn unknown(column: &str) -> Error {
    let message = format!("column \"{column}\" may be a part of an expression whose columns are not known here");
    Error::unsupported(message).with_hint("Drop the index or the constraint with the expression before.")
}

/// Whether an expression over the table's own columns has this one.
///
/// # Errors
/// 0A000 where that is not known.
fn mentions(expression: &Node, column: &str) -> Result<bool> {
    let named = columns_named(expression).ok_or_else(|| unknown(column))?;
    Ok(named.iter().any(|(name, _)| *name == column))
}

/// Gives a column another name in an expression.
///
/// # Errors
/// 0A000 where it is not known which columns it has.
fn rename_in(expression: &mut Node, from: &str, to: &str) -> Result<()> {
    if !mentions(expression, from)? {
        return Ok(());
    }
    // A text of its own: names in it are where its tree says.
    let mut text = format!("{SELECT}{}", expression_text(expression)?);
    let mut places: Vec<usize> = {
        let read = read_expression(&text).ok_or_else(|| unknown(from))?;
        let named = columns_named(&read).ok_or_else(|| unknown(from))?;
        named.into_iter().filter(|(name, _)| *name == from).map(|(_, place)| place).collect()
    };
    // From the last one on: what stands before a place stays where it is.
    places.sort_unstable();
    for place in places.into_iter().rev() {
        let end = place + name_bytes(text.get(place..).ok_or_else(|| unknown(from))?);
        text.replace_range(place..end, &quote_ident(to));
    }
    *expression = read_expression(&text).ok_or_else(|| unknown(from))?;
    Ok(())
}

/// The expression of `SELECT expression`.
fn read_expression(text: &str) -> Option<Node> {
    let mut statements = grammar::parse(text).ok()?;
    let NodeEnum::SelectStmt(select) = statements.pop()?.node else { return None };
    let Some(NodeEnum::ResTarget(target)) = select.target_list.into_iter().next()?.node else { return None };
    target.val.map(|expression| *expression)
}

/// How many bytes the name takes that a text begins with.
fn name_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii();
        return bytes.iter().take_while(is_part).count();
    }
    let mut end = 1;
    while end < bytes.len() {
        match (bytes[end], bytes.get(end + 1)) {
            (b'"', Some(b'"')) => end += 2,
            (b'"', _) => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
