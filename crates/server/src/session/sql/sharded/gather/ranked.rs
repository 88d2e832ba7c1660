//! Sorted texts of which only the shards know the order: one of them is asked for the ranks of those that are compared next.
//!
//! ```text
//! a block of rows of each shard ──▶ the texts in them, each once ──▶ their ranks, as one shard says them ──▶ rows in order
//!         ▲                                                                                                    │
//!         └──────────────────────────── the next block of a shard whose rows are all gone ────────────────────┘
//! ```
//!
//! Groups that are put together all at once have their texts ranked together, when all of them are there: those that they are sorted by, and
//! those of which the least or the greatest is wanted.
//!
//! Called by `gather`. That shard sends its rows in portions, so that its connection is free between them: a second one to the same server,
//! beside the first, is what sessions that have all of them would wait for forever. Nothing is compared by ranks unless all shards have said
//! that the collation is the same on each of them, its version too, and that texts are equal to it only where their bytes are.

use std::collections::{BTreeSet, VecDeque};

use ashlar_base::{Error, Result};
use ashlar_shard::backend::{Ended, Progress, RowReader, Step};
use ashlar_shard::collation::{DATABASE_IDENTITY, ranks_of, tells_versions};
use ashlar_shard::merge::{Merger, Ranks, TextOrder};
use ashlar_shard::pool::Lease;

use super::{Asked, Merging, Several, broken, line_of};

/// The portal of the shard that sends its rows in portions.
pub(super) const PORTAL: &str = "ranked";

/// Rows of its first portion: few, where LIMIT asks for few.
pub(super) const FIRST_ROWS: usize = 64;

/// Rows of a shard that are held, at the most, and their bytes, about: each block costs a round trip.
const BLOCK_ROWS: usize = 4096;
const BLOCK_BYTES: usize = 256 << 10;

/// What is held of a row: itself, and its texts while they are sent and with their ranks.
const HELD_TIMES: usize = 4;

/// What lists and tables have for a text beside its bytes.
const TEXT_BYTES: usize = 32;

/// In which order the texts of columns are.
#[derive(Default)]
pub(super) struct TextOrders {
    pub(super) orders: Vec<(usize, TextOrder)>,
    /// What [`TextOrder::Ranks`] counts: names of collations on the shard of the last statement, as SQL writes them.
    pub(super) collations: Vec<String>,
}

/// What a shard says of the collation of a column.
struct Collation {
    is_bytes: bool,
    name: Option<String>,
    /// What is the same where texts are in the same order; `None`: that cannot be told.
    identity: Option<String>,
}

/// Asks all shards which collations these columns have, of as many as there are. Each statement has a connection of its own.
///
/// # Errors
/// What a shard says.
pub(super) async fn text_orders(
    several: &Several<'_>,
    columns: &[usize],
    count: usize,
    (servers, leases): (&[&str], &mut [Lease]),
) -> Result<TextOrders> {
    let statements = &several.forward.statements;
    let mut told = TextOrders::default();
    if statements.len() != leases.len() || !leases.iter().all(tells_versions) {
        told.orders = columns.iter().map(|column| (*column, TextOrder::Unknown)).collect();
        return Ok(told);
    }
    for sent in statements {
        let lease = &mut leases[line_of(servers, sent.server)];
        let (own, types) = several.own(sent);
        lease.queue_once(&question(&sent.text, columns, count), &types, ("", 0), own.iter().copied(), &[]);
        lease.flush().await?;
    }
    let mut found: Vec<Vec<Collation>> = Vec::with_capacity(statements.len());
    for sent in statements {
        let lease = &mut leases[line_of(servers, sent.server)];
        let answer = collations(lease).await.map_err(Error::nowhere)?;
        if answer.len() != columns.len() {
            return Err(broken());
        }
        found.push(answer);
    }
    let Some((last, others)) = found.split_last() else { return Ok(told) };
    for (at, (column, collation)) in columns.iter().zip(last).enumerate() {
        let is_alike = |other: &Vec<Collation>| other[at].identity == collation.identity;
        let order = match &collation.name {
            Some(_) if collation.is_bytes && others.iter().all(|other| other[at].is_bytes) => TextOrder::Bytes,
            Some(name) if collation.identity.is_some() && others.iter().all(is_alike) => {
                let known = told.collations.iter().position(|known| known == name);
                TextOrder::Ranks(known.unwrap_or_else(|| {
                    told.collations.push(name.clone());
                    told.collations.len() - 1
                }))
            }
            _ => TextOrder::Unknown,
        };
        told.orders.push((*column, order));
    }
    Ok(told)
}

