//! The five transactions: their statements in turn, one round trip each, as most drivers send them; the lines of an order are one
//! round trip, as a driver's batch is.
//!
//! Rows that many want (district, warehouse) are changed last, so that they are held for a few round trips only: clause 2.3 leaves
//! the order of statements to the implementation. Each answer is compared with what is known of it before the next statement is
//! sent, for most of them are needed for it.

use std::fmt::Display;

use super::data::{self, DISTRICTS, Scale, money, scaled};
use super::random::last_name;
use super::requests::{Line, Request, Who};
use super::statements::{self as sql, Statement};
use crate::door::pg::{PgClient, Row};

/// So many deliveries may each take an order from the same one before that is no matter of chance.
const DELIVERIES_MAX: u32 = 1000;

/// Why a transaction came to no good end.
#[derive(Debug)]
pub(super) enum Stop {
    /// The server's error, as `SQLSTATE: message`.
    Server(String),
    /// An answer is not what it must be.
    Wrong(String),
    /// The connection is gone.
    Lost(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Lost(error)
    }
}

type Step<T> = Result<T, Stop>;

/// What all connections know.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) scale: Scale,
    /// How many customers have each last name, by district: those of warehouse 1, then of 2, and so on.
    pub(super) names: Vec<Vec<u16>>,
}

/// What a transaction that was committed has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) orders: u64,
    pub(super) lines: u64,
    pub(super) payments: u64,
    /// Orders that were delivered.
    pub(super) deliveries: u64,
    /// The order that was made.
    pub(super) order: Option<OrderKey>,
}

/// An order and how many lines it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderKey {
    pub(super) warehouse: u64,
    pub(super) district: u64,
    pub(super) id: u64,
    pub(super) customer: u64,
    pub(super) lines: u64,
}

/// One transaction under way.
pub(super) struct Transaction<'a> {
    pub(super) client: &'a mut PgClient,
    pub(super) known: &'a Known,
    /// Whether the server sorts texts by their bytes.
    pub(super) is_bytewise: bool,
    /// The time of the transaction.
    pub(super) at: &'a str,
}

