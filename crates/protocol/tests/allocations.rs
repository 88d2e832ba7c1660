//! Proves what the decoders promise about memory, with an allocator that counts.
//!
//! A warmed decoder allocates nothing per command, message or row; and a length that is merely claimed costs nothing.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ashlar_protocol::copy::{Format, Options, RowDecoder, RowEncoder};
use ashlar_protocol::pg::backend::DataRow;
use ashlar_protocol::pg::frontend::{self, Frontend};
use ashlar_protocol::resp::{CommandDecoder, Limits, ReplyWriter, Version};

thread_local! {
    /// Allocations and bytes allocated by this thread; other tests run on others.
    static COUNTED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(bytes: usize) {
    COUNTED.with(|counted| {
        let (allocations, total) = counted.get();
        counted.set((allocations + 1, total + bytes as u64));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and bytes that `run` costs.
fn counted(run: impl FnOnce()) -> (u64, u64) {
    let before = COUNTED.get();
    run();
    let after = COUNTED.get();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn the_allocator_counts() {
    let (allocations, bytes) = counted(|| drop(std::hint::black_box(vec![1u8; 1000])));
    assert_eq!((allocations, bytes), (1, 1000));
}

#[test]
fn a_pipeline_of_commands_and_replies_allocates_nothing() {
    let mut pipeline = Vec::new();
    for number in 0..1000 {
        let key = format!("key:{number}");
        match number % 3 {
            0 => pipeline.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).as_bytes()),
            1 => pipeline.extend_from_slice(
                format!("*4\r\n$4\r\nHSET\r\n${}\r\n{key}\r\n$1\r\nf\r\n$5\r\nvalue\r\n", key.len()).as_bytes(),
            ),
            _ => pipeline.extend_from_slice(format!("get \"{key}\"\r\n").as_bytes()),
        }
    }
    let (mut decoder, mut out) = (CommandDecoder::new(), Vec::new());
    let mut pass = || {
        out.clear();
        let (mut rest, mut commands, mut arguments) = (pipeline.as_slice(), 0, 0);
        while let Some((command, used)) = decoder.decode(rest, &Limits::default()).unwrap() {
            let mut reply = ReplyWriter::new(&mut out, Version::Resp3);
            reply.bulk(command.args().next().unwrap());
            reply.bulk_with(|out| out.extend_from_slice(b"a value of more than nine bytes"));
            reply.integer(123_456);
            commands += 1;
            arguments += command.len();
            rest = &rest[used..];
        }
        assert_eq!((commands, arguments, rest.len()), (1000, 334 * 2 + 333 * 4 + 333 * 2, 0));
    };
    // The first pass warms the vectors.
    pass();
    assert_eq!(counted(&mut pass), (0, 0));
}

#[test]
fn messages_of_the_extended_protocol_and_rows_allocate_nothing() {
    let mut stream = Vec::new();
    for _ in 0..1000 {
        stream.extend_from_slice(b"P\0\0\0\x16s\0select $1\0\0\x01\0\0\0\x17");
        stream.extend_from_slice(b"B\0\0\0\x14\0s\0\0\x01\0\x01\0\x01\0\0\0\x01x\0\0");
        stream.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0");
        stream.extend_from_slice(b"S\0\0\0\x04");
    }
    let mut out = Vec::new();
    let mut pass = || {
        out.clear();
        let (mut rest, mut messages, mut syncs) = (stream.as_slice(), 0, 0);
        while let Some((message, used)) = frontend::decode(rest, 1 << 20).unwrap() {
            match message {
                Frontend::Parse { param_types, .. } => assert_eq!(param_types.last(), Some(23)),
                Frontend::Bind(bind) => {
                    let mut row = DataRow::begin(&mut out, 2);
                    for (_, value) in bind.params() {
                        row.value(|out| out.extend_from_slice(value.unwrap()));
                    }
                    row.null();
                    row.end().unwrap();
                }
                Frontend::Sync => syncs += 1,
                _ => {}
            }
            messages += 1;
            rest = &rest[used..];
        }
        assert_eq!((messages, syncs, rest.len()), (4000, 1000, 0));
    };
    pass();
    assert_eq!(counted(&mut pass), (0, 0));
}

#[test]
fn rows_of_copy_allocate_nothing() {
    for format in [Format::Text, Format::Csv, Format::Binary] {
        let options = Options::new(format);
        let (mut encoder, mut data) = (RowEncoder::new(options.clone(), 3), Vec::new());
        let row = |encoder: &mut RowEncoder, data: &mut Vec<u8>| {
            encoder.begin_row(data);
            encoder.value(data, |out| out.extend_from_slice(b"12345"));
            encoder.value(data, |out| out.extend_from_slice(b"with \"quotes\",\ttabs\nand lines"));
            encoder.null(data);
            encoder.end_row(data);
        };
        encoder.start(["a", "b", "c"].into_iter(), &mut data);
        let start = data.len();
        row(&mut encoder, &mut data);
        let one_row = data[start..].to_vec();
        let mut decoder = RowDecoder::new(options, vec!["a".into(), "b".into(), "c".into()], 1 << 20);
        decoder.push(&data[..start]);
        assert!(decoder.next_row().unwrap().is_none());
        let rows = one_row.repeat(1000);
        // Pieces that cut rows.
        let mut pass = || {
            let mut count = 0;
            for piece in rows.chunks(777) {
                decoder.push(piece);
                while let Some(row) = decoder.next_row().unwrap() {
                    assert_eq!(row.get(0), Some(b"12345".as_slice()));
                    assert_eq!(row.get(1).map(<[u8]>::len), Some(29));
                    assert_eq!(row.get(2), None);
                    count += 1;
                }
            }
            assert_eq!(count, 1000);
        };
        pass();
        assert_eq!(counted(&mut pass), (0, 0), "decoding {format:?}");
        let capacity = data.capacity();
        let encoded = counted(|| {
            data.clear();
            row(&mut encoder, &mut data);
        });
        assert_eq!((encoded, data.capacity()), ((0, 0), capacity), "encoding {format:?}");
    }
}

#[test]
fn a_claimed_length_allocates_nothing() {
    // Within generous limits, so nothing is refused: all of these are waited for.
    let limits = Limits { args_max: 1 << 30, bulk_bytes_max: 1 << 30, command_bytes_max: 4 << 30 };
    assert_eq!(counted(|| assert!(frontend::decode(b"Q\x40\0\0\0select", 1 << 30).unwrap().is_none())), (0, 0));
    assert_eq!(counted(|| assert!(frontend::decode_startup(b"\x40\0\0\0\0\x03", 1 << 30).unwrap().is_none())), (0, 0));
    let mut decoder = CommandDecoder::new();
    let mut wait = |bytes: &[u8]| assert!(decoder.decode(bytes, &limits).unwrap().is_none());
    assert_eq!(counted(|| wait(b"*1000000000\r\n$1000000000\r\nx")), (0, 0));
    let mut decoder = RowDecoder::new(Options::new(Format::Binary), vec!["a".into()], 2 << 30);
    let data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\x40\0\0\0x";
    let (allocations, bytes) = counted(|| {
        decoder.push(data);
        assert!(decoder.next_row().unwrap().is_none());
    });
    // What has arrived is kept, nothing else.
    assert!(allocations <= 1 && bytes < 100, "{allocations} allocations, {bytes} bytes");
}
