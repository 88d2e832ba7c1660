//! `information_schema`, `pg_catalog` and `ashlar`: the catalog as tables, for tools and people.
//!
//! Called when a statement is planned. A table keeps the version of the catalog that the statement is planned against
//! and makes its rows when it is scanned, so a cached plan never shows old row counts. Describes the tables of
//! `public` only.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ashlar_base::{Result, TableId};
use ashlar_functions::error::external;
use datafusion::catalog::Session;
use datafusion::datasource::{MemTable, TableProvider, TableType};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;

use crate::catalog::CatalogState;

mod activity;
mod ashlar;
pub mod bound;
mod column_sequences;
mod counters;
mod descriptions;
mod empty;
pub mod functions;
mod information_schema;
mod layout;
mod locks;
pub mod objects;
mod pg_catalog;
mod relations;
mod statistics;
mod types;

pub(crate) use descriptions::constraint_named;
pub(crate) use layout::VECTOR_METADATA;
use layout::{Layout, Rows};
use relations::Relation;
pub(crate) use relations::plain_type;

/// A system table.
struct Definition {
    name: &'static str,
    /// As [`Layout::parse`] reads it.
    columns: &'static str,
    /// Makes the rows; `None` for a table that has none.
    fill: Option<fn(&Picture, &mut Rows<'_>) -> Result<()>>,
}

/// What rows are made of.
struct Picture {
    catalog: Arc<CatalogState>,
    relations: Vec<Relation>,
    file_bytes: HashMap<TableId, u64>,
}

/// The schemas with their tables.
const SCHEMAS: &[(&str, &[&[Definition]])] = &[
    ("information_schema", &[information_schema::TABLES]),
    ("pg_catalog", &[pg_catalog::TABLES, empty::TABLES, locks::TABLES, activity::TABLES, descriptions::TABLES]),
    (OWN_SCHEMA, &[ashlar::TABLES]),
];

/// The schema of our own tables.
const OWN_SCHEMA: &str = "ashlar";

/// The system table of this name, where there is one.
///
/// # Errors
/// XX000 where its rows do not fit its columns.
pub fn provider(
    _state: &SessionState,
    catalog: &Arc<CatalogState>,
    schema: &str,
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(definition) = definition(schema, name) else { return Ok(None) };
    let layout = Layout::parse(definition.columns, catalog.identity())?;
    let table = SystemTable {
        definition,
        schema: layout.schema(),
        layout,
        reads_files: schema == OWN_SCHEMA,
        catalog: Arc::clone(catalog),
    };
    Ok(Some(Arc::new(table)))
}

/// Whether there is a system table of this name.
pub(crate) fn is_known(schema: &str, name: &str) -> bool {
    definition(schema, name).is_some()
}

/// The columns of a system table with the names of their types, as [`Layout::parse`] reads them.
pub(crate) fn columns_of(schema: &str, name: &str) -> Option<Vec<(&'static str, &'static str)>> {
    let columns = definition(schema, name)?.columns.split(',').filter_map(|column| {
        let (name, rest) = column.trim().split_once(' ')?;
        Some((name, rest.split_once(" = ").map_or(rest, |(type_name, _)| type_name)))
    });
    Some(columns.collect())
}

fn definition(schema: &str, name: &str) -> Option<&'static Definition> {
    let of_schema = SCHEMAS.iter().filter(|(known, _)| *known == schema);
    let mut definitions = of_schema.flat_map(|(_, groups)| groups.iter().copied().flatten());
    definitions.find(|definition| definition.name == name)
}

