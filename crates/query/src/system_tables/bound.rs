//! Functions whose answer depends on the catalog or on the session: each is made anew for the version of the catalog
//! that a statement is planned against.
//!
//! The planner asks [`find`] before it looks among the functions that are the same for all sessions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use ashlar_base::{Error, ErrorCode, IndexKind, ScalarType};
use ashlar_functions::error::external;
use ashlar_functions::fields::field_of;
use ashlar_functions::quoting::quote_ident;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::counters::{self, Counter};
use super::descriptions::{self, Described};
use super::functions::cast;
use super::objects::{self, ObjectKind};
use super::pg_catalog::{DATABASE_OID, NAMESPACES, OWNER_OID};
use super::relations::{self, ConstraintKind, Relation};
use crate::catalog::{CatalogState, Table};

/// The metadata key of a field whose numbers are those of objects: it names the type, such as `regclass`.
pub const OBJECT_METADATA: &str = "ashlar.object";

/// What a function answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The user.
    User,
    /// The database.
    Database,
    /// The session's number.
    Pid,
    /// The value of a setting of the session.
    Setting,
    /// The name of a role by its OID.
    Role,
    /// The number of an object by its name, which must be there: a cast of text to `regclass` and the like.
    Number(ObjectKind),
    /// The same, NULL where there is none: `to_regclass` and the like.
    KnownNumber(ObjectKind),
    /// A number taken as that of an object: a cast of a number to `regclass` and the like.
    Object(ObjectKind),
    /// The name of an object by its number: a cast of `regclass` and the like to text.
    Name(ObjectKind),
    /// The name of a function, as the system tables give it.
    FunctionName,
    /// CREATE INDEX of an index, or one of its columns.
    IndexDefinition,
    /// A constraint as it stands in CREATE TABLE.
    ConstraintDefinition,
    /// Bytes of a table, without its indexes.
    TableBytes,
    /// Bytes of a table's indexes: they are counted with the table.
    IndexBytes,
    /// Bytes of all tables.
    DatabaseBytes,
    /// Whether a table can be replicated.
    Publishable,
    /// Whether the one role may do something with a table: it may do everything.
    TablePrivilege,
    /// The same of a schema.
    SchemaPrivilege,
    /// The same of the database.
    DatabasePrivilege,
    /// What COMMENT says of an object.
    Comment,
    /// The same of a column.
    ColumnComment,
    /// The same of the database.
    SharedComment,
    /// A number of a sequence.
    Counted(Counter),
    /// The sequence of a column.
    SerialSequence,
}

/// A function over one picture of the catalog.
struct BoundFunction {
    name: &'static str,
    answer: Answer,
    signature: Signature,
    catalog: Arc<CatalogState>,
}

impl fmt::Debug for BoundFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundFunction").field("name", &self.name).field("answer", &self.answer).finish_non_exhaustive()
    }
}

impl PartialEq for BoundFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.answer == other.answer && Arc::ptr_eq(&self.catalog, &other.catalog)
    }
}

impl Eq for BoundFunction {}

impl Hash for BoundFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.answer).hash(state);
    }
}

