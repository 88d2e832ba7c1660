//! INSERT into a sharded table of rows that no shard can compute by itself: the engine computes them, and each row goes
//! to its own shard.
//!
//! ```text
//! query ──▶ rows, assigned to the columns' types ──▶ pieces of VALUES by shard, all of them ──▶ the session sends them
//! ```
//!
//! Planned by `statement` when the router has found no way to the shards; run by the session, which has the
//! connections. All rows are computed before the first is sent, so a query that reads its own target table does not see
//! the new rows, and one that fails has changed nothing. The rows are charged to the query's memory until they are
//! sent. Defaults are left to the shards, except for keys that are generated here.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use ashlar_base::value::text::Zone;
use ashlar_base::{ColumnDef, ColumnDefault, Datum, Error, ErrorCode, Result, SqlType, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_shard::route::{self, Spread};
use ashlar_shard::rules::{Generator, Placement, Shard};
use ashlar_shard::workers::Keys;
use ashlar_store::ReadView;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::sql::sqlparser::ast::{Insert, With};
use futures::StreamExt;
use pg_query::protobuf::InferClause;

use super::literal::{no_text, type_name, write_literal, written_bytes_max};
use super::run::only_row;
use super::{Builder, Cell, InsertPlan, Source};
use crate::assign::Assigned;
use crate::catalog::CatalogState;
use crate::columns::Column;
use crate::engine::Engine;
use crate::grammar::ParsedStatement;
use crate::key_plan::missing_parameter;
use crate::resources::StatementResources;
use crate::select::SelectPlan;
use crate::sharded::{Names, ShardedTable};

/// Bytes of the rows that one statement sends to a shard, where it may have them in several: whatever a shard checks at the end of
/// a statement sees all of its rows until there are more. A shard parses each value into some hundred bytes.
pub(super) const PIECE_BYTES_MAX: usize = 4 << 20;

/// Bytes of rows for one shard that have to be in one statement.
pub(super) const WHOLE_BYTES_MAX: usize = 64 << 20;

/// Rows that their order is given room for at a time.
const ORDER_ROWS: usize = 500;

/// A planned INSERT of rows that the engine computes and shards store; see the module.
pub struct SpreadPlan {
    /// The table.
    pub table: Arc<ShardedTable>,
    /// The columns of RETURNING, as far as they are known here. A shard that describes them differently is refused.
    pub returning: Option<Arc<[Column]>>,
    /// Types of the parameters.
    pub parameter_types: Vec<SqlType>,
    spread: Spread,
    /// Ordinals of the columns that the source has values for.
    targets: Vec<usize>,
    source: Source,
    /// The column whose missing values are generated here, and its generator.
    made: Option<(usize, Generator)>,
    zone: Zone,
    /// Set when a shard has accepted the clauses behind VALUES.
    checked: OnceLock<()>,
}

/// The rows of one statement for one shard.
pub struct Piece {
    /// The number of the shard in the table's rule; 0 if the table is not divided.
    pub shard: usize,
    rows: String,
    count: usize,
}

/// The rows of one execution, with the charge for their memory.
pub struct SpreadRows {
    /// The pieces in the order of their shards; pieces of one shard are in the order of their rows.
    pub pieces: Vec<Piece>,
    /// The piece of each row, in the order of the query; empty without RETURNING.
    pub order: Vec<u32>,
    _memory: MemoryReservation,
}

impl SpreadPlan {
    /// Plans the statement; `target` is what its ON CONFLICT names.
    ///
    /// # Errors
    /// Errors of names and types; 0A000 if a value that is needed here is unknown, or if shards would compute different values.
    pub(crate) fn new(
        engine: &Engine,
        catalog: &Arc<CatalogState>,
        table: &Arc<ShardedTable>,
        parsed: &ParsedStatement,
        (with, insert): (Option<With>, Insert),
        target: Option<&InferClause>,
        declared: &[u32],
    ) -> Result<Self> {
        let written = route::Source { text: &parsed.text, offset: parsed.offset, node: &parsed.node };
        let spread = Spread::new(&written, &Names(catalog))?;
        let schema = &table.schema;
        let (mut targets, _) = InsertPlan::targets(schema, &insert, false)?;
        let columns: Vec<&ColumnDef> = targets.iter().map(|ordinal| &schema.columns[*ordinal]).collect();
        let parameter_types = Vec::new();
        let mut plan = Builder { engine, catalog, schema, with, declared, parameter_types, has_expiry: false };
        let source = plan.source(&columns, !insert.columns.is_empty(), insert.source)?;
        if let Source::Query(query) = &source {
            targets.truncate(query.columns.len());
        }
        // Only for the types of parameters: the rest is the shards' to say.
        if spread.has_parameters() {
            plan.conflict(insert.on, target.is_some(), false, spread.alias())?;
        }
        let returning = plan.returning(insert.returning, spread.alias())?.map(|returning| returning.columns);
        let parameter_types = plan.finish_parameters();
        let is_left_out = |ordinal: usize| match targets.iter().position(|target| *target == ordinal) {
            None => true,
            Some(place) => match &source {
                Source::Values { rows, .. } => rows.iter().any(|row| matches!(row[place], Cell::Default)),
                Source::Query(_) => false,
            },
        };
        let rule = &table.routed.rule;
        let made = rule.generated().filter(|(ordinal, _)| is_left_out(*ordinal));
        for (ordinal, column) in schema.columns.iter().enumerate() {
            let is_computed = matches!(column.default, Some(ColumnDefault::Expression(_) | ColumnDefault::Sequence(_)));
            if !is_computed || !is_left_out(ordinal) || made.is_some_and(|(made, _)| made == ordinal) {
                continue;
            }
            let name = &column.name;
            if rule.key().contains(&ordinal) {
                return Err(Error::unsupported(format!(
                    "the value for column \"{name}\" is not known before the row is sent to a shard"
                ))
                .with_hint("The column decides where the row goes, and its default is computed: give it a value."));
            }
            if rule.placement() == Placement::Broadcast {
                return Err(Error::unsupported(format!(
                    "cannot change all copies of table \"{}\" alike: each server would compute the default of column \"{name}\"",
                    schema.name
                ))
                .with_hint("Give it a value."));
            }
        }
        let (table, zone, checked) = (Arc::clone(table), engine.zone(), OnceLock::new());
        Ok(Self { table, returning, parameter_types, spread, targets, source, made, zone, checked })
    }

    /// The query that finds the rows, if there is one.
    pub fn select(&self) -> Option<&SelectPlan> {
        match &self.source {
            Source::Values { computed, .. } => computed.as_deref(),
            Source::Query(plan) => Some(plan),
        }
    }

    /// The generator of keys for rows without one, if the table has a generator.
    pub fn generator(&self) -> Option<Generator> {
        self.made.map(|(_, generator)| generator)
    }

    /// How the rows find their shards, for EXPLAIN.
    pub fn describe(&self) -> String {
        let rule = &self.table.routed.rule;
        let rows = match rule.placement() {
            Placement::Sharded => {
                let names = rule.key().iter().map(|ordinal| self.table.schema.columns[*ordinal].name.as_str());
                format!("divided by ({})", names.collect::<Vec<&str>>().join(", "))
            }
            Placement::Broadcast => "sent to all servers".to_owned(),
            Placement::Single => "sent to one server".to_owned(),
        };
        format!("Route: engine, whose rows for {} are {rows}", self.table.schema.name)
    }

    /// Whether no shard has accepted the clauses behind VALUES yet.
    pub fn is_unchecked(&self) -> bool {
        self.spread.has_tail() && self.checked.get().is_none()
    }

    /// Notes that a shard has accepted these clauses.
    pub fn note_checked(&self) {
        let _ = self.checked.set(());
    }

    /// The estimated size of the plan in bytes.
    pub(crate) fn bytes(&self) -> Result<usize> {
        let cells: usize = match &self.source {
            Source::Values { rows, .. } => rows.iter().map(Vec::len).sum(),
            Source::Query(_) => 0,
        };
        let select = self.select().map_or(Ok(0), SelectPlan::bytes)?;
        Ok(size_of::<Self>() + self.spread.bytes() + 2 * cells * size_of::<Cell>() + select)
    }

    /// The text behind VALUES (ON CONFLICT, RETURNING) with these parameters. `charge` is called before memory is allocated for it.
    ///
    /// # Errors
    /// 42P02 if a parameter is missing; errors of `charge`.
    pub fn tail(&self, parameters: &[Value], mut charge: impl FnMut(usize) -> Result<()>) -> Result<String> {
        charge(self.spread.bytes())?;
        self.spread.tail(|number| {
            let number = usize::from(number);
            let (Some(value), Some(sql_type)) = (parameters.get(number), self.parameter_types.get(number)) else {
                return Err(missing_parameter(number));
            };
            // Each time that it is named: as text, as a constant, in a cast, and in what is written, which doubles where it grows.
            charge(6 * written_bytes_max(value))?;
            let (mut written, mut scratch) = (Vec::new(), Vec::new());
            write_literal(*sql_type, &value.as_datum(), &mut scratch, &mut written);
            let literal = String::from_utf8(written).map_err(|_| no_text())?;
            Ok(format!("CAST({literal} AS {})", type_name(*sql_type)))
        })
    }

    /// The statement that sends a piece to its shard.
    pub fn text(&self, shard: &Shard, piece: &Piece, tail: &str) -> String {
        self.spread.text(shard, &self.columns(), &piece.rows, tail)
    }

    /// The same statement with one row of defaults and without the values of parameters: it is described by a shard, and never run.
    ///
    /// # Errors
    /// 42P02 for a parameter without a type.
    pub fn sample(&self, shard: &Shard) -> Result<String> {
        let tail = self.spread.tail(|number| {
            let number = usize::from(number);
            let sql_type = self.parameter_types.get(number).ok_or_else(|| missing_parameter(number))?;
            Ok(format!("CAST(NULL AS {})", type_name(*sql_type)))
        })?;
        let columns = self.columns();
        let row = format!("({})", vec!["DEFAULT"; columns.len()].join(", "));
        Ok(self.spread.text(shard, &columns, &row, &tail))
    }

    /// The columns that shards are sent values for.
    fn columns(&self) -> Vec<usize> {
        let made = self.made.map(|(ordinal, _)| ordinal).filter(|ordinal| !self.targets.contains(ordinal));
        self.targets.iter().copied().chain(made).collect()
    }

    /// Computes all rows, and finds the shard of each. Must run on the engine's pool.
    ///
    /// # Errors
    /// What evaluating and assigning find; 23502 and 22023 for a key that no shard takes; 55000 where no key can be made; 53200 where there
    /// is no memory for them.
    pub async fn compute(
        &self,
        engine: &Engine,
        parameters: &[Value],
        view: Arc<ReadView>,
        resources: &StatementResources,
    ) -> Result<SpreadRows> {
        let mut placing = Placing::new(self, resources)?;
        match &self.source {
            Source::Values { rows, computed } => {
                let computed = match computed {
                    Some(select) => {
                        Some(only_row(select, &select.collect(engine, parameters, view, resources).await?)?)
                    }
                    None => None,
                };
                for cells in rows {
                    let row = self.row_of_cells(cells, parameters, computed.as_ref())?;
                    placing.put(&row)?;
                }
            }
            Source::Query(select) => {
                let output = select.schema();
                let mut stream = select.stream(engine, parameters, view, resources).await?;
                while let Some(batch) = stream.next().await {
                    placing.put_batch(&batch.map_err(from_datafusion)?, &output)?;
                }
            }
        }
        Ok(placing.finish())
    }

    /// The values of a row of VALUES; `None`: the column's default.
    fn row_of_cells(
        &self,
        cells: &[Cell],
        parameters: &[Value],
        computed: Option<&(RecordBatch, Arc<Schema>)>,
    ) -> Result<Vec<Option<Value>>> {
        let value = |(cell, ordinal): (&Cell, &usize)| match cell {
            Cell::Operand(operand) => operand.value(parameters).map(Some),
            Cell::Default => Ok(None),
            Cell::Computed(number) => {
                let Some((batch, output)) = computed else {
                    return Err(Error::internal("a computed cell has a plan"));
                };
                let column = &self.table.schema.columns[*ordinal];
                let assigned = Assigned::new(batch.column(*number), output.field(*number), column, self.zone)?;
                assigned.value(0).map(Some)
            }
        };
        cells.iter().zip(&self.targets).map(value).collect()
    }

    /// Which of the rule's shards a row is for, with the value that was made for it.
    fn shard_of(&self, row: &[Option<Value>], made: Option<&Value>) -> Result<usize> {
        let rule = &self.table.routed.rule;
        if rule.placement() != Placement::Sharded {
            return Ok(0);
        }
        let mut key: Vec<Datum<'_>> = Vec::with_capacity(rule.key().len());
        for ordinal in rule.key() {
            let given = self.targets.iter().position(|target| target == ordinal).and_then(|place| row[place].as_ref());
            let is_made = self.made.is_some_and(|(made, _)| made == *ordinal);
            let default = match &self.table.schema.columns[*ordinal].default {
                Some(ColumnDefault::Constant(value)) => Some(value),
                _ => None,
            };
            let value = given.or_else(|| made.filter(|_| is_made)).or(default);
            key.push(value.map_or(Datum::Null, Value::as_datum));
        }
        Ok(self.table.routed.shard_of(&key)?.index())
    }
}

/// Rows on their way into pieces.
struct Placing<'p> {
    plan: &'p SpreadPlan,
    /// Makes the values of the column that rows leave out.
    made: Option<(Generator, Keys)>,
    pieces: Vec<Piece>,
    /// By shard: the piece that takes its next row.
    open: Vec<Option<usize>>,
    order: Vec<u32>,
    row: Vec<u8>,
    scratch: Vec<u8>,
    memory: MemoryReservation,
}

