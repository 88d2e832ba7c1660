//! A terminal: one connection that does one transaction after the other.

use std::sync::Arc;

use anyhow::Result;

use super::Tally;
use super::requests::{KINDS, Request};
use super::statements as sql;
use super::transactions::{Done, Known, OrderKey, Stop, Transaction};
use crate::door::pg::PgClient;
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;
use crate::record::moment;
use crate::workload::transaction::transact;

pub(super) struct Terminal {
    client: PgClient,
    known: Arc<Known>,
    tally: Arc<Tally>,
    is_bytewise: bool,
    numbers: Numbers,
    request: Option<Request>,
    /// The time of the transaction, as SQL has it.
    at: String,
    outcome: Option<Result<Done, String>>,
    retries: u64,
    /// The order that was made last.
    written: Option<OrderKey>,
}

impl Terminal {
    pub(super) fn new(
        client: PgClient,
        known: Arc<Known>,
        tally: Arc<Tally>,
        is_bytewise: bool,
        numbers: Numbers,
    ) -> Self {
        let (request, at, outcome, written) = (None, String::new(), None, None);
        Self { client, known, tally, is_bytewise, numbers, request, at, outcome, retries: 0, written }
    }
}

impl Terminal {
    /// Makes a transaction of this kind ready.
    #[cfg(test)]
    pub(super) fn make_of(&mut self, kind: usize) {
        self.make();
        self.request = Some(Request::of(kind, self.known.scale, &mut self.numbers));
    }
}

impl Caller for Terminal {
    fn make(&mut self) {
        self.request = Some(Request::choose(self.known.scale, &mut self.numbers));
        self.at = moment::utc(ashlar_base::clock::wall_micros()).replace('T', " ").replace('Z', "");
    }

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        let Self { client, known, is_bytewise, request: Some(request), at, .. } = self else { return Ok(()) };
        let transacted =
            transact(client, &mut |client| match (Transaction { client, known, is_bytewise: *is_bytewise, at })
                .run(request)
            {
                Ok(done) => Ok(Ok(done)),
                Err(Stop::Server(error) | Stop::Wrong(error)) => Ok(Err(error)),
                Err(Stop::Lost(error)) => Err(error),
            })?;
        came();
        self.retries = transacted.retries;
        self.outcome = Some(transacted.outcome);
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        match self.outcome.take() {
            Some(Ok(done)) => {
                self.tally.add(done);
                self.written = done.order.or(self.written);
                judged(Answer::Right);
            }
            Some(Err(error)) => {
                let kind = self.request.as_ref().map_or("", |request| KINDS[request.kind()]);
                judged(Answer::Wrong(format!("{kind}: {error}")));
            }
            None => {}
        }
    }

    fn read_back(&mut self) -> Result<Option<String>> {
        let Some(OrderKey { warehouse, district, id, customer, lines }) = self.written else { return Ok(None) };
        let orders = self.client.query(&super::schema::named(&format!(
            "SELECT o_c_id, o_ol_cnt FROM @orders WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_id = {id}"
        )))?;
        self.client.add(sql::LINES_OF_ORDER.name, &[&warehouse, &district, &id]);
        let mut found = 0u64;
        if let Err(error) = self.client.run_all(&mut |_| found += 1)? {
            return Ok(Some(error));
        }
        let is_there = orders == [[customer.to_string(), lines.to_string()]] && found == lines;
        Ok((!is_there).then(|| {
            format!(
                "order {id} of district {district} of warehouse {warehouse}, which was committed with {lines} lines by customer {customer}: {orders:?}, {found} lines"
            )
        }))
    }

    fn retries(&self) -> u64 {
        self.retries
    }

    fn kinds(&self) -> &'static [&'static str] {
        KINDS
    }

    fn kind(&self) -> usize {
        self.request.as_ref().map_or(0, Request::kind)
    }
}