/// Names with the counts of arguments they take.
const FUNCTIONS: &[(&str, Answer, &[usize])] = &[
    ("current_user", Answer::User, &[0]),
    ("session_user", Answer::User, &[0]),
    ("current_role", Answer::User, &[0]),
    ("user", Answer::User, &[0]),
    ("current_database", Answer::Database, &[0]),
    ("current_catalog", Answer::Database, &[0]),
    ("pg_backend_pid", Answer::Pid, &[0]),
    ("current_setting", Answer::Setting, &[1, 2]),
    ("pg_get_userbyid", Answer::Role, &[1]),
    ("to_regclass", Answer::KnownNumber(ObjectKind::Class), &[1]),
    ("to_regtype", Answer::KnownNumber(ObjectKind::Type), &[1]),
    ("to_regnamespace", Answer::KnownNumber(ObjectKind::Namespace), &[1]),
    ("to_regrole", Answer::KnownNumber(ObjectKind::Role), &[1]),
    ("pg_get_indexdef", Answer::IndexDefinition, &[1, 3]),
    ("pg_get_constraintdef", Answer::ConstraintDefinition, &[1, 2]),
    ("pg_table_size", Answer::TableBytes, &[1]),
    ("pg_relation_size", Answer::TableBytes, &[1, 2]),
    ("pg_total_relation_size", Answer::TableBytes, &[1]),
    ("pg_indexes_size", Answer::IndexBytes, &[1]),
    ("pg_database_size", Answer::DatabaseBytes, &[1]),
    ("pg_relation_is_publishable", Answer::Publishable, &[1]),
    ("has_table_privilege", Answer::TablePrivilege, &[2, 3]),
    ("has_any_column_privilege", Answer::TablePrivilege, &[2, 3]),
    ("has_schema_privilege", Answer::SchemaPrivilege, &[2, 3]),
    ("has_database_privilege", Answer::DatabasePrivilege, &[2, 3]),
    ("obj_description", Answer::Comment, &[1, 2]),
    ("col_description", Answer::ColumnComment, &[2]),
    ("shobj_description", Answer::SharedComment, &[2]),
    // Of which `gathering` adds the last argument, but to `lastval`.
    ("nextval", Answer::Counted(Counter::Next), &[2]),
    ("currval", Answer::Counted(Counter::Current), &[2]),
    ("lastval", Answer::Counted(Counter::Last), &[0]),
    ("setval", Answer::Counted(Counter::Set), &[3, 4]),
    ("pg_get_serial_sequence", Answer::SerialSequence, &[2]),
];

/// The function of this name, for a picture of the catalog.
pub fn find(catalog: &Arc<CatalogState>, name: &str) -> Option<Arc<ScalarUDF>> {
    let (name, answer, arities) = FUNCTIONS.iter().find(|(known, ..)| *known == name)?;
    Some(make(catalog, name, *answer, arities))
}

/// All of them.
#[cfg(test)]
pub(super) fn all(catalog: &Arc<CatalogState>) -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS.iter().map(|(name, answer, arities)| make(catalog, name, *answer, arities)).collect()
}

/// A cast to or from a type whose values are the numbers of objects.
pub fn object_cast(catalog: &Arc<CatalogState>, answer: Answer) -> Arc<ScalarUDF> {
    let name = match answer {
        Answer::Number(kind) | Answer::Object(kind) => kind.type_name(),
        _ => "text",
    };
    make(catalog, name, answer, &[1])
}

fn make(catalog: &Arc<CatalogState>, name: &'static str, answer: Answer, arities: &[usize]) -> Arc<ScalarUDF> {
    // Whoever plans with this function plans for one session.
    let _ = catalog.identity();
    let arity = |count: &usize| if *count == 0 { TypeSignature::Nullary } else { TypeSignature::Any(*count) };
    // A size is of the moment when it is asked, not of the moment when the statement was planned.
    let volatility = match answer {
        Answer::TableBytes | Answer::DatabaseBytes | Answer::Counted(_) => Volatility::Volatile,
        _ => Volatility::Stable,
    };
    let signature = Signature::one_of(arities.iter().map(arity).collect(), volatility);
    Arc::new(ScalarUDF::from(BoundFunction { name, answer, signature, catalog: Arc::clone(catalog) }))
}

