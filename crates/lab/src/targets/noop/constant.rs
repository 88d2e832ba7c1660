//! The RESP door of the server that stores nothing, to a foreign program: each command has the same answer, and nothing is read of it but
//! where it begins. No server can be quicker under such a client on the same machine.

use anyhow::Result;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Inbox;

/// Answers that are written at once, at most.
const AT_ONCE: usize = 1024;

/// Likewise their bytes, unless a single one has more.
const AT_ONCE_BYTES: usize = 1 << 20;

/// The answer to all commands of a connection that begins so: to those of `foreign`, in whose keys and values no asterisk is.
pub(super) fn reply(begin: &[u8], value_bytes: usize) -> Option<Vec<u8>> {
    let after = begin.strip_prefix(b"*")?;
    let end = after.windows(2).position(|two| two == b"\r\n")?;
    let words: usize = str::from_utf8(&after[..end]).ok()?.parse().ok()?;
    let name = after[end + 2..].split(|byte| *byte == b'\n').nth(1)?;
    let values = |count: usize| format!("${value_bytes}\r\n{}\r\n", "x".repeat(value_bytes)).repeat(count);
    match (words, name) {
        (2, b"GET\r") => Some(values(1).into_bytes()),
        (2.., b"MGET\r") => Some(format!("*{}\r\n{}", words - 1, values(words - 1)).into_bytes()),
        (3, b"SET\r") | (3.., b"MSET\r") => Some(b"+OK\r\n".to_vec()),
        _ => None,
    }
}

/// Answers one connection until its client closes it.
pub(super) async fn converse(mut stream: TcpStream, mut inbox: Inbox, reply: Vec<u8>) -> Result<()> {
    let at_once = (AT_ONCE_BYTES / reply.len()).clamp(1, AT_ONCE);
    let replies = reply.repeat(at_once);
    loop {
        let mut commands = inbox.held().iter().filter(|byte| **byte == b'*').count();
        while commands > 0 {
            let now = commands.min(at_once);
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
        let many = b"*3\r\n$4\r\nMGET\r\n$16\r\nlab:000000000042\r\n";
        assert_eq!(reply(many, 3).unwrap(), b"*2\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n");
        assert_eq!(reply(b"*21\r\n$4\r\nMSET\r\n$16\r\nlab:", 3).unwrap(), b"+OK\r\n");
        assert_eq!(reply(b"*2\r\n$4\r\nINFO\r\n", 3), None);
        assert_eq!(reply(b"*21\r", 3), None);
        assert_eq!(reply(b"", 3), None);
    }
}
