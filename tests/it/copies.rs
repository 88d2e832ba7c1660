//! COPY FROM STDIN: rows that go to the store in bulk end as the same rows do that come a few at a time, and what is wrong with one of
//! them is told of the first, with its line.

use ashlar_tests::Ashlar;
use ashlar_tests::pg::{self, Connection};

use crate::random::Random;

/// Lines that are in the place of good ones, the SQLSTATE of the first that is wrong, and what is said of it.
type Wrong<'a> = (&'a [(u64, &'a str)], &'a str, &'a str);

/// So many that they are loaded in bulk, in several batches.
const ROWS: u64 = 72_000;
/// Rows from here on come when the load has begun; those before have waited for it.
const IN_BULK: u64 = 66_000;
/// Rows that a COPY has at least that is loaded in bulk.
const LEAST_IN_BULK: u64 = 8_192;

/// A column of each type, one with a default that the data does not have, and one that counts.
const COLUMNS: &str = "id bigint PRIMARY KEY, i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision, n numeric(12,3), \
    b boolean, t text, v varchar(12), c character(8), y bytea, d date, ti time, ts timestamp, tz timestamptz, iv interval, u uuid, \
    j json, jb jsonb, ints integer[], texts text[], known integer DEFAULT 7, counted serial";

/// Those that the data has: all but the last two.
const GIVEN: &str = "id, i2, i4, i8, f4, f8, n, b, t, v, c, y, d, ti, ts, tz, iv, u, j, jb, ints, texts";

/// Texts with escapes of all kinds, and without.
const TEXTS: &[&str] =
    &["plain", "", "tab\\there", "a\\nb", "back\\\\slash", "\\x41\\101\\7", "\u{20ac}uro", "\\Nx", "N"];

/// Data in pieces of these sizes: the tag, or SQLSTATE and detail of the error.
fn copy(
    connection: &mut Connection,
    table: &str,
    data: &[u8],
    mut size: impl FnMut() -> usize,
) -> Result<String, (String, String)> {
    connection.send(&pg::message(b'Q', &[format!("COPY {table} FROM STDIN\0").as_bytes()])).unwrap();
    assert_eq!(connection.read().unwrap().kind, b'G');
    let mut rest = data;
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(size().min(rest.len()));
        connection.send(&pg::message(b'd', &[piece])).unwrap();
        rest = left;
    }
    connection.send(&pg::message(b'c', &[])).unwrap();
    let mut done = None;
    loop {
        let message = connection.read().unwrap();
        match message.kind {
            b'C' => done = Some(Ok(String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned())),
            b'E' => {
                let field = |name| message.field(name).unwrap_or_default();
                done = Some(Err((field(b'C'), field(b'D'))));
            }
            b'Z' => return done.unwrap(),
            _ => {}
        }
    }
}

/// What COPY TO says of a table.
fn all(connection: &mut Connection, table: &str) -> Vec<u8> {
    let sql = format!("COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT\0");
    connection.send(&pg::message(b'Q', &[sql.as_bytes()])).unwrap();
    let mut data = Vec::new();
    loop {
        let message = connection.read().unwrap();
        match message.kind {
            b'd' => data.extend_from_slice(&message.body),
            b'E' => panic!("{}", pg::describe(&message)),
            b'Z' => return data,
            _ => {}
        }
    }
}

/// One of some texts.
fn one<'a>(random: &mut Random, texts: &[&'a str]) -> &'a str {
    texts[random.next() as usize % texts.len()]
}

