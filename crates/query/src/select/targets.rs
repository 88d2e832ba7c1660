//! Resolves what ORDER BY, DISTINCT, DISTINCT ON and GROUP BY say about the select list, as PostgreSQL does. In the
//! first three a bare name is an output's before it is a column's, a whole number is a position, and any other
//! expression may be equal to an output. In GROUP BY a bare name is a column's before it is an output's.
//!
//! Called by the planner for each query before it is planned, after merged columns have been spelled out and columns
//! have been told from labels: the engine takes a number in DISTINCT ON for a value, and does not recognise an
//! expression of SELECT DISTINCT. Source: PostgreSQL's `findTargetlistEntrySQL92`, `findTargetlistEntrySQL99` and
//! `transformDistinctOnClause`.

use ashlar_base::{Error, ErrorCode, Result};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr,
    Value,
};

use super::Planner;
use super::group_keys::placed;
use super::joins::merges;
use super::labels::{Labels, only_table};
use super::names::{folded, label_of};
use super::reading::{Likeness, Reading};
use super::sources::{self, Source, Sources, selects};

/// Settles the clauses of a query and of every query inside it.
///
/// # Errors
/// 42702 for a name of several outputs, 42P10 and 42601 for what is none, and where DISTINCT and ORDER BY do not go together.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    sources::in_each_query(planner, query, settle_one)
}

/// Says by their places the outputs by whose names a query is grouped, in it and in every query inside it.
///
/// # Errors
/// 42702 for a name of several columns or of several outputs, 42601 for a constant that is no place; in grouping sets 42P10 for a place that is
/// not in the list, and 0A000 for one behind a star.
pub(super) fn settle_groups(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    sources::in_each_query(planner, query, settle_groups_of)
}

fn settle_groups_of(sources: &Sources<'_, '_>, query: &mut Query) -> Result<()> {
    for select in selects(&mut query.body) {
        let GroupByExpr::Expressions(exprs, _) = &mut select.group_by else { continue };
        if exprs.is_empty() || select.from.iter().any(merges) {
            continue;
        }
        let written = std::mem::take(exprs);
        let mut grouped = grouped_by(sources, select, written)?;
        keep_one_null(&mut grouped, &select.projection);
        if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
            *exprs = grouped;
        }
    }
    Ok(())
}

/// Leaves one of several keys that are NULL of some type: the engine calls all of them the same, and one of them groups as well.
fn keep_one_null(keys: &mut Vec<Expr>, projection: &[SelectItem]) {
    let mut is_first = true;
    keys.retain(|key| !is_null(placed(key, projection).unwrap_or(key)) || std::mem::take(&mut is_first));
}

/// Whether it is NULL, or a cast of it.
fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

/// What a SELECT is grouped by. Only where a name may be an output's are the columns of FROM asked for.
fn grouped_by(sources: &Sources<'_, '_>, select: &Select, written: Vec<Expr>) -> Result<Vec<Expr>> {
    let outputs = Outputs::of(select);
    let is_called = |expr: &Expr| match bare(expr) {
        Expr::Identifier(name) => outputs.is_called(&folded(name)),
        _ => false,
    };
    let is_any_called = written.iter().flat_map(items_of).any(is_called);
    let columns = if is_any_called { sources.of_from(&select.from) } else { None };
    outputs.grouped(written, columns.as_deref())
}

/// What an item of GROUP BY is about: itself, or what its grouping sets have.
fn items_of(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => sets.iter().flatten().collect(),
        other => vec![other],
    }
}

/// An expression without the parentheses around it.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// Whether it is a constant that PostgreSQL takes for a place, and that is none.
pub(super) fn is_no_place(value: &Value) -> bool {
    match value {
        Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => true,
        Value::Number(digits, _) => digits.contains(['.', 'e', 'E']),
        _ => false,
    }
}

