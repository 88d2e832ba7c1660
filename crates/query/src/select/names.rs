//! Output column names as PostgreSQL chooses them: `count`, `sum`, `?column?`, and duplicates allowed.
//!
//! DataFusion names a column after its expression and wants names unique. Every unnamed expression gets an alias:
//! PostgreSQL's name, a mark, and a number; `columns::shown_name` cuts the mark and the number off.
//! Source: PostgreSQL's `FigureColname` rules as documented for SELECT, "Column labels".

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use ashlar_functions::names::{NAME_END, shown_name};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, OrderByKind,
    Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins, Value, VisitorMut,
};

/// Names the outputs of a query and of every query inside it.
pub fn name_outputs(query: &mut Query) {
    struct Inner;
    impl VisitorMut for Inner {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            if let Some(labels) = name_inner(query) {
                show(query, &labels);
            }
            ControlFlow::Continue(())
        }
        /// Nobody says what these give by its name.
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Subquery(query)
            | Expr::InSubquery { subquery: query, .. }
            | Expr::Exists { subquery: query, .. } = expr
            {
                name_inner(query);
            }
            ControlFlow::Continue(())
        }
    }
    name_outer(query);
    let _ = walk::visit_mut(query, &mut Inner);
}

/// The parts of a UNION and the like after the first: nobody sees their labels, but within each they must differ.
fn name_rest(body: &mut SetExpr, is_first: bool) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            name_rest(left, is_first);
            name_rest(right, false);
        }
        SetExpr::Select(select) if !is_first => {
            let mut seen: HashSet<String> = HashSet::new();
            for (ordinal, item) in select.projection.iter_mut().enumerate() {
                let (label, expr) = match item {
                    SelectItem::UnnamedExpr(expr) => (label_of(expr), expr),
                    SelectItem::ExprWithAlias { expr, alias } => (folded(alias), expr),
                    _ => continue,
                };
                if !seen.insert(label.clone()) {
                    let alias = Ident::with_quote('"', format!("{label}{NAME_END}{ordinal}"));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        _ => {}
    }
}

/// The outermost query: every label counts, and duplicates stay.
fn name_outer(query: &mut Query) {
    name_rest(&mut query.body, true);
    let sorted_by = columns_in_order(query);
    let Some(select) = leading_select(&mut query.body) else {
        return;
    };
    let has_wildcard = has_star(select);
    let grouped = grouped_names(select);
    // A label beside a column that the query is sorted by would be another column of its name to the engine.
    let is_beside_column = |label: &String| !has_wildcard && sorted_by.contains(label) && !grouped.contains(label);
    let mut labels: Vec<Option<String>> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    for (ordinal, item) in select.projection.iter_mut().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let label = label_of(expr);
                let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                if !is_column || !seen.insert(label.clone()) {
                    let alias = Ident::with_quote('"', format!("{label}{NAME_END}{ordinal}"));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    labels.push(Some(label));
                } else {
                    labels.push(None);
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                let label = folded(alias);
                let is_beside_column = is_beside_column(&label);
                if !seen.insert(label.clone()) || is_beside_column {
                    *alias = Ident::with_quote('"', format!("{label}{NAME_END}{ordinal}"));
                }
                labels.push(is_beside_column.then_some(label));
            }
            _ => labels.push(None),
        }
    }
    if !has_wildcard {
        order_by_labels(query, &labels);
    }
}

/// The columns in the expressions that a query is sorted by; a name by itself is a label first.
fn columns_in_order(query: &Query) -> HashSet<String> {
    let mut columns = HashSet::new();
    if matches!(query.body.as_ref(), SetExpr::Select(_))
        && let Some(OrderByKind::Expressions(items)) = query.order_by.as_ref().map(|order_by| &order_by.kind)
    {
        for item in items.iter().filter(|item| !matches!(item.expr, Expr::Identifier(_))) {
            let _: ControlFlow<()> = walk::own_expressions(&item.expr, |expr| {
                let name = match expr {
                    Expr::Identifier(name) => Some(name),
                    Expr::CompoundIdentifier(names) => names.last(),
                    _ => None,
                };
                columns.extend(name.map(folded));
                ControlFlow::Continue(())
            });
        }
    }
    columns
}

/// `ORDER BY count` means the output column `count`, which a plan knows by another name: its number is used. Several of that name are
/// the same, or `targets` would have refused it. A query in parentheses that the outputs come from may be sorted too.
fn order_by_labels(query: &mut Query, labels: &[Option<String>]) {
    if let Some(OrderByKind::Expressions(items)) = query.order_by.as_mut().map(|order_by| &mut order_by.kind) {
        for item in items {
            if let Expr::Identifier(name) = &item.expr {
                let name = folded(name);
                if let Some(ordinal) = labels.iter().position(|label| label.as_ref() == Some(&name)) {
                    item.expr = Expr::value(Value::Number((ordinal + 1).to_string(), false));
                }
            }
        }
    }
    if let Some(inner) = leading_query(&mut query.body) {
        order_by_labels(inner, labels);
    }
}

