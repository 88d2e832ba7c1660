//! The consistency conditions of clause 3.3.2, and that what was confirmed is there.
//!
//! The sums and counts are made by the server's SQL, one table a query; what has to be compared between tables is compared here, so
//! that every target can be asked the same, and a sharded one part by part.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;

use anyhow::{Context, Result, bail};

use super::data::{DISTRICTS, Scale, money, scaled};
use super::schema::named;
use super::transactions::Done;
use crate::door::pg::PgClient;

type WarehouseKey = u64;
type DistrictKey = (u64, u64);
/// Of a customer or of an order.
type Key = (u64, u64, u64);

#[derive(Clone, Debug, Default)]
pub(super) struct District {
    ytd: i64,
    next_order: u64,
}

/// Of a district's rows in NEW-ORDER.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    count: u64,
    first: u64,
    last: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    customer: u64,
    lines: u64,
    is_delivered: bool,
}

/// Of an order's rows in ORDER-LINE.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    count: u64,
    delivered: u64,
    amount: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Customer {
    balance: i64,
    paid: i64,
    payments: u64,
    deliveries: u64,
}

/// Sums and counts of all tables. Money is in hundredths.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    warehouses: HashMap<WarehouseKey, i64>,
    districts: HashMap<DistrictKey, District>,
    /// Sums and counts of HISTORY by the district that was paid to.
    history: HashMap<DistrictKey, (i64, u64)>,
    /// Sums of HISTORY by customer.
    paid_by: HashMap<Key, i64>,
    customers: HashMap<Key, Customer>,
    orders: HashMap<Key, Order>,
    lines: HashMap<Key, Lines>,
    waiting: HashMap<DistrictKey, Waiting>,
    new_orders: HashSet<Key>,
    /// Of STOCK: the sums of S_ORDER_CNT and of S_YTD, and the smallest and largest S_QUANTITY.
    stock: Vec<(u64, u64)>,
    quantities: Vec<i64>,
    items: Vec<u64>,
}

/// Reads a row's columns one after the other.
struct Columns<'a>(std::slice::Iter<'a, String>);

impl Columns<'_> {
    fn number(&mut self) -> Result<u64> {
        let text = self.0.next().context("a column is missing")?;
        text.parse().with_context(|| format!("{text:?} is no number"))
    }

    fn money(&mut self) -> Result<i64> {
        let text = self.0.next().context("a column is missing")?;
        scaled(text, 2).with_context(|| format!("{text:?} is no amount"))
    }

    fn district(&mut self) -> Result<DistrictKey> {
        Ok((self.number()?, self.number()?))
    }

    fn key(&mut self) -> Result<Key> {
        Ok((self.number()?, self.number()?, self.number()?))
    }

    /// Whether there is another column that is not NULL.
    fn has_more(&self) -> bool {
        self.0.len() > 0
    }
}

