//! Random operations through SQL and RESP against a simple twin in memory, while the store compacts itself.
//!
//! One test makes every change itself and knows the whole state at each step; the others let several clients work at
//! once and check what must hold whatever the order was.

mod concurrent;
mod twin;

use anyhow::{Context, Result, ensure};
use ashlar_tests::resp::{self, Reply};
use ashlar_tests::{Ashlar, Options};
use tokio_postgres::{Client, SimpleQueryMessage};

use self::twin::{Change, Outcome, Row, Twin};
use crate::random::Random;

/// Operations of one run; `ASHLAR_MODEL_OPERATIONS` sets another number.
const OPERATIONS: u64 = 3000;

#[test]
fn sql_and_resp_agree_with_a_twin_in_memory() {
    let operations = std::env::var("ASHLAR_MODEL_OPERATIONS").map_or(OPERATIONS, |text| text.parse().unwrap());
    let server = Ashlar::start(Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut run = Run::start(&server).await.unwrap();
        for number in 0..operations {
            run.step().await.unwrap_or_else(|error| panic!("operation {number}: {error:?}"));
        }
        run.check_everything().await.unwrap();
    });
    drop(runtime);
    server.stop();
}

/// One run: the clients, what the server must hold, and what an open transaction would make of it.
struct Run {
    random: Random,
    sql: Client,
    /// A session that never opens a transaction: it sees what is committed.
    observer: Client,
    keys: resp::Client,
    committed: Twin,
    block: Option<Block>,
}

/// An open transaction: the state as it sees it, and the states at its savepoints.
struct Block {
    twin: Twin,
    savepoints: Vec<Twin>,
    failed: bool,
}

impl Run {
    async fn start(server: &Ashlar) -> Result<Run> {
        let sql = crate::tokio_postgres::connect(&server.connection_string()).await?;
        sql.batch_execute(
            "CREATE TABLE model_item (id bigint PRIMARY KEY, name text, amount integer NOT NULL, price numeric(12,2), flag boolean);
             CREATE TABLE model_pair (region text, number integer, note bigint, PRIMARY KEY (region, number))",
        )
        .await?;
        Ok(Run {
            random: Random::from_environment(),
            sql,
            observer: crate::tokio_postgres::connect(&server.connection_string()).await?,
            keys: resp::Client::connect(server.resp())?,
            committed: Twin::default(),
            block: None,
        })
    }

    /// What the SQL session sees.
    fn seen(&self) -> &Twin {
        self.block.as_ref().map_or(&self.committed, |block| &block.twin)
    }

    async fn step(&mut self) -> Result<()> {
        match self.random.below(100) {
            0..45 => self.change_by_sql().await,
            45..58 if self.block.is_none() => self.change_by_resp(),
            58..66 => self.move_block().await,
            66..78 => self.read_by_sql().await,
            78..90 => self.read_by_resp(),
            90..98 => self.check_sums().await,
            98 => self.check_everything().await,
            _ => self.change_by_sql().await,
        }
    }

    async fn change_by_sql(&mut self) -> Result<()> {
        if self.block.as_ref().is_some_and(|block| block.failed) {
            let outcome = outcome(self.sql.execute("SELECT 1", &[]).await)?;
            ensure!(outcome == Err("25P02".to_owned()), "a failed block answered {outcome:?}");
            return Ok(());
        }
        let mut twin = self.seen().clone();
        let change = Change::random(&mut self.random, &twin);
        let expected = change.apply(&mut twin);
        let got = self.send(&change).await.with_context(|| change.sql())?;
        ensure!(got == expected, "{}\nexpected {expected:?}, got {got:?}", change.sql());
        match &mut self.block {
            // A failed statement has changed nothing, in the twin neither.
            Some(block) => {
                block.failed = expected.is_err();
                block.twin = twin;
            }
            None => self.committed = twin,
        }
        Ok(())
    }

