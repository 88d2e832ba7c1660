//! Groups that are made in several ways, by ROLLUP, CUBE and GROUPING SETS: every shard makes them in all of them, and says of each group which
//! columns it leaves out.
//!
//! ```text
//!   GROUP BY ROLLUP (a, b)      grouping("a", "b") AS "_ashlar_1"
//! ```

use std::collections::BTreeSet;

use pg_query::NodeEnum;
use pg_query::protobuf::{CoercionForm, GroupingFunc, GroupingSet, GroupingSetKind, Node, SelectStmt};

use super::{Asked, name_of, place_at, tokens_of};
use crate::merge::Aggregate;
use crate::route::nodes;
use crate::route::several::{Attempt, no};

/// Ways in which groups are made, at the most.
const SETS_MAX: usize = 64;

/// Columns that PostgreSQL's `grouping` takes.
const COLUMNS_MAX: usize = 31;

/// Whether one of the expressions of GROUP BY stands for several.
pub(super) fn has_sets(select: &SelectStmt) -> bool {
    select.group_clause.iter().any(|node| matches!(node.node, Some(NodeEnum::GroupingSet(_))))
}

impl<'a> Asked<'a> {
    /// Tells groups apart by all of their columns, and by which of them they have.
    pub(super) fn sets(&mut self, select: &'a SelectStmt) -> Attempt<()> {
        let mut names = Names::default();
        let Some(sets) = names.sets(&select.group_clause) else {
            return no("groups are made in several ways of something that is no column");
        };
        let different: BTreeSet<&BTreeSet<usize>> = sets.iter().collect();
        if different.len() < sets.len() || names.0.is_empty() || names.0.len() > COLUMNS_MAX {
            // Two ways that are alike make two groups that nothing tells apart.
            return no("groups are made in one way twice, or in too many");
        }
        for fields in &names.0 {
            let columns = self.group_of_name(fields.clone())?;
            if !self.names.iter().any(|(known, _)| known == fields) {
                return no("groups are those of an output's name");
            }
            self.tell_apart(&columns)?;
        }
        let all: Vec<String> = names.0.iter().map(|fields| name_of(fields)).collect();
        self.push(&format!("grouping({})", all.join(", ")), Aggregate::Group);
        self.has_sets = true;
        Ok(())
    }

    /// The column of a call of `grouping`.
    pub(super) fn grouping(&mut self, call: &GroupingFunc) -> Attempt<usize> {
        let Some((start, arguments)) = place_at(call.location, false, self.about) else {
            return no("a call of grouping cannot be found in the text");
        };
        let text = self.about.text;
        let text = &text[start..arguments.end];
        let tokens = tokens_of(text);
        let shown = self.positions(|shown| shown.tokens == tokens).first().copied();
        if let Some(column) = shown.or_else(|| self.further(&tokens)) {
            return Ok(column);
        }
        let column = self.push(text, Aggregate::Alike);
        self.expressions.push((tokens, column));
        Ok(column)
    }
}

/// The names of the columns that groups are made of.
#[derive(Default)]
struct Names<'n>(Vec<Vec<&'n str>>);

impl<'n> Names<'n> {
    /// The sets of columns that a whole GROUP BY makes groups by.
    fn sets(&mut self, clause: &'n [Node]) -> Option<Vec<BTreeSet<usize>>> {
        let mut all = vec![BTreeSet::new()];
        for node in clause {
            let sets = self.of(node)?;
            if all.len() * sets.len() > SETS_MAX {
                return None;
            }
            all = all.iter().flat_map(|one| sets.iter().map(move |other| one | other)).collect();
        }
        Some(all)
    }

    /// Those of one of its expressions.
    fn of(&mut self, node: &'n Node) -> Option<Vec<BTreeSet<usize>>> {
        match node.node.as_ref()? {
            NodeEnum::GroupingSet(set) => self.of_set(set),
            _ => Some(vec![self.one(node)?]),
        }
    }

    fn of_set(&mut self, set: &'n GroupingSet) -> Option<Vec<BTreeSet<usize>>> {
        let kind = GroupingSetKind::try_from(set.kind).ok()?;
        let mut sets = Vec::new();
        match kind {
            GroupingSetKind::GroupingSetEmpty => sets.push(BTreeSet::new()),
            GroupingSetKind::GroupingSetSets => {
                for node in &set.content {
                    sets.extend(self.of(node)?);
                }
            }
            GroupingSetKind::GroupingSetRollup => {
                let mut so_far = BTreeSet::new();
                sets.push(so_far.clone());
                for node in &set.content {
                    so_far.extend(self.one(node)?);
                    sets.push(so_far.clone());
                }
            }
            GroupingSetKind::GroupingSetCube => {
                sets.push(BTreeSet::new());
                for node in &set.content {
                    let one = self.one(node)?;
                    let with: Vec<BTreeSet<usize>> = sets.iter().map(|other| other | &one).collect();
                    sets.extend(with);
                    if sets.len() > SETS_MAX {
                        return None;
                    }
                }
            }
            GroupingSetKind::GroupingSetSimple | GroupingSetKind::Undefined => return None,
        }
        (sets.len() <= SETS_MAX).then_some(sets)
    }

    /// The set of a column, or of several in parentheses.
    fn one(&mut self, node: &'n Node) -> Option<BTreeSet<usize>> {
        match node.node.as_ref()? {
            NodeEnum::RowExpr(row)
                if CoercionForm::try_from(row.row_format) == Ok(CoercionForm::CoerceImplicitCast) =>
            {
                row.args.iter().map(|node| self.column(node.node.as_ref()?)).collect()
            }
            node => Some(BTreeSet::from([self.column(node)?])),
        }
    }

    fn column(&mut self, node: &'n NodeEnum) -> Option<usize> {
        let fields = nodes::column_name(node)?;
        if let Some(known) = self.0.iter().position(|known| *known == fields) {
            return Some(known);
        }
        // Of two tables, or one column that is written in two ways.
        if self.0.iter().any(|known| known.last() == fields.last()) {
            return None;
        }
        self.0.push(fields);
        Some(self.0.len() - 1)
    }
}
