//! `information_schema`, `pg_catalog` and `ashlar`: what tools and people ask the catalog, as tables.
//!
//! Built from one picture of the catalog when a statement is planned.

use std::sync::Arc;

use ashlar_base::Result;
use datafusion::datasource::TableProvider;
use datafusion::execution::session_state::SessionState;

use crate::catalog::CatalogState;

/// The system table of this name, where there is one.
///
/// # Errors
/// XX000 where its rows do not fit its columns.
pub fn provider(
    _state: &SessionState,
    _catalog: &Arc<CatalogState>,
    _schema: &str,
    _name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    Ok(None)
}
