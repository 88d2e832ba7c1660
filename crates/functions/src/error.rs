//! What DataFusion and Arrow say went wrong -> a code and PostgreSQL's wording.
//!
//! DataFusion's errors carry text where PostgreSQL has a SQLSTATE. Where a rule of ours raised the error it travels
//! as `External` and arrives whole; the rest is recognised by its variant first and its text last.

use arrow::error::ArrowError;
use ashlar_base::{Error, ErrorCode};
use datafusion_common::{Column, DataFusionError, SchemaError};

use crate::names::{AROUND, NAME_END, shown_name};

/// Wraps one of our errors for its way through DataFusion.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error that a client sees.
pub fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => from_external(inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::Collection(mut errors) if !errors.is_empty() => from_datafusion(errors.remove(0)),
        DataFusionError::Shared(shared) => from_shared(&shared),
        DataFusionError::ArrowError(inner, _) => from_arrow(*inner),
        DataFusionError::SchemaError(inner, _) => from_schema(&inner),
        DataFusionError::SQL(inner, _) => {
            Error::unsupported(format!("this form of the statement is not supported: {inner}"))
        }
        DataFusionError::NotImplemented(message) => Error::unsupported(first_line(&message)),
        DataFusionError::Plan(message) => from_plan_message(&message),
        DataFusionError::ResourcesExhausted(message) => exhausted(&message),
        DataFusionError::Execution(message) => from_execution_message(&message),
        DataFusionError::IoError(inner) => from_io(&inner),
        DataFusionError::ObjectStore(inner) => Error::new(ErrorCode::UndefinedFile, inner.to_string()),
        DataFusionError::ParquetError(inner) => Error::new(ErrorCode::DataException, inner.to_string()),
        other => {
            let text = other.strip_backtrace();
            if text.contains("regex parse error") {
                regular_expression(&text)
            } else {
                match first_line(&text) {
                    line if line == UNSAYABLE => Error::unsupported(line),
                    line => Error::internal(line),
                }
            }
        }
    }
}

/// An error that the engine has only passed on.
fn from_external(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(other) => other,
    };
    let error = match error.downcast::<DataFusionError>() {
        Ok(nested) => return from_datafusion(*nested),
        Err(other) => other,
    };
    let text = match error.downcast::<ArrowError>() {
        Ok(arrow) => return from_arrow(*arrow),
        Err(other) => other.to_string(),
    };
    if text.contains("regex parse error") { regular_expression(&text) } else { Error::internal(text) }
}

/// The setting that limits the memory of a query; what its pool says of it names it.
pub const QUERY_MEMORY_MAX: &str = "query_memory_max";

/// 53200, with the setting that would let the query have more.
fn exhausted(message: &str) -> Error {
    let hint = if message.contains(QUERY_MEMORY_MAX) {
        "Raise query_memory_max, or make the query smaller."
    } else {
        "Raise query.memory_mib_max, or make the query smaller."
    };
    Error::new(ErrorCode::OutOfMemory, first_line(message)).with_hint(hint)
}

/// 53100
pub fn disk_full(message: &str) -> Error {
    Error::new(ErrorCode::DiskFull, message)
}

/// What the system says of a file: 53100 where the disk or a quota is full, else 58030. One of ours that has gone through a
/// writer comes back as it was.
pub fn from_io(error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    if let Some(inner) = error.get_ref() {
        if let Some(ours) = inner.downcast_ref::<Error>() {
            return ours.clone();
        }
        if let Some(nested) = inner.downcast_ref::<DataFusionError>() {
            return from_shared(nested);
        }
    }
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            disk_full(&format!("could not write to a file: {error}"))
        }
        _ => Error::new(ErrorCode::IoError, error.to_string()),
    }
}

/// A shared error cannot be taken apart: our own is cloned, the others are read again from their text.
fn from_shared(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => ours.clone(),
            None => Error::internal(inner.to_string()),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_shared(inner),
        DataFusionError::Shared(inner) => from_shared(inner),
        DataFusionError::ArrowError(inner, _) => from_arrow_text(&inner.to_string(), inner),
        DataFusionError::IoError(inner) => from_io(inner),
        DataFusionError::Execution(message) => from_execution_message(message),
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        other => Error::internal(first_line(&other.strip_backtrace())),
    }
}

fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(nested) => from_datafusion(*nested),
                Err(other) => Error::internal(other.to_string()),
            },
        },
        other => from_arrow_text(&other.to_string(), &other),
    }
}

