//! The file home: a foreign table over Parquet files, read in place by DataFusion's own scan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ashlar_base::{Error, ErrorCode, Result, TableId};
use ashlar_functions::error::from_datafusion;
use datafusion::datasource::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::session_state::SessionState;

/// A foreign table over files.
pub struct FileTable {
    /// Unique over the life of the server.
    pub id: TableId,
    /// As PostgreSQL folds it.
    pub name: String,
    /// The files: a path or a glob.
    pub path: String,
    /// What DataFusion scans.
    pub provider: Arc<dyn TableProvider>,
}

impl FileTable {
    /// Looks at the files and takes their schema.
    ///
    /// # Errors
    /// 58P01 where no file is found, 0A000 for a format that is not offered.
    pub async fn open(state: &SessionState, id: TableId, name: &str, path: &str, format: &str) -> Result<Self> {
        if !format.eq_ignore_ascii_case("parquet") {
            return Err(Error::unsupported(format!("file format \"{format}\" is not supported"))
                .with_hint("Use OPTIONS (format 'parquet')."));
        }
        let absolute = absolute(path)?;
        if !absolute.contains(['*', '?', '[']) && !Path::new(&absolute).exists() {
            return Err(Error::new(
                ErrorCode::UndefinedFile,
                format!("could not open \"{path}\": no such file or directory"),
            ));
        }
        let url = ListingTableUrl::parse(&absolute).map_err(from_datafusion)?;
        // As the session has it, not as the engine would: texts are of the one type that tables in memory and our operators have.
        let format = ParquetFormat::default().with_options(state.default_table_options().parquet);
        let options = ListingOptions::new(Arc::new(format)).with_file_extension(".parquet");
        let schema = options.infer_schema(state, &url).await.map_err(from_datafusion)?;
        if schema.fields().is_empty() {
            return Err(Error::new(ErrorCode::UndefinedFile, format!("no Parquet file matches \"{path}\"")));
        }
        let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
        let provider = ListingTable::try_new(config).map_err(from_datafusion)?;
        Ok(Self { id, name: name.to_owned(), path: path.to_owned(), provider: Arc::new(provider) })
    }

    /// The columns of the files.
    pub fn schema(&self) -> SchemaRef {
        self.provider.schema()
    }
}

fn absolute(path: &str) -> Result<String> {
    let path = PathBuf::from(path);
    let absolute = std::path::absolute(&path).map_err(|error| Error::new(ErrorCode::IoError, error.to_string()))?;
    absolute
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::new(ErrorCode::InvalidParameterValue, "the path is not UTF-8"))
}

#[cfg(test)]
mod tests;
