//! `information_schema`, `pg_catalog` and `ashlar`: what tools and people ask the catalog, as tables.
//!
//! Called when a statement is planned; a table keeps the picture of the catalog that the statement is planned
//! against and makes its rows when it is scanned, so that a kept plan never shows old row counts. Describes the
//! tables of `public` only.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ashlar_base::{Result, TableId};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::datasource::{MemTable, TableProvider, TableType};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use crate::catalog::CatalogState;
use crate::error::external;

mod ashlar;
mod empty;
pub mod functions;
mod information_schema;
mod layout;
mod pg_catalog;
mod relations;
mod types;

use layout::{Layout, Rows};
use relations::Relation;

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
    ("pg_catalog", &[pg_catalog::TABLES, empty::TABLES]),
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
    let found = SCHEMAS
        .iter()
        .filter(|(known, _)| *known == schema)
        .flat_map(|(_, groups)| groups.iter().copied().flatten())
        .find(|definition| definition.name == name);
    let Some(definition) = found else {
        return Ok(None);
    };
    let layout = Layout::parse(definition.columns)?;
    let table = SystemTable {
        definition,
        schema: layout.schema(),
        layout,
        reads_files: schema == OWN_SCHEMA,
        catalog: Arc::clone(catalog),
    };
    Ok(Some(Arc::new(table)))
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

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
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
        let table = MemTable::try_new(Arc::clone(&self.schema), vec![vec![batch]])?;
        table.scan(state, projection, filters, limit).await
    }
}

#[cfg(test)]
mod tests;