    /// Parameters where the driver has them for the types, which is the way of keys; literals otherwise.
    async fn send(&mut self, change: &Change) -> Result<Outcome> {
        match change {
            Change::Insert { rows } if rows.len() == 1 && rows[0].1.price.is_none() && !self.random.one_in(4) => {
                let (id, row) = &rows[0];
                let sql = "INSERT INTO model_item (id, name, amount, flag) VALUES ($1, $2, $3, $4)";
                outcome(self.sql.execute(sql, &[id, &row.name, &row.amount, &row.flag]).await)
            }
            Change::SetAmount { id, amount } if !self.random.one_in(4) => {
                outcome(self.sql.execute("UPDATE model_item SET amount = $2 WHERE id = $1", &[id, amount]).await)
            }
            Change::Delete { id } if !self.random.one_in(4) => {
                outcome(self.sql.execute("DELETE FROM model_item WHERE id = $1", &[id]).await)
            }
            Change::SetPair { region, number, note } if !self.random.one_in(4) => {
                let sql = "INSERT INTO model_pair VALUES ($1, $2, $3) \
                           ON CONFLICT (region, number) DO UPDATE SET note = excluded.note";
                outcome(self.sql.execute(sql, &[region, number, note]).await)
            }
            Change::SetKey { key, value } if !self.random.one_in(4) => {
                let sql = "INSERT INTO kv VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
                outcome(self.sql.execute(sql, &[&key.as_bytes(), &value.as_slice()]).await)
            }
            change => match self.sql.simple_query(&change.sql()).await {
                Ok(messages) => match messages.last() {
                    Some(SimpleQueryMessage::CommandComplete(count)) => Ok(Ok(*count)),
                    other => anyhow::bail!("no end of the command: {other:?}"),
                },
                Err(error) => outcome(Err(error)),
            },
        }
    }

    /// Opens a transaction, sets or goes back to a savepoint, commits or rolls back.
    async fn move_block(&mut self) -> Result<()> {
        let Some(mut block) = self.block.take() else {
            let isolation = if self.random.one_in(3) { "ISOLATION LEVEL REPEATABLE READ" } else { "" };
            self.sql.batch_execute(&format!("BEGIN {isolation}")).await?;
            self.block = Some(Block { twin: self.committed.clone(), savepoints: Vec::new(), failed: false });
            return Ok(());
        };
        match self.random.below(6) {
            0 | 1 if !block.failed => {
                self.sql.batch_execute(&format!("SAVEPOINT s{}", block.savepoints.len())).await?;
                block.savepoints.push(block.twin.clone());
                self.block = Some(block);
            }
            2 | 3 if !block.savepoints.is_empty() => {
                let depth = self.random.below(block.savepoints.len() as u64) as usize;
                self.sql.batch_execute(&format!("ROLLBACK TO SAVEPOINT s{depth}")).await?;
                block.twin = block.savepoints[depth].clone();
                block.savepoints.truncate(depth + 1);
                block.failed = false;
                self.block = Some(block);
            }
            4 => self.sql.batch_execute("ROLLBACK").await?,
            _ => {
                // COMMIT of a failed block is a ROLLBACK.
                self.sql.batch_execute("COMMIT").await?;
                if !block.failed {
                    self.committed = block.twin;
                }
            }
        }
        Ok(())
    }

