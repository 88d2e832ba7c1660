//! Functions of exact numbers, and of numbers of several types: `abs`, `round`, `mod`, `sqrt`, ...
//!
//! A numeric's scale is that of its type here, where PostgreSQL's is of each value: results have the scale that
//! PostgreSQL gives where the arguments' types and constants tell it, and never fewer digits than fit.

use std::cmp::Ordering;

use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, SqlType, Value};
use datafusion_functions::math;

use super::catalog::{Body, Call, Function, R, T, digits_of, function, numeric, of};
use super::math as floats;
use super::quantified::compare;
use super::wide;

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("abs", ABS),
    function("@", ABS),
    function("ceil", CEIL),
    function("ceiling", CEIL),
    function(
        "floor",
        &[of(&[T::Num], WHOLE, Body::Strict(floor)), of(&[T::F8], R::Is(T::F8), Body::Float(|x| Ok(x.floor())))],
    ),
    function(
        "round",
        &[
            of(&[T::Num], WHOLE, Body::Strict(round)),
            of(&[T::Num, T::Int4], TO_DIGITS, Body::Strict(round)),
            of(&[T::F8], R::Is(T::F8), Body::Float(|x| Ok(x.round_ties_even()))),
        ],
    ),
    function(
        "trunc",
        &[
            of(&[T::Num], WHOLE, Body::Strict(trunc)),
            of(&[T::Num, T::Int4], TO_DIGITS, Body::Strict(trunc)),
            of(&[T::F8], R::Is(T::F8), Body::Float(|x| Ok(x.trunc()))),
        ],
    ),
    function(
        "sign",
        &[
            of(&[T::Num], WHOLE, Body::Strict(sign)),
            of(
                &[T::F8],
                R::Is(T::F8),
                Body::Float(|x| {
                    Ok(if x > 0.0 {
                        1.0
                    } else if x < 0.0 {
                        -1.0
                    } else {
                        0.0
                    })
                }),
            ),
        ],
    ),
    function(
        "mod",
        &[
            of(&[T::Int2, T::Int2], R::Same(0), Body::Strict(integer_mod)),
            of(&[T::Int4, T::Int4], R::Same(0), Body::Strict(integer_mod)),
            of(&[T::Int8, T::Int8], R::Same(0), Body::Strict(integer_mod)),
            of(&[T::Num, T::Num], R::With(wider), Body::Strict(numeric_mod)),
        ],
    ),
    function("div", &[of(&[T::Num, T::Num], R::With(|_, _| numeric(38, 0)), Body::Strict(numeric_div))]),
    function("gcd", GCD),
    function("lcm", LCM),
    function("factorial", &[of(&[T::Int8], R::With(|_, _| numeric(38, 0)), Body::Strict(factorial))]),
    function(
        "sqrt",
        &[
            of(&[T::Num], R::With(sixteen), Body::Strict(numeric_sqrt)),
            of(&[T::F8], R::Is(T::F8), Body::Float(floats::sqrt)),
        ],
    ),
    function(
        "ln",
        &[of(&[T::Num], R::With(sixteen), Body::Strict(inexact)), of(&[T::F8], R::Is(T::F8), Body::Float(floats::ln))],
    ),
    function(
        "log",
        &[
            of(&[T::Num], R::With(sixteen), Body::Strict(inexact)),
            of(&[T::F8], R::Is(T::F8), Body::Float(floats::log10)),
            of(&[T::Num, T::Num], R::With(sixteen), Body::Strict(inexact)),
        ],
    ),
    function(
        "log10",
        &[
            of(&[T::Num], R::With(sixteen), Body::Strict(inexact)),
            of(&[T::F8], R::Is(T::F8), Body::Float(floats::log10)),
        ],
    ),
    function(
        "exp",
        &[
            of(&[T::Num], R::With(sixteen), Body::Strict(inexact_power)),
            of(&[T::F8], R::Is(T::F8), Body::Float(floats::exp)),
        ],
    ),
    function("power", POWER),
    function("pow", POWER),
    function(
        "width_bucket",
        &[
            of(&[T::F8, T::F8, T::F8, T::Int4], R::Is(T::Int4), Body::Strict(float_bucket)),
            of(&[T::Num, T::Num, T::Num, T::Int4], R::Is(T::Int4), Body::Strict(numeric_bucket)),
            of(&[T::Elem, T::Arr], R::Is(T::Int4), Body::Strict(bucket_between)),
        ],
    ),
    function("min_scale", &[of(&[T::Num], R::Is(T::Int4), Body::Strict(min_scale))]),
    function(
        "scale",
        &[of(&[T::Num], R::Is(T::Int4), Body::Strict(|call, _| Ok(Value::Int4(scale_of(call.args[0]).into()))))],
    ),
];

