//! The twin: the tables as maps, and every change as a value that is applied to the maps and written as SQL.

use std::collections::BTreeMap;

use crate::random::Random;

/// How many rows a statement changes, or the SQLSTATE of its failure.
pub(super) type Outcome = Result<u64, String>;

/// What the server must hold.
#[derive(Clone, Default)]
pub(super) struct Twin {
    pub(super) items: BTreeMap<i64, Row>,
    pub(super) pairs: BTreeMap<(String, i32), Option<i64>>,
    pub(super) keys: BTreeMap<String, Vec<u8>>,
}

/// A row of `model_item` without its key; the price in hundredths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) name: Option<String>,
    pub(super) amount: i32,
    pub(super) price: Option<i64>,
    pub(super) flag: Option<bool>,
}

/// One statement.
#[derive(Debug)]
pub(super) enum Change {
    Insert { rows: Vec<(i64, Row)> },
    Upsert { rows: Vec<(i64, Row)> },
    InsertOrNothing { rows: Vec<(i64, Row)> },
    InsertSelect { from: i64, to: i64, shift: i64 },
    SetAmount { id: i64, amount: i32 },
    SetPrice { id: i64, price: Option<i64> },
    AddToRange { low: i32, high: i32, add: i32 },
    Delete { id: i64 },
    DeleteSome { remainder: i64 },
    SetPair { region: String, number: i32, note: Option<i64> },
    DeleteRegion { region: String },
    TruncatePairs,
    SetKey { key: String, value: Vec<u8> },
    DeleteKey { key: String },
}

/// Few enough that rows meet again and again.
const IDS: u64 = 400;
const REGIONS: [&str; 4] = ["north", "süd", "", "it's \"west\""];

pub(super) fn some_id(random: &mut Random) -> i64 {
    random.below(IDS) as i64 - 20
}

pub(super) fn some_amount(random: &mut Random) -> i32 {
    random.below(2001) as i32 - 1000
}

pub(super) fn some_key(random: &mut Random) -> String {
    format!("model:{}", random.below(60))
}

pub(super) fn some_text(random: &mut Random) -> String {
    let texts = [
        "",
        "a",
        "naïve",
        "two words",
        "it's",
        "tab\tnew\nline",
        "🌳",
        "a longer text that does not fit beside its length",
    ];
    texts[random.below(texts.len() as u64) as usize].to_owned()
}

fn some_row(random: &mut Random) -> Row {
    Row {
        name: (!random.one_in(4)).then(|| some_text(random)),
        amount: some_amount(random),
        price: random.one_in(2).then(|| random.below(2_000_000) as i64 - 1_000_000),
        flag: (!random.one_in(4)).then(|| random.one_in(2)),
    }
}

/// Hundredths as numeric(12,2) writes them.
pub(super) fn money(hundredths: i64) -> String {
    let sign = if hundredths < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", hundredths.abs() / 100, hundredths.abs() % 100)
}

impl Change {
    pub(super) fn random(random: &mut Random, twin: &Twin) -> Change {
        let rows = |random: &mut Random, most: u64| -> Vec<(i64, Row)> {
            let first = some_id(random);
            // Each key once: ON CONFLICT may not meet the same row twice.
            (0..1 + random.below(most) as i64).map(|step| (first + step * 3, some_row(random))).collect()
        };
        match random.below(20) {
            0..3 => Change::Insert { rows: rows(random, 1) },
            3 | 4 => Change::Insert { rows: rows(random, 6) },
            5 | 6 => Change::Upsert { rows: rows(random, 6) },
            7 => Change::InsertOrNothing { rows: rows(random, 6) },
            8 => {
                let from = some_id(random);
                Change::InsertSelect { from, to: from + 5, shift: 1 + random.below(IDS) as i64 }
            }
            9 | 10 => Change::SetAmount { id: some_id(random), amount: some_amount(random) },
            11 => {
                Change::SetPrice { id: some_id(random), price: random.one_in(2).then(|| random.below(999_999) as i64) }
            }
            12 | 13 => {
                let low = some_amount(random);
                // Back towards zero, so that sums of many steps stay small.
                Change::AddToRange { low, high: low + 300, add: if low > 0 { -50 } else { 50 } }
            }
            14 | 15 => Change::Delete { id: some_id(random) },
            16 if twin.items.len() > 150 => Change::DeleteSome { remainder: random.below(7) as i64 },
            17 | 18 => Change::SetPair {
                region: REGIONS[random.below(4) as usize].to_owned(),
                number: some_id(random) as i32,
                note: (!random.one_in(5)).then(|| some_id(random) * 1_000_000_007),
            },
            19 if random.one_in(10) => Change::TruncatePairs,
            19 if random.one_in(5) => Change::DeleteRegion { region: REGIONS[random.below(4) as usize].to_owned() },
            _ if random.one_in(3) => Change::DeleteKey { key: some_key(random) },
            _ => Change::SetKey { key: some_key(random), value: some_text(random).into_bytes() },
        }
    }