/// A line in COPY's text form, with numbers and escapes in all their forms.
fn line(random: &mut Random, id: u64, out: &mut String) {
    let number = random.next();
    let (small, large) = (number as i16, number.cast_signed());
    let space = one(random, &["", "", "", " ", "+"]);
    let integer = format!("{space}{}", (number >> 40) as u16 / 2);
    let double = match random.next() % 6 {
        0 => format!("{}e{}", large >> 30, number % 200),
        1 => one(random, &["NaN", "-Infinity", "-0", ".5", "5.", " 1.5 ", "4.9e-324"]).to_owned(),
        2 => format!("{}", f64::from_bits(number >> 2)),
        _ => format!("{}.{:03}", large >> 40, number % 1000),
    };
    let fields = [
        id.to_string(),
        integer.clone(),
        (large >> 33).to_string(),
        large.to_string(),
        format!("{}.{}", small, number % 8),
        double,
        format!("{}.{:04}", large >> 36, number % 10_000),
        one(random, &["t", "f", "yes", "off", " TRUE "]).to_owned(),
        one(random, TEXTS).to_owned(),
        one(random, &["twelve chars", "spaces         ", "\u{e4}\u{f6}\u{fc}", ""]).to_owned(),
        one(random, &["eight ch", "a", "", "b       "]).to_owned(),
        one(random, &["\\\\x00ff", "\\\\x", "abc\\\\000", "text"]).to_owned(),
        one(random, &["2024-02-29", "1999-01-08", "20200102", "January 8, 1999"]).to_owned(),
        one(random, &["04:05:06", "23:59:59.999999", "04:05 PM"]).to_owned(),
        one(random, &["2024-02-29 12:34:56", "2024-02-29 12:34:56.789", "2020-01-01T04:05:06.789"]).to_owned(),
        one(random, &["2024-02-29 12:34:56+02", "2024-02-29 12:34:56Z", "2024-02-29"]).to_owned(),
        one(random, &["1 day 02:03:04", "1 mon -3 days", "P1Y2M", "0.5 seconds"]).to_owned(),
        format!("{:08x}-0000-4000-8000-{:012x}", number as u32, number >> 16),
        one(random, &["{\"a\": 1 }", "[1,  2]", "\"text\"", "null"]).to_owned(),
        one(random, &["{\"b\": [1, 2], \"a\": 1.50}", "[]", "1e2"]).to_owned(),
        one(random, &["{1,NULL,3}", "{}", "{ 7 }", "{1,2,3,4,5,6,7,8,9}"]).to_owned(),
        one(random, &["{a,\"b c\",NULL}", "{}", "{\"\"}", "{\"x\\\\ty\"}"]).to_owned(),
    ];
    for (place, field) in fields.iter().enumerate() {
        out.push_str(if place == 0 { "" } else { "\t" });
        let is_null = place > 0 && random.next().is_multiple_of(8);
        out.push_str(if is_null { "\\N" } else { field });
    }
    out.push('\n');
}

