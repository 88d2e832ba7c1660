//! PostgreSQL's functions by name and argument types: what a call means, which type it has, and what there is not.
//!
//! Called by the planner through the function registry, and by the rule that settles calls before type coercion.
//! A name is bound to all its overloads ([`PgFunction`]); `resolve` chooses one of them as PostgreSQL does; the
//! settled call ([`PgCall`]) has arguments of exactly the overload's types. Nothing here converts silently.

use std::borrow::Cow;
use std::sync::Arc;

use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Result, ScalarType, SqlType, Value};
use datafusion_expr::{ScalarUDF, Volatility};

pub mod call;
pub mod resolve;

pub use call::{PgFunction, pg_function, unknown};
pub use resolve::{Arg, common_numeric, digits_in, is_exact, name_of, unknown_function};

/// A type as signatures name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum T {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `numeric` of any precision and scale
    Num,
    /// `real`
    F4,
    /// `double precision`
    F8,
    /// `text`, and `varchar` as text
    Text,
    /// `bytea`
    Bytea,
    /// `uuid`
    Uuid,
    /// `json`
    Json,
    /// `jsonb`
    Jsonb,
    /// `text[]`
    Texts,
    /// `integer[]`
    Ints,
    /// `anycompatible`: an element of the array beside it.
    Elem,
    /// `anycompatiblearray`
    Arr,
    /// `"any"`
    Any,
}

/// The type of a result.
#[derive(Clone, Copy)]
pub enum R {
    /// This one.
    Is(T),
    /// That of an argument.
    Same(usize),
    /// Worked out from the arguments' types, and the values of those that are constant integers.
    With(fn(&[SqlType], &[Option<i64>]) -> SqlType),
}

/// What a function body knows about its call.
pub struct Call<'a> {
    /// The arguments' types.
    pub args: &'a [SqlType],
    /// The result's type.
    pub ret: SqlType,
    /// The session's time zone.
    pub zone: Zone,
}

/// A function of one row.
pub type RowFunction = fn(&Call<'_>, &[Datum<'_>]) -> Result<Value>;

/// A function of one row whose result is a text that may be a part of an argument.
pub type TextFunction = for<'a> fn(&Call<'_>, &[Datum<'a>]) -> Result<Option<Cow<'a, str>>>;

/// How a function is computed.
#[derive(Clone, Copy)]
pub enum Body {
    /// Row by row; NULL where an argument is NULL.
    Strict(RowFunction),
    /// Row by row, to a text that is copied once; NULL where an argument is NULL.
    Text(TextFunction),
    /// Row by row, NULLs included.
    Called(RowFunction),
    /// Of one `double precision`.
    Float(fn(f64) -> Result<f64>),
    /// The engine's own function, where its meaning is PostgreSQL's.
    Engine(fn() -> Arc<ScalarUDF>),
}

/// One signature of a function.
pub struct Overload {
    /// Parameter types; the last one repeats where `variadic`.
    pub args: &'static [T],
    /// Whether the last parameter takes any number of arguments.
    pub variadic: bool,
    /// The result.
    pub ret: R,
    /// The computation.
    pub body: Body,
}

/// A function's name and its signatures.
pub struct Function {
    /// As SQL writes it.
    pub name: &'static str,
    /// Its signatures.
    pub overloads: &'static [Overload],
    /// Whether two calls may differ.
    pub volatility: Volatility,
}

/// A function whose result depends on its arguments alone.
pub const fn function(name: &'static str, overloads: &'static [Overload]) -> Function {
    Function { name, overloads, volatility: Volatility::Immutable }
}

/// A signature of a fixed number of arguments.
pub const fn of(args: &'static [T], ret: R, body: Body) -> Overload {
    Overload { args, variadic: false, ret, body }
}

/// A signature whose last parameter takes any number of arguments.
pub const fn variadic(args: &'static [T], ret: R, body: Body) -> Overload {
    Overload { args, variadic: true, ret, body }
}

/// `numeric(precision, scale)`, kept within what a numeric here can be.
pub fn numeric(precision: i32, scale: i32) -> SqlType {
    let scale = scale.clamp(0, 38);
    let precision = precision.clamp(scale.max(1), 38);
    ScalarType::Numeric { precision: precision as u8, scale: scale as u8 }.into()
}

/// Precision and scale of a type that holds exact numbers.
pub fn digits_of(sql_type: SqlType) -> Option<(i32, i32)> {
    Some(match sql_type {
        SqlType::Scalar(ScalarType::Int2) => (5, 0),
        SqlType::Scalar(ScalarType::Int4) => (10, 0),
        SqlType::Scalar(ScalarType::Int8) => (19, 0),
        SqlType::Scalar(ScalarType::Numeric { precision, scale }) => (i32::from(precision), i32::from(scale)),
        _ => return None,
    })
}

/// All functions of the catalog.
pub fn all() -> impl Iterator<Item = &'static Function> {
    [
        super::math::FUNCTIONS,
        super::numbers::FUNCTIONS,
        super::strings::FUNCTIONS,
        super::lengths::FUNCTIONS,
        super::matches::FUNCTIONS,
        super::hashes::FUNCTIONS,
        super::quoting::FUNCTIONS,
        super::bytes::FUNCTIONS,
        super::arrays::FUNCTIONS,
        super::json::FUNCTIONS,
        super::json::rows::FUNCTIONS,
        super::json::changes::FUNCTIONS,
        super::json::made::FUNCTIONS,
        super::gathered::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}
