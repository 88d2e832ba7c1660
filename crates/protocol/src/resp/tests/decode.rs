//! Commands, good and bad. What Redis does was read from its sources and tried on a real one.

use ashlar_base::Error;

use crate::resp::{CommandDecoder, DecodeError, Limits, ReplyWriter, Version};

fn limits() -> Limits {
    Limits::default()
}

/// Decodes exactly one command; every shorter prefix must ask for more.
fn check(bytes: &[u8], expected: &[&[u8]]) {
    let mut decoder = CommandDecoder::new();
    for end in 0..bytes.len() {
        let early = decoder.decode(&bytes[..end], &limits()).unwrap();
        assert!(early.is_none(), "{end} of {} bytes", bytes.len());
    }
    let mut followed = bytes.to_vec();
    followed.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
    for mut decoder in [decoder, CommandDecoder::new()] {
        let (command, used) = decoder.decode(&followed, &limits()).unwrap().unwrap();
        let shown = |arg: &[u8]| arg.escape_ascii().to_string();
        let args: Vec<_> = (0..command.len()).map(|index| shown(command.get(index).unwrap())).collect();
        assert_eq!(args, expected.iter().map(|arg| shown(arg)).collect::<Vec<_>>());
        assert_eq!(used, bytes.len());
        assert_eq!(command.is_empty(), expected.is_empty());
        assert_eq!(command.name(), expected.first().copied().unwrap_or_default());
        assert!(command.args().eq(expected.iter().skip(1).copied()));
        assert_eq!(command.get(expected.len()), None);
    }
}

fn error(bytes: &[u8], limits: &Limits) -> Option<DecodeError> {
    CommandDecoder::new().decode(bytes, limits).err()
}

/// The reply to bytes that are no command, whole or in pieces (of one byte, unless there are very many).
fn check_error(bytes: &[u8], text: &str) {
    let whole = error(bytes, &limits()).unwrap_or_else(|| panic!("{} is accepted", bytes.escape_ascii()));
    let mut decoder = CommandDecoder::new();
    let piece = 1 + bytes.len() / 1000;
    let mut ends = (0..bytes.len()).step_by(piece).chain([bytes.len()]);
    assert_eq!(Some(whole), ends.find_map(|end| decoder.decode(&bytes[..end], &limits()).err()));
    let mut reply = Vec::new();
    ReplyWriter::new(&mut reply, Version::Resp2).error(&Error::from(whole));
    assert_eq!(String::from_utf8(reply).unwrap(), format!("-ERR Protocol error: {text}\r\n"));
}

