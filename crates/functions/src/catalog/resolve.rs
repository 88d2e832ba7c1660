//! Which of a function's signatures a call means, by PostgreSQL's rules ("Function Type Resolution").
//!
//! Called by `call`. Knows types only; an untyped literal is [`Arg::Unknown`] with its text.

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};

use super::{Overload, R, T, digits_of, numeric};
use crate::digits::{DIGITS_MAX, plain};
use crate::names::shown_name;

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// A quoted literal or NULL, whose type is open; its text where it has one.
    Unknown(Option<&'a str>),
    /// Anything else.
    Typed(SqlType),
}

/// What a call was found to mean.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chosen {
    /// Which signature.
    pub index: usize,
    /// The types that the arguments are to have.
    pub args: Vec<SqlType>,
    /// The result's type.
    pub ret: SqlType,
}

/// What the types of a signature's parameters are, of a typed argument.
fn kind_of(sql_type: SqlType) -> Option<T> {
    Some(match sql_type {
        SqlType::Scalar(scalar) => match scalar {
            ScalarType::Bool => T::Bool,
            ScalarType::Int2 => T::Int2,
            ScalarType::Int4 => T::Int4,
            ScalarType::Int8 => T::Int8,
            ScalarType::Numeric { .. } => T::Num,
            ScalarType::Float4 => T::F4,
            ScalarType::Float8 => T::F8,
            ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. } => T::Text,
            ScalarType::Bytea => T::Bytea,
            ScalarType::Uuid => T::Uuid,
            ScalarType::Json => T::Json,
            ScalarType::Jsonb => T::Jsonb,
            _ => return None,
        },
        SqlType::Array(ScalarType::Text | ScalarType::Varchar { .. }) => T::Texts,
        SqlType::Array(ScalarType::Int4) => T::Ints,
        SqlType::Array(_) => return None,
    })
}

fn rank(kind: T) -> Option<u8> {
    Some(match kind {
        T::Int2 => 0,
        T::Int4 => 1,
        T::Int8 => 2,
        T::Num => 3,
        T::F4 => 4,
        T::F8 => 5,
        _ => return None,
    })
}

/// Whether a value of this type becomes the parameter's type without being asked.
fn is_implicit(from: SqlType, to: T) -> bool {
    match to {
        T::Any | T::Elem => true,
        T::Arr => from.is_array(),
        _ => match kind_of(from) {
            Some(kind) if kind == to => true,
            Some(kind) => matches!((rank(kind), rank(to)), (Some(low), Some(high)) if low <= high),
            None => false,
        },
    }
}

fn param(overload: &Overload, index: usize) -> T {
    overload.args.get(index).or(overload.args.last()).copied().unwrap_or(T::Any)
}

/// Preferred types of their categories.
fn is_preferred(kind: T) -> bool {
    matches!(kind, T::F8 | T::Text | T::Bool)
}

/// Chooses a signature.
///
/// # Errors
/// 42883 where none fits, 42725 where several do.
pub fn resolve(name: &str, overloads: &[Overload], args: &[Arg<'_>], constants: &[Option<i64>]) -> Result<Chosen> {
    let fits = |overload: &Overload| {
        let count = overload.args.len();
        let is_count = if overload.variadic { args.len() >= count } else { args.len() == count };
        is_count
            && args.iter().enumerate().all(|(index, arg)| match arg {
                Arg::Unknown(_) => true,
                Arg::Typed(sql_type) => is_implicit(*sql_type, param(overload, index)),
            })
            && element_of(overload, args).is_some()
    };
    let mut candidates: Vec<usize> = (0..overloads.len()).filter(|index| fits(&overloads[*index])).collect();
    if candidates.is_empty() {
        return Err(unknown_function(name, args));
    }
    let keep_best = |candidates: &mut Vec<usize>, score: &dyn Fn(usize, usize, &Arg<'_>) -> bool| {
        let total = |candidate: usize| args.iter().enumerate().filter(|(at, arg)| score(candidate, *at, arg)).count();
        let best = candidates.iter().map(|candidate| total(*candidate)).max().unwrap_or(0);
        candidates.retain(|candidate| total(*candidate) == best);
    };
    let is_exact = |candidate: usize, at: usize, arg: &Arg<'_>| match arg {
        Arg::Unknown(_) => false,
        Arg::Typed(sql_type) => {
            let wanted = param(&overloads[candidate], at);
            kind_of(*sql_type) == Some(wanted) || wanted == T::Arr && sql_type.is_array()
        }
    };
    keep_best(&mut candidates, &is_exact);
    if candidates.len() > 1 {
        keep_best(&mut candidates, &|candidate, at, arg| {
            is_exact(candidate, at, arg)
                || matches!(arg, Arg::Typed(_)) && is_preferred(param(&overloads[candidate], at))
        });
    }
    // Where the type is open, text is what a literal is first taken for, then the preferred type.
    for (at, arg) in args.iter().enumerate() {
        if candidates.len() > 1 && matches!(arg, Arg::Unknown(_)) {
            let at_param = |candidate: &usize| param(&overloads[*candidate], at);
            let wanted = [T::Text, T::F8]
                .into_iter()
                .find(|wanted| candidates.iter().any(|candidate| at_param(candidate) == *wanted));
            if let Some(wanted) = wanted {
                candidates.retain(|candidate| at_param(candidate) == wanted);
            }
        }
    }
    // Last: an open type is taken for the type that all the others have.
    if candidates.len() > 1 {
        let mut known = args.iter().filter_map(|arg| match arg {
            Arg::Typed(sql_type) => kind_of(*sql_type),
            Arg::Unknown(_) => None,
        });
        if let Some(first) = known.next()
            && known.all(|kind| kind == first)
        {
            candidates.retain(|candidate| (0..args.len()).all(|at| param(&overloads[*candidate], at) == first));
        }
    }
    let [index] = candidates[..] else {
        return Err(Error::new(
            ErrorCode::AmbiguousFunction,
            format!("function {name}({}) is not unique", list_of(args)),
        )
        .with_hint("Could not choose a best candidate function. You might need to add explicit type casts."));
    };
    Ok(settled(index, &overloads[index], args, constants))
}

