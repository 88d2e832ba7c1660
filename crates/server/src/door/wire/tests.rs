//! The read and write buffers of a connection, over real sockets.

use ashlar_base::net;
use ashlar_store::{Store, StoreConfig};
use futures::FutureExt;
use tokio::io::AsyncWriteExt;

use super::*;

/// A connection over loopback: the server's end and the client's.
async fn connection() -> (TcpStream, TcpStream) {
    let listener = net::listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener = net::adopt(listener).expect("a runtime");
    let client = net::connect(listener.local_addr().expect("an address")).await.expect("a listener");
    let (server, _) = listener.accept().await.expect("a client");
    (server, client)
}

#[tokio::test]
async fn a_big_message_leaves_no_big_buffer_behind() {
    let (mut server, mut client) = connection().await;
    let message: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
    let sent = message.clone();
    let sending = tokio::spawn(async move {
        client.write_all(&sent).await.expect("a server that reads");
        client
    });
    let mut inbox = Inbox::default();
    while inbox.unread().len() < message.len() {
        assert!(inbox.fill(&mut server).await.expect("a client"));
        // What has arrived decides the size of the buffer, at most doubled.
        assert!(inbox.bytes.capacity() <= 2 * (inbox.bytes.len() + READ_BYTES));
    }
    assert!(inbox.unread() == message);
    inbox.consume(message.len() - 1);
    assert_eq!(inbox.unread(), &message[message.len() - 1..]);
    inbox.consume(1);
    assert!(inbox.bytes.capacity() <= KEEP_BYTES);
    assert_eq!(inbox.take_read(), message.len() as u64);
    drop(sending.await.expect("a sender"));
    assert!(!inbox.fill(&mut server).await.expect("an orderly end"));
}

#[tokio::test]
async fn a_connection_that_waits_has_no_buffers() {
    let (mut server, mut client) = connection().await;
    let (mut inbox, mut outbox) = (Inbox::default(), Outbox::default());
    for length in [5, 7000, READ_BYTES, KEEP_BYTES, 2 * KEEP_BYTES, 1 << 20] {
        client.write_all(&vec![1; length]).await.expect("a server");
        while inbox.unread().len() < length {
            assert!(inbox.fill(&mut server).await.expect("a client"));
        }
        // What is not understood yet stays.
        inbox.consume(length - 1);
        assert!(inbox.fill(&mut server).now_or_never().is_none());
        assert_eq!(inbox.unread(), [1]);
        inbox.consume(1);
        outbox.buffer().extend_from_slice(&vec![2; length]);
        outbox.seal();
        outbox.flush(&server).await.expect("a client");
        assert!(inbox.fill(&mut server).now_or_never().is_none());
        assert_eq!((inbox.bytes.capacity(), outbox.bytes.capacity()), (0, 0));
        let mut answer = vec![0; length];
        client.read_exact(&mut answer).await.expect("a server");
        assert!(answer == vec![2; length]);
    }
}

#[tokio::test]
async fn consumed_bytes_make_room_for_the_rest_of_a_message() {
    let (mut server, mut client) = connection().await;
    let mut inbox = Inbox::default();
    for round in 0..100_u32 {
        let bytes = vec![round as u8; 4000];
        client.write_all(&bytes).await.expect("a server");
        let before = inbox.unread().len();
        while inbox.unread().len() < before + 4000 {
            assert!(inbox.fill(&mut server).await.expect("a client"));
        }
        // One byte always stays behind, so that the buffer is never empty.
        inbox.consume(before + 3999);
    }
    assert!(inbox.bytes.capacity() <= 4 * READ_BYTES, "{}", inbox.bytes.capacity());
}

