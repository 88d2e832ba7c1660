//! The same statements on a fleet and on one PostgreSQL.

use ashlar_tests::{Ashlar, Postgres, pg};

use super::slt::{is_of_kind, kinds_of_refusals};
use super::{Fleet, done, start};
use crate::comparison::{Answer, Protocol, Verdict, ask, judge};

/// A fleet and one PostgreSQL with the same tables, and a client of each.
pub(super) struct Twins {
    pub(super) fleet: Fleet,
    /// Of the fleet.
    pub(super) client: pg::Connection,
    /// Of the one.
    pub(super) alone: pg::Connection,
    _oracle: Postgres,
}

impl Twins {
    /// So many shards, and tables: name, columns, and what they are sharded by; `None` is in memory.
    pub(super) fn start(shards: usize, tables: &[(&str, &str, Option<&str>)]) -> Twins {
        let mut fleet = Fleet::start(shards);
        fleet.ashlar.expect_log(&["a plan was refused"]);
        let oracle = Postgres::start().unwrap();
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        for (name, columns, key) in tables {
            done(&mut alone, &format!("CREATE TABLE {name} ({columns})"));
            let by = key.map_or_else(String::new, |key| fleet.by(key));
            done(&mut client, &format!("CREATE TABLE {name} ({columns}) {by}"));
        }
        Twins { fleet, client, alone, _oracle: oracle }
    }

    /// A statement that both must carry out.
    pub(super) fn done(&mut self, sql: &str) {
        done(&mut self.alone, sql);
        done(&mut self.client, sql);
    }

    /// A statement on both: how the answers differ.
    pub(super) fn ask(&mut self, sql: &str, protocol: Protocol) -> Option<String> {
        let (expected, found) = (ask(&mut self.alone, sql, protocol), ask(&mut self.client, sql, protocol));
        let how = match judge(sql, &expected, &found) {
            Verdict::Same if found.in_block != expected.in_block => "one of both is in a block".to_owned(),
            Verdict::Same => return None,
            Verdict::Refused => format!("refused: {:?}", found.error),
            Verdict::Different(how) => how,
        };
        Some(format!("{how}\n{sql}"))
    }

    /// Blocks of statements, each of which begins with the rows that the ones before have left: every answer must be the same.
    pub(super) fn agree(mut self, blocks: &[&[&str]], protocol: Protocol) {
        let mut wrong: Vec<String> = Vec::new();
        for block in blocks {
            for (at, sql) in block.iter().enumerate() {
                let before = || block[..at].join("; ");
                wrong.extend(self.ask(sql, protocol).map(|how| format!("{how}\nafter {}", before())));
            }
            for client in [&mut self.alone, &mut self.client] {
                ask(client, "ROLLBACK", Protocol::Simple);
            }
        }
        crate::slt::report(&wrong);
        self.fleet.ashlar.check_log();
    }
}

/// What a fleet has refused, held to docs/reference/sharding.md: each message is listed there, or tables of a server without shards are
/// refused the same.
pub(super) struct Refusals {
    kinds: Vec<String>,
    /// Of the server without shards, which has the same tables.
    home: pg::Connection,
    /// Message and statement.
    pub(super) told: Vec<String>,
    /// Those that are not on the page.
    unlisted: Vec<String>,
    _server: Ashlar,
}

impl Refusals {
    /// None yet. `tables`: what makes them.
    pub(super) fn of(tables: impl IntoIterator<Item = String>) -> Refusals {
        let mut server = start("");
        server.expect_log(&["a plan was refused"]);
        let mut home = server.connect();
        tables.into_iter().for_each(|sql| done(&mut home, &sql));
        Refusals { kinds: kinds_of_refusals(), home, told: Vec::new(), unlisted: Vec::new(), _server: server }
    }

    /// Notes what a fleet has refused.
    pub(super) fn note(&mut self, sql: &str, protocol: Protocol, found: &Answer) {
        let (_, message) = found.error.as_ref().expect("a refusal is an error");
        let told = format!("{message}: {sql}");
        let is_listed = self.kinds.iter().any(|kind| is_of_kind(message, kind));
        if !is_listed && !ask(&mut self.home, sql, protocol).is_refusal() {
            self.unlisted.push(told.clone());
        }
        self.told.push(told);
    }

    /// Fails where something is refused of shards alone, and the page does not say so.
    pub(super) fn check(&self) {
        let unlisted = self.unlisted.join("\n");
        assert!(unlisted.is_empty(), "refused, and docs/reference/sharding.md does not say so:\n{unlisted}");
    }
}
