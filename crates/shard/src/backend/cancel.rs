//! Stops what a connection does, from outside.
//!
//! Used by sessions whose client has asked for it, and by the pool for a connection that was given back in the middle of something.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ashlar_protocol::pg::client;

use super::Stream;
use crate::server::Server;

/// Stops a statement that runs on a connection, over a connection of its own.
#[derive(Clone)]
pub struct Canceller {
    pub(super) server: Arc<Server>,
    pub(super) pid: i32,
    pub(super) secret: Arc<[u8]>,
    pub(super) patience: Duration,
}

impl Canceller {
    /// Asks the shard to stop it. Whether it does is heard on the connection itself.
    pub async fn cancel(&self) {
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
        if !matches!(asked.await, Ok(Ok(()))) {
            tracing::debug!(server = self.server.name, "a cancel request did not reach its shard");
        }
    }

    /// How long it is waited for what a cancelled connection has to say.
    pub fn patience(&self) -> Duration {
        self.patience
    }
}
