//! A row on each shard, behind an Ashlar that reaches its shards through relays, and a transaction that moves something from one shard to
//! the others. Whatever goes wrong, it has moved on all of them or on none.

use std::thread::JoinHandle;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::members::{Member, direct, wait_until_over};
use super::*;

/// What each row is worth in the beginning.
pub(super) const WORTH: i64 = 1000;

pub(super) struct Bank {
    pub(super) shards: Vec<Postgres>,
    pub(super) member: Member,
    /// A key of each shard.
    pub(super) keys: Vec<i64>,
}

impl Bank {
    /// On so many shards.
    pub(super) fn open(count: usize) -> Bank {
        Bank::over((0..count).map(|_| Postgres::start().unwrap()).collect())
    }

    /// On these. One that comes back is found soon: until it is looked at, it is refused.
    pub(super) fn over(shards: Vec<Postgres>) -> Bank {
        Bank::with(shards, "health_check_ms = 50")
    }

    /// On these, with such lines in the section `[shard]`.
    pub(super) fn with(shards: Vec<Postgres>, lines: &str) -> Bank {
        let member = Member::with(&shards, lines);
        let mut client = member.ashlar.connect();
        done(&mut client, &format!("CREATE TABLE bank (k bigint PRIMARY KEY, v bigint) {}", member.by("k")));
        let keys = key_of_each(&mut client, &shards, "bank");
        for key in &keys {
            done(&mut client, &format!("INSERT INTO bank VALUES ({key}, {WORTH})"));
        }
        Bank { shards, member, keys }
    }

    /// What is on the shards themselves.
    pub(super) fn worth(&self) -> Vec<i64> {
        let of = |shard: &Postgres| direct(shard).value("SELECT v FROM bank").unwrap().parse().unwrap();
        self.shards.iter().map(of).collect()
    }

    /// A transaction that moves one from the first of these keys to each of the others, but for its COMMIT.
    pub(super) fn moves(keys: &[i64]) -> Vec<String> {
        let others = keys.len() - 1;
        let mut moves = vec!["BEGIN".to_owned(), format!("UPDATE bank SET v = v - {others} WHERE k = {}", keys[0])];
        moves.extend(keys[1..].iter().map(|key| format!("UPDATE bank SET v = v + 1 WHERE k = {key}")));
        moves
    }

    /// All of it.
    pub(super) fn transfer(client: &mut pg::Connection, keys: &[i64]) -> Result<(), String> {
        let moves = Bank::moves(keys);
        let mut statements = moves.iter().map(String::as_str).chain(["COMMIT"]);
        statements.try_for_each(|sql| client.query(sql).map(drop).map_err(|error| format!("{error:#}")))
    }

    /// The same by this client beside this thread, from the first shard to the others, until it is joined.
    pub(super) fn transfer_by(&self, mut client: pg::Connection) -> JoinHandle<Result<(), String>> {
        let keys = self.keys.clone();
        std::thread::spawn(move || Bank::transfer(&mut client, &keys))
    }

    /// The same by a client of its own.
    pub(super) fn transfer_beside(&self) -> JoinHandle<Result<(), String>> {
        self.transfer_by(self.member.ashlar.connect())
    }

    /// Whether that has happened since, on all shards: else on none.
    pub(super) fn has_moved(&self, before: &[i64]) -> bool {
        let now = self.worth();
        let others = before.len() as i64 - 1;
        let moved: Vec<i64> =
            before.iter().enumerate().map(|(at, v)| if at == 0 { v - others } else { v + 1 }).collect();
        assert!(now == before || now == moved, "half of it: {before:?} became {now:?}");
        now == moved
    }

    /// Has whoever commits on a shard wait for this lock from now on: the connection has it, by `pg_advisory_lock(1)`.
    pub(super) fn gate(&self, shard: usize) -> pg::Connection {
        let mut holder = direct(&self.shards[shard]);
        done(&mut holder, "SELECT pg_advisory_lock(1)");
        done(
            &mut holder,
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'",
        );
        done(
            &mut holder,
            "CREATE CONSTRAINT TRIGGER gate AFTER UPDATE ON bank DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION wait()",
        );
        holder
    }

    /// Has a shard say more than there is memory for from now on, whenever somebody commits there.
    pub(super) fn talk(&self, shard: usize) {
        let mut shard = direct(&self.shards[shard]);
        done(
            &mut shard,
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS \
             $$BEGIN RAISE NOTICE '%', repeat('x', 60 << 20); RETURN NULL; END$$",
        );
        done(
            &mut shard,
            "CREATE CONSTRAINT TRIGGER tells AFTER UPDATE ON bank DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION tell()",
        );
    }

    /// In the end: nothing is in doubt, nothing has become more or less, and what could be done can be done again.
    pub(super) fn check(&self) {
        wait_until_over(&self.shards);
        let mut client = self.member.ashlar.connect();
        assert!(wait_for(PATIENCE, || client.query("SELECT gid FROM ashlar.in_doubt").unwrap().is_empty()));
        let before = self.worth();
        Bank::transfer(&mut client, &self.keys).unwrap();
        wait_until_over(&self.shards);
        assert!(self.has_moved(&before));
        let sum = client.value("SELECT sum(v) FROM bank").unwrap();
        assert_eq!(sum, (self.keys.len() as i64 * WORTH).to_string());
    }
}
