//! The RESP door of the server that stores nothing.

use anyhow::Result;
use ashlar_protocol::resp::{Command, CommandDecoder, Limits, ReplyWriter, Version};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::plant::strike;
use super::{Answers, Inbox, constant};
use crate::workload::{FIELDS, Structured, key_number, key_of, value};

/// Answers one connection until its client closes it.
pub(super) async fn converse(mut stream: TcpStream, answers: Answers) -> Result<()> {
    let value_bytes = answers.value_bytes as usize;
    let (limits, mut decoder) = (Limits::default(), CommandDecoder::new());
    let (mut inbox, mut used) = (Inbox::new(), 0);
    let (mut out, mut made) = (Vec::new(), Vec::new());
    while inbox.next(used, &mut stream).await? {
        used = 0;
        if answers.unparsed
            && let Some(reply) = constant::reply(inbox.held(), value_bytes)
        {
            return constant::converse(stream, inbox, reply).await;
        }
        while let Some((command, length)) = decoder.decode(&inbox.held()[used..], &limits)? {
            answers.plant.into_iter().for_each(strike);
            answer(command, value_bytes, &mut made, &mut ReplyWriter::new(&mut out, Version::Resp2));
            used += length;
        }
        stream.write_all(&out).await?;
        out.clear();
    }
    Ok(())
}

/// The reply that a store would give whose keys all have their first value.
fn answer(command: Command<'_>, value_bytes: usize, made: &mut Vec<u8>, reply: &mut ReplyWriter<'_>) {
    match command.name() {
        b"GET" => found(command.get(1).unwrap_or_default(), value_bytes, made, reply),
        b"MGET" => {
            reply.array(command.args().len());
            command.args().for_each(|key| found(key, value_bytes, made, reply));
        }
        b"HGETALL" => row(command.get(1).unwrap_or_default(), reply),
        b"SET" | b"MSET" => reply.ok(),
        b"HSET" => reply.integer(0),
        b"DEL" => reply.integer(command.args().len() as i64),
        b"INFO" => reply.bulk(format!("ashlar_version:{}\r\n", env!("CARGO_PKG_VERSION")).as_bytes()),
        other => reply.error_text(&format!("ERR unknown command '{}'", other.escape_ascii())),
    }
}

fn found(key: &[u8], value_bytes: usize, made: &mut Vec<u8>, reply: &mut ReplyWriter<'_>) {
    match key_number(key) {
        Some(number) => {
            value(number, 0, value_bytes, made);
            reply.bulk(made);
        }
        None => reply.null(),
    }
}

fn row(name: &[u8], reply: &mut ReplyWriter<'_>) {
    let Some(key) = key_of(name) else {
        return reply.array(0);
    };
    let mut made = Structured::default();
    made.set(key, 0);
    reply.array(2 * FIELDS);
    for (name, text) in made.fields() {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
}
