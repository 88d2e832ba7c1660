//! What terminals ask for: the kinds of transactions in their shares, and the input of each as clauses 2.4.1 to 2.8.1 have it.
//!
//! The home warehouse is chosen for each transaction, where the specification ties a terminal to one: a run has as many
//! connections as it likes, and all warehouses are used alike.

use super::data::{DISTRICTS, Scale};
use super::random::{self, between};
use crate::numbers::Numbers;

/// The names of the transactions, by [`Request::kind`]; the first is the one that tpmC counts.
pub(super) const KINDS: &[&str] = &["new-order", "payment", "order-status", "delivery", "stock-level"];

/// How many of a hundred are of each kind: the least that clause 5.2.3 allows of all but New-Order, which has the rest.
const SHARES: [u64; 5] = [45, 43, 4, 4, 4];

/// Who: by number, or by last name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Number(u64),
    /// The number of a last name.
    Name(u64),
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) supply: u64,
    pub(super) item: u64,
    pub(super) quantity: u64,
}

/// A transaction with its input. All of it stays as it is when the transaction is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    NewOrder {
        warehouse: u64,
        district: u64,
        customer: u64,
        /// By warehouse and item, so that no two orders lock the same stocks in different orders.
        lines: Vec<Line>,
        /// Whether one more line has an item that does not exist: then everything is done and rolled back.
        unused: bool,
    },
    Payment {
        warehouse: u64,
        district: u64,
        customer_warehouse: u64,
        customer_district: u64,
        who: Who,
        /// In hundredths.
        amount: i64,
    },
    OrderStatus {
        warehouse: u64,
        district: u64,
        who: Who,
    },
    Delivery {
        warehouse: u64,
        carrier: u64,
    },
    StockLevel {
        warehouse: u64,
        district: u64,
        threshold: u64,
    },
}

impl Request {
    /// The next one.
    pub(super) fn choose(scale: Scale, numbers: &mut Numbers) -> Self {
        let mut left = numbers.below(SHARES.iter().sum());
        let mut kind = 0;
        while left >= SHARES[kind] {
            left -= SHARES[kind];
            kind += 1;
        }
        Self::of(kind, scale, numbers)
    }

    /// One of this kind.
    pub(super) fn of(kind: usize, scale: Scale, numbers: &mut Numbers) -> Self {
        let warehouse = between(numbers, 1, scale.warehouses);
        let district = between(numbers, 1, DISTRICTS);
        match kind {
            0 => new_order(scale, numbers, warehouse, district),
            1 => payment(scale, numbers, warehouse, district),
            2 => Self::OrderStatus { warehouse, district, who: who(scale, numbers) },
            3 => Self::Delivery { warehouse, carrier: between(numbers, 1, 10) },
            _ => Self::StockLevel { warehouse, district, threshold: between(numbers, 10, 20) },
        }
    }

    /// Its place in [`KINDS`].
    pub(super) fn kind(&self) -> usize {
        match self {
            Self::NewOrder { .. } => 0,
            Self::Payment { .. } => 1,
            Self::OrderStatus { .. } => 2,
            Self::Delivery { .. } => 3,
            Self::StockLevel { .. } => 4,
        }
    }
}

fn new_order(scale: Scale, numbers: &mut Numbers, warehouse: u64, district: u64) -> Request {
    let customer = random::customer(numbers, scale.customers);
    let count = between(numbers, 5, 15);
    let unused = numbers.below(100) == 0;
    let mut lines: Vec<Line> = (0..count - u64::from(unused))
        .map(|_| {
            let item = random::item(numbers, scale.items);
            // One line in a hundred comes from elsewhere.
            let supply = if numbers.below(100) == 0 { other(scale, numbers, warehouse) } else { warehouse };
            Line { supply, item, quantity: between(numbers, 1, 10) }
        })
        .collect();
    lines.sort_unstable();
    Request::NewOrder { warehouse, district, customer, lines, unused }
}

