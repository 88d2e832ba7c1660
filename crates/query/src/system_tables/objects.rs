//! What has a name and a number in the catalog: by number to name and back, as the types `regclass`, `regtype`,
//! `regnamespace` and `regrole` read and write it.

use ashlar_base::{Error, ErrorCode, Result, SqlType};
use ashlar_functions::error::undefined_table;
use ashlar_functions::quoting::quote_ident;
use ashlar_store::arrow_types::parse_type;
use datafusion::sql::sqlparser::parser::Parser;

use super::functions::format_type;
use super::pg_catalog::{NAMESPACES, OWNER_OID};
use super::relations::{self, Relation};
use super::{SCHEMAS, column_sequences, system_table_oid};
use crate::catalog::CatalogState;
use crate::select::dialect::Postgres;
use crate::select::names::folded;

/// What the numbers of a type are the numbers of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Tables and indexes.
    Class,
    /// Types.
    Type,
    /// Schemas.
    Namespace,
    /// Roles.
    Role,
    /// Functions and operators: there are none with a number, and such a value is a text.
    Procedure,
}

impl ObjectKind {
    /// The kind that a type's name stands for.
    pub fn of_type(name: &str) -> Option<Self> {
        Some(match name {
            "regclass" => Self::Class,
            "regtype" => Self::Type,
            "regnamespace" => Self::Namespace,
            "regrole" => Self::Role,
            "regproc" | "regprocedure" | "regoper" | "regoperator" => Self::Procedure,
            _ => return None,
        })
    }

    /// The name of the type, the same for all of `Procedure`.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Class => "regclass",
            Self::Type => "regtype",
            Self::Namespace => "regnamespace",
            Self::Role => "regrole",
            Self::Procedure => "regproc",
        }
    }
}

/// The number of what a text names; a text of digits is the number itself.
///
/// # Errors
/// 42P01, 42704, 3F000: there is nothing of the name.
pub(super) fn number(catalog: &CatalogState, kind: ObjectKind, text: &str) -> Result<i64> {
    let text = text.trim();
    if text == "-" {
        return Ok(0);
    }
    if let Ok(number) = text.parse::<u32>() {
        return Ok(i64::from(number));
    }
    let undefined = |what: &str, name: &str| {
        Err(Error::new(ErrorCode::UndefinedObject, format!("{what} \"{name}\" does not exist")))
    };
    match kind {
        ObjectKind::Class => class_number(catalog, text),
        ObjectKind::Type => match type_of(text) {
            Some(sql_type) => Ok(i64::from(sql_type.oid())),
            None => undefined("type", text),
        },
        ObjectKind::Namespace => {
            let name = one_name(text)?;
            NAMESPACES.iter().find(|(_, known)| *known == name).map(|(oid, _)| *oid).ok_or_else(|| no_schema(&name))
        }
        ObjectKind::Role => {
            let name = one_name(text)?;
            if name == catalog.identity().user { Ok(OWNER_OID) } else { undefined("role", &name) }
        }
        ObjectKind::Procedure => {
            Err(Error::new(ErrorCode::UndefinedFunction, format!("function \"{text}\" does not exist")))
        }
    }
}

/// How a number is written: the name where there is one, the digits where there is none.
pub(super) fn name(catalog: &CatalogState, relations: &[Relation], kind: ObjectKind, number: i64) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let found = match kind {
        ObjectKind::Class => class_name(relations, number).or_else(|| {
            let mut sequences = column_sequences::all(catalog, relations).into_iter();
            sequences.find(|sequence| sequence.oid == number).map(|sequence| quote_ident(&sequence.name))
        }),
        ObjectKind::Type => Some(format_type(number, -1)).filter(|name| name != "???"),
        ObjectKind::Namespace => NAMESPACES.iter().find(|(oid, _)| *oid == number).map(|(_, name)| quote_ident(name)),
        ObjectKind::Role => (number == OWNER_OID).then(|| quote_ident(&catalog.identity().user)),
        ObjectKind::Procedure => None,
    };
    found.unwrap_or_else(|| number.to_string())
}

fn class_name(relations: &[Relation], number: i64) -> Option<String> {
    for relation in relations {
        if relation.oid == number {
            return Some(quote_ident(&relation.name));
        }
    }
    if let Some((_, index)) = relations::index(relations, number) {
        return Some(quote_ident(&index.name));
    }
    for (schema, groups) in SCHEMAS {
        for definition in groups.iter().copied().flatten() {
            if system_table_oid(schema, definition.name) == Some(number) {
                let name = quote_ident(definition.name);
                return Some(if *schema == "pg_catalog" { name } else { format!("{schema}.{name}") });
            }
        }
    }
    None
}

fn class_number(catalog: &CatalogState, text: &str) -> Result<i64> {
    let parts = names(text)?;
    let (schema, name) = match &parts[..] {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        [database, schema, name] if *database == catalog.identity().database => (Some(schema.as_str()), name),
        _ => return Err(Error::unsupported(format!("cross-database references are not implemented: \"{text}\""))),
    };
    if let Some(schema) = schema
        && !NAMESPACES.iter().any(|(_, known)| *known == schema)
    {
        return Err(no_schema(schema));
    }
    let system = system_table_oid(schema.unwrap_or("pg_catalog"), name);
    if let Some(oid) = system {
        return Ok(oid);
    }
    let shown = schema.map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
    if !matches!(schema, None | Some("public")) {
        return Err(undefined_table(&shown));
    }
    let relations = relations::all(catalog);
    let table = relations.iter().find(|relation| relation.name == *name).map(|relation| relation.oid);
    let index = || relations::index_named(&relations, name).map(|(_, index)| index.oid);
    let sequence = || {
        let mut sequences = column_sequences::all(catalog, &relations).into_iter();
        sequences.find(|sequence| sequence.name == *name).map(|sequence| sequence.oid)
    };
    table.or_else(index).or_else(sequence).ok_or_else(|| undefined_table(&shown))
}

/// The type of a name as SQL writes it.
fn type_of(text: &str) -> Option<SqlType> {
    if let Some(known) = parse_type(text) {
        return Some(known);
    }
    let parsed = Parser::new(&Postgres).try_with_sql(text).and_then(|mut parser| parser.parse_data_type());
    crate::expressions::sql_type_of(&parsed.ok()?).ok().flatten()
}

/// The parts of a dotted name, folded.
///
/// # Errors
/// 42602 where the text is none.
pub(crate) fn names(text: &str) -> Result<Vec<String>> {
    let invalid = || Error::new(ErrorCode::InvalidName, "invalid name syntax");
    let mut parser = Parser::new(&Postgres).try_with_sql(text).map_err(|_| invalid())?;
    let name = parser.parse_object_name(false).map_err(|_| invalid())?;
    name.0.iter().map(|part| part.as_ident().map(folded).ok_or_else(invalid)).collect()
}

fn one_name(text: &str) -> Result<String> {
    let mut parts = names(text)?;
    match parts.len() {
        1 => Ok(parts.remove(0)),
        _ => Err(Error::new(ErrorCode::InvalidName, "invalid name syntax")),
    }
}

/// 3F000.
pub(super) fn no_schema(name: &str) -> Error {
    Error::new(ErrorCode::InvalidSchemaName, format!("schema \"{name}\" does not exist"))
}