/// The names by which a query is grouped.
fn grouped_names(select: &Select) -> HashSet<String> {
    match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => exprs
            .iter()
            .filter_map(|expr| match expr {
                Expr::Identifier(name) => Some(folded(name)),
                _ => None,
            })
            .collect(),
        GroupByExpr::All(_) => HashSet::new(),
    }
}

/// A query inside: its labels are names for the query around it, so they must be plain. What several outputs are called is shown, and no
/// name of any of them: who says it means neither, as in PostgreSQL; what the query itself is sorted by is found by its place. A label
/// beside a column that the query is sorted by would be another column of its name to the engine: such outputs get other names, and
/// their labels come back.
fn name_inner(query: &mut Query) -> Option<Vec<Option<String>>> {
    name_rest(&mut query.body, true);
    let sorted_by = columns_in_order(query);
    let select = leading_select(&mut query.body)?;
    let mut labels: Vec<Option<String>> = vec![None; select.projection.len()];
    let mut counts: HashMap<String, usize> = HashMap::new();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => *counts.entry(folded(alias)).or_default() += 1,
            SelectItem::UnnamedExpr(expr) => *counts.entry(label_of(expr)).or_default() += 1,
            _ => {}
        }
    }
    let has_wildcard = has_star(select);
    let is_shared = |label: &String| counts.get(label).is_some_and(|count| *count > 1);
    let grouped = grouped_names(select);
    let is_beside_column = |label: &String| !has_wildcard && sorted_by.contains(label) && !grouped.contains(label);
    let mut hidden: Vec<Option<String>> = vec![None; select.projection.len()];
    for (ordinal, item) in select.projection.iter_mut().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let mut label = label_of(expr);
                let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let is_hidden = is_shared(&label) || !is_column && (label == "?column?" || grouped.contains(&label));
                if is_column && !is_hidden {
                    continue;
                }
                if is_hidden {
                    // Shown, but not to be found by it.
                    let shown = format!("{label}{NAME_END}{ordinal}");
                    hidden[ordinal] = Some(std::mem::replace(&mut label, shown));
                } else if is_beside_column(&label) {
                    let name = format!("{label}{NAME_END}{ordinal}");
                    labels[ordinal] = Some(label.clone());
                    hidden[ordinal] = Some(std::mem::replace(&mut label, name));
                }
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', label) };
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let label = folded(alias);
                let is_beside_column = is_beside_column(&label) && !is_column_called(expr, &label);
                if is_shared(&label) || is_beside_column {
                    *alias = Ident::with_quote('"', format!("{label}{NAME_END}{ordinal}"));
                    labels[ordinal] = (!is_shared(&label)).then(|| label.clone());
                    hidden[ordinal] = Some(label);
                }
            }
            _ => {}
        }
    }
    if !has_wildcard {
        order_by_labels(query, &hidden);
    }
    labels.iter().any(Option::is_some).then_some(labels)
}

fn is_column_called(expr: &Expr, label: &str) -> bool {
    match expr {
        Expr::Identifier(name) => folded(name) == label,
        Expr::CompoundIdentifier(names) => names.last().is_some_and(|name| folded(name) == label),
        _ => false,
    }
}

/// Gives outputs their labels back, in a query around the one that has other names for them.
fn show(query: &mut Query, labels: &[Option<String>]) {
    let Ok(Statement::Query(mut around)) = super::parse("SELECT 1") else { return };
    let (SetExpr::Select(inner), SetExpr::Select(outer)) = (query.body.as_ref(), around.body.as_mut()) else { return };
    let outputs = inner.projection.iter().zip(labels).filter_map(|(item, label)| {
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias,
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => name,
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last()?,
            _ => return None,
        };
        let expr = Expr::Identifier(name.clone());
        Some(match label {
            Some(label) => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', label.as_str()) },
            None => SelectItem::UnnamedExpr(expr),
        })
    });
    outer.projection = outputs.collect();
    std::mem::swap(query, around.as_mut());
    if let SetExpr::Select(outer) = query.body.as_mut() {
        let name = Ident::with_quote('"', format!("sorted{NAME_END}"));
        let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        let relation = TableFactor::Derived { lateral: false, subquery: around, alias: Some(alias), sample: None };
        outer.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
}

/// Whether an item of a select list stands for several outputs.
fn has_star(select: &Select) -> bool {
    !select.projection.iter().all(|item| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }))
}