impl<'p> Placing<'p> {
    fn new(plan: &'p SpreadPlan, resources: &StatementResources) -> Result<Self> {
        let (fleet, rule) = (&plan.table.fleet, &plan.table.routed.rule);
        let made = plan.generator().map(|generator| fleet.keys(rule).map(|keys| (generator, keys))).transpose()?;
        Ok(Self {
            plan,
            made,
            pieces: Vec::new(),
            open: vec![None; plan.table.routed.rule.shards().len().max(1)],
            order: Vec::new(),
            row: Vec::new(),
            scratch: Vec::new(),
            memory: MemoryConsumer::new("INSERT, rows for shards").register(&resources.runtime().memory_pool),
        })
    }

    fn put_batch(&mut self, batch: &RecordBatch, output: &Schema) -> Result<()> {
        let plan = self.plan;
        let columns = &plan.table.schema.columns;
        let mut assigned = Vec::with_capacity(plan.targets.len());
        for (number, ordinal) in plan.targets.iter().enumerate() {
            assigned.push(Assigned::new(batch.column(number), output.field(number), &columns[*ordinal], plan.zone)?);
        }
        let mut row: Vec<Option<Value>> = Vec::with_capacity(assigned.len());
        for place in 0..batch.num_rows() {
            row.clear();
            for assigned in &assigned {
                row.push(Some(assigned.value(place)?));
            }
            self.put(&row)?;
        }
        Ok(())
    }