fn payment(scale: Scale, numbers: &mut Numbers, warehouse: u64, district: u64) -> Request {
    // 15 of 100 pay at another warehouse than their own.
    let at_home = scale.warehouses == 1 || numbers.below(100) < 85;
    let (customer_warehouse, customer_district) = if at_home {
        (warehouse, district)
    } else {
        (other(scale, numbers, warehouse), between(numbers, 1, DISTRICTS))
    };
    let who = who(scale, numbers);
    let amount = between(numbers, 100, 500_000).cast_signed();
    Request::Payment { warehouse, district, customer_warehouse, customer_district, who, amount }
}

/// 60 of 100 are asked for by their last name.
fn who(scale: Scale, numbers: &mut Numbers) -> Who {
    if numbers.below(100) < 60 {
        Who::Name(random::name_asked(numbers, scale.names()))
    } else {
        Who::Number(random::customer(numbers, scale.customers))
    }
}

/// Another warehouse, where there is one.
fn other(scale: Scale, numbers: &mut Numbers, warehouse: u64) -> u64 {
    if scale.warehouses == 1 {
        return warehouse;
    }
    let place = between(numbers, 1, scale.warehouses - 1);
    if place < warehouse { place } else { place + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { warehouses: 3, items: 100_000, customers: 3000 };

    fn share(part: usize, whole: usize) -> f64 {
        part as f64 / whole as f64
    }

    #[track_caller]
    fn is_about(part: usize, whole: usize, expected: f64) {
        assert!((share(part, whole) / expected - 1.0).abs() < 0.12, "{} instead of {expected}", share(part, whole));
    }

    #[test]
    fn transactions_come_in_the_shares_of_the_specification() {
        let mut numbers = Numbers::new(3);
        let all: Vec<Request> = (0..100_000).map(|_| Request::choose(SCALE, &mut numbers)).collect();
        for (kind, expected) in [0.45, 0.43, 0.04, 0.04, 0.04].into_iter().enumerate() {
            is_about(all.iter().filter(|request| request.kind() == kind).count(), all.len(), expected);
        }
        let (mut lines, mut remote, mut orders, mut unused) = (0, 0, 0, 0);
        let (mut payments, mut elsewhere, mut by_name) = (0, 0, 0);
        for request in &all {
            match request {
                Request::NewOrder { warehouse, lines: of_it, unused: is_unused, district, customer } => {
                    orders += 1;
                    unused += usize::from(*is_unused);
                    assert!((5..=15).contains(&(of_it.len() + usize::from(*is_unused))));
                    assert!((1..=10).contains(district) && (1..=3000).contains(customer));
                    assert!(of_it.is_sorted());
                    for line in of_it {
                        assert!((1..=100_000).contains(&line.item) && (1..=10).contains(&line.quantity));
                        assert!((1..=3).contains(&line.supply));
                        lines += 1;
                        remote += usize::from(line.supply != *warehouse);
                    }
                }
                Request::Payment { warehouse, customer_warehouse, who, amount, .. } => {
                    payments += 1;
                    elsewhere += usize::from(warehouse != customer_warehouse);
                    by_name += usize::from(matches!(who, Who::Name(_)));
                    assert!((100..=500_000).contains(amount));
                }
                Request::Delivery { carrier, .. } => assert!((1..=10).contains(carrier)),
                Request::StockLevel { threshold, .. } => assert!((10..=20).contains(threshold)),
                Request::OrderStatus { .. } => {}
            }
        }
        is_about(lines, orders, 10.0);
        is_about(unused, orders, 0.01);
        is_about(remote, lines, 0.01);
        is_about(elsewhere, payments, 0.15);
        is_about(by_name, payments, 0.6);
    }

    #[test]
    fn one_warehouse_has_no_other() {
        let (mut numbers, scale) = (Numbers::new(3), Scale { warehouses: 1, ..SCALE });
        for _ in 0..1000 {
            match Request::choose(scale, &mut numbers) {
                Request::NewOrder { lines, .. } => assert!(lines.iter().all(|line| line.supply == 1)),
                Request::Payment { customer_warehouse, .. } => assert_eq!(customer_warehouse, 1),
                _ => {}
            }
        }
    }
}
