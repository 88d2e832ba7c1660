//! Where an index finds its values in a row, and whether the row is in the index at all.
//!
//! Called by `partition::indexes` for stored rows, by `writeset` for pending rows, and by both before anything is
//! changed, because computing an expression may fail.

use std::sync::Arc;

use ashlar_base::{ColumnId, Datum, Error, ErrorCode, IndexDef, Result, SqlType, Value};

use crate::shape::Shape;

/// Where the values of an index are in rows of one shape.
pub(crate) struct Places {
    pub(crate) keys: Box<[Place]>,
    /// The same of the values that a user sees, where others stand for them.
    pub(crate) shown: Box<[Place]>,
    /// What its expressions and its predicate read.
    inputs: Box<[usize]>,
}

/// Where one value of an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the column at this ordinal.
    Column(usize),
    /// It is that of this expression.
    Computed(usize),
}

impl Places {
    /// `None` where a column is not there.
    pub(crate) fn of(definition: &IndexDef, shape: &Shape) -> Option<Self> {
        let ordinal = |id: &ColumnId| shape.schema.columns.iter().position(|column| column.id == *id);
        let place = |id: &ColumnId| match IndexDef::expression(*id) {
            Some(expression) => Some(Place::Computed(expression)),
            None => ordinal(id).map(Place::Column),
        };
        let shown = definition.columns.iter().map(place).collect::<Option<Box<[Place]>>>()?;
        let stand_in = |id: &ColumnId| definition.rows.as_ref()?.key_of(*id).map(Place::Computed);
        let pairs = definition.columns.iter().zip(shown.iter());
        let keys = pairs.map(|(id, shown)| stand_in(id).unwrap_or(*shown)).collect();
        let inputs = definition.rows.as_ref().map_or(&[][..], |rows| rows.inputs());
        Some(Self { keys, shown, inputs: inputs.iter().map(ordinal).collect::<Option<_>>()? })
    }

    /// Whether values that nobody sees stand for others.
    pub(crate) fn has_stand_ins(&self) -> bool {
        self.keys != self.shown
    }

    /// Ordinals of the columns on whose values it depends where a row is, and whether it is there.
    pub(crate) fn watched(&self) -> impl Iterator<Item = usize> {
        let columns = self.keys.iter().filter_map(|key| match key {
            Place::Column(ordinal) => Some(*ordinal),
            Place::Computed(_) => None,
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
    places: &[Place],
    computed: &'d [Value],
    value: impl Fn(usize) -> Datum<'d> + Clone,
) -> impl Iterator<Item = Datum<'d>> + Clone {
    places.iter().map(move |place| match place {
        Place::Column(ordinal) => value(*ordinal),
        Place::Computed(expression) => computed[*expression].as_datum(),
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
