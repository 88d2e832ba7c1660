//! The overloads of every function and operator of times, as PostgreSQL's catalog has them.

use ashlar_base::value::datetime::arithmetic as dates;
use ashlar_base::value::datetime::format;
use ashlar_base::value::datetime::from_format::timestamp_from;
use ashlar_base::value::datetime::parts::{self, Source};
use ashlar_base::value::interval::arithmetic as intervals;
use ashlar_base::value::numeric;
use ashlar_base::value::text::Zone;
use ashlar_base::{Error, Interval, Result, ScalarType, SqlType, Value};

use super::Kind::{Bool, Date, Float, Int, Interval as Span, Numeric, Text, Time, Timestamp, Timestamptz};
use super::{Context, Output, Overload, Reads, TimeFunction};

/// An overload: arguments, result, and how it is computed.
macro_rules! overload {
    ([$($arg:ident),*] => $output:ident, $run:expr) => {
        Overload { args: &[$($arg),*], output: Output::Of($output), run: $run }
    };
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int2(value) => i64::from(*value),
        Value::Int4(value) => i64::from(*value),
        Value::Int8(value) => *value,
        _ => 0,
    }
}

fn int4(value: &Value) -> i32 {
    match value {
        Value::Int4(value) => *value,
        _ => 0,
    }
}

fn float(value: &Value) -> f64 {
    match value {
        Value::Float8(value) => *value,
        _ => 0.0,
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::Text(value) => value,
        _ => "",
    }
}

fn date(value: &Value) -> i32 {
    match value {
        Value::Date(value) => *value,
        _ => 0,
    }
}

/// Of a time, a timestamp or an instant.
fn micros(value: &Value) -> i64 {
    match value {
        Value::Time(value) | Value::Timestamp(value) => *value,
        _ => 0,
    }
}

fn span(value: &Value) -> Interval {
    match value {
        Value::Interval(value) => *value,
        _ => Interval::default(),
    }
}

fn negated(value: &Value) -> Result<Interval> {
    intervals::negate(span(value))
}

fn int4_of(value: i64) -> Result<Value> {
    i32::try_from(value)
        .map(Value::Int4)
        .map_err(|_| Error::new(ashlar_base::ErrorCode::NumericOutOfRange, "integer out of range"))
}

const fn part(arg: &'static [super::Kind; 2], of_date: bool, run: fn(&[Value], &Context) -> Result<Value>) -> Overload {
    Overload { args: arg, output: Output::Part { of_date }, run }
}

fn numeric_part(name: &Value, source: Source) -> Result<Value> {
    parts::extract(text(name), source).map(|unscaled| Value::Numeric(unscaled.into()))
}

fn float_part(name: &Value, source: Source) -> Result<Value> {
    parts::date_part(text(name), source).map(Value::Float8)
}

const EXTRACT: &[Overload] = &[
    part(&[Text, Date], true, |a, _| numeric_part(&a[0], Source::Date(date(&a[1])))),
    part(&[Text, Time], false, |a, _| numeric_part(&a[0], Source::Time(micros(&a[1])))),
    part(&[Text, Timestamp], false, |a, _| numeric_part(&a[0], Source::Timestamp(micros(&a[1])))),
    part(&[Text, Timestamptz], false, |a, c| numeric_part(&a[0], Source::Timestamptz(micros(&a[1]), c.zone))),
    part(&[Text, Span], false, |a, _| numeric_part(&a[0], Source::Interval(span(&a[1])))),
];

const DATE_PART: &[Overload] = &[
    overload!([Text, Date] => Float, |a, _| float_part(&a[0], Source::Date(date(&a[1])))),
    overload!([Text, Time] => Float, |a, _| float_part(&a[0], Source::Time(micros(&a[1])))),
    overload!([Text, Timestamp] => Float, |a, _| float_part(&a[0], Source::Timestamp(micros(&a[1])))),
    overload!([Text, Timestamptz] => Float, |a, c| float_part(&a[0], Source::Timestamptz(micros(&a[1]), c.zone))),
    overload!([Text, Span] => Float, |a, _| float_part(&a[0], Source::Interval(span(&a[1])))),
];