#[test]
fn arrays_decode() {
    check(b"*1\r\n$4\r\nPING\r\n", &[b"PING"]);
    check(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", &[b"GET", b"key"]);
    check(b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\0\xff\r\n", &[b"SET", b"", b"\r\n\0\xff"]);
    let value = [b'v'; 12345];
    check(
        &[b"*2\r\n$12\r\nabcdefghijkl\r\n$12345\r\n".as_slice(), &value, b"\r\n"].concat(),
        &[b"abcdefghijkl", &value],
    );
    let many = b"*123\r\n".iter().chain(b"$1\r\nx\r\n".repeat(123).iter()).copied().collect::<Vec<_>>();
    check(&many, &[b"x".as_slice(); 123]);
}

#[test]
fn empty_commands_take_their_bytes_and_have_no_name() {
    for bytes in [b"*0\r\n".as_slice(), b"*-1\r\n", b"*-9223372036854775808\r\n", b"\r\n", b"\n", b"  \t \r\n"] {
        check(bytes, &[]);
    }
}

#[test]
fn inline_commands_decode() {
    check(b"PING\r\n", &[b"PING"]);
    check(b"PING\n", &[b"PING"]);
    check(b"  set  key\tvalue \r\n", &[b"set", b"key", b"value"]);
    check(b"get \"a b\"\r\n", &[b"get", b"a b"]);
    check(
        br#"x "\n\r\t\b\a\"\\\q\x41\xfF\xg1" y"#.iter().chain(b"\r\n").copied().collect::<Vec<_>>().as_slice(),
        &[b"x", b"\n\r\t\x08\x07\"\\qA\xffxg1", b"y"],
    );
    check(b"x 'it\\'s \\n' ''\r\n", &[b"x", b"it's \\n", b""]);
    check(b"x a\"b c\" d'e f'\n", &[b"x", b"ab c", b"de f"]);
    check(b"x a\\nb \xc3\xa4\n", &[b"x", b"a\\nb", b"\xc3\xa4"]);
    check(b"x a\x0bb\n", &[b"x", b"a\x0bb"]);
    check(b"x \x0b\x0cb\n", &[b"x", b"b"]);
    check(b"+OK\r\n", &[b"+OK"]);
    let line = [b"echo ".as_slice(), &[b'a'; 60_000], b"\r\n"].concat();
    check(&line, &[b"echo", &[b'a'; 60_000]]);
}

#[test]
fn wrong_arrays_get_redis_own_words() {
    for count in ["x", "", "+1", " 1", "01", "-0", "1 ", "--1", "99999999999999999999", "1048577", "2147483648", "$1"] {
        check_error(format!("*{count}\r\n").as_bytes(), "invalid multibulk length");
    }
    for length in ["x", "", "-1", "+1", "00", "536870913", "1073741824", "9223372036854775807", "18446744073709551616"]
    {
        check_error(format!("*1\r\n${length}\r\n").as_bytes(), "invalid bulk length");
        check_error(format!("*2\r\n$3\r\nGET\r\n${length}\r\n").as_bytes(), "invalid bulk length");
    }
    check_error(b"*1\r\nPING\r\n", "expected '$', got 'P'");
    check_error(b"*1\r\n:1\r\n", "expected '$', got ':'");
    check_error(b"*1\r\n\r\n", "expected '$', got ' '");
    check_error(b"*1\r\n\xff", "expected '$', got '\\xff'");
    check_error(b"*2\r\n$3\r\nGET\r\n'", "expected '$', got '''");
    check_error(b"*1\r\n$3\r\nPING\r\n", "expected CRLF after bulk string");
    check_error(b"*1\r\n$5\r\nPING\r\nPING", "expected CRLF after bulk string");
    check_error(b"*1\rx", "invalid multibulk length");
    check_error(b"*1\r\n$1\rx", "invalid bulk length");
}

#[test]
fn lines_without_an_end_are_given_up() {
    let digits = vec![b'1'; 70_000];
    check_error(&[b"*".as_slice(), &digits].concat(), "too big mbulk count string");
    check_error(&[b"*1\r\n$".as_slice(), &digits].concat(), "too big bulk count string");
    check_error(&digits, "too big inline request");
    check_error(&[digits.as_slice(), b"\n"].concat(), "too big inline request");
}

#[test]
fn unbalanced_quotes_are_refused() {
    for line in ["get \"a", "get 'a", "\"", "'", "get \"a\"b", "get 'a'b", "get \"a\\\"", "get 'a\\'", "get \"a\"'b'"] {
        check_error(format!("{line}\r\n").as_bytes(), "unbalanced quotes in request");
    }
}

#[test]
fn limits_are_the_callers() {
    let small = Limits { args_max: 2, bulk_bytes_max: 3, command_bytes_max: 30 };
    assert_eq!(error(b"*2\r\n$3\r\nGET\r\n$3\r\nabc\r\n", &small), None);
    assert_eq!(error(b"*3\r\n", &small), Some(DecodeError::InvalidMultibulkLength));
    assert_eq!(error(b"*2\r\n$4\r\n", &small), Some(DecodeError::InvalidBulkLength));
    let narrow = Limits { bulk_bytes_max: 100, ..small };
    assert_eq!(error(b"*2\r\n$3\r\nGET\r\n$13\r\n", &narrow), Some(DecodeError::CommandTooBig));
    assert_eq!(error(b"*2\r\n$3\r\nGET\r\n$12\r\n", &narrow), None);
}

#[test]
fn a_long_command_in_pieces_is_read_once() {
    // One byte at a time, a decoder that starts over would look at 10^10 bytes.
    let args = 50_000;
    let stream = [format!("*{args}\r\n").into_bytes(), b"$1\r\nx\r\n".repeat(args)].concat();
    let mut decoder = CommandDecoder::new();
    for end in 0..stream.len() {
        assert!(decoder.decode(&stream[..end], &limits()).unwrap().is_none());
    }
    let (command, used) = decoder.decode(&stream, &limits()).unwrap().unwrap();
    assert_eq!((command.len(), used), (args, stream.len()));
    // And the next command starts afresh.
    let (command, _) = decoder.decode(b"*1\r\n$4\r\nPING\r\n", &limits()).unwrap().unwrap();
    assert_eq!((command.name(), command.len()), (b"PING".as_slice(), 1));
}