#[test]
fn rows_in_bulk_are_the_rows_that_come_a_few_at_a_time() {
    let ashlar = Ashlar::shared();
    let mut connection = ashlar.connect();
    let mut random = Random::from_environment();
    let (mut data, mut ends) = (String::new(), Vec::new());
    for id in 0..ROWS {
        line(&mut random, id.wrapping_mul(0x9e37_79b9) % (1 << 40), &mut data);
        if id % 6_000 == 5_999 {
            ends.push(data.len());
        }
    }
    for table in ["copied_at_once", "copied_in_parts"] {
        connection.query(&format!("CREATE TABLE {table} ({COLUMNS})")).unwrap();
    }
    let target = |table: &str| format!("{table} ({GIVEN})");
    let size = || 1 + random.next() as usize % 100_000;
    let tag = copy(&mut connection, &target("copied_at_once"), data.as_bytes(), size);
    assert_eq!(tag, Ok(format!("COPY {ROWS}")));
    // In pieces that hardly any line is in as a whole, and never in bulk.
    let mut start = 0;
    for end in ends {
        let size = || 1 + random.next() as usize % 400;
        let tag = copy(&mut connection, &target("copied_in_parts"), &data.as_bytes()[start..end], size);
        assert_eq!(tag, Ok("COPY 6000".to_owned()));
        start = end;
    }
    let (at_once, in_parts) = (all(&mut connection, "copied_at_once"), all(&mut connection, "copied_in_parts"));
    let mut pairs = at_once.split(|byte| *byte == b'\n').zip(in_parts.split(|byte| *byte == b'\n'));
    if let Some((one, other)) = pairs.find(|(one, other)| one != other) {
        panic!("{}\n{}", String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    }
    assert_eq!(at_once.len(), in_parts.len());
    for table in ["copied_at_once", "copied_in_parts"] {
        connection.query(&format!("DROP TABLE {table}")).unwrap();
    }
}

/// The lines of a table of three columns, some of them with something else in their places.
fn lines(wrong: &[(u64, &str)]) -> String {
    let mut data = String::new();
    for number in 1..=ROWS {
        match wrong.iter().find(|(place, _)| *place == number) {
            Some((_, line)) => data.push_str(line),
            None => data.push_str(&format!("{number}\t{}\trow {number}", number % 1000)),
        }
        data.push('\n');
    }
    data
}

#[test]
fn the_first_wrong_row_of_a_large_copy_is_told_and_nothing_is_left() {
    let ashlar = Ashlar::shared();
    let mut connection = ashlar.connect();
    let mut random = Random::from_environment();
    connection.query("CREATE TABLE copied_wrongly (id bigint PRIMARY KEY, v bigint NOT NULL, t text)").unwrap();
    connection.query("INSERT INTO copied_wrongly VALUES (0, 0, 'before')").unwrap();
    for first in [100, IN_BULK, 100, IN_BULK] {
        let mut place = || first + random.next() % (ROWS - first - 10) + 1;
        let (early, late) = (place(), place());
        let (early, late) = (early.min(late), early.max(late) + 1);
        let (twice, key) = (format!("{}\t1\ttwice", first - 10), format!("Key (id)=({})", first - 10));
        let (twice, key) = (twice.as_str(), key.as_str());
        let cases: [Wrong<'_>; 9] = [
            (&[(early, "x\t1\t"), (late, "5\t1\ttwice")], "22P02", "column id"),
            (&[(early, "70000000000000000000\t1\t")], "22003", "column id"),
            (&[(early, "7\t1\ttwice"), (late, "x\t1\t")], "23505", "Key (id)=(7)"),
            (&[(early, "0\t1\tthere")], "23505", "Key (id)=(0)"),
            (&[(early, twice), (late, "0\t1\tthere")], "23505", key),
            (&[(early, "-1\t\\N\tnull"), (late, "-2\tx\t")], "23502", "column v"),
            (&[(early, "-1\t1")], "22P04", ""),
            (&[(early, "-1\t1\t\t")], "22P04", ""),
            (&[(early, "-1\t1\ta\\xffb"), (late, "x\t1\t")], "22021", "column t"),
        ];
        for (wrong, sqlstate, detail) in cases {
            let data = lines(wrong);
            let size = || 1 + random.next() as usize % 70_000;
            let (code, told) = copy(&mut connection, "copied_wrongly", data.as_bytes(), size).unwrap_err();
            assert_eq!(code, sqlstate, "{wrong:?}: {told}");
            assert!(told.contains(detail) && told.contains(&format!("line {early}")), "{wrong:?}: {told}");
            assert_eq!(connection.value("SELECT count(*) FROM copied_wrongly").unwrap(), "1", "{wrong:?}");
        }
    }
    // Twice in the rows that are loaded together.
    let data = lines(&[(IN_BULK + 2, "-7\t1\t"), (IN_BULK + 9, "-7\t1\t")]);
    let (code, told) = copy(&mut connection, "copied_wrongly", data.as_bytes(), || 60_000).unwrap_err();
    assert_eq!(code, "23505");
    assert!(told.contains(&format!("line {}", IN_BULK + 9)), "{told}");
    // And none is wrong.
    let tag = copy(&mut connection, "copied_wrongly", lines(&[]).as_bytes(), || 60_000);
    assert_eq!(tag, Ok(format!("COPY {ROWS}")));
    assert_eq!(connection.value("SELECT count(*) FROM copied_wrongly").unwrap(), (ROWS + 1).to_string());
    assert_eq!(connection.value("SELECT sum(id) FROM copied_wrongly").unwrap(), (ROWS * (ROWS + 1) / 2).to_string());
    connection.query("DROP TABLE copied_wrongly").unwrap();
}

#[test]
fn copies_of_about_the_rows_that_are_loaded_in_bulk_are_whole_or_nothing() {
    let ashlar = Ashlar::shared();
    let mut connection = ashlar.connect();
    let mut random = Random::from_environment();
    let line = |number: u64| format!("{number}\trow {number}\n");
    for rows in [LEAST_IN_BULK - 1, LEAST_IN_BULK, LEAST_IN_BULK + 1] {
        connection.query("CREATE TABLE copied_near (id bigint PRIMARY KEY, t text)").unwrap();
        connection.query("INSERT INTO copied_near VALUES (0, 'before')").unwrap();
        let data: String = (1..=rows).map(line).collect();
        let mut size = || 1 + random.next() as usize % 200_000;
        // The first row, and the last, is there; the last comes twice; the end of the data is no row.
        let last = data.len() - line(rows).len();
        let wrong = [
            (format!("0\tthere\n{}", &data[line(1).len()..]), "23505", 1),
            (format!("{}0\tthere\n", &data[..last]), "23505", rows),
            (format!("{}1\ttwice\n", &data[..last]), "23505", rows),
            (format!("{data}x\tno number\n"), "22P02", rows + 1),
            (format!("{data}{}", rows + 1), "22P04", rows + 1),
        ];
        for (data, sqlstate, number) in wrong {
            let (code, told) = copy(&mut connection, "copied_near", data.as_bytes(), &mut size).unwrap_err();
            assert_eq!(code, sqlstate, "{rows}: {told}");
            assert!(told.contains(&format!("line {number}")), "{rows}, line {number}: {told}");
            assert_eq!(connection.value("SELECT count(*) FROM copied_near").unwrap(), "1", "{rows}");
        }
        // What a transaction has copied it sees, writes again and takes back.
        connection.query("BEGIN").unwrap();
        assert_eq!(copy(&mut connection, "copied_near", data.as_bytes(), &mut size), Ok(format!("COPY {rows}")));
        connection.query("UPDATE copied_near SET t = 'again' WHERE id = 1").unwrap();
        connection.query("DELETE FROM copied_near WHERE id = 2").unwrap();
        assert_eq!(connection.value("SELECT count(*) FROM copied_near").unwrap(), rows.to_string());
        connection.query("ROLLBACK").unwrap();
        assert_eq!(connection.value("SELECT count(*) FROM copied_near").unwrap(), "1");
        assert_eq!(copy(&mut connection, "copied_near", data.as_bytes(), &mut size), Ok(format!("COPY {rows}")));
        let texts: u64 = (1..=rows).map(|number| format!("row {number}").len() as u64).sum();
        let all = [("count(*)", rows + 1), ("sum(id)", rows * (rows + 1) / 2), ("sum(length(t))", texts + 6)];
        for (asked, expected) in all {
            let answer = connection.value(&format!("SELECT {asked} FROM copied_near")).unwrap();
            assert_eq!(answer, expected.to_string(), "{asked} of {rows} rows");
        }
        connection.query("DROP TABLE copied_near").unwrap();
    }
}

#[test]
fn copies_one_after_the_other_are_all_there() {
    let ashlar = Ashlar::shared();
    let (mut connection, mut reader) = (ashlar.connect(), ashlar.connect());
    connection.query("CREATE TABLE copied_often (id bigint PRIMARY KEY, v bigint, t text)").unwrap();
    reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(reader.value("SELECT count(*) FROM copied_often").unwrap(), "0");
    let (mut there, mut sum) = (0, 0);
    for rows in [LEAST_IN_BULK, 10, 20_000, LEAST_IN_BULK - 1, ROWS, 9_000] {
        let ids = there + 1..=there + rows;
        let data: String = ids.clone().map(|id| format!("{id}\t{}\t\\N\n", id % 7)).collect();
        let tag = copy(&mut connection, "copied_often", data.as_bytes(), || 50_000);
        assert_eq!(tag, Ok(format!("COPY {rows}")));
        there += rows;
        sum += ids.map(|id| id % 7).sum::<u64>();
        assert_eq!(connection.value("SELECT count(*) FROM copied_often").unwrap(), there.to_string());
        assert_eq!(connection.value("SELECT sum(v) FROM copied_often").unwrap(), sum.to_string());
        let last = format!("SELECT v FROM copied_often WHERE id = {there}");
        assert_eq!(connection.value(&last).unwrap(), (there % 7).to_string());
        assert_eq!(reader.value("SELECT count(*) FROM copied_often").unwrap(), "0");
    }
    reader.query("COMMIT").unwrap();
    assert_eq!(reader.value("SELECT count(*) FROM copied_often").unwrap(), there.to_string());
    connection.query("DROP TABLE copied_often").unwrap();
}

#[test]
fn a_large_copy_into_a_table_with_an_index_is_found_by_it() {
    let ashlar = Ashlar::shared();
    let mut connection = ashlar.connect();
    connection.query("CREATE TABLE copied_indexed (id bigint PRIMARY KEY, v bigint UNIQUE, t text)").unwrap();
    // Of its values each comes many times.
    let (code, told) = copy(&mut connection, "copied_indexed", lines(&[]).as_bytes(), || 70_000).unwrap_err();
    assert_eq!(code, "23505", "{told}");
    assert_eq!(connection.value("SELECT count(*) FROM copied_indexed").unwrap(), "0");
    let data: String = (1..=ROWS).map(|number| format!("{number}\t{}\t\\N\n", number * 3)).collect();
    let tag = copy(&mut connection, "copied_indexed", data.as_bytes(), || 70_000);
    assert_eq!(tag, Ok(format!("COPY {ROWS}")));
    for number in [1, 257, LEAST_IN_BULK, LEAST_IN_BULK + 1, ROWS] {
        let sql = format!("SELECT id FROM copied_indexed WHERE v = {}", number * 3);
        assert_eq!(connection.value(&sql).unwrap(), number.to_string());
    }
    connection.query("DROP TABLE copied_indexed").unwrap();
}