const DATE: &[Overload] = &[
    overload!([Date] => Date, |a, _| Ok(Value::Date(date(&a[0])))),
    overload!([Timestamp] => Date, |a, _| day_of(micros(&a[0]))),
    overload!([Timestamptz] => Date, |a, c| day_of(dates::to_local(micros(&a[0]), c.zone))),
];

fn day_of(local: i64) -> Result<Value> {
    const DAY_MICROS: i64 = 86_400_000_000;
    i32::try_from(local.div_euclid(DAY_MICROS))
        .map(Value::Date)
        .map_err(|_| Error::new(ashlar_base::ErrorCode::DatetimeOverflow, "date out of range"))
}

const DATE_TRUNC: &[Overload] = &[
    overload!([Text, Timestamp] => Timestamp, |a, _| parts::truncate(text(&a[0]), micros(&a[1])).map(Value::Timestamp)),
    overload!([Text, Timestamptz] => Timestamptz, |a, c| {
        parts::truncate_in(text(&a[0]), micros(&a[1]), c.zone).map(Value::Timestamp)
    }),
    overload!([Text, Timestamptz, Text] => Timestamptz, |a, _| {
        parts::truncate_in(text(&a[0]), micros(&a[1]), Zone::named(text(&a[2]))?).map(Value::Timestamp)
    }),
    overload!([Text, Span] => Span, |a, _| parts::truncate_interval(text(&a[0]), span(&a[1])).map(Value::Interval)),
];

const DATE_BIN: &[Overload] = &[
    overload!([Span, Timestamp, Timestamp] => Timestamp, |a, _| {
        dates::bin(span(&a[0]), micros(&a[1]), micros(&a[2])).map(Value::Timestamp)
    }),
    overload!([Span, Timestamptz, Timestamptz] => Timestamptz, |a, _| {
        dates::bin(span(&a[0]), micros(&a[1]), micros(&a[2])).map(Value::Timestamp)
    }),
];

const AGE: &[Overload] = &[
    overload!([Timestamp, Timestamp] => Span, |a, _| Ok(Value::Interval(dates::age(micros(&a[0]), micros(&a[1]))))),
    overload!([Timestamptz, Timestamptz] => Span, |a, c| {
        let local = |value: &Value| dates::to_local(micros(value), c.zone);
        Ok(Value::Interval(dates::age(local(&a[0]), local(&a[1]))))
    }),
    // Computed by `clock`.
    overload!([Timestamp] => Span, |_, _| Err(Error::internal("age reads the clock"))),
    overload!([Timestamptz] => Span, |_, _| Err(Error::internal("age reads the clock"))),
];

fn to_local(value: &Value, zone: Zone) -> Value {
    Value::Timestamp(dates::to_local(micros(value), zone))
}

const TIMEZONE: &[Overload] = &[
    overload!([Text, Timestamptz] => Timestamp, |a, _| Ok(to_local(&a[1], Zone::named(text(&a[0]))?))),
    overload!([Text, Timestamp] => Timestamptz, |a, _| {
        dates::to_utc(micros(&a[1]), Zone::named(text(&a[0]))?).map(Value::Timestamp)
    }),
    overload!([Span, Timestamptz] => Timestamp, |a, _| Ok(to_local(&a[1], dates::zone_of_interval(span(&a[0]))?))),
    overload!([Span, Timestamp] => Timestamptz, |a, _| {
        dates::to_utc(micros(&a[1]), dates::zone_of_interval(span(&a[0]))?).map(Value::Timestamp)
    }),
];

const MAKE_DATE: &[Overload] = &[overload!([Int, Int, Int] => Date, |a, _| {
    dates::make_date(int(&a[0]), int(&a[1]), int(&a[2])).map(Value::Date)
})];

const MAKE_TIME: &[Overload] = &[overload!([Int, Int, Float] => Time, |a, _| {
    dates::make_time(int(&a[0]), int(&a[1]), float(&a[2])).map(Value::Time)
})];

fn make_timestamp(a: &[Value]) -> Result<i64> {
    let day = dates::make_date(int(&a[0]), int(&a[1]), int(&a[2]))?;
    let clock = dates::make_time(int(&a[3]), int(&a[4]), float(&a[5]))?;
    Ok(dates::midnight(day) + clock)
}

