//! CREATE TABLE's column and constraint definitions -> a table's shape.

use std::sync::Arc;

use ashlar_base::{
    ColumnDef, ColumnDefault, ColumnId, Error, ErrorCode, LifeOptions, Result, SqlType, TableId, TableSchema,
};
use pg_query::NodeEnum;
use pg_query::protobuf::{self, ConstrType, Constraint, CreateStmt};

use super::unique::{self, Stated};
use super::{check, constraint_kind, defaults, hidden_key, options, sequence};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::sql_types;

/// What a column's own constraints say beside its definition.
#[derive(Default)]
pub(super) struct ColumnConstraints {
    /// PRIMARY KEY, with the name it was given, which may be empty.
    pub(super) primary_key: Option<String>,
    /// UNIQUE
    pub(super) uniques: Vec<Stated>,
    /// CHECK
    pub(super) checks: Vec<Constraint>,
}

/// A nullable column without a default.
pub(super) fn column(ordinal: usize, name: String, sql_type: SqlType) -> ColumnDef {
    let id = ColumnId(u32::try_from(ordinal).unwrap_or(u32::MAX));
    ColumnDef { id, name, sql_type, nullable: true, default: None }
}

/// 42704 for a way to store tables that there is not.
pub(super) fn check_access_method(name: &str) -> Result<()> {
    match name {
        "" | "grid" | "heap" => Ok(()),
        "sharded" => Err(Error::unsupported("a sharded table can only be made by CREATE TABLE with its columns")),
        _ => Err(Error::new(ErrorCode::UndefinedObject, format!("access method \"{name}\" does not exist"))
            .with_hint("Tables are stored USING grid.")),
    }
}

/// The shape that CREATE TABLE describes, and its UNIQUE constraints. `key_name` is what the constraint was called, empty
/// where it was not.
///
/// # Errors
/// 42P16, 42701, 42703 and 0A000 as PostgreSQL has them.
pub(super) fn table(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    id: TableId,
    name: &str,
    statement: &CreateStmt,
) -> Result<(TableSchema, Vec<Stated>)> {
    check_access_method(&statement.access_method)?;
    if statement.relation.as_ref().is_some_and(|relation| relation.relpersistence == "t") {
        return Err(Error::unsupported("temporary tables are not supported"));
    }
    if !statement.inh_relations.is_empty() || statement.partspec.is_some() || statement.of_typename.is_some() {
        return Err(Error::unsupported("inheritance, partitioning and typed tables are not supported"));
    }
    let mut parts = Parts::default();
    for element in &statement.table_elts {
        match &element.node {
            Some(NodeEnum::ColumnDef(definition)) => parts.add_column(engine, catalog, name, definition)?,
            Some(NodeEnum::Constraint(constraint)) => parts.add_constraint(name, constraint)?,
            _ => return Err(Error::unsupported("this element of CREATE TABLE is not supported")),
        }
    }
    for constraint in &statement.constraints {
        if let Some(NodeEnum::Constraint(constraint)) = &constraint.node {
            parts.add_unique_or_check(constraint)?;
        }
    }
    let Parts { columns, key, uniques, checks } = parts;
    let (names, key_name) = key.unwrap_or_default();
    let ordinals = key_ordinals(&columns, &names)?;
    let options = options::table(&statement.options)?;
    let schema = finish(id, name, columns, ordinals, options.partition_by.as_deref())?;
    let mut schema = TableSchema { key_name, life: options.life, ..schema };
    check::of_table(engine, catalog, &mut schema, &checks)?;
    Ok((schema, uniques))
}

/// The columns and constraints of CREATE TABLE.
#[derive(Default)]
struct Parts {
    columns: Vec<ColumnDef>,
    /// The columns of the primary key, and the name that it was given, if any.
    key: Option<(Vec<String>, String)>,
    uniques: Vec<Stated>,
    checks: Vec<Constraint>,
}

impl Parts {
    fn add_column(
        &mut self,
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        table: &str,
        definition: &protobuf::ColumnDef,
    ) -> Result<()> {
        if self.columns.iter().any(|known| known.name == definition.colname) {
            return Err(Error::new(
                ErrorCode::DuplicateColumn,
                format!("column \"{}\" specified more than once", definition.colname),
            ));
        }
        let (column, constraints) = column_def(engine, catalog, table, definition, self.columns.len())?;
        if let Some(given) = constraints.primary_key {
            self.set_key(table, vec![column.name.clone()], given)?;
        }
        self.uniques.extend(constraints.uniques);
        self.checks.extend(constraints.checks);
        self.columns.push(column);
        Ok(())
    }

    /// A constraint among the columns.
    fn add_constraint(&mut self, table: &str, constraint: &Constraint) -> Result<()> {
        match constraint_kind(constraint.contype) {
            ConstrType::ConstrPrimary if constraint.deferrable || constraint.initdeferred => {
                Err(Error::unsupported("deferrable constraints are not supported"))
            }
            ConstrType::ConstrPrimary => {
                let names = constraint.keys.iter().filter_map(sql_types::string_of).map(str::to_owned).collect();
                self.set_key(table, names, constraint.conname.clone())
            }
            _ => self.add_unique_or_check(constraint),
        }
    }

