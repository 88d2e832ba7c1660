//! `json_to_record`, `jsonb_to_recordset` and their kin in FROM: columns that the statement declares, of the fields of objects.
//!
//! Called for the functions in FROM that give rows. A field is read as its column's type reads a text; a value that is read in another way, such
//! as an array's, is refused.

use ashlar_base::{Error, ErrorCode, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Ident, TableAlias, TableFactor, Value,
};

use super::super::names::folded;
use super::super::nodes::call;
use super::{Call, json_type, query_of, reads_columns, unnested};

/// Whether a function's columns are those that its alias declares.
pub(super) fn is_one(function: &str) -> bool {
    matches!(function, "json_to_record" | "jsonb_to_record" | "json_to_recordset" | "jsonb_to_recordset")
}

/// The query that reads the fields.
///
/// # Errors
/// 42601 without types of the columns, 0A000 for types whose values are not read out of a text.
pub(super) fn derived(from: Call) -> Result<TableFactor> {
    let undeclared = || {
        let message = "a column definition list is required for functions returning \"record\"";
        Error::new(ErrorCode::SyntaxError, message)
    };
    if from.ordinality {
        return Err(Error::new(ErrorCode::SyntaxError, "WITH ORDINALITY cannot be used with a column definition list"));
    }
    let alias = from.alias.filter(|alias| !alias.columns.is_empty()).ok_or_else(undeclared)?;
    let lateral = from.args.iter().any(reads_columns);
    let is_set = from.name.ends_with("set");
    let objects = call(&format!("{}\u{1}", from.name), from.args);
    let objects = if is_set { unnested(objects, json_type(&from.name)) } else { objects };
    let object = Ident::new("object");
    let mut items = Vec::with_capacity(alias.columns.len());
    for column in &alias.columns {
        let data_type = column.data_type.clone().ok_or_else(undeclared)?;
        let field = field_of(Expr::Identifier(object.clone()), &folded(&column.name), &from.name, data_type)?;
        items.push((field, column.name.clone()));
    }
    let objects = query_of([(objects, object)].into_iter(), None)?;
    let subquery = query_of(items.into_iter(), Some(objects))?;
    let alias = Some(TableAlias { columns: Vec::new(), ..alias });
    Ok(TableFactor::Derived { lateral, subquery, alias, sample: None })
}

/// A field of an object as a value of a type. NULL in JSON is NULL.
fn field_of(object: Expr, name: &str, function: &str, data_type: DataType) -> Result<Expr> {
    let key = Expr::value(Value::SingleQuotedString(name.to_owned()));
    let field = match &data_type {
        DataType::JSON | DataType::JSONB => {
            let kin = if function.starts_with("jsonb") { "jsonb field" } else { "json field" };
            call(kin, vec![object, key])
        }
        // Not in the words of their own text.
        DataType::Array(_) | DataType::Bytea => return Err(refused(&data_type)),
        // A cast cuts what is too long, where reading it is an error.
        DataType::Char(_) | DataType::Character(_) => return Err(refused(&data_type)),
        DataType::Varchar(Some(_)) | DataType::CharacterVarying(Some(_)) | DataType::CharVarying(Some(_)) => {
            return Err(refused(&data_type));
        }
        _ => {
            let text = Expr::BinaryOp { left: Box::new(object), op: BinaryOperator::LongArrow, right: Box::new(key) };
            Expr::Nested(Box::new(text))
        }
    };
    Ok(Expr::Cast { kind: CastKind::Cast, expr: Box::new(field), data_type, array: false, format: None })
}

fn refused(data_type: &DataType) -> Error {
    Error::unsupported(format!("a column of type {data_type} out of JSON is not supported"))
        .with_hint("Declare it as text or jsonb, and cast it.")
}
