//! Which overload a call means: PostgreSQL's rules, as far as these functions need them.
//!
//! Source: PostgreSQL's documentation, "Function Type Resolution" and "Operator Type Resolution".

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};

use super::{Argument, Kind, Overload, TimeFunction};

/// How well an argument's type fits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Converted,
    Preferred,
    Exact,
}

fn fit(from: SqlType, to: Kind) -> Option<Fit> {
    use ScalarType as T;
    let SqlType::Scalar(from) = from else { return None };
    Some(match (from, to) {
        (T::Bool, Kind::Bool)
        | (T::Text, Kind::Text)
        | (T::Int4, Kind::Int)
        | (T::Float8, Kind::Float)
        | (T::Numeric { .. }, Kind::Numeric)
        | (T::Date, Kind::Date)
        | (T::Time, Kind::Time)
        | (T::Timestamp, Kind::Timestamp)
        | (T::Timestamptz, Kind::Timestamptz)
        | (T::Interval, Kind::Interval) => Fit::Exact,
        (T::Varchar { .. }, Kind::Text) => Fit::Preferred,
        // Before literals are narrowed every integer is a bigint.
        (T::Int2 | T::Int8, Kind::Int) => Fit::Converted,
        (T::Int2 | T::Int4 | T::Int8 | T::Float4 | T::Numeric { .. }, Kind::Float) => Fit::Preferred,
        // An integer keeps all its digits.
        (T::Int2 | T::Int4 | T::Int8, Kind::Numeric) => Fit::Exact,
        (T::Date, Kind::Timestamp) => Fit::Converted,
        (T::Date | T::Timestamp, Kind::Timestamptz) => Fit::Preferred,
        (T::Time, Kind::Interval) => Fit::Preferred,
        _ => return None,
    })
}

fn is_preferred(kind: Kind) -> bool {
    matches!(kind, Kind::Timestamptz | Kind::Interval | Kind::Float | Kind::Text | Kind::Bool)
}

fn category(kind: Kind) -> u8 {
    match kind {
        Kind::Bool => 0,
        Kind::Text => 1,
        Kind::Int | Kind::Float | Kind::Numeric => 2,
        Kind::Date | Kind::Time | Kind::Timestamp | Kind::Timestamptz => 3,
        Kind::Interval => 4,
    }
}

impl TimeFunction {
    /// The overload that these arguments mean.
    ///
    /// # Errors
    /// 42883 where there is none, 42725 where several fit equally.
    pub(super) fn resolve(&self, arguments: &[Argument]) -> Result<&'static Overload> {
        // In an operator a quoted string is first taken to be what the other side is.
        if self.symbol.is_some()
            && let [left, right] = arguments
            && let (Some(known), None) | (None, Some(known)) = (left.sql_type, right.sql_type)
        {
            let both = self.overloads.iter().find(|overload| {
                overload.args.len() == 2 && overload.args.iter().all(|kind| fit(known, *kind) == Some(Fit::Exact))
            });
            if let Some(both) = both {
                return Ok(both);
            }
        }
        let mut candidates: Vec<&'static Overload> =
            self.overloads
                .iter()
                .filter(|overload| {
                    overload.args.len() == arguments.len()
                        && overload.args.iter().zip(arguments).all(|(kind, argument)| {
                            argument.sql_type.is_none_or(|sql_type| fit(sql_type, *kind).is_some())
                        })
                })
                .collect();
        let count = |overload: &Overload, least: Fit| {
            let fits = overload.args.iter().zip(arguments);
            fits.filter(|(kind, argument)| {
                argument.sql_type.is_some_and(|sql_type| fit(sql_type, **kind).is_some_and(|fit| fit >= least))
            })
            .count()
        };
        for least in [Fit::Exact, Fit::Preferred] {
            let best = candidates.iter().map(|overload| count(overload, least)).max().unwrap_or(0);
            candidates.retain(|overload| count(overload, least) == best);
        }
        for place in (0..arguments.len()).filter(|place| arguments[*place].sql_type.is_none()) {
            if candidates.len() < 2 {
                break;
            }
            if candidates.iter().any(|overload| overload.args[place] == Kind::Text) {
                candidates.retain(|overload| overload.args[place] == Kind::Text);
                continue;
            }
            let first = category(candidates[0].args[place]);
            let same = candidates.iter().all(|overload| category(overload.args[place]) == first);
            if same && candidates.iter().any(|overload| is_preferred(overload.args[place])) {
                candidates.retain(|overload| is_preferred(overload.args[place]));
            }
        }
        match candidates[..] {
            [only] => Ok(only),
            [] => Err(self.undefined(arguments)),
            _ => Err(Error::new(ErrorCode::AmbiguousFunction, format!("{} is not unique", self.shown(arguments)))
                .with_hint("Could not choose a best candidate function. You might need to add explicit type casts.")),
        }
    }

    fn shown(&self, arguments: &[Argument]) -> String {
        let names: Vec<String> = arguments
            .iter()
            .map(|argument| match argument.sql_type {
                None => "unknown".to_owned(),
                Some(SqlType::Scalar(ScalarType::Numeric { .. })) => "numeric".to_owned(),
                Some(other) => other.to_string(),
            })
            .collect();
        match (self.symbol, &names[..]) {
            (Some(symbol), [left, right]) => format!("operator {left} {symbol} {right}"),
            (Some(symbol), [only]) => format!("operator {symbol} {only}"),
            _ => format!("function {}({})", self.name, names.join(", ")),
        }
    }

    fn undefined(&self, arguments: &[Argument]) -> Error {
        let shown = self.shown(arguments);
        let (message, what) = match shown.strip_prefix("operator ") {
            Some(operator) => (format!("operator does not exist: {operator}"), "operator"),
            None => (format!("{shown} does not exist"), "function"),
        };
        Error::new(ErrorCode::UndefinedFunction, message).with_hint(format!(
            "No {what} matches the given name and argument types. You might need to add explicit type casts."
        ))
    }
}