impl Facts {
    /// Adds what a server has.
    pub(super) fn gather(&mut self, client: &mut PgClient) -> Result<()> {
        let mut each = |sql: &str, read: &mut dyn FnMut(&mut Columns<'_>) -> Result<()>| -> Result<()> {
            for row in client.query(&named(sql))? {
                read(&mut Columns(row.iter())).with_context(|| format!("{row:?} in {sql}"))?;
            }
            Ok(())
        };
        each("SELECT w_id, w_ytd FROM @warehouse", &mut |row| {
            self.warehouses.insert(row.number()?, row.money()?);
            Ok(())
        })?;
        each("SELECT d_w_id, d_id, d_ytd, d_next_o_id FROM @district", &mut |row| {
            self.districts.insert(row.district()?, District { ytd: row.money()?, next_order: row.number()? });
            Ok(())
        })?;
        each("SELECT h_w_id, h_d_id, sum(h_amount), count(*) FROM @history GROUP BY h_w_id, h_d_id", &mut |row| {
            let sum = self.history.entry(row.district()?).or_default();
            *sum = (sum.0 + row.money()?, sum.1 + row.number()?);
            Ok(())
        })?;
        // A customer's payments may be in the shards of several warehouses.
        each(
            "SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) FROM @history GROUP BY h_c_w_id, h_c_d_id, h_c_id",
            &mut |row| {
                let (key, sum) = (row.key()?, row.money()?);
                *self.paid_by.entry(key).or_default() += sum;
                Ok(())
            },
        )?;
        each(
            "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt FROM @customer",
            &mut |row| {
                let key = row.key()?;
                let (balance, paid) = (row.money()?, row.money()?);
                let (payments, deliveries) = (row.number()?, row.number()?);
                self.customers.insert(key, Customer { balance, paid, payments, deliveries });
                Ok(())
            },
        )?;
        each("SELECT o_w_id, o_d_id, o_id, o_c_id, o_ol_cnt, o_carrier_id FROM @orders", &mut |row| {
            let key = row.key()?;
            let (customer, lines, is_delivered) = (row.number()?, row.number()?, row.has_more());
            self.orders.insert(key, Order { customer, lines, is_delivered });
            Ok(())
        })?;
        each(
            "SELECT ol_w_id, ol_d_id, ol_o_id, count(*), count(ol_delivery_d), sum(ol_amount) FROM @order_line \
             GROUP BY ol_w_id, ol_d_id, ol_o_id",
            &mut |row| {
                let key = row.key()?;
                let (count, delivered, amount) = (row.number()?, row.number()?, row.money()?);
                self.lines.insert(key, Lines { count, delivered, amount });
                Ok(())
            },
        )?;
        each(
            "SELECT no_w_id, no_d_id, count(*), min(no_o_id), max(no_o_id) FROM @new_order GROUP BY no_w_id, no_d_id",
            &mut |row| {
                let key = row.district()?;
                self.waiting.insert(key, Waiting { count: row.number()?, first: row.number()?, last: row.number()? });
                Ok(())
            },
        )?;
        each("SELECT no_w_id, no_d_id, no_o_id FROM @new_order", &mut |row| {
            self.new_orders.insert(row.key()?);
            Ok(())
        })?;
        each("SELECT sum(s_order_cnt), sum(s_ytd), min(s_quantity), max(s_quantity) FROM @stock", &mut |row| {
            // Of a shard without any warehouse there are no sums.
            if row.has_more() {
                self.stock.push((row.number()?, row.number()?));
                self.quantities.extend([row.number()?.cast_signed(), row.number()?.cast_signed()]);
            }
            Ok(())
        })?;
        each("SELECT count(*) FROM @item", &mut |row| {
            self.items.push(row.number()?);
            Ok(())
        })
    }

    /// The first condition that does not hold, with what was found.
    pub(super) fn fault(&self, scale: Scale, done: Done) -> Option<String> {
        self.check(scale, done).err().map(|error| format!("{error:#}"))
    }

    fn check(&self, scale: Scale, done: Done) -> Result<()> {
        let districts = scale.warehouses * DISTRICTS;
        equal("the number of warehouses", scale.warehouses, self.warehouses.len() as u64)?;
        equal("the number of districts", districts, self.districts.len() as u64)?;
        equal("the number of customers", districts * scale.customers, self.customers.len() as u64)?;
        if let Some(items) = self.items.iter().find(|items| **items != scale.items) {
            equal("the number of items", scale.items, *items)?;
        }
        self.money_of_warehouses()?;
        self.orders_of_districts(scale)?;
        self.lines_of_orders()?;
        self.balances()?;
        self.what_was_confirmed(scale, done)
    }

    /// Conditions 1, 8 and 9.
    fn money_of_warehouses(&self) -> Result<()> {
        for (warehouse, ytd) in &self.warehouses {
            let of_it = |key: &DistrictKey| key.0 == *warehouse;
            let districts: i64 = self.districts.iter().filter(|(key, _)| of_it(key)).map(|(_, found)| found.ytd).sum();
            let history: i64 = self.history.iter().filter(|(key, _)| of_it(key)).map(|(_, found)| found.0).sum();
            equal_money(&format!("3.3.2.1: W_YTD of warehouse {warehouse} and its districts' D_YTD"), *ytd, districts)?;
            equal_money(&format!("3.3.2.8: W_YTD of warehouse {warehouse} and its H_AMOUNT"), *ytd, history)?;
        }
        for (key, district) in &self.districts {
            let history = self.history.get(key).map_or(0, |found| found.0);
            equal_money(&format!("3.3.2.9: D_YTD of district {key:?} and its H_AMOUNT"), district.ytd, history)?;
        }
        Ok(())
    }