    fn put(&mut self, row: &[Option<Value>]) -> Result<()> {
        let plan = self.plan;
        let made = self.made.as_ref().map(|(generator, keys)| keys.make(*generator)).transpose()?;
        let shard = plan.shard_of(row, made.as_ref())?;
        self.write(row, made.as_ref());
        let text = std::str::from_utf8(&self.row).map_err(|_| no_text())?;
        // With what stands between two rows.
        let bytes = text.len() + 2;
        let open = self.open[shard].filter(|at| plan.spread.is_whole() || self.pieces[*at].has_room(bytes));
        let at = match open {
            Some(at) => at,
            None => {
                self.pieces.push(Piece { shard, rows: String::new(), count: 0 });
                self.pieces.len() - 1
            }
        };
        self.open[shard] = Some(at);
        let piece = &mut self.pieces[at];
        let wanted = piece.rows.len() + bytes;
        if wanted > WHOLE_BYTES_MAX && piece.count > 0 {
            return Err(Error::new(
                ErrorCode::ProgramLimitExceeded,
                format!("rows of one shard with ON CONFLICT DO UPDATE can have at most {WHOLE_BYTES_MAX} bytes"),
            )
            .with_hint("Use several statements, in one transaction."));
        }
        if wanted > piece.rows.capacity() {
            let capacity = wanted.max(2 * piece.rows.capacity());
            self.memory.try_grow(capacity - piece.rows.capacity()).map_err(from_datafusion)?;
            piece.rows.reserve_exact(capacity - piece.rows.len());
        }
        if piece.count > 0 {
            piece.rows.push_str(", ");
        }
        piece.rows.push_str(text);
        piece.count += 1;
        if plan.returning.is_some() {
            if self.order.len() == self.order.capacity() {
                let more = self.order.len().max(ORDER_ROWS);
                self.memory.try_grow(more * size_of::<u32>()).map_err(from_datafusion)?;
                self.order.reserve_exact(more);
            }
            let at = u32::try_from(at).map_err(|_| Error::new(ErrorCode::ProgramLimitExceeded, "too many rows"))?;
            self.order.push(at);
        }
        Ok(())
    }

