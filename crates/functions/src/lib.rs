//! PostgreSQL's functions, operators and conversions on the engine's expressions.
//!
//! The functions themselves, the planner that finds them by name and types, the analyzer rules that give operators,
//! constants and aggregates PostgreSQL's meaning, and what the engine's errors mean to a client. Knows no table and no
//! catalog, and of DataFusion only expressions, logical plans and what makes them of SQL: the parts that compile before
//! the one that runs them. Generic code of theirs that is costly to compile is used through `walk`, `tree` and `sql`.

pub mod arithmetic;
pub mod array_agg;
pub mod array_order;
pub mod array_rows;
pub mod arrays;
pub mod bare_numeric;
pub mod bound;
pub mod bytes;
pub mod casts;
pub mod catalog;
pub mod concatenation;
pub mod decimals;
pub mod digits;
mod empty_subqueries;
pub mod error;
pub mod fields;
pub mod float_extremes;
pub mod float_sum;
pub mod floats;
pub mod framed;
pub mod gathered;
pub mod guards;
pub mod hashes;
pub mod inference;
mod inner_aggregate;
pub mod integer_sum;
pub mod json;
pub mod kin;
pub mod lengths;
pub mod lists_apart;
pub mod matches;
pub mod math;
pub mod named_casts;
pub mod names;
pub mod numbers;
pub mod patterns;
pub mod percentile;
pub mod planner;
pub mod quantified;
pub mod quoting;
pub mod regular;
pub mod rules;
pub mod series;
pub mod session;
pub mod shift;
pub mod single_row;
pub mod sql;
pub mod strings;
pub mod times;
pub mod tree;
pub mod variance;
pub mod walk;
pub mod wide;

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_expr::planner::ExprPlanner;
use datafusion_expr::registry::FunctionRegistry;

/// Registers everything that SQL can name, for sessions in one time zone.
///
/// # Errors
/// As the registry's.
pub fn register(registry: &mut dyn FunctionRegistry, zone: ashlar_base::value::text::Zone) -> Result<()> {
    times::register(registry, zone)?;
    times::aggregates::register(registry)?;
    for function in session::all() {
        registry.register_udf(function)?;
    }
    for function in quantified::all() {
        registry.register_udf(function)?;
    }
    for (known, alias) in [("var", "variance"), ("bool_and", "every")] {
        if let Ok(function) = registry.udaf(known) {
            registry.register_udaf(Arc::new(function.as_ref().clone().with_aliases([alias])))?;
        }
    }
    for function in array_agg::all() {
        registry.register_udaf(function)?;
    }
    registry.register_udf(Arc::new(named_casts::udf()))?;
    registry.register_udf(Arc::new(kin::udf()))?;
    for name in registry.udfs() {
        if is_foreign(&name) {
            registry.deregister_udf(&name)?;
        }
    }
    for function in array_rows::all().into_iter().chain([Arc::new(series::Series::udf(zone))]) {
        registry.register_udf(function)?;
    }
    // Last, so that the catalog's meaning of a name stands.
    for function in catalog::all() {
        registry.register_udf(Arc::new(catalog::pg_function(function)))?;
    }
    Ok(())
}

/// The planners that resolve a statement's operators and calls, for sessions in one time zone: the first that knows one decides.
pub fn expr_planners(zone: ashlar_base::value::text::Zone) -> Vec<Arc<dyn ExprPlanner>> {
    vec![Arc::new(times::operators::TimeOperators::new(zone)), Arc::new(planner::PgPlanner)]
}

/// Functions of the engine that PostgreSQL has not, or has with another meaning.
fn is_foreign(name: &str) -> bool {
    // As functions of one row these two give an array, where PostgreSQL gives rows: only the table functions stay.
    let names = [
        "generate_series",
        "range",
        "log2",
        "ends_with",
        "contains",
        "nvl",
        "nvl2",
        "ifnull",
        "isnan",
        "iszero",
        "nanvl",
        "levenshtein",
        "find_in_set",
        "substr_index",
        "substring_index",
        "instr",
        "uuid",
        "digest",
        "get_field",
        "struct",
        "row",
        "named_struct",
        "make_array",
        "make_list",
        "signum",
        "input_file_name",
        "file_row_index",
        "cast_to_type",
        "try_cast_to_type",
        "with_metadata",
        "flatten",
        "arrays_zip",
        "empty",
        "cosine_distance",
        "inner_product",
        "cardinality",
        "string_to_list",
        "element_at",
        "map",
    ];
    let prefixes = ["array_", "list_", "map_", "json_", "arrow_", "union_"];
    // PostgreSQL has these, and here they have its meaning.
    let kept = name == "array_to_string";
    !kept && (names.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether an aggregate of the engine is none of PostgreSQL's.
pub fn is_foreign_aggregate(name: &str) -> bool {
    FOREIGN_AGGREGATES.contains(&name)
}

const FOREIGN_AGGREGATES: [&str; 16] = [
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "median",
    "mean",
    "first_value",
    "last_value",
    "nth_value",
    "var_population",
    "var_sample",
    "covar",
    "quantile_cont",
    "approx_percentile",
    "array_concat_agg",
    "percentile",
];
