//! CREATE TABLE's column and constraint definitions -> a table's shape.

use ashlar_base::value::text::Zone;
use ashlar_base::{ColumnDef, ColumnDefault, ColumnId, Error, ErrorCode, Result, SqlType, TableId, TableSchema};
use pg_query::NodeEnum;
use pg_query::protobuf::{self, ConstrType, CreateStmt, a_const};

use super::{constraint_kind, hidden_key, options};
use crate::assign::Literal;
use crate::sql_types;

/// What a column's own constraints say beside its definition.
#[derive(Default)]
pub(super) struct ColumnConstraints {
    /// PRIMARY KEY, with the name it was given, which may be empty.
    pub(super) primary_key: Option<String>,
}

/// A nullable column without a default.
pub(super) fn column(ordinal: usize, name: String, sql_type: SqlType) -> ColumnDef {
    let id = ColumnId(u32::try_from(ordinal).unwrap_or(u32::MAX));
    ColumnDef { id, name, sql_type, nullable: true, default: None }
}

/// The shape that CREATE TABLE describes. `key_name` is what the constraint was called, empty where it was not.
///
/// # Errors
/// 42P16, 42701, 42703 and 0A000 as PostgreSQL has them.
pub(super) fn table(id: TableId, name: &str, statement: &CreateStmt, zone: Zone) -> Result<TableSchema> {
    if !matches!(statement.access_method.as_str(), "" | "grid" | "heap") {
        return Err(Error::new(
            ErrorCode::UndefinedObject,
            format!("access method \"{}\" does not exist", statement.access_method),
        )
        .with_hint("Tables are stored USING grid."));
    }
    if statement.relation.as_ref().is_some_and(|relation| relation.relpersistence == "t") {
        return Err(Error::unsupported("temporary tables are not supported"));
    }
    if !statement.inh_relations.is_empty() || statement.partspec.is_some() || statement.of_typename.is_some() {
        return Err(Error::unsupported("inheritance, partitioning and typed tables are not supported"));
    }
    let mut columns: Vec<ColumnDef> = Vec::new();
    let mut key: Option<(Vec<String>, String)> = None;
    let set_key = |names: Vec<String>, given: String, key: &mut Option<(Vec<String>, String)>| {
        if key.replace((names, given)).is_some() {
            return Err(Error::new(
                ErrorCode::InvalidTableDefinition,
                format!("multiple primary keys for table \"{name}\" are not allowed"),
            ));
        }
        Ok(())
    };
    for element in &statement.table_elts {
        match &element.node {
            Some(NodeEnum::ColumnDef(definition)) => {
                if columns.iter().any(|known| known.name == definition.colname) {
                    return Err(Error::new(
                        ErrorCode::DuplicateColumn,
                        format!("column \"{}\" specified more than once", definition.colname),
                    ));
                }
                let (column, constraints) = column_def(definition, columns.len(), zone)?;
                if let Some(given) = constraints.primary_key {
                    set_key(vec![column.name.clone()], given, &mut key)?;
                }
                columns.push(column);
            }
            Some(NodeEnum::Constraint(constraint)) => match constraint_kind(constraint.contype) {
                ConstrType::ConstrPrimary => {
                    let names = constraint.keys.iter().filter_map(sql_types::string_of).map(str::to_owned).collect();
                    set_key(names, constraint.conname.clone(), &mut key)?;
                }
                other => return Err(unsupported_constraint(other)),
            },
            _ => return Err(Error::unsupported("this element of CREATE TABLE is not supported")),
        }
    }
    for constraint in &statement.constraints {
        if let Some(NodeEnum::Constraint(constraint)) = &constraint.node {
            return Err(unsupported_constraint(constraint_kind(constraint.contype)));
        }
    }
    let mut ordinals = Vec::new();
    let (names, key_name) = key.unwrap_or_default();
    for column in names {
        let ordinal = columns.iter().position(|known| known.name == column).ok_or_else(|| {
            Error::new(ErrorCode::UndefinedColumn, format!("column \"{column}\" named in key does not exist"))
        })?;
        if ordinals.contains(&ordinal) {
            return Err(Error::new(
                ErrorCode::DuplicateColumn,
                format!("column \"{column}\" appears twice in primary key constraint"),
            ));
        }
        ordinals.push(ordinal);
    }
    let partition_by = options::table(&statement.options)?;
    let schema = finish(id, name, columns, ordinals, partition_by.as_deref())?;
    Ok(TableSchema { key_name, ..schema })
}