impl ScalarUDFImpl for BoundFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.answer {
            Answer::Pid => DataType::Int32,
            Answer::Number(_)
            | Answer::KnownNumber(_)
            | Answer::Object(_)
            | Answer::TableBytes
            | Answer::IndexBytes
            | Answer::DatabaseBytes
            | Answer::Counted(_) => DataType::Int64,
            Answer::Publishable | Answer::TablePrivilege | Answer::SchemaPrivilege | Answer::DatabasePrivilege => {
                DataType::Boolean
            }
            _ => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = self.return_type(&[])?;
        Ok(match self.answer {
            Answer::Number(kind) | Answer::KnownNumber(kind) | Answer::Object(kind) => object_field(kind),
            _ => match data_type {
                DataType::Utf8 => field_of(self.name, ScalarType::Text.into()),
                other => Arc::new(Field::new(self.name, other, true)),
            },
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let identity = || self.catalog.identity();
        match self.answer {
            Answer::User => return Ok(ColumnarValue::Scalar(ScalarValue::from(identity().user.as_str()))),
            Answer::Database => return Ok(ColumnarValue::Scalar(ScalarValue::from(identity().database.as_str()))),
            Answer::Pid => return Ok(ColumnarValue::Scalar(ScalarValue::from(identity().pid))),
            // Another one for each row.
            Answer::Counted(counter) => {
                let numbers = counters::numbers(&self.catalog, counter, &args.args, args.number_rows)?;
                return Ok(ColumnarValue::Array(numbers));
            }
            _ => {}
        }
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let result = self.answer(&ColumnarValue::values_to_arrays(&args.args)?)?;
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// The field of numbers of objects.
pub fn object_field(kind: ObjectKind) -> FieldRef {
    let metadata = [(OBJECT_METADATA.to_owned(), kind.type_name().to_owned())];
    Arc::new(Field::new(kind.type_name(), DataType::Int64, true).with_metadata(metadata.into()))
}

impl BoundFunction {
    fn answer(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let Some(first) = args.first() else {
            return internal_err!("{} takes an argument", self.name);
        };
        let catalog = &self.catalog;
        match self.answer {
            Answer::Role => {
                let user = &catalog.identity().user;
                texts(first, |number| {
                    Some(if number == OWNER_OID { user.clone() } else { format!("unknown (OID={number})") })
                })
            }
            Answer::Setting => self.settings(args),
            Answer::Number(kind) => {
                let names = cast(first, &DataType::Utf8)?;
                let number = |text: Option<&str>| text.map(|text| objects::number(catalog, kind, text)).transpose();
                let numbers: ashlar_base::Result<Int64Array> = names.as_string::<i32>().iter().map(number).collect();
                Ok(Arc::new(numbers.map_err(external)?))
            }
            Answer::KnownNumber(kind) => {
                let names = cast(first, &DataType::Utf8)?;
                let number = |text: Option<&str>| text.and_then(|text| objects::number(catalog, kind, text).ok());
                Ok(Arc::new(names.as_string::<i32>().iter().map(number).collect::<Int64Array>()))
            }
            Answer::Object(_) => cast(first, &DataType::Int64),
            Answer::Name(kind) => {
                let relations = relations::all(catalog);
                texts(first, |number| Some(objects::name(catalog, &relations, kind, number)))
            }
            Answer::FunctionName => {
                let names = cast(first, &DataType::Utf8)?;
                let name = |name: &str| name.strip_prefix("pg_catalog.").unwrap_or(name).to_owned();
                Ok(Arc::new(names.as_string::<i32>().iter().map(|text| text.map(name)).collect::<StringArray>()))
            }
            Answer::IndexDefinition => self.index_definition(args),
            Answer::ConstraintDefinition => self.constraint_definition(args),
            Answer::TableBytes | Answer::IndexBytes => {
                let numbers = self.numbers(first, ObjectKind::Class)?;
                let relations = relations::all(catalog);
                let bytes = |oid: Option<i64>| {
                    let oid = oid?;
                    if relations::index(&relations, oid).is_some() {
                        return Some(0);
                    }
                    let (_, table) = catalog.tables().find(|(_, table)| i64::from(table.id().0) == oid)?;
                    Some(if self.answer == Answer::IndexBytes { 0 } else { table_bytes(table) })
                };
                Ok(Arc::new(numbers.iter().map(bytes).collect::<Int64Array>()))
            }
            Answer::DatabaseBytes => {
                self.check_database(first)?;
                let all: i64 = catalog.tables().map(|(_, table)| table_bytes(table)).sum();
                Ok(Arc::new((0..first.len()).map(|row| is_known(first, row).then_some(all)).collect::<Int64Array>()))
            }
            Answer::Publishable => {
                let numbers = self.numbers(first, ObjectKind::Class)?;
                let relations = relations::all(catalog);
                let is_table = |oid: Option<i64>| {
                    oid.map(|oid| relations.iter().any(|relation| relation.oid == oid && !relation.is_foreign))
                };
                Ok(Arc::new(numbers.iter().map(is_table).collect::<BooleanArray>()))
            }
            Answer::TablePrivilege | Answer::SchemaPrivilege | Answer::DatabasePrivilege => self.privilege(args),
            Answer::Comment | Answer::ColumnComment | Answer::SharedComment => self.comments(args),
            Answer::SerialSequence => counters::serial_sequences(catalog, args),
            Answer::Counted(_) => internal_err!("{} is asked for each row", self.name),
            Answer::User | Answer::Database | Answer::Pid => internal_err!("{} takes no argument", self.name),
        }
    }

    /// Values of settings, as SHOW writes them. NULL for one that there is not, where that is asked for.
    fn settings(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let (known, own) = (&self.catalog.identity().settings, &self.catalog.identity().parameters);
        let names = cast(&args[0], &DataType::Utf8)?;
        let missing_ok = args.get(1).map(|array| cast(array, &DataType::Boolean)).transpose()?;
        let value = |(row, name): (usize, Option<&str>)| {
            let Some(name) = name else { return Ok(None) };
            if missing_ok.as_ref().is_some_and(|missing| missing.is_null(row)) {
                return Ok(None);
            }
            let setting = known.iter().find(|setting| setting.name.eq_ignore_ascii_case(name));
            let parameter = || own.iter().find(|given| given.name.eq_ignore_ascii_case(name));
            match setting.map(|setting| &*setting.shown).or_else(|| parameter().map(|given| &*given.value)) {
                Some(value) => Ok(Some(value.to_owned())),
                None if missing_ok.as_ref().is_some_and(|missing| missing.as_boolean().value(row)) => Ok(None),
                None => {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    Err(external(Error::new(ErrorCode::UndefinedObject, message)))
                }
            }
        };
        let values: Result<StringArray> = names.as_string::<i32>().iter().enumerate().map(value).collect();
        Ok(Arc::new(values?))
    }

    /// Numbers of objects, given as numbers or by name.
    fn numbers(&self, array: &ArrayRef, kind: ObjectKind) -> Result<Int64Array> {
        if !array.data_type().is_string() {
            return Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone());
        }
        let names = cast(array, &DataType::Utf8)?;
        let number = |text: Option<&str>| text.map(|text| objects::number(&self.catalog, kind, text)).transpose();
        names.as_string::<i32>().iter().map(number).collect::<ashlar_base::Result<_>>().map_err(external)
    }

    fn index_definition(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let relations = relations::all(&self.catalog);
        let columns = match args.get(1) {
            Some(columns) => cast(columns, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
            None => Int64Array::from(vec![0; args[0].len()]),
        };
        let numbers = cast(&args[0], &DataType::Int64)?;
        let pretty = match args.get(2) {
            Some(pretty) => cast(pretty, &DataType::Boolean)?.as_boolean().clone(),
            None => BooleanArray::from(vec![false; args[0].len()]),
        };
        let definition = |((oid, column), pretty): ((Option<i64>, Option<i64>), Option<bool>)| {
            let (oid, column, is_pretty) = (oid?, column?, pretty?);
            let (relation, index) = relations::index(&relations, oid)?;
            match usize::try_from(column) {
                Ok(0) => Some(index_text(relation, index, is_pretty)),
                Ok(column) => {
                    let key = index.columns().nth(column - 1);
                    Some(key.map_or_else(String::new, |key| key.text[usize::from(is_pretty)].clone()))
                }
                Err(_) => Some(String::new()),
            }
        };
        let rows = numbers.as_primitive::<Int64Type>().iter().zip(columns.iter()).zip(pretty.iter());
        Ok(Arc::new(rows.map(definition).collect::<StringArray>()))
    }

    fn constraint_definition(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let relations = relations::all(&self.catalog);
        let numbers = cast(&args[0], &DataType::Int64)?;
        let pretty = match args.get(1) {
            Some(pretty) => cast(pretty, &DataType::Boolean)?.as_boolean().clone(),
            None => BooleanArray::from(vec![false; args[0].len()]),
        };
        let definition = |(oid, pretty): (Option<i64>, Option<bool>)| {
            let (oid, is_pretty) = (oid?, pretty?);
            relations.iter().find_map(|relation| {
                let found = relation.constraints().into_iter().find(|one| one.oid == oid)?;
                Some(constraint_text(relation, &found, is_pretty))
            })
        };
        let rows = numbers.as_primitive::<Int64Type>().iter().zip(pretty.iter());
        Ok(Arc::new(rows.map(definition).collect::<StringArray>()))
    }

    /// True of what there is; an error of a name that there is not, NULL of a number.
    fn privilege(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        // The object stands before the privilege.
        let object = &args[args.len() - 2];
        let known = |row: usize| args.iter().all(|arg| is_known(arg, row));
        let exists: Box<dyn Fn(i64) -> bool> = match self.answer {
            Answer::TablePrivilege => {
                let relations = relations::all(&self.catalog);
                Box::new(move |oid| {
                    relations.iter().any(|one| one.oid == oid)
                        || relations::index(&relations, oid).is_some()
                        || super::is_system_table_oid(oid)
                })
            }
            Answer::SchemaPrivilege => Box::new(|oid| NAMESPACES.iter().any(|(known, _)| *known == oid)),
            _ => Box::new(|oid| oid == DATABASE_OID),
        };
        if object.data_type().is_string() {
            match self.answer {
                Answer::TablePrivilege => drop(self.numbers(object, ObjectKind::Class)?),
                Answer::SchemaPrivilege => drop(self.numbers(object, ObjectKind::Namespace)?),
                _ => self.check_database(object)?,
            }
            return Ok(Arc::new((0..object.len()).map(|row| known(row).then_some(true)).collect::<BooleanArray>()));
        }
        let numbers = cast(object, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let may = |row: usize| (known(row) && exists(numbers.value(row))).then_some(true);
        Ok(Arc::new((0..object.len()).map(may).collect::<BooleanArray>()))
    }

    /// What COMMENT says: of an object by its number and the name of its table, of a column by its table's number and its own.
    fn comments(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let numbers = self.numbers(&args[0], ObjectKind::Class)?;
        let described: Vec<Described> = match self.answer {
            Answer::SharedComment => descriptions::shared(&self.catalog).into_iter().collect(),
            _ => descriptions::all(&self.catalog, &relations::all(&self.catalog)),
        };
        let text = |found: Option<&Described>| found.map(|found| found.text.to_string());
        if self.answer == Answer::ColumnComment {
            let columns = cast(&args[1], &DataType::Int64)?;
            let comment = |(number, column): (Option<i64>, Option<i64>)| {
                let (number, column) = (number?, column?);
                let table = descriptions::class_of("pg_class")?;
                let is_it = |one: &&Described| one.class == table && one.object == number;
                text(described.iter().filter(is_it).find(|one| i64::from(one.column) == column))
            };
            let rows = numbers.iter().zip(columns.as_primitive::<Int64Type>().iter());
            return Ok(Arc::new(rows.map(comment).collect::<StringArray>()));
        }
        let classes = args.get(1).map(|names| cast(names, &DataType::Utf8)).transpose()?;
        let comment = |(row, number): (usize, Option<i64>)| {
            let (number, classes) = (number?, classes.as_ref().map(|names| names.as_string::<i32>()));
            let class = match classes {
                None => None,
                Some(names) if names.is_null(row) => return None,
                Some(names) => Some(descriptions::class_of(names.value(row))?),
            };
            let is_it = |one: &&Described| one.column == 0 && one.object == number;
            text(described.iter().filter(is_it).find(|one| class.is_none_or(|class| one.class == class)))
        };
        Ok(Arc::new(numbers.iter().enumerate().map(comment).collect::<StringArray>()))
    }

    fn check_database(&self, array: &ArrayRef) -> Result<()> {
        if !array.data_type().is_string() {
            return Ok(());
        }
        let names = cast(array, &DataType::Utf8)?;
        let database = &self.catalog.identity().database;
        match names.as_string::<i32>().iter().flatten().find(|name| name != database) {
            Some(other) => {
                Err(external(Error::new(ErrorCode::InvalidCatalogName, format!("database \"{other}\" does not exist"))))
            }
            None => Ok(()),
        }
    }
}

/// An untyped NULL arrives as an array whose elements count as valid.
fn is_known(array: &ArrayRef, row: usize) -> bool {
    !array.data_type().is_null() && array.is_valid(row)
}

fn texts(numbers: &ArrayRef, text: impl Fn(i64) -> Option<String>) -> Result<ArrayRef> {
    let numbers = cast(numbers, &DataType::Int64)?;
    let texts = numbers.as_primitive::<Int64Type>().iter().map(|number| number.and_then(&text));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// Bytes in memory; files are not the server's.
fn table_bytes(table: &Table) -> i64 {
    match table {
        Table::Grid(region) => i64::try_from(region.bytes()).unwrap_or(i64::MAX),
        Table::File(_) | Table::Sharded(_) => 0,
    }
}

fn key_columns(relation: &Relation, ordinals: &[usize]) -> String {
    let names: Vec<String> = ordinals.iter().map(|ordinal| quote_ident(&relation.columns[*ordinal].name)).collect();
    names.join(", ")
}

/// A definition that PostgreSQL could run. Pretty: without the schema, and the parentheses that nobody needs.
pub(super) fn index_text(relation: &Relation, index: &relations::Index, is_pretty: bool) -> String {
    let key = |key: &relations::IndexKey| {
        let order = match (key.order.descending, key.order.nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        };
        format!("{}{order}", key.text[usize::from(is_pretty)])
    };
    let keys: Vec<String> = index.keys.iter().map(key).collect();
    let mut text = format!(
        "CREATE {}INDEX {} ON {}{} USING {} ({})",
        if index.unique.is_some() { "UNIQUE " } else { "" },
        quote_ident(&index.name),
        if is_pretty { "" } else { "public." },
        quote_ident(&relation.name),
        match index.kind {
            IndexKind::Btree => "btree",
            IndexKind::Hash => "hash",
        },
        keys.join(", ")
    );
    if !index.included.is_empty() {
        let included: Vec<&str> = index.included.iter().map(|column| column.text[0].as_str()).collect();
        text.push_str(&format!(" INCLUDE ({})", included.join(", ")));
    }
    if index.unique.is_some_and(|unique| !unique.nulls_distinct) {
        text.push_str(" NULLS NOT DISTINCT");
    }
    if !index.options.is_empty() {
        let options: Vec<String> = index.options.iter().map(|option| option_text(option)).collect();
        text.push_str(&format!(" WITH ({})", options.join(", ")));
    }
    if let Some(predicate) = &index.predicate {
        text.push_str(" WHERE ");
        text.push_str(&predicate[usize::from(is_pretty)]);
    }
    text
}

/// An option, `name=value`, as a definition has it: a value that is no plain word stands in quotes.
fn option_text(option: &str) -> String {
    match option.split_once('=') {
        Some((name, value)) if quote_ident(value) == value => format!("{}={value}", quote_ident(name)),
        Some((name, value)) => format!("{}='{}'", quote_ident(name), value.replace('\'', "''")),
        None => quote_ident(option),
    }
}

fn constraint_text(relation: &Relation, constraint: &relations::Constraint, is_pretty: bool) -> String {
    let columns = key_columns(relation, &constraint.columns);
    match constraint.kind {
        ConstraintKind::Primary => format!("PRIMARY KEY ({columns})"),
        ConstraintKind::Unique { nulls_distinct: true } => format!("UNIQUE ({columns})"),
        ConstraintKind::Unique { nulls_distinct: false } => format!("UNIQUE NULLS NOT DISTINCT ({columns})"),
        ConstraintKind::Check => {
            let condition = constraint.condition.as_ref().map_or("", |texts| texts[usize::from(is_pretty)].as_str());
            format!("CHECK ({condition})")
        }
        ConstraintKind::NotNull => format!("NOT NULL {columns}"),
    }
}
