//! Nodes of the engine's syntax tree that passes over a statement write: calls, casts, and items of FROM.

use ashlar_base::SqlType;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, TableAlias, TableFactor, TableFunctionArgs,
};

use crate::sql_types::ast_of;

/// A call of a function by the very name, which may be an operator's.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
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

/// `CAST(expr AS type)`
pub(crate) fn cast(expr: Expr, sql_type: SqlType) -> Expr {
    cast_as(expr, ast_of(sql_type))
}

/// `CAST(expr AS type)`, with the type as the tree has it.
pub(super) fn cast_as(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// An item of FROM: a table, or with arguments a function.
pub(crate) fn table(name: Ident, alias: TableAlias, args: Option<TableFunctionArgs>) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(vec![name]),
        alias: Some(alias),
        args,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}