/// Asks for the collations of columns of a query, of which no row is read: whether each is that of bytes, its name, and what tells it from
/// others, as [`DATABASE_IDENTITY`] does.
fn question(text: &str, columns: &[usize], count: usize) -> String {
    let names: Vec<String> = (1..=count).map(|number| format!("c{number}")).collect();
    let of = |column: &usize| format!("pg_catalog.pg_collation_for(s.c{})", column + 1);
    let asked: Vec<String> = columns.iter().map(of).collect();
    format!(
        "SELECT (CASE c.collprovider::text WHEN 'd' THEN {} ELSE {} END)::text, n.name, \
         CASE WHEN NOT c.collisdeterministic THEN NULL WHEN c.collprovider = 'd' THEN \
         {DATABASE_IDENTITY} \
         ELSE (pg_catalog.to_jsonb(c) - '{{oid,collname,collnamespace,collowner,collversion,collencoding}}'::text[])::text \
         || ' ' || pg_catalog.pg_collation_actual_version(c.oid) END \
         FROM (SELECT ARRAY[{}]::text[] AS names FROM (VALUES (1)) AS one(x) \
         LEFT JOIN (SELECT * FROM ({text}\n) AS q LIMIT 0) AS s({}) ON true) AS r, \
         pg_catalog.unnest(r.names) WITH ORDINALITY AS n(name, place) \
         LEFT JOIN pg_catalog.pg_collation c ON c.oid = pg_catalog.to_regcollation(n.name) \
         LEFT JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database() ORDER BY n.place",
        is_bytes("d.datlocprovider", "d.datcollate"),
        is_bytes("c.collprovider", "c.collcollate"),
        asked.join(", "),
        names.join(", "),
    )
}

/// The same question as at the login of a connection. The provider `b` compares code points.
fn is_bytes(provider: &str, name: &str) -> String {
    format!(
        "CASE {provider}::text WHEN 'b' THEN true WHEN 'c' THEN {name} IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') \
         ELSE false END"
    )
}

/// Reads the answer to [`question`].
async fn collations(lease: &mut Lease) -> Result<Vec<Collation>> {
    let (mut found, mut progress) = (Vec::new(), Progress::default());
    loop {
        match lease.next_step(&mut progress).await? {
            Step::Description(_) => {}
            Step::Row(range) => {
                found.push(collation(lease.row(&range))?);
                lease.consume_row(&range);
            }
            Step::End(_) => return Ok(found),
        }
    }
}

fn collation(row: &[u8]) -> Result<Collation> {
    let mut reader = RowReader::new(row).map_err(|_| broken())?;
    let mut text = || -> Result<Option<String>> {
        let bytes = reader.value().map_err(|_| broken())?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    };
    Ok(Collation { is_bytes: text()?.as_deref() == Some("true"), name: text()?, identity: text()? })
}

/// Rows of a shard that wait for those before them.
#[derive(Default)]
struct Block {
    rows: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Has texts ranked.
pub(super) struct Ranker {
    /// The statement whose connection is asked for ranks.
    pub(super) at: usize,
    /// By statement.
    blocks: Vec<Block>,
    /// Rows of the next portion of that shard.
    rows_max: usize,
    /// Whether that has more of them, and waits to be asked.
    pub(super) is_suspended: bool,
}

impl Ranker {
    /// For so many statements, the last of which is asked: the first tells the client what rows look like.
    pub(super) fn new(statements: usize) -> Self {
        let blocks = std::iter::repeat_with(Block::default).take(statements).collect();
        Self { at: statements.saturating_sub(1), blocks, rows_max: FIRST_ROWS, is_suspended: false }
    }

