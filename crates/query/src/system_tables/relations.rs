//! Tables of one catalog picture, grid and file alike, as the system tables describe them.
//!
//! Read by `information_schema`, `pg_catalog` and `ashlar`. Numbers what PostgreSQL numbers and we do not: indexes,
//! constraints and defaults get OIDs that follow from their table's.

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{ColumnDef, ColumnDefault, ColumnId, IndexKind, ScalarType, Sequence, SqlType, TableSchema, Value};
use ashlar_store::arrow_types::sql_type_of;

use crate::catalog::{CatalogState, Table};
use crate::ddl::options;

/// The schema of the tables.
pub(super) const PUBLIC: &str = "public";

/// Indexes of primary keys are numbered as their tables, with this bit set.
const INDEX_BIT: i64 = 1 << 31;
/// Defaults and constraints of a table are numbered within a range of this size.
const PARTS_PER_TABLE: i64 = 2048;

/// A table with what the system tables say about it.
pub(super) struct Relation {
    /// The table's OID.
    pub(super) oid: i64,
    /// Its name.
    pub(super) name: String,
    /// The columns that a user sees.
    pub(super) columns: Vec<ColumnDef>,
    /// Ordinals of the primary key; empty where there is none that a user sees.
    pub(super) key: Vec<usize>,
    /// The name of the primary key and of its index.
    pub(super) key_name: String,
    /// The primary key's index, where a user sees the key, and the secondary ones.
    pub(super) indexes: Vec<Index>,
    /// A foreign table over files.
    pub(super) is_foreign: bool,
    /// Rows; unknown of files.
    pub(super) rows: Option<u64>,
    /// What the table says in WITH, as `name=value`.
    pub(super) options: Vec<String>,
}

/// An index of a table.
pub(super) struct Index {
    /// The index's OID.
    pub(super) oid: i64,
    /// Its name.
    pub(super) name: String,
    /// Ordinals of its columns, in its order.
    pub(super) columns: Vec<usize>,
    /// How it finds rows. That of a primary key finds them by hash, but of PostgreSQL's methods only this one can be
    /// unique: another definition would be none that PostgreSQL takes.
    pub(super) kind: IndexKind,
    /// It is the primary key's.
    pub(super) is_primary: bool,
}

/// A constraint of a table.
pub(super) struct Constraint {
    /// Unique among constraints.
    pub(super) oid: i64,
    /// As PostgreSQL would name it.
    pub(super) name: String,
    /// The primary key; otherwise the NOT NULL of one column.
    pub(super) is_primary: bool,
    /// Ordinals of its columns.
    pub(super) columns: Vec<usize>,
}

/// All indexes, each with its table.
pub(super) fn indexes(relations: &[Relation]) -> impl Iterator<Item = (&Relation, &Index)> {
    relations.iter().flat_map(|relation| relation.indexes.iter().map(move |index| (relation, index)))
}

/// The index of this OID, and its table.
pub(super) fn index(relations: &[Relation], oid: i64) -> Option<(&Relation, &Index)> {
    indexes(relations).find(|(_, index)| index.oid == oid)
}

/// The index of this name, and its table.
pub(super) fn index_named<'r>(relations: &'r [Relation], name: &str) -> Option<(&'r Relation, &'r Index)> {
    indexes(relations).find(|(_, index)| index.name == name)
}

/// All tables by name.
pub(super) fn all(catalog: &CatalogState) -> Vec<Relation> {
    catalog.tables().map(|(name, table)| Relation::new(name, table)).collect()
}

