//! Rows that each shard has made of its own groups, becoming one row for each group: partial results are added and compared.
//!
//! Groups are told apart by the bytes of their values, so that only types are taken whose equal values have equal bytes. Without
//! columns that tell them apart there is one group.

use std::collections::HashMap;

use ashlar_base::{Error, Result};

use super::value::{Total, is_float};
use super::{Aggregate, Field, broken, cells};

/// See the module.
#[derive(Debug)]
pub(super) struct Groups {
    columns: Vec<(Aggregate, Field)>,
    /// By the cells that tell groups apart: which of `rows` it is.
    index: HashMap<Box<[u8]>, usize>,
    rows: Vec<Vec<Total>>,
    /// The cells of the row that is looked at.
    key: Vec<u8>,
    bytes: usize,
    is_c_collated: bool,
}

impl Groups {
    /// # Errors
    /// 0A000 for a column whose values cannot be told apart, added or compared here.
    pub(super) fn new(aggregates: &[Aggregate], fields: &[Field], is_c_collated: bool) -> Result<Self> {
        let columns: Vec<(Aggregate, Field)> = aggregates.iter().copied().zip(fields.iter().copied()).collect();
        let is_divided = aggregates.contains(&Aggregate::Group);
        if is_divided && columns.iter().any(|(aggregate, field)| *aggregate == Aggregate::Sum && is_float(*field)) {
            return Err(Error::unsupported("sums of floating-point numbers depend on the order of their rows"));
        }
        let groups =
            Self { columns, index: HashMap::new(), rows: Vec::new(), key: Vec::new(), bytes: 0, is_c_collated };
        groups.row()?;
        Ok(groups)
    }

    fn row(&self) -> Result<Vec<Total>> {
        self.columns.iter().map(|(aggregate, field)| Total::new(*aggregate, *field, self.is_c_collated)).collect()
    }

    /// One more row of a shard.
    pub(super) fn add(&mut self, body: &[u8]) -> Result<()> {
        self.key.clear();
        for ((aggregate, _), cell) in self.columns.iter().zip(cells(body)) {
            if *aggregate == Aggregate::Group {
                let cell = cell?;
                // NULL is a group of its own.
                let length = cell.map_or(-1, |cell| cell.len() as i64);
                self.key.extend_from_slice(&length.to_le_bytes());
                self.key.extend_from_slice(cell.unwrap_or_default());
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
        self.rows[at].iter_mut().zip(cells(body)).try_for_each(|(total, cell)| total.add(cell?))
    }

    /// Bytes that it holds, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows of all groups, as they were first seen.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Result<Vec<u8>>> + use<> {
        self.index = HashMap::new();
        let count = self.columns.len();
        let averages = self.columns.iter().enumerate().filter_map(|(at, (aggregate, _))| match aggregate {
            Aggregate::Average { sum, count: number } => {
                Some((at, count.checked_sub(*sum)?, count.checked_sub(*number)?))
            }
            _ => None,
        });
        let averages: Vec<(usize, usize, usize)> = averages.collect();
        std::mem::take(&mut self.rows).into_iter().map(move |mut totals| {
            for (at, sum, number) in &averages {
                let of = totals.get_disjoint_mut([*at, *sum, *number]);
                let [of, sum, number] = of.map_err(|_| broken())?;
                of.average(sum, number)?;
            }
            let mut row = (count as u16).to_be_bytes().to_vec();
            totals.iter().for_each(|total| total.write(&mut row));
            Ok(row)
        })
    }
}