/// Completes a shape: key columns are NOT NULL, and a table without a key gets a hidden one.
///
/// # Errors
/// 0A000 for a key type that has no canonical form, 42703 for an unknown `partition_by`.
pub(super) fn finish(
    id: TableId,
    name: &str,
    mut columns: Vec<ColumnDef>,
    mut key: Vec<usize>,
    partition_by: Option<&str>,
) -> Result<TableSchema> {
    let is_hidden = key.is_empty();
    for ordinal in &key {
        let column = &mut columns[*ordinal];
        column.nullable = false;
        if column.sql_type.is_array() || !column.sql_type.scalar().can_be_key() {
            return Err(Error::unsupported(format!("a primary key of type {} is not supported", column.sql_type)));
        }
    }
    if is_hidden {
        let next = columns.iter().map(|column| column.id.0 + 1).max().unwrap_or(0);
        key.push(columns.len());
        columns.push(hidden_key(ColumnId(next)));
    }
    let partition_by = match partition_by {
        None => key.clone(),
        Some(column) => {
            let ordinal = columns.iter().position(|known| known.name == column).ok_or_else(|| {
                Error::new(ErrorCode::UndefinedColumn, format!("column \"{column}\" of partition_by does not exist"))
            })?;
            if !key.contains(&ordinal) {
                return Err(Error::new(
                    ErrorCode::InvalidTableDefinition,
                    format!("partition_by column \"{column}\" must be part of the primary key"),
                ));
            }
            vec![ordinal]
        }
    };
    let (name, key_name) = (name.to_owned(), String::new());
    Ok(TableSchema { id, name, version: 0, columns, key, key_name, partition_by, hidden_key: is_hidden })
}

fn unsupported_constraint(kind: ConstrType) -> Error {
    let what = match kind {
        ConstrType::ConstrUnique => "UNIQUE constraints other than the primary key are",
        ConstrType::ConstrCheck => "CHECK constraints are",
        ConstrType::ConstrForeign => "FOREIGN KEY constraints are",
        ConstrType::ConstrExclusion => "EXCLUDE constraints are",
        _ => "this constraint is",
    };
    Error::unsupported(format!("{what} not supported"))
}

/// A column with its own constraints.
///
/// # Errors
/// As [`table`].
pub(super) fn column_def(
    definition: &protobuf::ColumnDef,
    ordinal: usize,
    zone: Zone,
) -> Result<(ColumnDef, ColumnConstraints)> {
    let type_name = definition.type_name.as_ref().ok_or_else(|| Error::internal("a column without its type"))?;
    if definition.coll_clause.is_some() {
        return Err(Error::unsupported("COLLATE on a column is not supported"));
    }
    let serial = sql_types::serial_type(type_name);
    let sql_type = match serial {
        Some(scalar) => SqlType::Scalar(scalar),
        None => sql_types::resolve(type_name)?,
    };
    let mut result = column(ordinal, definition.colname.clone(), sql_type);
    if serial.is_some() {
        result.nullable = false;
        result.default = Some(ColumnDefault::Sequence);
    }
    let mut constraints = ColumnConstraints::default();
    for constraint in &definition.constraints {
        let Some(NodeEnum::Constraint(constraint)) = &constraint.node else { continue };
        match constraint_kind(constraint.contype) {
            ConstrType::ConstrNull => {}
            ConstrType::ConstrNotnull => result.nullable = false,
            ConstrType::ConstrDefault => {
                if let Some(expr) = &constraint.raw_expr {
                    result.default = default(expr, &result, zone)?;
                }
            }
            ConstrType::ConstrIdentity => {
                if constraint.generated_when == "a" {
                    return Err(Error::unsupported("GENERATED ALWAYS AS IDENTITY is not supported")
                        .with_hint("Use GENERATED BY DEFAULT AS IDENTITY."));
                }
                result.nullable = false;
                result.default = Some(ColumnDefault::Sequence);
            }
            ConstrType::ConstrPrimary => {
                constraints.primary_key = Some(constraint.conname.clone());
                result.nullable = false;
            }
            ConstrType::ConstrGenerated => return Err(Error::unsupported("generated columns are not supported")),
            other => return Err(unsupported_constraint(other)),
        }
    }
    Ok((result, constraints))
}

