//! The entrance of the HTTP door: it bounds the number of connections and the time that each may take.
//!
//! Given to `axum`, which accepts, reads and writes through it. A connection has a bounded time to send a request,
//! however it is split into packets, and to accept more of the answer; after that it is closed. Knows HTTP only well
//! enough to say that it is full.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ashlar_base::clock;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};

use super::super::ACCEPT_RETRY;
use super::super::seats::{Seat, Seats};

/// What a connection is told for which there is no seat.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A listener with a bounded number of seats.
pub(super) struct Doorway {
    listener: TcpListener,
    seats: Arc<Seats>,
    patience: Duration,
}

/// A connection with a seat.
pub(super) struct Visitor {
    stream: TcpStream,
    patience: Duration,
    /// Runs out unless the client moves on.
    end: Pin<Box<Sleep>>,
    lease: Lease,
    _seat: Seat,
}

/// Whether an answer is being made on a connection, for which its client has to wait and may be silent.
#[derive(Clone, Debug, Default)]
pub(super) struct Lease(Arc<AtomicBool>);

/// Ends with the answer.
pub(super) struct Busy(Lease);

impl Lease {
    /// The client waits for us.
    pub(super) fn busy(&self) -> Busy {
        self.0.store(true, Ordering::Relaxed);
        Busy(self.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, Doorway>> for Lease {
    fn connect_info(stream: IncomingStream<'_, Doorway>) -> Self {
        stream.io().lease.clone()
    }
}

impl Doorway {
    pub(super) fn new(listener: TcpListener, seats: Arc<Seats>, patience: Duration) -> Self {
        Self { listener, seats, patience }
    }
}

impl axum::serve::Listener for Doorway {
    type Io = Visitor;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visitor, SocketAddr) {
        loop {
            let (stream, address) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly too many open files: trying on at once would spin.
                    tracing::debug!(%error, "cannot accept a connection of the HTTP door");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            let Some(seat) = self.seats.sit() else {
                // A new socket takes this much without waiting; a client that has gone need not be told.
                let told = stream.into_std().and_then(|mut stream| stream.write_all(FULL));
                tracing::debug!(?told, "the HTTP door is full");
                continue;
            };
            let end = Box::pin(tokio::time::sleep(self.patience));
            return (Visitor { stream, patience: self.patience, end, lease: Lease::default(), _seat: seat }, address);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Visitor {
    /// What is waited for has its time.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_pending() && self.end.as_mut().poll(cx).is_ready() {
            if !self.lease.0.load(Ordering::Relaxed) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.begin_anew();
            // Asked, so that it wakes this task when it runs out again.
            let _ = self.end.as_mut().poll(cx);
        }
        polled
    }

    /// As [`Self::in_time`]; what was sent begins the time anew, for more of the answer or for the next request.
    fn sent(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(1..)) = polled {
            self.begin_anew();
        }
        self.in_time(cx, polled)
    }

    fn begin_anew(&mut self) {
        self.end.as_mut().reset(Instant::from_std(clock::monotonic()) + self.patience);
    }
}

impl AsyncRead for Visitor {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.in_time(cx, polled)
    }
}

impl AsyncWrite for Visitor {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.sent(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.in_time(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.in_time(cx, polled)
    }
}
