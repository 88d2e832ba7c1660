//! The socket to a shard: of TCP, or of this machine.

use std::io;
use std::time::Duration;

use ashlar_base::net;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};

use crate::server::Server;

/// See the module.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects, to the first address of the server's name that answers. `silence`: how long its machine may acknowledge nothing.
    pub(super) async fn open(server: &Server, silence: Duration) -> io::Result<Self> {
        if server.is_socket() {
            let path = format!("{}/.s.PGSQL.{}", server.host, server.port);
            return net::connect_socket(path.as_ref()).await.map(Self::Unix);
        }
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in tokio::net::lookup_host((server.host.as_str(), server.port)).await? {
            match net::connect(address).await {
                Ok(stream) => {
                    net::end_after_silence(&stream, silence)?;
                    return Ok(Self::Tcp(stream));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Waits for bytes, and adds what the kernel has.
    pub(super) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_buf(bytes).await,
            Self::Unix(stream) => stream.read_buf(bytes).await,
        }
    }

    /// Reads what the kernel has.
    pub(super) fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(bytes),
            Self::Unix(stream) => stream.try_read(bytes),
        }
    }

    /// Writes what the kernel takes.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Waits until it can be written.
    pub(super) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Waits until it can be read or written.
    pub(super) async fn ready(&self) -> io::Result<tokio::io::Ready> {
        let both = tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE;
        match self {
            Self::Tcp(stream) => stream.ready(both).await,
            Self::Unix(stream) => stream.ready(both).await,
        }
    }
}
