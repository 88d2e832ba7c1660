//! Each frontend message, good and bad.

use ashlar_base::{Error, ErrorCode};

use super::{message, startup};
use crate::pg::frontend::{Frontend, Startup, decode, decode_startup};
use crate::pg::{DecodeError, Problem, Target, ValueFormat};

const LIMIT: usize = 1 << 20;

/// Decodes exactly one message; every shorter prefix must ask for more.
fn check(bytes: &[u8], expect: impl FnOnce(Frontend<'_>)) {
    for end in 0..bytes.len() {
        assert_eq!(decode(&bytes[..end], LIMIT), Ok(None), "{end} of {} bytes", bytes.len());
    }
    let mut followed = bytes.to_vec();
    followed.extend_from_slice(b"S\0\0\0\x04");
    let (decoded, used) = decode(&followed, LIMIT).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    expect(decoded);
}

fn check_equal(bytes: &[u8], expected: Frontend<'_>) {
    check(bytes, |decoded| assert_eq!(decoded, expected));
}

/// Decodes one message whose body is wrong: the connection can go on behind it.
fn check_malformed(tag: u8, body: &[u8], problem: Problem, code: ErrorCode, text: &str) {
    let bytes = message(tag, body);
    let error = decode(&bytes, LIMIT).unwrap_err();
    assert_eq!(error, DecodeError::Malformed { tag, used: bytes.len(), problem });
    assert_eq!(error.resume(), Some((tag, bytes.len())));
    let error = Error::from(error);
    assert_eq!((error.code(), error.message()), (code, text));
}

#[test]
fn messages_of_the_simple_protocol_decode() {
    check_equal(&message(b'Q', b"select 1\0"), Frontend::Query("select 1"));
    check_equal(&message(b'Q', b"\0"), Frontend::Query(""));
    check_equal(&message(b'Q', "select 'ä€😀'\0".as_bytes()), Frontend::Query("select 'ä€😀'"));
    check_equal(&message(b'X', b""), Frontend::Terminate);
    check_equal(&message(b'd', b"1\t2\n\0"), Frontend::CopyData(b"1\t2\n\0"));
    check_equal(&message(b'd', b""), Frontend::CopyData(b""));
    check_equal(&message(b'c', b""), Frontend::CopyDone);
    check_equal(&message(b'f', b"no more disk\0"), Frontend::CopyFail("no more disk"));
    check_equal(&message(b'p', b"secret\0"), Frontend::Password(b"secret\0"));
    check_equal(&message(b'F', b"\0\0\0\x01anything"), Frontend::FunctionCall);
}

#[test]
fn messages_of_the_extended_protocol_decode() {
    let statement = (Target::Statement, b'S');
    let portal = (Target::Portal, b'P');
    for (kind, byte) in [statement, portal] {
        check_equal(&message(b'D', &[byte, b'a', 0]), Frontend::Describe { kind, name: "a" });
        check_equal(&message(b'C', &[byte, 0]), Frontend::Close { kind, name: "" });
    }
    check_equal(&message(b'E', b"p\0\0\0\0\x07"), Frontend::Execute { portal: "p", max_rows: 7 });
    check_equal(&message(b'E', b"\0\xff\xff\xff\xff"), Frontend::Execute { portal: "", max_rows: -1 });
    check_equal(&message(b'H', b""), Frontend::Flush);
    check_equal(&message(b'S', b""), Frontend::Sync);
    check(&message(b'P', b"s1\0select $1, $2\0\0\x02\0\0\0\x17\0\0\0\0"), |decoded| {
        let Frontend::Parse { name, sql, param_types } = decoded else { panic!("{decoded:?}") };
        assert_eq!((name, sql, param_types.len()), ("s1", "select $1, $2", 2));
        assert_eq!(param_types.collect::<Vec<_>>(), [23, 0]);
    });
}

#[test]
fn bind_gives_each_parameter_its_format() {
    let check_bind = |formats: &[u8], results: &[u8], expected: &[ValueFormat], expected_results: &[ValueFormat]| {
        let mut body = b"portal\0statement\0".to_vec();
        body.extend_from_slice(formats);
        body.extend_from_slice(b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0");
        body.extend_from_slice(results);
        check(&message(b'B', &body), |decoded| {
            let Frontend::Bind(bind) = decoded else { panic!("{decoded:?}") };
            assert_eq!((bind.portal, bind.statement), ("portal", "statement"));
            let values: [Option<&[u8]>; 3] = [Some(b"ab"), None, Some(b"")];
            assert_eq!(bind.params().len(), 3);
            let expected: Vec<_> = expected.iter().copied().zip(values).collect();
            assert_eq!(bind.params().collect::<Vec<_>>(), expected);
            assert_eq!(bind.result_formats().collect::<Vec<_>>(), expected_results);
        });
    };
    let (text, binary) = (ValueFormat::Text, ValueFormat::Binary);
    check_bind(b"\0\0", b"\0\0", &[text, text, text], &[]);
    check_bind(b"\0\x01\0\x01", b"\0\x01\0\x01", &[binary, binary, binary], &[binary]);
    check_bind(b"\0\x03\0\x01\0\0\0\x01", b"\0\x02\0\0\0\x01", &[binary, text, binary], &[text, binary]);
}

#[test]
fn sixty_five_thousand_parameters_decode() {
    let mut body = b"\0\0\0\0\xff\xff".to_vec();
    for _ in 0..65535 {
        body.extend_from_slice(b"\0\0\0\x01x");
    }
    body.extend_from_slice(b"\0\0");
    let bytes = message(b'B', &body);
    let Ok(Some((Frontend::Bind(bind), used))) = decode(&bytes, LIMIT) else { panic!() };
    assert_eq!((used, bind.params().len()), (bytes.len(), 65535));
    assert!(bind.params().all(|param| param == (ValueFormat::Text, Some(b"x"))));
}

#[test]
fn bodies_that_do_not_fit_their_kind_are_refused() {
    use ErrorCode::ProtocolViolation;
    let insufficient = "insufficient data left in message";
    for (tag, body) in [
        (b'P', b"s\0q\0".as_slice()),
        (b'P', b"s\0q\0\0\x02\0\0\0\x17"),
        (b'P', b"s\0q\0\xff\xff"),
        (b'E', b"p\0\0\0"),
        (b'D', b""),
        (b'B', b"\0\0"),
        (b'B', b"\0\0\0\x01\0"),
        (b'B', b"\0\0\0\0\0\x01"),
        (b'B', b"\0\0\0\0\0\x01\0\0\0\x05abcd"),
        (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xffabcd"),
        (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe"),
        (b'B', b"\0\0\0\0\0\0\0\x01"),
    ] {
        check_malformed(tag, body, Problem::InsufficientData, ProtocolViolation, insufficient);
    }
    for (tag, body) in [
        (b'Q', b"select 1".as_slice()),
        (b'Q', b""),
        (b'P', b"s\0q"),
        (b'B', b"portal"),
        (b'D', b"Sname"),
        (b'f', b"reason"),
    ] {
        check_malformed(tag, body, Problem::UnterminatedString, ProtocolViolation, "invalid string in message");
    }
    for (tag, body) in [(b'Q', b"a\0b\0".as_slice()), (b'S', b"\0"), (b'E', b"\0\0\0\0\0\0"), (b'X', b"x")] {
        check_malformed(tag, body, Problem::TrailingBytes, ProtocolViolation, "invalid message format");
    }
}

#[test]
fn wrong_targets_and_formats_are_named() {
    use ErrorCode::{InvalidParameterValue, ProtocolViolation};
    let target = |message| Problem::InvalidTarget { message, subtype: b'x' };
    let text = "invalid DESCRIBE message subtype 120";
    check_malformed(b'D', b"x\0", target("DESCRIBE"), ProtocolViolation, text);
    let text = "invalid CLOSE message subtype 120";
    check_malformed(b'C', b"x\0", target("CLOSE"), ProtocolViolation, text);
    let problem = Problem::FormatCount { formats: 2, parameters: 1 };
    let text = "bind message has 2 parameter formats but 1 parameters";
    let body = b"\0\0\0\x02\0\0\0\0\0\x01\0\0\0\0\0\0";
    check_malformed(b'B', body, problem, ProtocolViolation, text);
    let body = b"\0\0\0\x01\0\x02\0\0\0\0";
    check_malformed(b'B', body, Problem::InvalidFormat(2), InvalidParameterValue, "unsupported format code: 2");
    let body = b"\0\0\0\0\0\0\0\x01\xff\xff";
    check_malformed(b'B', body, Problem::InvalidFormat(-1), InvalidParameterValue, "unsupported format code: -1");
}

#[test]
fn invalid_utf8_is_shown_as_postgresql_shows_it() {
    for (body, shown) in [
        (b"a\xff\0".as_slice(), "0xff"),
        (b"\xe2\x28\xa1\0", "0xe2 0x28 0xa1"),
        (b"\xc3\0", "0xc3"),
        (b"\xf0\x9f\x98\0", "0xf0 0x9f 0x98"),
        (b"\xed\xa0\x80\0", "0xed 0xa0 0x80"),
    ] {
        let text = format!("invalid byte sequence for encoding \"UTF8\": {shown}");
        let problem = Problem::InvalidEncoding(shown.to_owned());
        check_malformed(b'Q', body, problem, ErrorCode::CharacterNotInRepertoire, &text);
    }
}

#[test]
fn lengths_out_of_bounds_are_refused_before_the_body_arrives() {
    let header = |tag: u8, length: i32| {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes
    };
    for (tag, length) in [
        (b'Q', 1 << 30),
        (b'Q', i32::MAX),
        (b'Q', LIMIT as i32 + 1),
        (b'Q', 3),
        (b'Q', 0),
        (b'Q', -1),
        (b'd', i32::MIN),
        // Nothing of these kinds has a reason to be long.
        (b'S', 10_001),
        (b'E', 10_001),
        (b'D', LIMIT as i32),
    ] {
        let error = decode(&header(tag, length), LIMIT).unwrap_err();
        assert_eq!(error, DecodeError::MessageLength { tag, length });
        assert_eq!(error.resume(), None);
        assert_eq!(error.code(), ErrorCode::ProtocolViolation);
    }
    assert_eq!(decode(&header(b'Q', LIMIT as i32), LIMIT), Ok(None));
    assert_eq!(decode(&header(b'E', 10_000), LIMIT), Ok(None));
}

#[test]
fn unknown_tags_are_refused_at_the_first_byte() {
    for tag in [b'G', b'\0', b'q', 0x16, b'*', 0xff] {
        let error = decode(&[tag], LIMIT).unwrap_err();
        assert_eq!(error, DecodeError::UnknownMessage(tag));
        assert_eq!(error.resume(), None);
        assert_eq!(error.to_string(), format!("invalid frontend message type {tag}"));
    }
}

#[test]
fn startup_packets_decode() {
    let check = |bytes: &[u8], expected: Startup<'_>| {
        for end in 0..bytes.len() {
            assert_eq!(decode_startup(&bytes[..end], 10_000), Ok(None));
        }
        assert_eq!(decode_startup(bytes, 10_000), Ok(Some((expected, bytes.len()))));
    };
    check(&startup(80877103, b""), Startup::SslRequest);
    check(&startup(80877104, b""), Startup::GssEncRequest);
    check(&startup(80877102, b"\0\0\0\x07abcd"), Startup::Cancel { pid: 7, secret: b"abcd" });
    let body = [b"\xff\xff\xff\xff".as_slice(), &[7; 256]].concat();
    check(&startup(80877102, &body), Startup::Cancel { pid: -1, secret: &[7; 256] });
    let parameters = vec![("user", "ada"), ("database", ""), ("options", "-c TimeZone=UTC")];
    check(
        &startup(0x0003_0000, b"user\0ada\0database\0\0options\0-c TimeZone=UTC\0\0"),
        Startup::Startup { major: 3, minor: 0, parameters },
    );
    check(&startup(0x0003_0002, b"\0"), Startup::Startup { major: 3, minor: 2, parameters: Vec::new() });
}

#[test]
fn startup_packets_that_are_none_are_refused() {
    let check = |bytes: &[u8], text: &str| {
        let error = decode_startup(bytes, 10_000).unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error.resume(), None);
    };
    let length = "invalid length of startup packet";
    for bytes in [
        b"\0\0\0\0".as_slice(),
        b"\0\0\0\x07",
        b"\x40\0\0\0",
        b"\xff\xff\xff\xff",
        b"\0\0\x27\x11",
        b"GET / HTTP/1.1\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01\x02\0\x01",
    ] {
        check(bytes, length);
    }
    check(&startup(80877102, b"\0\0\0\x07"), length);
    check(&startup(80877102, &[0; 261]), length);
    check(&startup(80877103, b"x"), length);
    let layout = "invalid startup packet layout: expected terminator as last byte";
    for body in [b"".as_slice(), b"user\0ada\0", b"user\0ada", b"user\0", b"user\0\0\0x", b"user\0ada\0\0\0"] {
        check(&startup(0x0003_0000, body), layout);
    }
    let encoding = "invalid byte sequence for encoding \"UTF8\": 0xff";
    check(&startup(0x0003_0000, b"user\0\xff\0\0"), encoding);
    let version = "unsupported frontend protocol 2.0: server supports 3.0 to 3.2";
    check(&startup(0x0002_0000, b"anything"), version);
    let error = decode_startup(&startup(0x0004_0001, b""), 10_000).unwrap_err();
    assert_eq!(error, DecodeError::UnsupportedProtocol { major: 4, minor: 1 });
    assert_eq!(error.code(), ErrorCode::FeatureNotSupported);
}