/// A DEFAULT: a constant of the column's type, or an expression kept as text.
///
/// # Errors
/// 22P02 and the like where the constant is not of the type.
pub(super) fn default(expr: &pg_query::Node, column: &ColumnDef, zone: Zone) -> Result<Option<ColumnDefault>> {
    if let Some(literal) = constant(expr, column) {
        return Ok(match literal.assign(column, zone)? {
            ashlar_base::Value::Null => None,
            value => Some(ColumnDefault::Constant(value)),
        });
    }
    Ok(Some(ColumnDefault::Expression(text_of(expr)?)))
}

/// A constant that means the same in the column as where it stands.
fn constant(node: &pg_query::Node, column: &ColumnDef) -> Option<Literal> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) if constant.isnull => Some(Literal::Null),
        NodeEnum::AConst(constant) => Some(match constant.val.as_ref()? {
            a_const::Val::Ival(value) => Literal::Number(value.ival.to_string()),
            a_const::Val::Fval(value) => Literal::Number(value.fval.clone()),
            a_const::Val::Boolval(value) => Literal::Bool(value.boolval),
            a_const::Val::Sval(value) => Literal::String(value.sval.clone()),
            a_const::Val::Bsval(_) => return None,
        }),
        NodeEnum::TypeCast(cast) => match constant(cast.arg.as_ref()?, column)? {
            text @ (Literal::String(_) | Literal::Null) => {
                let cast_to = sql_types::resolve(cast.type_name.as_ref()?).ok()?;
                (cast_to == column.sql_type).then_some(text)
            }
            _ => None,
        },
        NodeEnum::AExpr(expr) if expr.lexpr.is_none() => {
            let minus = expr.name.iter().filter_map(sql_types::string_of).eq(["-"]);
            match constant(expr.rexpr.as_ref()?, column)? {
                Literal::Number(digits) if minus => Some(Literal::Number(format!("-{digits}"))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// An expression's text, as PostgreSQL's deparser writes it.
fn text_of(expr: &pg_query::Node) -> Result<String> {
    let target = protobuf::ResTarget { val: Some(Box::new(expr.clone())), ..Default::default() };
    let select = protobuf::SelectStmt {
        target_list: vec![pg_query::Node { node: Some(NodeEnum::ResTarget(Box::new(target))) }],
        limit_option: protobuf::LimitOption::Default.into(),
        op: protobuf::SetOperation::SetopNone.into(),
        ..Default::default()
    };
    let statement = pg_query::Node { node: Some(NodeEnum::SelectStmt(Box::new(select))) };
    let parsed = protobuf::ParseResult {
        version: 0,
        stmts: vec![protobuf::RawStmt { stmt: Some(Box::new(statement)), stmt_location: 0, stmt_len: 0 }],
    };
    let text = pg_query::deparse(&parsed, pg_query::DeparseOptions::default())
        .map_err(|error| Error::unsupported(format!("this default is not supported: {error}")))?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_owned())
}
