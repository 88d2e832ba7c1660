//! Dates, times and intervals said differently to DataFusion: PostgreSQL's special syntax becomes calls of the functions
//! behind it, and interval constants are read as PostgreSQL reads them. Called by `rewrite`, one expression at a time.

use ashlar_base::{Error, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Interval,
    IntervalFields, TimezoneInfo, Value, WindowFrameBound, WindowType,
};

use super::nodes::{call, cast_as};

/// The arguments of `make_interval`, in order.
const INTERVAL_PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// Rewrites one expression, whose parts come later.
///
/// # Errors
/// 0A000
pub(super) fn rewrite(expr: &mut Expr) -> Result<()> {
    if let Some(string) = counted_cast(expr)? {
        *expr = interval_of(string);
        return Ok(());
    }
    if let Some(moment) = moment(expr) {
        *expr = moment;
        return Ok(());
    }
    match expr {
        Expr::Extract { field, expr: inner, .. } => {
            let unit = field.to_string().to_lowercase();
            let unit = unit.trim_matches(['"', '\'']).to_owned();
            *expr = call("extract", vec![text(unit), take(inner)]);
        }
        Expr::AtTimeZone { timestamp, time_zone } => *expr = call("timezone", vec![take(time_zone), take(timestamp)]),
        Expr::Interval(interval) => *expr = constant(interval)?,
        Expr::Identifier(name) if name.quote_style.is_none() => {
            let lower = name.value.to_ascii_lowercase();
            if matches!(lower.as_str(), "localtimestamp" | "localtime" | "current_timestamp" | "current_date") {
                *expr = call(&lower, Vec::new());
            } else if lower == "current_time" {
                return Err(no_timetz());
            }
        }
        Expr::Function(function) => {
            let name = function.name.to_string().to_ascii_lowercase();
            match name.as_str() {
                "current_time" => return Err(no_timetz()),
                "make_interval" => positional(function)?,
                _ => {}
            }
        }
        Expr::Cast { data_type, .. } => check_type(data_type)?,
        Expr::TypedString(typed) => check_type(&typed.data_type)?,
        _ => {}
    }
    Ok(())
}

/// The words that name a moment, each with the days between today and it; `None` for the moment itself.
const MOMENTS: [(&str, Option<&str>); 4] =
    [("now", None), ("today", Some("0")), ("tomorrow", Some("1")), ("yesterday", Some("-1"))];

/// Whether a quoted constant is such a word.
pub(crate) fn is_moment(written: &str) -> bool {
    days_of(written).is_some()
}

fn days_of(written: &str) -> Option<Option<&'static str>> {
    let word = written.trim();
    MOMENTS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known)).map(|(_, days)| *days)
}

/// `'today'::date` and the like by the functions that tell the time. Something is added to them, or the output would have their name.
fn moment(expr: &Expr) -> Option<Expr> {
    let (written, data_type) = match expr {
        Expr::Cast { expr: inner, data_type, format: None, .. } => match inner.as_ref() {
            Expr::Value(value) => (&value.value, data_type),
            _ => return None,
        },
        Expr::TypedString(typed) => (&typed.value.value, &typed.data_type),
        _ => return None,
    };
    let Value::SingleQuotedString(written) = written else { return None };
    let plus = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::Plus,
        right: Box::new(right),
    };
    let day = |days: &str| {
        let days = cast_as(text(days.to_owned()), DataType::Integer(None));
        plus(call("current_date", Vec::new()), days)
    };
    let nothing = || interval_of("0 days".to_owned());
    let said = match (days_of(written)?, data_type) {
        (Some(days), DataType::Date | DataType::Timestamp(None, _)) => day(days),
        (None, DataType::Date) => day("0"),
        (None, DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)) => {
            plus(call("localtimestamp", Vec::new()), nothing())
        }
        (None, DataType::Timestamp(None, _)) => plus(call("current_timestamp", Vec::new()), nothing()),
        _ => return None,
    };
    Some(cast_as(Expr::Nested(Box::new(said)), data_type.clone()))
}

/// Puts an expression back that DataFusion wants as it was: the offsets of a window's frame.
pub(super) fn restore(expr: &mut Expr) {
    let Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) = expr else { return };
    let Some(frame) = &mut window.window_frame else { return };
    for bound in std::iter::once(&mut frame.start_bound).chain(frame.end_bound.as_mut()) {
        let (WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) = bound else {
            continue;
        };
        if let Expr::Cast { expr: value, data_type: DataType::Interval { .. }, .. } = offset.as_ref() {
            **offset = Expr::Interval(Interval {
                value: value.clone(),
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            });
        }
    }
}