    /// Writes a row as VALUES has it.
    fn write(&mut self, row: &[Option<Value>], made: Option<&Value>) {
        let plan = self.plan;
        let columns = &plan.table.schema.columns;
        let is_made = |ordinal: usize| plan.made.is_some_and(|(made, _)| made == ordinal);
        self.row.clear();
        self.row.push(b'(');
        for (place, (value, ordinal)) in row.iter().zip(&plan.targets).enumerate() {
            if place > 0 {
                self.row.extend_from_slice(b", ");
            }
            match value.as_ref().or_else(|| made.filter(|_| is_made(*ordinal))) {
                Some(value) => {
                    let sql_type = columns[*ordinal].sql_type;
                    write_literal(sql_type, &value.as_datum(), &mut self.scratch, &mut self.row);
                }
                None => self.row.extend_from_slice(b"DEFAULT"),
            }
        }
        if let (Some(value), Some((ordinal, _))) = (made, plan.made)
            && !plan.targets.contains(&ordinal)
        {
            if !row.is_empty() {
                self.row.extend_from_slice(b", ");
            }
            write_literal(columns[ordinal].sql_type, &value.as_datum(), &mut self.scratch, &mut self.row);
        }
        self.row.push(b')');
    }

    /// All of them, in the order in which shards are sent them.
    fn finish(self) -> SpreadRows {
        let Self { mut pieces, mut order, memory, .. } = self;
        let mut places: Vec<usize> = (0..pieces.len()).collect();
        // Stable, as the other: those of one shard stay in their order.
        places.sort_by_key(|at| pieces[*at].shard);
        let mut moved = vec![0_u32; pieces.len()];
        for (new, old) in (0_u32..).zip(&places) {
            moved[*old] = new;
        }
        pieces.sort_by_key(|piece| piece.shard);
        order.iter_mut().for_each(|at| *at = moved[*at as usize]);
        SpreadRows { pieces, order, _memory: memory }
    }
}

impl Piece {
    fn has_room(&self, bytes: usize) -> bool {
        self.rows.len() + bytes <= PIECE_BYTES_MAX
    }

    /// Bytes of its rows.
    pub fn bytes(&self) -> usize {
        self.rows.len()
    }
}
