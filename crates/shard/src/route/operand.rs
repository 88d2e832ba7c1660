//! What a sharding key is compared with or set to: constants and parameters, read as keys.
//!
//! Made from the tree once per statement text, asked for a value by every execution. A value that is not certain to be
//! equal to a key in PostgreSQL's eyes exactly when it is equal in ours is unknown, and then prunes nothing.

use ashlar_base::value::{binary, text};
use ashlar_base::{Result, SqlType, Value};
use pg_query::NodeEnum;
use pg_query::protobuf::{AExprKind, Node, TypeName, a_const};

use super::nodes;
use super::{Parameter, Request};
use crate::rules::{Key, KeyClass};

/// PostgreSQL's OID of `unknown`: a client that declares it declares nothing.
const UNKNOWN_OID: u32 = 705;

/// A constant or a parameter beside a column of some class.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// A constant of the class.
    Constant(Key),
    /// NULL.
    Null,
    /// A quoted constant that is to be read in the session's time zone.
    Text(Box<str>),
    /// The parameter of this number, from 0.
    Parameter(u16),
}

/// A key, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    /// This key.
    Key(Key),
    /// NULL, which is equal to nothing.
    Null,
    /// Nobody knows before the server.
    Unknown,
}

impl Operand {
    /// The operand that an expression is, beside a column of this class; `None` where it is something else.
    pub(super) fn new(node: &NodeEnum, class: KeyClass) -> Option<Self> {
        match node {
            NodeEnum::ParamRef(parameter) => {
                Some(Self::Parameter(u16::try_from(parameter.number).ok()?.checked_sub(1)?))
            }
            NodeEnum::AConst(constant) if constant.isnull => Some(Self::Null),
            NodeEnum::AConst(constant) => match constant.val.as_ref()? {
                a_const::Val::Ival(number) if class == KeyClass::Integer => {
                    Some(Self::Constant(Key::Number(i64::from(number.ival))))
                }
                a_const::Val::Fval(number) if class == KeyClass::Integer => {
                    Some(Self::Constant(Key::Number(number.fval.parse().ok()?)))
                }
                a_const::Val::Sval(string) => Self::quoted(&string.sval, class),
                _ => None,
            },
            // A minus before a number.
            NodeEnum::AExpr(expr)
                if nodes::kind(expr) == AExprKind::AexprOp
                    && expr.lexpr.is_none()
                    && nodes::operator(expr) == Some("-")
                    && class == KeyClass::Integer =>
            {
                let NodeEnum::AConst(constant) = nodes::inner(&expr.rexpr)? else { return None };
                let digits = match constant.val.as_ref()? {
                    a_const::Val::Ival(number) => number.ival.to_string(),
                    a_const::Val::Fval(number) => number.fval.clone(),
                    _ => return None,
                };
                Some(Self::Constant(Key::Number(format!("-{digits}").parse().ok()?)))
            }
            NodeEnum::TypeCast(cast) if cast_class(cast.type_name.as_ref()?) == Some(class) => {
                let arg = nodes::inner(&cast.arg)?;
                // Of a number, a cast may make another: only within a class it does not.
                Self::new(arg, class)
            }
            _ => None,
        }
    }

    fn quoted(written: &str, class: KeyClass) -> Option<Self> {
        match class {
            KeyClass::Timestamptz => Some(Self::Text(written.into())),
            KeyClass::Text => Some(Self::Constant(Key::Text(written.into()))),
            KeyClass::Integer | KeyClass::Uuid | KeyClass::Date | KeyClass::Timestamp => {
                let value = text::parse(class.sql_type(), written, &text::TextStyle::default()).ok()?;
                Key::new(class, &value.as_datum()).ok()?.map(Self::Constant)
            }
        }
    }

    /// The key under these parameters.
    pub(super) fn key(&self, class: KeyClass, request: &Request<'_>) -> Known {
        match self {
            Self::Constant(key) => Known::Key(key.clone()),
            Self::Null => Known::Null,
            Self::Text(written) => of_value(class, text::parse(class.sql_type(), written, &request.style)),
            Self::Parameter(number) => match request.parameters.get(usize::from(*number)) {
                None => Known::Unknown,
                Some(parameter) => of_parameter(class, &parameter, request),
            },
        }
    }