const ABS: &[super::catalog::Overload] = &[
    of(&[T::Int2], R::Same(0), Body::Strict(abs)),
    of(&[T::Int4], R::Same(0), Body::Strict(abs)),
    of(&[T::Int8], R::Same(0), Body::Strict(abs)),
    of(&[T::Num], R::Same(0), Body::Engine(math::abs)),
    of(&[T::F4], R::Same(0), Body::Engine(math::abs)),
    of(&[T::F8], R::Same(0), Body::Engine(math::abs)),
];

const CEIL: &[super::catalog::Overload] =
    &[of(&[T::Num], WHOLE, Body::Strict(ceil)), of(&[T::F8], R::Is(T::F8), Body::Float(|x| Ok(x.ceil())))];

const POWER: &[super::catalog::Overload] = &[
    of(&[T::F8, T::F8], R::Is(T::F8), Body::Strict(floats::power)),
    of(&[T::Num, T::Num], R::With(sixteen), Body::Strict(numeric_power)),
];

const GCD: &[super::catalog::Overload] = &[
    of(&[T::Int4, T::Int4], R::Same(0), Body::Strict(gcd)),
    of(&[T::Int8, T::Int8], R::Same(0), Body::Strict(gcd)),
    of(&[T::Num, T::Num], R::With(wider), Body::Strict(numeric_gcd)),
];

const LCM: &[super::catalog::Overload] =
    &[of(&[T::Int4, T::Int4], R::Same(0), Body::Strict(lcm)), of(&[T::Int8, T::Int8], R::Same(0), Body::Strict(lcm))];

/// A numeric without a fraction; one digit more, for rounding up.
const WHOLE: R = R::With(|args, _| to_scale(args[0], 0));
/// As many digits after the point as a constant second argument says; the argument's own where it is no constant.
const TO_DIGITS: R = R::With(|args, constants| {
    let (_, scale) = digits_of(args[0]).unwrap_or((38, 0));
    match constants.get(1).copied().flatten() {
        Some(digits) => to_scale(args[0], i32::try_from(digits.clamp(0, 38)).unwrap_or(0)),
        None => to_scale(args[0], scale),
    }
});

fn to_scale(sql_type: SqlType, scale: i32) -> SqlType {
    let (precision, old) = digits_of(sql_type).unwrap_or((38, 0));
    numeric(precision - old + scale + 1, scale)
}

/// At least sixteen digits after the point, as PostgreSQL's irrational results have.
fn sixteen(args: &[SqlType], _: &[Option<i64>]) -> SqlType {
    let scale = args.iter().filter_map(|arg| digits_of(*arg)).map(|(_, scale)| scale).max().unwrap_or(0);
    numeric(38, scale.max(16))
}

/// The numeric that holds either argument.
fn wider(args: &[SqlType], _: &[Option<i64>]) -> SqlType {
    super::catalog::common_numeric(args[0], args[1]).unwrap_or(numeric(38, 10))
}

fn scale_of(sql_type: SqlType) -> u8 {
    match sql_type.scalar() {
        ScalarType::Numeric { scale, .. } => scale,
        _ => 0,
    }
}

fn whole(datum: &Datum<'_>) -> i64 {
    match datum {
        Datum::Int2(value) => i64::from(*value),
        Datum::Int4(value) => i64::from(*value),
        Datum::Int8(value) => *value,
        _ => 0,
    }
}

fn unscaled(datum: &Datum<'_>) -> i128 {
    match datum {
        Datum::Numeric(value) => *value,
        _ => 0,
    }
}

/// An integer of the call's type; 22003 where it does not fit.
fn integer(call: &Call<'_>, value: i64) -> Result<Value> {
    let out_of_range =
        || Error::new(ErrorCode::NumericOutOfRange, format!("{} out of range", super::catalog::name_of(call.ret)));
    match call.ret.scalar() {
        ScalarType::Int2 => i16::try_from(value).map(Value::Int2).map_err(|_| out_of_range()),
        ScalarType::Int4 => i32::try_from(value).map(Value::Int4).map_err(|_| out_of_range()),
        _ => Ok(Value::Int8(value)),
    }
}

fn abs(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    match whole(&args[0]).checked_abs() {
        Some(value) => integer(call, value),
        None => Err(Error::new(ErrorCode::NumericOutOfRange, "bigint out of range")),
    }
}