/// The element that polymorphic parameters share; text where there is none. `None`: they do not go together.
fn element_of(overload: &Overload, args: &[Arg<'_>]) -> Option<ScalarType> {
    let mut element: Option<ScalarType> = None;
    for (index, arg) in args.iter().enumerate() {
        let Arg::Typed(sql_type) = arg else { continue };
        let found = match param(overload, index) {
            T::Arr => sql_type.scalar(),
            T::Elem if sql_type.is_array() => return None,
            T::Elem => sql_type.scalar(),
            _ => continue,
        };
        element = Some(match element {
            None => found,
            Some(known) if known == found => known,
            Some(known) => common_scalar(known, found)?,
        });
    }
    Some(element.unwrap_or(ScalarType::Text))
}

fn common_scalar(left: ScalarType, right: ScalarType) -> Option<ScalarType> {
    let is_text = |of: ScalarType| matches!(of, ScalarType::Text | ScalarType::Varchar { .. });
    if is_text(left) && is_text(right) {
        return Some(ScalarType::Text);
    }
    common_numeric(left.into(), right.into()).map(SqlType::scalar)
}

/// The number type in which two of them meet: the later of smallint, integer, bigint, numeric, real, double precision.
pub fn common_numeric(left: SqlType, right: SqlType) -> Option<SqlType> {
    let (SqlType::Scalar(_), SqlType::Scalar(_)) = (left, right) else { return None };
    let (low, high) = match (rank(kind_of(left)?)?, rank(kind_of(right)?)?) {
        (low, high) if low <= high => (left, right),
        _ => (right, left),
    };
    match (digits_of(low), digits_of(high), high) {
        (Some((low_precision, low_scale)), Some((precision, scale)), SqlType::Scalar(ScalarType::Numeric { .. })) => {
            let wide = scale.max(low_scale);
            Some(numeric((low_precision - low_scale).max(precision - scale) + wide, wide))
        }
        _ => Some(high),
    }
}

fn settled(index: usize, overload: &Overload, args: &[Arg<'_>], constants: &[Option<i64>]) -> Chosen {
    let element = element_of(overload, args).unwrap_or(ScalarType::Text);
    let types: Vec<SqlType> = args
        .iter()
        .enumerate()
        .map(|(at, arg)| match (param(overload, at), arg) {
            (T::Num, Arg::Typed(sql_type)) => {
                digits_of(*sql_type).map_or(numeric(38, 10), |(precision, scale)| numeric(precision, scale))
            }
            (T::Num, Arg::Unknown(text)) => text.map_or(numeric(38, 10), digits_in),
            (T::Any, Arg::Typed(sql_type)) => *sql_type,
            (wanted, _) => concrete(wanted, element),
        })
        .collect();
    let ret = match overload.ret {
        R::Is(wanted) => concrete(wanted, element),
        R::Same(at) => types.get(at).copied().unwrap_or(SqlType::Scalar(ScalarType::Text)),
        R::With(of) => of(&types, constants),
    };
    Chosen { index, args: types, ret }
}

fn concrete(wanted: T, element: ScalarType) -> SqlType {
    SqlType::Scalar(match wanted {
        T::Bool => ScalarType::Bool,
        T::Int2 => ScalarType::Int2,
        T::Int4 => ScalarType::Int4,
        T::Int8 => ScalarType::Int8,
        T::Num => return numeric(38, 10),
        T::F4 => ScalarType::Float4,
        T::F8 => ScalarType::Float8,
        T::Text | T::Any => ScalarType::Text,
        T::Bytea => ScalarType::Bytea,
        T::Uuid => ScalarType::Uuid,
        T::Json => ScalarType::Json,
        T::Jsonb => ScalarType::Jsonb,
        T::Elem => element,
        T::Texts => return SqlType::Array(ScalarType::Text),
        T::Ints => return SqlType::Array(ScalarType::Int4),
        T::Arr => return SqlType::Array(element),
    })
}

/// The numeric that holds a literal's digits.
pub fn digits_in(text: &str) -> SqlType {
    let digits = text.trim().trim_start_matches(['+', '-']);
    if digits.contains(['e', 'E']) {
        let (precision, scale) =
            plain(digits).map_or((38, 10), |(_, precision, scale)| (precision as i32, scale as i32));
        return numeric(precision, scale);
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, fraction) = (whole.len().min(38) as i32, fraction.len().min(38) as i32);
    numeric(whole + fraction, fraction)
}

/// Whether [`digits_in`] keeps all digits; of what is no number, the cast will tell.
pub fn is_exact(text: &str) -> bool {
    let digits = text.trim().trim_start_matches(['+', '-']);
    if digits.contains(['e', 'E']) {
        return plain(digits).is_some() || digits.parse::<f64>().is_err();
    }
    digits.bytes().filter(u8::is_ascii_digit).count() <= DIGITS_MAX
}

/// A type as messages name it.
pub fn name_of(sql_type: SqlType) -> String {
    let scalar = match sql_type.scalar() {
        ScalarType::Numeric { .. } => "numeric".to_owned(),
        ScalarType::Varchar { .. } => "character varying".to_owned(),
        other => other.to_string(),
    };
    if sql_type.is_array() { format!("{scalar}[]") } else { scalar }
}

fn list_of(args: &[Arg<'_>]) -> String {
    let names = args.iter().map(|arg| match arg {
        Arg::Unknown(_) => "unknown".to_owned(),
        Arg::Typed(sql_type) => name_of(*sql_type),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// 42883 with the types of the arguments; of an operator in its own words.
pub fn unknown_function(name: &str, args: &[Arg<'_>]) -> Error {
    let name = shown_name(name);
    let is_operator = !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let shown = |arg: &Arg<'_>| list_of(std::slice::from_ref(arg));
    let (message, what) = match args {
        [left, right] if is_operator => {
            (format!("operator does not exist: {} {name} {}", shown(left), shown(right)), "operator")
        }
        [only] if is_operator => (format!("operator does not exist: {name} {}", shown(only)), "operator"),
        _ => (format!("function {name}({}) does not exist", list_of(args)), "function"),
    };
    Error::new(ErrorCode::UndefinedFunction, message).with_hint(format!(
        "No {what} matches the given name and argument types. You might need to add explicit type casts."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(name: &str, args: &[Arg<'_>]) -> String {
        let function = super::super::all().find(|function| function.name == name).unwrap();
        match resolve(name, function.overloads, args, &vec![None; args.len()]) {
            Ok(chosen) => {
                let args: Vec<String> = chosen.args.into_iter().map(name_of).collect();
                format!("({}) {}", args.join(", "), name_of(chosen.ret))
            }
            Err(error) => format!("{} {}", error.code().sqlstate(), error.message()),
        }
    }

    #[test]
    fn calls_mean_what_they_mean_in_postgresql() {
        let typed = |scalar: ScalarType| Arg::Typed(scalar.into());
        let (int4, int8, text) = (typed(ScalarType::Int4), typed(ScalarType::Int8), typed(ScalarType::Text));
        let (float4, unknown) = (typed(ScalarType::Float4), Arg::Unknown(Some("1.5")));
        let number = Arg::Typed(numeric(10, 2));
        for (name, args, expected) in [
            ("ceil", vec![int4], "(double precision) double precision"),
            ("round", vec![int4, int4], "(numeric, integer) numeric"),
            (
                "round",
                vec![typed(ScalarType::Float8), int4],
                "42883 function round(double precision, integer) does not exist",
            ),
            ("abs", vec![unknown], "(double precision) double precision"),
            ("abs", vec![float4], "(real) real"),
            ("mod", vec![int8, int4], "(bigint, bigint) bigint"),
            ("power", vec![int4, number], "(numeric, numeric) numeric"),
            ("length", vec![int4], "42883 function length(integer) does not exist"),
            ("length", vec![unknown], "(text) integer"),
            ("left", vec![text, int8], "42883 function left(text, bigint) does not exist"),
            ("concat", vec![text, int4], "(text, integer) text"),
            (
                "array_append",
                vec![Arg::Typed(SqlType::Array(ScalarType::Int4)), number],
                "(numeric[], numeric) numeric[]",
            ),
            ("->", vec![typed(ScalarType::Jsonb), unknown], "(jsonb, text) jsonb"),
            ("->", vec![text, unknown], "42883 operator does not exist: text -> unknown"),
        ] {
            assert_eq!(meaning(name, &args), expected, "{name}");
        }
    }
}
