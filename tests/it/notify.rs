//! LISTEN and NOTIFY, on Ashlar and on a real PostgreSQL: who hears what, and when.

use std::net::SocketAddr;
use std::time::Duration;

use ashlar_tests::process::wait_for;
use ashlar_tests::{Ashlar, Options, Postgres, pg};

/// How long to wait for what others do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that keeps what it hears.
struct Client {
    connection: pg::Connection,
    heard: Vec<String>,
}

impl Client {
    fn new(address: SocketAddr) -> Client {
        Client { connection: pg::Connection::connect(address).unwrap(), heard: Vec::new() }
    }

    /// Runs a statement: its command tags, or its SQLSTATE. What is heard before the next statement may be sent is kept.
    fn run(&mut self, sql: &str) -> String {
        self.connection.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
        let mut told: Vec<String> = Vec::new();
        loop {
            let message = self.connection.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
            match message.kind {
                b'C' => told.push(String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned()),
                b'E' => told.push(message.field(b'C').unwrap()),
                b'D' => told.push(format!("{:?}", message.row())),
                b'A' => self.hear(&message),
                b'Z' => return told.join(" "),
                _ => {}
            }
        }
    }

    fn hear(&mut self, message: &pg::Message) {
        let mut body = pg::Cursor(&message.body);
        let _pid = body.i32();
        let (channel, payload) = (body.string(), body.string());
        self.heard.push(format!("{channel}:{payload}"));
    }

    /// Waits for so many more without saying anything.
    fn wait_for(&mut self, count: usize) {
        for _ in 0..count {
            let message = self.connection.read().unwrap();
            assert_eq!(message.kind, b'A', "{}", pg::describe(&message));
            self.hear(&message);
        }
    }

    /// What was heard since the last call.
    fn heard(&mut self) -> String {
        std::mem::take(&mut self.heard).join(" ")
    }
}

/// What is said and heard, line by line.
fn conversation(address: SocketAddr) -> Vec<String> {
    let (mut a, mut b, mut c) = (Client::new(address), Client::new(address), Client::new(address));
    let mut said = vec![
        a.run("LISTEN one"),
        b.run("LISTEN one; LISTEN \"Two\""),
        // To all who listen, the sender among them; nobody else.
        a.run("NOTIFY one, 'first'"),
        a.heard(),
    ];
    b.wait_for(1);
    said.push(b.heard());
    said.push(c.run("NOTIFY \"Two\""));
    b.wait_for(1);
    said.push(b.heard());
    said.push(c.run("SELECT pg_notify('one', 'by a function')"));
    a.wait_for(1);
    b.wait_for(1);
    said.push(a.heard() + &b.heard());
    // At commit, each once, in order; what is rolled back is not said.
    for sql in [
        "BEGIN",
        "NOTIFY one, 'x'",
        "NOTIFY one, 'y'",
        "NOTIFY one, 'x'",
        "SAVEPOINT s",
        "NOTIFY one, 'taken back'",
        "ROLLBACK TO s",
        "NOTIFY one, 'z'",
    ] {
        said.push(c.run(sql));
    }
    said.push(b.run("SELECT 1"));
    said.push(b.heard());
    said.push(c.run("COMMIT"));
    b.wait_for(3);
    said.push(b.heard());
    said.push(c.run("BEGIN; NOTIFY one, 'never'; ROLLBACK"));
    said.push(c.run("NOTIFY one, 'in a string'; SELECT 1/0"));
    // Who is in a transaction hears after it.
    said.push(b.run("BEGIN"));
    said.push(c.run("NOTIFY one, 'waits'"));
    a.wait_for(4);
    said.push(a.heard());
    said.push(b.run("SELECT 2"));
    said.push(b.heard());
    said.push(b.run("COMMIT"));
    said.push(b.heard());
    // LISTEN and UNLISTEN are the transaction's, too, which hears itself.
    said.push(c.run("BEGIN; LISTEN one; ROLLBACK"));
    said.push(c.run("BEGIN; LISTEN three; NOTIFY three, 'own'; COMMIT"));
    said.push(c.heard());
    said.push(a.run("BEGIN; UNLISTEN one; ROLLBACK"));
    said.push(c.run("NOTIFY one, 'still'"));
    a.wait_for(1);
    b.wait_for(1);
    said.push(c.heard() + &a.heard() + &b.heard());
    said.push(a.run("UNLISTEN one"));
    said.push(b.run("UNLISTEN *"));
    said.push(c.run("NOTIFY one, 'nobody'; NOTIFY \"Two\", 'nobody'; NOTIFY three, 'c'"));
    said.push(c.heard());
    said.push(c.run("DISCARD ALL"));
    said.push(c.run("NOTIFY three, 'nobody'"));
    said.push(a.run("SELECT 3") + &a.heard() + &b.run("SELECT 3") + &b.heard() + &c.run("SELECT 3") + &c.heard());
    // What is refused.
    said.push(a.run("NOTIFY \"\""));
    said.push(a.run(&format!("NOTIFY one, '{}'", "x".repeat(8000))));
    said.push(a.run("SELECT pg_notify('', 'x')"));
    said.push(a.run("SELECT pg_notify(NULL, 'x')"));
    said.push(a.run(&format!("NOTIFY one, '{}'", "x".repeat(7999))));
    // Who is gone is told nothing.
    said.push(b.run("LISTEN last"));
    drop(b);
    said.push(a.run("NOTIFY last, 'x'"));
    said
}

