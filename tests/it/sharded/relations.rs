//! Random queries of queries on shards; the grammar is that of tables in memory.

use super::*;
use crate::relations::{TABLES, agree, agree_with};

fn agree_on(fleet: &mut Fleet, placements: &[String; TABLES.len()]) {
    // What the engine cannot plan it refuses, and says so.
    fleet.ashlar.expect_log(&["a plan was refused"]);
    agree(&mut fleet.client(), placements);
    fleet.ashlar.check_log();
}

#[test]
fn random_queries_agree_where_rows_of_a_key_are_together() {
    let mut fleet = Fleet::start(3);
    let [first, second, _] = TABLES;
    let colocated =
        format!("PARTITION BY HASH ({}) USING sharded WITH (colocate_with = '{}')", second.key(), first.name);
    let everywhere = format!("USING sharded WITH (servers = '{}', broadcast)", fleet.servers());
    let placements = [fleet.by(first.key()), colocated, everywhere];
    agree_on(&mut fleet, &placements);
}

#[test]
fn random_queries_agree_where_tables_are_apart() {
    let mut fleet = Fleet::start(3);
    let [first, second, _] = TABLES;
    let placements = [fleet.by(first.key()), sharded_by(2, second.key()), String::new()];
    agree_on(&mut fleet, &placements);
}

#[test]
fn random_queries_agree_where_texts_are_in_the_order_of_icu() {
    let (mut fleet, _oracle, alone) = collation::with_icu(3);
    fleet.ashlar.expect_log(&["a plan was refused"]);
    let [first, second, third] = TABLES;
    let placements = [fleet.by(first.key()), sharded_by(2, second.key()), fleet.by(third.key())];
    // Sub-queries that compare a text with one of the row around them are refused there.
    agree_with(alone, &mut fleet.client(), &placements, 8);
    fleet.ashlar.check_log();
}
