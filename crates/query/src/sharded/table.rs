//! A sharded table as DataFusion sees it: a table provider that asks each shard for what a query needs of it.
//!
//! Projection, simple conditions and the limit are part of the text sent to a shard; `aggregates` and `first_rows` add
//! to it. Conditions are evaluated here again: those of a shard only save transferring rows. If rows are to be changed,
//! each comes with the version that was read.

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
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;

use super::collation::provider_of;
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

    /// The same in a plan that compares ranks in the place of texts.
    pub(super) fn without_order(self) -> Self {
        Self { orders_text: false, ..self }
    }

    /// What is asked for columns of the rows that fulfil conditions.
    fn question(
        &self,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Result<Question<'_>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let definitions = &self.table.schema.columns;
        let sent: Vec<String> =
            conditions.iter().filter_map(|condition| filters::text_of(condition, definitions)).collect();
        let conditions_sent = (sent.len() == conditions.len()).then_some(sent.len());
        let condition = if sent.is_empty() { String::new() } else { format!(" WHERE {}", sent.join(" AND ")) };
        let limit = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
        let rule = &self.table.routed.rule;
        let shards = match rule.placement() {
            Placement::Sharded => rule.shards_of(&self.domains(conditions).map_err(external)?),
            // Every shard has all of it.
            Placement::Broadcast | Placement::Single => ShardSet::first(1),
        };
        let (is_conditional, rest) = (!sent.is_empty(), condition + &limit);
        Ok(Question { table: &self.table, columns, rest, is_conditional, conditions_sent, shards })
    }

    fn scan_plan(
        &self,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let question = self.question(projection, conditions, limit)?;
        let schema = Arc::new(self.schema.project(&question.columns)?);
        let definitions = &self.table.schema.columns;
        // Behind the table's own columns there is none but the version.
        let type_of = |ordinal: &usize| definitions.get(*ordinal).map_or(VERSION_TYPE, |column| column.sql_type);
        let types = question.columns.iter().map(type_of).collect();
        let part = |id: ShardId| ShardPart {
            shard: id,
            server: Arc::clone(&self.table.routed.rule.shards()[id.index()].server),
            text: question.text(id),
        };
        let parts = question.shards.iter().map(part).collect();
        let rows = self.table.sizes.rows(question.shards.iter());
        let is_versioned = question.columns.iter().any(|ordinal| definitions.get(*ordinal).is_none());
        let selected = (!is_versioned).then(|| question.names(ShardId(0)));
        let Question { columns: ordinals, is_conditional, conditions_sent: conditions, .. } = question;
        Ok(Arc::new(ShardScanExec::new(Scanned {
            table: Arc::clone(&self.table),
            schema,
            ordinals,
            types,
            parts,
            is_conditional,
            is_limited: limit.is_some(),
            rows,
            orders_text: self.orders_text,
            selected,
            conditions,
            grouping: None,
            first: None,
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

/// What the shards of a table are asked.
struct Question<'t> {
    table: &'t ShardedTable,
    /// Positions of the columns in the table.
    columns: Vec<usize>,
    /// What stands behind the name of the table.
    rest: String,
    is_conditional: bool,
    /// How many conditions there are, if all of them are among what is sent.
    conditions_sent: Option<usize>,
    shards: ShardSet,
}

impl Question<'_> {
    /// The columns, as one of them is asked for them.
    fn names(&self, id: ShardId) -> String {
        let definitions = &self.table.schema.columns;
        let name = |ordinal: &usize| match definitions.get(*ordinal) {
            Some(column) => quote_ident(&column.name),
            None => version(id, ""),
        };
        self.columns.iter().map(name).collect::<Vec<String>>().join(", ")
    }

    /// The text for one of them.
    fn text(&self, id: ShardId) -> String {
        let names = self.names(id);
        let shard = &self.table.routed.rule.shards()[id.index()];
        let (schema, table) = (quote_ident(&shard.schema), quote_ident(&shard.table));
        let mut text = format!("SELECT {names} FROM {schema}.{table}{}", self.rest);
        // It may be kept for long.
        text.shrink_to_fit();
        text
    }

    /// Bytes of the texts for all of them, and of what is kept beside each.
    fn bytes(&self) -> usize {
        let shards = self.table.routed.rule.shards();
        let named = |id: ShardId| shards[id.index()].schema.len() + shards[id.index()].table.len();
        let Some(first) = self.shards.iter().next() else { return 0 };
        // They differ in the name of the table.
        let each = size_of::<ShardPart>() + size_of::<ShardId>() + self.text(first).len().saturating_sub(named(first));
        self.shards.iter().map(|id| each + named(id)).sum()
    }
}

/// Bytes of what shards are asked by a node, in a plan that is kept: a text for each of them.
pub(crate) fn bytes_of_texts(node: &LogicalPlan) -> usize {
    let (LogicalPlan::TableScan(scan), Some(provider)) = (node, provider_of(node)) else { return 0 };
    // What cannot be asked is not kept.
    let question = provider.question(scan.projection.as_ref(), &scan.filters, scan.fetch);
    question.map_or(0, |question| question.bytes())
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