    /// Conditions 2, 3, 4 and 11.
    fn orders_of_districts(&self, scale: Scale) -> Result<()> {
        #[derive(Default)]
        struct Sums {
            last: u64,
            count: u64,
            announced: u64,
            lines: u64,
            deliveries: u64,
        }
        let mut sums: HashMap<DistrictKey, Sums> = HashMap::new();
        for ((warehouse, district, id), order) in &self.orders {
            let of_it = sums.entry((*warehouse, *district)).or_default();
            of_it.last = of_it.last.max(*id);
            of_it.count += 1;
            of_it.announced += order.lines;
        }
        for ((warehouse, district, _), lines) in &self.lines {
            sums.entry((*warehouse, *district)).or_default().lines += lines.count;
        }
        for ((warehouse, district, _), customer) in &self.customers {
            sums.entry((*warehouse, *district)).or_default().deliveries += customer.deliveries;
        }
        for (key, district) in &self.districts {
            let of_it = sums.remove(key).unwrap_or_default();
            let last = district.next_order.wrapping_sub(1);
            equal(&format!("3.3.2.2: D_NEXT_O_ID - 1 of district {key:?} and its largest O_ID"), last, of_it.last)?;
            let waiting = self.waiting.get(key).cloned().unwrap_or_default();
            if waiting.count > 0 {
                equal(
                    &format!("3.3.2.2: D_NEXT_O_ID - 1 of district {key:?} and its largest NO_O_ID"),
                    last,
                    waiting.last,
                )?;
                let range = waiting.last + 1 - waiting.first;
                equal(
                    &format!("3.3.2.3: the range of NO_O_ID of district {key:?} and their number"),
                    range,
                    waiting.count,
                )?;
            }
            let (announced, lines) = (of_it.announced, of_it.lines);
            equal(&format!("3.3.2.4: the sum of O_OL_CNT of district {key:?} and its order lines"), announced, lines)?;
            // The condition is of the beginning; each delivery makes the difference one more.
            let expected = scale.first_undelivered() - 1 + of_it.deliveries;
            let found = of_it.count.wrapping_sub(waiting.count);
            equal(&format!("3.3.2.11: orders without a NEW-ORDER of district {key:?}"), expected, found)?;
        }
        Ok(())
    }

    /// Conditions 5, 6 and 7.
    fn lines_of_orders(&self) -> Result<()> {
        for (key, order) in &self.orders {
            if order.is_delivered == self.new_orders.contains(key) {
                bail!("3.3.2.5: order {key:?} has a carrier and a NEW-ORDER, or neither");
            }
            let lines = self.lines.get(key).cloned().unwrap_or_default();
            equal(&format!("3.3.2.6: O_OL_CNT of order {key:?} and its lines"), order.lines, lines.count)?;
            let delivered = if order.is_delivered { lines.count } else { 0 };
            let what = format!("3.3.2.7: delivered lines of order {key:?}");
            equal(&what, delivered, lines.delivered)?;
        }
        if let Some(key) = self.new_orders.iter().find(|key| !self.orders.contains_key(*key)) {
            bail!("3.3.2.5: NEW-ORDER has {key:?}, and ORDER has it not");
        }
        if let Some(key) = self.lines.keys().find(|key| !self.orders.contains_key(*key)) {
            bail!("3.3.2.6: ORDER-LINE has {key:?}, and ORDER has it not");
        }
        Ok(())
    }

    /// Conditions 10 and 12.
    fn balances(&self) -> Result<()> {
        let mut delivered: HashMap<Key, i64> = HashMap::new();
        for (key, order) in self.orders.iter().filter(|(_, order)| order.is_delivered) {
            let amount = self.lines.get(key).map_or(0, |lines| lines.amount);
            *delivered.entry((key.0, key.1, order.customer)).or_default() += amount;
        }
        for (key, customer) in &self.customers {
            let delivered = delivered.get(key).copied().unwrap_or(0);
            let paid = self.paid_by.get(key).copied().unwrap_or(0);
            let balance = customer.balance;
            equal_money(
                &format!("3.3.2.10: C_BALANCE of customer {key:?}, deliveries less payments"),
                balance,
                delivered - paid,
            )?;
            let sum = balance + customer.paid;
            equal_money(
                &format!("3.3.2.12: C_BALANCE + C_YTD_PAYMENT of customer {key:?}, deliveries"),
                sum,
                delivered,
            )?;
        }
        Ok(())
    }

