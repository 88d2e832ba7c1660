//! The transactions against real servers, and rows there that are tampered with. PostgreSQL must be here, and Ashlar be built.

use std::path::PathBuf;

use super::*;
use crate::load::Answer;
use crate::skipped::skipped;
use crate::targets::{Start, Target};
use crate::workload::Door;
use requests::KINDS;

/// Tampering with a row, the condition that it breaks, and what mends it.
const TAMPERED: &[(&str, &str, &str)] = &[
    (
        "UPDATE @warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2",
        "3.3.2.1: W_YTD of warehouse 2 and its districts' D_YTD: ",
        "UPDATE @warehouse SET w_ytd = w_ytd - 1 WHERE w_id = 2",
    ),
    (
        "UPDATE @district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 7",
        "3.3.2.2: D_NEXT_O_ID - 1 of district (1, 7) and its largest O_ID: ",
        "UPDATE @district SET d_next_o_id = d_next_o_id - 1 WHERE d_w_id = 1 AND d_id = 7",
    ),
    (
        "DELETE FROM @new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 29",
        "3.3.2.3: the range of NO_O_ID of district (1, 3) and their number: ",
        "INSERT INTO @new_order VALUES (1, 3, 29)",
    ),
    (
        "UPDATE @orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
        "3.3.2.5: order (1, 1, 1) has a carrier and a NEW-ORDER, or neither",
        "UPDATE @orders SET o_carrier_id = 5 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
    ),
    (
        "UPDATE @order_line SET ol_delivery_d = NULL WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1",
        "3.3.2.7: delivered lines of order (2, 1, 1): ",
        "UPDATE @order_line SET ol_delivery_d = '2026-01-01 00:00:00' WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 1 \
         AND ol_number = 1",
    ),
    (
        "UPDATE @customer SET c_balance = c_balance + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
        "3.3.2.10: C_BALANCE of customer (1, 1, 1), deliveries less payments: ",
        "UPDATE @customer SET c_balance = c_balance - 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ),
    (
        "UPDATE @stock SET s_order_cnt = s_order_cnt + 1 WHERE s_w_id = 1 AND s_i_id = 1",
        "order lines that were confirmed, by S_ORDER_CNT: ",
        "UPDATE @stock SET s_order_cnt = s_order_cnt - 1 WHERE s_w_id = 1 AND s_i_id = 1",
    ),
];

/// Some transactions of each kind, no more than there are undelivered orders, all right; the data is consistent before and after, and is not when a row is tampered with.
fn holds(target: &Target, rounds: usize, tampered: &[(&str, &str, &str)]) {
    let ashlar = matches!(target, Target::AshlarProxy(_)).then(ashlar);
    let start = Start { ashlar, cores: None, value_bytes: 100, plant: None, unparsed: false };
    let running = target.start(Door::Sql, &start).unwrap_or_else(|error| panic!("{target}: {error:#}"));
    let place = Place {
        address: running.address,
        rows: running.sql,
        postgres: target.is_postgres(),
        stores: true,
        engine: false,
        shards: running.shards,
    };
    let sizes = Sizes { warehouses: Some(2), items: Some(50), customers: Some(30), ..Sizes::default() };
    let tpcc = Tpcc::of(&sizes);
    tpcc.prepare(place, &mut |_, _| Ok(())).unwrap();
    assert_eq!(tpcc.verify(place).unwrap(), None, "{target}");

    let mut terminal = tpcc.terminal(place, Numbers::new(7)).unwrap();
    for _ in 0..rounds {
        for (kind, name) in KINDS.iter().enumerate() {
            terminal.make_of(kind);
            let mut came = false;
            terminal.call(&mut || came = true).unwrap();
            assert!(came);
            terminal.judge(&mut |answer| assert_eq!(answer, Answer::Right, "{target}: {name}"));
        }
    }
    assert_eq!(terminal.read_back().unwrap(), None);
    assert_eq!(tpcc.verify(place).unwrap(), None, "{target}");
    let done = tpcc.tally.sums();
    assert_eq!((done.payments, done.deliveries), (rounds as u64, 10 * rounds as u64));
    assert!(done.orders > 0 && done.lines >= 5 * done.orders);

    let mut client = PgClient::connect(place.address).unwrap();
    for (tamper, condition, mend) in tampered {
        client.query(&schema::named(tamper)).unwrap();
        let fault = tpcc.verify(place).unwrap().unwrap_or_default();
        assert!(fault.starts_with(condition), "{target}: {tamper}: {fault:?}");
        client.query(&schema::named(mend)).unwrap();
    }
    assert_eq!(tpcc.verify(place).unwrap(), None, "{target}");
    // An order that was confirmed and is gone.
    client.query(&schema::named("DELETE FROM @orders WHERE o_id > 30")).unwrap();
    assert!(terminal.read_back().unwrap().is_some_and(|fault| fault.contains("which was committed")));
    tpcc.clear(place).unwrap();
    assert!(client.query(&schema::named("SELECT 1 FROM @item")).is_err());
}

#[test]
fn postgres_does_all_transactions_and_what_is_tampered_with_is_found() {
    holds(&Target::Postgres, 5, TAMPERED);
}

#[test]
fn what_stands_before_a_postgres_does_them_too() {
    // Only what sets the lab up installs it.
    match Target::PgBouncer.program(None) {
        Ok(_) => holds(&Target::PgBouncer, 2, &TAMPERED[..1]),
        Err(reason) => skipped(&reason),
    }
}

#[test]
fn ashlar_before_two_of_them_does_them_and_what_is_tampered_with_is_found() {
    holds(&Target::AshlarProxy(2), 5, TAMPERED);
}

#[test]
fn ashlar_does_all_transactions_and_what_is_tampered_with_is_found() {
    // Its queries over all rows take their time: the checks are the same.
    holds(&Target::Build(ashlar()), 1, &TAMPERED[..2]);
}

/// The program of Ashlar that was built with this one, which Cargo puts a folder deeper.
fn ashlar() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("ashlar");
    assert!(program.is_file(), "{} is not there: cargo build --workspace --bins makes it", program.display());
    program
}
