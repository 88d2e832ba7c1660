//! Startup and login of a connection: SCRAM-SHA-256; hashed with MD5 and in clear only where nobody can listen.
//!
//! Called once, by `Backend::connect`. What a session could see differently on a shard is set here: encoding, forms of
//! dates and floats, isolation, timeouts that are ours to enforce.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_protocol::pg::client;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::escape::{escape_identifier, escape_literal};

use super::{Backend, RowReader, SETTLED, Settings};

/// Settings of every connection, whoever borrows it.
const FIXED: &[(&str, &str)] = &[
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
    ("standard_conforming_strings", "on"),
    ("search_path", "public"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
    // These are the session's, which enforces them itself.
    ("statement_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// What is asked once: how the database compares texts, and whether the server is a standby. The columns of `pg_database` differ
/// from version to version; the provider `b` of later ones always compares code points.
const LOOK: &str = "SELECT (CASE coalesce(pg_catalog.to_jsonb(d) ->> 'datlocprovider', 'c') WHEN 'b' THEN true \
                    WHEN 'c' THEN d.datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') ELSE false END)::text, \
                    pg_catalog.pg_is_in_recovery()::text \
                    FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()";

/// `text`
const TEXT: u32 = 25;

/// Settings of whoever borrows it that are known from the login on. Others are not: what a connection was opened with is what DEFAULT is
/// there, for everybody who has it later.
fn of_session(settings: &Settings) -> [(&'static str, String); 3] {
    [
        ("TimeZone", settings.time_zone.to_string()),
        ("application_name", settings.application_name.to_string()),
        ("lock_timeout", settings.lock_timeout_ms.to_string()),
    ]
}

/// What a session brings, by SET or SET LOCAL. `before`: what may be in force of others, and is not where this session does not bring it too.
pub(super) fn set_all<'a>(command: &str, settings: &Settings, before: impl Iterator<Item = &'a Arc<str>>) -> String {
    let set = |name: &str, value: &str| format!("{command} {name} TO {};", escape_literal(value));
    let mut all: String = of_session(settings).iter().map(|(name, value)| set(name, value)).collect();
    // Before the others: a name may be one of them in other letters.
    for name in before.filter(|name| settings.carried.names().all(|brought| brought != *name)) {
        all.push_str(&format!("{command} {} TO DEFAULT;", escape_identifier(name)));
    }
    for given in settings.carried.iter() {
        all.push_str(&set(&escape_identifier(&given.name), &given.value));
    }
    all
}

impl Backend {
    /// Everything up to the first ReadyForQuery.
    pub(super) async fn log_in(&mut self) -> Result<()> {
        let session = of_session(&self.settings);
        let session = session.iter().map(|(name, value)| (*name, value.as_str()));
        let login = [("user", self.mapping.user.as_str()), ("database", self.server.dbname.as_str())];
        let parameters = login.into_iter().chain(FIXED.iter().copied()).chain(session);
        client::startup(&mut self.outbox, parameters);
        self.awaited = 1;
        self.flush().await?;
        let mut scram = None;
        loop {
            let (tag, range) = self.message().await?;
            let body = &self.inbox[range.clone()];
            match tag {
                b'R' => {
                    let Some((kind, rest)) = body.split_first_chunk::<4>() else { return Err(self.garbled()) };
                    let (kind, rest) = (u32::from_be_bytes(*kind), rest.to_vec());
                    self.authenticate(kind, &rest, &mut scram)?;
                    self.flush().await?;
                }
                b'K' => {
                    let Some((pid, secret)) = body.split_first_chunk::<4>() else { return Err(self.garbled()) };
                    let pid = i32::from_be_bytes(*pid);
                    self.canceller = super::Canceller::new(&self.server, pid, secret, self.limits.connect);
                }
                b'E' => {
                    self.is_broken = true;
                    return Err(self.failure_of(&self.inbox[range]));
                }
                b'Z' => {
                    // A server that never proved to know the password must not be taken for the one that does.
                    if scram.is_some() {
                        return Err(self.refused("the server ended the exchange before it proved who it is"));
                    }
                    (self.awaited, self.is_sent) = (0, false);
                    break;
                }
                SETTLED => {}
                _ => return Err(self.garbled()),
            }
        }
        if self.parameter("server_encoding").is_some_and(|encoding| encoding != "UTF8") {
            return Err(self.refused("its database is not encoded in UTF8"));
        }
        if self.parameter("integer_datetimes").is_some_and(|is_on| is_on != "on") {
            return Err(self.refused("its times are not integers"));
        }
        self.notices.clear();
        Ok(())
    }

    /// Makes it as new: nothing that somebody has left there is seen by whoever is next.
    ///
    /// # Errors
    /// What the shard says.
    pub(crate) async fn renew(&mut self) -> Result<()> {
        let settings = Settings::default();
        self.queue_query("DISCARD ALL");
        self.run(&set_all("SET", &settings, std::iter::empty())).await?;
        // Names of statements of before are not given again: their count goes on.
        self.statements.forget_all();
        self.settings = settings;
        Ok(())
    }

    /// Whether the database compares texts byte by byte.
    pub fn is_c_collated(&self) -> bool {
        self.is_c_collated
    }

    /// Whether the server was a standby when it was connected to: it changes nothing then.
    pub fn is_standby(&self) -> bool {
        self.is_standby
    }

    /// Asks what no message of the login says.
    pub(super) async fn look(&mut self) -> Result<()> {
        self.queue_scan(LOOK);
        self.flush().await?;
        let mut failure = None;
        while let Some(range) = self.next_row(&[TEXT, TEXT], &mut failure).await? {
            let row = RowReader::new(self.row(&range)).and_then(|mut row| Ok((row.value()?, row.value()?)));
            let Ok((collated, standby)) = row else { return Err(self.garbled()) };
            let (is_c_collated, is_standby) =
                (collated == Some(b"true".as_slice()), standby == Some(b"true".as_slice()));
            (self.is_c_collated, self.is_standby) = (is_c_collated, is_standby);
            self.consume_row(&range);
        }
        Ok(())
    }

    /// Answers one request of the shard. `scram` is there while its exchange is under way.
    fn authenticate(&mut self, kind: u32, body: &[u8], scram: &mut Option<ScramSha256>) -> Result<()> {
        let password = self.mapping.password.clone();
        match kind {
            0 => return Ok(()),
            3 | 5 | 10 if password.reveal().is_empty() => {
                return Err(self.refused("it asks for a password, and the user mapping has none"));
            }
            3 if !self.server.is_local() => {
                return Err(self.refused("it asks for the password in clear over a connection that others can read"));
            }
            3 => client::password(&mut self.outbox, password.reveal().as_bytes()),
            5 if !self.server.is_local() => {
                return Err(
                    self.refused("it asks for a password hashed with MD5 over a connection that others can read")
                );
            }
            5 => {
                let Ok(salt) = <[u8; 4]>::try_from(body) else { return Err(self.garbled()) };
                let hash = md5_hash(self.mapping.user.as_bytes(), password.reveal().as_bytes(), salt);
                client::password(&mut self.outbox, hash.as_bytes());
            }
            10 => {
                let mut mechanisms = body.split(|byte| *byte == 0);
                if !mechanisms.any(|mechanism| mechanism == SCRAM_SHA_256.as_bytes()) {
                    return Err(self.refused("it offers no login that is supported"));
                }
                let exchange = ScramSha256::new(password.reveal().as_bytes(), ChannelBinding::unsupported());
                client::sasl_initial(&mut self.outbox, SCRAM_SHA_256, exchange.message());
                *scram = Some(exchange);
            }
            11 => {
                let Some(exchange) = scram else { return Err(self.garbled()) };
                if exchange.update(body).is_err() {
                    return Err(self.refused("its answer to the login makes no sense"));
                }
                client::sasl_response(&mut self.outbox, exchange.message());
            }
            12 => {
                let Some(mut exchange) = scram.take() else { return Err(self.garbled()) };
                if exchange.finish(body).is_err() {
                    return Err(self.refused("it does not know the password of the user mapping"));
                }
            }
            _ => return Err(self.refused("it asks for a login that is not supported")),
        }
        Ok(())
    }

    /// 08001: a login that we do not go through with.
    fn refused(&mut self, why: &str) -> Error {
        self.is_broken = true;
        let message = format!("could not log in to shard \"{}\": {why}", self.server.name);
        Error::new(ErrorCode::UnableToConnect, message).with_context(self.place())
    }
}
