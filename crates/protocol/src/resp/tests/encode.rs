//! Each reply in both versions.

use ashlar_base::{Error, ErrorCode};

use crate::resp::{ReplyWriter, Version};

fn check(write: impl Fn(&mut ReplyWriter<'_>), resp2: &str, resp3: &str) {
    for (version, expected) in [(Version::Resp2, resp2), (Version::Resp3, resp3)] {
        // Behind something, as in a real write buffer.
        let mut out = b"before".to_vec();
        let mut writer = ReplyWriter::new(&mut out, version);
        write(&mut writer);
        assert_eq!(writer.buffered_bytes(), 6 + expected.len());
        assert_eq!(String::from_utf8_lossy(&out[6..]), expected, "{version:?}");
    }
}

fn check_same(write: impl Fn(&mut ReplyWriter<'_>), expected: &str) {
    check(write, expected, expected);
}

#[test]
fn lines_have_their_bytes() {
    check_same(|reply| reply.ok(), "+OK\r\n");
    check_same(|reply| reply.simple("PONG"), "+PONG\r\n");
    check_same(|reply| reply.simple("a\r\n+b"), "+a  +b\r\n");
    check_same(|reply| reply.integer(0), ":0\r\n");
    check_same(|reply| reply.integer(i64::MIN), ":-9223372036854775808\r\n");
    check_same(|reply| reply.integer(10), ":10\r\n");
    check_same(|reply| reply.error_text("ERR syntax error"), "-ERR syntax error\r\n");
    check_same(|reply| reply.error_text("ERR unknown command 'a\nb'"), "-ERR unknown command 'a b'\r\n");
    let error = Error::new(ErrorCode::SerializationFailure, "could not serialize\r\naccess");
    check_same(|reply| reply.error(&error), "-TRYAGAIN could not serialize  access\r\n");
}

#[test]
fn strings_have_their_bytes() {
    check_same(|reply| reply.bulk(b""), "$0\r\n\r\n");
    check_same(|reply| reply.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n");
    check(|reply| reply.null(), "$-1\r\n", "_\r\n");
    check(|reply| reply.verbatim(*b"txt", b"hello"), "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n");
}

#[test]
fn a_string_of_unknown_length_equals_one_of_known_length() {
    for length in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12_345, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|at| b'a' + (at % 26) as u8).collect();
        let (mut known, mut unknown) = (b"before".to_vec(), b"before".to_vec());
        ReplyWriter::new(&mut known, Version::Resp2).bulk(&bytes);
        ReplyWriter::new(&mut unknown, Version::Resp2).bulk_with(|out| out.extend_from_slice(&bytes));
        assert_eq!(known, unknown, "{length} bytes");
    }
}

#[test]
fn aggregates_have_their_bytes() {
    check_same(|reply| reply.array(12), "*12\r\n");
    check(|reply| reply.null_array(), "*-1\r\n", "_\r\n");
    check(|reply| reply.map(7), "*14\r\n", "%7\r\n");
    check(|reply| reply.set(3), "*3\r\n", "~3\r\n");
    check(|reply| reply.push(3), "*3\r\n", ">3\r\n");
}

#[test]
fn booleans_and_numbers_have_their_bytes() {
    check(|reply| reply.boolean(true), ":1\r\n", "#t\r\n");
    check(|reply| reply.boolean(false), ":0\r\n", "#f\r\n");
    let digits = "3492890328409238509324850943850943825024385";
    check(|reply| reply.big_number(digits), &format!("$43\r\n{digits}\r\n"), &format!("({digits}\r\n"));
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (3.0, "3"),
        (-3.5, "-3.5"),
        (0.1, "0.1"),
        (1e15, "1000000000000000"),
        (4503599627370496.0, "4503599627370496"),
        (1e16, "1e+16"),
        (1.5e300, "1.5e+300"),
        (1.2345678901234568e20, "123456789012345680000"),
        (0.001, "0.001"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (1.25e-9, "1.25e-9"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ] {
        check(|reply| reply.double(value), &format!("${}\r\n{text}\r\n", text.len()), &format!(",{text}\r\n"));
    }
}
