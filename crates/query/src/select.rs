//! SELECT and everything that reads: text -> DataFusion plan, once; then many executions.

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use ashlar_base::{Error, Result, SqlType, Value};
use ashlar_functions::error::{from_datafusion, from_optimiser};
use ashlar_functions::rules::conditions::nulls_apart;
use ashlar_functions::times::clock;
use ashlar_functions::tree::{
    any_expression, each_expression_of, each_node_with_subqueries, each_part, rewrite_nodes_with_subqueries,
};
use ashlar_functions::walk;
use ashlar_functions::{inference, lists_apart};
use ashlar_store::ReadView;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::{TableProvider, provider_as_source};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::eliminate_filter::EliminateFilter;
use datafusion::optimizer::eliminate_limit::EliminateLimit;
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast::{
    Expr as AstExpr, Query, SetExpr, Statement as AstStatement, TypedString, Visitor,
};
use datafusion::sql::sqlparser::parser::Parser;

use self::dialect::Postgres;
use crate::access::settle::settle;
use crate::columns::{self, Column};
use crate::engine::Engine;
use crate::grid_table::GridTable;
use crate::index_plan::IndexPlan;
use crate::parameters;
use crate::program::{self, Program};
use crate::resources::StatementResources;
use crate::sharded::collation::{self, TextOrder};
use crate::sharded::{self, sizes, transaction_reads};
use crate::short_plan::ShortPlan;

mod aliases;
mod ambiguous;
mod around;
mod array_subqueries;
mod arrays;
mod balance;
mod casts;
pub(crate) mod dialect;
pub(crate) mod expiry;
mod frames;
mod from_functions;
mod gathering;
mod group_keys;
mod grouping;
mod grouping_sets;
pub(crate) mod joins;
mod kin;
mod labels;
mod lateral;
mod levels;
mod limits;
mod lowering;
pub mod names;
pub(crate) mod nodes;
mod not_in;
mod numbered;
mod numerics;
mod object_numbers;
mod ordering;
mod outer_aggregates;
mod parameter_places;
mod passes;
mod per_row;
mod physical;
mod planner;
mod qualifiers;
mod reading;
mod ready;
mod recursive;
mod references;
mod rewrite;
mod runnable;
mod scopes;
mod sources;
mod spelling;
mod stars;
mod subqueries;
mod subqueries_beneath;
mod table_numbers;
mod targets;
mod times;
mod unread;
mod values;
mod vectors;
mod whole_rows;
mod windows;
mod with_once;

pub use names::name_outputs;
pub use planner::Planner;
pub(crate) use rewrite::copies::{Copies, nodes_of};
pub(crate) use rewrite::row_subqueries::{members_of, one_row_of, reads_choice};
pub(crate) use spelling::{KEY_SHARE_MARK, NO_KEY_UPDATE_MARK};
pub(crate) use times::is_moment;

use per_row::Runner;
use ready::Ready;
use runnable::runnable;

/// How deep expressions and queries may be nested.
const RECURSION_MAX: usize = 200;

/// Bytes that a node of a plan holds, a column of its schema, and a node of an expression: measured over the statements of a test,
/// which holds the sum against what an allocator counts.
const NODE_BYTES: usize = 1024;
const FIELD_BYTES: usize = 256;
const EXPRESSION_BYTES: usize = 384;

/// A planned query.
#[derive(Clone)]
pub struct SelectPlan {
    plan: LogicalPlan,
    stage: Stage,
    /// Whether it contains `now()` or a function like it: it gets the time, and is optimised again, at each execution.
    reads_clock: bool,
    /// Types of `$1`, `$2`, ...
    pub parameter_types: Vec<SqlType>,
    /// Which of them the plan reads.
    pub parameters_used: Vec<bool>,
    /// The columns of the result.
    pub columns: Arc<[Column]>,
    /// How its rows are found by an index without running the plan, if they are few.
    pub indexed: Option<Arc<IndexPlan>>,
    /// The same for more general queries of one table.
    pub short: Option<Arc<ShortPlan>>,
    /// The physical plan, if it can be run again.
    ready: Arc<Ready>,
    /// The plan that no rule of the optimiser has seen, where the order of texts of shards decides and is the one that their servers have:
    /// where that is not the order of bytes it compares ranks in their place.
    in_servers_order: Option<Arc<LogicalPlan>>,
}

