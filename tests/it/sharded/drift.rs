//! Tables of shards that somebody alters there: a statement about a table that is not the same everywhere is answered right, or it is refused,
//! with the name of the shard, and then nothing has changed. What is right is asked of the shards themselves, one by one.

use super::copy::copy_in;
use super::extended::{Answer, Form, Told, ask, prepare, query, run};
use super::*;

const COLUMNS: &str = "k bigint PRIMARY KEY, a int, b int, c numeric(10,2), d bigint, e text";

/// What happens to a table `t` on one of its shards.
const DRIFTS: &[&str] = &[
    "ALTER TABLE t ALTER COLUMN a TYPE bigint",
    // Values of the same number of bytes, which mean something else.
    "ALTER TABLE t ALTER COLUMN d TYPE double precision",
    "ALTER TABLE t ALTER COLUMN c TYPE numeric(12,4); UPDATE t SET c = c + 0.0001",
    "ALTER TABLE t ALTER COLUMN e TYPE varchar(40)",
    "ALTER TABLE t DROP COLUMN a",
    "ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME x TO b",
    "ALTER TABLE t ADD COLUMN f int DEFAULT 5",
];

/// Queries whose answer is that of all shards together.
const QUERIES: &[&str] = &[
    "SELECT * FROM t",
    "SELECT * FROM t LIMIT 100",
    "SELECT * FROM t ORDER BY k",
    "SELECT k, e FROM t",
    "SELECT e FROM t ORDER BY k",
    "SELECT k, a, b FROM t",
    "SELECT k, a FROM t ORDER BY a DESC, k",
    "SELECT d, k FROM t ORDER BY d, k LIMIT 100",
    "SELECT k, c FROM t WHERE k > 103 ORDER BY c, k",
    "SELECT x.k, y.b, y.a FROM t x JOIN t y ON x.k = y.k",
];

/// Numbers that come of those of the shards.
/// What an aggregate makes of the numbers of two shards.
type Together = fn(i64, i64) -> i64;

const AGGREGATES: &[(&str, Together)] = &[
    ("SELECT count(*) FROM t", |a, b| a + b),
    ("SELECT sum(a) FROM t", |a, b| a + b),
    ("SELECT sum(b) FROM t", |a, b| a + b),
    ("SELECT max(a) FROM t", i64::max),
    ("SELECT min(d) FROM t", i64::min),
];

/// A fleet of two with a table in memory, whose keys all tables have.
fn fleet() -> Fleet {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY)");
    done(&mut client, "INSERT INTO g SELECT i FROM generate_series(100, 119) AS s(i)");
    fleet
}

/// Makes a table and fills it: a key of each shard that is not in it.
fn fill(fleet: &Fleet, table: &str) -> Vec<i64> {
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE {table} ({COLUMNS}) {}", fleet.by("k")));
    let keys = fleet.keys(table);
    for k in 100..120 {
        let row = format!("{k}, {}, {}, {k}.25, {}, 'e {k}'", k % 5, k * 10, k * 100);
        done(&mut client, &format!("INSERT INTO {table} (k, a, b, c, d, e) VALUES ({row})"));
    }
    keys
}