const MAKE_TIMESTAMP: &[Overload] =
    &[overload!([Int, Int, Int, Int, Int, Float] => Timestamp, |a, _| make_timestamp(a).map(Value::Timestamp))];

const MAKE_TIMESTAMPTZ: &[Overload] = &[
    overload!([Int, Int, Int, Int, Int, Float] => Timestamptz, |a, c| {
        dates::to_utc(make_timestamp(a)?, c.zone).map(Value::Timestamp)
    }),
    overload!([Int, Int, Int, Int, Int, Float, Text] => Timestamptz, |a, _| {
        dates::to_utc(make_timestamp(a)?, Zone::named(text(&a[6]))?).map(Value::Timestamp)
    }),
];

const MAKE_INTERVAL: &[Overload] = &[overload!([Int, Int, Int, Int, Int, Int, Float] => Span, |a, _| {
    let made = intervals::make(
        int4(&a[0]), int4(&a[1]), int4(&a[2]), int4(&a[3]), int4(&a[4]), int4(&a[5]), float(&a[6]),
    );
    made.map(Value::Interval)
})];

const JUSTIFY_DAYS: &[Overload] =
    &[overload!([Span] => Span, |a, _| intervals::justify_days(span(&a[0])).map(Value::Interval))];
const JUSTIFY_HOURS: &[Overload] =
    &[overload!([Span] => Span, |a, _| intervals::justify_hours(span(&a[0])).map(Value::Interval))];
const JUSTIFY_INTERVAL: &[Overload] =
    &[overload!([Span] => Span, |a, _| intervals::justify_interval(span(&a[0])).map(Value::Interval))];

const TO_TIMESTAMP: &[Overload] = &[
    overload!([Float] => Timestamptz, |a, _| dates::from_epoch(float(&a[0])).map(Value::Timestamp)),
    overload!([Text, Text] => Timestamptz, |a, c| {
        dates::to_utc(timestamp_from(text(&a[0]), text(&a[1]))?, c.zone).map(Value::Timestamp)
    }),
];

const TO_DATE: &[Overload] = &[overload!([Text, Text] => Date, |a, _| {
    let days = timestamp_from(text(&a[0]), text(&a[1]))?.div_euclid(dates::midnight(1));
    i32::try_from(days).map(Value::Date).map_err(|_| Error::internal("a date within its limits is too large"))
})];

/// By no template at all there is no text either.
fn shown(template: &Value, shown: Result<String>) -> Result<Value> {
    if text(template).is_empty() {
        return Ok(Value::Null);
    }
    shown.map(|text| Value::Text(text.into()))
}

/// Digits that a double precision surely has.
const FLOAT_DIGITS: usize = 15;

fn number_to_char(value: &Value, sql_type: Option<SqlType>, pattern: &str) -> Result<String> {
    let (unscaled, scale) = match (value, sql_type.map(SqlType::scalar)) {
        (Value::Numeric(unscaled), Some(ScalarType::Numeric { scale, .. })) => (*unscaled, scale),
        (value, _) => (i128::from(int(value)), 0),
    };
    let digits = numeric::format::fraction_digits(pattern)?;
    let to_scale = u8::try_from(digits).map_err(|_| Error::unsupported("a template this long is not supported"))?;
    let rounded = numeric::rescale(unscaled.saturating_abs(), scale, 38, to_scale)?;
    let mut shown = Vec::new();
    numeric::write(rounded, to_scale, &mut shown);
    numeric::format::to_char(unscaled < 0, &String::from_utf8_lossy(&shown), pattern)
}

fn float_to_char(value: f64, pattern: &str) -> Result<String> {
    let digits = numeric::format::fraction_digits(pattern)?;
    let shown = format!("{:.digits$}", value.abs());
    if !value.is_finite() || shown.len() > FLOAT_DIGITS {
        return Err(Error::unsupported("to_char of more digits than a double precision has is not supported"));
    }
    numeric::format::to_char(value < 0.0, &shown, pattern)
}

