//! `ashlar sql`: a small client for machines without psql.
//!
//! Called by `cli`. Prints results as psql does, and exits with 1 at the first error.

use std::io::Read;
use std::process::ExitCode;

use super::{SqlOptions, complain, say};
use crate::client::pg::PgClient;
use crate::client::table;

/// Runs the statements.
pub(super) fn run(options: &SqlOptions) -> anyhow::Result<ExitCode> {
    let sql = match &options.command {
        Some(sql) => sql.clone(),
        None => {
            let mut sql = String::new();
            std::io::stdin().lock().read_to_string(&mut sql)?;
            sql
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = PgClient::connect(options.pg, &options.user, &options.database).await?;
        let reply = client.query(&sql).await?;
        client.close().await?;
        for notice in &reply.notices {
            complain(&notice.to_string());
        }
        for answer in &reply.answers {
            match &answer.columns {
                Some(_) => say(&table::render(answer))?,
                None if !answer.copied.is_empty() => say(&answer.copied)?,
                None if answer.tag.is_empty() => ExitCode::SUCCESS,
                None => say(&format!("{}\n", answer.tag))?,
            };
        }
        match &reply.error {
            Some(error) => {
                complain(&error.to_string());
                Ok(ExitCode::FAILURE)
            }
            None => Ok(ExitCode::SUCCESS),
        }
    })
}