/// The statement about another table.
fn about(table: &str, sql: &str) -> String {
    let words = sql.split(' ').map(|word| match word.strip_prefix('t') {
        Some(rest) if rest.is_empty() || rest.starts_with(';') => format!("{table}{rest}"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<String>>().join(" ")
}

/// What is right: what both shards say, where they say it of the same columns.
fn expected(shards: &mut [pg::Connection], sql: &str, form: Form) -> Option<Answer> {
    let mut both = shards.iter_mut().map(|shard| ask(shard, sql, form));
    let mut all = both.next().unwrap().unwrap();
    let other = both.next().unwrap().ok().filter(|other| other.columns == all.columns)?;
    all.rows.extend(other.rows);
    all.rows.sort();
    Some(all)
}

/// Whether an answer is what is right, or where nothing is, a refusal that names the shard; `true`: it is right. It comes before the first row,
/// unless the engine has joined rows of one shard before it hears of the other.
fn is_right(told: Told, expected: Option<&Answer>, what: &str) -> bool {
    match (told, expected) {
        (Ok(mut answer), Some(expected)) => {
            answer.rows.sort();
            assert_eq!(answer.rows, expected.rows, "{what}");
            // A prepared statement has said its columns before.
            assert!(answer.columns.is_empty() || answer.columns == expected.columns, "{what}: {answer:?}");
            true
        }
        (Err(error), None) => {
            let may_be_late = what.contains(" JOIN ");
            assert!(error.contains("s1") && (may_be_late || !error.contains("\nafter ")), "{what}: {error}");
            false
        }
        (told, expected) => panic!("{what}: {told:?} instead of {expected:?}"),
    }
}

#[test]
fn what_is_read_of_shards_that_differ_is_right_or_refused() {
    let fleet = fleet();
    for (number, drift) in DRIFTS.iter().enumerate() {
        let table = format!("t{number}");
        let key = fill(&fleet, &table)[1];
        let (mut early, mut client) = (fleet.client(), fleet.client());
        let named = |at: usize| format!("early {at}");
        for (at, sql) in QUERIES.iter().enumerate() {
            prepare(&mut early, &named(at), &about(&table, sql)).unwrap();
            // Connections know them from now on.
            for form in [Form::Text, Form::Binary] {
                assert!(!run(&mut early, &named(at), &[], form).unwrap().rows.is_empty(), "{sql}");
            }
        }
        done(&mut fleet.shard(1), &about(&table, drift));
        let mut shards = [fleet.shard(0), fleet.shard(1)];
        let (mut right, mut refused) = (0, 0);
        let mut count = |is_right: bool| *(if is_right { &mut right } else { &mut refused }) += 1;
        for (at, sql) in QUERIES.iter().enumerate() {
            let sql = about(&table, sql);
            for form in [Form::Simple, Form::Text, Form::Binary] {
                let expected = expected(&mut shards, &sql, form);
                // Again and again: what a connection has found once it knows.
                for _ in 0..2 {
                    let what = format!("after {drift}: {form:?} {sql}");
                    count(is_right(ask(&mut client, &sql, form), expected.as_ref(), &what));
                    if form != Form::Simple {
                        let told = run(&mut early, &named(at), &[], form);
                        count(is_right(told, expected.as_ref(), &format!("{what}, prepared before")));
                    }
                }
            }
        }
        for (sql, whole) in AGGREGATES {
            let sql = about(&table, sql);
            let each: Vec<Answer> = shards.iter_mut().filter_map(|shard| query(shard, &sql).ok()).collect();
            let number = |answer: &Answer| answer.texts()[0][0].as_ref().unwrap().parse::<i64>().unwrap();
            let expected = match &each[..] {
                [a, b] if a.columns == b.columns => Some(whole(number(a), number(b))),
                _ => None,
            };
            for form in [Form::Simple, Form::Text] {
                let told = ask(&mut client, &sql, form).map(|answer| number(&answer));
                match (told, expected) {
                    (Ok(found), Some(expected)) => assert_eq!(found, expected, "after {drift}: {sql}"),
                    (Err(error), None) => assert!(error.contains("s1"), "after {drift}: {sql}: {error}"),
                    (told, expected) => panic!("after {drift}: {sql}: {told:?} instead of {expected:?}"),
                }
            }
        }
        // The engine reads columns by their names, over connections of its own and over the transaction's.
        for column in ["a", "c", "d", "e"] {
            let own = format!("SELECT k, {column} FROM {table}");
            let sql = format!("SELECT g.k, t.{column} FROM g JOIN {table} t ON g.k = t.k");
            let expected = expected(&mut shards, &own, Form::Simple);
            let what = format!("after {drift}: {sql}");
            let mut ask_engine = |client: &mut pg::Connection, what: &str| {
                let told = query(client, &sql).map(|answer| Answer { columns: Vec::new(), ..answer });
                count(is_right(told, expected.as_ref(), what));
            };
            ask_engine(&mut client, &what);
            done(&mut client, "BEGIN");
            done(&mut client, &format!("INSERT INTO {table} (k) VALUES ({key})"));
            ask_engine(&mut client, &format!("{what}, in a block"));
            done(&mut client, "ROLLBACK");
        }
        assert!(right > 0 && refused > 0, "after {drift}: {right} right, {refused} refused");
    }
    fleet.ashlar.check_log();
}

/// All rows of both shards, as they are there.
fn dump(fleet: &Fleet, table: &str) -> Vec<Vec<Vec<Option<String>>>> {
    (0..2).map(|shard| rows(&mut fleet.shard(shard), &format!("SELECT * FROM {table} ORDER BY k"))).collect()
}

/// A refusal that names the shard, after which both shards have what they had.
fn assert_refused(fleet: &Fleet, table: &str, what: &str, change: impl FnOnce() -> Told) {
    let before = dump(fleet, table);
    let error = change().expect_err(what);
    assert!(error.contains("s1"), "{what}: {error}");
    assert_eq!(dump(fleet, table), before, "{what}: {error}");
}

#[test]
fn what_is_changed_on_shards_that_differ_is_right_or_refused() {
    let fleet = fleet();
    for (number, drift) in DRIFTS.iter().enumerate() {
        let table = format!("t{number}");
        let keys = fill(&fleet, &table);
        let (near, far) = (keys[0], keys[1]);
        let (mut early, mut client) = (fleet.client(), fleet.client());
        let counted = format!("INSERT INTO {table} VALUES ($1, $2, $3, $4, $5, $6)");
        let early_typed = format!("INSERT INTO {table} (k, b, d) VALUES ($1, $2, $3)");
        let typed = format!("INSERT INTO {table} (k, d, b) VALUES ($1, $2, $3)");
        let (key, eleven, twelve) = (far.to_be_bytes(), 11_i32.to_be_bytes(), 12_i64.to_be_bytes());
        let early_values: [&[u8]; 3] = [&key, &eleven, &twelve];
        let values: [&[u8]; 3] = [&key, &twelve, &eleven];
        let gone = format!("DELETE FROM {table} WHERE k IN ({near}, {far})");
        prepare(&mut early, "typed", &early_typed).unwrap();
        run(&mut early, "typed", &early_values, Form::Binary).unwrap();
        done(&mut client, &gone);
        done(&mut fleet.shard(1), &about(&table, drift));
        let mut there = fleet.shard(1);
        let (has_a, is_typed) = (!drift.contains("DROP COLUMN a"), drift.contains("TYPE"));

        // Values that are counted are those of the columns that are known here.
        let written = far.to_string();
        let texts: [&[u8]; 6] = [written.as_bytes(), b"1", b"2", b"3.5", b"4", b"five"];
        let plain = format!("INSERT INTO {table} VALUES ({far}, 1, 2, 3.5, 4, 'five')");
        let by_name =
            format!("SELECT a = 1 AND b = 2 AND c = 3.5 AND d = 4 AND e = 'five' FROM {table} WHERE k = {far}");
        for form in [Form::Simple, Form::Text] {
            let what = format!("after {drift}: {form:?} {counted}");
            let before = dump(&fleet, &table);
            let told = match form {
                Form::Simple => query(&mut client, &plain),
                _ => prepare(&mut client, "", &counted).and_then(|_| run(&mut client, "", &texts, form)),
            };
            match told {
                Ok(_) => assert!(has_a && there.value(&by_name).unwrap() == "t", "{what}"),
                // A statement that says of which types its values are is refused where a shard says otherwise.
                Err(error) => {
                    assert!(error.contains("s1") && (!has_a || (is_typed && form == Form::Text)), "{what}: {error}");
                    assert_eq!(dump(&fleet, &table), before, "{what}");
                }
            }
            done(&mut client, &gone);
        }

        // Bytes are never taken for a value of another type.
        let what = format!("after {drift}: {typed}");
        let by_name = format!("SELECT b = 11 AND d = 12 FROM {table} WHERE k = {far}");
        if drift.contains("double precision") {
            assert_refused(&fleet, &table, &what, || {
                prepare(&mut client, "", &typed).and_then(|_| run(&mut client, "", &values, Form::Binary))
            });
        } else {
            prepare(&mut client, "", &typed).unwrap();
            run(&mut client, "", &values, Form::Binary).expect(&what);
            assert_eq!(there.value(&by_name).unwrap(), "t", "{what}");
            done(&mut client, &gone);
        }
        match run(&mut early, "typed", &early_values, Form::Binary) {
            Ok(_) => assert_eq!(there.value(&by_name).unwrap(), "t", "{what}, prepared before"),
            Err(error) => assert!(error.contains("s1"), "{what}, prepared before: {error}"),
        }
        done(&mut client, &gone);
        let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
        let row = [&[0, 2, 0, 0, 0, 8][..], &key, &[0, 0, 0, 8], &twelve, &[0xff, 0xff]].concat();
        let copied = format!("COPY {table} (k, d) FROM STDIN WITH (FORMAT binary)");
        if drift.contains("double precision") {
            assert_refused(&fleet, &table, &copied, || {
                copy_in(&mut client, &copied, &[header, &row]).map(|_| Answer::default())
            });
        } else {
            assert_eq!(copy_in(&mut client, &copied, &[header, &row]).as_deref(), Ok("COPY 1"), "after {drift}");
            assert_eq!(there.value(&format!("SELECT d FROM {table} WHERE k = {far}")).unwrap(), "12");
            done(&mut client, &gone);
        }

        // What comes back has to be the same everywhere, before anything changes.
        for form in [Form::Simple, Form::Text, Form::Binary] {
            for sql in [
                format!("UPDATE {table} SET b = b + 1 RETURNING *"),
                format!("INSERT INTO {table} (k, b) VALUES ({near}, 1), ({far}, 2) RETURNING *"),
                format!("DELETE FROM {table} RETURNING *"),
            ] {
                let what = format!("after {drift}: {form:?} {sql}");
                assert_refused(&fleet, &table, &what, || ask(&mut client, &sql, form));
            }
        }
        let computed = format!("INSERT INTO {table} (k, b) SELECT k + 1000, 1 FROM g RETURNING *");
        assert_refused(&fleet, &table, &computed, || query(&mut client, &computed));
        let one = format!("UPDATE {table} SET b = b + 1 WHERE k = {far} RETURNING *");
        done(&mut client, &format!("INSERT INTO {table} (k, b) VALUES ({far}, 7)"));
        assert_refused(&fleet, &table, &one, || ask(&mut client, &one, Form::Text));
        // What the shard says itself is passed on.
        let expected = query(&mut there, &format!("SELECT * FROM {table} WHERE k = {far}")).unwrap();
        assert_eq!(query(&mut client, &one).unwrap().columns, expected.columns);
        assert_eq!(there.value(&format!("SELECT b FROM {table} WHERE k = {far}")).unwrap(), "8");
        // Nor does it matter what a statement does not name.
        let sum = format!("SELECT sum(b) FROM {table}");
        let sums = |fleet: &Fleet| {
            let each = (0..2).map(|shard| fleet.shard(shard).value(&sum).unwrap().parse::<i64>().unwrap());
            each.sum::<i64>()
        };
        let before = sums(&fleet);
        assert_eq!(query(&mut client, &format!("UPDATE {table} SET b = b + 1")).unwrap().tag, "UPDATE 21");
        assert_eq!(sums(&fleet), before + 21);
        let sql = format!("DELETE FROM {table} WHERE k = {far} RETURNING k");
        assert_eq!(ask(&mut client, &sql, Form::Text).unwrap().texts(), [[Some(far.to_string())]]);
    }
    fleet.ashlar.check_log();
}

#[test]
fn tables_that_are_altered_alike_are_what_they_are_as_soon_as_a_statement_is_prepared_again() {
    let fleet = fleet();
    let key = fill(&fleet, "t")[1];
    let (mut early, mut client) = (fleet.client(), fleet.client());
    let (all, sorted) = ("SELECT * FROM t", "SELECT * FROM t ORDER BY k");
    let one = "SELECT * FROM t WHERE k = $1";
    done(&mut client, &format!("INSERT INTO t (k) VALUES ({key})"));
    let key = key.to_be_bytes();
    let values: [(&str, &[&[u8]]); 3] = [("all", &[]), ("sorted", &[]), ("one", &[&key])];
    for (name, sql) in [("all", all), ("sorted", sorted), ("one", one)] {
        prepare(&mut early, name, sql).unwrap();
    }
    let run_all = |client: &mut pg::Connection| {
        values.map(|(name, values)| run(client, name, values, Form::Binary).map(|answer| answer.rows.len()))
    };
    assert_eq!(run_all(&mut early), [Ok(21), Ok(21), Ok(1)]);
    assert_eq!(query(&mut client, sorted).unwrap().columns.len(), 6);
    for shard in 0..2 {
        done(&mut fleet.shard(shard), "ALTER TABLE t ALTER COLUMN d TYPE double precision, ADD COLUMN f int");
    }
    // Nothing is told of them where the answer says itself what it is.
    let mut shards = [fleet.shard(0), fleet.shard(1)];
    for sql in [all, sorted] {
        let expected = expected(&mut shards, sql, Form::Simple);
        assert_eq!(expected.as_ref().unwrap().columns.len(), 7);
        assert!(is_right(query(&mut client, sql), expected.as_ref(), sql));
    }
    // What a client has been told before is no more, as in PostgreSQL, until it asks again.
    for _ in 0..2 {
        for told in run_all(&mut early) {
            let error = told.unwrap_err();
            assert!(error.contains("0A000") || error.contains("42804"), "{error}");
        }
    }
    for (name, sql) in [("all", all), ("sorted", sorted), ("one", one)] {
        done(&mut early, &format!("DEALLOCATE \"{name}\""));
        let columns = prepare(&mut early, name, sql).unwrap().columns;
        assert_eq!(columns, query(&mut shards[0], all).unwrap().columns, "{sql}");
    }
    for _ in 0..2 {
        assert_eq!(run_all(&mut early), [Ok(21), Ok(21), Ok(1)]);
    }
    fleet.ashlar.check_log();
}

#[test]
fn shards_of_one_server_are_compared_too() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let with = format!("servers = '{}', shards = '4', algorithm = 'hash_mod'", fleet.servers());
    done(
        &mut client,
        &format!("CREATE TABLE t (k bigint PRIMARY KEY, v int) PARTITION BY HASH (k) USING sharded WITH ({with})"),
    );
    done(&mut client, "INSERT INTO t SELECT i, i FROM generate_series(1, 100) AS s(i)");
    let (sql, sorted) = ("SELECT * FROM t", "SELECT * FROM t ORDER BY v DESC LIMIT 100");
    let mut early = fleet.client();
    prepare(&mut early, "early", sql).unwrap();
    for form in [Form::Simple, Form::Text, Form::Binary] {
        for sql in [sql, sorted] {
            assert_eq!(ask(&mut client, sql, form).unwrap().rows.len(), 100, "{form:?}");
        }
    }
    // The last one of its server.
    done(&mut fleet.shard(1), "ALTER TABLE t_3 ALTER COLUMN v TYPE bigint");
    let mut fresh = fleet.client();
    for client in [&mut client, &mut fresh] {
        for form in [Form::Simple, Form::Text, Form::Binary] {
            for sql in [sql, sorted] {
                let error = ask(client, sql, form).unwrap_err();
                assert!(error.contains("s1"), "{form:?}: {error}");
            }
        }
        assert_eq!(ask(client, "SELECT k FROM t", Form::Text).unwrap().rows.len(), 100);
        assert_eq!(ask(client, "SELECT k FROM t", Form::Simple).unwrap().rows.len(), 100);
    }
    assert!(run(&mut early, "early", &[], Form::Binary).unwrap_err().contains("s1"));
    // What is compared is not whose table it is.
    done(&mut fleet.shard(1), "ALTER TABLE t_3 ALTER COLUMN v TYPE int");
    for sql in [sql, sorted] {
        assert_eq!(ask(&mut fresh, sql, Form::Simple).unwrap().rows.len(), 100);
        assert_eq!(ask(&mut fresh, sql, Form::Binary).unwrap().rows.len(), 100);
    }
    fleet.ashlar.check_log();
}