    /// As it was written, about.
    pub(super) fn explain(&self) -> String {
        match self {
            Self::Constant(Key::Number(number)) => number.to_string(),
            Self::Constant(Key::Text(text)) | Self::Text(text) => format!("'{text}'"),
            Self::Constant(Key::Uuid(_)) => "a uuid".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Parameter(number) => format!("${}", number + 1),
        }
    }

    /// Bytes held, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Constant(Key::Text(text)) | Self::Text(text) => size_of::<Self>() + text.len(),
            Self::Constant(_) | Self::Null | Self::Parameter(_) => size_of::<Self>(),
        }
    }
}

fn of_value(class: KeyClass, value: Result<Value>) -> Known {
    match value.and_then(|value| Key::new(class, &value.as_datum())) {
        Ok(Some(key)) => Known::Key(key),
        Ok(None) => Known::Null,
        // The server says what is wrong with it.
        Err(_) => Known::Unknown,
    }
}

fn of_parameter(class: KeyClass, parameter: &Parameter<'_>, request: &Request<'_>) -> Known {
    let Some(bytes) = parameter.bytes else { return Known::Null };
    let declared = match parameter.oid {
        0 | UNKNOWN_OID => None,
        oid => match SqlType::from_oid(oid) {
            Some(declared) if KeyClass::of(declared) == Some(class) => Some(declared),
            _ => return Known::Unknown,
        },
    };
    // What nobody declared has the type that its first place gives it, which may be another one than this: only text that is
    // the same key for all types that it can have then is read.
    let is_timeless = matches!(class, KeyClass::Integer | KeyClass::Text | KeyClass::Uuid);
    let sql_type = match declared {
        Some(declared) => declared,
        None if is_timeless && !parameter.is_binary => class.sql_type(),
        None => return Known::Unknown,
    };
    if parameter.is_binary {
        return of_value(class, binary::decode(sql_type, bytes));
    }
    match text::utf8(bytes) {
        Ok(written) => of_value(class, text::parse(sql_type, written, &request.style)),
        Err(_) => Known::Unknown,
    }
}

/// The elements of an array parameter; `None` where they are not known.
pub(super) fn elements(class: KeyClass, number: u16, request: &Request<'_>) -> Option<Vec<Key>> {
    let parameter = request.parameters.get(usize::from(number))?;
    let Some(bytes) = parameter.bytes else { return Some(Vec::new()) };
    let sql_type = SqlType::from_oid(parameter.oid).filter(|declared| declared.is_array())?;
    if KeyClass::of(SqlType::Scalar(sql_type.scalar())) != Some(class) {
        return None;
    }
    let value = if parameter.is_binary {
        binary::decode(sql_type, bytes)
    } else {
        text::utf8(bytes).and_then(|written| text::parse(sql_type, written, &request.style))
    };
    let Ok(Value::Array(values)) = value else { return None };
    // NULL in it is equal to nothing.
    values.iter().filter_map(|value| Key::new(class, &value.as_datum()).transpose()).collect::<Result<_>>().ok()
}

/// The class of keys that a cast makes, where it changes no value of that class.
pub(super) fn cast_class(type_name: &TypeName) -> Option<KeyClass> {
    if !type_name.array_bounds.is_empty() || !type_name.typmods.is_empty() || type_name.setof || type_name.pct_type {
        return None;
    }
    let names: Vec<&str> = type_name.names.iter().filter_map(nodes::string).collect();
    let name = match names[..] {
        [name] | ["pg_catalog", name] => name,
        _ => return None,
    };
    Some(match name {
        "int2" | "int4" | "int8" => KeyClass::Integer,
        "text" | "varchar" => KeyClass::Text,
        "uuid" => KeyClass::Uuid,
        "date" => KeyClass::Date,
        "timestamp" => KeyClass::Timestamp,
        "timestamptz" => KeyClass::Timestamptz,
        _ => return None,
    })
}

/// The items of `IN (...)`, of `ARRAY[...]`, or of a row.
pub(super) fn items(node: &NodeEnum) -> Option<&[Node]> {
    match node {
        NodeEnum::List(list) => Some(&list.items),
        NodeEnum::AArrayExpr(array) => Some(&array.elements),
        NodeEnum::RowExpr(row) => Some(&row.args),
        _ => None,
    }
}
