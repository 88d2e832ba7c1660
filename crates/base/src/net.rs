//! The seam for sockets: how Ashlar listens, accepts and connects.
//!
//! Called by the doors, by the clients built into the command line and by those of the lab. Nothing else opens a socket, so that a
//! simulated network can take the place of this one.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// Connections that the kernel completes while the server has not accepted them yet. The kernel lowers it to its
/// own `somaxconn`, 4096 on Linux since 5.4.
const BACKLOG: i32 = 4096;

/// A silent peer is probed after this long, so that the sessions of machines that vanished end.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(120);

/// Questions without an answer after which a peer is gone; where there is a limit for all of them that decides.
const SILENT_PROBES: u32 = 4;

/// Opens a listening socket. The address can be taken again at once after a restart.
///
/// Belongs to no runtime yet, so that an address in use is found out before any thread starts.
pub fn listen(address: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Hands a listening socket to the current tokio runtime.
pub fn adopt(listener: StdListener) -> io::Result<TcpListener> {
    TcpListener::from_std(listener)
}

/// Prepares an accepted or a connected socket: small replies leave at once, and a vanished peer is noticed.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER))
}

/// Has a connection end with an error when its peer's machine has acknowledged nothing for so long: neither what was sent, nor, where
/// nothing was, a question whether it is there. A peer that is busy acknowledges all the same.
pub fn end_after_silence(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    // The kernel counts in whole seconds.
    let second = Duration::from_secs(1);
    let (quiet, between) = ((silence / 2).max(second), (silence / 8).max(second));
    let keepalive = TcpKeepalive::new().with_time(quiet).with_interval(between).with_retries(SILENT_PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(silence))?;
    Ok(())
}

/// Connects to a server, as the built-in clients do.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rest of the workspace calls instead")]
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    tune(&stream)?;
    Ok(stream)
}

/// Connects to a server of the same machine through a Unix socket.
pub async fn connect_socket(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path).await
}

/// Connects to a server within `timeout`, for clients that block a thread of their own.
pub fn connect_blocking(address: SocketAddr, timeout: Duration) -> io::Result<StdStream> {
    let stream = StdStream::connect_timeout(&address, timeout)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
