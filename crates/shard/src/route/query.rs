//! Queries and their FROM clauses, for the [`Analysis`]: what joins, sub-queries and CTEs make of restrictions.

use ashlar_base::{Error, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{
    Alias, CommonTableExpr, JoinExpr, JoinType, LockWaitPolicy, LockingClause, Node, RangeSubselect, RangeVar,
    SelectStmt, SetOperation, WithClause, a_const,
};

use super::analysis::{Analysis, Cte};
use super::nodes;
use super::scope::{From, Named, Occurrences, Output, Scope, Variable};
use crate::rules::Placement;

/// Queries within queries.
const DEPTH_MAX: usize = 64;

/// What a query is, seen from outside.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) outputs: Vec<Output>,
    /// Whether all outputs are known by name.
    pub(super) is_complete: bool,
    /// Occurrences whose rows divide what FROM and WHERE make.
    pub(super) row_anchors: Vec<usize>,
    /// Occurrences whose rows divide the result, but for LIMIT.
    pub(super) anchors: Vec<usize>,
    /// Whether it takes some of its rows by their number.
    pub(super) is_limited: bool,
    /// Whether it makes one row of all.
    pub(super) is_aggregated: bool,
    /// Whether it makes one row of each group.
    pub(super) is_grouped: bool,
    /// Whether it makes one row of all that are alike in their outputs, and nothing else of several.
    pub(super) is_distinct: bool,
    /// Names of the columns that it reads, where it makes groups and they are all known.
    pub(super) inputs: Option<Vec<String>>,
    /// By aggregate with DISTINCT: occurrences that divide the rows, and of which one row has each value of its argument in a group.
    pub(super) keyed: Vec<Vec<usize>>,
    /// Whether a condition on a column that it hands out may be asked of the rows that it reads instead.
    pub(super) is_restrictable: bool,
    /// Sharded tables within.
    pub(super) occurrences: Occurrences,
}