fn from_arrow_text(text: &str, error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::new(ErrorCode::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => overflow(message),
        ArrowError::CastError(message) | ArrowError::ComputeError(message) | ArrowError::ParseError(message) => {
            from_execution_message(message)
        }
        ArrowError::InvalidArgumentError(message) if message.contains("overflow") || message.contains("too large") => {
            overflow(message)
        }
        ArrowError::InvalidArgumentError(message) => Error::new(ErrorCode::InvalidParameterValue, first_line(message)),
        ArrowError::MemoryError(message) => Error::new(ErrorCode::OutOfMemory, first_line(message)),
        ArrowError::IoError(_, inner) => from_io(inner),
        ArrowError::NotYetImplemented(message) => Error::unsupported(first_line(message)),
        _ if text.contains("regex parse error") => regular_expression(text),
        _ => Error::internal(first_line(text)),
    }
}

fn overflow(message: &str) -> Error {
    // Arrow prints the operands, not the type; PostgreSQL names the type.
    let digits = message.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if message.contains("ecimal") {
        return Error::new(ErrorCode::NumericOutOfRange, "numeric result out of range")
            .with_detail("A numeric has at most 38 digits here, those after the point included.");
    }
    let name = if digits > 10 { "bigint" } else { "integer" };
    Error::new(ErrorCode::NumericOutOfRange, format!("{name} out of range"))
}

/// What became of a plan whose names had all been found: a subquery came to stand where it cannot see what it reads.
pub fn from_optimiser(error: DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::SchemaError(..) => {
            Error::unsupported("a subquery is not supported where it reads this from the queries around it")
                .with_hint("Move it into the select list of a subquery in FROM, or write it as a join.")
        }
        // The parts that its planner made did not fit each other: nothing has run.
        DataFusionError::Internal(message) => {
            tracing::warn!(message, "a plan was refused");
            Error::unsupported(UNSAYABLE)
        }
        _ => from_datafusion(error),
    }
}

fn from_schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } if is_shown_twice(field, valid_fields) => {
            ambiguous(&field.name)
        }
        SchemaError::FieldNotFound { field, valid_fields } => match &field.relation {
            Some(relation) => {
                let is_around = [relation.schema(), relation.catalog()].contains(&Some(AROUND));
                let known = is_around || valid_fields.iter().any(|valid| valid.relation.as_ref() == Some(relation));
                if known || valid_fields.is_empty() {
                    undefined_column(&format!("{}.{}", relation.table(), field.name), false)
                } else {
                    Error::new(
                        ErrorCode::UndefinedTable,
                        format!("missing FROM-clause entry for table \"{}\"", relation.table()),
                    )
                }
            }
            None if is_table(field, valid_fields) => Error::unsupported("a row as a value is not supported")
                .with_hint(format!("\"{}\" is a table here, and no column: say its columns.", field.name)),
            None => undefined_column(&field.name, true),
        },
        SchemaError::AmbiguousReference { field } => ambiguous(&field.name),
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(ErrorCode::DuplicateColumn, format!("column \"{name}\" specified more than once"))
        }
    }
}

/// Whether a name that no column has is that of a table beside: to PostgreSQL its row.
fn is_table(field: &Column, valid_fields: &[Column]) -> bool {
    valid_fields.iter().any(|valid| valid.relation.as_ref().is_some_and(|table| table.table() == field.name))
}

/// Whether several columns are shown by a name that none of them has: those of a query in FROM that are called alike.
fn is_shown_twice(field: &Column, valid_fields: &[Column]) -> bool {
    let is_shown = |valid: &&Column| {
        shown_name(&valid.name) == field.name && (field.relation.is_none() || valid.relation == field.relation)
    };
    valid_fields.iter().filter(is_shown).count() > 1
}

/// 42702
fn ambiguous(name: &str) -> Error {
    Error::new(ErrorCode::AmbiguousColumn, format!("column reference \"{}\" is ambiguous", shown_name(name)))
}

/// 42703, worded for a bare or a qualified name.
pub fn undefined_column(name: &str, quoted: bool) -> Error {
    let shown = if quoted { format!("\"{name}\"") } else { name.to_owned() };
    Error::new(ErrorCode::UndefinedColumn, format!("column {shown} does not exist"))
}

/// 42P01.
pub fn undefined_table(name: &str) -> Error {
    Error::new(ErrorCode::UndefinedTable, format!("relation \"{name}\" does not exist"))
}

/// Said in the place of words that are a print of a plan.
const UNSAYABLE: &str = "this form of the statement is not supported";

/// The engine's own words, as far as they are words: what it prints of its plans is for its makers.
fn first_line(message: &str) -> String {
    const DUMPED: [&str; 6] = ["Some(", "Field {", "Placeholder", "Subquery", "OuterReferenceColumn", "ScalarFunction"];
    let line = message.lines().next().unwrap_or(message).trim_end_matches('.');
    if DUMPED.iter().any(|mark| line.contains(mark)) {
        return UNSAYABLE.to_owned();
    }
    let mut parts = line.split(NAME_END);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    shown
}