    fn change_by_resp(&mut self) -> Result<()> {
        let random = &mut self.random;
        let twin = &mut self.committed;
        let id = twin::some_id(random);
        let name = format!("model_item:{{{id}}}");
        let row = twin.items.get(&id).cloned();
        match random.below(8) {
            0 | 1 => {
                let amount = twin::some_amount(random);
                let mut fields = vec![("amount", amount.to_string())];
                let mut new = row.clone().unwrap_or_default();
                let mut added = i64::from(row.is_none());
                new.amount = amount;
                if random.one_in(2) {
                    let text = twin::some_text(random);
                    added += i64::from(new.name.replace(text.clone()).is_none());
                    fields.push(("name", text));
                }
                if random.one_in(2) {
                    let flag = random.one_in(2);
                    added += i64::from(new.flag.replace(flag).is_none());
                    fields.push(("flag", if flag { "t" } else { "f" }.to_owned()));
                }
                let mut command = vec!["HSET".to_owned(), name];
                command.extend(fields.into_iter().flat_map(|(field, value)| [field.to_owned(), value]));
                expect(&mut self.keys, &command, Reply::Integer(added))?;
                twin.items.insert(id, new);
            }
            // A value that is none of its type, and a row without what must not be null: nothing changes.
            2 => {
                let reply = self.keys.command(&["HSET", &name, "name", "half done", "amount", "many"])?;
                ensure!(matches!(reply, Reply::Error(_)), "{reply:?}");
                if row.is_none() {
                    let reply = self.keys.command(&["HSET", &name, "name", "without amount"])?;
                    ensure!(matches!(reply, Reply::Error(_)), "{reply:?}");
                }
            }
            3 => {
                let removed =
                    row.as_ref().map_or(0, |row| i64::from(row.name.is_some()) + i64::from(row.flag.is_some()));
                expect(&mut self.keys, &["HDEL", &name, "name", "flag"], Reply::Integer(removed))?;
                if let Some(row) = twin.items.get_mut(&id) {
                    (row.name, row.flag) = (None, None);
                }
            }
            4 if row.is_some() => {
                let row = twin.items.get_mut(&id).context("is some")?;
                row.amount += 7;
                expect(&mut self.keys, &["HINCRBY", &name, "amount", "7"], Reply::Integer(row.amount.into()))?;
            }
            5 => {
                let removed = i64::from(twin.items.remove(&id).is_some());
                expect(&mut self.keys, &["DEL", &name], Reply::Integer(removed))?;
            }
            6 => {
                let (key, value) = (twin::some_key(random), twin::some_text(random));
                let stored = twin.keys.entry(key.clone()).or_default();
                stored.extend_from_slice(value.as_bytes());
                let length = Reply::Integer(stored.len() as i64);
                expect(&mut self.keys, &["APPEND", &key, &value], length)?;
            }
            _ => {
                let key = twin::some_key(random);
                let old = twin.keys.remove(&key).map_or(Reply::Null, Reply::Bulk);
                expect(&mut self.keys, &["GETDEL", &key], old)?;
            }
        }
        Ok(())
    }

    async fn read_by_sql(&mut self) -> Result<()> {
        let id = twin::some_id(&mut self.random);
        let sql = "SELECT name, amount, flag FROM model_item WHERE id = $1";
        // The observer sees the committed row, whatever the block has done to it.
        let failed = self.block.as_ref().is_some_and(|block| block.failed);
        let sessions = [(&self.observer, &self.committed), (&self.sql, self.seen())];
        for (client, twin) in sessions.into_iter().take(if failed { 1 } else { 2 }) {
            let row = client.query_opt(sql, &[&id]).await?;
            let got = row.map(|row| (row.get(0), row.get(1), row.get(2)));
            let expected = twin.items.get(&id).map(|row| (row.name.clone(), row.amount, row.flag));
            ensure!(got == expected, "id {id}: expected {expected:?}, got {got:?}");
        }
        let key = twin::some_key(&mut self.random);
        let row = self.observer.query_opt("SELECT value FROM kv WHERE key = $1", &[&key.as_bytes()]).await?;
        let got: Option<Vec<u8>> = row.map(|row| row.get(0));
        ensure!(got.as_ref() == self.committed.keys.get(&key), "key {key}: {got:?}");
        Ok(())
    }

    fn read_by_resp(&mut self) -> Result<()> {
        let id = twin::some_id(&mut self.random);
        let name = format!("model_item:{{{id}}}");
        let row = self.committed.items.get(&id);
        let mut expected = Vec::new();
        if let Some(row) = row {
            for (field, value) in row.fields(id) {
                expected.extend([Reply::bulk(field), Reply::bulk(value)]);
            }
        }
        expect(&mut self.keys, &["HGETALL", &name], Reply::Array(expected))?;
        expect(&mut self.keys, &["EXISTS", &name], Reply::Integer(row.is_some().into()))?;
        let amount = row.map_or(Reply::Null, |row| Reply::bulk(row.amount.to_string()));
        expect(&mut self.keys, &["HGET", &name, "amount"], amount)?;
        let key = twin::some_key(&mut self.random);
        let value = self.committed.keys.get(&key).cloned();
        expect(&mut self.keys, &["GET", &key], value.map_or(Reply::Null, Reply::Bulk))
    }