    fn add_unique_or_check(&mut self, constraint: &Constraint) -> Result<()> {
        match constraint_kind(constraint.contype) {
            ConstrType::ConstrUnique => self.uniques.push(unique::stated(constraint, None)?),
            ConstrType::ConstrCheck => self.checks.push(constraint.clone()),
            other => return Err(unsupported_constraint(other)),
        }
        Ok(())
    }

    fn set_key(&mut self, table: &str, names: Vec<String>, given: String) -> Result<()> {
        if self.key.replace((names, given)).is_some() {
            return Err(Error::new(
                ErrorCode::InvalidTableDefinition,
                format!("multiple primary keys for table \"{table}\" are not allowed"),
            ));
        }
        Ok(())
    }
}

/// The ordinals of the columns that a primary key names.
fn key_ordinals(columns: &[ColumnDef], names: &[String]) -> Result<Vec<usize>> {
    let mut ordinals = Vec::new();
    for column in names {
        let ordinal = columns.iter().position(|known| known.name == *column).ok_or_else(|| {
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
    Ok(ordinals)
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
    Ok(TableSchema {
        id,
        name: name.to_owned(),
        version: 0,
        columns,
        key,
        key_name: String::new(),
        partition_by,
        hidden_key: is_hidden,
        life: LifeOptions::default(),
        checks: Vec::new(),
    })
}

/// 0A000
pub(super) fn unsupported_constraint(kind: ConstrType) -> Error {
    let what = match kind {
        ConstrType::ConstrForeign => "FOREIGN KEY constraints are",
        ConstrType::ConstrExclusion => "EXCLUDE constraints are",
        _ => "this constraint is",
    };
    let error = Error::unsupported(format!("{what} not supported"));
    match kind {
        ConstrType::ConstrForeign | ConstrType::ConstrExclusion => {
            error.with_hint("Nothing would keep it here: leave it out.")
        }
        _ => error,
    }
}

/// A column with its own constraints.
///
/// # Errors
/// As [`table`].
pub(super) fn column_def(
    engine: &Engine,
    catalog: &Arc<CatalogState>,
    table: &str,
    definition: &protobuf::ColumnDef,
    ordinal: usize,
) -> Result<(ColumnDef, ColumnConstraints)> {
    let type_name = definition.type_name.as_ref().ok_or_else(|| Error::internal("a column without its type"))?;
    if definition.coll_clause.is_some() {
        return Err(Error::unsupported("COLLATE on a column is not supported"));
    }
    let serial = sql_types::serial_type(type_name)?;
    let sql_type = match serial {
        Some(scalar) => SqlType::Scalar(scalar),
        None => sql_types::resolve(type_name)?,
    };
    let mut result = column(ordinal, definition.colname.clone(), sql_type);
    let conflicting = |what: &str| {
        let message = format!("{what} for column \"{}\" of table \"{table}\"", definition.colname);
        Err(Error::new(ErrorCode::SyntaxError, message))
    };
    let (mut has_default, mut has_identity, mut is_null) = (serial.is_some(), false, false);
    if let Some(scalar) = serial {
        result.nullable = false;
        result.default = Some(ColumnDefault::Sequence(sequence::of_type(scalar)));
    }
    let mut constraints = ColumnConstraints::default();
    for constraint in &definition.constraints {
        let Some(NodeEnum::Constraint(constraint)) = &constraint.node else { continue };
        match constraint_kind(constraint.contype) {
            ConstrType::ConstrNull => is_null = true,
            ConstrType::ConstrNotnull => result.nullable = false,
            ConstrType::ConstrDefault => {
                if has_default {
                    return conflicting("multiple default values specified");
                }
                has_default = true;
                if let Some(expr) = &constraint.raw_expr {
                    result.default = defaults::of(engine, catalog, expr, &result)?;
                }
            }
            ConstrType::ConstrIdentity => {
                if has_identity {
                    return conflicting("multiple identity specifications");
                }
                has_identity = true;
                result.nullable = false;
                result.default = Some(ColumnDefault::Sequence(sequence::of_identity(constraint, sql_type)?));
            }
            ConstrType::ConstrPrimary => {
                constraints.primary_key = Some(constraint.conname.clone());
            }
            ConstrType::ConstrUnique => {
                constraints.uniques.push(unique::stated(constraint, Some(&definition.colname))?);
            }
            ConstrType::ConstrCheck => constraints.checks.push(Constraint::clone(constraint)),
            ConstrType::ConstrGenerated => return Err(Error::unsupported("generated columns are not supported")),
            other => return Err(unsupported_constraint(other)),
        }
    }
    if has_default && has_identity {
        return conflicting("both default and identity specified");
    }
    if is_null && !result.nullable {
        return conflicting("conflicting NULL/NOT NULL declarations");
    }
    Ok((result, constraints))
}