/// Between two marks.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let rest = text.split_once(open)?.1;
    Some(rest.split_once(close)?.0)
}

/// What DataFusion says of queries that PostgreSQL refuses in other words.
fn from_query_message(message: &str) -> Option<Error> {
    let grouping = |message: &str| Some(Error::new(ErrorCode::GroupingError, message));
    if let Some((_, found)) = message.split_once("non-boolean predicate") {
        let found = found.rsplit_once("returning ").map_or("unknown", |(_, arrow)| arrow_type_name(arrow));
        return Some(crate::rules::conditions::not_boolean("WHERE", found));
    }
    if message.contains("Aggregate functions are not allowed in the WHERE clause") {
        return grouping("aggregate functions are not allowed in WHERE");
    }
    if message.contains("Aggregate function calls cannot be nested") {
        return grouping("aggregate function calls cannot be nested");
    }
    if message.contains("Aggregate function calls cannot contain window function calls") {
        return grouping("aggregate function calls cannot contain window function calls");
    }
    let windowing = |message: &str| Some(Error::new(ErrorCode::WindowingError, message));
    if message.contains("Window function calls cannot be nested") {
        return windowing("window function calls cannot be nested");
    }
    if message.contains("RANGE requires exactly one ORDER BY column") {
        return windowing("RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column");
    }
    if message.contains("GROUPS requires an ORDER BY clause") {
        return windowing("GROUPS mode requires an ORDER BY clause");
    }
    if message.contains("OVER and WITHIN GROUP clause cannot be used together") {
        return Some(Error::unsupported("OVER is not supported for ordered-set aggregates"));
    }
    let reference = |message: String| Some(Error::new(ErrorCode::InvalidColumnReference, message));
    if let Some(position) = between(message, "Order by column out of bounds, specified: ", ",") {
        return reference(format!("ORDER BY position {position} is not in select list"));
    }
    if message.contains("Order by index starts at 1") {
        return reference("ORDER BY position 0 is not in select list".to_owned());
    }
    if let Some(position) = between(message, "Cannot find column with position ", " in SELECT clause") {
        return reference(format!("GROUP BY position {position} is not in select list"));
    }
    if message.contains("For SELECT DISTINCT, ORDER BY expressions") {
        return reference("for SELECT DISTINCT, ORDER BY expressions must appear in select list".to_owned());
    }
    if message.contains("DISTINCT ON expressions must match initial ORDER BY") {
        return reference("SELECT DISTINCT ON expressions must match initial ORDER BY expressions".to_owned());
    }
    if message.contains("LIMIT must be >=") {
        return Some(Error::new(ErrorCode::InvalidLimit, "LIMIT must not be negative"));
    }
    if message.contains("OFFSET must be >=") {
        return Some(Error::new(ErrorCode::InvalidOffset, "OFFSET must not be negative"));
    }
    if message.contains("Inconsistent data length across values list") {
        return Some(Error::new(ErrorCode::SyntaxError, "VALUES lists must all be the same length"));
    }
    if message.contains("names given as column alias") {
        return Some(Error::unsupported(
            "names of some of the columns of what reads a query around it are not supported",
        ));
    }
    if message.contains("frame offsets for ROWS") {
        return Some(Error::new(ErrorCode::InvalidFrameOffset, "frame starting offset must not be negative"));
    }
    None
}

fn from_plan_message(message: &str) -> Error {
    if let Some(error) = from_query_message(message) {
        return error;
    }
    let lower = message.to_lowercase();
    if let Some(name) = between(message, "Invalid function '", "'") {
        return undefined_function(name);
    }
    if lower.contains("table function") && lower.contains("not found") {
        return undefined_function(between(message, "table function '", "'").unwrap_or_default());
    }
    if lower.contains("non-aggregate")
        || lower.contains("must appear in the group by")
        || lower.contains("group by clause")
    {
        let column = between(message, "Column \"", "\"")
            .or_else(|| between(message, "While expanding wildcard, column \"", "\""));
        return Error::new(
            ErrorCode::GroupingError,
            match column {
                Some(column) => format!(
                    "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
                ),
                None => "column must appear in the GROUP BY clause or be used in an aggregate function".to_owned(),
            },
        );
    }
    if lower.contains("duplicate unqualified field name") || lower.contains("expressions must be unique") {
        return Error::new(ErrorCode::DuplicateColumn, first_line(message));
    }
    if lower.contains("no function matches")
        || lower.contains("failed to coerce arguments")
        || lower.contains("does not support")
        || lower.contains("coercion from")
        || lower.contains("for function")
    {
        let name = between(message, "function: '", "'")
            .or_else(|| between(message, "Function '", "'"))
            .or_else(|| between(message, "call to '", "'"));
        if lower.contains("'") && (lower.contains("function") || lower.contains("call to")) {
            return match name {
                Some(name) => undefined_function(name.split('(').next().unwrap_or(name)),
                None => Error::new(ErrorCode::UndefinedFunction, first_line(message)),
            };
        }
    }
    if lower.contains("cannot infer common argument type")
        || lower.contains("cannot coerce arithmetic expression")
        || lower.contains("there isn't result type")
        || lower.contains("invalid comparison operation")
        || lower.contains("cannot get result type")
    {
        return Error::new(ErrorCode::UndefinedFunction, operator_message(message));
    }
    if lower.contains("incompatible") && lower.contains("union")
        || lower.contains("set operation")
        || lower.contains("union queries have different number of columns")
    {
        return Error::new(ErrorCode::SyntaxError, "each UNION query must have the same number of columns");
    }
    if lower.contains("unsupported") || lower.contains("not supported") || lower.contains("not implemented") {
        return Error::unsupported(first_line(message));
    }
    if lower.contains("subquery should only return one column") || lower.contains("too many columns") {
        return Error::new(ErrorCode::SyntaxError, "subquery must return only one column");
    }
    if lower.contains("correlated scalar subquery") {
        return Error::unsupported("a subquery is not supported where it reads this from the queries around it");
    }
    if lower.contains("cast") {
        return Error::new(ErrorCode::CannotCoerce, first_line(message));
    }
    Error::new(ErrorCode::DatatypeMismatch, first_line(message))
}