fn no_timetz() -> Error {
    Error::unsupported("type time with time zone is not supported")
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

fn text(text: String) -> Expr {
    Expr::value(Value::SingleQuotedString(text))
}

/// `INTERVAL '1 day'`, and `INTERVAL '1' DAY` where the string is a number.
fn constant(interval: &mut Interval) -> Result<Expr> {
    let unsupported = || Error::unsupported("this form of an interval constant is not supported");
    let Expr::Value(value) = interval.value.as_ref() else { return Err(unsupported()) };
    let Value::SingleQuotedString(written) = &value.value else { return Err(unsupported()) };
    if interval.leading_precision.is_some() || interval.fractional_seconds_precision.is_some() {
        return Err(unsupported());
    }
    let string = match (&interval.leading_field, &interval.last_field) {
        (None, None) => written.clone(),
        (Some(field), None) => {
            let unit = match field {
                DateTimeField::Year => "year",
                DateTimeField::Month => "month",
                DateTimeField::Day => "day",
                DateTimeField::Hour => "hour",
                DateTimeField::Minute => "minute",
                DateTimeField::Second => "second",
                _ => return Err(unsupported()),
            };
            counted(written, unit)?
        }
        _ => return Err(unsupported()),
    };
    Ok(interval_of(string))
}

/// `1 day` of `1`.
fn counted(written: &str, unit: &str) -> Result<String> {
    let digits = written.trim().trim_start_matches(['-', '+']);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::unsupported("this form of an interval constant is not supported"));
    }
    Ok(format!("{} {unit}", written.trim()))
}

/// `INTERVAL '1' DAY` as PostgreSQL's own parser writes it: `'1'::interval day`.
fn counted_cast(expr: &Expr) -> Result<Option<String>> {
    if let Expr::Cast { expr, data_type: DataType::Interval { fields: Some(field), precision: None }, .. } = expr
        && let Expr::Value(value) = expr.as_ref()
        && let Value::SingleQuotedString(written) = &value.value
        && let Some(unit) = unit_of(field)
    {
        return counted(written, unit).map(Some);
    }
    Ok(None)
}

/// The unit of a type that has one field.
fn unit_of(field: &IntervalFields) -> Option<&'static str> {
    match field {
        IntervalFields::Year => Some("year"),
        IntervalFields::Month => Some("month"),
        IntervalFields::Day => Some("day"),
        IntervalFields::Hour => Some("hour"),
        IntervalFields::Minute => Some("minute"),
        IntervalFields::Second => Some("second"),
        _ => None,
    }
}

fn interval_of(string: String) -> Expr {
    cast_as(text(string), DataType::Interval { fields: None, precision: None })
}

/// Digits and fields that a type would be cut to are not cut to.
fn check_type(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Timestamp(Some(0..=5), _) | DataType::Time(Some(0..=5), _) => {
            Err(Error::unsupported("a precision of times is not supported"))
        }
        DataType::Interval { fields, precision } if fields.is_some() || precision.is_some_and(|digits| digits < 6) => {
            Err(Error::unsupported("fields and precision of intervals are not supported"))
        }
        DataType::Time(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => Err(no_timetz()),
        _ => Ok(()),
    }
}

/// `make_interval(days => 10)` as `make_interval(0, 0, 0, 10, 0, 0, 0.0)`.
fn positional(function: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let mut parts: Vec<Option<FunctionArg>> = vec![None; INTERVAL_PARTS.len()];
    for (place, arg) in std::mem::take(&mut list.args).into_iter().enumerate() {
        let (place, arg) = match arg {
            FunctionArg::Unnamed(_) => (place, arg),
            FunctionArg::Named { name, arg, .. } => {
                let known = INTERVAL_PARTS.iter().position(|part| name.value.eq_ignore_ascii_case(part));
                (known.unwrap_or(usize::MAX), FunctionArg::Unnamed(arg))
            }
            // Which our dialect does not have.
            FunctionArg::ExprNamed { .. } => (usize::MAX, arg),
        };
        match parts.get_mut(place) {
            Some(part @ None) => *part = Some(arg),
            _ => {
                return Err(Error::new(
                    ashlar_base::ErrorCode::UndefinedFunction,
                    "function make_interval with these arguments does not exist",
                ));
            }
        }
    }
    let zero = |place: usize| {
        let digits = if place + 1 == INTERVAL_PARTS.len() { "0.0" } else { "0" };
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::value(Value::Number(digits.to_owned(), false))))
    };
    list.args = parts.into_iter().enumerate().map(|(place, part)| part.unwrap_or_else(|| zero(place))).collect();
    Ok(())
}