fn leading_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => leading_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => leading_select(left),
        _ => None,
    }
}

/// The query in parentheses that a body's outputs come from.
fn leading_query(body: &mut SetExpr) -> Option<&mut Query> {
    match body {
        SetExpr::Query(query) => Some(query),
        SetExpr::SetOperation { left, .. } => leading_query(left),
        _ => None,
    }
}

/// An identifier as PostgreSQL folds it.
pub fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The label of an unnamed output expression.
pub fn label_of(expr: &Expr) -> String {
    label(expr).0
}

/// The name of a part of an access that is a field, as `b` of `a.b[1]`.
fn field_of(access: &AccessExpr) -> Option<String> {
    match access {
        AccessExpr::Dot(Expr::Identifier(ident)) => Some(folded(ident)),
        _ => None,
    }
}

/// The label, and whether it is a strong one that a cast around it keeps.
fn label(expr: &Expr) -> (String, bool) {
    let strong = |name: &str| (name.to_owned(), true);
    let none = || ("?column?".to_owned(), false);
    match expr {
        Expr::Identifier(ident) => (folded(ident), true),
        Expr::CompoundIdentifier(idents) => idents.last().map_or_else(none, |ident| (folded(ident), true)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => label(inner),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(AccessExpr::Dot(Expr::Value(field))) => match &field.value {
                Value::SingleQuotedString(name) => (name.clone(), true),
                _ => label(root),
            },
            _ => access_chain.iter().rev().find_map(field_of).map_or_else(|| label(root), |name| (name, true)),
        },
        Expr::Function(function) => match function.name.0.last().and_then(|part| part.as_ident()) {
            // What an operator was rewritten to keeps the operator's label.
            // Rows in the select list are called after the function that gives them.
            Some(ident) if ident.value == "unnest" => strong(rows_of(&function.args).unwrap_or("unnest")),
            Some(ident) if !ident.value.starts_with(|first: char| first.is_alphabetic() || first == '_') => none(),
            Some(ident) => strong(shown_name(&folded(ident))),
            None => none(),
        },
        Expr::Cast { expr: inner, data_type, .. } => match label(inner) {
            (name, true) => (name, true),
            _ => (type_label(data_type), false),
        },
        Expr::TypedString(typed) => (type_label(&typed.data_type), false),
        Expr::Interval(_) => ("interval".to_owned(), false),
        Expr::Case { else_result, .. } => match else_result.as_ref().map(|result| label(result)) {
            Some((name, true)) => (name, true),
            _ => ("case".to_owned(), false),
        },
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(datafusion::sql::sqlparser::ast::TrimWhereField::Leading) => "ltrim",
            Some(datafusion::sql::sqlparser::ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Subquery(query) => first_label(&query.body).map_or_else(none, |name| (name, true)),
        _ => none(),
    }
}

/// What the first output of a query is called, where no star hides it.
fn first_label(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => Some(label_of(expr)),
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            _ => None,
        },
        SetExpr::Values(_) => Some("column1".to_owned()),
        SetExpr::Query(query) => first_label(&query.body),
        SetExpr::SetOperation { left, .. } => first_label(left),
        _ => None,
    }
}

/// The function whose array is unnested, where it stands for one that gives rows.
fn rows_of(args: &FunctionArguments) -> Option<&str> {
    let FunctionArguments::List(list) = args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))] = &list.args[..] else { return None };
    let name = &inner.name.0.last()?.as_ident()?.value;
    name.contains(NAME_END).then(|| shown_name(name))
}

/// The name by which PostgreSQL's catalog knows a type.
fn type_label(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean | DataType::Bool => "bool".to_owned(),
        DataType::SmallInt(_) | DataType::Int2(_) => "int2".to_owned(),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4".to_owned(),
        DataType::BigInt(_) | DataType::Int8(_) => "int8".to_owned(),
        DataType::Real | DataType::Float4 => "float4".to_owned(),
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => "float8".to_owned(),
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric".to_owned(),
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => "varchar".to_owned(),
        DataType::Char(_) | DataType::Character(_) => "bpchar".to_owned(),
        DataType::Timestamp(_, datafusion::sql::sqlparser::ast::TimezoneInfo::WithTimeZone)
        | DataType::Timestamp(_, datafusion::sql::sqlparser::ast::TimezoneInfo::Tz) => "timestamptz".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::Time(..) => "time".to_owned(),
        DataType::Interval { .. } => "interval".to_owned(),
        DataType::Array(datafusion::sql::sqlparser::ast::ArrayElemTypeDef::SquareBracket(element, _)) => {
            type_label(element)
        }
        // `"char"` is called by its name, without the quotes that tell it from the keyword.
        other => other.to_string().to_lowercase().trim_matches('"').to_owned(),
    }
}
