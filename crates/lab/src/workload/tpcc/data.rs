//! The data of TPC-C as clause 4.3.3.1 has it. Every column follows from the key and a constant seed: all targets get the same
//! rows, and what no transaction changes is known when it is read back.

use std::fmt::Write;

use super::random::{self, between};
use crate::numbers::Numbers;

/// Of the data, not of the choice of transactions: data is the same in every run.
const SEED: u64 = 0x7470_6363;

/// Districts of a warehouse.
pub(super) const DISTRICTS: u64 = 10;

/// When everything was ordered and everybody became a customer.
const LOADED_AT: &str = "2026-01-01 00:00:00";

/// How large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// Warehouses.
    pub(super) warehouses: u64,
    /// Items, and stocks of each warehouse: 100,000 in the specification.
    pub(super) items: u64,
    /// Customers of each district, and orders in the beginning: 3,000 in the specification.
    pub(super) customers: u64,
}

/// Its tables, in the order in which they are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Item,
    Warehouse,
    District,
    Customer,
    History,
    Orders,
    NewOrder,
    OrderLine,
    Stock,
}

/// All of them.
pub(super) const TABLES: [Table; 9] = [
    Table::Item,
    Table::Warehouse,
    Table::District,
    Table::Customer,
    Table::History,
    Table::Orders,
    Table::NewOrder,
    Table::OrderLine,
    Table::Stock,
];

/// What every transaction sees of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) image: u64,
    pub(super) name: String,
    /// In hundredths.
    pub(super) price: i64,
    pub(super) data: String,
}

/// What no transaction changes of a customer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Customer {
    pub(super) first: String,
    pub(super) last: String,
    /// GC, or BC of one in ten.
    pub(super) credit: &'static str,
    /// In ten-thousandths.
    pub(super) discount: i64,
}

/// A name and an address, of a warehouse or a district, and its tax.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) name: String,
    /// In ten-thousandths.
    pub(super) tax: i64,
}

/// An order as it is loaded.
struct Order {
    customer: u64,
    lines: u64,
    carrier: Option<u64>,
}

impl Scale {
    /// Orders that were not delivered in the beginning have this number at least: the last three tenths.
    pub(super) fn first_undelivered(self) -> u64 {
        self.customers * 7 / 10 + 1
    }

    /// What W_YTD is in the beginning, in hundredths: a payment of 10.00 by each customer.
    fn paid_to_a_warehouse(self) -> i64 {
        (DISTRICTS * self.customers * 1000).cast_signed()
    }

    /// Different last names that a district has.
    pub(super) fn names(self) -> u64 {
        self.customers.min(random::NAMES)
    }
}

fn numbers(table: Table, key: &[u64]) -> Numbers {
    let mut parts = vec![table as u64];
    parts.extend_from_slice(key);
    Numbers::of(SEED, &parts)
}

/// An item, from 1.
pub(super) fn item(id: u64) -> Item {
    let mut numbers = numbers(Table::Item, &[id]);
    Item {
        image: between(&mut numbers, 1, 10_000),
        name: random::text(&mut numbers, 14, 24),
        price: between(&mut numbers, 100, 10_000).cast_signed(),
        data: random::data(&mut numbers),
    }
}

/// A customer of a district.
pub(super) fn customer(warehouse: u64, district: u64, id: u64) -> Customer {
    customer_of(&mut numbers(Table::Customer, &[warehouse, district, id]), id)
}

fn customer_of(numbers: &mut Numbers, id: u64) -> Customer {
    Customer {
        last: random::last_name(name_number(numbers, id)),
        first: random::text(numbers, 8, 16),
        credit: if numbers.below(10) == 0 { "BC" } else { "GC" },
        discount: between(numbers, 0, 5_000).cast_signed(),
    }
}

/// The first thousand customers of a district have all names once.
fn name_number(numbers: &mut Numbers, id: u64) -> u64 {
    if id <= random::NAMES { id - 1 } else { random::name_loaded(numbers) }
}

/// How many customers of a district have each last name, by its number.
pub(super) fn name_counts(scale: Scale, warehouse: u64, district: u64) -> Vec<u16> {
    let mut counts = vec![0; scale.names() as usize];
    for id in 1..=scale.customers {
        let number = name_number(&mut numbers(Table::Customer, &[warehouse, district, id]), id);
        counts[number as usize] += 1;
    }
    counts
}

/// A warehouse's name and tax.
pub(super) fn warehouse(id: u64) -> Site {
    site(&mut numbers(Table::Warehouse, &[id]))
}

/// A district's.
pub(super) fn district(warehouse: u64, id: u64) -> Site {
    site(&mut numbers(Table::District, &[warehouse, id]))
}

