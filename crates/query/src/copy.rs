//! COPY: plans its table or query, columns and format, and reads fields. The door transfers the bytes, and the store keeps the rows.

use std::sync::Arc;

use ashlar_base::value::text::TextStyle;
use ashlar_base::value::{binary, plain, text};
use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, SqlType, TableSchema, Value};
use ashlar_store::Region;
use pg_query::NodeEnum;
use pg_query::protobuf::{CopyStmt, DefElem};

use crate::catalog::{CatalogState, Table};
use crate::ddl::relation_name;
use crate::dml::default_plans;
use crate::engine::Engine;
use crate::select::{Planner, SelectPlan, expiry};
use crate::sharded::CopyInto;
use crate::sql_types;

/// A format of COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// The text format, with tabs and backslashes.
    #[default]
    Text,
    /// CSV, with commas and quotes.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// The options of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The form.
    pub format: CopyFormat,
    /// The separator of fields.
    pub delimiter: u8,
    /// The text that stands for NULL.
    pub null: String,
    /// Whether the first line names the columns.
    pub header: bool,
    /// The quote around fields of CSV.
    pub quote: u8,
    /// The escape before a quote inside a quoted field.
    pub escape: u8,
}

/// A COPY statement.
pub enum CopyPlan {
    /// FROM STDIN
    In {
        /// The table.
        region: Arc<Region>,
        /// The table's shape, to which the ordinals refer.
        schema: Arc<TableSchema>,
        /// Ordinals of the columns that the input has.
        targets: Vec<usize>,
        /// Defaults of columns that are not in the input. They are computed once.
        defaults: Vec<(usize, SelectPlan)>,
        /// The form.
        options: CopyOptions,
    },
    /// FROM STDIN into a sharded table
    Into(Arc<CopyInto>),
    /// TO STDOUT
    Out {
        /// The rows.
        select: Box<SelectPlan>,
        /// The form.
        options: CopyOptions,
    },
}

impl CopyPlan {
    /// Plans a COPY.
    ///
    /// # Errors
    /// 42P01, 42703, 22023; 0A000 for files and programs of the server.
    pub fn new(engine: &Engine, catalog: &Arc<CatalogState>, statement: &CopyStmt) -> Result<Self> {
        if statement.is_program || !statement.filename.is_empty() {
            return Err(Error::unsupported("COPY from or to a file or program of the server is not supported")
                .with_hint("Use COPY ... FROM STDIN or TO STDOUT; psql's \\copy does."));
        }
        if statement.where_clause.is_some() {
            return Err(Error::unsupported("COPY ... WHERE is not supported"));
        }
        let options = options(&statement.options)?;
        if statement.is_from {
            let name = relation_name(statement.relation.as_ref())?;
            if let Some(Table::Sharded(table)) = catalog.table(&name) {
                let targets = targets_of(&table.schema, statement)?;
                return CopyInto::new(table, targets, options).map(|into| Self::Into(Arc::new(into)));
            }
            let region = Arc::clone(catalog.grid(&name)?);
            let schema = region.schema();
            let names_expiry = |name: &str| name == expiry::NAME && schema.column(name).is_none();
            if statement.attlist.iter().filter_map(sql_types::string_of).any(names_expiry) {
                return Err(Error::unsupported(format!("COPY of {} is not supported", expiry::NAME))
                    .with_hint("COPY into another table, and INSERT ... SELECT from that."));
            }
            let targets = targets_of(&schema, statement)?;
            let defaults = default_plans(engine, catalog, &schema, |ordinal| !targets.contains(&ordinal))?;
            if let Some((ordinal, _)) = defaults.iter().find(|(_, plan)| plan.is_volatile()) {
                let column = &schema.columns[*ordinal].name;
                let message =
                    format!("COPY that leaves out column \"{column}\", whose default is volatile, is not supported");
                return Err(Error::unsupported(message)
                    .with_hint("Have the column in the data, or COPY into another table and INSERT from there."));
            }
            return Ok(Self::In { region, schema, targets, defaults, options });
        }
        let text = match &statement.query {
            Some(query) => {
                let node = query.node.as_ref().ok_or_else(|| Error::internal("COPY of no query"))?;
                crate::statement::statement_text(node)?
            }
            None => {
                let name = relation_name(statement.relation.as_ref())?;
                if !matches!(catalog.table(&name), Some(Table::Grid(_) | Table::File(_) | Table::Sharded(_))) {
                    return Err(ashlar_functions::error::undefined_table(&name));
                }
                let mut names: Vec<String> = Vec::new();
                for column in statement.attlist.iter().filter_map(sql_types::string_of) {
                    let name = quoted(column);
                    if names.contains(&name) {
                        let message = format!("column \"{column}\" specified more than once");
                        return Err(Error::new(ErrorCode::DuplicateColumn, message));
                    }
                    names.push(name);
                }
                let list = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
                format!("SELECT {list} FROM {}", quoted(&name))
            }
        };
        let planner = Planner::new(engine, catalog).of_text(&text);
        let select = SelectPlan::new(&planner, crate::select::parse(&text)?, &[])?;
        Ok(Self::Out { select: Box::new(select), options })
    }
}