/// Divides by a power of ten and multiplies again, so that the digits below are gone, and gives the call's scale.
fn cut(call: &Call<'_>, args: &[Datum<'_>], round: impl Fn(i128, i128) -> i128) -> Result<Value> {
    let scale = i32::from(scale_of(call.args[0]));
    let digits = args.get(1).map_or(0, |digits| i32::try_from(whole(digits)).unwrap_or(0));
    let dropped = scale.saturating_sub(digits);
    let value = unscaled(&args[0]);
    let kept = match dropped {
        ..=0 => value,
        1..=38 => {
            let unit = 10i128.pow(dropped.unsigned_abs());
            round(value, unit).checked_mul(unit).ok_or_else(wide::too_many_digits)?
        }
        _ => 0,
    };
    wide::rescaled(kept, scale, call.ret).map(Value::Numeric)
}

fn round(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    cut(call, args, |value, unit| {
        let (quotient, remainder) = (value / unit, value % unit);
        if remainder.unsigned_abs() * 2 >= unit.unsigned_abs() { quotient + value.signum() } else { quotient }
    })
}

fn trunc(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    cut(call, args, |value, unit| value / unit)
}

fn ceil(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    cut(call, args, |value, unit| value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0))
}

fn floor(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    cut(call, args, i128::div_euclid)
}

fn sign(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Numeric(unscaled(&args[0]).signum()))
}

fn division_by_zero() -> Error {
    Error::new(ErrorCode::DivisionByZero, "division by zero")
}

fn integer_mod(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    match whole(&args[1]) {
        0 => Err(division_by_zero()),
        divisor => integer(call, whole(&args[0]).checked_rem(divisor).unwrap_or(0)),
    }
}

/// Both arguments with the call's scale.
fn aligned(call: &Call<'_>, args: &[Datum<'_>], scale: u8) -> Result<(i128, i128)> {
    let at = |index: usize| {
        let power = u32::from(scale - scale_of(call.args[index]).min(scale));
        unscaled(&args[index]).checked_mul(10i128.pow(power)).ok_or_else(wide::too_many_digits)
    };
    Ok((at(0)?, at(1)?))
}

fn numeric_mod(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let scale = scale_of(call.ret);
    match aligned(call, args, scale)? {
        (_, 0) => Err(division_by_zero()),
        (left, right) => wide::rescaled(left % right, i32::from(scale), call.ret).map(Value::Numeric),
    }
}

fn numeric_div(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let scale = scale_of(call.args[0]).max(scale_of(call.args[1]));
    match aligned(call, args, scale)? {
        (_, 0) => Err(division_by_zero()),
        (left, right) => wide::rescaled(left / right, 0, call.ret).map(Value::Numeric),
    }
}

fn greatest_divisor(mut left: u128, mut right: u128) -> u128 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

fn gcd(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let divisor = greatest_divisor(whole(&args[0]).unsigned_abs().into(), whole(&args[1]).unsigned_abs().into());
    in_range(call, divisor)
}

/// 22003 beyond bigint; beyond smaller types where it is made one of them.
fn in_range(call: &Call<'_>, number: u128) -> Result<Value> {
    let out_of_range =
        || Error::new(ErrorCode::NumericOutOfRange, format!("{} out of range", super::catalog::name_of(call.ret)));
    integer(call, i64::try_from(number).map_err(|_| out_of_range())?)
}

fn numeric_gcd(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (left, right) = aligned(call, args, scale_of(call.ret))?;
    let divisor = greatest_divisor(left.unsigned_abs(), right.unsigned_abs());
    Ok(Value::Numeric(i128::try_from(divisor).map_err(|_| wide::too_many_digits())?))
}

fn lcm(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (left, right) = (whole(&args[0]).unsigned_abs(), whole(&args[1]).unsigned_abs());
    if left == 0 || right == 0 {
        return integer(call, 0);
    }
    let multiple = u128::from(left) / greatest_divisor(left.into(), right.into()) * u128::from(right);
    in_range(call, multiple)
}

fn factorial(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let number = whole(&args[0]);
    if number < 0 {
        return Err(Error::new(ErrorCode::NumericOutOfRange, "factorial of a negative number is undefined"));
    }
    let product = (1..=i128::from(number)).try_fold(1i128, i128::checked_mul).ok_or_else(wide::too_many_digits)?;
    wide::rescaled(product, 0, numeric(38, 0)).map(Value::Numeric)
}