impl Analysis<'_> {
    /// Walks a query.
    pub(super) fn query(&mut self, select: &SelectStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let mut depth = 0;
        let mut around = outer;
        while let Some(scope) = around {
            depth += 1;
            around = scope.outer;
        }
        if depth > DEPTH_MAX {
            return Err(Error::new(ashlar_base::ErrorCode::StatementTooComplex, "queries are nested too deep"));
        }
        self.depth += 1;
        let first = self.occurrences.len();
        let ctes = self.ctes.len();
        let saved = (std::mem::take(&mut self.aggregates), std::mem::take(&mut self.windows));
        if let Some(with) = &select.with_clause {
            self.with(with, outer)?;
        }
        if select.into_clause.is_some() {
            return Err(Error::unsupported("SELECT INTO is not supported for sharded tables")
                .with_hint("Create the table, then INSERT INTO it."));
        }
        let mut query = if SetOperation::try_from(select.op) == Ok(SetOperation::SetopNone) {
            // What WITH has beside changes may be read by those.
            let read = if self.changes { self.occurrences.len() } else { first };
            self.simple(select, outer, read)?
        } else {
            self.set_operation(select, outer)?
        };
        for clause in &select.locking_clause {
            if let Some(NodeEnum::LockingClause(clause)) = &clause.node {
                self.lock(clause);
            }
        }
        query.occurrences = Occurrences::between(first, self.occurrences.len());
        query.is_limited = is_limit(&select.limit_count) || is_limit(&select.limit_offset);
        self.has_limits |= query.is_limited;
        query.is_restrictable &= !query.is_limited;
        self.ctes.truncate(ctes);
        self.depth -= 1;
        (self.aggregates, self.windows) = saved;
        Ok(query)
    }

    /// Notes which tables' rows are locked.
    fn lock(&mut self, clause: &LockingClause) {
        self.locks = true;
        let named = clause.locked_rels.iter().filter_map(|node| match &node.node {
            Some(NodeEnum::RangeVar(relation)) => Some(relation.relname.clone()),
            _ => None,
        });
        let named: Vec<String> = named.collect();
        let is_copied = self.occurrences.iter().any(|occurrence| {
            occurrence.table.rule.placement() == Placement::Broadcast
                && (named.is_empty() || named.contains(&occurrence.alias))
        });
        self.locks_copies |= is_copied;
        self.skips_locked |= LockWaitPolicy::try_from(clause.wait_policy) == Ok(LockWaitPolicy::LockWaitSkip);
    }

    fn simple(&mut self, select: &SelectStmt, outer: Option<&Scope<'_>>, first: usize) -> Result<Query> {
        if !select.values_lists.is_empty() {
            let from = From::default();
            let scope = Scope { from: &from, outer };
            for row in &select.values_lists {
                self.walk(row, &scope)?;
            }
            return Ok(values(select));
        }
        let mut from = From::default();
        for item in &select.from_clause {
            let next = self.item(item, &from, outer)?;
            from = from.beside(next);
        }
        let scope = Scope { from: &from, outer };
        let condition = match select.where_clause.as_deref() {
            Some(condition) => {
                self.restrict(condition, &scope, from.occurrences)?;
                Some(self.conjuncts.len() - 1)
            }
            None => None,
        };
        self.select_list(select, &from, &scope)?;
        let clauses = select.group_clause.iter().chain(&select.window_clause).chain(&select.sort_clause);
        let single = [&select.having_clause, &select.limit_count, &select.limit_offset];
        let single = single.into_iter().filter_map(|node| node.as_deref());
        for clause in clauses.chain(&select.distinct_clause).chain(single) {
            self.walk(clause, &scope)?;
        }
        // WHERE restricts the sub-queries of all clauses: they are asked for rows that satisfy it.
        if let Some(condition) = condition {
            let all = Occurrences::between(first, self.occurrences.len());
            self.conjuncts[condition].restricts = if self.changes { all.or(from.occurrences) } else { all };
        }
        let (outputs, is_complete) = outputs(&select.target_list, &scope);
        self.makes_nulls |= select.group_clause.iter().any(|node| matches!(node.node, Some(NodeEnum::GroupingSet(_))));
        let is_grouped = !select.group_clause.is_empty();
        let is_aggregated = !is_grouped && (self.aggregates > 0 || select.having_clause.is_some());
        let is_windowed = self.windows > 0 || !select.window_clause.is_empty();
        let is_distinct_on = select.distinct_clause.iter().any(|node| node.node.is_some());
        // It takes one row of several, whichever comes first.
        self.has_limits |= is_distinct_on;
        let anchors = match is_aggregated || is_windowed {
            true => Vec::new(),
            false => self.dividing(select, &from, &scope, &outputs),
        };
        let is_distinct = !select.distinct_clause.is_empty() && !is_distinct_on && !is_windowed;
        let inputs = is_grouped && !from.is_incomplete;
        let names = || from.visible.iter().map(|column| column.name.clone()).collect::<Option<Vec<String>>>();
        Ok(Query {
            outputs,
            is_complete,
            row_anchors: from.anchors.clone(),
            anchors,
            is_aggregated,
            is_grouped,
            is_distinct: is_distinct && !is_grouped && !is_aggregated,
            inputs: inputs.then(names).flatten(),
            keyed: self.keyed(select, &scope, &from.anchors),
            is_restrictable: !is_windowed && !is_distinct_on,
            ..Query::default()
        })
    }

    /// Walks through the select list, and notes its stars.
    fn select_list(&mut self, select: &SelectStmt, from: &From, scope: &Scope<'_>) -> Result<()> {
        for target in &select.target_list {
            // A star is no expression.
            match star_of(target) {
                None => self.walk(target, scope)?,
                Some(of) => {
                    self.has_schema_columns |= of.len() > 1;
                    if self.names_stars {
                        self.name_star(target, &of, from)?;
                    } else if self.depth == self.own_depth {
                        let star = self.named_star(target, &of, from);
                        self.stars.push(star);
                    }
                }
            }
        }
        Ok(())
    }

    /// The anchors that divide the result: GROUP BY and DISTINCT leave those whose key is among their columns.
    fn dividing(&self, select: &SelectStmt, from: &From, scope: &Scope<'_>, outputs: &[Output]) -> Vec<usize> {
        let mut anchors = from.anchors.clone();
        if !select.group_clause.is_empty() {
            let grouped = group_variables(select, scope);
            anchors.retain(|anchor| self.is_keyed(*anchor, grouped.as_deref()));
        }
        if select.distinct_clause.iter().any(|node| node.node.is_some()) {
            // DISTINCT ON
            let by: Vec<Variable> =
                select.distinct_clause.iter().filter_map(|node| expression_variable(node, select, scope)).collect();
            anchors.retain(|anchor| self.is_keyed(*anchor, Some(&by)));
        } else if !select.distinct_clause.is_empty() {
            let by: Vec<Variable> = outputs.iter().filter_map(|output| output.variable).collect();
            anchors.retain(|anchor| self.is_keyed(*anchor, Some(&by)));
        }
        anchors
    }

    /// By aggregate with DISTINCT: those of the anchors whose key is given by its argument and by what is grouped by.
    fn keyed(&self, select: &SelectStmt, scope: &Scope<'_>, anchors: &[usize]) -> Vec<Vec<usize>> {
        let groups = group_variables(select, scope).unwrap_or_default();
        let mut found = Vec::new();
        let mut left: Vec<&Node> = select.target_list.iter().chain(&select.sort_clause).collect();
        left.extend(select.having_clause.as_deref());
        while let Some(inner) = left.pop().map(|node| node.node.as_ref()) {
            let Some(inner) = inner else { continue };
            if let NodeEnum::FuncCall(call) = inner
                && call.agg_distinct
            {
                let argument = match &call.args[..] {
                    [argument] => argument.node.as_ref().and_then(nodes::column_name),
                    _ => None,
                };
                let variable = argument.and_then(|fields| scope.variable(&fields));
                let columns: Vec<Variable> = groups.iter().copied().chain(variable).collect();
                found.push(anchors.iter().copied().filter(|at| self.is_keyed(*at, Some(&columns))).collect());
            }
            left.extend(nodes::children(inner).into_iter().flatten());
        }
        found
    }

    /// Whether rows that are alike in these columns belong to one row of the anchor's shard.
    fn is_keyed(&self, anchor: usize, columns: Option<&[Variable]>) -> bool {
        let key = self.key_of(anchor);
        columns.is_some_and(|columns| !key.is_empty() && key.iter().all(|variable| columns.contains(variable)))
    }

    fn set_operation(&mut self, select: &SelectStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let mut outputs = Vec::new();
        let mut is_complete = false;
        for (at, arm) in [&select.larg, &select.rarg].into_iter().enumerate() {
            let Some(arm) = arm else { return Err(Error::internal("a set operation without sides")) };
            let query = self.query(arm, outer)?;
            if at == 0 {
                outputs = query.outputs;
                is_complete = query.is_complete;
            }
        }
        outputs.iter_mut().for_each(|output| output.variable = None);
        let from = From { visible: outputs.clone(), is_incomplete: !is_complete, ..From::default() };
        let scope = Scope { from: &from, outer };
        let limits = [select.limit_count.as_deref(), select.limit_offset.as_deref()];
        for clause in select.sort_clause.iter().chain(limits.into_iter().flatten()) {
            self.walk(clause, &scope)?;
        }
        Ok(Query { outputs, is_complete, ..Query::default() })
    }

    /// The CTEs of a WITH; they are in force until the query that has it ends.
    pub(super) fn with(&mut self, with: &WithClause, outer: Option<&Scope<'_>>) -> Result<()> {
        for (place, cte) in with.ctes.iter().enumerate() {
            let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node else { continue };
            let before = self.ctes.len();
            if with.recursive {
                // Inside of it, its name and those behind it mean rows that nobody knows.
                self.ctes.extend(with.ctes[place..].iter().filter_map(name_of_cte).map(unknown_cte));
            }
            if cte.search_clause.is_some() || cte.cycle_clause.is_some() {
                self.object("SEARCH and CYCLE add columns that are not known");
            }
            let select = match nodes::inner(&cte.ctequery) {
                Some(NodeEnum::SelectStmt(select)) => select,
                Some(change) => {
                    let (mut columns, is_complete) = self.change(change)?;
                    self.ctes.truncate(before);
                    rename(&mut columns, &cte.aliascolnames);
                    // Its readers restrict nothing of it.
                    let (anchors, occurrences) = (Vec::new(), Occurrences::default());
                    self.ctes.push(Cte { name: cte.ctename.clone(), columns, is_complete, anchors, occurrences });
                    continue;
                }
                None => return Err(Error::internal("a WITH without a query")),
            };
            let query = self.query(select, outer)?;
            self.ctes.truncate(before);
            let is_recursive = with.recursive && select.op != SetOperation::SetopNone as i32;
            self.ctes.push(self.named_cte(cte, query, is_recursive));
        }
        Ok(())
    }

    fn named_cte(&self, cte: &CommonTableExpr, query: Query, is_recursive: bool) -> Cte {
        // Rows that are read twice may not be restricted for one of the readers.
        let is_read_once = self.references.get(&cte.ctename).copied().unwrap_or(usize::MAX) <= 1;
        let is_open = is_read_once && !is_recursive;
        let mut columns = query.outputs;
        if !is_open || !query.is_restrictable {
            columns.iter_mut().for_each(|column| column.variable = None);
        }
        rename(&mut columns, &cte.aliascolnames);
        Cte {
            name: cte.ctename.clone(),
            columns,
            is_complete: query.is_complete,
            anchors: if is_open && !query.is_limited { query.anchors } else { Vec::new() },
            occurrences: if is_open { query.occurrences } else { Occurrences::default() },
        }
    }

    /// Something in FROM. `before`: what stands before it there, for LATERAL.
    pub(super) fn item(&mut self, node: &Node, before: &From, outer: Option<&Scope<'_>>) -> Result<From> {
        match &node.node {
            Some(NodeEnum::RangeVar(relation)) => self.relation(relation),
            Some(NodeEnum::RangeSubselect(sub)) => self.sub_select(sub, before, outer),
            Some(NodeEnum::JoinExpr(join)) => self.join(join, before, outer),
            Some(NodeEnum::RangeFunction(function)) => {
                let lateral = Scope { from: before, outer };
                for call in &function.functions {
                    self.walk(call, &lateral)?;
                }
                let mut named = aliased(function.alias.as_ref(), Vec::new(), false);
                if let (None, Some(name)) = (&function.alias, function.functions.first().and_then(function_name)) {
                    named.alias = name;
                }
                Ok(From::of(named, Occurrences::default(), Vec::new()))
            }
            _ => {
                self.object("FROM holds something whose meaning for a shard is not known");
                Ok(From { is_incomplete: true, ..From::default() })
            }
        }
    }

    /// A table or a CTE.
    pub(super) fn relation(&mut self, relation: &RangeVar) -> Result<From> {
        let cte = self.ctes.iter().rev().find(|cte| relation.schemaname.is_empty() && cte.name == relation.relname);
        if let Some(cte) = cte.cloned() {
            *self.references.entry(cte.name.clone()).or_default() += 1;
            let alias = relation.alias.as_ref();
            let mut named = aliased(alias, cte.columns, cte.is_complete);
            if alias.is_none() {
                named.alias = cte.name;
            }
            return Ok(From::of(named, cte.occurrences, cte.anchors));
        }
        let Some(table) = self.find(relation) else {
            let named = aliased(relation.alias.as_ref(), Vec::new(), false);
            let alias = if relation.alias.is_some() { named.alias } else { relation.relname.clone() };
            return Ok(From::of(Named { alias, ..named }, Occurrences::default(), Vec::new()));
        };
        let number = self.occurrences.len();
        let is_divided = !table.rule.key().is_empty();
        let mut named = self.occurrence(relation, table)?;
        if let Some(alias) = &relation.alias {
            rename(&mut named.columns, &alias.colnames);
        }
        let anchors = if is_divided { vec![number] } else { Vec::new() };
        Ok(From::of(named, Occurrences::between(number, number + 1), anchors))
    }

    fn sub_select(&mut self, sub: &RangeSubselect, before: &From, outer: Option<&Scope<'_>>) -> Result<From> {
        let Some(NodeEnum::SelectStmt(select)) = nodes::inner(&sub.subquery) else {
            return Err(Error::internal("a sub-query that is no query"));
        };
        let lateral = Scope { from: before, outer };
        let query = self.query(select, if sub.lateral { Some(&lateral) } else { outer })?;
        let mut columns = query.outputs;
        if !query.is_restrictable {
            columns.iter_mut().for_each(|column| column.variable = None);
        }
        let anchors = if query.is_limited { Vec::new() } else { query.anchors };
        let named = aliased(sub.alias.as_ref(), columns, query.is_complete);
        Ok(From::of(named, query.occurrences, anchors))
    }

    fn join(&mut self, join: &JoinExpr, before: &From, outer: Option<&Scope<'_>>) -> Result<From> {
        let (Some(left), Some(right)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
            return Err(Error::internal("a join without sides"));
        };
        let left = self.item(left, before, outer)?;
        let both = before.clone().beside(left.clone());
        let right = self.item(right, &both, outer)?;
        let kind = JoinType::try_from(join.jointype).unwrap_or(JoinType::Undefined);
        self.makes_nulls |= kind != JoinType::JoinInner;
        let (restricts, anchors) = match kind {
            JoinType::JoinInner => {
                let all = left.clone().beside(right.clone());
                (all.occurrences, all.anchors)
            }
            JoinType::JoinLeft => (right.occurrences, left.anchors.clone()),
            JoinType::JoinRight => (left.occurrences, right.anchors.clone()),
            _ => (Occurrences::default(), Vec::new()),
        };
        let mut merged: Vec<Output> = Vec::new();
        for name in &join.using_clause {
            let name = nodes::string(name).unwrap_or_default();
            let of = |side: &From| Scope { from: side, outer: None }.variable(&[name]);
            let (a, b) = (of(&left), of(&right));
            if let (Some(a), Some(b)) = (a, b) {
                self.equate(a, b, restricts);
            }
            let variable = match kind {
                JoinType::JoinInner | JoinType::JoinLeft => a,
                JoinType::JoinRight => b,
                _ => None,
            };
            merged.push(Output { name: Some(name.to_owned()), variable });
        }
        let mut all = left.beside(right);
        all.anchors = anchors;
        if join.is_natural {
            // Which columns are merged is not followed: what is named without an alias may be of either side.
            all.visible.iter_mut().for_each(|column| column.variable = None);
            all.is_incomplete = true;
        }
        all.visible.retain(|column| !merged.iter().any(|other| other.name == column.name));
        merged.append(&mut all.visible);
        all.visible = merged;
        if let Some(condition) = join.quals.as_deref() {
            // ON sees its two sides, and nothing that stands before the join.
            self.restrict(condition, &Scope { from: &all, outer }, restricts)?;
        }
        if let Some(alias) = &join.alias {
            let mut columns = std::mem::take(&mut all.visible);
            rename(&mut columns, &alias.colnames);
            let named =
                Named { alias: alias.aliasname.clone(), schema: None, columns, is_complete: !all.is_incomplete };
            let occurrences = all.occurrences;
            all = From::of(named, occurrences, std::mem::take(&mut all.anchors));
        }
        Ok(all)
    }
}