fn site(numbers: &mut Numbers) -> Site {
    Site { name: random::text(numbers, 6, 10), tax: between(numbers, 0, 2_000).cast_signed() }
}

/// S_DIST_xx of a stock for a district, from 1.
pub(super) fn stock_district(warehouse: u64, item: u64, district: u64) -> String {
    random::text(&mut numbers(Table::Stock, &[warehouse, item, district]), 24, 24)
}

/// S_DATA of a stock.
pub(super) fn stock_data(warehouse: u64, item: u64) -> String {
    random::data(&mut numbers(Table::Stock, &[warehouse, item, DISTRICTS + 1]))
}

/// The customers of a district's orders, in the order of their numbers.
fn customers_of_orders(scale: Scale, warehouse: u64, district: u64) -> Vec<u64> {
    random::permutation(&mut numbers(Table::Orders, &[warehouse, district]), scale.customers)
}

fn order(scale: Scale, warehouse: u64, district: u64, id: u64, customer: u64) -> Order {
    let mut numbers = numbers(Table::Orders, &[warehouse, district, id]);
    let (lines, carrier) = (between(&mut numbers, 5, 15), between(&mut numbers, 1, 10));
    Order { customer, lines, carrier: (id < scale.first_undelivered()).then_some(carrier) }
}

/// Hundredths as SQL has them.
pub(super) fn money(hundredths: i64) -> String {
    let (sign, amount) = (if hundredths < 0 { "-" } else { "" }, hundredths.unsigned_abs());
    format!("{sign}{}.{:02}", amount / 100, amount % 100)
}