impl Transaction<'_> {
    /// All of it, from BEGIN to COMMIT or ROLLBACK.
    pub(super) fn run(&mut self, request: &Request) -> Step<Done> {
        self.change(&sql::BEGIN, &[], "BEGIN")?;
        let (done, end) = match request {
            Request::NewOrder { warehouse, district, customer, lines, unused } => {
                let id = self.new_order((*warehouse, *district), *customer, lines, *unused)?;
                if *unused {
                    (Done::default(), (&sql::ROLLBACK, "ROLLBACK"))
                } else {
                    let lines = lines.len() as u64;
                    let (warehouse, district, customer) = (*warehouse, *district, *customer);
                    let order = Some(OrderKey { warehouse, district, id, customer, lines });
                    (Done { orders: 1, lines, order, ..Done::default() }, (&sql::COMMIT, "COMMIT"))
                }
            }
            Request::Payment { warehouse, district, customer_warehouse, customer_district, who, amount } => {
                self.payment((*warehouse, *district), (*customer_warehouse, *customer_district), who, *amount)?;
                (Done { payments: 1, ..Done::default() }, (&sql::COMMIT, "COMMIT"))
            }
            Request::OrderStatus { warehouse, district, who } => {
                self.order_status((*warehouse, *district), who)?;
                (Done::default(), (&sql::COMMIT, "COMMIT"))
            }
            Request::Delivery { warehouse, carrier } => {
                let mut deliveries = 0;
                for district in 1..=DISTRICTS {
                    deliveries += u64::from(self.deliver(*warehouse, district, *carrier)?);
                }
                (Done { deliveries, ..Done::default() }, (&sql::COMMIT, "COMMIT"))
            }
            Request::StockLevel { warehouse, district, threshold } => {
                self.stock_level((*warehouse, *district), *threshold)?;
                (Done::default(), (&sql::COMMIT, "COMMIT"))
            }
        };
        self.change(end.0, &[], end.1)?;
        Ok(done)
    }

    /// Clause 2.4.2; the number of the order.
    fn new_order(&mut self, (w, d): (u64, u64), c: u64, lines: &[Line], unused: bool) -> Step<u64> {
        let customer = data::customer(w, d, c);
        self.one(&sql::CUSTOMER_OF_ORDER, &[&w, &d, &c], "SELECT 1", &mut |row| {
            let is_its_own = ten_thousandths(row)? == customer.discount && text(row)? == customer.last;
            (is_its_own && text(row)? == customer.credit).then_some(())
        })?;
        let tax = data::warehouse(w).tax;
        self.one(&sql::WAREHOUSE_TAX, &[&w], "SELECT 1", &mut |row| (ten_thousandths(row)? == tax).then_some(()))?;
        let mut amounts = Vec::with_capacity(lines.len());
        for line in lines {
            amounts.push(self.take(d, line, u64::from(line.supply != w))?);
        }
        if unused {
            let found = self.ask(&sql::ITEM, &[&(self.known.scale.items + 1)], &mut |_| {})?;
            self.is("SELECT 0", &found, &sql::ITEM)?;
        }
        let tax = data::district(w, d).tax;
        let least = self.known.scale.customers + 2;
        let next = self.one(&sql::NEXT_ORDER, &[&w, &d], "UPDATE 1", &mut |row| {
            let next = row.next_integer().and_then(|next| u64::try_from(next).ok()).filter(|next| *next >= least)?;
            (ten_thousandths(row)? == tax).then_some(next)
        })?;
        let (id, count) = (next - 1, lines.len() as u64 + u64::from(unused));
        let (at, all_local) = (self.at, u64::from(lines.iter().all(|line| line.supply == w)));
        self.change(&sql::INSERT_ORDER, &[&w, &d, &id, &c, &at, &count, &all_local], "INSERT 0 1")?;
        self.change(&sql::INSERT_NEW_ORDER, &[&w, &d, &id], "INSERT 0 1")?;
        for (place, (line, (amount, info))) in lines.iter().zip(&amounts).enumerate() {
            let (number, amount) = (place + 1, money(*amount));
            self.client.add(
                sql::INSERT_LINE.name,
                &[&w, &d, &id, &number, &line.item, &line.supply, &line.quantity, &amount, info],
            );
        }
        let tags = self.client.run_all(&mut |_| {})?.map_err(|error| refused(&error, &sql::INSERT_LINE))?;
        if tags.len() != lines.len() || tags.iter().any(|tag| tag != "INSERT 0 1") {
            return Err(Stop::Wrong(format!("{} lines of an order were answered by {tags:?}", lines.len())));
        }
        Ok(id)
    }

    /// An item, and its stock: what the line costs, in hundredths, and OL_DIST_INFO.
    fn take(&mut self, district: u64, line: &Line, remote: u64) -> Step<(i64, String)> {
        let item = data::item(line.item);
        self.one(&sql::ITEM, &[&line.item], "SELECT 1", &mut |row| {
            let is_its_own = hundredths(row)? == item.price && text(row)? == item.name;
            (is_its_own && text(row)? == item.data).then_some(())
        })?;
        let statement = sql::STOCKS[district as usize - 1];
        let info = data::stock_district(line.supply, line.item, district);
        let stock_data = data::stock_data(line.supply, line.item);
        // Of what is left at least 10, or else 91 more than was there.
        let (least, quantity, other) = (line.quantity + 10, line.quantity, 91 - line.quantity);
        let params: [&dyn Display; 7] = [&least, &quantity, &other, &quantity, &remote, &line.supply, &line.item];
        self.one(statement, &params, "UPDATE 1", &mut |row| {
            let quantity = row.next_integer().filter(|quantity| (10..=100).contains(quantity));
            (quantity.is_some() && text(row)? == stock_data && text(row)? == info).then_some(())
        })?;
        Ok((item.price * line.quantity.cast_signed(), info))
    }

    /// Clause 2.5.2.
    fn payment(&mut self, (w, d): (u64, u64), (cw, cd): (u64, u64), who: &Who, amount: i64) -> Step<()> {
        let c = self.find((cw, cd), who)?;
        let customer = data::customer(cw, cd, c);
        let paid = money(amount);
        let note = format!("{c} {cd} {cw} {d} {w} {paid} | ");
        self.one(&sql::PAY_CUSTOMER, &[&paid, &paid, &note, &cw, &cd, &c], "UPDATE 1", &mut |row| {
            let is_its_own = text(row)? == customer.first && text(row)? == "OE" && text(row)? == customer.last;
            // The address, the telephone and the date.
            for _ in 0..7 {
                row.next()?;
            }
            let is_its_own = is_its_own && text(row)? == customer.credit && hundredths(row)? == 5_000_000;
            let is_its_own = is_its_own && ten_thousandths(row)? == customer.discount;
            hundredths(row)?;
            let data = text(row)?;
            let is_noted = data.starts_with(&note) || (customer.credit == "GC" && data.len() == 200);
            (is_its_own && is_noted).then_some(())
        })?;
        let (district, warehouse) = (data::district(w, d), data::warehouse(w));
        self.one(&sql::PAY_DISTRICT, &[&paid, &w, &d], "UPDATE 1", &mut |row| {
            (text(row)? == district.name).then_some(())
        })?;
        self.one(&sql::PAY_WAREHOUSE, &[&paid, &w], "UPDATE 1", &mut |row| {
            (text(row)? == warehouse.name).then_some(())
        })?;
        let (at, what) = (self.at, format!("{}    {}", warehouse.name, district.name));
        self.change(&sql::INSERT_HISTORY, &[&c, &cd, &cw, &d, &w, &at, &paid, &what], "INSERT 0 1")
    }

    /// The number of a customer; of several with a name, in the order of their first names, the one in the middle.
    fn find(&mut self, (w, d): (u64, u64), who: &Who) -> Step<u64> {
        let number = match who {
            Who::Number(number) => return Ok(*number),
            Who::Name(number) => *number,
        };
        let name = last_name(number);
        let (mut found, mut is_wrong, customers) = (Vec::new(), false, self.known.scale.customers);
        let params: [&dyn Display; 3] = [&w, &d, &name];
        let tag = self.ask(&sql::CUSTOMERS_BY_NAME, &params, &mut |mut row| {
            let id = row.next_integer().map_or(0, i64::cast_unsigned);
            if !(1..=customers).contains(&id) {
                is_wrong = true;
                return;
            }
            let customer = data::customer(w, d, id);
            is_wrong |= customer.last != name || text(&mut row) != Some(&customer.first);
            found.push((customer.first, id));
        })?;
        self.is(&format!("SELECT {}", found.len()), &tag, &sql::CUSTOMERS_BY_NAME)?;
        let expected = self.known.names[((w - 1) * DISTRICTS + d - 1) as usize][number as usize];
        let is_sorted = !self.is_bytewise || found.is_sorted_by(|one, next| one.0 <= next.0);
        if is_wrong || !is_sorted || found.len() != usize::from(expected) {
            let names: Vec<u64> = found.iter().map(|(_, id)| *id).collect();
            return Err(Stop::Wrong(format!(
                "{expected} customers of district {d} of warehouse {w} are called {name}, and the answer was {names:?}, sorted: {is_sorted}"
            )));
        }
        Ok(found[found.len().div_ceil(2) - 1].1)
    }

    /// Clause 2.6.2.
    fn order_status(&mut self, (w, d): (u64, u64), who: &Who) -> Step<()> {
        let c = self.find((w, d), who)?;
        let customer = data::customer(w, d, c);
        self.one(&sql::CUSTOMER_STATUS, &[&w, &d, &c], "SELECT 1", &mut |row| {
            hundredths(row)?;
            (text(row)? == customer.first && text(row)? == "OE" && text(row)? == customer.last).then_some(())
        })?;
        let (id, lines) = self.one(&sql::LAST_ORDER, &[&w, &d, &c], "SELECT 1", &mut |row| {
            let (id, lines) = (row.next_integer()?, row.next_integer()?);
            (id >= 1 && (5..=15).contains(&lines) && text(row)?.len() >= 19).then_some((id, lines))
        })?;
        let mut are_lines = true;
        let tag = self.ask(&sql::LINES_OF_ORDER, &[&w, &d, &id], &mut |mut row| are_lines &= is_line(&mut row))?;
        self.is(&format!("SELECT {lines}"), &tag, &sql::LINES_OF_ORDER)?;
        if are_lines { Ok(()) } else { Err(strange(&sql::LINES_OF_ORDER, &[&w, &d, &id])) }
    }

    /// Clause 2.7.4 for one district; false if it has no order that is not delivered.
    fn deliver(&mut self, w: u64, d: u64, carrier: u64) -> Step<bool> {
        let mut attempts = 0;
        let id = loop {
            attempts += 1;
            let mut id = None;
            let tag = self.ask(&sql::OLDEST_NEW_ORDER, &[&w, &d], &mut |mut row| id = row.next_integer())?;
            let Some(id) = id else {
                self.is("SELECT 0", &tag, &sql::OLDEST_NEW_ORDER)?;
                return Ok(false);
            };
            // Under READ COMMITTED another delivery may have taken it meanwhile.
            match &*self.ask(&sql::DELETE_NEW_ORDER, &[&w, &d, &id], &mut |_| {})? {
                "DELETE 1" => break id,
                "DELETE 0" if attempts < DELIVERIES_MAX => {}
                tag => return Err(Stop::Wrong(format!("order {id} of district {d} was taken by {tag}"))),
            }
        };
        let (customer, lines) = self.one(&sql::DELIVER_ORDER, &[&carrier, &w, &d, &id], "UPDATE 1", &mut |row| {
            let (customer, lines) = (row.next_integer()?, row.next_integer()?);
            (customer >= 1 && (5..=15).contains(&lines)).then_some((customer, lines))
        })?;
        let at = self.at;
        self.change(&sql::DELIVER_LINES, &[&at, &w, &d, &id], &format!("UPDATE {lines}"))?;
        let sum = self.one(&sql::SUM_OF_LINES, &[&w, &d, &id], "SELECT 1", &mut |row| {
            let sum = hundredths(row)?;
            (sum > 0 && row.next_integer()? == lines).then_some(sum)
        })?;
        self.change(&sql::DELIVER_TO_CUSTOMER, &[&money(sum), &w, &d, &customer], "UPDATE 1")?;
        Ok(true)
    }

    /// Clause 2.8.2.
    fn stock_level(&mut self, (w, d): (u64, u64), threshold: u64) -> Step<()> {
        let next = self.one(&sql::NEXT_ORDER_OF_DISTRICT, &[&w, &d], "SELECT 1", &mut |row| row.next_integer())?;
        let params: [&dyn Display; 5] = [&w, &d, &(next - 20), &next, &threshold];
        self.one(&sql::LOW_STOCKS, &params, "SELECT 1", &mut |row| {
            // Twenty orders have 300 lines at most.
            row.next_integer().filter(|count| (0..=300).contains(count)).map(drop)
        })
    }

    /// Runs a statement: its tag.
    fn ask(&mut self, statement: &Statement, params: &[&dyn Display], on_row: &mut dyn FnMut(Row<'_>)) -> Step<String> {
        self.client.add(statement.name, params);
        let mut tags = self.client.run_all(on_row)?.map_err(|error| refused(&error, statement))?;
        match (tags.pop(), tags.is_empty()) {
            (Some(tag), true) => Ok(tag),
            (last, _) => Err(Stop::Wrong(format!("{} was answered by {tags:?} and {last:?}", statement.name))),
        }
    }

    /// Runs a statement that returns no row.
    fn change(&mut self, statement: &Statement, params: &[&dyn Display], expected: &str) -> Step<()> {
        let tag = self.ask(statement, params, &mut |_| {})?;
        self.is(expected, &tag, statement)
    }

    /// Runs a statement that returns one row, of which `read` makes something, unless it is not what it must be.
    fn one<T>(
        &mut self,
        statement: &Statement,
        params: &[&dyn Display],
        expected: &str,
        read: &mut dyn FnMut(&mut Row<'_>) -> Option<T>,
    ) -> Step<T> {
        let (mut value, mut rows) = (None, 0);
        let tag = self.ask(statement, params, &mut |mut row| {
            rows += 1;
            value = read(&mut row);
        })?;
        self.is(expected, &tag, statement)?;
        value.filter(|_| rows == 1).ok_or_else(|| strange(statement, params))
    }

    fn is(&self, expected: &str, tag: &str, statement: &Statement) -> Step<()> {
        if tag == expected {
            return Ok(());
        }
        Err(Stop::Wrong(format!("{} was answered by {tag} instead of {expected}", statement.name)))
    }
}

fn refused(error: &str, statement: &Statement) -> Stop {
    Stop::Server(format!("{error} ({})", statement.name))
}

fn strange(statement: &Statement, params: &[&dyn Display]) -> Stop {
    let params: Vec<String> = params.iter().map(ToString::to_string).collect();
    Stop::Wrong(format!("{} of {}: a row that is not its own, or not one", statement.name, params.join(", ")))
}

fn is_line(row: &mut Row<'_>) -> bool {
    let is_number = row.next_integer().is_some_and(|item| item >= 1);
    let is_number = is_number && row.next_integer().is_some_and(|supply| supply >= 1);
    let is_number = is_number && row.next_integer().is_some_and(|quantity| (1..=10).contains(&quantity));
    is_number && hundredths(row).is_some_and(|amount| amount >= 0)
}

fn text<'a>(row: &mut Row<'a>) -> Option<&'a str> {
    str::from_utf8(row.next()?).ok()
}

fn hundredths(row: &mut Row<'_>) -> Option<i64> {
    scaled(text(row)?, 2)
}

fn ten_thousandths(row: &mut Row<'_>) -> Option<i64> {
    scaled(text(row)?, 4)
}
