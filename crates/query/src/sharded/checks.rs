//! CHECK constraints of sharded tables: each shard keeps them for its own rows, under the same name.
//!
//! Nothing of them is computed here. One without a name gets its name here, as PostgreSQL would name it for the table: so it can be dropped
//! by that name on every shard, whatever the shard's table is called.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_shard::route::columns_named;
use pg_query::protobuf::{ConstrType, Constraint, CreateStmt};
use pg_query::{Node, NodeEnum};

use super::rule::CONSTRAINT;
use super::stored_definition::StoredTable;
use crate::ddl::free_name;

/// Bytes of a name in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// The constraint of a node, if it is one.
pub(super) fn constraint_of(node: &Node) -> Option<&Constraint> {
    match &node.node {
        Some(NodeEnum::Constraint(constraint)) => Some(constraint.as_ref()),
        _ => None,
    }
}

/// Whether a node is a constraint of a kind.
pub(super) fn is_kind(node: &Node, kind: ConstrType) -> bool {
    constraint_of(node).is_some_and(|constraint| constraint.contype == kind as i32)
}

/// All constraints of a table: those of its columns, and its own.
pub(super) fn constraints(made: &CreateStmt) -> impl Iterator<Item = &Constraint> {
    made.table_elts.iter().flat_map(|element| {
        let of_column: &[Node] = match &element.node {
            Some(NodeEnum::ColumnDef(definition)) => &definition.constraints,
            _ => &[],
        };
        of_column.iter().chain([element]).filter_map(constraint_of)
    })
}

/// Takes the CHECK constraints out of a statement: what is left is all that is known of the table here.
pub(super) fn without_checks(statement: &mut CreateStmt) {
    let is_other = |node: &Node| !is_kind(node, ConstrType::ConstrCheck);
    statement.table_elts.retain(is_other);
    for element in &mut statement.table_elts {
        if let Some(NodeEnum::ColumnDef(definition)) = &mut element.node {
            definition.constraints.retain(is_other);
        }
    }
}

/// Gives the CHECK constraints of a statement that makes a table their names.
///
/// # Errors
/// As [`Names::give`].
pub(super) fn name_checks(statement: &mut CreateStmt) -> Result<()> {
    let table = statement.relation.as_ref().map_or_else(String::new, |relation| relation.relname.clone());
    let mut names = Names { table: &table, taken: Vec::new() };
    for element in &mut statement.table_elts {
        match &mut element.node {
            Some(NodeEnum::ColumnDef(definition)) => names.give_all(&mut definition.constraints)?,
            Some(NodeEnum::Constraint(constraint)) => names.give(constraint)?,
            _ => {}
        }
    }
    Ok(())
}

/// Names of constraints of a table.
pub(super) struct Names<'t> {
    table: &'t str,
    taken: Vec<String>,
}

impl<'t> Names<'t> {
    /// Those of a table that is there.
    pub(super) fn of(table: &'t str, now: &StoredTable) -> Self {
        let named = constraints(&now.made).filter(|constraint| !constraint.conname.is_empty());
        let names = named.map(|constraint| &constraint.conname).chain(now.keys.iter().map(|key| &key.name));
        Self { table, taken: names.cloned().collect() }
    }

    /// A name is free again.
    pub(super) fn forget(&mut self, name: &str) {
        self.taken.retain(|taken| taken != name);
    }

    /// Gives the CHECK constraints among these their names.
    ///
    /// # Errors
    /// As [`Self::give`].
    pub(super) fn give_all(&mut self, constraints: &mut [Node]) -> Result<()> {
        for node in constraints {
            if let Some(NodeEnum::Constraint(constraint)) = &mut node.node {
                self.give(constraint)?;
            }
        }
        Ok(())
    }

    /// Gives a constraint a name, if it is a CHECK without one.
    ///
    /// # Errors
    /// 42710 for a name that another constraint of the table has, 42602 for that of a rule's own.
    pub(super) fn give(&mut self, constraint: &mut Constraint) -> Result<()> {
        if constraint.contype != ConstrType::ConstrCheck as i32 {
            return Ok(());
        }
        let name = &mut constraint.conname;
        if name.is_empty() {
            *name = self.free(constraint.raw_expr.as_deref());
        } else if name.as_str() == CONSTRAINT {
            let message = format!("the name \"{name}\" is that of constraints that keep a rule");
            return Err(Error::new(ErrorCode::InvalidName, message).with_hint("Give it another name."));
        }
        self.take(name)
    }

    /// Notes a name that a constraint is given.
    ///
    /// # Errors
    /// 42710 for one that another constraint of the table has.
    pub(super) fn take(&mut self, name: &str) -> Result<()> {
        if self.taken.iter().any(|taken| taken == name) {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", self.table);
            return Err(Error::new(ErrorCode::DuplicateObject, message));
        }
        self.taken.push(name.to_owned());
        Ok(())
    }

    /// `table_column_check` where the expression has one column, else `table_check`, with a number where that is taken.
    fn free(&self, expression: Option<&Node>) -> String {
        let mut named: Vec<&str> =
            expression.and_then(columns_named).unwrap_or_default().into_iter().map(|(name, _)| name).collect();
        named.sort_unstable();
        named.dedup();
        let is_taken = |name: &str| self.taken.iter().any(|taken| taken == name);
        if let [column] = named[..] {
            return free_name(self.table, &[column.to_owned()], "check", is_taken);
        }
        free_of_table(self.table, "check", is_taken)
    }
}

/// `table_label`, or the first of `table_label1`, ... that is free. As in PostgreSQL the table's part is cut where a name would be too long.
pub(crate) fn free_of_table(table: &str, label: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut number = 0_u32;
    loop {
        let end = if number == 0 { format!("_{label}") } else { format!("_{label}{number}") };
        let mut start = table.to_owned();
        while start.len() + end.len() > NAME_BYTES_MAX {
            start.pop();
        }
        let name = format!("{start}{end}");
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}
