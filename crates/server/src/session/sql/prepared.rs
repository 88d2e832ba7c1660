//! The memory of prepared statements, and EXECUTE: a prepared statement with arguments that are expressions.
//!
//! Called by `run`, by `explain` for the statement that it shows, and when a statement is prepared.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, Value};
use ashlar_protocol::pg::ValueFormat;

use ashlar_base::value::binary;
use ashlar_query::dml::run::bytes_of;
use ashlar_query::statement::Kind;
use ashlar_store::{Reservation, Store};

use super::parameters::Charges;
use super::portal::Portal;
use super::run::select_of;
use super::{Executed, RowSink, SqlSession, no_statement, sharded};

/// PostgreSQL's OID of `numeric`.
const NUMERIC: u32 = 1700;

/// A prepared statement of fewer bytes gets no charge of its own. The small ones of a session share one, if together they exceed this.
const LARGE_BYTES: usize = 64 << 10;

/// The charge for the small prepared statements of a session.
#[derive(Default)]
pub(super) struct SmallPrepared {
    held: Option<Reservation>,
    bytes: usize,
}

impl SmallPrepared {
    /// Charges for `bytes` in all, if that is more than a large one alone.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    fn keep(&mut self, store: &Store, bytes: usize) -> Result<()> {
        // Most of what there was is gone.
        if bytes < self.bytes / 2 {
            *self = Self::default();
        }
        if bytes > LARGE_BYTES.max(self.bytes) {
            self.held.get_or_insert_with(|| store.reservation()).grow(bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl SqlSession {
    /// Charges a prepared statement of this many bytes that is about to be kept. Returns its own charge, if it gets one.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    pub(super) fn pay_for_prepared(&mut self, name: &str, bytes: usize) -> Result<Option<Reservation>> {
        let store = self.shared.engine.store();
        if bytes >= LARGE_BYTES {
            let mut held = store.reservation();
            held.grow(bytes)?;
            return Ok(Some(held));
        }
        // There is only one without a name.
        if !name.is_empty() {
            let small = self.prepared.values().filter(|prepared| prepared.source.held.is_none());
            let small: usize = small.map(|prepared| prepared.bytes).sum();
            self.small_prepared.keep(store, small + bytes)?;
        }
        Ok(None)
    }

    /// EXECUTE: the arguments are expressions, evaluated and assigned to the parameters' types.
    pub(super) async fn run_prepared<S: RowSink>(
        &mut self,
        portal: &mut Portal,
        name: &str,
        arguments: &[String],
        rows_max: usize,
        sink: &mut S,
    ) -> Result<Executed> {
        let mut inner = self.bound(name, arguments, &portal.formats, portal.has_name()).await?;
        if inner.statement.is_none() {
            return Ok(Executed::Empty);
        }
        // It is left when the prepared statement is gone.
        portal.pay_for(inner.statement_bytes())?;
        (inner.number, inner.own) = (portal.number, portal.own.take());
        match Box::pin(self.run(&mut inner, rows_max, sink, false)).await {
            Ok(executed) => {
                *portal = inner;
                Ok(executed)
            }
            Err(error) => {
                portal.own = inner.own.take();
                Err(error)
            }
        }
    }

    /// A portal of a prepared statement with the values of its arguments, planned for the present catalog. `has_name`: it is to stand in the
    /// place of one that has a name.
    ///
    /// # Errors
    /// 26000, 42601 for a wrong number of arguments, and errors of evaluating them.
    pub(super) async fn bound(
        &mut self,
        name: &str,
        arguments: &[String],
        formats: &Arc<[ValueFormat]>,
        has_name: bool,
    ) -> Result<Portal> {
        let prepared = self.prepared(name)?;
        let source = Arc::clone(&prepared.source);
        let Some(planned) = prepared.planned.clone() else { return Ok(Portal::empty()) };
        let known = self.parameter_types(&planned)?;
        if arguments.len() != known.len() {
            return Err(Error::new(
                ErrorCode::SyntaxError,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .with_detail(format!("Expected {} parameters but got {}.", known.len(), arguments.len())));
        }
        let mut arguments = arguments.to_vec();
        // What is written out, and of a type that is not computed with here, is a shard's to read.
        let mut written: Vec<Option<String>> = vec![None; known.len()];
        let mut types = Vec::with_capacity(known.len());
        for ((known, argument), written) in known.iter().zip(&mut arguments).zip(&mut written) {
            types.push(match known {
                Ok(sql_type) => *sql_type,
                Err(oid) => {
                    *written = constant(argument, *oid == NUMERIC)?;
                    *argument = "NULL".to_owned();
                    ScalarType::Text.into()
                }
            });
        }
        let values = self.evaluate(&arguments, &types).await?;
        let mut inner = if matches!(planned.kind, Kind::Sharded(_)) {
            let encoded = values.iter().zip(&types).zip(&written).map(|((value, sql_type), written)| {
                if let Some(written) = written {
                    return (ValueFormat::Text, Some(written.as_bytes().to_vec()));
                }
                let mut bytes = Vec::new();
                binary::encode(*sql_type, &value.as_datum(), &mut bytes);
                (ValueFormat::Binary, (!value.is_null()).then_some(bytes))
            });
            let encoded: Vec<(ValueFormat, Option<Vec<u8>>)> = encoded.collect();
            let parameters = encoded.iter().map(|(format, bytes)| (*format, bytes.as_deref()));
            let prepared = self.prepared.get_mut(name).ok_or_else(|| no_statement(name))?;
            let (charges, mut bound) = (Charges::of_portal(self.shared.engine.store(), has_name), Portal::empty());
            sharded::bind(&mut bound, &mut self.spare, charges, (name, prepared), parameters, formats)?;
            bound
        } else {
            let mut charges = Charges::of_portal(self.shared.engine.store(), has_name);
            charges.add(bytes_of(&values))?;
            let mut bound = Portal::new(planned, values, Arc::clone(formats));
            bound.held = charges.finish()?;
            bound
        };
        inner.source = Some(source);
        self.refresh(&mut inner).await?;
        Ok(inner)
    }

    /// The types of a statement's parameters. An error is the OID of a type that a shard knows and this server does not.
    fn parameter_types(&self, planned: &ashlar_query::Statement) -> Result<Vec<Result<SqlType, u32>>> {
        let Kind::Sharded(plan) = &planned.kind else {
            return Ok(planned.parameter_types.iter().map(|sql_type| Ok(*sql_type)).collect());
        };
        let (types, _) = plan.described().ok_or_else(|| Error::internal("a shard has not been asked"))?;
        // Not numeric: how many decimals a value has is its own affair there, and its type's here.
        let known = |oid: &u32| SqlType::from_oid(*oid).filter(|_| *oid != NUMERIC).ok_or(*oid);
        Ok(types.iter().map(known).collect())
    }

    /// Evaluates SQL expressions and assigns them to these types.
    async fn evaluate(&mut self, expressions: &[String], types: &[SqlType]) -> Result<Vec<Value>> {
        if expressions.is_empty() {
            return Ok(Vec::new());
        }
        let casts = expressions
            .iter()
            .zip(types)
            .map(|(expression, sql_type)| format!("CAST(({expression}) AS {})", unlimited(*sql_type)));
        let sql = format!("SELECT {}", casts.collect::<Vec<String>>().join(", "));
        let mut parsed = ashlar_query::grammar::parse(&sql)?;
        let parsed = parsed.pop().ok_or_else(|| Error::internal("a SELECT is a statement"))?;
        let engine = self.engine()?;
        let catalog = self.catalog().seen_by(self.identity());
        let mut transaction = self.fresh_transaction();
        let time = self.transaction.as_ref().map_or(transaction.time, |current| current.time);
        let snapshot = transaction.snapshot(engine.store());
        let view = transaction.view(snapshot, &catalog);
        let mut resources = self.resources(&engine, time);
        let _interest = resources.watch();
        let (pool, types, cancel) = (Arc::clone(&engine), types.to_vec(), self.cancel.clone());
        let work = async move {
            let planned = ashlar_query::Statement::plan(&pool, &catalog, &parsed, &[])?;
            let select = select_of(&planned).ok_or_else(|| Error::internal("a SELECT has a query"))?;
            let batches = select.collect(&pool, &[], view, &resources).await?;
            let batch = batches.first().ok_or_else(|| Error::internal("a row of arguments"))?;
            batch
                .columns()
                .iter()
                .zip(types)
                .map(|(array, sql_type)| {
                    let computed = unlimited(sql_type);
                    let value = ashlar_store::ColumnReader::new(array, computed)?.datum(0).to_value();
                    ashlar_base::value::coerce(value, computed, sql_type)
                })
                .collect::<Result<Vec<Value>>>()
        };
        engine
            .on_pool(async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => Err(cancel.error()),
                    values = work => values,
                }
            })
            .await?
    }
}

/// The text of a constant argument, as a shard reads it for a parameter; `None` for NULL. Numbers are accepted only for a parameter that
/// is a number.
///
/// # Errors
/// 0A000 for anything else.
fn constant(argument: &str, is_number: bool) -> Result<Option<String>> {
    let refused = || {
        Error::unsupported("EXECUTE with a parameter of this type is not supported")
            .with_hint("Write a constant, or bind a value in the extended protocol.")
    };
    let argument = argument.trim();
    if argument.eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    if let Some(quoted) = argument.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        // A quote within is doubled.
        let is_one = !quoted.replace("''", "").contains('\'');
        return if is_one { Ok(Some(quoted.replace("''", "'"))) } else { Err(refused()) };
    }
    let (sign, digits) = match argument.strip_prefix('-') {
        Some(rest) => ("-", rest.trim_start()),
        None => ("", argument),
    };
    let is_plain = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
        && digits.parse::<f64>().is_ok();
    if is_number && is_plain { Ok(Some(format!("{sign}{digits}"))) } else { Err(refused()) }
}