/// The rows of VALUES.
fn values(select: &SelectStmt) -> Query {
    let width = match select.values_lists.first().and_then(|row| row.node.as_ref()) {
        Some(NodeEnum::List(list)) => list.items.len(),
        _ => 0,
    };
    let outputs = (1..=width).map(|number| Output { name: Some(format!("column{number}")), variable: None });
    Query { outputs: outputs.collect(), is_complete: true, is_restrictable: true, ..Query::default() }
}

fn name_of_cte(node: &Node) -> Option<&str> {
    match &node.node {
        Some(NodeEnum::CommonTableExpr(cte)) => Some(cte.ctename.as_str()),
        _ => None,
    }
}

fn unknown_cte(name: &str) -> Cte {
    Cte {
        name: name.to_owned(),
        columns: Vec::new(),
        is_complete: false,
        anchors: Vec::new(),
        occurrences: Occurrences::default(),
    }
}

/// The name that a function in FROM has without an alias.
fn function_name(node: &Node) -> Option<String> {
    let NodeEnum::List(list) = node.node.as_ref()? else { return None };
    let NodeEnum::FuncCall(call) = list.items.first()?.node.as_ref()? else { return None };
    call.funcname.last().and_then(nodes::string).map(str::to_owned)
}

fn aliased(alias: Option<&Alias>, mut columns: Vec<Output>, is_complete: bool) -> Named {
    let name = alias.map(|alias| alias.aliasname.clone()).unwrap_or_default();
    if let Some(alias) = alias {
        rename(&mut columns, &alias.colnames);
    }
    Named { alias: name, schema: None, columns, is_complete }
}