#[test]
fn who_listens_hears_what_he_would_on_postgresql() {
    let expected = conversation(Postgres::shared().address());
    assert_eq!(conversation(Ashlar::shared().pg()), expected);
}

#[test]
fn who_does_not_read_makes_notify_fail_and_the_server_live() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let (mut sleeper, mut speaker) = (Client::new(ashlar.pg()), Client::new(ashlar.pg()));
    sleeper.run("LISTEN c");
    // In a transaction nothing is sent to it: what is said piles up.
    sleeper.run("BEGIN");
    let payload = "x".repeat(7900);
    speaker.run("CREATE TABLE t (k int PRIMARY KEY)");
    let mut sent = 0;
    let error = loop {
        let told = speaker.run(&format!("BEGIN; INSERT INTO t VALUES ({sent}); NOTIFY c, '{sent} {payload}'; COMMIT"));
        if !told.ends_with("COMMIT") {
            break told;
        }
        sent += 1;
        assert!(sent < 10_000, "there is no bound");
    };
    assert!(error.ends_with("54000"), "{error}");
    // Nothing of that transaction has happened.
    assert_eq!(speaker.run("SELECT count(*) FROM t"), format!("[Some(\"{sent}\")] SELECT 1"));
    sleeper.run("COMMIT");
    assert_eq!(sleeper.heard.len(), sent);
    assert_eq!(speaker.run("NOTIFY c, 'again'"), "NOTIFY");
    sleeper.wait_for(1);
    ashlar.stop();
}

#[test]
fn a_client_that_goes_while_its_commit_waits_listens_to_nothing() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let (mut holder, mut gone) = (Client::new(ashlar.pg()), Client::new(ashlar.pg()));
    holder.run("CREATE TABLE t (k int PRIMARY KEY)");
    holder.run("INSERT INTO t VALUES (1)");
    holder.run("BEGIN");
    holder.run("SELECT k FROM t FOR UPDATE");
    assert_eq!(gone.run("BEGIN; LISTEN letters; TRUNCATE t"), "BEGIN LISTEN TRUNCATE TABLE");
    // As it does not read all of this, its end is one that the server notices at once.
    gone.connection.send(&pg::message(b'Q', &[b"SELECT repeat('x', 40000)\0"])).unwrap();
    gone.connection.read_byte().unwrap();
    gone.connection.send(&pg::message(b'Q', &[b"COMMIT\0"])).unwrap();
    let mut waiting = |count: u32| {
        let expected = format!("[Some(\"{count}\")] SELECT 1");
        wait_for(PATIENCE, || holder.run("SELECT count(*) FROM pg_locks WHERE NOT granted") == expected)
    };
    assert!(waiting(1), "the commit does not wait for who has locked a row");
    drop(gone);
    assert!(waiting(0), "the commit waits still");
    holder.run("COMMIT");
    let payload = "x".repeat(7900);
    // More than may wait for one listener.
    for number in 0..1200 {
        assert_eq!(holder.run(&format!("NOTIFY letters, '{number} {payload}'")), "NOTIFY");
    }
    ashlar.stop();
}

#[test]
fn channels_that_are_listened_to_are_within_the_bound_of_memory() {
    let config = "[store]\nmemory_mib_max = 16\n".to_owned();
    let ashlar = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut listener = Client::new(ashlar.pg());
    let batch = |batch: u32| -> String {
        (0..1000).map(|number| format!("LISTEN channel_of_a_name_that_is_not_short_{batch}_{number};")).collect()
    };
    let refused = (0..200).find(|&number| listener.run(&batch(number)).ends_with("53200"));
    assert!(refused.is_some_and(|number| number > 10), "{refused:?}");
    // What it has listened to before it hears still, and what it does not listen to any more is given back.
    listener.run("NOTIFY channel_of_a_name_that_is_not_short_0_0, 'heard'");
    assert_eq!(listener.heard(), "channel_of_a_name_that_is_not_short_0_0:heard");
    assert_eq!(listener.run("UNLISTEN *"), "UNLISTEN");
    assert!(!listener.run(&batch(0)).ends_with("53200"));
    ashlar.stop();
}