/// The type without its length: a cast would cut what an assignment must refuse.
fn unlimited(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::Scalar(ScalarType::Varchar { .. }) => ScalarType::Varchar { length: None }.into(),
        SqlType::Array(ScalarType::Varchar { .. }) => SqlType::Array(ScalarType::Varchar { length: None }),
        SqlType::Scalar(ScalarType::Char { .. }) => ScalarType::Text.into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::constant;

    #[test]
    fn constants_are_read_as_they_are_written() {
        let read =
            |argument: &str, is_number| constant(argument, is_number).map_err(|error| error.sqlstate().to_owned());
        for (argument, expected) in
            [("1.50", "1.50"), ("-2", "-2"), ("- .5", "-.5"), ("1e-3", "1e-3"), ("'7.0'", "7.0")]
        {
            assert_eq!(read(argument, true).unwrap().as_deref(), Some(expected), "{argument}");
        }
        assert_eq!(read("NULL", true), Ok(None));
        assert_eq!(read("'(1,2)'", false), Ok(Some("(1,2)".to_owned())));
        assert_eq!(read("'it''s'", false), Ok(Some("it's".to_owned())));
        for argument in ["1 + 1", "'a' || 'b'", "1.5::text", "-", "e5", "1-2", "x", "- -1"] {
            assert_eq!(read(argument, true), Err("0A000".to_owned()), "{argument}");
        }
        assert_eq!(read("5", false), Err("0A000".to_owned()));
    }
}