    /// Makes the change in the twin; a change that fails makes none.
    pub(super) fn apply(&self, twin: &mut Twin) -> Outcome {
        let duplicate = || Err("23505".to_owned());
        Ok(match self {
            Change::Insert { rows } => {
                if rows.iter().any(|(id, _)| twin.items.contains_key(id)) {
                    return duplicate();
                }
                twin.items.extend(rows.iter().cloned());
                rows.len() as u64
            }
            Change::Upsert { rows } => {
                for (id, row) in rows {
                    match twin.items.get_mut(id) {
                        Some(old) => {
                            old.amount += row.amount.signum();
                            old.name.clone_from(&row.name);
                        }
                        None => {
                            twin.items.insert(*id, row.clone());
                        }
                    }
                }
                rows.len() as u64
            }
            Change::InsertOrNothing { rows } => {
                let before = twin.items.len();
                for (id, row) in rows {
                    twin.items.entry(*id).or_insert_with(|| row.clone());
                }
                (twin.items.len() - before) as u64
            }
            Change::InsertSelect { from, to, shift } => {
                let rows: Vec<_> = twin.items.range(from..=to).map(|(id, row)| (id + shift, row.clone())).collect();
                if rows.iter().any(|(id, _)| twin.items.contains_key(id)) {
                    return duplicate();
                }
                let count = rows.len() as u64;
                twin.items.extend(rows);
                count
            }
            Change::SetAmount { id, amount } => match twin.items.get_mut(id) {
                Some(row) => {
                    row.amount = *amount;
                    1
                }
                None => 0,
            },
            Change::SetPrice { id, price } => match twin.items.get_mut(id) {
                Some(row) => {
                    row.price = *price;
                    1
                }
                None => 0,
            },
            Change::AddToRange { low, high, add } => {
                let rows = twin.items.values_mut().filter(|row| (*low..=*high).contains(&row.amount));
                rows.map(|row| row.amount += add).count() as u64
            }
            Change::Delete { id } => u64::from(twin.items.remove(id).is_some()),
            Change::DeleteSome { remainder } => {
                let before = twin.items.len();
                // SQL's remainder has the sign of the dividend, as Rust's has; a null flag is not true.
                twin.items.retain(|id, row| !(id % 7 == *remainder && row.flag == Some(true)));
                (before - twin.items.len()) as u64
            }
            Change::SetPair { region, number, note } => {
                twin.pairs.insert((region.clone(), *number), *note);
                1
            }
            Change::DeleteRegion { region } => {
                let before = twin.pairs.len();
                twin.pairs.retain(|(other, _), _| other != region);
                (before - twin.pairs.len()) as u64
            }
            Change::TruncatePairs => {
                twin.pairs.clear();
                0
            }
            Change::SetKey { key, value } => {
                twin.keys.insert(key.clone(), value.clone());
                1
            }
            Change::DeleteKey { key } => u64::from(twin.keys.remove(key).is_some()),
        })
    }