const TO_CHAR: &[Overload] = &[
    overload!([Timestamp, Text] => Text, |a, _| shown(&a[1], format::to_char(micros(&a[0]), None, text(&a[1])))),
    overload!([Timestamptz, Text] => Text, |a, c| shown(&a[1], format::to_char(micros(&a[0]), Some(c.zone), text(&a[1])))),
    overload!([Span, Text] => Text, |a, _| shown(&a[1], format::interval_to_char(span(&a[0]), text(&a[1])))),
    overload!([Numeric, Text] => Text, |a, c| shown(&a[1], number_to_char(&a[0], c.first, text(&a[1])))),
    overload!([Float, Text] => Text, |a, _| shown(&a[1], float_to_char(float(&a[0]), text(&a[1])))),
];

/// There is no infinity here.
const ISFINITE: &[Overload] = &[
    overload!([Date] => Bool, |_, _| Ok(Value::Bool(true))),
    overload!([Timestamp] => Bool, |_, _| Ok(Value::Bool(true))),
    overload!([Timestamptz] => Bool, |_, _| Ok(Value::Bool(true))),
    overload!([Span] => Bool, |_, _| Ok(Value::Bool(true))),
];

/// What reads the clock is computed by `clock`; only the types count here.
const NO_RUN: fn(&[Value], &Context) -> Result<Value> = |_, _| Err(Error::internal("a clock has no arguments"));
const INSTANT: &[Overload] = &[overload!([] => Timestamptz, NO_RUN)];
const INSTANT_ROUNDED: &[Overload] = &[overload!([] => Timestamptz, NO_RUN), overload!([Int] => Timestamptz, NO_RUN)];
const LOCALTIMESTAMP: &[Overload] = &[overload!([] => Timestamp, NO_RUN), overload!([Int] => Timestamp, NO_RUN)];
const LOCALTIME: &[Overload] = &[overload!([] => Time, NO_RUN), overload!([Int] => Time, NO_RUN)];
const TODAY: &[Overload] = &[overload!([] => Date, NO_RUN)];
const CLOCK: &[Overload] =
    &[overload!([] => Timestamptz, |_, _| Ok(Value::Timestamp(ashlar_base::clock::wall_micros())))];

pub(super) const PLUS: &[Overload] = &[
    overload!([Date, Int] => Date, |a, _| dates::date_plus_days(date(&a[0]), int(&a[1])).map(Value::Date)),
    overload!([Int, Date] => Date, |a, _| dates::date_plus_days(date(&a[1]), int(&a[0])).map(Value::Date)),
    overload!([Date, Span] => Timestamp, |a, _| plus(dates::midnight(date(&a[0])), span(&a[1]))),
    overload!([Span, Date] => Timestamp, |a, _| plus(dates::midnight(date(&a[1])), span(&a[0]))),
    overload!([Date, Time] => Timestamp, |a, _| Ok(Value::Timestamp(dates::midnight(date(&a[0])) + micros(&a[1])))),
    overload!([Time, Date] => Timestamp, |a, _| Ok(Value::Timestamp(dates::midnight(date(&a[1])) + micros(&a[0])))),
    overload!([Time, Span] => Time, |a, _| Ok(Value::Time(dates::time_plus(micros(&a[0]), span(&a[1]))))),
    overload!([Span, Time] => Time, |a, _| Ok(Value::Time(dates::time_plus(micros(&a[1]), span(&a[0]))))),
    overload!([Timestamp, Span] => Timestamp, |a, _| plus(micros(&a[0]), span(&a[1]))),
    overload!([Span, Timestamp] => Timestamp, |a, _| plus(micros(&a[1]), span(&a[0]))),
    overload!([Timestamptz, Span] => Timestamptz, |a, c| plus_in(micros(&a[0]), span(&a[1]), c.zone)),
    overload!([Span, Timestamptz] => Timestamptz, |a, c| plus_in(micros(&a[1]), span(&a[0]), c.zone)),
    overload!([Span, Span] => Span, |a, _| intervals::add(span(&a[0]), span(&a[1])).map(Value::Interval)),
];