    /// Aggregates, a range and a join, in the session that changes things and in the one that watches.
    async fn check_sums(&mut self) -> Result<()> {
        let low = i64::from(twin::some_amount(&mut self.random));
        let failed = self.block.as_ref().is_some_and(|block| block.failed);
        let sessions = [(&self.observer, &self.committed), (&self.sql, self.seen())];
        for (client, twin) in sessions.into_iter().take(if failed { 1 } else { 2 }) {
            let sums = "SELECT count(*), count(name), sum(amount), sum(price), min(id), max(id) FROM model_item";
            let (got, expected) = (table(client, sums).await?, vec![twin.sums()]);
            ensure!(got == expected, "expected {expected:?}, got {got:?}");
            let range = format!("SELECT id FROM model_item WHERE amount > {low} ORDER BY id");
            let rows = twin.items.iter().filter(|(_, row)| i64::from(row.amount) > low);
            let expected: Vec<_> = rows.map(|(id, _)| vec![Some(id.to_string())]).collect();
            let got = table(client, &range).await?;
            ensure!(got == expected, "{range}: {} rows expected, got {}", expected.len(), got.len());
            let join = "SELECT count(*), sum(p.note) FROM model_item i JOIN model_pair p ON i.id = p.number";
            let got = table(client, join).await?;
            ensure!(got == vec![twin.join()], "{join}: expected {:?}, got {got:?}", twin.join());
        }
        Ok(())
    }

    /// Every row of every table.
    async fn check_everything(&mut self) -> Result<()> {
        let failed = self.block.as_ref().is_some_and(|block| block.failed);
        let sessions = [(&self.observer, &self.committed), (&self.sql, self.seen())];
        for (client, twin) in sessions.into_iter().take(if failed { 1 } else { 2 }) {
            let got = table(client, "SELECT id, name, amount, price, flag FROM model_item ORDER BY id").await?;
            let expected: Vec<_> = twin.items.iter().map(|(id, row)| row.columns(*id)).collect();
            ensure!(got == expected, "items: expected {expected:?}\ngot {got:?}");
            let got = table(client, "SELECT region, number, note FROM model_pair ORDER BY region, number").await?;
            ensure!(got == twin.pair_rows(), "pairs: expected {:?}\ngot {got:?}", twin.pair_rows());
            let got = table(client, "SELECT key, value FROM kv ORDER BY key").await?;
            ensure!(got == twin.key_rows(), "keys: expected {:?}\ngot {got:?}", twin.key_rows());
        }
        Ok(())
    }
}

/// How many rows a statement changed, or its SQLSTATE. What is no error of the server fails the test.
fn outcome(result: Result<u64, tokio_postgres::Error>) -> Result<Outcome> {
    match result {
        Ok(count) => Ok(Ok(count)),
        Err(error) => match error.code() {
            Some(code) => Ok(Err(code.code().to_owned())),
            None => Err(error.into()),
        },
    }
}

/// The rows of a query as text.
async fn table(client: &Client, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
    let messages = client.simple_query(sql).await.with_context(|| sql.to_owned())?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()).collect())
}

fn expect<A: AsRef<[u8]> + std::fmt::Debug>(keys: &mut resp::Client, command: &[A], expected: Reply) -> Result<()> {
    let got = keys.command(command)?;
    ensure!(got == expected, "{command:?}: expected {expected:?}, got {got:?}");
    Ok(())
}

impl Row {
    /// The columns as SQL's text results have them.
    fn columns(&self, id: i64) -> Vec<Option<String>> {
        let flag = self.flag.map(|flag| if flag { "t" } else { "f" }.to_owned());
        vec![Some(id.to_string()), self.name.clone(), Some(self.amount.to_string()), self.price.map(twin::money), flag]
    }

    /// The columns that are not null, with their names, as HGETALL has them.
    fn fields(&self, id: i64) -> Vec<(&'static str, String)> {
        let names = ["id", "name", "amount", "price", "flag"];
        names.into_iter().zip(self.columns(id)).filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
