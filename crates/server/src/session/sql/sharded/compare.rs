//! Compares what shards say about a statement before it runs.
//!
//! Called by `run_several` for statements that return rows, and by `copy`. Changes nothing.

use std::borrow::Cow;
use std::sync::Arc;

use ashlar_base::Result;
use ashlar_shard::backend::{Described, Taker};

use super::{Several, SqlSession, is_kept, placed};

/// Keeps how an answer is described, and takes nothing else.
#[derive(Default)]
pub(super) struct Description(pub(super) Vec<u8>);

impl Taker for Description {
    fn describe(&mut self, message: &[u8]) {
        self.0 = message.to_vec();
    }

    fn rows(&mut self, _: &[u8], _: u64) {}

    async fn ready(&mut self) -> Result<()> {
        Ok(())
    }
}

impl SqlSession {
    /// Makes sure that all shards of a statement that gives rows back answer with the same columns, before the first is asked to change
    /// anything: what they are, where its client has not been told.
    pub(super) async fn compare_shards(&mut self, several: &Several<'_>) -> Result<Option<Arc<Described>>> {
        let mut told: Option<Arc<Described>> = None;
        for sent in &several.forward.statements {
            let (_, types) = several.own(sent);
            let expected = match several.describe {
                true => told.clone(),
                false => several.expected_of(sent, &types),
            };
            let place = self.begin_remote(sent.server).await?;
            let lease = &mut self.remotes[place].lease;
            let asked = match &expected {
                Some(expected) => {
                    // A statement of the simple protocol is no prepared one: nothing of it is kept.
                    let is_kept = !several.describe && is_kept(sent, true);
                    lease.queue_check((&sent.text, is_kept), &types, expected)
                }
                None => {
                    lease.queue_look(&sent.text);
                    true
                }
            };
            if !asked {
                continue;
            }
            let mut description = Description::default();
            let ended = self.on_remote(place, false, &mut description, |_| {}).await;
            ended.map_err(|error| placed(error, matches!(sent.text, Cow::Borrowed(_))))?;
            if several.describe && told.is_none() {
                told = Some(Arc::new(Described::of_answer(sent.server, &description.0)?));
            }
        }
        Ok(told)
    }
}