#[tokio::test]
async fn messages_of_a_stream_share_a_buffer_that_is_given_back_at_its_end() {
    let (mut server, mut client) = connection().await;
    let message: Vec<u8> = (0..70_000u32).map(|number| number as u8).collect();
    let sent = message.clone();
    let sending = tokio::spawn(async move {
        for _ in 0..20 {
            client.write_all(&sent).await.expect("a server that reads");
        }
        client
    });
    let store = Store::new(StoreConfig::default());
    let mut inbox = Inbox::charged_to(store.reservation());
    inbox.set_stream(true);
    let mut capacities = Vec::new();
    for _ in 0..20 {
        while inbox.unread().len() < message.len() {
            assert!(inbox.fill(&mut server).await.expect("a client"));
        }
        assert!(inbox.unread().starts_with(&message));
        inbox.consume(message.len());
        capacities.push(inbox.bytes.capacity());
    }
    let kept = KEEP_BYTES + 1..=KEEP_IN_STREAM_BYTES;
    assert!(capacities.is_sorted() && capacities.iter().all(|capacity| kept.contains(capacity)), "{capacities:?}");
    assert!(store.memory_used() >= capacities[19] as u64);
    inbox.set_stream(false);
    assert!(inbox.bytes.capacity() <= KEEP_BYTES);
    assert_eq!((store.memory_used(), inbox.take_read()), (0, 20 * message.len() as u64));
    drop(sending.await.expect("a sender"));
}

#[test]
fn an_unfinished_message_is_taken_back() {
    let mut outbox = Outbox::default();
    outbox.buffer().extend_from_slice(b"whole");
    outbox.seal();
    outbox.buffer().extend_from_slice(b"hal");
    outbox.drop_unsealed();
    assert_eq!(outbox.buffer().as_slice(), b"whole");
}

#[test]
fn a_message_that_comes_in_parts_is_whole_with_its_last() {
    let mut outbox = Outbox::default();
    outbox.buffer().extend_from_slice(b"whole");
    outbox.append_part(b"in ", 5);
    outbox.append_part(b"par", 2);
    outbox.seal();
    assert!(outbox.is_cut());
    assert_eq!(outbox.sealed, b"whole".len());
    outbox.append_part(b"ts", 0);
    assert!(!outbox.is_cut());
    outbox.buffer().extend_from_slice(b"hal");
    outbox.drop_unsealed();
    assert_eq!(outbox.buffer().as_slice(), b"wholein parts");
}

#[tokio::test]
async fn a_reset_is_noticed_behind_bytes_that_nobody_reads_and_the_end_of_sending_is_none() {
    let (server, mut client) = connection().await;
    client.write_all(b"pipelined").await.expect("a server");
    client.shutdown().await.expect("a server");
    server.ready(tokio::io::Interest::PRIORITY).await.expect("the end of sending");
    assert!(reset_by_client(&server).now_or_never().is_none());
    // A client that closes with bytes unread tears the connection down.
    server.writable().await.expect("a client");
    server.try_write(b"answer").expect("a client");
    client.readable().await.expect("an answer");
    drop(client);
    reset_by_client(&server).await;
}

#[tokio::test]
async fn a_reset_is_noticed_by_one_that_waits_and_bytes_that_come_meanwhile_are_none() {
    for sends_more in [false, true] {
        let (server, mut client) = connection().await;
        server.writable().await.expect("a client");
        server.try_write(b"answer").expect("a client");
        client.readable().await.expect("an answer");
        // A new connection is taken to have sent something until it is looked at.
        assert!(server.try_read(&mut [0]).is_err());
        let mut reset = std::pin::pin!(reset_by_client(&server));
        assert!(reset.as_mut().now_or_never().is_none());
        if sends_more {
            client.write_all(b"pipelined").await.expect("a server");
            server.readable().await.expect("a client");
            assert!(reset.as_mut().now_or_never().is_none());
        }
        drop(client);
        reset.await;
    }
}

#[tokio::test]
async fn a_long_message_is_paid_for_while_it_comes() {
    let (mut server, mut client) = connection().await;
    let store = Store::new(StoreConfig { memory_max: 1 << 20, ..StoreConfig::default() });
    let mut inbox = Inbox::charged_to(store.reservation());
    let sending = tokio::spawn(async move {
        // Ends when the server has had enough of it.
        while client.write_all(&[7; 8192]).await.is_ok() {}
    });
    while inbox.unread().len() < 300_000 {
        assert!(inbox.fill(&mut server).await.expect("a client"));
    }
    assert!(store.memory_used() >= 300_000);
    inbox.consume(inbox.unread().len());
    assert_eq!(store.memory_used(), 0);
    let error = loop {
        match inbox.fill(&mut server).await {
            Ok(more) => assert!(more),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(inbox.bytes.capacity() <= 1 << 20);
    drop((server, inbox));
    assert_eq!(store.memory_used(), 0);
    sending.await.expect("a sender");
}
