//! Functions of `double precision`: out of range is an error, as in PostgreSQL, never an infinity or a NaN that came
//! from nowhere.

use ashlar_base::{Datum, Error, ErrorCode, Result, Value};
use datafusion_expr::Volatility;
use datafusion_functions as engine;

use super::catalog::{Body, Call, Function, R, T, function, of};

const F8: R = R::Is(T::F8);

macro_rules! float {
    ($name:literal, $of:expr) => {
        function($name, &[of(&[T::F8], F8, Body::Float($of))])
    };
}

/// See the module. Those that exist for `numeric` too are in `numbers`.
pub const FUNCTIONS: &[Function] = &[
    float!("cbrt", |x| Ok(x.cbrt())),
    // The operators that the parser's tree is rewritten to.
    float!("|/", sqrt),
    float!("||/", |x| Ok(x.cbrt())),
    float!("degrees", |x| finite(x, x.to_degrees())),
    float!("radians", |x| nonzero(x, x.to_radians())),
    float!("sin", |x| periodic(x, x.sin())),
    float!("cos", |x| periodic(x, x.cos())),
    float!("tan", |x| periodic(x, x.tan())),
    float!("cot", |x| periodic(x, 1.0 / x.tan())),
    float!("asin", |x| within(x, x.asin())),
    float!("acos", |x| within(x, x.acos())),
    float!("atan", |x| Ok(x.atan())),
    float!("sinh", |x| Ok(x.sinh())),
    float!("cosh", |x| Ok(x.cosh())),
    float!("tanh", |x| Ok(x.tanh())),
    float!("asinh", |x| Ok(x.asinh())),
    float!("acosh", |x| if x < 1.0 { Err(out_of_domain()) } else { Ok(x.acosh()) }),
    float!("atanh", |x| if x.abs() > 1.0 { Err(out_of_domain()) } else { Ok(x.atanh()) }),
    function("atan2", &[of(&[T::F8, T::F8], F8, Body::Strict(atan2))]),
    function("pi", &[of(&[], F8, Body::Strict(|_, _| Ok(Value::Float8(std::f64::consts::PI))))]),
    Function {
        name: "random",
        overloads: &[of(&[], F8, Body::Engine(engine::math::random))],
        volatility: Volatility::Volatile,
    },
];

/// 22003: a finite argument gave an infinite result.
pub fn finite(x: f64, result: f64) -> Result<f64> {
    if result.is_infinite() && x.is_finite() { Err(overflow()) } else { Ok(result) }
}

/// 22003: an argument other than zero gave zero.
pub fn nonzero(x: f64, result: f64) -> Result<f64> {
    if result == 0.0 && x != 0.0 { Err(underflow()) } else { Ok(result) }
}

/// `value out of range: overflow`
pub fn overflow() -> Error {
    Error::new(ErrorCode::NumericOutOfRange, "value out of range: overflow")
}

/// `value out of range: underflow`
pub fn underflow() -> Error {
    Error::new(ErrorCode::NumericOutOfRange, "value out of range: underflow")
}

fn out_of_domain() -> Error {
    Error::new(ErrorCode::NumericOutOfRange, "input is out of range")
}

fn periodic(x: f64, result: f64) -> Result<f64> {
    if x.is_infinite() { Err(out_of_domain()) } else { Ok(result) }
}

fn within(x: f64, result: f64) -> Result<f64> {
    if x.abs() > 1.0 { Err(out_of_domain()) } else { Ok(result) }
}

/// The natural logarithm.
pub fn ln(x: f64) -> Result<f64> {
    check_logarithm(x == 0.0, x < 0.0)?;
    Ok(x.ln())
}

/// The logarithm to the base of ten.
pub fn log10(x: f64) -> Result<f64> {
    check_logarithm(x == 0.0, x < 0.0)?;
    Ok(x.log10())
}

/// 2201E: there is no logarithm of zero and of negative numbers.
pub fn check_logarithm(is_zero: bool, is_negative: bool) -> Result<()> {
    let message = match (is_zero, is_negative) {
        (true, _) => "cannot take logarithm of zero",
        (_, true) => "cannot take logarithm of a negative number",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorCode::InvalidLogarithm, message))
}

/// `e` raised to a power.
pub fn exp(x: f64) -> Result<f64> {
    let result = x.exp();
    if result == 0.0 && x.is_finite() {
        return Err(underflow());
    }
    finite(x, result)
}

/// 2201F
pub fn negative_root() -> Error {
    Error::new(ErrorCode::InvalidPower, "cannot take square root of a negative number")
}

/// The square root.
pub fn sqrt(x: f64) -> Result<f64> {
    if x < 0.0 { Err(negative_root()) } else { Ok(x.sqrt()) }
}

fn atan2(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(match args {
        [Datum::Float8(y), Datum::Float8(x)] => Value::Float8(y.atan2(*x)),
        _ => Value::Null,
    })
}

/// 2201F: what has no real power.
pub fn check_power(is_zero: bool, is_negative: bool, is_whole: bool, is_negative_power: bool) -> Result<()> {
    if is_zero && is_negative_power {
        return Err(Error::new(ErrorCode::InvalidPower, "zero raised to a negative power is undefined"));
    }
    if is_negative && !is_whole {
        return Err(Error::new(
            ErrorCode::InvalidPower,
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    Ok(())
}

/// `power` of floats.
pub fn power(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let [Datum::Float8(x), Datum::Float8(y)] = args else { return Ok(Value::Null) };
    let (x, y) = (*x, *y);
    if x.is_nan() || y.is_nan() {
        let is_one = x == 1.0 || y == 0.0;
        return Ok(Value::Float8(if is_one { 1.0 } else { f64::NAN }));
    }
    check_power(x == 0.0, x < 0.0, y.is_infinite() || y.trunc() == y, y < 0.0)?;
    let result = x.powf(y);
    if x.is_finite() && y.is_finite() {
        if result.is_infinite() {
            return Err(overflow());
        }
        if result == 0.0 && x != 0.0 {
            return Err(underflow());
        }
    }
    Ok(Value::Float8(result))
}
