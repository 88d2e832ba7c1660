//! The HTTP door of the server that stores nothing: profiles of itself, as Ashlar gives them. No other page.

use anyhow::{Result, bail};
use ashlar_telemetry::profile::request;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Inbox;

/// A longer request is none of the lab's.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Answers one request.
pub(super) async fn converse(mut stream: TcpStream) -> Result<()> {
    let mut inbox = Inbox::new();
    let end = loop {
        if !inbox.next(0, &mut stream).await? {
            return Ok(());
        }
        if let Some(end) = inbox.held().windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if inbox.held().len() > REQUEST_BYTES_MAX {
            bail!("a request of more than {REQUEST_BYTES_MAX} bytes");
        }
    };
    let head = String::from_utf8_lossy(&inbox.held()[..end]).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kind = path.strip_prefix(request::PATH).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
    let accept = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then_some(value.trim())
    });
    let answer = request::answer(kind, query, accept.unwrap_or_default()).await;
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.status,
        if answer.status == 200 { "OK" } else { "refused" },
        answer.media_type,
        answer.body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&answer.body).await?;
    Ok(())
}