    /// Every transaction that the server confirmed has left its traces, and no other has.
    fn what_was_confirmed(&self, scale: Scale, done: Done) -> Result<()> {
        let customers = scale.warehouses * DISTRICTS * scale.customers;
        let orders: u64 = self.districts.values().map(|found| found.next_order - 1).sum();
        equal("orders that were confirmed, by D_NEXT_O_ID", customers + done.orders, orders)?;
        equal("orders that were confirmed, by ORDER", customers + done.orders, self.orders.len() as u64)?;
        let payments: u64 = self.history.values().map(|found| found.1).sum();
        equal("payments that were confirmed, by HISTORY", customers + done.payments, payments)?;
        let payments: u64 = self.customers.values().map(|found| found.payments).sum();
        equal("payments that were confirmed, by C_PAYMENT_CNT", customers + done.payments, payments)?;
        let deliveries: u64 = self.customers.values().map(|found| found.deliveries).sum();
        equal("deliveries that were confirmed, by C_DELIVERY_CNT", done.deliveries, deliveries)?;
        let taken: u64 = self.stock.iter().map(|found| found.0).sum();
        equal("order lines that were confirmed, by S_ORDER_CNT", done.lines, taken)?;
        if let Some(quantity) = self.quantities.iter().find(|quantity| !(10..=100).contains(*quantity)) {
            bail!("S_QUANTITY is {quantity}, and no order makes it that");
        }
        Ok(())
    }
}

fn equal<T: PartialEq + Display>(what: &str, left: T, right: T) -> Result<()> {
    if left == right { Ok(()) } else { bail!("{what}: {left} and {right}") }
}

