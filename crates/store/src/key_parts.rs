//! The key of an index: which columns and expressions of a row it is made of, whether the row is in the index at all,
//! and the error for a row whose unique key another row has.
//!
//! Called by `partition::indexes` for stored rows, by `writeset` for pending rows, and by both before anything is
//! changed, because computing an expression may fail.

use std::sync::Arc;

use ashlar_base::{ColumnId, Datum, Error, ErrorCode, IndexDef, Result, SqlType, Value};

use crate::shape::Shape;

/// The parts of an index's key, in its order, for rows of one shape.
pub(crate) struct KeyParts {
    /// The parts whose values the index compares.
    pub(crate) keys: Box<[KeyPart]>,
    /// The parts whose values a user sees; these differ from `keys` where the index compares other values in their stead.
    pub(crate) shown: Box<[KeyPart]>,
    /// Ordinals of the columns that the index's expressions and predicate read.
    inputs: Box<[usize]>,
}

/// Where one value of a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPart {
    /// In the column at this ordinal.
    Column(usize),
    /// The value of this expression of the index, counted from 0.
    Computed(usize),
}

impl KeyParts {
    /// The parts of an index; `None` where the shape lacks a column of it, or one that it includes.
    pub(crate) fn of(definition: &IndexDef, shape: &Shape) -> Option<Self> {
        let ordinal = |id: &ColumnId| shape.schema.columns.iter().position(|column| column.id == *id);
        let part = |id: &ColumnId| match IndexDef::expression(*id) {
            Some(expression) => Some(KeyPart::Computed(expression)),
            None => ordinal(id).map(KeyPart::Column),
        };
        let shown = definition.columns.iter().map(part).collect::<Option<Box<[KeyPart]>>>()?;
        if definition.included.iter().any(|id| ordinal(id).is_none()) {
            return None;
        }
        let stand_in = |id: &ColumnId| definition.rows.as_ref()?.key_of(*id).map(KeyPart::Computed);
        let pairs = definition.columns.iter().zip(shown.iter());
        let keys = pairs.map(|(id, shown)| stand_in(id).unwrap_or(*shown)).collect();
        let inputs = definition.rows.as_ref().map_or(&[][..], |rows| rows.inputs());
        Some(Self { keys, shown, inputs: inputs.iter().map(ordinal).collect::<Option<_>>()? })
    }

    /// Whether the index compares other values than a user sees.
    pub(crate) fn has_stand_ins(&self) -> bool {
        self.keys != self.shown
    }

    /// Ordinals of the columns that decide where a row is in the index, and whether it is there.
    pub(crate) fn watched(&self) -> impl Iterator<Item = usize> {
        let columns = self.keys.iter().filter_map(|key| match key {
            KeyPart::Column(ordinal) => Some(*ordinal),
            KeyPart::Computed(_) => None,
        });
        columns.chain(self.inputs.iter().copied())
    }

    /// What `IndexRows::compute` takes of a row.
    pub(crate) fn inputs<'d>(&self, value: impl Fn(usize) -> Datum<'d>) -> Vec<Value> {
        self.inputs.iter().map(|&ordinal| value(ordinal).to_value()).collect()
    }

    /// The values of a row's expressions; `None`: the row is not in the index.
    ///
    /// # Errors
    /// What an expression finds.
    pub(crate) fn compute<'d>(
        &self,
        definition: &IndexDef,
        value: impl Fn(usize) -> Datum<'d>,
    ) -> Result<Option<Box<[Value]>>> {
        match &definition.rows {
            None => Ok(Some(Box::default())),
            Some(rows) => Ok(rows.compute(&[self.inputs(value)])?.pop().flatten()),
        }
    }

    /// The values of a row in the order of the index's columns; those of its expressions were computed.
    pub(crate) fn values<'d>(
        &self,
        computed: &'d [Value],
        value: impl Fn(usize) -> Datum<'d> + Clone,
    ) -> impl Iterator<Item = Datum<'d>> + Clone {
        at(&self.keys, computed, value)
    }

    /// The same, as a user sees them.
    pub(crate) fn shown<'d>(
        &self,
        computed: &'d [Value],
        value: impl Fn(usize) -> Datum<'d> + Clone,
    ) -> impl Iterator<Item = Datum<'d>> + Clone {
        at(&self.shown, computed, value)
    }
}

fn at<'d>(
    parts: &[KeyPart],
    computed: &'d [Value],
    value: impl Fn(usize) -> Datum<'d> + Clone,
) -> impl Iterator<Item = Datum<'d>> + Clone {
    parts.iter().map(move |part| match part {
        KeyPart::Column(ordinal) => value(*ordinal),
        KeyPart::Computed(expression) => computed[*expression].as_datum(),
    })
}

/// Values of a unique index that a row was to have and that another one has.
#[derive(Debug)]
pub(crate) struct Clash {
    pub(crate) index: Arc<IndexDef>,
    pub(crate) values: Vec<Value>,
    /// The other row is one of the same writes.
    pub(crate) is_own: bool,
    /// What is said of it.
    pub(crate) error: Error,
}

/// Whether a row with these values may have a twin.
pub(crate) fn may_repeat<'d>(definition: &IndexDef, mut values: impl Iterator<Item = Datum<'d>>) -> bool {
    definition.unique.is_none_or(|unique| unique.nulls_distinct && values.any(|value| value.is_null()))
}

/// `(a, lower(b))=(1, x)`: the columns of an index and their values, as PostgreSQL shows them.
fn key_text<'d>(definition: &IndexDef, shape: &Shape, values: impl Iterator<Item = Datum<'d>>) -> String {
    let (mut names, mut typed): (Vec<String>, Vec<(SqlType, Datum<'_>)>) = (Vec::new(), Vec::new());
    for (id, value) in definition.columns.iter().zip(values) {
        let column = shape.schema.columns.iter().find(|column| column.id == *id);
        match (column, IndexDef::expression(*id), &definition.rows) {
            (Some(column), ..) => {
                names.push(column.name.clone());
                typed.push((column.sql_type, value));
            }
            (None, Some(expression), Some(rows)) => {
                names.push(rows.text(expression, &shape.schema));
                let sql_type = rows.types().get(expression).copied();
                typed.push((sql_type.unwrap_or(SqlType::Scalar(ashlar_base::ScalarType::Text)), value));
            }
            _ => {}
        }
    }
    let values = Shape::list(typed.iter().map(|(sql_type, value)| (*sql_type, value)));
    format!("({})=({values})", names.join(", "))
}

/// 23505 for a row whose values are taken, worded as PostgreSQL does.
pub(crate) fn taken_error<'d>(definition: &IndexDef, shape: &Shape, values: impl Iterator<Item = Datum<'d>>) -> Error {
    let name = &definition.name;
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    Error::new(ErrorCode::UniqueViolation, message)
        .with_detail(format!("Key {} already exists.", key_text(definition, shape, values)))
        .with_table(&shape.schema.name)
        .with_constraint(name)
}

/// 23505 for an index that cannot be made.
pub(crate) fn repeated_error<'d>(
    definition: &Arc<IndexDef>,
    shape: &Shape,
    values: impl Iterator<Item = Datum<'d>>,
) -> Error {
    let name = &definition.name;
    Error::new(ErrorCode::UniqueViolation, format!("could not create unique index \"{name}\""))
        .with_detail(format!("Key {} is duplicated.", key_text(definition, shape, values)))
        .with_table(&shape.schema.name)
        .with_constraint(name)
}
