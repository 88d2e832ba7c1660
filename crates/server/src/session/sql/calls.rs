//! SELECT of advisory locks and of `pg_sleep`. They wait on the connection's own thread, which serves its other
//! connections meanwhile.
//!
//! Called for the command that such a SELECT is planned as. Waits for locks are bounded as those for row locks are.

use std::time::Duration;

use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode, Result, Value};
use ashlar_query::statement::calls::{Argument, Function, Item};

use super::SqlSession;
use super::locks::waited;
use crate::session::advisory::{Key, Mode};

static SLEEP: Name = Name::new("pg_sleep");

/// Seconds that nobody waits for: some centuries.
const SECONDS_MAX: f64 = 1e10;

impl SqlSession {
    /// The row of such a SELECT.
    ///
    /// # Errors
    /// 55P03, 57014 and 40P01 for locks that are waited for; 53200 for too many of them.
    pub(super) async fn call(&mut self, items: &[Item], parameters: &[Value]) -> Result<Vec<Value>> {
        let nothing = || Value::Text("".into());
        let mut row = Vec::with_capacity(items.len());
        for item in items {
            row.push(match item.function {
                Function::UnlockAll => {
                    self.advisory.unlock_all(&self.shared.advisory);
                    nothing()
                }
                Function::Sleep => match item.arguments.first().and_then(|argument| argument.number(parameters)) {
                    Some(seconds) => {
                        self.sleep(seconds).await?;
                        nothing()
                    }
                    None => Value::Null,
                },
                Function::Lock { is_shared, of_transaction, tries } => match key_of(&item.arguments, parameters)? {
                    Some(key) => {
                        let mode = Mode { is_shared, of_transaction };
                        if tries {
                            Value::Bool(self.advisory.try_lock(&self.shared.advisory, key, mode)?)
                        } else {
                            self.lock_number(key, mode).await?;
                            nothing()
                        }
                    }
                    None => Value::Null,
                },
                Function::Unlock { is_shared } => match key_of(&item.arguments, parameters)? {
                    Some(key) => Value::Bool(self.unlock_number(key, is_shared)),
                    None => Value::Null,
                },
            });
        }
        Ok(row)
    }

    async fn lock_number(&mut self, key: Key, mode: Mode) -> Result<()> {
        let limit_ms = self.settings.lock_timeout_ms;
        let store = self.shared.engine.store();
        waited(&self.cancel, limit_ms, self.advisory.lock(&self.shared.advisory, store, key, mode)).await
    }

    fn unlock_number(&mut self, key: Key, is_shared: bool) -> bool {
        let is_held = self.advisory.unlock(&self.shared.advisory, key, is_shared);
        if !is_held {
            let mode = if is_shared { "ShareLock" } else { "ExclusiveLock" };
            self.warn(ErrorCode::Warning, &format!("you don't own a lock of type {mode}"));
        }
        is_held
    }

    async fn sleep(&self, seconds: f64) -> Result<()> {
        if seconds > 0.0 {
            let sleep = tokio::time::sleep(Duration::from_secs_f64(seconds.min(SECONDS_MAX)));
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(self.cancel.error()),
                () = scope(&SLEEP, sleep) => {}
            }
        }
        Ok(())
    }
}

/// The number that is locked; `None` where a part of it is NULL.
fn key_of(arguments: &[Argument], parameters: &[Value]) -> Result<Option<Key>> {
    let Some(numbers) = arguments.iter().map(|argument| argument.whole(parameters)).collect::<Option<Vec<i64>>>()
    else {
        return Ok(None);
    };
    match numbers[..] {
        [number] => Ok(Some(Key::One(number))),
        [first, second] => match (i32::try_from(first), i32::try_from(second)) {
            (Ok(first), Ok(second)) => Ok(Some(Key::Two(first, second))),
            _ => Err(Error::new(ErrorCode::NumericOutOfRange, "integer out of range")),
        },
        _ => Err(Error::internal("a lock has one number or two")),
    }
}