/// How far a plan has been optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Analysed only; it is optimised at each execution.
    Analysed,
    /// Optimised without the values of its parameters: an execution fills them in and simplifies the result.
    General,
    /// Without parameters, and fully optimised.
    Optimised,
}

/// Parses a statement with DataFusion's parser, in PostgreSQL's dialect.
///
/// # Errors
/// 0A000: the grammar gate has accepted the text before.
pub fn parse(text: &str) -> Result<AstStatement> {
    settled(parse_raw(text)?)
}

/// Parses as [`parse`] does, without rewriting the statement.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_raw(text: &str) -> Result<AstStatement> {
    let text = spelling::plain(text)?;
    let unsupported = |error: datafusion::sql::sqlparser::parser::ParserError| {
        Error::unsupported(format!("this form of the statement is not supported: {error}"))
    };
    let mut statements = Parser::new(&Postgres)
        .with_recursion_limit(RECURSION_MAX)
        .try_with_sql(&text)
        .and_then(|mut parser| parser.parse_statements())
        .map_err(unsupported)?;
    match statements.len() {
        1 => Ok(statements.remove(0)),
        _ => Err(Error::unsupported("this form of the statement is not supported")),
    }
}

/// What was parsed, as it is planned: nothing in it locks rows.
///
/// # Errors
/// 0A000 for forms that are not offered.
pub(crate) fn settled(mut statement: AstStatement) -> Result<AstStatement> {
    refuse_locks(&statement)?;
    refuse_changes_within(&statement)?;
    rewrite::rewrite(&mut statement)?;
    balance::balance(&mut statement);
    Ok(statement)
}

/// 0A000 for a WITH query that changes rows: what is planned here is a query, or has none before it any more.
fn refuse_changes_within(statement: &AstStatement) -> Result<()> {
    struct Changes;
    impl Visitor for Changes {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let is_change = |body: &SetExpr| {
                matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
            };
            let mut queries = query.with.iter().flat_map(|with| &with.cte_tables);
            if queries.any(|cte| is_change(&cte.query.body)) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    match walk::visit(statement, &mut Changes) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            let message = "WITH clause containing a data-modifying statement must be at the top level";
            Err(Error::unsupported(message))
        }
    }
}

