//! A slow, a cancelled and a vanished client: what the sink does with the statement behind it.

use std::pin::pin;

use ashlar_base::{ScalarType, SqlType, net};
use futures::FutureExt;
use tokio::io::AsyncReadExt;

use super::*;

const BOUND: usize = 128 * 1024;
const TEXT: SqlType = SqlType::Scalar(ScalarType::Text);

/// A connection over loopback: the server's end and the client's.
async fn connection() -> (TcpStream, TcpStream) {
    let listener = net::listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener = net::adopt(listener).expect("a runtime");
    let client = net::connect(listener.local_addr().expect("an address")).await.expect("a listener");
    let (server, _) = listener.accept().await.expect("a client");
    (server, client)
}

fn column() -> Column {
    Column { name: "t".to_owned(), sql_type: TEXT, oid: 25, typlen: -1, typmod: -1, table_oid: 0, column_number: 0 }
}

fn sink<'c>(outbox: &'c mut Outbox, stream: &'c TcpStream, cancel: &'c CancelToken) -> Sink<'c> {
    Sink::new(outbox, stream, BOUND, TextStyle::default(), cancel)
}

/// Writes rows until the sink wants to wait; how many.
fn fill(sink: &mut Sink<'_>, columns: &[Column]) -> usize {
    let value = "x".repeat(1000);
    let mut rows = 0;
    loop {
        sink.row(columns, &mut std::iter::once(Datum::Text(&value)));
        rows += 1;
        assert!(rows < 1_000_000, "a client that does not read is never waited for");
        match pin!(sink.ready()).now_or_never() {
            Some(ready) => ready.expect("a connection that works"),
            None => return rows,
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_bounded_memory() {
    let (server, _client) = connection().await;
    let mut outbox = Outbox::default();
    let cancel = CancelToken::new();
    let mut sink = sink(&mut outbox, &server, &cancel);
    fill(&mut sink, &[column()]);
    assert!(sink.outbox.pending() > BOUND, "{}", sink.outbox.pending());
    assert!(sink.outbox.pending() < BOUND + 64 * 1024, "{}", sink.outbox.pending());
}

#[tokio::test]
async fn where_there_is_room_a_sink_is_ready_at_once_and_nothing_is_sent() {
    let (server, _client) = connection().await;
    let (mut outbox, cancel) = (Outbox::default(), CancelToken::new());
    let mut sink = sink(&mut outbox, &server, &cancel);
    assert!(sink.has_room());
    // A row that could not be encoded is told, however much room there is.
    sink.refused = Some(Error::internal("a row that cannot be encoded"));
    assert!(!sink.has_room());
    assert!(sink.ready().await.is_err());
    let (columns, value) = ([column()], "x".repeat(1000));
    let (mut with_room, mut without) = (0, 0);
    loop {
        let (has_room, before) = (sink.has_room(), sink.outbox.pending());
        let ready = pin!(sink.ready()).now_or_never();
        match has_room {
            true => {
                assert!(matches!(ready, Some(Ok(()))), "{ready:?}");
                assert_eq!(sink.outbox.pending(), before);
                with_room += 1;
            }
            false => without += 1,
        }
        if ready.is_none() {
            break;
        }
        assert!(with_room < 1_000_000, "a client that does not read is never waited for");
        sink.row(&columns, &mut std::iter::once(Datum::Text(&value)));
    }
    assert!(with_room > 60 && without > 0, "{with_room} {without}");
    assert!(!sink.has_room());
}

#[tokio::test]
async fn a_cancel_request_reaches_a_statement_that_waits_for_its_client() {
    let (server, _client) = connection().await;
    let mut outbox = Outbox::default();
    let cancel = CancelToken::new();
    let mut sink = sink(&mut outbox, &server, &cancel);
    fill(&mut sink, &[column()]);
    let mut waiting = Box::pin(sink.ready());
    assert!(waiting.as_mut().now_or_never().is_none());
    cancel.cancel();
    let error = waiting.await.expect_err("a cancelled statement");
    assert_eq!(error.code(), ErrorCode::QueryCanceled);
}

#[tokio::test]
async fn every_row_arrives_once_and_whole_at_a_slow_client() {
    let (server, mut client) = connection().await;
    let mut outbox = Outbox::default();
    let cancel = CancelToken::new();
    let mut sink = sink(&mut outbox, &server, &cancel);
    let columns = [column()];
    let mut rows = fill(&mut sink, &columns);
    let reader = async move {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"the end") {
            assert!(client.read_buf(&mut bytes).await.expect("a server") > 0);
        }
        bytes
    };
    let writer = async {
        for _ in 0..5_000 {
            sink.ready().await.expect("a connection that works");
            let value = format!("{rows:06}");
            sink.row(&columns, &mut [Datum::Text(&value)].into_iter());
            rows += 1;
        }
        sink.row(&columns, &mut [Datum::Text("the end")].into_iter());
        rows += 1;
        sink.outbox.flush(sink.stream).await.expect("a client that reads");
        assert_eq!(sink.finish().expect("a connection that works"), rows as u64);
    };
    let (bytes, ()) = tokio::join!(reader, writer);
    let mut rest = &bytes[..];
    let mut received = 0;
    while let Some((b'D', after)) = rest.split_first() {
        let length = u32::from_be_bytes([after[0], after[1], after[2], after[3]]) as usize;
        let value = &after[10..length];
        let expected = format!("{received:06}");
        assert!(value == expected.as_bytes() || value == b"the end" || value.iter().all(|&byte| byte == b'x'));
        rest = &after[length..];
        received += 1;
    }
    assert_eq!((received, rest.len()), (rows, 0));
}

/// Writes parts of one row until the sink wants to wait; how many bytes.
fn fill_with_parts(sink: &mut Sink<'_>) -> usize {
    let part = [b'x'; 32 * 1024];
    let mut sent = 0;
    loop {
        sink.forward_part(&part, 1);
        sent += part.len();
        assert!(sent < 1 << 30, "a client that does not read is never waited for");
        match pin!(sink.ready()).now_or_never() {
            Some(ready) => ready.expect("a connection that works"),
            None => return sent,
        }
    }
}

#[tokio::test]
async fn a_row_in_parts_is_waited_for_to_its_end() {
    let (server, mut client) = connection().await;
    let mut outbox = Outbox::default();
    let cancel = CancelToken::new();
    let mut sink = sink(&mut outbox, &server, &cancel);
    let sent = fill_with_parts(&mut sink);
    assert!((BOUND..BOUND + 64 * 1024).contains(&sink.outbox.pending()), "{}", sink.outbox.pending());
    // Whoever stops it does not cut it off.
    cancel.cancel();
    assert!(pin!(sink.ready()).now_or_never().is_none());
    let reader = async move {
        let mut bytes = Vec::new();
        while bytes.len() <= sent {
            assert!(client.read_buf(&mut bytes).await.expect("a server") > 0);
        }
        bytes
    };
    let writer = async {
        sink.ready().await.expect("a connection that works");
        sink.forward_part(b"!", 0);
        sink.outbox.flush(sink.stream).await.expect("a client that reads");
        assert_eq!(sink.finish().expect("a row that is whole"), 1);
    };
    let (bytes, ()) = tokio::join!(reader, writer);
    assert_eq!((bytes.len(), bytes.last()), (sent + 1, Some(&b'!')));
    assert!(bytes[..sent].iter().all(|byte| *byte == b'x'));
}

#[tokio::test]
async fn a_row_without_an_end_ends_the_connection() {
    let (server, _client) = connection().await;
    let mut outbox = Outbox::default();
    let cancel = CancelToken::new();
    let mut sink = sink(&mut outbox, &server, &cancel);
    sink.forward_part(b"a row that", 10);
    sink.ready().await.expect("a connection that works");
    assert!(sink.finish().is_err());
}

#[tokio::test]
async fn a_client_that_has_gone_ends_the_statement() {
    let (server, client) = connection().await;
    let mut outbox = Outbox::default();
    let cancel = CancelToken::new();
    let mut sink = sink(&mut outbox, &server, &cancel);
    fill(&mut sink, &[column()]);
    // Its receive buffer is full of bytes that nobody read: the kernel resets the connection.
    drop(client);
    let error = sink.ready().await.expect_err("nobody there");
    assert_eq!(error.code(), ErrorCode::ConnectionFailure);
    assert!(sink.finish().is_err());
}

#[tokio::test]
async fn values_travel_in_the_format_that_was_asked_for() {
    let (server, _client) = connection().await;
    let mut outbox = Outbox::default();
    let cancel = CancelToken::new();
    let mut sink = sink(&mut outbox, &server, &cancel);
    sink.formats = Some(Arc::new([ValueFormat::Binary, ValueFormat::Text, ValueFormat::Text]));
    let int = Column { sql_type: SqlType::Scalar(ScalarType::Int4), ..column() };
    let values = [Datum::Int4(-2), Datum::Int4(-2), Datum::Null];
    sink.row(&[int.clone(), int.clone(), int], &mut values.into_iter());
    let expected = b"D\0\0\0\x18\0\x03\0\0\0\x04\xff\xff\xff\xfe\0\0\0\x02-2\xff\xff\xff\xff";
    assert_eq!(sink.outbox.buffer().as_slice(), expected);
}
