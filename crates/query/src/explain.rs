//! EXPLAIN: the plan as lines of text, with measured figures after ANALYZE.

use std::sync::Arc;

use ashlar_base::{Error, Result, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::names::NAME_END;
use ashlar_store::ReadView;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use pg_query::NodeEnum;
use pg_query::protobuf::ExplainStmt;

use crate::engine::Engine;
use crate::measured::measured;
use crate::resources::StatementResources;
use crate::select::SelectPlan;

/// Options that shards know and whose lines here do not depend on them.
const OF_SHARDS: [&str; 6] = ["verbose", "costs", "timing", "summary", "buffers", "settings"];

/// What EXPLAIN was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// Run it and show what was measured.
    pub analyze: bool,
    /// Show what each operator holds.
    pub memory: bool,
    /// What was said of each option that shards alone look at.
    pub of_shards: [Option<bool>; OF_SHARDS.len()],
}

impl ExplainOptions {
    /// The options with which a shard explains a statement by running it.
    pub fn at_shard(&self) -> String {
        let mut text = "ANALYZE".to_owned();
        for (name, is_on) in OF_SHARDS.iter().zip(self.of_shards) {
            if let Some(is_on) = is_on {
                text.push_str(", ");
                text.push_str(name);
                text.push_str(if is_on { " ON" } else { " OFF" });
            }
        }
        text
    }
}

/// The options of an EXPLAIN.
///
/// # Errors
/// 0A000 for what is not offered.
pub fn options(statement: &ExplainStmt) -> Result<ExplainOptions> {
    let mut options = ExplainOptions::default();
    for option in &statement.options {
        let Some(NodeEnum::DefElem(element)) = &option.node else { continue };
        let value = crate::ddl::option_text(element);
        let is_on = !matches!(value.as_deref(), Some("false" | "off" | "0"));
        match element.defname.as_str() {
            "analyze" => options.analyze = is_on,
            "memory" => options.memory = is_on,
            // Which shards are asked is shown anyway.
            "route" => {}
            "format" if value.as_deref().is_none_or(|format| format.eq_ignore_ascii_case("text")) => {}
            other => match OF_SHARDS.iter().position(|name| *name == other) {
                Some(place) => options.of_shards[place] = Some(is_on),
                None => return Err(Error::unsupported(format!("EXPLAIN option \"{other}\" is not supported"))),
            },
        }
    }
    Ok(options)
}

/// The lines of a query's physical plan; after ANALYZE it was run to its end.
///
/// # Errors
/// What planning and running find.
pub async fn query(
    engine: &Engine,
    select: &SelectPlan,
    parameters: &[Value],
    view: Arc<ReadView>,
    resources: &StatementResources,
    options: ExplainOptions,
) -> Result<Vec<String>> {
    if options.analyze && select.reads_tables() {
        resources.admit().await?;
    }
    let mut plan = select.physical(engine, parameters, resources, &view).await?;
    if options.memory {
        plan = measured(plan, options.analyze).map_err(from_datafusion)?;
    }
    if !options.analyze {
        let short = || select.short.as_ref().and_then(|short| short.describe(parameters));
        let indexed = select.indexed.as_ref().map(|indexed| indexed.describe()).or_else(short).into_iter();
        let engine = lines(&DisplayableExecutionPlan::new(plan.as_ref()).indent(false).to_string());
        return Ok(indexed.chain(engine).collect());
    }
    let context = engine.task_context(view, resources);
    let started = ashlar_base::clock::monotonic();
    let mut stream = execute_stream(Arc::clone(&plan), context).map_err(from_datafusion)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch.map_err(from_datafusion)?.num_rows();
    }
    let elapsed = started.elapsed();
    let mut result = lines(&DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(false).to_string());
    result.push(format!("Rows: {rows}"));
    // What operators keep, sort and build; not the batches on their way.
    result.push(format!("Peak Memory: {} kB", resources.most().div_ceil(1024)));
    result.push(format!("Execution Time: {:.3} ms", elapsed.as_secs_f64() * 1000.0));
    Ok(result)
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(without_marks).collect()
}

/// Takes the marks out that keep column names apart inside a plan.
fn without_marks(line: &str) -> String {
    let mut parts = line.split(NAME_END);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    result
}