impl Relation {
    fn new(name: &str, table: &Table) -> Self {
        let oid = i64::from(table.id().0);
        match table {
            Table::Grid(region) => {
                let schema: &TableSchema = &region.schema();
                let ordinal = |id: &ColumnId| schema.columns.iter().position(|column| column.id == *id);
                let primary = (!schema.hidden_key).then(|| Index {
                    oid: oid | INDEX_BIT,
                    name: schema.key_name.clone(),
                    columns: schema.key.clone(),
                    kind: IndexKind::Btree,
                    is_primary: true,
                });
                let secondary = region.standing_indexes();
                let secondary = secondary.iter().map(|index| Index {
                    oid: i64::from(index.id.0),
                    name: index.name.clone(),
                    columns: index.columns.iter().filter_map(ordinal).collect(),
                    kind: index.kind,
                    is_primary: false,
                });
                Self {
                    oid,
                    name: name.to_owned(),
                    columns: schema.visible_columns().to_vec(),
                    key: if schema.hidden_key { Vec::new() } else { schema.key.clone() },
                    key_name: schema.key_name.clone(),
                    indexes: primary.into_iter().chain(secondary).collect(),
                    is_foreign: false,
                    rows: Some(region.row_estimate()),
                    options: options::stated(&schema.life),
                }
            }
            Table::File(file) => {
                // Columns that no SQL type stands for cannot be selected either.
                let column = |(ordinal, field): (usize, &arrow::datatypes::FieldRef)| {
                    Some(ColumnDef {
                        id: ColumnId(u32::try_from(ordinal).ok()?),
                        name: field.name().clone(),
                        sql_type: sql_type_of(field)?,
                        nullable: field.is_nullable(),
                        default: None,
                    })
                };
                let columns = file.schema().fields().iter().enumerate().filter_map(column).collect();
                Self {
                    oid,
                    name: name.to_owned(),
                    columns,
                    key: Vec::new(),
                    key_name: String::new(),
                    indexes: Vec::new(),
                    is_foreign: true,
                    rows: None,
                    options: Vec::new(),
                }
            }
        }
    }

    /// Whether there is a primary key.
    pub(super) fn has_key(&self) -> bool {
        !self.key.is_empty()
    }

    /// The OID of the primary key's index.
    pub(super) fn key_oid(&self) -> i64 {
        self.oid | INDEX_BIT
    }

    /// The OID of a column's default.
    pub(super) fn default_oid(&self, ordinal: usize) -> i64 {
        self.part_oid(ordinal + 1)
    }

    fn part_oid(&self, part: usize) -> i64 {
        self.oid * PARTS_PER_TABLE + i64::try_from(part).unwrap_or(PARTS_PER_TABLE - 1)
    }

    /// Primary key first, then what must not be NULL.
    pub(super) fn constraints(&self) -> Vec<Constraint> {
        let primary = self.has_key().then(|| Constraint {
            oid: self.part_oid(0),
            name: self.key_name.clone(),
            is_primary: true,
            columns: self.key.clone(),
        });
        let not_null = self.columns.iter().enumerate().filter(|(_, column)| !column.nullable);
        let not_null = not_null.map(|(ordinal, column)| Constraint {
            oid: self.part_oid(ordinal + 1),
            name: format!("{}_{}_not_null", self.name, column.name),
            is_primary: false,
            columns: vec![ordinal],
        });
        primary.into_iter().chain(not_null).collect()
    }
}

/// How a column numbers itself: an identity column, as far as clients are concerned.
pub(super) fn identity(column: &ColumnDef) -> Option<&Sequence> {
    match &column.default {
        Some(ColumnDefault::Sequence(sequence)) => Some(sequence),
        _ => None,
    }
}

/// A column's default as PostgreSQL would print it.
pub(super) fn default_text(column: &ColumnDef) -> Option<String> {
    match column.default.as_ref()? {
        ColumnDefault::Expression(text) => Some(text.clone()),
        ColumnDefault::Sequence(_) => None,
        ColumnDefault::Constant(value) => Some(constant_text(column.sql_type, value)),
    }
}

fn constant_text(sql_type: SqlType, value: &Value) -> String {
    let mut bytes = Vec::new();
    if let Value::Bool(value) = value {
        return value.to_string();
    }
    text::write(sql_type, &value.as_datum(), &TextStyle::default(), &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let is_plain_number = matches!(
        value,
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Float4(_) | Value::Float8(_) | Value::Numeric(_)
    ) && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain_number { text } else { format!("'{}'::{}", text.replace('\'', "''"), plain_type(sql_type)) }
}

/// PostgreSQL's name of a type, without modifiers.
pub(super) fn plain_type(sql_type: SqlType) -> String {
    let scalar = match sql_type.scalar() {
        ScalarType::Numeric { .. } => "numeric".to_owned(),
        ScalarType::Varchar { .. } => "character varying".to_owned(),
        other => other.to_string(),
    };
    if sql_type.is_array() { format!("{scalar}[]") } else { scalar }
}