/// The columns that the input of a COPY FROM has.
fn targets_of(schema: &TableSchema, statement: &CopyStmt) -> Result<Vec<usize>> {
    let mut targets = Vec::new();
    for name in statement.attlist.iter().filter_map(sql_types::string_of) {
        let ordinal = schema.column(name).ok_or_else(|| {
            Error::new(
                ErrorCode::UndefinedColumn,
                format!("column \"{name}\" of relation \"{}\" does not exist", schema.name),
            )
        })?;
        if targets.contains(&ordinal) {
            return Err(Error::new(ErrorCode::DuplicateColumn, format!("column \"{name}\" specified more than once")));
        }
        targets.push(ordinal);
    }
    if targets.is_empty() {
        targets = (0..schema.visible_columns().len()).collect();
    }
    Ok(targets)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn options(nodes: &[pg_query::Node]) -> Result<CopyOptions> {
    let mut format = CopyFormat::Text;
    let (mut delimiter, mut null, mut header, mut quote, mut escape) = (None, None, false, None, None);
    let elements = nodes.iter().filter_map(|node| match &node.node {
        Some(NodeEnum::DefElem(element)) => Some(element.as_ref()),
        _ => None,
    });
    let mut given: Vec<&str> = Vec::new();
    for element in elements {
        if given.contains(&element.defname.as_str()) {
            return Err(Error::new(ErrorCode::SyntaxError, "conflicting or redundant options"));
        }
        given.push(&element.defname);
        match element.defname.as_str() {
            "format" => format = format_of(element)?,
            "delimiter" => delimiter = Some(one_byte(element, "delimiter")?),
            "null" => null = Some(text_of(element)),
            "header" => header = is_true(element)?,
            "quote" => quote = Some(one_byte(element, "quote")?),
            "escape" => escape = Some(one_byte(element, "escape")?),
            // How rows are frozen is PostgreSQL's affair: they are what they are without.
            "freeze" => {
                is_true(element)?;
            }
            "encoding" if matches!(text_of(element).to_ascii_uppercase().as_str(), "UTF8" | "UTF-8") => {}
            other => return Err(Error::unsupported(format!("COPY option \"{other}\" is not supported"))),
        }
    }
    if format != CopyFormat::Csv && (quote.is_some() || escape.is_some()) {
        return Err(Error::unsupported("COPY quote and escape are available only in CSV mode"));
    }
    if format == CopyFormat::Binary && (delimiter.is_some() || null.is_some() || header) {
        return Err(Error::new(ErrorCode::SyntaxError, "cannot specify DELIMITER, NULL or HEADER in BINARY mode"));
    }
    let is_csv = format == CopyFormat::Csv;
    let quote = quote.unwrap_or(b'"');
    Ok(CopyOptions {
        format,
        delimiter: delimiter.unwrap_or(if is_csv { b',' } else { b'\t' }),
        null: null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() }),
        header,
        quote,
        escape: escape.unwrap_or(quote),
    })
}

fn format_of(element: &DefElem) -> Result<CopyFormat> {
    match text_of(element).to_ascii_lowercase().as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        other => Err(Error::new(ErrorCode::InvalidParameterValue, format!("COPY format \"{other}\" not recognized"))),
    }
}

fn text_of(element: &DefElem) -> String {
    match element.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::String(string)) => string.sval.clone(),
        Some(NodeEnum::Integer(integer)) => integer.ival.to_string(),
        Some(NodeEnum::Boolean(boolean)) => boolean.boolval.to_string(),
        _ => String::new(),
    }
}

fn one_byte(element: &DefElem, name: &str) -> Result<u8> {
    match text_of(element).as_bytes() {
        [byte] if !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => {
            Err(Error::new(ErrorCode::FeatureNotSupported, format!("COPY {name} must be a single one-byte character")))
        }
    }
}

fn is_true(element: &DefElem) -> Result<bool> {
    match text_of(element).to_ascii_lowercase().as_str() {
        "" | "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        other => Err(Error::unsupported(format!("COPY {} \"{other}\" is not supported", element.defname))),
    }
}

/// A field that was read.
pub enum Field<'f> {
    /// A value that needs no memory beside the data.
    Datum(Datum<'f>),
    /// A value with bytes of its own.
    Value(Value),
}

/// Reads one field of the text or CSV form.
///
/// # Errors
/// 22P02 and the like, with the column named.
pub fn text_field<'f>(
    schema: &TableSchema,
    ordinal: usize,
    field: Option<&'f [u8]>,
    style: &TextStyle,
) -> Result<Field<'f>> {
    let column = &schema.columns[ordinal];
    let Some(bytes) = field else { return Ok(Field::Datum(Datum::Null)) };
    if let Some(number) = plain::number(column.sql_type, bytes) {
        return Ok(Field::Datum(number));
    }
    let read = text::utf8(bytes).and_then(|text| match column.sql_type {
        SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { length: None }) => Ok(Field::Datum(Datum::Text(text))),
        sql_type => text::parse(sql_type, text, style).map(Field::of),
    });
    read.map_err(|error| error.with_column(column.name.clone()))
}

/// Reads one field of the binary form.
///
/// # Errors
/// 22P03, with the column named.
pub fn binary_field<'f>(schema: &TableSchema, ordinal: usize, field: Option<&'f [u8]>) -> Result<Field<'f>> {
    let column = &schema.columns[ordinal];
    let Some(bytes) = field else { return Ok(Field::Datum(Datum::Null)) };
    binary::decode(column.sql_type, bytes).map(Field::of).map_err(|error| error.with_column(column.name.clone()))
}

impl Field<'_> {
    fn of(value: Value) -> Self {
        value.into_datum().map_or_else(Field::Value, Field::Datum)
    }
}
