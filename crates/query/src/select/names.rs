//! Output column names as PostgreSQL chooses them: `count`, `sum`, `?column?`, and duplicates allowed.
//!
//! DataFusion names a column after its expression and wants names unique. Every unnamed expression gets an alias:
//! PostgreSQL's name, a mark, and a number; `columns::shown_name` cuts the mark and the number off.
//! Source: PostgreSQL's `FigureColname` rules as documented for SELECT, "Column labels".

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_functions::names::{NAME_END, shown_name};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    VisitorMut,
};

/// Names the outputs of a query and of every query inside it.
pub fn name_outputs(query: &mut Query) {
    struct Inner;
    impl VisitorMut for Inner {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            name_inner(query);
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
                if let SelectItem::UnnamedExpr(expr) = item
                    && !seen.insert(expr.to_string())
                {
                    let alias = Ident::with_quote('"', format!("{}{NAME_END}{ordinal}", label_of(expr)));
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
    let Some(select) = leading_select(&mut query.body) else {
        return;
    };
    let mut labels: Vec<Option<String>> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut has_wildcard = false;
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
                if !seen.insert(label.clone()) {
                    *alias = Ident::with_quote('"', format!("{label}{NAME_END}{ordinal}"));
                }
                labels.push(None);
            }
            _ => {
                has_wildcard = true;
                labels.push(None);
            }
        }
    }
    if !has_wildcard {
        order_by_labels(query, &labels);
    }
}

/// `ORDER BY count` means the output column `count`, which a plan knows by another name: its number is used.
fn order_by_labels(query: &mut Query, labels: &[Option<String>]) {
    let Some(order_by) = &mut query.order_by else {
        return;
    };
    let OrderByKind::Expressions(items) = &mut order_by.kind else {
        return;
    };
    for item in items {
        if let Expr::Identifier(name) = &item.expr {
            let name = folded(name);
            let mut matching = labels.iter().enumerate().filter(|(_, label)| label.as_deref() == Some(&name));
            if let (Some((ordinal, _)), None) = (matching.next(), matching.next()) {
                item.expr = Expr::value(Value::Number((ordinal + 1).to_string(), false));
            }
        }
    }
}

/// A query inside: its labels are names for the query around it, so they must be plain, and unique ones only.
fn name_inner(query: &mut Query) {
    name_rest(&mut query.body, true);
    let Some(select) = leading_select(&mut query.body) else {
        return;
    };
    let explicit: HashSet<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => Some(label_of(expr)),
            _ => None,
        })
        .collect();
    let grouped: HashSet<String> = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => exprs
            .iter()
            .filter_map(|expr| match expr {
                Expr::Identifier(name) => Some(folded(name)),
                _ => None,
            })
            .collect(),
        GroupByExpr::All(_) => HashSet::new(),
    };
    let mut given: HashSet<String> = HashSet::new();
    for (ordinal, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item {
            if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                continue;
            }
            let mut label = label_of(expr);
            let is_known = explicit.contains(&label) || grouped.contains(&label);
            if label == "?column?" || is_known || !given.insert(label.clone()) {
                // Shown, but not to be found by it.
                label = format!("{label}{NAME_END}{ordinal}");
            }
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', label) };
        }
    }
}

fn leading_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => leading_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => leading_select(left),
        _ => None,
    }
}

/// An identifier as PostgreSQL folds it.
pub fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// A call of a function by the very name, which may be an operator's.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    call_with(name, args, Vec::new())
}

/// A call with what stands behind the arguments, such as ORDER BY.
pub(super) fn call_with(name: &str, args: Vec<Expr>, clauses: Vec<FunctionArgumentClause>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    call_of(name, FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses }))
}

/// A call with arguments as another call had them.
pub(super) fn call_of(name: &str, args: FunctionArguments) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The label of an unnamed output expression.
pub fn label_of(expr: &Expr) -> String {
    label(expr).0
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
            _ => label(root),
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
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => label(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => (folded(alias), true),
                _ => none(),
            },
            _ => none(),
        },
        _ => none(),
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
        other => other.to_string().to_lowercase(),
    }
}