    /// Reads a block of a statement whose rows are all gone.
    async fn fill(
        &mut self,
        at: usize,
        lease: &mut Lease,
        progress: &mut Progress,
        merging: &mut Merging<'_>,
    ) -> Result<()> {
        let is_portion = at == self.at;
        if is_portion && self.is_suspended {
            self.is_suspended = false;
            lease.queue_more(PORTAL, i32::try_from(self.rows_max).unwrap_or(i32::MAX));
            lease.flush().await?;
        }
        let block = &mut self.blocks[at];
        loop {
            match lease.next_step(progress).await? {
                Step::Description(_) => {}
                Step::Row(range) => {
                    let row = lease.row(&range).to_vec();
                    lease.consume_row(&range);
                    block.bytes += row.len();
                    merging.charge(at, HELD_TIMES * block.bytes)?;
                    block.rows.push_back(row);
                    // A portion comes to its end, or its connection would not be free.
                    if !is_portion && (block.rows.len() >= BLOCK_ROWS || block.bytes >= BLOCK_BYTES) {
                        return Ok(());
                    }
                }
                Step::End(Ended::Suspended) => {
                    let average = block.bytes / block.rows.len().max(1);
                    self.rows_max = (BLOCK_BYTES / average.max(1)).clamp(1, BLOCK_ROWS);
                    self.is_suspended = true;
                    return Ok(());
                }
                Step::End(_) => {
                    merging.sources[at].is_ended = true;
                    return Ok(());
                }
            }
        }
    }

    /// The texts that are compared next, by so many collations.
    fn texts(&self, merger: &Merger, collations: usize) -> Result<Vec<BTreeSet<Vec<u8>>>> {
        let mut texts = vec![BTreeSet::new(); collations];
        merger.held_texts(&mut texts)?;
        for row in self.blocks.iter().flat_map(|block| &block.rows) {
            merger.texts(row, &mut texts)?;
        }
        Ok(texts)
    }
}

/// The ranks of texts by each of these collations.
async fn ranks_by(lease: &mut Lease, collations: &[String], texts: &[BTreeSet<Vec<u8>>]) -> Result<Vec<Ranks>> {
    let mut ranks = Vec::with_capacity(texts.len());
    for (collation, texts) in collations.iter().zip(texts) {
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let found = ranks_of(lease, Some(collation), &texts).await?;
        ranks.push(texts.into_iter().map(Box::from).zip(found).collect());
    }
    Ok(ranks)
}

impl Asked<'_> {
    /// Has the texts ranked that complete groups wait for: all at once, on a connection whose own rows are all there.
    pub(super) async fn rank_groups(
        &self,
        texts: Vec<BTreeSet<Vec<u8>>>,
        leases: &mut [Lease],
        merging: &mut Merging<'_>,
    ) -> Result<()> {
        let bytes: usize = texts.iter().flatten().map(|text| text.len() + TEXT_BYTES).sum();
        merging.held.grow(HELD_TIMES * bytes)?;
        let last = self.lines.last().copied().unwrap_or(0);
        let ranks = ranks_by(&mut leases[last], self.collations, &texts).await?;
        merging.merger.rank(ranks)
    }

    /// Gives the merger the next row of a statement, or says that there is none. `false`: it would take more than is done here.
    pub(super) async fn advance(
        &self,
        at: usize,
        ranker: &mut Ranker,
        leases: &mut [Lease],
        progress: &mut [Progress],
        merging: &mut Merging<'_>,
        is_begun: bool,
    ) -> Result<bool> {
        if ranker.blocks[at].rows.is_empty() && !merging.sources[at].is_ended {
            for other in 0..self.lines.len() {
                if ranker.blocks[other].rows.is_empty() && !merging.sources[other].is_ended {
                    let lease = &mut leases[self.lines[other]];
                    let filled = ranker.fill(other, lease, &mut progress[other], merging).await;
                    filled.map_err(|error| self.placed(error, other))?;
                }
            }
            let texts = ranker.texts(merging.merger, self.collations.len())?;
            let lease = &mut leases[self.lines[ranker.at]];
            let ranks = ranks_by(lease, self.collations, &texts).await.map_err(Error::nowhere)?;
            merging.merger.rank(ranks)?;
            tokio::task::yield_now().await;
        }
        let block = &mut ranker.blocks[at];
        match block.rows.pop_front() {
            Some(row) => {
                block.bytes -= row.len();
                merging.take(at, &row, is_begun)
            }
            None => {
                merging.merger.finish(at);
                Ok(true)
            }
        }
    }
}