/// The OIDs that PostgreSQL gives to its own tables: clients compare with them by name, as in
/// `'pg_class'::regclass`.
const FIXED_OIDS: &[(&str, i64)] = &[
    ("pg_am", 2601),
    ("pg_amop", 2602),
    ("pg_amproc", 2603),
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_auth_members", 1261),
    ("pg_cast", 2605),
    ("pg_class", 1259),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_conversion", 2607),
    ("pg_database", 1262),
    ("pg_db_role_setting", 2964),
    ("pg_default_acl", 826),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_enum", 3501),
    ("pg_event_trigger", 3466),
    ("pg_extension", 3079),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_foreign_server", 1417),
    ("pg_foreign_table", 3118),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_language", 2612),
    ("pg_largeobject_metadata", 2995),
    ("pg_namespace", 2615),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_partitioned_table", 3350),
    ("pg_policy", 3256),
    ("pg_proc", 1255),
    ("pg_publication", 6104),
    ("pg_publication_namespace", 6237),
    ("pg_publication_rel", 6106),
    ("pg_range", 3541),
    ("pg_rewrite", 2618),
    ("pg_sequence", 2224),
    ("pg_shdescription", 2396),
    ("pg_statistic_ext", 3381),
    ("pg_subscription", 6100),
    ("pg_tablespace", 1213),
    ("pg_trigger", 2620),
    ("pg_ts_config", 3602),
    ("pg_ts_dict", 3600),
    ("pg_ts_parser", 3601),
    ("pg_ts_template", 3764),
    ("pg_type", 1247),
];

/// The first OID of views and of our own tables, whose numbers PostgreSQL does not fix.
const FIRST_VIEW_OID: i64 = 13_100;

/// The OID of a system table.
pub(crate) fn system_table_oid(schema: &str, name: &str) -> Option<i64> {
    let mut all = SCHEMAS
        .iter()
        .flat_map(|(known, groups)| groups.iter().copied().flatten().map(move |definition| (*known, definition.name)));
    let position = all.position(|found| found == (schema, name))?;
    let fixed = FIXED_OIDS.iter().find(|(known, _)| schema == "pg_catalog" && *known == name);
    Some(fixed.map_or(FIRST_VIEW_OID + i64::try_from(position).unwrap_or(0), |(_, oid)| *oid))
}

/// Whether it is the OID of a system table.
fn is_system_table_oid(oid: i64) -> bool {
    SCHEMAS.iter().any(|(schema, groups)| {
        groups.iter().copied().flatten().any(|definition| system_table_oid(schema, definition.name) == Some(oid))
    })
}

/// A system table over one picture of the catalog.
struct SystemTable {
    definition: &'static Definition,
    layout: Layout,
    schema: SchemaRef,
    /// Whether the sizes of files are asked for.
    reads_files: bool,
    catalog: Arc<CatalogState>,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemTable").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    // As `async_trait` would make it, but its future holds no expressions, as for a grid table: no filter comes here,
    // since none is said to be supported, and the table that is scanned is behind a pointer.
    fn scan<'s, 'c, 'p, 'f, 'r>(
        &'s self,
        state: &'c dyn Session,
        projection: Option<&'p Vec<usize>>,
        _: &'f [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'r, datafusion::common::Result<Arc<dyn ExecutionPlan>>>
    where
        's: 'r,
        'c: 'r,
        'p: 'r,
        'f: 'r,
    {
        Box::pin(async move {
            let table = self.filled(state).await?;
            table.scan(state, projection, &[], limit).await
        })
    }
}

impl SystemTable {
    /// The table with its rows.
    async fn filled(&self, state: &dyn Session) -> datafusion::common::Result<Arc<dyn TableProvider>> {
        let mut rows = Rows::new(&self.layout);
        if let Some(fill) = self.definition.fill {
            let file_bytes = match self.reads_files {
                true => ashlar::file_bytes(state, &self.catalog).await,
                false => HashMap::new(),
            };
            let picture =
                Picture { catalog: Arc::clone(&self.catalog), relations: relations::all(&self.catalog), file_bytes };
            fill(&picture, &mut rows).map_err(external)?;
        }
        let batch = rows.batch(Arc::clone(&self.schema)).map_err(external)?;
        Ok(Arc::new(MemTable::try_new(Arc::clone(&self.schema), vec![vec![batch]])?))
    }
}

#[cfg(test)]
mod tests;