/// Whether something becomes a `name` or a `"char"`, whose order is that of bytes in any database. They are texts here.
fn casts_to_names(statement: &AstStatement) -> bool {
    let found = walk::expressions(statement, |expr| {
        let (AstExpr::Cast { data_type, .. } | AstExpr::TypedString(TypedString { data_type, .. })) = expr else {
            return ControlFlow::Continue(());
        };
        let name = data_type.to_string().to_ascii_lowercase();
        let name = name.trim_end_matches("[]");
        match name.strip_prefix("pg_catalog.").unwrap_or(name) {
            "name" | "\"char\"" => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// 0A000 for a query with a locking clause anywhere.
fn refuse_locks(statement: &AstStatement) -> Result<()> {
    struct Locks;
    impl Visitor for Locks {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if query.locks.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    match walk::visit(statement, &mut Locks) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::unsupported("FOR UPDATE and FOR SHARE are not supported in this place")
            .with_hint(
                "Lock the rows in a SELECT of its own, in the same transaction. An UPDATE or DELETE may have one \
                 WITH next AS (SELECT ... FOR UPDATE) before it, which it reads, or WHERE ... IN (SELECT ... FOR UPDATE).",
            )),
    }
}

impl SelectPlan {
    /// Plans a query (a `Statement::Query`).
    ///
    /// # Errors
    /// Errors of planning, with PostgreSQL's codes.
    pub fn new(planner: &Planner<'_>, statement: AstStatement, declared: &[u32]) -> Result<Self> {
        let candidates = unread::candidates(&statement)?;
        let is_without_collations = planner.is_without_collations() && !casts_to_names(&statement);
        let plan = planner.logical(statement, declared)?;
        let mut planned = Self::planned(planner.state, plan, is_without_collations)?;
        let parameters = (&mut planned.parameter_types, &mut planned.parameters_used);
        if unread::add_types(planner, candidates, declared, parameters)? {
            // It was made for fewer.
            planned.short = None;
        }
        Ok(planned)
    }

    /// Takes a logical plan as DataFusion's SQL planner made it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_logical(state: &SessionState, plan: LogicalPlan) -> Result<Self> {
        Self::planned(state, plan, false)
    }

    fn planned(state: &SessionState, plan: LogicalPlan, is_without_collations: bool) -> Result<Self> {
        let (plan, parameter_types, parameters_used) = parameters::settle(plan)?;
        let plan =
            state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}).map_err(from_datafusion)?;
        let plan = signed_outputs(plan)?;
        let (plan, orders_text) = collation::told(plan).map_err(from_datafusion)?;
        let in_servers_order = (orders_text && is_without_collations).then(|| Arc::new(plan.clone()));
        let columns = columns::of_schema(plan.schema().as_arrow())?.into();
        let reads_clock = clock::is_read_by(&plan).map_err(from_datafusion)?;
        let (plan, stage) = match (parameter_types.is_empty(), reads_clock) {
            (_, true) => (plan, Stage::Analysed),
            (true, false) => (optimize(state, plan)?, Stage::Optimised),
            // What is wrong with it, such as a division by zero between constants, is told by its execution.
            (false, false) => match generalise(state, &plan) {
                Some(general) => (general, Stage::General),
                None => (plan, Stage::Analysed),
            },
        };
        let planned = Self {
            plan,
            stage,
            reads_clock,
            parameter_types,
            parameters_used,
            columns,
            indexed: None,
            short: None,
            ready: Arc::default(),
            in_servers_order,
        };
        let short = planned.short_plan(state);
        Ok(Self { short: short.map(Arc::new), ..planned })
    }

    fn short_plan(&self, state: &SessionState) -> Option<ShortPlan> {
        if let Some(program) = self.program(state, None) {
            return ShortPlan::of(program, &self.parameter_types);
        }
        if self.reads_clock || self.stage == Stage::Analysed {
            return None;
        }
        program::without_table(state, &self.plan, &self.parameter_types).map(ShortPlan::without_table)
    }

    /// The plan, or the part of it that computes some of its outputs, as steps over the rows of one table: see [`Program`].
    pub(crate) fn program(&self, state: &SessionState, wanted: Option<&[usize]>) -> Option<Program> {
        if self.reads_clock || self.stage == Stage::Analysed {
            return None;
        }
        Program::of(state, &self.plan, &self.parameter_types, wanted)
    }

    /// The physical plan for these values of the parameters.
    ///
    /// # Errors
    /// Errors of optimising, such as a division by zero between constants.
    pub async fn physical(
        &self,
        engine: &Engine,
        values: &[Value],
        resources: &StatementResources,
        view: &Arc<ReadView>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (state, is_ready) = (engine.state(), self.stage == Stage::Optimised);
        // A server may be another one by now.
        let is_in_bytes = self.in_servers_order.as_deref().map_or(Ok(true), collation::is_known_in_bytes)?;
        if is_ready
            && is_in_bytes
            && let Some(plan) = self.ready.take(state).map_err(from_datafusion)?
        {
            return Ok(plan);
        }
        let ranked = self.ranked(resources).await?;
        let is_ready = is_ready && ranked.is_none();
        let plan = if is_ready {
            self.plan.clone()
        } else {
            let (plan, stage) = ranked.map_or_else(|| (self.plan.clone(), self.stage), |plan| (plan, Stage::Analysed));
            let plan = if self.parameter_types.is_empty() {
                plan
            } else {
                let has_null = values.iter().any(|value| matches!(value, Value::Null));
                let values = parameters::values_for(&self.parameter_types, &self.parameters_used, values)?;
                let plan = plan.replace_params_with_values(&values).map_err(from_datafusion)?;
                limits::none_negative(&plan).map_err(from_datafusion)?;
                if has_null { nulls_apart(plan).map_err(from_datafusion)? } else { plan }
            };
            let plan = if self.reads_clock {
                clock::written_into(plan, resources.time).map_err(from_datafusion)?
            } else {
                plan
            };
            if stage == Stage::General { simplify(engine.state(), plan)? } else { optimize(engine.state(), plan)? }
        };
        let unknown = sizes::unknown(&plan)?;
        if !unknown.is_empty() {
            let mut at_work = resources.turn().work().await?;
            Box::pin(at_work.wait(sizes::ask(unknown, resources))).await?;
        }
        let is_counted = limits::are_asked(&plan).map_err(from_datafusion)?;
        let plan = if is_counted {
            let context = engine.task_context(Arc::clone(view), resources);
            let runner = Runner { state: Arc::new(state.clone()), context };
            Box::pin(limits::asked(plan, &runner)).await.map_err(from_optimiser)?
        } else {
            plan
        };
        if !per_row::is_needed(&plan).map_err(from_datafusion)? {
            let plan = physical::of(plan, state).await.map_err(from_optimiser)?;
            let plan = settle(plan).and_then(runnable).map_err(from_datafusion)?;
            if is_ready && !is_counted {
                self.ready.keep(state.session_id(), &plan).map_err(from_datafusion)?;
            }
            return Ok(plan);
        }
        let context = engine.task_context(Arc::clone(view), resources);
        let runner = Runner { state: Arc::new(engine.state().clone()), context };
        let plan = per_row::physical(plan, &runner).await.map_err(from_optimiser)?;
        settle(plan).and_then(runnable).map_err(from_datafusion)
    }

    /// The plan that compares ranks of texts, where the servers that it reads have another order of them than that of bytes. `None`: it compares
    /// texts themselves, or not at all; a scan refuses what would be compared in the wrong order.
    async fn ranked(&self, resources: &StatementResources) -> Result<Option<LogicalPlan>> {
        let Some(plan) = &self.in_servers_order else { return Ok(None) };
        let mut at_work = resources.turn().work().await?;
        match Box::pin(at_work.wait(collation::order(plan, resources))).await?? {
            TextOrder::Bytes => Ok(None),
            TextOrder::Ranks(ranker) => collation::ranked(LogicalPlan::clone(plan), &ranker).map_err(from_optimiser),
        }
    }

    /// Starts the query. Must run on the engine's pool.
    ///
    /// # Errors
    /// As [`Self::physical`].
    pub async fn stream(
        &self,
        engine: &Engine,
        values: &[Value],
        view: Arc<ReadView>,
        resources: &StatementResources,
    ) -> Result<SendableRecordBatchStream> {
        if let Some(short) = &self.short
            && let Some(rows) = short.run(engine.store(), &view, values)?
        {
            let rows_now = futures::stream::iter([Ok(rows)]);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows_now)));
        }
        self.stream_by_engine(engine, values, view, resources).await
    }

    /// Starts the query as a plan of the engine, without trying its short plan first.
    ///
    /// # Errors
    /// As [`Self::physical`]; 53300 if too many others run.
    pub async fn stream_by_engine(
        &self,
        engine: &Engine,
        values: &[Value],
        view: Arc<ReadView>,
        resources: &StatementResources,
    ) -> Result<SendableRecordBatchStream> {
        if self.reads_tables() {
            resources.admit().await?;
        }
        let plan = self.physical(engine, values, resources, &view).await?;
        let context = engine.task_context(view, resources);
        if let Some(unsettled) = transaction_reads::unsettled(&plan, &self.plan, resources)? {
            transaction_reads::settle(unsettled, &context, resources).await?;
        }
        execute_stream(plan, context).map_err(from_datafusion)
    }

    /// Runs the query to its end.
    ///
    /// # Errors
    /// As [`Self::physical`], and errors of execution.
    pub async fn collect(
        &self,
        engine: &Engine,
        values: &[Value],
        view: Arc<ReadView>,
        resources: &StatementResources,
    ) -> Result<Vec<RecordBatch>> {
        use futures::TryStreamExt;
        self.stream(engine, values, view, resources).await?.try_collect().await.map_err(from_datafusion)
    }

    /// The same query with another provider for the table of this name.
    ///
    /// # Errors
    /// Errors of DataFusion's traversal.
    pub fn over(&self, name: &str, table: &Arc<dyn TableProvider>) -> Result<Self> {
        let replaced = rewrite_nodes_with_subqueries(self.plan.clone(), |node| match node {
            LogicalPlan::TableScan(mut scan) if scan.table_name.table() == name => {
                scan.source = provider_as_source(Arc::clone(table));
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(Self {
            plan: replaced.map_err(from_datafusion)?,
            indexed: None,
            short: None,
            ready: Arc::default(),
            in_servers_order: None,
            ..self.clone()
        })
    }

    /// The logical plan, optimised as far as it is.
    pub(crate) fn logical(&self) -> &LogicalPlan {
        &self.plan
    }

    /// Whether it contains `now()` or a function like it.
    pub(crate) fn reads_clock(&self) -> bool {
        self.reads_clock
    }

    /// The query with LIMIT.
    ///
    /// # Errors
    /// Errors of DataFusion's builder.
    pub(crate) fn limited(&self, rows: usize) -> Result<Self> {
        let plan = LogicalPlanBuilder::from(self.plan.clone()).limit(0, Some(rows));
        let plan = plan.and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
        // The limit is still to be moved to where it saves work.
        let stage = if self.stage == Stage::Optimised { Stage::General } else { self.stage };
        let none = Self { indexed: None, short: None, ready: Arc::default(), in_servers_order: None, ..self.clone() };
        Ok(Self { plan, stage, ..none })
    }

    /// Whether it contains a volatile function.
    pub fn is_volatile(&self) -> bool {
        any_expression(&self.plan, |expr| Ok(expr.is_volatile_node())).unwrap_or(true)
    }

    /// Whether it reads a table or a function in FROM. A query that does not, such as `SELECT 1`, is over at once and often asks whether
    /// the server is alive: it does not wait for a turn.
    pub(crate) fn reads_tables(&self) -> bool {
        let mut reads = false;
        let walked = each_node_with_subqueries(&self.plan, |node| {
            reads |=
                matches!(node, LogicalPlan::TableScan(_) | LogicalPlan::RecursiveQuery(_) | LogicalPlan::Unnest(_));
            Ok(TreeNodeRecursion::Continue)
        });
        reads || walked.is_err()
    }

    /// Bytes that the plan holds, as estimated from its nodes, their columns and their expressions.
    ///
    /// # Errors
    /// As DataFusion's traversal.
    pub fn bytes(&self) -> Result<usize> {
        let mut bytes = size_of::<Self>();
        // Of a plan that is ready its physical one may be kept as well, which has as many nodes.
        let copies = if self.stage == Stage::Optimised { 2 } else { 1 } + usize::from(self.in_servers_order.is_some());
        let walked = each_node_with_subqueries(&self.plan, |node| {
            bytes += copies * (NODE_BYTES + node.schema().fields().len() * FIELD_BYTES);
            if self.stage == Stage::Optimised {
                bytes += sharded::bytes_of_texts(node);
            }
            each_expression_of(node, |expr| {
                each_part(expr, |expr| {
                    bytes += EXPRESSION_BYTES;
                    if let Expr::Literal(value, _) = expr {
                        bytes += value.size();
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        walked.map_err(from_datafusion)?;
        let indexed = self.indexed.as_ref().map_or(0, |indexed| indexed.bytes());
        let short = self.short.as_ref().map_or(0, |short| short.bytes());
        Ok(bytes + self.columns.len() * size_of::<Column>() + indexed + short)
    }

    /// The Arrow schema of the output.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.plan.schema().inner())
    }
}

/// Casts the unsigned counts of DataFusion to bigint, because PostgreSQL has no unsigned integers.
fn signed_outputs(plan: LogicalPlan) -> Result<LogicalPlan> {
    if plan.schema().fields().iter().all(|field| *field.data_type() != DataType::UInt64) {
        return Ok(plan);
    }
    let outputs: Vec<Expr> = plan
        .schema()
        .iter()
        .map(|(qualifier, field)| {
            let column = Expr::from((qualifier, field));
            if *field.data_type() == DataType::UInt64 {
                Expr::Cast(Cast::new(Box::new(column), DataType::Int64)).alias(field.name())
            } else {
                column
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(outputs).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

fn optimize(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    state.optimizer().optimize(plan, state, |_, _| {}).map_err(from_optimiser)
}

/// Optimises a plan without the values of its parameters. `None` if its meaning depends on them in ways that the optimiser would not see.
fn generalise(state: &SessionState, plan: &LogicalPlan) -> Option<LogicalPlan> {
    static GENERAL: LazyLock<Optimizer> = LazyLock::new(|| {
        // Makes columns of parameters that stand twice, and some functions want constants.
        let is_general = |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() != "common_sub_expression_eliminate";
        Optimizer::with_rules(inference::optimizer_rules().into_iter().filter(is_general).collect())
    });
    // A subquery whose LIMIT is not known would be joined as if it had none.
    let (mut has_query, mut is_limited) = (false, false);
    let walked = each_node_with_subqueries(plan, |node| {
        if let LogicalPlan::Limit(limit) = node {
            let is_constant = |count: &Option<Box<Expr>>| !matches!(count.as_deref(), Some(expr) if !matches!(expr, Expr::Literal(..)));
            is_limited |= !is_constant(&limit.fetch) || !is_constant(&limit.skip);
        }
        each_expression_of(node, |expr| {
            each_part(expr, |expr| {
                has_query |= matches!(
                    expr,
                    Expr::Exists(_)
                        | Expr::InSubquery(_)
                        | Expr::ScalarSubquery(_)
                        | Expr::OuterReferenceColumn(..)
                        | Expr::SetComparison(_)
                );
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    if walked.is_err() || has_query && is_limited {
        return None;
    }
    GENERAL.optimize(plan.clone(), state, |_, _| {}).ok()
}

/// Optimises a plan, optimised before without the values of its parameters, once these have become constants: only what follows from the
/// constants.
fn simplify(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    static SIMPLIFIER: LazyLock<Optimizer> = LazyLock::new(|| {
        Optimizer::with_rules(vec![
            lists_apart::simplification(),
            Arc::new(EliminateFilter::new()),
            Arc::new(PropagateEmptyRelation::new()),
            Arc::new(EliminateLimit::new()),
            Arc::new(PushDownLimit::new()),
            Arc::new(CommonSubexprEliminate::new()),
        ])
    });
    SIMPLIFIER.optimize(plan, state, |_, _| {}).map_err(from_optimiser)
}

fn as_grid(table: &dyn TableProvider) -> Option<&GridTable> {
    let table: &dyn Any = table;
    table.downcast_ref()
}
