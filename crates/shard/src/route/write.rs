//! UPDATE and DELETE, and what all writes have in common: assignments and RETURNING.

use std::sync::Arc;

use ashlar_base::{Error, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{DeleteStmt, Node, RangeVar, ResTarget, ReturningClause, UpdateStmt};

use super::analysis::Analysis;
use super::nodes;
use super::query::is_star;
use super::scope::{From, Occurrences, Scope};
use super::{ShardedTable, is_computed};

impl Analysis<'_> {
    /// Walks an UPDATE; its target is the first occurrence.
    pub(super) fn update(&mut self, update: &UpdateStmt) -> Result<()> {
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

    /// Walks a DELETE; its target is the first occurrence.
    pub(super) fn delete(&mut self, delete: &DeleteStmt) -> Result<()> {
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
        let named = self.occurrence(relation, Arc::clone(&table))?;
        Ok((table, From::of(named, Occurrences::between(0, 1), vec![0])))
    }

    fn changed(
        &mut self,
        (table, target): (Arc<ShardedTable>, From),
        sources: &[Node],
        condition: Option<&Node>,
        assign: impl FnOnce(&mut Self, &ShardedTable, &Scope<'_>) -> Result<()>,
        returning: Option<&ReturningClause>,
    ) -> Result<()> {
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
            self.conjuncts[restricted].restricts = Occurrences::between(0, self.occurrences.len());
        }
        Ok(())
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