fn operator_message(message: &str) -> String {
    // "Cannot infer common argument type for comparison operation Int32 = Boolean"
    match message.rsplit_once("operation ") {
        Some((_, types)) => format!("operator does not exist: {}", types.trim()),
        None => first_line(message),
    }
}

fn undefined_function(name: &str) -> Error {
    Error::new(ErrorCode::UndefinedFunction, format!("function {name} does not exist"))
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

fn from_execution_message(message: &str) -> Error {
    let lower = message.to_lowercase();
    if lower.contains("negative count not allowed") || lower.contains("negative substring length") {
        return Error::new(ErrorCode::SubstringError, "negative substring length not allowed");
    }
    if lower.contains("in an aggregate with distinct, order by expressions must appear") {
        let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        return Error::new(ErrorCode::InvalidColumnReference, message);
    }
    if lower.contains("literal for the second argument of nth_value") {
        return Error::unsupported("nth_value of a place that is not a constant is not supported");
    }
    if lower.contains("ntile requires a positive integer") {
        return Error::new(ErrorCode::InvalidNtileArgument, "argument of ntile must be greater than zero");
    }
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        return Error::new(ErrorCode::DivisionByZero, "division by zero");
    }
    if lower.contains("overflow") {
        return overflow(message);
    }
    if let Some(value) = between(message, "Cannot cast string '", "'") {
        return Error::new(
            ErrorCode::InvalidTextRepresentation,
            format!("invalid input syntax for type {}: \"{value}\"", arrow_type_name(message)),
        );
    }
    if lower.contains("can't cast value") || lower.contains("too large to store") || lower.contains("out of range") {
        return Error::new(ErrorCode::NumericOutOfRange, format!("{} out of range", arrow_type_name(message)));
    }
    if lower.contains("error parsing timestamp") || lower.contains("parsing date") {
        return Error::new(ErrorCode::InvalidDatetimeFormat, first_line(message));
    }
    if lower.contains("more than one row") || lower.contains("subquery returned more than one row") {
        return Error::new(
            ErrorCode::CardinalityViolation,
            "more than one row returned by a subquery used as an expression",
        );
    }
    if lower.contains("regular expression") || lower.contains("regex") {
        return regular_expression(message);
    }
    Error::new(ErrorCode::DataException, first_line(message))
}

/// 2201B; what is wrong stands on the last line of the engine's message.
fn regular_expression(message: &str) -> Error {
    let reason =
        message.lines().rev().find_map(|line| line.trim().strip_prefix("error: ")).unwrap_or("it does not parse");
    Error::new(ErrorCode::InvalidRegularExpression, format!("invalid regular expression: {reason}"))
}

/// PostgreSQL's name of the Arrow type that a message mentions.
fn arrow_type_name(message: &str) -> &'static str {
    const NAMES: [(&str, &str); 12] = [
        ("Utf8", "text"),
        ("Binary", "bytea"),
        ("Int8", "smallint"),
        ("Int16", "smallint"),
        ("Int32", "integer"),
        ("Int64", "bigint"),
        ("Float32", "real"),
        ("Float64", "double precision"),
        ("Decimal", "numeric"),
        ("Boolean", "boolean"),
        ("Date32", "date"),
        ("Timestamp", "timestamp"),
    ];
    NAMES.iter().find(|(arrow, _)| message.contains(arrow)).map_or("integer", |(_, name)| name)
}
