//! What names mean inside a query: its FROM clause, those of the queries around it, and its CTEs.
//!
//! Follows PostgreSQL's rules of lookup as far as it is certain; a name that is not certain is of no variable.

/// A column of one occurrence of a table in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Variable(pub(super) usize);

/// Occurrences of sharded tables in a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Occurrences(u64);

/// Sharded tables that a statement may name.
pub(super) const OCCURRENCES_MAX: usize = 64;

impl Occurrences {
    /// From the first to the one before the last.
    pub(super) fn between(first: usize, end: usize) -> Self {
        Self((first..end.min(OCCURRENCES_MAX)).fold(0, |set, at| set | 1 << at))
    }

    pub(super) fn contains(self, occurrence: usize) -> bool {
        occurrence < OCCURRENCES_MAX && self.0 >> occurrence & 1 == 1
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A column that can be named.
#[derive(Clone, Debug)]
pub(super) struct Output {
    /// Its name; `None` where PostgreSQL makes one up.
    pub(super) name: Option<String>,
    /// The column that its values are those of.
    pub(super) variable: Option<Variable>,
}

/// Something in FROM that has a name.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) alias: String,
    /// The schema that a qualified name may say besides, where there is no alias.
    pub(super) schema: Option<String>,
    pub(super) columns: Vec<Output>,
    /// Whether it has no other columns.
    pub(super) is_complete: bool,
}

/// A FROM clause, or a part of one.
#[derive(Clone, Debug, Default)]
pub(super) struct From {
    pub(super) named: Vec<Named>,
    /// What can be named without an alias.
    pub(super) visible: Vec<Output>,
    pub(super) is_incomplete: bool,
    /// Occurrences of sharded tables within.
    pub(super) occurrences: Occurrences,
    /// Occurrences whose rows divide the rows of this: each row of it belongs to one row of such an occurrence.
    pub(super) anchors: Vec<usize>,
}

/// A query's FROM clause, and those around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'s> {
    pub(super) from: &'s From,
    pub(super) outer: Option<&'s Scope<'s>>,
}

impl From {
    /// A part with a name of its own.
    pub(super) fn of(named: Named, occurrences: Occurrences, anchors: Vec<usize>) -> Self {
        Self {
            visible: named.columns.clone(),
            is_incomplete: !named.is_complete,
            named: vec![named],
            occurrences,
            anchors,
        }
    }

    /// Both beside each other.
    pub(super) fn beside(mut self, other: Self) -> Self {
        self.occurrences = self.occurrences.or(other.occurrences);
        self.named.extend(other.named);
        self.visible.extend(other.visible);
        self.is_incomplete |= other.is_incomplete;
        self.anchors.extend(other.anchors);
        self
    }
}

impl<'s> Scope<'s> {
    /// The variable that a column's name means.
    pub(super) fn variable(&self, fields: &[&str]) -> Option<Variable> {
        match *fields {
            [name] => {
                let mut found = self.from.visible.iter().filter(|column| column.name.as_deref() == Some(name));
                match (found.next(), found.next()) {
                    (Some(column), None) => column.variable,
                    (Some(_), Some(_)) => None,
                    (None, _) if self.from.is_incomplete => None,
                    (None, _) => self.outer?.variable(fields),
                }
            }
            [alias, name] => self.qualified(None, alias, name),
            [schema, alias, name] => self.qualified(Some(schema), alias, name),
            _ => None,
        }
    }

    /// Whether a column's name is of this query and not of one around it.
    pub(super) fn is_own(&self, fields: &[&str]) -> bool {
        match *fields {
            [name] => self.from.visible.iter().any(|column| column.name.as_deref() == Some(name)),
            [.., alias, _] => self.from.named.iter().any(|named| named.alias == alias),
            [] => false,
        }
    }

    fn qualified(&self, schema: Option<&str>, alias: &str, name: &str) -> Option<Variable> {
        let mut found = self
            .from
            .named
            .iter()
            .filter(|named| named.alias == alias && (schema.is_none() || named.schema.as_deref() == schema));
        match (found.next(), found.next()) {
            (Some(named), None) => {
                let mut columns = named.columns.iter().filter(|column| column.name.as_deref() == Some(name));
                let first = columns.next()?;
                columns.next().is_none().then_some(first.variable).flatten()
            }
            (Some(_), Some(_)) => None,
            (None, _) => self.outer?.qualified(schema, alias, name),
        }
    }
}
