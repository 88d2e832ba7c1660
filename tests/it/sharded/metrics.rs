//! What the page of metrics says of shards: what the views say, under the names that the reference page lists.

use std::collections::BTreeSet;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;
use crate::http::{get, series};

fn page(fleet: &Fleet) -> String {
    get(fleet.ashlar.http(), "/metrics").1
}

/// Waits until a series has the value that a query gives.
fn agrees(fleet: &Fleet, client: &mut pg::Connection, name: &str, sql: &str) {
    let told = || series(&page(fleet), name);
    let counted = |client: &mut pg::Connection| client.value(sql).unwrap().parse::<f64>().unwrap();
    // Between the two something may be counted.
    let agree = wait_for(PATIENCE, || told().is_some_and(|told| told == counted(client)));
    assert!(agree, "{name}: {:?}, {}", told(), counted(client));
}

#[test]
fn the_page_of_metrics_says_what_the_views_say() {
    let mut fleet = Fleet::with(2, "health_check_ms = 50\nrecover_period_ms = 50");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    for key in &keys {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'a')"));
    }
    assert!(refused(&mut client, &format!("INSERT INTO t VALUES ({}, 'a')", keys[0])).contains("23505"));
    assert_eq!(rows(&mut client, "SELECT v FROM t ORDER BY k").len(), 2);

    for column in ["made", "lent", "taken"] {
        let name = format!("ashlar_shard_connections_{column}_total{{server=\"s1\"}}");
        let sql = format!("SELECT sum({column}) FROM ashlar.pools WHERE server = 's1'");
        agrees(&fleet, &mut client, &name, &sql);
    }
    let used = "ashlar_shard_connection_use_microseconds_total{server=\"s1\"}";
    let sql = "SELECT sum(used_ms) FROM ashlar.pools WHERE server = 's1'";
    let is_told = |client: &mut pg::Connection| {
        let told = client.value(sql).unwrap().parse::<f64>().unwrap();
        series(&page(&fleet), used).is_some_and(|micros| micros > 0.0 && (micros / 1000.0 - told).abs() < 10.0)
    };
    assert!(wait_for(PATIENCE, || is_told(&mut client)), "{:?}", series(&page(&fleet), used));
    for state in ["idle", "in_use"] {
        let name = format!("ashlar_shard_connections{{server=\"s0\",state=\"{state}\"}}");
        let sql = format!("SELECT sum({state}) FROM ashlar.pools WHERE server = 's0'");
        agrees(&fleet, &mut client, &name, &sql);
    }
    for (column, metric) in [
        ("statements", "statements"),
        ("errors", "statement_errors"),
        ("rows", "statement_rows"),
        ("time_us", "statement_microseconds"),
    ] {
        for route in ["one shard", "shards"] {
            let name = format!("ashlar_shard_{metric}_total{{route=\"{route}\",tables=\"t\"}}");
            let sql = format!("SELECT \"{column}\" FROM ashlar.routes WHERE route = '{route}' AND tables = 't'");
            agrees(&fleet, &mut client, &name, &sql);
        }
    }
    let errors = "ashlar_shard_statement_errors_total{route=\"one shard\",tables=\"t\"}";
    assert_eq!(series(&page(&fleet), errors), Some(1.0));

    // What somebody has prepared and left.
    let mut shard = fleet.shard(0);
    done(&mut shard, "BEGIN");
    done(&mut shard, "PREPARE TRANSACTION 'ashlar-left'");
    let in_doubt = |server: &str| {
        let name = format!("ashlar_shard_in_doubt_transactions{{server=\"{server}\"}}");
        series(&page(&fleet), &name)
    };
    assert!(wait_for(PATIENCE, || in_doubt("s0") == Some(1.0)));
    assert_eq!(in_doubt("s1"), Some(0.0));
    done(&mut shard, "ROLLBACK PREPARED 'ashlar-left'");
    assert!(wait_for(PATIENCE, || in_doubt("s0") == Some(0.0)));

    let state = |fleet: &Fleet, state: &str| {
        series(&page(fleet), &format!("ashlar_shard_server_state{{server=\"s1\",state=\"{state}\"}}"))
    };
    fleet.shards[1].signal("QUIT").unwrap();
    fleet.shards[1].wait().unwrap();
    refused(&mut client, &format!("SELECT v FROM t WHERE k = {}", keys[1]));
    assert!(wait_for(PATIENCE, || state(&fleet, "down") == Some(1.0)));
    assert_eq!(state(&fleet, "up"), Some(0.0));
    fleet.shards[1].start_again().unwrap();
    assert!(wait_for(PATIENCE, || state(&fleet, "up") == Some(1.0)));
    assert_eq!(state(&fleet, "down"), Some(0.0));
}

#[test]
fn the_reference_page_lists_the_series_of_shards() {
    let fleet = Fleet::start(1);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let page = page(&fleet);
    // The name of each series, and of its labels.
    let told: BTreeSet<String> = page
        .lines()
        .filter(|line| line.starts_with("ashlar_shard_"))
        .map(|line| {
            let (name, labels) = line.split_once('{').unwrap();
            let labels: Vec<&str> = labels.split("\",").map(|label| label.split_once('=').unwrap().0).collect();
            format!("{name}{{{}}}", labels.join(","))
        })
        .collect();
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/sharding.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    let listed = reference.split("## Metrics").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let listed: BTreeSet<String> =
        listed.split('`').filter(|name| name.starts_with("ashlar_shard_")).map(str::to_owned).collect();
    assert_eq!(told, listed);
    assert!(told.len() >= 12, "{told:?}");
    // Nothing is told of servers where there are none.
    assert!(!get(Ashlar::shared().http(), "/metrics").1.contains("ashlar_shard_"));
}