/// Gives the first columns new names.
fn rename(columns: &mut [Output], names: &[Node]) {
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = nodes::string(name).map(str::to_owned);
    }
}

fn is_limit(node: &Option<Box<Node>>) -> bool {
    match nodes::inner(node) {
        // LIMIT ALL
        Some(NodeEnum::AConst(constant)) => !constant.isnull,
        Some(_) => true,
        None => false,
    }
}

pub(super) fn star_of(target: &Node) -> Option<Vec<&str>> {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
    let Some(NodeEnum::ColumnRef(column)) = nodes::inner(&target.val) else { return None };
    match column.fields.split_last() {
        Some((last, rest)) if matches!(last.node, Some(NodeEnum::AStar(_))) => rest.iter().map(nodes::string).collect(),
        _ => None,
    }
}

pub(super) fn is_star(target: &Node) -> bool {
    star_of(target).is_some()
}

/// The columns that a query hands out, and whether that is all of them.
pub(super) fn outputs(targets: &[Node], scope: &Scope<'_>) -> (Vec<Output>, bool) {
    let mut outputs = Vec::new();
    let mut is_complete = true;
    for target in targets {
        if let Some(of) = star_of(target) {
            match of[..] {
                [] => {
                    outputs.extend(scope.from.visible.iter().cloned());
                    is_complete &= !scope.from.is_incomplete;
                }
                [alias] => match scope.from.named.iter().find(|named| named.alias == alias) {
                    Some(named) => {
                        outputs.extend(named.columns.iter().cloned());
                        is_complete &= named.is_complete;
                    }
                    None => is_complete = false,
                },
                _ => is_complete = false,
            }
            continue;
        }
        let Some(NodeEnum::ResTarget(target)) = &target.node else { continue };
        let value = nodes::inner(&target.val);
        let fields = value.and_then(nodes::column_name);
        let name = match value {
            _ if !target.name.is_empty() => Some(target.name.clone()),
            Some(NodeEnum::ColumnRef(_)) => {
                fields.as_ref().and_then(|fields| fields.last()).map(|name| (*name).to_owned())
            }
            Some(NodeEnum::FuncCall(call)) => call.funcname.last().and_then(nodes::string).map(str::to_owned),
            _ => None,
        };
        // A name that is made up may be one that somebody looks for.
        is_complete &= name.is_some();
        outputs.push(Output { name, variable: fields.and_then(|fields| scope.variable(&fields)) });
    }
    (outputs, is_complete)
}

