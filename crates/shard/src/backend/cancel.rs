//! Stops what a connection does, from outside.
//!
//! Used by sessions whose client has asked for it, by what commits on a shard, and by the pool for a connection that was given back in the
//! middle of something.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ashlar_base::{Error, Result};
use ashlar_protocol::pg::client;

use super::{Backend, Ended, Stream, Taker};
use crate::server::Server;

/// Stops a statement that runs on a connection, over a connection of its own.
pub struct Canceller {
    server: Arc<Server>,
    pub(super) pid: i32,
    secret: Box<[u8]>,
    patience: Duration,
}

impl Canceller {
    /// For the connection with this number and secret.
    pub(super) fn new(server: &Arc<Server>, pid: i32, secret: &[u8], patience: Duration) -> Arc<Self> {
        Arc::new(Self { server: Arc::clone(server), pid, secret: secret.into(), patience })
    }

    /// Asks the shard to stop it. Whether it does is heard on the connection itself. `false`: the shard has not said in time that it
    /// has passed the request on, which may still come, to whatever runs there then.
    #[must_use]
    pub async fn cancel(&self) -> bool {
        let asked = tokio::time::timeout(self.patience, async {
            let mut stream = Stream::open(&self.server, self.patience).await?;
            let mut request = Vec::new();
            client::cancel_request(&mut request, self.pid, &self.secret);
            let mut sent = 0;
            while sent < request.len() {
                stream.writable().await?;
                match stream.try_write(&request[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            // The shard closes when it has passed the request on.
            stream.read(&mut Vec::with_capacity(1)).await.map(drop)
        });
        let is_taken = matches!(asked.await, Ok(Ok(())));
        if !is_taken {
            tracing::debug!(server = self.server.name, "a cancel request did not reach its shard");
        }
        is_taken
    }

    /// How long it is waited for what a cancelled connection has to say.
    pub fn patience(&self) -> Duration {
        self.patience
    }
}

impl Backend {
    /// As [`Self::answer`], until `stop` comes: then the shard is told, and has so long to say that it has stopped.
    ///
    /// # Errors
    /// As [`Self::answer`]; what `stop` says where the shard has stopped, or says nothing: then the connection is of no use any more.
    pub async fn answer_unless<T: Taker>(&mut self, taker: &mut T, stop: impl Future<Output = Error>) -> Result<Ended> {
        let canceller = self.canceller();
        let mut is_taken = true;
        let ended = {
            // Made where it stays: it is large, and would be copied.
            let mut work = pin!(self.answer(taker));
            let stopped = tokio::select! {
                biased;
                ended = &mut work => Ok(ended),
                why = stop => Err(why),
            };
            match stopped {
                Ok(ended) => ended,
                Err(why) => {
                    // In a box: nearly no statement needs room for it.
                    is_taken = Box::pin(canceller.cancel()).await;
                    match tokio::time::timeout(canceller.patience(), work).await {
                        // The shard says it in its own words; why it was asked is ours to say.
                        Ok(Err(error)) if error.sqlstate() == "57014" => Err(why),
                        Ok(ended) => ended,
                        Err(_) => Err(why),
                    }
                }
            }
        };
        if !is_taken {
            self.doubt();
        }
        if ended.is_err() {
            self.give_up();
        }
        ended
    }
}
