//! Transactions of several round trips: tried again, and counted, where the server ends them because of another.

use anyhow::{Result, bail};

use crate::door::pg::PgClient;
use crate::interrupt;

/// A transaction that was tried so often will not be done: its failure is no matter of chance.
const ATTEMPTS_MAX: u64 = 100_000;

/// What a transaction came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transacted<T> {
    /// What `body` made of the answers, or the error, as `SQLSTATE: message`, that ended the transaction for good.
    pub(super) outcome: Result<T, String>,
    /// Attempts beyond the first.
    pub(super) retries: u64,
}

/// Runs a transaction. `body` sends everything, from BEGIN to COMMIT, and gives up at the first error of the server, which it
/// returns inside of `Ok`; it is called again, with all parameters as they were, for as long as the server says that another
/// transaction is to blame. What an attempt left open is rolled back.
///
/// An error means that the connection is lost, or that somebody stops the load.
pub(super) fn transact<T>(
    client: &mut PgClient,
    body: &mut dyn FnMut(&mut PgClient) -> Result<Result<T, String>>,
) -> Result<Transacted<T>> {
    let mut retries = 0;
    loop {
        let outcome = body(client)?;
        if client.in_transaction() {
            client.query("ROLLBACK")?;
        }
        match outcome {
            Err(error) if may_be_tried_again(&error) && retries + 1 < ATTEMPTS_MAX => {
                if interrupt::is_set() {
                    bail!("interrupted while a transaction was tried again");
                }
                retries += 1;
            }
            outcome => return Ok(Transacted { outcome, retries }),
        }
    }
}

/// serialization_failure and deadlock_detected, for which PostgreSQL's manual asks clients to begin anew ("Serialization Failure
/// Handling").
fn may_be_tried_again(error: &str) -> bool {
    ["40001:", "40P01:"].iter().any(|state| error.starts_with(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_transaction_caused_is_tried_again() {
        assert!(may_be_tried_again("40001: could not serialize access due to concurrent update"));
        assert!(may_be_tried_again("40P01: deadlock detected"));
        assert!(!may_be_tried_again("23505: duplicate key value violates unique constraint"));
        assert!(!may_be_tried_again("42P01: relation \"40001:\" does not exist"));
    }
}