fn equal_money(what: &str, left: i64, right: i64) -> Result<()> {
    if left == right { Ok(()) } else { bail!("{what}: {} and {}", money(left), money(right)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::data::{Table, lines};

    const SCALE: Scale = Scale { warehouses: 2, items: 50, customers: 30 };

    /// What a server would say of the data as it is loaded.
    fn loaded() -> Facts {
        let mut facts = Facts::default();
        let rows = |table: Table, read: &mut dyn FnMut(&[&str])| {
            lines(SCALE, table, &mut |_, line| {
                read(&line.trim_end().split('\t').collect::<Vec<&str>>());
                true
            });
        };
        let number = |text: &str| text.parse::<u64>().unwrap();
        let district = |row: &[&str]| (number(row[0]), number(row[1]));
        let key = |row: &[&str]| (number(row[0]), number(row[1]), number(row[2]));
        rows(Table::Warehouse, &mut |row| {
            facts.warehouses.insert(number(row[0]), scaled(row[8], 2).unwrap());
        });
        rows(Table::District, &mut |row| {
            let (ytd, next_order) = (scaled(row[9], 2).unwrap(), number(row[10]));
            facts.districts.insert(district(row), District { ytd, next_order });
        });
        rows(Table::History, &mut |row| {
            let amount = scaled(row[6], 2).unwrap();
            let sum = facts.history.entry((number(row[4]), number(row[3]))).or_default();
            *sum = (sum.0 + amount, sum.1 + 1);
            *facts.paid_by.entry((number(row[2]), number(row[1]), number(row[0]))).or_default() += amount;
        });
        rows(Table::Customer, &mut |row| {
            let (balance, paid) = (scaled(row[16], 2).unwrap(), scaled(row[17], 2).unwrap());
            let (payments, deliveries) = (number(row[18]), number(row[19]));
            facts.customers.insert(key(row), Customer { balance, paid, payments, deliveries });
        });
        rows(Table::Orders, &mut |row| {
            let order = Order { customer: number(row[3]), lines: number(row[6]), is_delivered: row[5] != "\\N" };
            facts.orders.insert(key(row), order);
        });
        rows(Table::OrderLine, &mut |row| {
            let lines = facts.lines.entry(key(row)).or_default();
            lines.count += 1;
            lines.delivered += u64::from(row[6] != "\\N");
            lines.amount += scaled(row[8], 2).unwrap();
        });
        rows(Table::NewOrder, &mut |row| {
            let id = number(row[2]);
            let waiting = facts.waiting.entry(district(row)).or_insert(Waiting { count: 0, first: id, last: id });
            waiting.count += 1;
            waiting.last = id;
            facts.new_orders.insert(key(row));
        });
        facts.stock = vec![(0, 0)];
        rows(Table::Stock, &mut |row| facts.quantities.push(number(row[2]).cast_signed()));
        facts.items = vec![SCALE.items];
        facts
    }

    #[test]
    fn the_data_is_consistent_as_it_is_loaded() {
        assert_eq!(loaded().fault(SCALE, Done::default()), None);
    }

    #[test]
    fn each_condition_is_broken_by_its_own_row() {
        let first_waiting = SCALE.first_undelivered();
        type Damage<'a> = &'a dyn Fn(&mut Facts);
        let checks: [(&str, Damage<'_>); 18] = [
            ("3.3.2.1:", &|facts| *facts.warehouses.get_mut(&2).unwrap() += 1),
            ("3.3.2.9:", &|facts| {
                facts.history.get_mut(&(1, 3)).unwrap().0 += 1;
                facts.history.get_mut(&(1, 4)).unwrap().0 -= 1;
            }),
            ("3.3.2.8:", &|facts| facts.history.get_mut(&(1, 3)).unwrap().0 += 1),
            ("3.3.2.2: D_NEXT_O_ID - 1 of district (2, 5) and its largest O_ID", &|facts| {
                facts.districts.get_mut(&(2, 5)).unwrap().next_order += 1;
            }),
            ("3.3.2.2: D_NEXT_O_ID - 1 of district (2, 5) and its largest NO_O_ID", &|facts| {
                facts.waiting.get_mut(&(2, 5)).unwrap().last -= 1;
            }),
            ("3.3.2.3:", &|facts| facts.waiting.get_mut(&(1, 1)).unwrap().count -= 1),
            ("3.3.2.4:", &|facts| facts.lines.get_mut(&(1, 1, 1)).unwrap().count -= 1),
            ("3.3.2.11:", &|facts| facts.customers.get_mut(&(1, 1, 1)).unwrap().deliveries += 1),
            ("3.3.2.5:", &|facts| assert!(facts.new_orders.remove(&(1, 1, first_waiting)))),
            ("3.3.2.5:", &|facts| facts.orders.get_mut(&(1, 1, first_waiting)).unwrap().is_delivered = true),
            ("3.3.2.5: NEW-ORDER has", &|facts| assert!(facts.new_orders.insert((1, 1, 1_000_000)))),
            ("3.3.2.6:", &|facts| {
                facts.orders.get_mut(&(1, 1, 1)).unwrap().lines += 1;
                facts.orders.get_mut(&(1, 1, 2)).unwrap().lines -= 1;
            }),
            ("3.3.2.7:", &|facts| facts.lines.get_mut(&(1, 1, 1)).unwrap().delivered -= 1),
            ("3.3.2.10:", &|facts| *facts.paid_by.get_mut(&(2, 2, 2)).unwrap() += 1),
            ("3.3.2.12:", &|facts| facts.customers.get_mut(&(2, 2, 2)).unwrap().paid += 1),
            ("orders that were confirmed", &|facts| {
                // An order that nobody has been told of, and whose every trace is there.
                facts.districts.get_mut(&(1, 1)).unwrap().next_order += 1;
                facts.orders.insert((1, 1, 31), Order { customer: 1, lines: 5, is_delivered: false });
                facts.lines.insert((1, 1, 31), Lines { count: 5, delivered: 0, amount: 500 });
                let waiting = facts.waiting.get_mut(&(1, 1)).unwrap();
                (waiting.count, waiting.last) = (waiting.count + 1, 31);
                facts.new_orders.insert((1, 1, 31));
            }),
            ("order lines that were confirmed", &|facts| facts.stock[0].0 += 1),
            ("S_QUANTITY is 9", &|facts| facts.quantities[3] = 9),
        ];
        for (expected, tamper) in checks {
            let mut facts = loaded();
            tamper(&mut facts);
            let fault = facts.fault(SCALE, Done::default()).unwrap_or_default();
            assert!(fault.starts_with(expected), "{expected}: {fault:?}");
        }
    }

    #[test]
    fn what_was_confirmed_and_is_not_there_is_found() {
        for (done, expected) in [
            (Done { orders: 1, ..Done::default() }, "orders that were confirmed, by D_NEXT_O_ID"),
            (Done { payments: 1, ..Done::default() }, "payments that were confirmed, by HISTORY"),
            (Done { deliveries: 1, ..Done::default() }, "deliveries that were confirmed"),
            (Done { lines: 1, ..Done::default() }, "order lines that were confirmed"),
        ] {
            let fault = loaded().fault(SCALE, done).unwrap();
            assert!(fault.starts_with(expected), "{fault}");
        }
    }
}
