//! The input line numbers of buffered rows.
//!
//! Called by COPY FROM STDIN for each row, and to find the line of an error. Line numbers are nearly always
//! consecutive, so they are stored as runs.

use ashlar_base::Result;

use crate::session::Reservation;

/// See the module.
pub(super) struct Lines {
    /// The first row of each run, by its number among those that wait, and its line.
    runs: Vec<(usize, u64)>,
    rows: usize,
    held: Reservation,
}

impl Lines {
    /// Of no row; `held` is charged for what they take.
    pub(super) fn charged_to(held: Reservation) -> Self {
        Self { runs: Vec::new(), rows: 0, held }
    }

    /// One more row waits.
    ///
    /// # Errors
    /// 53200 over the memory bound.
    #[inline]
    pub(super) fn push(&mut self, line: u64) -> Result<()> {
        let follows = |&(row, first): &(usize, u64)| first + (self.rows - row) as u64 == line;
        if !self.runs.last().is_some_and(follows) {
            self.begin_run(line)?;
        }
        self.rows += 1;
        Ok(())
    }

    fn begin_run(&mut self, line: u64) -> Result<()> {
        if self.runs.len() == self.runs.capacity() {
            let more = self.runs.len().max(4);
            self.held.grow(more * size_of::<(usize, u64)>())?;
            self.runs.reserve_exact(more);
        }
        self.runs.push((self.rows, line));
        Ok(())
    }

    /// The line of a row that waits; 0 where none does.
    pub(super) fn of(&self, row: usize) -> u64 {
        let begun = self.runs.partition_point(|(first, _)| *first <= row);
        let run = begun.checked_sub(1).and_then(|run| self.runs.get(run));
        run.map_or(0, |(first, line)| line + (row - first) as u64)
    }

    /// None waits any more.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.rows = 0;
    }
}

#[cfg(test)]
mod tests;