fn settle_one(sources: &Sources<'_, '_>, query: &mut Query) -> Result<()> {
    if !matches!(query.body.as_ref(), SetExpr::Select(_)) {
        for select in selects(&mut query.body) {
            if !matches!(select.distinct, Some(Distinct::On(_))) {
                continue;
            }
            let distinct = select.distinct.take();
            select.distinct = of_select(sources, select, distinct, &mut Vec::new())?;
        }
        return check_order(query);
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let select: &mut Select = select;
    let mut nothing = Vec::new();
    let order_by = match query.order_by.as_mut().map(|order_by| &mut order_by.kind) {
        Some(OrderByKind::Expressions(items)) => items,
        _ => &mut nothing,
    };
    if order_by.is_empty() && !matches!(select.distinct, Some(Distinct::On(_))) {
        return Ok(());
    }
    let distinct = select.distinct.take();
    select.distinct = of_select(sources, select, distinct, order_by)?;
    Ok(())
}

/// Settles what a SELECT is sorted by, and what it is DISTINCT on.
fn of_select(
    sources: &Sources<'_, '_>,
    select: &Select,
    distinct: Option<Distinct>,
    order_by: &mut Vec<OrderByExpr>,
) -> Result<Option<Distinct>> {
    let outputs = Outputs::of(select);
    match distinct {
        Some(Distinct::On(on)) => {
            let mut labels = Labels::of(&select.projection, &select.from, sources);
            let on = outputs.distinct_on(on, order_by, &mut labels)?;
            return Ok(Some(Distinct::On(on)));
        }
        Some(Distinct::Distinct) => {
            for item in order_by {
                outputs.shown(item)?;
            }
        }
        Some(Distinct::All) | None => {
            for item in order_by {
                if let Expr::Identifier(name) = &item.expr {
                    outputs.named(name, "ORDER BY")?;
                }
            }
        }
    }
    Ok(distinct)
}

/// What a query without a select list of its own is sorted by: outputs of the one in parentheses, or of a union. Those are different ones,
/// whatever their first parts are.
fn check_order(query: &Query) -> Result<()> {
    let Some(OrderByKind::Expressions(items)) = query.order_by.as_ref().map(|order_by| &order_by.kind) else {
        return Ok(());
    };
    let Some(first) = first_select(&query.body) else { return Ok(()) };
    let outputs = Outputs::of(first);
    for item in items {
        let Expr::Identifier(name) = &item.expr else { continue };
        if !is_union(&query.body) {
            outputs.named(name, "ORDER BY")?;
            continue;
        }
        let name = folded(name);
        if outputs.list.iter().filter(|output| output.label == name).count() > 1 {
            return Err(Error::new(ErrorCode::AmbiguousColumn, format!("ORDER BY \"{name}\" is ambiguous")));
        }
    }
    Ok(())
}

fn is_union(body: &SetExpr) -> bool {
    match body {
        SetExpr::Query(query) => is_union(&query.body),
        SetExpr::SetOperation { .. } => true,
        _ => false,
    }
}

fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// An output that the select list names.
struct Output<'s> {
    /// Its place from 0, where no star stands before it.
    place: Option<usize>,
    label: String,
    expr: &'s Expr,
}

/// 42601
fn no_place_in_group() -> Error {
    Error::new(ErrorCode::SyntaxError, "non-integer constant in GROUP BY")
}

/// 0A000 for a position of which only the engine knows what it is.
fn in_star(clause: &str) -> Error {
    let message = format!("{clause} with the position of a column of a star is not supported");
    Error::unsupported(message).with_hint("Say the column by its name.")
}

/// The outputs of a select list but those of its stars.
struct Outputs<'s> {
    list: Vec<Output<'s>>,
    has_star: bool,
    /// The one table that the query is of: bare names are of its columns.
    table: Option<Ident>,
}

impl<'s> Outputs<'s> {
    fn of(select: &'s Select) -> Self {
        let mut list = Vec::with_capacity(select.projection.len());
        let mut has_star = false;
        for (place, item) in select.projection.iter().enumerate() {
            let (label, expr) = match item {
                SelectItem::UnnamedExpr(expr) => (label_of(expr), expr),
                SelectItem::ExprWithAlias { expr, alias } => (folded(alias), expr),
                _ => {
                    has_star = true;
                    continue;
                }
            };
            list.push(Output { place: (!has_star).then_some(place), label, expr });
        }
        Self { list, has_star, table: only_table(&select.from) }
    }

