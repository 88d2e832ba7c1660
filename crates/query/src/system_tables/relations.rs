//! Tables of one catalog picture, grid and file alike, as the system tables describe them.
//!
//! Read by `information_schema`, `pg_catalog` and `ashlar`. Numbers what PostgreSQL numbers and we do not: indexes,
//! constraints and defaults get OIDs that follow from their table's.

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{
    CheckDef, ColumnDef, ColumnDefault, ColumnId, IndexDef, IndexKind, IndexOrder, ScalarType, Sequence, SqlType,
    TableSchema, Unique, Value,
};
use ashlar_functions::quoting::quote_ident;
use ashlar_store::Region;
use ashlar_store::arrow_types::sql_type_of;

use crate::catalog::{CatalogState, Table};
use crate::ddl::options;
use crate::files::FileTable;
use crate::index_rows::IndexExpressions;

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
    /// Its CHECK constraints.
    pub(super) checks: Vec<Check>,
}

/// A CHECK constraint of a table.
pub(super) struct Check {
    oid: i64,
    name: String,
    /// Ordinals of the columns that it names.
    columns: Vec<usize>,
    /// Its condition: as PostgreSQL prints it, and without the parentheses that nobody needs.
    condition: [String; 2],
}

impl Check {
    fn new(schema: &TableSchema, check: &CheckDef) -> Self {
        let ordinal = |id: &ColumnId| schema.columns.iter().position(|column| column.id == *id);
        let condition = [false, true].map(|is_pretty| {
            let computes = IndexExpressions::of_check(check);
            computes.map_or_else(String::new, |computes| computes.expression_text(0, schema, is_pretty))
        });
        Self {
            oid: i64::from(check.id.0),
            name: check.name.clone(),
            columns: check.columns.iter().filter_map(ordinal).collect(),
            condition,
        }
    }
}

/// An index of a table.
pub(super) struct Index {
    /// The index's OID.
    pub(super) oid: i64,
    /// Its name.
    pub(super) name: String,
    /// What it is on, in its order.
    pub(super) keys: Vec<IndexKey>,
    /// The columns that it includes beside them.
    pub(super) included: Vec<IndexKey>,
    /// How it finds rows. That of a primary key finds them by hash, but of PostgreSQL's methods only this one can be
    /// unique: another definition would be none that PostgreSQL takes.
    pub(super) kind: IndexKind,
    /// It is the primary key's.
    pub(super) is_primary: bool,
    /// Two rows may not have the same values.
    pub(super) unique: Option<Unique>,
    /// Its predicate: as PostgreSQL prints it, and without the parentheses that nobody needs.
    pub(super) predicate: Option<[String; 2]>,
    /// It was made in every partition.
    pub(super) is_valid: bool,
    /// What it says in WITH, as `name=value`.
    pub(super) options: Vec<String>,
}

/// What an index is on.
pub(super) struct IndexKey {
    /// The ordinal of the column; `None`: it is an expression.
    pub(super) column: Option<usize>,
    /// As PostgreSQL prints it, and without the parentheses that nobody needs.
    pub(super) text: [String; 2],
    /// The name of the index's own column.
    pub(super) name: String,
    /// Its type.
    pub(super) sql_type: SqlType,
    /// How it was declared to be ordered.
    pub(super) order: IndexOrder,
}

impl IndexKey {
    fn of_column(schema: &TableSchema, ordinal: usize, order: IndexOrder) -> Self {
        let column = &schema.columns[ordinal];
        let text = quote_ident(&column.name);
        let name = column.name.clone();
        Self { column: Some(ordinal), text: [text.clone(), text], name, sql_type: column.sql_type, order }
    }
}

impl Index {
    fn new(region: &Region, schema: &TableSchema, index: &IndexDef) -> Self {
        let computes = IndexExpressions::of(index);
        let column = |id: &ColumnId, order: IndexOrder| {
            let ordinal = schema.columns.iter().position(|column| column.id == *id)?;
            Some(IndexKey::of_column(schema, ordinal, order))
        };
        let key = |(position, id): (usize, &ColumnId)| {
            let order = index.orders.get(position).copied().unwrap_or_default();
            let Some(expression) = IndexDef::expression(*id) else { return column(id, order) };
            let (computes, sql_type) = (computes?, *index.rows.as_ref()?.types().get(expression)?);
            let text = [false, true].map(|is_pretty| computes.expression_text(expression, schema, is_pretty));
            Some(IndexKey { column: None, text, name: computes.name(expression).to_owned(), sql_type, order })
        };
        let predicate = |computes: &IndexExpressions| {
            Some([computes.predicate_text(schema, false)?, computes.predicate_text(schema, true)?])
        };
        Self {
            oid: i64::from(index.id.0),
            name: index.name.clone(),
            keys: index.columns.iter().enumerate().filter_map(key).collect(),
            included: index.included.iter().filter_map(|id| column(id, IndexOrder::default())).collect(),
            kind: index.kind,
            is_primary: false,
            unique: index.unique,
            predicate: computes.and_then(predicate),
            is_valid: region.is_complete(index),
            options: index.storage.clone(),
        }
    }

    /// Its own columns: its keys, then those that it includes.
    pub(super) fn columns(&self) -> impl Iterator<Item = &IndexKey> {
        self.keys.iter().chain(&self.included)
    }