pub(super) const MINUS: &[Overload] = &[
    overload!([Date, Date] => Int, |a, _| int4_of(i64::from(date(&a[0])) - i64::from(date(&a[1])))),
    overload!([Date, Int] => Date, |a, _| dates::date_plus_days(date(&a[0]), -int(&a[1])).map(Value::Date)),
    overload!([Date, Span] => Timestamp, |a, _| plus(dates::midnight(date(&a[0])), negated(&a[1])?)),
    overload!([Time, Time] => Span, |a, _| {
        let micros = micros(&a[0]) - micros(&a[1]);
        Ok(Value::Interval(Interval { micros, ..Interval::default() }))
    }),
    overload!([Time, Span] => Time, |a, _| Ok(Value::Time(dates::time_plus(micros(&a[0]), negated(&a[1])?)))),
    overload!([Timestamp, Timestamp] => Span, |a, _| {
        Ok(Value::Interval(dates::timestamp_minus(micros(&a[0]), micros(&a[1]))))
    }),
    overload!([Timestamptz, Timestamptz] => Span, |a, _| {
        Ok(Value::Interval(dates::timestamp_minus(micros(&a[0]), micros(&a[1]))))
    }),
    overload!([Timestamp, Span] => Timestamp, |a, _| plus(micros(&a[0]), negated(&a[1])?)),
    overload!([Timestamptz, Span] => Timestamptz, |a, c| plus_in(micros(&a[0]), negated(&a[1])?, c.zone)),
    overload!([Span, Span] => Span, |a, _| intervals::subtract(span(&a[0]), span(&a[1])).map(Value::Interval)),
];

fn plus(timestamp: i64, interval: Interval) -> Result<Value> {
    dates::timestamp_plus(timestamp, interval).map(Value::Timestamp)
}

fn plus_in(timestamp: i64, interval: Interval, zone: Zone) -> Result<Value> {
    dates::timestamptz_plus(timestamp, interval, zone).map(Value::Timestamp)
}

pub(super) const TIMES: &[Overload] = &[
    overload!([Span, Float] => Span, |a, _| intervals::multiply(span(&a[0]), float(&a[1])).map(Value::Interval)),
    overload!([Float, Span] => Span, |a, _| intervals::multiply(span(&a[1]), float(&a[0])).map(Value::Interval)),
];

pub(super) const DIVIDED: &[Overload] =
    &[overload!([Span, Float] => Span, |a, _| intervals::divide(span(&a[0]), float(&a[1])).map(Value::Interval))];

pub(super) const NEGATED: &[Overload] = &[overload!([Span] => Span, |a, _| negated(&a[0]).map(Value::Interval))];

/// Every function that SQL can name, in a zone.
pub(super) fn all(zone: Zone) -> Vec<TimeFunction> {
    let computed: [(&'static str, &'static [Overload]); 18] = [
        ("date", DATE),
        ("extract", EXTRACT),
        ("date_part", DATE_PART),
        ("date_trunc", DATE_TRUNC),
        ("date_bin", DATE_BIN),
        ("timezone", TIMEZONE),
        ("make_date", MAKE_DATE),
        ("make_time", MAKE_TIME),
        ("make_timestamp", MAKE_TIMESTAMP),
        ("make_timestamptz", MAKE_TIMESTAMPTZ),
        ("make_interval", MAKE_INTERVAL),
        ("justify_days", JUSTIFY_DAYS),
        ("justify_hours", JUSTIFY_HOURS),
        ("justify_interval", JUSTIFY_INTERVAL),
        ("to_timestamp", TO_TIMESTAMP),
        ("to_char", TO_CHAR),
        ("to_date", TO_DATE),
        ("isfinite", ISFINITE),
    ];
    let clocks: [(&'static str, &'static [Overload]); 8] = [
        ("now", INSTANT),
        ("transaction_timestamp", INSTANT),
        ("statement_timestamp", INSTANT),
        ("current_timestamp", INSTANT_ROUNDED),
        ("localtimestamp", LOCALTIMESTAMP),
        ("localtime", LOCALTIME),
        ("current_date", TODAY),
        ("age", AGE),
    ];
    let computed = computed.into_iter().map(|(name, overloads)| (name, overloads, Reads::Nothing));
    let clocks = clocks.into_iter().map(|(name, overloads)| (name, overloads, Reads::StatementClock));
    computed
        .chain(clocks)
        .chain([("clock_timestamp", CLOCK, Reads::WallClock)])
        .map(|(name, overloads, reads)| TimeFunction::new(name, overloads, reads, None, zone))
        .collect()
}
