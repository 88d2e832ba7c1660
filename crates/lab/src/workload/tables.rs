//! The tables of the SQL workloads: made anew, and filled by COPY.

use anyhow::{Result, bail};

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
    pub(super) rows: u64,
    /// Appends the line of a row, counted from 0, in COPY's text form.
    pub(super) line: Line,
}

/// Makes these tables, whatever there was of these names, and fills them. An error of `progress` ends it.
pub(super) fn fill(client: &mut PgClient, place: Place, tables: &[Table], progress: Progress<'_>) -> Result<()> {
    drop_all(client, tables)?;
    let all = tables.iter().map(|table| table.rows).sum();
    let mut before = 0;
    for table in tables {
        let name = table.name;
        let unlogged = if place.postgres { "UNLOGGED " } else { "" };
        client.query(&format!("CREATE {unlogged}TABLE {name} ({})", table.columns))?;
        if table.rows == 0 {
            continue;
        }
        let (mut next, mut stopped) = (0, None);
        let tag = client.copy_in(&format!("COPY {name} FROM STDIN"), &mut |out| {
            if next < table.rows && stopped.is_none() {
                (table.line)(next, out);
                next += 1;
                if next.is_multiple_of(PROGRESS_ROWS) {
                    stopped = progress(before + next, all).err();
                }
            }
            next < table.rows && stopped.is_none()
        })?;
        if let Some(reason) = stopped {
            return Err(reason);
        }
        if tag != format!("COPY {}", table.rows) {
            bail!("COPY of {} rows into {name} was answered by {tag}", table.rows);
        }
        before += table.rows;
    }
    Ok(())
}

/// Has PostgreSQL tidy up and look at what is in the tables, once they are full and have their indexes.
pub(super) fn settle(client: &mut PgClient, place: Place, tables: &[Table]) -> Result<()> {
    if place.postgres {
        for table in tables {
            client.query(&format!("VACUUM ANALYZE {}", table.name))?;
        }
    }
    Ok(())
}

/// Takes them away.
pub(super) fn drop_all(client: &mut PgClient, tables: &[Table]) -> Result<()> {
    for table in tables {
        client.query(&format!("DROP TABLE IF EXISTS {}", table.name))?;
    }
    Ok(())
}