    /// Whether it is that of a UNIQUE constraint.
    pub(super) fn is_unique_constraint(&self) -> bool {
        !self.is_primary && self.unique.is_some_and(|unique| unique.is_constraint)
    }
}

/// What a constraint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConstraintKind {
    /// PRIMARY KEY
    Primary,
    /// UNIQUE
    Unique {
        /// NULLS DISTINCT
        nulls_distinct: bool,
    },
    /// CHECK
    Check,
    /// NOT NULL of one column.
    NotNull,
}

/// A constraint of a table.
pub(super) struct Constraint {
    /// Unique among constraints.
    pub(super) oid: i64,
    /// As PostgreSQL would name it.
    pub(super) name: String,
    /// What it says.
    pub(super) kind: ConstraintKind,
    /// Ordinals of its columns.
    pub(super) columns: Vec<usize>,
    /// The OID of its index; 0 where it has none.
    pub(super) index: i64,
    /// What a CHECK says: as PostgreSQL prints it, and without the parentheses that nobody needs.
    pub(super) condition: Option<[String; 2]>,
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

/// The index of a primary key.
fn primary_index(oid: i64, schema: &TableSchema) -> Index {
    let key = |&ordinal: &usize| IndexKey::of_column(schema, ordinal, IndexOrder::default());
    Index {
        oid: oid | INDEX_BIT,
        name: schema.key_name.clone(),
        keys: schema.key.iter().map(key).collect(),
        included: Vec::new(),
        kind: IndexKind::Btree,
        is_primary: true,
        unique: Some(Unique { nulls_distinct: true, is_constraint: true }),
        predicate: None,
        is_valid: true,
        options: Vec::new(),
    }
}

impl Relation {
    fn new(name: &str, table: &Table) -> Self {
        let oid = i64::from(table.id().0);
        match table {
            Table::Grid(region) => Self::of_region(oid, name, region),
            Table::Sharded(table) => {
                let schema: &TableSchema = &table.schema;
                let primary = (!schema.key.is_empty()).then(|| primary_index(oid, schema));
                Self {
                    oid,
                    name: name.to_owned(),
                    columns: schema.columns.clone(),
                    key: schema.key.clone(),
                    key_name: schema.key_name.clone(),
                    indexes: primary.into_iter().collect(),
                    is_foreign: false,
                    rows: None,
                    options: table.options(),
                    // The shards keep them, and know them alone.
                    checks: Vec::new(),
                }
            }
            Table::File(file) => Self::of_file(oid, name, file),
        }
    }

    /// A table in memory.
    fn of_region(oid: i64, name: &str, region: &Region) -> Self {
        let schema: &TableSchema = &region.schema();
        let primary = (!schema.hidden_key).then(|| primary_index(oid, schema));
        let secondary = region.standing_indexes();
        let secondary = secondary.iter().map(|index| Index::new(region, schema, index));
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
            checks: schema.checks.iter().map(|check| Check::new(schema, check)).collect(),
        }
    }

    /// A Parquet file. Columns without an SQL type are left out: they cannot be selected either.
    fn of_file(oid: i64, name: &str, file: &FileTable) -> Self {
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
            checks: Vec::new(),
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

    /// Primary key first, then what is unique, then conditions, then what must not be NULL.
    pub(super) fn constraints(&self) -> Vec<Constraint> {
        let primary = self.has_key().then(|| Constraint {
            oid: self.part_oid(0),
            name: self.key_name.clone(),
            kind: ConstraintKind::Primary,
            columns: self.key.clone(),
            index: self.key_oid(),
            condition: None,
        });
        let unique = self.indexes.iter().filter(|index| index.is_unique_constraint());
        let unique = unique.map(|index| Constraint {
            // Indexes have numbers below those of parts of tables.
            oid: index.oid,
            name: index.name.clone(),
            kind: ConstraintKind::Unique { nulls_distinct: index.unique.is_none_or(|unique| unique.nulls_distinct) },
            columns: index.keys.iter().filter_map(|key| key.column).collect(),
            index: index.oid,
            condition: None,
        });
        let checks = self.checks.iter().map(|check| Constraint {
            // Numbered as indexes are.
            oid: check.oid,
            name: check.name.clone(),
            kind: ConstraintKind::Check,
            columns: check.columns.clone(),
            index: 0,
            condition: Some(check.condition.clone()),
        });
        let not_null = self.columns.iter().enumerate().filter(|(_, column)| !column.nullable);
        let not_null = not_null.map(|(ordinal, column)| Constraint {
            oid: self.part_oid(ordinal + 1),
            name: format!("{}_{}_not_null", self.name, column.name),
            kind: ConstraintKind::NotNull,
            columns: vec![ordinal],
            index: 0,
            condition: None,
        });
        primary.into_iter().chain(unique).chain(checks).chain(not_null).collect()
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
pub(crate) fn plain_type(sql_type: SqlType) -> String {
    let scalar = match sql_type.scalar() {
        ScalarType::Numeric { .. } => "numeric".to_owned(),
        ScalarType::Varchar { .. } => "character varying".to_owned(),
        ScalarType::Char { .. } => "character".to_owned(),
        other => other.to_string(),
    };
    if sql_type.is_array() { format!("{scalar}[]") } else { scalar }
}