    /// The change as a statement.
    pub(super) fn sql(&self) -> String {
        let columns = "INSERT INTO model_item (id, name, amount, price, flag)";
        match self {
            Change::Insert { rows } => format!("{columns} VALUES {}", values(rows)),
            Change::Upsert { rows } => format!(
                "{columns} VALUES {} ON CONFLICT (id) DO UPDATE \
                 SET amount = model_item.amount + sign(excluded.amount)::integer, name = excluded.name",
                values(rows)
            ),
            Change::InsertOrNothing { rows } => format!("{columns} VALUES {} ON CONFLICT DO NOTHING", values(rows)),
            Change::InsertSelect { from, to, shift } => format!(
                "{columns} SELECT id + {shift}, name, amount, price, flag FROM model_item WHERE id BETWEEN {from} AND {to}"
            ),
            Change::SetAmount { id, amount } => format!("UPDATE model_item SET amount = {amount} WHERE id = {id}"),
            Change::SetPrice { id, price } => {
                format!("UPDATE model_item SET price = {} WHERE id = {id}", or_null(price.map(money)))
            }
            Change::AddToRange { low, high, add } => {
                format!("UPDATE model_item SET amount = amount + {add} WHERE amount BETWEEN {low} AND {high}")
            }
            Change::Delete { id } => format!("DELETE FROM model_item WHERE id = {id}"),
            Change::DeleteSome { remainder } => format!("DELETE FROM model_item WHERE id % 7 = {remainder} AND flag"),
            Change::SetPair { region, number, note } => format!(
                "INSERT INTO model_pair VALUES ({}, {number}, {}) ON CONFLICT (region, number) DO UPDATE SET note = excluded.note",
                quoted(region),
                or_null(note.as_ref())
            ),
            Change::DeleteRegion { region } => format!("DELETE FROM model_pair WHERE region = {}", quoted(region)),
            Change::TruncatePairs => "TRUNCATE model_pair".to_owned(),
            Change::SetKey { key, value } => format!(
                "INSERT INTO kv VALUES ({}, {}) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                bytes(key.as_bytes()),
                bytes(value)
            ),
            Change::DeleteKey { key } => format!("DELETE FROM kv WHERE key = {}", bytes(key.as_bytes())),
        }
    }
}

fn values(rows: &[(i64, Row)]) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|(id, row)| {
            let name = or_null(row.name.as_deref().map(quoted));
            format!("({id}, {name}, {}, {}, {})", row.amount, or_null(row.price.map(money)), or_null(row.flag))
        })
        .collect();
    rows.join(", ")
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn bytes(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("'\\x{digits}'")
}

impl Twin {
    /// `count(*), count(name), sum(amount), sum(price), min(id), max(id)` of the items.
    pub(super) fn sums(&self) -> Vec<Option<String>> {
        let rows = || self.items.values();
        let amounts: i64 = rows().map(|row| i64::from(row.amount)).sum();
        let prices: Option<i64> =
            rows().filter_map(|row| row.price).fold(None, |sum, price| Some(sum.unwrap_or(0) + price));
        vec![
            Some(self.items.len().to_string()),
            Some(rows().filter(|row| row.name.is_some()).count().to_string()),
            (!self.items.is_empty()).then(|| amounts.to_string()),
            prices.map(money),
            self.items.keys().next().map(i64::to_string),
            self.items.keys().next_back().map(i64::to_string),
        ]
    }

    /// `count(*), sum(note)` of items joined with pairs on `id = number`.
    pub(super) fn join(&self) -> Vec<Option<String>> {
        let met: Vec<Option<i64>> = self
            .pairs
            .iter()
            .filter(|((_, number), _)| self.items.contains_key(&i64::from(*number)))
            .map(|(_, note)| *note)
            .collect();
        let sum = met.iter().flatten().fold(None, |sum: Option<i64>, note| Some(sum.unwrap_or(0) + note));
        vec![Some(met.len().to_string()), sum.map(|sum| sum.to_string())]
    }

    /// `region, number, note` in the order of the key. Byte order, as the C collation has it.
    pub(super) fn pair_rows(&self) -> Vec<Vec<Option<String>>> {
        let row = |((region, number), note): (&(String, i32), &Option<i64>)| {
            vec![Some(region.clone()), Some(number.to_string()), note.map(|note| note.to_string())]
        };
        self.pairs.iter().map(row).collect()
    }

    /// `key, value` of the plain keys, as text results have bytea.
    pub(super) fn key_rows(&self) -> Vec<Vec<Option<String>>> {
        let text = |bytes: &[u8]| Some(bytes.iter().fold("\\x".to_owned(), |text, byte| format!("{text}{byte:02x}")));
        self.keys.iter().map(|(key, value)| vec![text(key.as_bytes()), text(value)]).collect()
    }
}
