//! Rows that each shard has made of its own groups, becoming one row for each group: partial results are added and compared.
//!
//! Groups are told apart by what is alike in the bytes of equal values, so that only types are taken of which that is known. Without
//! columns that tell them apart there is one group, with rows or without.

use std::collections::{BTreeSet, HashMap, HashSet};

use ashlar_base::{Error, Result};

use super::value::{self, Total};
use super::{Aggregate, Deviation, Field, Ranks, TextOrder, broken, cells};

/// What a text takes that is kept, of so many bytes: tables grow by doubling.
fn paid(kept: usize) -> usize {
    if kept > 0 { 2 * (kept + 64) } else { 0 }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Groups {
    columns: Vec<(Aggregate, Field)>,
    /// In which order their texts are.
    orders: Vec<TextOrder>,
    /// Some texts have been given no ranks yet, of which the least or the greatest is wanted.
    is_undecided: bool,
    /// By the cells that tell groups apart: which of `rows` it is.
    index: HashMap<Box<[u8]>, usize>,
    rows: Vec<Vec<Total>>,
    /// Column, group and value: what has been added once.
    added: HashSet<Box<[u8]>>,
    is_added_once: bool,
    /// The cells of the row that is looked at.
    key: Vec<u8>,
    bytes: usize,
}

impl Groups {
    /// # Errors
    /// 0A000 for a column whose values cannot be told apart, added or compared here.
    pub(super) fn new(
        aggregates: &[Aggregate],
        fields: &[Field],
        is_c_collated: bool,
        orders: &[(usize, TextOrder)],
    ) -> Result<Self> {
        let columns: Vec<(Aggregate, Field)> = aggregates.iter().copied().zip(fields.iter().copied()).collect();
        let is_divided = aggregates.contains(&Aggregate::Group) || aggregates.contains(&Aggregate::Value);
        let is_sum = |aggregate: Aggregate| matches!(aggregate, Aggregate::Sum | Aggregate::SumOf(_));
        if is_divided && columns.iter().any(|(aggregate, field)| is_sum(*aggregate) && value::is_float(*field)) {
            return Err(Error::unsupported("sums of floating-point numbers depend on the order of their rows"));
        }
        let is_added_once = |aggregate: &Aggregate| matches!(aggregate, Aggregate::CountOf(_) | Aggregate::SumOf(_));
        let mut groups = Self {
            orders: (0..columns.len()).map(|column| TextOrder::of(column, is_c_collated, orders)).collect(),
            is_undecided: false,
            columns,
            index: HashMap::new(),
            rows: Vec::new(),
            added: HashSet::new(),
            is_added_once: aggregates.iter().any(is_added_once),
            key: Vec::new(),
            bytes: 0,
        };
        groups.is_undecided = groups.row()?.iter().any(Total::is_ranked);
        Ok(groups)
    }

    fn row(&self) -> Result<Vec<Total>> {
        let columns = self.columns.iter().zip(&self.orders);
        columns.map(|((aggregate, field), order)| Total::new(*aggregate, *field, *order)).collect()
    }

    /// Whether the least or the greatest of texts waits for their ranks: until [`Self::decide`] all that may be it are kept.
    pub(super) fn is_undecided(&self) -> bool {
        self.is_undecided
    }

    /// Adds these texts, by collation.
    pub(super) fn undecided_texts(&self, found: &mut [BTreeSet<Vec<u8>>]) {
        self.rows.iter().flatten().for_each(|total| total.undecided_texts(found));
    }

    /// Chooses among them: no row comes after that.
    ///
    /// # Errors
    /// XX000 where one has no rank.
    pub(super) fn decide(&mut self, ranks: &[Ranks]) -> Result<()> {
        self.is_undecided = false;
        self.rows.iter_mut().flatten().try_for_each(|total| total.decide(ranks))
    }

    /// One more row of a shard.
    pub(super) fn add(&mut self, body: &[u8]) -> Result<()> {
        self.key.clear();
        for ((aggregate, field), cell) in self.columns.iter().zip(cells(body)) {
            if *aggregate == Aggregate::Group {
                value::write_alike(*field, cell?, &mut self.key);
            }
        }
        let at = match self.index.get(self.key.as_slice()) {
            Some(at) => *at,
            None => {
                let (at, row) = (self.rows.len(), self.row()?);
                self.rows.push(row);
                self.index.insert(self.key.as_slice().into(), at);
                // Tables grow by doubling; a value may be kept as it came and as it is compared.
                self.bytes += 2 * (self.columns.len() * size_of::<Total>() + self.key.len() + body.len() + 64);
                at
            }
        };
        if self.is_added_once {
            return self.add_new(at, body);
        }
        for (total, cell) in self.rows[at].iter_mut().zip(cells(body)) {
            self.bytes += paid(total.add(cell?)?);
        }
        Ok(())
    }

    /// Adds a row to a group, but for columns that are added once for each value of another one and have been for the row's.
    fn add_new(&mut self, at: usize, body: &[u8]) -> Result<()> {
        let cells: Vec<Option<&[u8]>> = cells(body).collect::<Result<_>>()?;
        for (column, (aggregate, field)) in self.columns.iter().enumerate() {
            let cell = *cells.get(column).ok_or_else(broken)?;
            if let Aggregate::CountOf(of) | Aggregate::SumOf(of) = aggregate {
                // A shard whose rows of this value were all left out by FILTER says nothing of it.
                let is_nothing = match (aggregate, cell) {
                    (_, None) => true,
                    (Aggregate::CountOf(_), Some(bytes)) => value::is_zero(*field, bytes)?,
                    _ => false,
                };
                if is_nothing {
                    continue;
                }
                let value = self.columns.get(*of).zip(cells.get(*of));
                let ((_, value_field), value) = value.ok_or_else(broken)?;
                self.key.clear();
                self.key.extend_from_slice(&column.to_le_bytes());
                self.key.extend_from_slice(&at.to_le_bytes());
                value::write_alike(*value_field, *value, &mut self.key);
                if self.added.contains(self.key.as_slice()) {
                    continue;
                }
                self.bytes += 2 * (self.key.len() + 64);
                self.added.insert(self.key.as_slice().into());
            }
            self.bytes += paid(self.rows[at][column].add(cell)?);
        }
        Ok(())
    }

    /// Bytes that it holds, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows of all groups, as they were first seen.
    ///
    /// # Errors
    /// None but those of the rows: what cannot be added was refused by [`Self::new`].
    pub(super) fn take(&mut self) -> Result<impl Iterator<Item = Result<Vec<u8>>> + use<>> {
        if self.is_undecided {
            return Err(Error::internal("texts have not been given their ranks"));
        }
        (self.index, self.added, self.bytes) = (HashMap::new(), HashSet::new(), 0);
        if self.rows.is_empty() && !self.columns.iter().any(|(aggregate, _)| *aggregate == Aggregate::Group) {
            // No row at all is one group where nothing tells groups apart.
            let row = self.row()?;
            self.rows.push(row);
        }
        let count = self.columns.len();
        let is_derived =
            |aggregate: &Aggregate| matches!(aggregate, Aggregate::Average { .. } | Aggregate::Deviation(_));
        let columns = self.columns.iter().map(|(aggregate, _)| *aggregate).enumerate();
        let derived: Vec<(usize, Aggregate)> = columns.filter(|(_, aggregate)| is_derived(aggregate)).collect();
        Ok(std::mem::take(&mut self.rows).into_iter().map(move |mut totals| {
            for (at, aggregate) in &derived {
                match *aggregate {
                    Aggregate::Average { sum, count } => {
                        let of = totals.get_disjoint_mut([*at, sum, count]).map_err(|_| broken())?;
                        let [of, sum, count] = of;
                        of.average(sum, count)?;
                    }
                    Aggregate::Deviation(Deviation { count, sum, squares, is_sample, is_root }) => {
                        let of = totals.get_disjoint_mut([*at, count, sum, squares]).map_err(|_| broken())?;
                        let [of, count, sum, squares] = of;
                        of.deviation([&*count, &*sum, &*squares], is_sample, is_root)?;
                    }
                    _ => {}
                }
            }
            let mut row = (count as u16).to_be_bytes().to_vec();
            totals.iter().for_each(|total| total.write(&mut row));
            Ok(row)
        }))
    }
}