/// A number of SQL as so many decimal digits behind the point say it; None if it has more of them that are not 0, or is none.
pub(super) fn scaled(text: &str, digits: usize) -> Option<i64> {
    let (sign, unsigned) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let (kept, rest) = fraction.split_at_checked(digits).unwrap_or((fraction, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(kept) || rest.bytes().any(|byte| byte != b'0') {
        return None;
    }
    format!("{whole}{kept:0<digits$}").parse::<i64>().ok().map(|number| sign * number)
}

/// Called with each row of a table as a line of COPY's text form, and with the warehouse that it belongs to; None for items, which
/// belong to all. It says whether to go on.
pub(super) fn lines(scale: Scale, table: Table, line: &mut dyn FnMut(Option<u64>, &str) -> bool) {
    let mut text = String::new();
    if table == Table::Item {
        for id in 1..=scale.items {
            let item = item(id);
            text.clear();
            put(&mut text, format_args!("{id}\t{}\t{}\t{}\t{}", item.image, item.name, money(item.price), item.data));
            if !line(None, &text) {
                return;
            }
        }
        return;
    }
    for warehouse in 1..=scale.warehouses {
        if !lines_of_warehouse(scale, table, warehouse, &mut text, &mut |text| line(Some(warehouse), text)) {
            return;
        }
    }
}

/// Rows that a table has in the beginning; of order lines about so many.
pub(super) fn row_count(scale: Scale, table: Table) -> u64 {
    let districts = scale.warehouses * DISTRICTS;
    match table {
        Table::Item => scale.items,
        Table::Warehouse => scale.warehouses,
        Table::District => districts,
        Table::Customer | Table::History | Table::Orders => districts * scale.customers,
        Table::NewOrder => districts * (scale.customers + 1 - scale.first_undelivered()),
        Table::OrderLine => districts * scale.customers * 10,
        Table::Stock => scale.warehouses * scale.items,
    }
}

fn put(text: &mut String, row: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(row);
    text.push('\n');
}

/// False if it was told to stop.
fn lines_of_warehouse(
    scale: Scale,
    table: Table,
    warehouse: u64,
    text: &mut String,
    line: &mut dyn FnMut(&str) -> bool,
) -> bool {
    let mut one = |row: std::fmt::Arguments<'_>| {
        text.clear();
        put(text, row);
        line(text)
    };
    match table {
        Table::Item => true,
        Table::Warehouse => {
            let mut numbers = numbers(table, &[warehouse]);
            let (site, address) = (site(&mut numbers), address(&mut numbers));
            let paid = money(scale.paid_to_a_warehouse());
            one(format_args!("{warehouse}\t{}\t{address}\t0.{:04}\t{paid}", site.name, site.tax))
        }
        Table::Stock => (1..=scale.items).all(|item| {
            let quantity = between(&mut numbers(table, &[warehouse, item]), 10, 100);
            let districts: Vec<String> =
                (1..=DISTRICTS).map(|district| stock_district(warehouse, item, district)).collect();
            let (districts, data) = (districts.join("\t"), stock_data(warehouse, item));
            one(format_args!("{warehouse}\t{item}\t{quantity}\t{districts}\t0\t0\t0\t{data}"))
        }),
        _ => (1..=DISTRICTS).all(|district| lines_of_district(scale, table, (warehouse, district), &mut one)),
    }
}

fn lines_of_district(
    scale: Scale,
    table: Table,
    (warehouse, district): (u64, u64),
    one: &mut dyn FnMut(std::fmt::Arguments<'_>) -> bool,
) -> bool {
    if table == Table::District {
        let mut numbers = numbers(table, &[warehouse, district]);
        let (site, address) = (site(&mut numbers), address(&mut numbers));
        let (paid, next) = (money((scale.customers * 1000).cast_signed()), scale.customers + 1);
        return one(format_args!(
            "{warehouse}\t{district}\t{}\t{address}\t0.{:04}\t{paid}\t{next}",
            site.name, site.tax
        ));
    }
    // Of the tables of orders: who ordered each.
    let customers = match table {
        Table::Orders | Table::NewOrder | Table::OrderLine => customers_of_orders(scale, warehouse, district),
        _ => (1..=scale.customers).collect(),
    };
    customers.into_iter().zip(1u64..).all(|(customer, id)| match table {
        Table::Customer => {
            let mut numbers = numbers(table, &[warehouse, district, id]);
            let person = customer_of(&mut numbers, id);
            let (address, phone) = (address(&mut numbers), random::digits(&mut numbers, 16));
            let data = random::text(&mut numbers, 300, 500);
            one(format_args!(
                "{warehouse}\t{district}\t{id}\t{}\tOE\t{}\t{address}\t{phone}\t{LOADED_AT}\t{}\t50000.00\t0.{:04}\t-10.00\t10.00\t1\t0\t{data}",
                person.first, person.last, person.credit, person.discount
            ))
        }
        Table::History => {
            let data = random::text(&mut numbers(table, &[warehouse, district, id]), 12, 24);
            one(format_args!(
                "{id}\t{district}\t{warehouse}\t{district}\t{warehouse}\t{LOADED_AT}\t10.00\t{data}"
            ))
        }
        Table::NewOrder => {
            id < scale.first_undelivered() || one(format_args!("{warehouse}\t{district}\t{id}"))
        }
        Table::Orders => {
            let order = order(scale, warehouse, district, id, customer);
            let carrier = order.carrier.map_or("\\N".to_owned(), |carrier| carrier.to_string());
            one(format_args!(
                "{warehouse}\t{district}\t{id}\t{}\t{LOADED_AT}\t{carrier}\t{}\t1",
                order.customer, order.lines
            ))
        }
        _ => {
            let order = order(scale, warehouse, district, id, customer);
            let mut numbers = numbers(Table::OrderLine, &[warehouse, district, id]);
            (1..=order.lines).all(|number| {
                let (item, info) = (between(&mut numbers, 1, scale.items), random::text(&mut numbers, 24, 24));
                let amount = between(&mut numbers, 1, 999_999).cast_signed();
                let (delivered_at, amount) =
                    if order.carrier.is_some() { (LOADED_AT, 0) } else { ("\\N", amount) };
                one(format_args!(
                    "{warehouse}\t{district}\t{id}\t{number}\t{item}\t{warehouse}\t{delivered_at}\t5\t{}\t{info}",
                    money(amount)
                ))
            })
        }
    })
}

/// Two streets, a city, a state and a zip code, between tabs.
fn address(numbers: &mut Numbers) -> String {
    let [street, other, city] = [(); 3].map(|()| random::text(numbers, 10, 20));
    format!("{street}\t{other}\t{city}\t{}\t{}11111", random::capitals(numbers, 2), random::digits(numbers, 4))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const SMALL: Scale = Scale { warehouses: 2, items: 200, customers: 3000 };

    /// The rows of a table, cut at the tabs.
    fn rows(scale: Scale, table: Table) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        lines(scale, table, &mut |_, line| {
            rows.push(line.strip_suffix('\n').unwrap().split('\t').map(str::to_owned).collect());
            true
        });
        rows
    }

    #[test]
    fn tables_have_as_many_rows_as_the_specification_says() {
        for (table, expected) in [
            (Table::Item, 200),
            (Table::Warehouse, 2),
            (Table::District, 20),
            (Table::Customer, 60_000),
            (Table::History, 60_000),
            (Table::Orders, 60_000),
            (Table::NewOrder, 18_000),
            (Table::Stock, 400),
        ] {
            assert_eq!(rows(SMALL, table).len(), expected, "{table:?}");
            assert_eq!(row_count(SMALL, table), expected as u64, "{table:?}");
        }
        let found = rows(SMALL, Table::OrderLine).len() as f64;
        assert!((found / row_count(SMALL, Table::OrderLine) as f64 - 1.0).abs() < 0.01, "{found}");
    }

    #[test]
    fn customers_have_the_names_credits_and_balances_of_the_specification() {
        let all = rows(Scale { warehouses: 1, ..SMALL }, Table::Customer);
        let of_one_district = all.iter().filter(|row| row[1] == "1");
        let mut names: HashMap<&str, usize> = HashMap::new();
        for row in of_one_district {
            *names.entry(&row[5]).or_default() += 1;
        }
        assert_eq!(names.len(), 1000);
        let counts = name_counts(SMALL, 1, 1);
        for (number, count) in counts.iter().enumerate() {
            assert_eq!(names[&*random::last_name(number as u64)], usize::from(*count));
        }
        let bad = all.iter().filter(|row| row[13] == "BC").count();
        assert!((2800..3200).contains(&bad), "{bad}");
        for row in all.iter().step_by(97) {
            let known = customer(1, row[1].parse().unwrap(), row[2].parse().unwrap());
            assert_eq!((&row[3], &row[5], row[13].as_str()), (&known.first, &known.last, known.credit));
            assert_eq!(scaled(&row[15], 4), Some(known.discount));
            assert_eq!(row[16..20], ["-10.00", "10.00", "1", "0"]);
            assert!((300..=500).contains(&row[20].len()) && row[11].len() == 16 && row[10].ends_with("11111"));
        }
    }

    #[test]
    fn the_last_three_tenths_of_the_orders_are_not_delivered() {
        let scale = Scale { warehouses: 1, ..SMALL };
        let orders = rows(scale, Table::Orders);
        let mut lines_of: HashMap<(String, String), u64> = HashMap::new();
        for line in rows(scale, Table::OrderLine) {
            let delivered = line[2].parse::<u64>().unwrap() < 2101;
            assert_eq!((delivered, delivered), (line[6] != "\\N", line[8] == "0.00"), "{line:?}");
            *lines_of.entry((line[1].clone(), line[2].clone())).or_default() += 1;
        }
        let mut customers: Vec<u64> = Vec::new();
        for order in &orders {
            assert_eq!(order[5] == "\\N", order[2].parse::<u64>().unwrap() >= 2101);
            let lines: u64 = order[6].parse().unwrap();
            assert!((5..=15).contains(&lines));
            assert_eq!(lines_of[&(order[1].clone(), order[2].clone())], lines);
            if order[1] == "7" {
                customers.push(order[3].parse().unwrap());
            }
        }
        assert_ne!(customers, (1..=3000).collect::<Vec<u64>>());
        customers.sort_unstable();
        assert_eq!(customers, (1..=3000).collect::<Vec<u64>>());
        assert_eq!(rows(scale, Table::NewOrder)[0], ["1", "1", "2101"]);
    }

    #[test]
    fn what_is_known_of_a_row_is_what_was_loaded() {
        for (row, id) in rows(SMALL, Table::Item).iter().zip(1..) {
            let known = item(id);
            assert_eq!(row[1..], [known.image.to_string(), known.name, money(known.price), known.data]);
            assert!((100..=10_000).contains(&known.price) && (14..=24).contains(&row[2].len()));
        }
        for row in rows(SMALL, Table::Stock) {
            let (warehouse, item) = (row[0].parse().unwrap(), row[1].parse().unwrap());
            assert!((10..=100).contains(&row[2].parse::<u64>().unwrap()));
            assert_eq!(row[3 + 6], stock_district(warehouse, item, 7));
            assert_eq!(row[16], stock_data(warehouse, item));
        }
        let row = &rows(SMALL, Table::Warehouse)[1];
        assert_eq!((&row[1], scaled(&row[7], 4)), (&warehouse(2).name, Some(warehouse(2).tax)));
        assert_eq!(row[8], "300000.00");
        let row = &rows(SMALL, Table::District)[13];
        assert_eq!((&row[2], scaled(&row[8], 4)), (&district(2, 4).name, Some(district(2, 4).tax)));
        assert_eq!(row[9..], ["30000.00", "3001"]);
    }

    #[test]
    fn money_is_read_as_it_is_written() {
        for hundredths in [0, 5, -5, 100, -1000, 30_000_000, 123] {
            assert_eq!(scaled(&money(hundredths), 2), Some(hundredths));
        }
        for (text, digits, number) in [
            ("12.3400", 2, Some(1234)),
            ("12", 2, Some(1200)),
            ("12.345", 2, None),
            ("x", 2, None),
            ("-0.5", 4, Some(-5000)),
            ("", 2, None),
            ("1e3", 2, None),
        ] {
            assert_eq!(scaled(text, digits), number, "{text}");
        }
    }
}
