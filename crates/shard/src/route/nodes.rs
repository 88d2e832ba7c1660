//! What stands below a node of PostgreSQL's parse tree, and small questions to single nodes.
//!
//! Called by whoever walks expressions. A kind of node that is not listed has unknown meaning: who meets it gives up.

use pg_query::NodeEnum;
use pg_query::protobuf::{AExpr, AExprKind, ColumnRef, Node};

/// The expressions directly below one, without sub-queries; `None` for a kind that is not known.
pub(super) fn children(node: &NodeEnum) -> Option<Vec<&Node>> {
    fn one(node: &Option<Box<Node>>) -> impl Iterator<Item = &Node> {
        node.as_deref().into_iter()
    }
    Some(match node {
        NodeEnum::ColumnRef(_)
        | NodeEnum::ParamRef(_)
        | NodeEnum::AConst(_)
        | NodeEnum::SqlvalueFunction(_)
        | NodeEnum::SetToDefault(_)
        | NodeEnum::String(_)
        | NodeEnum::Integer(_)
        | NodeEnum::AStar(_)
        | NodeEnum::TypeName(_) => Vec::new(),
        NodeEnum::List(list) => list.items.iter().filter(|item| item.node.is_some()).collect(),
        NodeEnum::AExpr(expr) => one(&expr.lexpr).chain(one(&expr.rexpr)).collect(),
        NodeEnum::BoolExpr(expr) => expr.args.iter().collect(),
        NodeEnum::TypeCast(cast) => one(&cast.arg).collect(),
        NodeEnum::CollateClause(clause) => one(&clause.arg).collect(),
        NodeEnum::NullTest(test) => one(&test.arg).collect(),
        NodeEnum::BooleanTest(test) => one(&test.arg).collect(),
        NodeEnum::CoalesceExpr(expr) => expr.args.iter().collect(),
        NodeEnum::MinMaxExpr(expr) => expr.args.iter().collect(),
        NodeEnum::RowExpr(expr) => expr.args.iter().collect(),
        NodeEnum::AArrayExpr(expr) => expr.elements.iter().collect(),
        NodeEnum::NamedArgExpr(arg) => one(&arg.arg).collect(),
        NodeEnum::GroupingFunc(grouping) => grouping.args.iter().collect(),
        NodeEnum::GroupingSet(set) => set.content.iter().collect(),
        NodeEnum::ResTarget(target) => one(&target.val).chain(&target.indirection).collect(),
        NodeEnum::SortBy(sort) => one(&sort.node).collect(),
        NodeEnum::MultiAssignRef(assign) => one(&assign.source).collect(),
        NodeEnum::AIndirection(indirection) => one(&indirection.arg).chain(&indirection.indirection).collect(),
        NodeEnum::AIndices(indices) => one(&indices.lidx).chain(one(&indices.uidx)).collect(),
        NodeEnum::CaseExpr(case) => one(&case.arg).chain(&case.args).chain(one(&case.defresult)).collect(),
        NodeEnum::CaseWhen(when) => one(&when.expr).chain(one(&when.result)).collect(),
        NodeEnum::SubLink(link) => one(&link.testexpr).collect(),
        NodeEnum::FuncCall(call) => {
            let over = call.over.iter().flat_map(|over| window(over));
            call.args.iter().chain(&call.agg_order).chain(one(&call.agg_filter)).chain(over).collect()
        }
        NodeEnum::WindowDef(over) => window(over),
        _ => return None,
    })
}

fn window(over: &pg_query::protobuf::WindowDef) -> Vec<&Node> {
    let offsets = over.start_offset.as_deref().into_iter().chain(over.end_offset.as_deref());
    over.partition_clause.iter().chain(&over.order_clause).chain(offsets).collect()
}

/// The kind of an operator expression.
pub(super) fn kind(expr: &AExpr) -> AExprKind {
    AExprKind::try_from(expr.kind).unwrap_or(AExprKind::Undefined)
}

/// The operator's name, where it is a plain one of PostgreSQL's own.
pub(super) fn operator(expr: &AExpr) -> Option<&str> {
    match &expr.name[..] {
        [name] => string(name),
        _ => None,
    }
}

/// The string of a `String` node.
pub(super) fn string(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::String(string) => Some(&string.sval),
        _ => None,
    }
}

/// The node inside, where there is one.
pub(super) fn inner(node: &Option<Box<Node>>) -> Option<&NodeEnum> {
    node.as_ref()?.node.as_ref()
}

/// The parts of a column's name; `None` where it ends in a star.
pub(super) fn column_name(node: &NodeEnum) -> Option<Vec<&str>> {
    match node {
        NodeEnum::ColumnRef(column) => column.fields.iter().map(string).collect(),
        _ => None,
    }
}

/// A byte offset of the tree.
pub(super) fn offset(location: i32) -> Option<usize> {
    usize::try_from(location).ok()
}

/// The columns that an expression names, and where in its text each name begins, in bytes; `None` where it names one with its table, or has
/// sub-queries or parts whose meaning is not known.
pub fn columns_named(expression: &Node) -> Option<Vec<(&str, usize)>> {
    fn named(column: &ColumnRef) -> Option<(&str, usize)> {
        match &column.fields[..] {
            [name] => Some((string(name)?, offset(column.location)?)),
            _ => None,
        }
    }
    column_references(expression)?.into_iter().map(named).collect()
}

/// Every column that an expression names, as it stands there; `None` where it has sub-queries or parts whose meaning is not known.
pub fn column_references(expression: &Node) -> Option<Vec<&ColumnRef>> {
    let mut found = Vec::new();
    let mut left = vec![expression];
    while let Some(node) = left.pop() {
        let node = node.node.as_ref()?;
        match node {
            NodeEnum::SubLink(_) => return None,
            NodeEnum::ColumnRef(column) => found.push(column),
            _ => left.extend(children(node)?),
        }
    }
    Some(found)
}
