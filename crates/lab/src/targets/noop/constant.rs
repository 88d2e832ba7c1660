//! The RESP door of the server that stores nothing, to a foreign program: each command has the same answer, and nothing is read of it but
//! where it begins. No server can be quicker under such a client on the same machine.

use anyhow::Result;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Inbox;

/// Answers that are written at once, at most.
const AT_ONCE: usize = 1024;

/// The answer to all commands of a connection that begins so: to those of `foreign`, in whose keys and values no asterisk is.
pub(super) fn reply(begin: &[u8], value_bytes: usize) -> Option<Vec<u8>> {
    if begin.starts_with(b"*2\r\n$3\r\nGET\r\n") {
        let mut reply = format!("${value_bytes}\r\n").into_bytes();
        reply.resize(reply.len() + value_bytes, b'x');
        reply.extend_from_slice(b"\r\n");
        return Some(reply);
    }
    begin.starts_with(b"*3\r\n$3\r\nSET\r\n").then(|| b"+OK\r\n".to_vec())
}

/// Answers one connection until its client closes it.
pub(super) async fn converse(mut stream: TcpStream, mut inbox: Inbox, reply: Vec<u8>) -> Result<()> {
    let replies = reply.repeat(AT_ONCE);
    loop {
        let mut commands = inbox.held().iter().filter(|byte| **byte == b'*').count();
        while commands > 0 {
            let now = commands.min(AT_ONCE);
            stream.write_all(&replies[..now * reply.len()]).await?;
            commands -= now;
        }
        let all = inbox.held().len();
        if !inbox.next(all, &mut stream).await? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_answered_by_what_it_begins_with() {
        let get = b"*2\r\n$3\r\nGET\r\n$16\r\nlab:000000000042\r\n";
        assert_eq!(reply(get, 3).unwrap(), b"$3\r\nxxx\r\n");
        assert_eq!(reply(b"*3\r\n$3\r\nSET\r\n$16\r\nlab:", 3).unwrap(), b"+OK\r\n");
        assert_eq!(reply(b"*2\r\n$4\r\nINFO\r\n", 3), None);
        assert_eq!(reply(b"", 3), None);
    }
}