    /// Whether an output has the name and is not the column of that name itself.
    fn is_called(&self, name: &str) -> bool {
        let is_column = |output: &Output<'_>| match output.expr {
            Expr::Identifier(column) => folded(column) == name,
            Expr::CompoundIdentifier(names) => {
                self.table.is_some() && names.last().is_some_and(|column| folded(column) == name)
            }
            _ => false,
        };
        !self.list.iter().filter(|output| output.label == name).all(is_column)
    }

    /// What a query is grouped by, with its outputs' places for their names. `columns` are those of FROM; `None` where they are not known.
    fn grouped(&self, written: Vec<Expr>, columns: Option<&[Source]>) -> Result<Vec<Expr>> {
        let mut grouped: Vec<Expr> = Vec::with_capacity(written.len());
        for mut expr in written {
            if let Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) = &mut expr {
                for item in sets.iter_mut().flatten() {
                    self.meant_in_set(item, columns)?;
                }
            }
            let output = match (bare(&expr), columns) {
                (Expr::Value(value), _) if is_no_place(&value.value) => return Err(no_place_in_group()),
                (Expr::Identifier(name), Some(columns)) => self.group_of(name, columns)?,
                _ => None,
            };
            let output = output.map(|output| match output.place {
                Some(place) => Expr::value(Value::Number((place + 1).to_string(), false)),
                None => output.expr.clone(),
            });
            match output {
                // Once is enough.
                Some(output) if grouped.contains(&output) => {}
                Some(output) => grouped.push(output),
                None => grouped.push(expr),
            }
        }
        Ok(grouped)
    }

    /// Puts an output's expression in the place of its number or name in a grouping set, where the engine takes a number for a value.
    fn meant_in_set(&self, item: &mut Expr, columns: Option<&[Source]>) -> Result<()> {
        let output = match (bare(item), columns) {
            (Expr::Value(value), _) if is_no_place(&value.value) => return Err(no_place_in_group()),
            (Expr::Value(value), _) => match &value.value {
                Value::Number(digits, _) => Some(self.at(digits, "GROUP BY")?.ok_or_else(|| in_star("GROUP BY"))?),
                _ => None,
            },
            (Expr::Identifier(name), Some(columns)) => self.group_of(name, columns)?,
            _ => None,
        };
        if let Some(output) = output {
            *item = output.expr.clone();
        }
        Ok(())
    }

    /// The output that a name by itself means in GROUP BY; `None` for a column.
    fn group_of(&self, ident: &Ident, columns: &[Source]) -> Result<Option<&Output<'s>>> {
        let name = folded(ident);
        if !self.is_called(&name) {
            return Ok(None);
        }
        match columns.iter().filter(|column| column.name == name).count() {
            0 => self.named(ident, "GROUP BY"),
            1 => Ok(None),
            _ => {
                let message = format!("column reference \"{name}\" is ambiguous");
                Err(Error::new(ErrorCode::AmbiguousColumn, message))
            }
        }
    }

    fn reading(&self, expr: &Expr) -> Reading {
        Reading::of(expr, self.table.as_ref())
    }

    /// The output that a name by itself means.
    fn named(&self, name: &Ident, clause: &str) -> Result<Option<&Output<'s>>> {
        let name = folded(name);
        let mut found = self.list.iter().filter(|output| output.label == name);
        let Some(first) = found.next() else { return Ok(None) };
        for other in found {
            if self.reading(first.expr).likeness(&self.reading(other.expr)) == Likeness::Other {
                let message = format!("{clause} \"{name}\" is ambiguous");
                return Err(Error::new(ErrorCode::AmbiguousColumn, message));
            }
        }
        Ok(Some(first))
    }

    /// What SELECT DISTINCT is sorted by, which it shows: an expression is said by its place.
    fn shown(&self, item: &mut OrderByExpr) -> Result<()> {
        let is_found = match &item.expr {
            Expr::Identifier(name) => self.named(name, "ORDER BY")?.is_some(),
            Expr::Value(value) => matches!(value.value, Value::Number(..)),
            _ => false,
        };
        if is_found {
            return Ok(());
        }
        let wanted = self.reading(&item.expr);
        let mut is_unsure = false;
        for output in &self.list {
            match wanted.likeness(&self.reading(output.expr)) {
                Likeness::Same => {
                    if let Some(place) = output.place {
                        item.expr = Expr::value(Value::Number((place + 1).to_string(), false));
                    }
                    return Ok(());
                }
                Likeness::Unsure => is_unsure = true,
                Likeness::Other => {}
            }
        }
        // A column may be one of a star's, or said in two ways: the planner knows.
        if is_unsure || matches!(item.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            return Ok(());
        }
        let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        Err(Error::new(ErrorCode::InvalidColumnReference, message))
    }

    /// What DISTINCT ON is on, each once, in the order in which ORDER BY begins with it: that is how the engine wants it.
    fn distinct_on(
        &self,
        on: Vec<Expr>,
        order_by: &mut Vec<OrderByExpr>,
        labels: &mut Labels<'_, '_, '_>,
    ) -> Result<Vec<Expr>> {
        let mut rest: Vec<Expr> = Vec::with_capacity(on.len());
        for expr in on {
            let expr = self.meant(expr, "DISTINCT ON", labels)?;
            if !rest.iter().any(|known| self.likeness(known, &expr) == Likeness::Same) {
                rest.push(expr);
            }
        }
        for item in order_by.iter_mut() {
            let expr = std::mem::replace(&mut item.expr, Expr::value(Value::Null));
            item.expr = self.meant(expr, "ORDER BY", labels)?;
        }
        if order_by.is_empty() {
            return Ok(rest);
        }
        self.drop_repeated(order_by);
        let written = rest.clone();
        let mut sorted: Vec<Expr> = Vec::with_capacity(rest.len());
        let (mut is_other_first, mut is_mismatch) = (false, false);
        for item in order_by.iter_mut() {
            let Some(place) = rest.iter().position(|expr| self.likeness(expr, &item.expr) == Likeness::Same) else {
                is_other_first = true;
                continue;
            };
            is_mismatch |= is_other_first;
            let expr = rest.remove(place);
            item.expr = expr.clone();
            sorted.push(expr);
        }
        if is_mismatch || is_other_first && !rest.is_empty() {
            let is_unsure = written
                .iter()
                .any(|expr| order_by.iter().any(|item| self.likeness(expr, &item.expr) == Likeness::Unsure));
            if is_unsure {
                return Ok(written);
            }
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            return Err(Error::new(ErrorCode::InvalidColumnReference, message));
        }
        // What ORDER BY does not say is sorted as it comes.
        for expr in rest {
            order_by.push(OrderByExpr { expr: expr.clone(), options: OrderByOptions::default(), with_fill: None });
            sorted.push(expr);
        }
        Ok(sorted)
    }

    fn likeness(&self, one: &Expr, other: &Expr) -> Likeness {
        self.reading(one).likeness(&self.reading(other))
    }

    /// What a query is sorted by already says nothing more, and the engine counts on each being there once.
    fn drop_repeated(&self, order_by: &mut Vec<OrderByExpr>) {
        let mut known: Vec<Reading> = Vec::with_capacity(order_by.len());
        order_by.retain(|item| {
            let reading = self.reading(&item.expr);
            let is_new = !known.iter().any(|before| before.likeness(&reading) == Likeness::Same);
            known.push(reading);
            is_new
        });
    }

    /// What an item of a clause means: the expression of the output that it names or counts to, or itself.
    fn meant(&self, mut expr: Expr, clause: &str, labels: &mut Labels<'_, '_, '_>) -> Result<Expr> {
        while let Expr::Nested(inner) = expr {
            expr = *inner;
        }
        let found = match &expr {
            Expr::Identifier(name) => self.named(name, clause)?,
            Expr::Value(value) => match &value.value {
                Value::Placeholder(_) => None,
                Value::Number(digits, _) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                    match self.at(digits, clause)? {
                        Some(output) => Some(output),
                        None if clause == "ORDER BY" => None,
                        None => return Err(in_star(clause)),
                    }
                }
                _ => {
                    let message = format!("non-integer constant in {clause}");
                    return Err(Error::new(ErrorCode::SyntaxError, message));
                }
            },
            _ => None,
        };
        let Some(found) = found else { return Ok(expr) };
        // Of the select list's names none is a label.
        let mut expr = found.expr.clone();
        labels.tell_apart(&mut expr, clause)?;
        Ok(expr)
    }

    /// The output at a position; `None` where a star hides it.
    fn at(&self, digits: &str, clause: &str) -> Result<Option<&Output<'s>>> {
        let place = digits.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
        let found = place.and_then(|place| self.list.iter().find(|output| output.place == Some(place)));
        if found.is_none() && (!self.has_star || place.is_none()) {
            let message = format!("{clause} position {digits} is not in select list");
            return Err(Error::new(ErrorCode::InvalidColumnReference, message));
        }
        Ok(found)
    }
}
