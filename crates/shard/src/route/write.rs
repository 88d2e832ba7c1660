//! UPDATE and DELETE, and what all writes have in common: assignments and RETURNING.

use std::sync::Arc;

use ashlar_base::{Error, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{DeleteStmt, Node, RangeVar, ResTarget, ReturningClause, UpdateStmt};

use super::analysis::Analysis;
use super::insert::Inserted;
use super::nodes;
use super::query::{is_star, outputs, star_of};
use super::scope::{From, Occurrences, Output, Scope};
use super::{Found, ShardedTable, is_computed};
use crate::rules::Placement;

impl Analysis<'_> {
    /// Walks an INSERT, UPDATE or DELETE in WITH: the columns that it hands out, and whether that is all of them.
    ///
    /// What it changes is changed whatever is read of it, so that nothing around it restricts it. What it restricts itself holds for those
    /// who take keys from its rows.
    pub(super) fn change(&mut self, change: &NodeEnum) -> Result<(Vec<Output>, bool)> {
        let (relation, returning) = match change {
            NodeEnum::InsertStmt(insert) => (insert.relation.as_ref(), insert.returning_clause.as_ref()),
            NodeEnum::UpdateStmt(update) => (update.relation.as_ref(), update.returning_clause.as_ref()),
            NodeEnum::DeleteStmt(delete) => (delete.relation.as_ref(), delete.returning_clause.as_ref()),
            _ => (None, None),
        };
        let found = relation.map(|relation| {
            let schema = Some(relation.schemaname.as_str()).filter(|schema| !schema.is_empty());
            self.tables.find(schema, &relation.relname)
        });
        let Some(Found::Sharded(table)) = found else {
            self.changes_elsewhere = true;
            return Ok((Vec::new(), false));
        };
        if table.rule.placement() == Placement::Broadcast {
            let message = format!("WITH that changes rows of all copies of table \"{}\" is not supported", table.name);
            return Err(Error::unsupported(message).with_hint(super::ONE_BY_ONE));
        }
        self.changes = true;
        let first = self.occurrences.len();
        let names_stars = std::mem::replace(&mut self.names_stars, false);
        let from = match change {
            NodeEnum::InsertStmt(insert) => match self.insert(insert, true)? {
                (Inserted::Defaults, _) => return Err(super::insert::no_defaults()),
                (_, from) => from,
            },
            NodeEnum::UpdateStmt(update) => self.update(update)?,
            NodeEnum::DeleteStmt(delete) => self.delete(delete)?,
            _ => return Err(Error::internal("a change of an unknown kind")),
        };
        self.names_stars = names_stars;
        let targets: &[Node] = match returning {
            Some(returning) => &returning.exprs,
            None => &[],
        };
        if names_stars {
            for target in targets {
                if let Some(of) = star_of(target) {
                    self.name_star(target, &of, &from)?;
                }
            }
        }
        self.sealed = self.sealed.or(Occurrences::between(first, self.occurrences.len()));
        Ok(outputs(targets, &Scope { from: &from, outer: None }))
    }

    /// Walks an UPDATE; its target is the first occurrence from here on. What RETURNING sees.
    pub(super) fn update(&mut self, update: &UpdateStmt) -> Result<From> {
        let target = self.target(update.relation.as_ref())?;
        if let Some(with) = &update.with_clause {
            self.with(with, None)?;
        }
        let assign = |analysis: &mut Self, table: &ShardedTable, scope: &Scope<'_>| {
            analysis.assignments(&update.target_list, table, scope)
        };
        let condition = update.where_clause.as_deref();
        self.changed(target, &update.from_clause, condition, assign, update.returning_clause.as_ref())
    }

    /// Walks a DELETE; its target is the first occurrence from here on. What RETURNING sees.
    pub(super) fn delete(&mut self, delete: &DeleteStmt) -> Result<From> {
        let target = self.target(delete.relation.as_ref())?;
        if let Some(with) = &delete.with_clause {
            self.with(with, None)?;
        }
        let nothing = |_: &mut Self, _: &ShardedTable, _: &Scope<'_>| Ok(());
        self.changed(
            target,
            &delete.using_clause,
            delete.where_clause.as_deref(),
            nothing,
            delete.returning_clause.as_ref(),
        )
    }

    fn target(&mut self, relation: Option<&RangeVar>) -> Result<(Arc<ShardedTable>, From)> {
        let Some(relation) = relation else { return Err(Error::internal("a write without a table")) };
        let Some(table) = self.find(relation) else {
            return Err(Error::unsupported("a change of another table by rows of sharded ones is not supported"));
        };
        let number = self.occurrences.len();
        let named = self.occurrence(relation, Arc::clone(&table))?;
        Ok((table, From::of(named, Occurrences::between(number, number + 1), vec![number])))
    }

    fn changed(
        &mut self,
        (table, target): (Arc<ShardedTable>, From),
        sources: &[Node],
        condition: Option<&Node>,
        assign: impl FnOnce(&mut Self, &ShardedTable, &Scope<'_>) -> Result<()>,
        returning: Option<&ReturningClause>,
    ) -> Result<From> {
        let (first, read) = (target.anchors.first().copied().unwrap_or(0), self.occurrences.len());
        let mut from = target;
        for source in sources {
            let next = self.item(source, &from, None)?;
            from = from.beside(next);
        }
        let scope = Scope { from: &from, outer: None };
        let restricted = match condition {
            Some(condition) => {
                self.restrict(condition, &scope, from.occurrences)?;
                Some(self.conjuncts.len() - 1)
            }
            None => None,
        };
        assign(self, &table, &scope)?;
        self.returning(returning, &from)?;
        if let Some(restricted) = restricted {
            let end = self.occurrences.len();
            self.conjuncts[restricted].restricts = match self.changes {
                // What stands in WITH beside changes may be read by those.
                true => from.occurrences.or(Occurrences::between(read, end)),
                false => Occurrences::between(first, end),
            };
        }
        Ok(from)
    }

    /// SET: any column but those of the sharding key, which would move the row.
    pub(super) fn assignments(&mut self, targets: &[Node], table: &ShardedTable, scope: &Scope<'_>) -> Result<()> {
        for node in targets {
            let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
            let column = table.columns.iter().position(|column| column.name == target.name);
            let is_key = column.is_some_and(|column| table.rule.key().contains(&column));
            if is_key {
                let assigned = nodes::inner(&target.val).and_then(nodes::column_name);
                let itself = scope.variable(&[&scope.from.named[0].alias, &target.name]);
                let is_itself = target.indirection.is_empty()
                    && assigned.is_some_and(|fields| {
                        // A row that conflicts has the same key: every unique constraint includes it.
                        let is_excluded = scope.from.named.len() > 1 && fields == ["excluded", &target.name];
                        is_excluded || (itself.is_some() && scope.variable(&fields) == itself)
                    });
                if !is_itself {
                    return Err(Error::unsupported(format!(
                        "column \"{}\" is of the sharding key, and cannot be changed",
                        target.name
                    ))
                    .with_hint("Delete the row and insert it anew, in one transaction."));
                }
            }
            // Each server computes it for itself.
            if column.is_some_and(|column| is_computed(&table.columns[column]) && is_default(target)) {
                self.is_same_everywhere = false;
            }
            match nodes::inner(&target.val) {
                // The columns of one list have one source, and the tree shows it with each of them: it is walked with the first, since
                // what is found in it stands in the text once.
                Some(NodeEnum::MultiAssignRef(assign)) if assign.colno > 1 => {
                    target.indirection.iter().try_for_each(|part| self.walk(part, scope))?;
                }
                _ => self.walk(node, scope)?,
            }
        }
        Ok(())
    }

    /// RETURNING
    pub(super) fn returning(&mut self, returning: Option<&ReturningClause>, from: &From) -> Result<()> {
        let Some(returning) = returning else { return Ok(()) };
        if !returning.options.is_empty() {
            return Err(Error::unsupported("RETURNING WITH is not supported for sharded tables"));
        }
        let scope = Scope { from, outer: None };
        returning.exprs.iter().filter(|target| !is_star(target)).try_for_each(|target| self.walk(target, &scope))
    }
}

/// Whether a column of SET is given its default, by itself or as one of several.
fn is_default(target: &ResTarget) -> bool {
    match nodes::inner(&target.val) {
        Some(NodeEnum::SetToDefault(_)) => true,
        Some(NodeEnum::MultiAssignRef(assign)) => match nodes::inner(&assign.source) {
            Some(NodeEnum::SetToDefault(_)) => true,
            Some(NodeEnum::RowExpr(row)) => {
                let number = nodes::offset(assign.colno).and_then(|number| number.checked_sub(1));
                let own = number.and_then(|number| row.args.get(number));
                matches!(own.and_then(|own| own.node.as_ref()), Some(NodeEnum::SetToDefault(_)))
            }
            _ => false,
        },
        _ => false,
    }
}
