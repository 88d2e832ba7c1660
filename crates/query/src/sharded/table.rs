//! A sharded table as DataFusion sees it: a table provider that asks each shard for what a query needs of it.
//!
//! Projection, simple conditions and the limit are part of the text sent to a shard. Conditions are evaluated here
//! again: those of a shard only save transferring rows. If rows are to be changed, each comes with the version that was
//! read.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use ashlar_base::{ColumnDef, ColumnId, ScalarType, SqlType, TableSchema, Value};
use ashlar_functions::error::external;
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::rules::{Domain, Key, Placement, ShardId, ShardSet};
use ashlar_store::arrow_types::to_arrow_field;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;

use super::scan::{Scanned, ShardPart, ShardScanExec};
use super::{ShardedTable, filters};
use crate::ddl::HIDDEN_KEY;
use crate::scan_filters;

/// The type of what tells versions of a row apart.
pub(crate) const VERSION_TYPE: SqlType = SqlType::Scalar(ScalarType::Text);

/// Which version of a row it is, as a shard says it: the number of the shard, where the version lies in the table, and who wrote it. A row
/// that is changed gets another place, and a place that is used again another writer; locks leave both as they are. `qualifier` stands
/// before the names of columns.
pub(crate) fn version(shard: ShardId, qualifier: &str) -> String {
    format!("'{shard} ' || CAST({qualifier}ctid AS text) || ' ' || CAST({qualifier}xmin AS text)")
}

/// A table's columns, and behind them, by a name that no user can write, [`version`].
pub(super) fn with_version(schema: &TableSchema) -> TableSchema {
    let mut schema = schema.clone();
    schema.columns.push(ColumnDef {
        id: ColumnId(u32::MAX),
        name: HIDDEN_KEY.to_owned(),
        sql_type: VERSION_TYPE,
        nullable: false,
        default: None,
    });
    schema.hidden_key = true;
    schema
}

/// A sharded table in a plan.
#[derive(Clone)]
pub(super) struct ShardedProvider {
    table: Arc<ShardedTable>,
    schema: SchemaRef,
    /// Whether the order of texts decides in the plan.
    orders_text: bool,
}

impl fmt::Debug for ShardedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sharded table {}", self.table.schema.name)
    }
}

impl ShardedProvider {
    pub(super) fn new(table: &Arc<ShardedTable>) -> Self {
        Self::of_columns(table, &table.schema.columns)
    }

    /// The same with all columns of a schema that [`with_version`] has made of the table's.
    pub(super) fn of_columns(table: &Arc<ShardedTable>, columns: &[ColumnDef]) -> Self {
        let fields: Vec<_> = columns.iter().map(to_arrow_field).collect();
        Self { table: Arc::clone(table), schema: Arc::new(Schema::new(fields)), orders_text: false }
    }

    /// The table itself.
    pub(super) fn table(&self) -> &Arc<ShardedTable> {
        &self.table
    }

    /// The same in a plan in which the order of texts decides.
    pub(super) fn ordering_text(self) -> Self {
        Self { orders_text: true, ..self }
    }

    fn scan_plan(
        &self,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all);
        let schema = Arc::new(self.schema.project(columns)?);
        let definitions = &self.table.schema.columns;
        // Behind the table's own columns there is none but the version.
        let type_of = |ordinal: &usize| definitions.get(*ordinal).map_or(VERSION_TYPE, |column| column.sql_type);
        let types = columns.iter().map(type_of).collect();
        let names = |shard: ShardId| {
            let name = |ordinal: &usize| match definitions.get(*ordinal) {
                Some(column) => quote_ident(&column.name),
                None => version(shard, ""),
            };
            columns.iter().map(name).collect::<Vec<String>>().join(", ")
        };
        let sent: Vec<String> =
            conditions.iter().filter_map(|condition| filters::text_of(condition, definitions)).collect();
        let is_versioned = columns.iter().any(|ordinal| definitions.get(*ordinal).is_none());
        let all_sent = (sent.len() == conditions.len()).then_some(sent.len());
        let condition = if sent.is_empty() { String::new() } else { format!(" WHERE {}", sent.join(" AND ")) };
        let is_limited = limit.is_some();
        let limit = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
        let rule = &self.table.routed.rule;
        let shards = match rule.placement() {
            Placement::Sharded => rule.shards_of(&self.domains(conditions).map_err(external)?),
            // Every shard has all of it.
            Placement::Broadcast | Placement::Single => ShardSet::first(1),
        };
        let part = |id: ShardId| {
            let shard = &rule.shards()[id.index()];
            let table = format!("{}.{}", quote_ident(&shard.schema), quote_ident(&shard.table));
            let text = format!("SELECT {} FROM {table}{condition}{limit}", names(id));
            ShardPart { shard: id, server: Arc::clone(&shard.server), text }
        };
        Ok(Arc::new(ShardScanExec::new(Scanned {
            table: Arc::clone(&self.table),
            schema,
            ordinals: columns.clone(),
            types,
            parts: shards.iter().map(part).collect(),
            is_conditional: !sent.is_empty(),
            is_limited,
            rows: self.table.sizes.rows(shards.iter()),
            orders_text: self.orders_text,
            selected: (!is_versioned).then(|| names(ShardId(0))),
            conditions: all_sent,
            grouping: None,
        })))
    }

    /// What conditions say of the sharding key.
    fn domains(&self, conditions: &[Expr]) -> ashlar_base::Result<Vec<Domain>> {
        let rule = &self.table.routed.rule;
        let columns = &self.table.schema.columns;
        let mut domains = Vec::new();
        for (ordinal, class) in rule.key().iter().zip(rule.classes()) {
            let values = conditions.iter().find_map(|condition| filters::values_of(condition, columns, *ordinal));
            let keys: ashlar_base::Result<Option<Vec<Key>>> = values.map_or(Ok(None), |values| {
                // No row is equal to NULL.
                let known = values.iter().filter(|value| !value.is_null());
                known.map(|value: &Value| Key::new(*class, &value.as_datum())).collect()
            });
            domains.push(keys?.map_or(Domain::Any, Domain::Values));
        }
        Ok(domains)
    }
}

impl TableProvider for ShardedProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(scan_filters::taken(filters, &TableProviderFilterPushDown::Inexact))
    }

    // As for a grid table: the answer is there at once.
    fn scan<'s, 'c, 'p, 'f, 'r>(
        &'s self,
        _: &'c dyn Session,
        projection: Option<&'p Vec<usize>>,
        filters: &'f [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'r, Result<Arc<dyn ExecutionPlan>>>
    where
        's: 'r,
        'c: 'r,
        'p: 'r,
        'f: 'r,
    {
        Box::pin(std::future::ready(self.scan_plan(projection, filters, limit)))
    }
}