/// The columns that a query groups by, where every group has one value of each; `None` for grouping sets.
fn group_variables(select: &SelectStmt, scope: &Scope<'_>) -> Option<Vec<Variable>> {
    if select.group_clause.iter().any(|node| matches!(node.node, Some(NodeEnum::GroupingSet(_)))) {
        return None;
    }
    Some(select.group_clause.iter().filter_map(|node| expression_variable(node, select, scope)).collect())
}

/// The column that an expression of GROUP BY or DISTINCT ON is: by its name, or by the number of an output.
pub(super) fn expression_variable(node: &Node, select: &SelectStmt, scope: &Scope<'_>) -> Option<Variable> {
    let node = node.node.as_ref()?;
    if let Some(fields) = nodes::column_name(node) {
        return scope.variable(&fields);
    }
    let NodeEnum::AConst(constant) = node else { return None };
    let Some(a_const::Val::Ival(number)) = &constant.val else { return None };
    let at = usize::try_from(number.ival).ok()?.checked_sub(1)?;
    if select.target_list.iter().take(at + 1).any(is_star) {
        return None;
    }
    let NodeEnum::ResTarget(target) = select.target_list.get(at)?.node.as_ref()? else { return None };
    scope.variable(&nodes::column_name(nodes::inner(&target.val)?)?)
}
