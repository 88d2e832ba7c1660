//! INCLUDE (...) of CREATE INDEX: columns whose values PostgreSQL keeps in an index beside its key.
//!
//! An index leads to rows here, and they have all of their columns. So what is included changes no answer; the catalog tells it, and the
//! index goes with any of these columns as with those of its key.

use ashlar_base::{Error, ErrorCode, Result, TableSchema};
use pg_query::NodeEnum;
use pg_query::protobuf::{IndexElem, Node, SortByDir, SortByNulls};

/// The ordinals of the columns that a statement includes, in its order.
///
/// # Errors
/// 42703 for a column that there is not, 0A000 for an expression, 42P17 for what only columns of a key have.
pub(super) fn columns(parameters: &[Node], schema: &TableSchema) -> Result<Vec<usize>> {
    let elements = parameters.iter().filter_map(|parameter| match &parameter.node {
        Some(NodeEnum::IndexElem(element)) => Some(element),
        _ => None,
    });
    elements.map(|element| column(element, schema)).collect()
}

fn column(element: &IndexElem, schema: &TableSchema) -> Result<usize> {
    if element.expr.is_some() {
        return Err(Error::unsupported("expressions are not supported in included columns"));
    }
    let ordinal = super::column(schema, &element.name)?;
    let has = if !element.collation.is_empty() {
        "a collation"
    } else if !element.opclass.is_empty() {
        "an operator class"
    } else if matches!(SortByDir::try_from(element.ordering), Ok(SortByDir::SortbyAsc | SortByDir::SortbyDesc)) {
        "ASC/DESC options"
    } else if matches!(
        SortByNulls::try_from(element.nulls_ordering),
        Ok(SortByNulls::SortbyNullsFirst | SortByNulls::SortbyNullsLast)
    ) {
        "NULLS FIRST/LAST options"
    } else {
        return Ok(ordinal);
    };
    Err(Error::new(ErrorCode::InvalidObjectDefinition, format!("including column does not support {has}")))
}
