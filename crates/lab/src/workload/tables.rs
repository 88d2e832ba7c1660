//! The tables of the SQL workloads: made anew, and filled by COPY.

use anyhow::{Result, bail};

use super::shards::REFRESH;
use super::{Place, Progress};
use crate::door::pg::PgClient;

/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 10_000;

/// Appends the line of a row.
pub(super) type Line = Box<dyn Fn(u64, &mut Vec<u8>)>;

/// A table as it is loaded.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: String,
    /// The column by which a sharding proxy spreads its rows: an integer, which lines begin with.
    pub(super) key: &'static str,
    /// Whether it is small: a proxy that joins rows of one server only has all of its rows on each.
    pub(super) is_small: bool,
    pub(super) rows: u64,
    /// Appends the line of a row, counted from 0, in COPY's text form.
    pub(super) line: Line,
}

/// Makes these tables, whatever there was of these names, and fills them. An error of `progress` ends it.
pub(super) fn fill(client: &mut PgClient, place: Place, tables: &[Table], progress: Progress<'_>) -> Result<()> {
    drop_all(client, place, tables)?;
    let all = tables.iter().map(|table| table.rows).sum();
    let mut before = 0;
    for table in tables {
        let unlogged = if place.postgres { "UNLOGGED " } else { "" };
        let sharded = place.sharded_by(Some(table.key));
        let create = format!("CREATE {unlogged}TABLE {} ({}){sharded}", table.name, table.columns);
        declare(client, place, &create)?;
        if table.rows == 0 {
            continue;
        }
        if place.shards.is_some() {
            let parts = place.parts();
            let is_copied = table.is_small && place.makes_unseen();
            for (part, address) in parts.iter().enumerate() {
                let is_in = |key| is_copied || place.is_in(part, key);
                let is_here = |line: &[u8]| key_of(line).is_none_or(is_in);
                // Each row is made for each part.
                let mut report = |done: u64| {
                    let made = part as u64 * table.rows + done;
                    progress(before + made / parts.len() as u64, all)
                };
                copy(&mut PgClient::connect(*address)?, table, &is_here, &mut report)?;
            }
        } else {
            copy(client, table, &|_| true, &mut |done| progress(before + done, all))?;
        }
        before += table.rows;
    }
    if place.makes_unseen() {
        client.query(REFRESH)?;
    }
    Ok(())
}

/// Runs a statement that makes a table or takes it away, where that is done: through a proxy that is told where rows are, or behind it.
fn declare(client: &mut PgClient, place: Place, statement: &str) -> Result<()> {
    if place.makes_sharded() { client.query(statement).map(drop) } else { everywhere(client, place, statement) }
}

/// The number that a line begins with.
fn key_of(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b'\t').next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Fills a table with those of its rows whose lines belong here; `report` is told how many have been made.
fn copy(
    client: &mut PgClient,
    table: &Table,
    is_here: &dyn Fn(&[u8]) -> bool,
    report: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let (name, mut next, mut copied, mut stopped) = (table.name, 0, 0u64, None);
    let tag = client.copy_in(&format!("COPY {name} FROM STDIN"), &mut |out| {
        if next < table.rows && stopped.is_none() {
            let begin = out.len();
            (table.line)(next, out);
            if is_here(&out[begin..]) {
                copied += 1;
            } else {
                out.truncate(begin);
            }
            next += 1;
            if next.is_multiple_of(PROGRESS_ROWS) {
                stopped = report(next).err();
            }
        }
        next < table.rows && stopped.is_none()
    })?;
    if let Some(reason) = stopped {
        return Err(reason);
    }
    if tag != format!("COPY {copied}") {
        bail!("COPY of {copied} rows into {name} was answered by {tag}");
    }
    Ok(())
}

/// Runs a statement about a table as PostgreSQL has it: an index is made in each server behind a sharding proxy, which makes none.
pub(super) fn everywhere(client: &mut PgClient, place: Place, statement: &str) -> Result<()> {
    if place.shards.is_some() {
        for address in place.parts() {
            PgClient::connect(address)?.query(statement)?;
        }
        return Ok(());
    }
    client.query(statement).map(drop)
}

/// Has PostgreSQL tidy up and look at what is in the tables, once they are full and have their indexes.
pub(super) fn settle(client: &mut PgClient, place: Place, tables: &[Table]) -> Result<()> {
    if place.postgres {
        for table in tables {
            everywhere(client, place, &format!("VACUUM ANALYZE {}", table.name))?;
        }
    }
    Ok(())
}

/// Takes them away.
pub(super) fn drop_all(client: &mut PgClient, place: Place, tables: &[Table]) -> Result<()> {
    for table in tables {
        declare(client, place, &format!("DROP TABLE IF EXISTS {}", table.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_which_shard_they_belong_to() {
        assert_eq!((key_of(b"42\t7\tx\n"), key_of(b"x\t7\n"), key_of(b"")), (Some(42), None, None));
    }
}
