//! Each backend message as bytes.

use ashlar_base::{Error, ErrorCode};

use crate::pg::backend::{self, ColumnDescription, DataRow};
use crate::pg::{TransactionStatus, ValueFormat};

fn check(write: impl FnOnce(&mut Vec<u8>), expected: &[u8]) {
    // Behind something, as in a real write buffer.
    let mut out = b"before".to_vec();
    write(&mut out);
    assert_eq!(out[6..].escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn messages_of_the_start_have_their_bytes() {
    check(backend::authentication_ok, b"R\0\0\0\x08\0\0\0\0");
    check(|out| backend::parameter_status(out, "TimeZone", "UTC"), b"S\0\0\0\x11TimeZone\0UTC\0");
    check(|out| backend::backend_key_data(out, 258, b"\x01\x02\x03\x04"), b"K\0\0\0\x0c\0\0\x01\x02\x01\x02\x03\x04");
    check(|out| backend::backend_key_data(out, 1, &[9; 32]), &[b"K\0\0\0\x28\0\0\0\x01".as_slice(), &[9; 32]].concat());
    check(
        |out| backend::negotiate_protocol_version(out, 3, 2, &["_pq_.a", "_pq_.b"]),
        b"v\0\0\0\x1a\0\x03\0\x02\0\0\0\x02_pq_.a\0_pq_.b\0",
    );
    check(|out| backend::ready_for_query(out, TransactionStatus::Idle), b"Z\0\0\0\x05I");
    check(|out| backend::ready_for_query(out, TransactionStatus::InBlock), b"Z\0\0\0\x05T");
    check(|out| backend::ready_for_query(out, TransactionStatus::Failed), b"Z\0\0\0\x05E");
}

#[test]
fn messages_without_a_body_have_their_bytes() {
    check(backend::empty_query, b"I\0\0\0\x04");
    check(backend::portal_suspended, b"s\0\0\0\x04");
    check(backend::no_data, b"n\0\0\0\x04");
    check(backend::parse_complete, b"1\0\0\0\x04");
    check(backend::bind_complete, b"2\0\0\0\x04");
    check(backend::close_complete, b"3\0\0\0\x04");
    check(backend::copy_done, b"c\0\0\0\x04");
}

#[test]
fn messages_around_rows_have_their_bytes() {
    let columns = [
        ColumnDescription {
            name: "id",
            table_oid: 16384,
            column_number: 1,
            type_oid: 23,
            typlen: 4,
            typmod: -1,
            format: ValueFormat::Binary,
        },
        ColumnDescription {
            name: "ä",
            table_oid: 0,
            column_number: 0,
            type_oid: 25,
            typlen: -1,
            typmod: 14,
            format: ValueFormat::Text,
        },
    ];
    check(
        |out| backend::row_description(out, columns.into_iter()),
        b"T\0\0\0\x30\0\x02\
          id\0\0\0\x40\0\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01\
          \xc3\xa4\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\0\0\0\x0e\0\0",
    );
    check(|out| backend::row_description(out, [].into_iter()), b"T\0\0\0\x06\0\0");
    check(|out| backend::parameter_description(out, [23, 25].into_iter()), b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\x19");
    check(|out| backend::command_complete(out, "INSERT 0 1"), b"C\0\0\0\x0fINSERT 0 1\0");
}

#[test]
fn data_rows_have_their_bytes() {
    check(
        |out| {
            let mut row = DataRow::begin(out, 3);
            row.value(|out| out.extend_from_slice(b"42"));
            row.null();
            row.value(|_| ());
            row.end().unwrap();
        },
        b"D\0\0\0\x14\0\x03\0\0\0\x0242\xff\xff\xff\xff\0\0\0\0",
    );
    check(|out| DataRow::begin(out, 0).end().unwrap(), b"D\0\0\0\x06\0\0");
}

#[test]
fn an_unfinished_data_row_takes_its_bytes_back() {
    check(
        |out| {
            let mut row = DataRow::begin(out, 2);
            row.value(|out| out.extend_from_slice(b"42"));
            drop(row);
        },
        b"",
    );
}

#[test]
#[should_panic(expected = "as many values as columns")]
fn a_data_row_short_of_a_value_is_never_sent() {
    let mut out = Vec::new();
    let mut row = DataRow::begin(&mut out, 2);
    row.null();
    row.end().unwrap();
}

#[test]
fn copy_messages_have_their_bytes() {
    check(|out| backend::copy_in_response(out, ValueFormat::Text, 2), b"G\0\0\0\x0b\0\0\x02\0\0\0\0");
    check(|out| backend::copy_out_response(out, ValueFormat::Binary, 2), b"H\0\0\0\x0b\x01\0\x02\0\x01\0\x01");
    check(|out| backend::copy_data(out, b"1\t2\n"), b"d\0\0\0\x081\t2\n");
    check(|out| backend::copy_data(out, b""), b"");
}

#[test]
fn errors_carry_all_that_is_known() {
    let error = Error::new(ErrorCode::SyntaxError, "syntax error at or near \"selct\"").at(1);
    check(
        |out| backend::error_response(out, "ERROR", &error),
        b"E\0\0\0\x3eSERROR\0VERROR\0C42601\0Msyntax error at or near \"selct\"\0P1\0\0",
    );
    let error = Error::new(ErrorCode::UniqueViolation, "m")
        .with_detail("d")
        .with_hint("h")
        .with_table("t")
        .with_column("c")
        .with_constraint("t_pkey");
    check(
        |out| backend::error_response(out, "FATAL", &error),
        b"E\0\0\0\x39SFATAL\0VFATAL\0C23505\0Mm\0Dd\0Hh\0spublic\0tt\0cc\0nt_pkey\0\0",
    );
    let error = Error::new(ErrorCode::UndefinedTable, "table \"x\" does not exist, skipping");
    check(
        |out| backend::notice_response(out, "NOTICE", &error),
        b"N\0\0\0\x40SNOTICE\0VNOTICE\0C42P01\0Mtable \"x\" does not exist, skipping\0\0",
    );
}

#[test]
fn a_nul_inside_of_a_text_does_not_end_it() {
    let error = Error::new(ErrorCode::InternalError, "a\0b");
    check(|out| backend::error_response(out, "ERROR", &error), b"E\0\0\0\x1eSERROR\0VERROR\0CXX000\0Mab\0\0");
}