fn numeric_sqrt(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let value = unscaled(&args[0]);
    if value < 0 {
        return Err(floats::negative_root());
    }
    wide::square_root(value, i32::from(scale_of(call.args[0])), i32::from(scale_of(call.ret))).map(Value::Numeric)
}

/// A whole power by multiplication; the digits below the result's scale are rounded once.
fn numeric_power(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (base, power) = (unscaled(&args[0]), unscaled(&args[1]));
    let (base_scale, unit) = (scale_of(call.args[0]), 10i128.pow(scale_of(call.args[1]).into()));
    let is_whole = power % unit == 0;
    floats::check_power(base == 0, base < 0, is_whole, power < 0)?;
    match u32::try_from(power / unit) {
        Ok(power) if is_whole => wide::power(base, base_scale.into(), power, call.ret).map(Value::Numeric),
        _ => Err(not_exact()),
    }
}

fn inexact(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    for arg in args {
        let value = unscaled(arg);
        floats::check_logarithm(value == 0, value < 0)?;
    }
    Err(not_exact())
}

fn inexact_power(_: &Call<'_>, _: &[Datum<'_>]) -> Result<Value> {
    Err(not_exact())
}

fn not_exact() -> Error {
    Error::unsupported("logarithms, exponentials and broken powers of numeric are not supported")
        .with_hint("Cast to double precision, which has fifteen digits.")
}

fn float_bucket(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let [Datum::Float8(operand), Datum::Float8(low), Datum::Float8(high), Datum::Int4(count)] = args else {
        return Ok(Value::Null);
    };
    check_buckets(*count)?;
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bucket_error("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    let (operand, first, last) = if low < high { (*operand, *low, *high) } else { (-operand, -low, -high) };
    if first == last {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    if operand < first {
        return Ok(Value::Int4(0));
    }
    if operand >= last {
        return count.checked_add(1).map(Value::Int4).ok_or_else(integer_out_of_range);
    }
    let bucket = f64::from(*count) * ((operand - first) / (last - first));
    Ok(Value::Int4((bucket as i32).min(count - 1) + 1))
}

fn numeric_bucket(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let Datum::Int4(count) = args[3] else { return Ok(Value::Null) };
    check_buckets(count)?;
    let scale = (0..3).map(|at| scale_of(call.args[at])).max().unwrap_or(0);
    let at = |index: usize| {
        let power = u32::from(scale - scale_of(call.args[index]));
        unscaled(&args[index]).checked_mul(10i128.pow(power)).ok_or_else(wide::too_many_digits)
    };
    let (operand, low, high) = (at(0)?, at(1)?, at(2)?);
    let (operand, first, last) = if low < high { (operand, low, high) } else { (-operand, -low, -high) };
    if first == last {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    if operand < first {
        return Ok(Value::Int4(0));
    }
    if operand >= last {
        return count.checked_add(1).map(Value::Int4).ok_or_else(integer_out_of_range);
    }
    let share = (operand - first).checked_mul(i128::from(count)).ok_or_else(wide::too_many_digits)? / (last - first);
    Ok(Value::Int4(i32::try_from(share).unwrap_or(count) + 1))
}

/// Among thresholds in ascending order: how many of them are not above the operand.
fn bucket_between(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let Datum::Array(thresholds) = &args[1] else { return Ok(Value::Null) };
    let thresholds = thresholds.to_values();
    if thresholds.iter().any(Value::is_null) {
        return Err(Error::new(ErrorCode::NullValueNotAllowed, "thresholds array must not contain NULLs"));
    }
    let (mut low, mut high) = (0, thresholds.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(&args[0], &thresholds[middle]) {
            Some(Ordering::Less) => high = middle,
            Some(_) => low = middle + 1,
            None => return Err(Error::unsupported("width_bucket of values of this type is not supported")),
        }
    }
    Ok(Value::Int4(i32::try_from(low).unwrap_or(i32::MAX)))
}

/// Digits after the point up to the last one that is not zero.
fn min_scale(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (mut value, mut scale) = (unscaled(&args[0]), scale_of(call.args[0]));
    while scale > 0 && value % 10 == 0 {
        (value, scale) = (value / 10, scale - 1);
    }
    Ok(Value::Int4(scale.into()))
}

fn check_buckets(count: i32) -> Result<()> {
    if count > 0 { Ok(()) } else { Err(bucket_error("count must be greater than zero")) }
}

fn bucket_error(message: &str) -> Error {
    Error::new(ErrorCode::InvalidWidthBucket, message)
}

fn integer_out_of_range() -> Error {
    Error::new(ErrorCode::NumericOutOfRange, "integer out of range")
}
