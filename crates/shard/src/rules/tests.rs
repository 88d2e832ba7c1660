//! Rules against a naive twin, and against what PostgreSQL says of its own hash partitions.

use std::ops::{Bound, RangeBounds};

use ashlar_base::{ColumnDef, ColumnId, Datum, ErrorCode, Result, ScalarType, SqlType};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::{Definition, Domain, Key, Neighbours, Placement, Rule, ShardId, ShardSet, Strategy};

struct World(Vec<(String, Rule)>);

impl Neighbours for World {
    fn has_server(&self, name: &str) -> bool {
        ["s0", "s1", "s2", "s3", "s4", "s5", "s6"].contains(&name)
    }

    fn rule_of(&self, table: &str) -> Option<Rule> {
        self.0.iter().find(|(name, _)| name == table).map(|(_, rule)| rule.clone())
    }
}

pub(crate) fn column(name: &str, scalar: ScalarType) -> ColumnDef {
    ColumnDef { id: ColumnId(0), name: name.into(), sql_type: SqlType::Scalar(scalar), nullable: true, default: None }
}

fn columns() -> Vec<ColumnDef> {
    vec![
        column("a", ScalarType::Int8),
        column("b", ScalarType::Text),
        column("c", ScalarType::Uuid),
        column("d", ScalarType::Date),
        column("e", ScalarType::Timestamp),
        column("f", ScalarType::Float8),
        column("g", ScalarType::Int4),
    ]
}

fn options(written: &[(&str, &str)]) -> Vec<(String, String)> {
    written.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn made(by: Option<(Strategy, &[&str])>, written: &[(&str, &str)], world: &World) -> Result<Rule> {
    let options = options(written);
    let columns = columns();
    Rule::new(
        &Definition {
            schema: "public",
            name: "t",
            columns: &columns,
            unique: &[],
            partition_by: by.map(|(strategy, names)| (strategy, names.iter().map(|name| (*name).to_owned()).collect())),
            options: &options,
        },
        world,
    )
}

pub(super) fn rule(strategy: Strategy, key: &[&str], written: &[(&str, &str)]) -> Rule {
    made(Some((strategy, key)), written, &World(Vec::new())).unwrap()
}

/// A table that is on all servers.
pub(super) fn copied(written: &[(&str, &str)]) -> Rule {
    made(None, &[&[("broadcast", "true")][..], written].concat(), &World(Vec::new())).unwrap()
}

#[test]
fn pg_hash_puts_rows_where_postgresql_does() {
    let servers = ("servers", "s0,s1,s2,s3,s4,s5,s6");
    let rule = rule(Strategy::Hash, &["a", "b", "c", "d", "e"], &[servers, ("algorithm", "pg_hash")]).clone();
    // satisfies_hash_partition(p, 7, n, a, 'k' || a, null, date '2026-01-01' + a, timestamp '2026-01-01' + a hours)
    for (a, partition) in [(1, 5), (2, 1), (3, 1), (4, 0), (5, 0), (6, 2)] {
        let text = format!("k{a}");
        let key = [
            Datum::Int8(a),
            Datum::Text(&text),
            Datum::Null,
            Datum::Date(20_454 + i32::try_from(a).unwrap()),
            Datum::Timestamp(20_454 * 86_400_000_000 + a * 3_600_000_000),
        ];
        assert_eq!(rule.shard_of(&key).unwrap(), ShardId(partition), "{a}");
    }
}

#[test]
fn rows_are_where_the_rule_says() {
    let hashed = rule(Strategy::Hash, &["a"], &[("servers", "s0,s1,s2")]);
    // hashint8extended(42, 0)
    assert_eq!(hashed.shard_of(&[Datum::Int4(42)]).unwrap(), ShardId((8_010_225_493_015_854_792_u64 % 3) as u16));
    let modulo = rule(Strategy::Hash, &["g"], &[("servers", "s0,s1,s2"), ("algorithm", "mod")]);
    for (key, shard) in [(0, 0), (1, 1), (5, 2), (-1, 2), (-3, 0)] {
        assert_eq!(modulo.shard_of(&[Datum::Int4(key)]).unwrap(), ShardId(shard), "{key}");
    }
    let list = rule(Strategy::List, &["b"], &[("servers", "s0,s1"), ("lists", "de, 'a,t'; us; *")]);
    for (key, shard) in [("de", 0), ("a,t", 0), ("us", 1), ("fr", 2)] {
        assert_eq!(list.shard_of(&[Datum::Text(key)]).unwrap(), ShardId(shard), "{key}");
    }
    let volume = rule(
        Strategy::Range,
        &["a"],
        &[("servers", "s0,s1"), ("algorithm", "volume"), ("lower", "10"), ("upper", "45"), ("volume", "10")],
    );
    for (key, shard) in [(9, 0), (10, 1), (19, 1), (39, 3), (40, 4), (44, 4), (45, 5), (1000, 5)] {
        assert_eq!(volume.shard_of(&[Datum::Int8(key)]).unwrap(), ShardId(shard), "{key}");
    }
    let months = rule(
        Strategy::Range,
        &["d"],
        &[
            ("servers", "s0"),
            ("algorithm", "interval"),
            ("lower", "2026-01-31"),
            ("upper", "2026-05-01"),
            ("interval", "1 month"),
        ],
    );
    // From the 31st: 28 February, 31 March, 30 April.
    let boundaries = [20_484, 20_512, 20_543, 20_573, 20_574];
    for (at, day) in boundaries.into_iter().enumerate() {
        assert_eq!(months.shard_of(&[Datum::Date(day - 1)]).unwrap().index(), at);
        assert_eq!(months.shard_of(&[Datum::Date(day)]).unwrap().index(), at + 1);
    }
    let gaps = rule(Strategy::Range, &["a"], &[("servers", "s0,s1"), ("ranges", "0..10; 20..")]);
    assert_eq!(gaps.shard_of(&[Datum::Int8(20)]).unwrap(), ShardId(1));
    assert_eq!(gaps.shard_of(&[Datum::Int8(15)]).unwrap_err().code(), ErrorCode::InvalidParameterValue);
    assert_eq!(gaps.shard_of(&[Datum::Null]).unwrap_err().code(), ErrorCode::NotNullViolation);
}

#[test]
fn tables_of_one_server_have_names_of_their_own() {
    let several = rule(Strategy::Hash, &["a"], &[("servers", "s0,s1"), ("shards", "4")]);
    let names: Vec<String> =
        several.shards().iter().map(|shard| format!("{}.{}.{}", shard.server, shard.schema, shard.table)).collect();
    assert_eq!(names, ["s0.public.t_0", "s1.public.t_1", "s0.public.t_2", "s1.public.t_3"]);
    let schemas = rule(
        Strategy::Hash,
        &["a"],
        &[("servers", "s0,s1"), ("shards", "3"), ("schema", "x"), ("schema_suffix", "{}")],
    );
    assert_eq!((&*schemas.shards()[2].schema, &*schemas.shards()[2].table), ("x2", "t"));
    let plain = rule(Strategy::Hash, &["a"], &[("servers", "s0,s1")]);
    assert_eq!((&*plain.shards()[1].schema, &*plain.shards()[1].table), ("public", "t"));
}

#[test]
fn tables_of_one_distribution_are_colocated() {
    let servers = ("servers", "s0,s1");
    let by_a = rule(Strategy::Hash, &["a"], &[servers]);
    let by_g = rule(Strategy::Hash, &["g"], &[servers]);
    assert!(by_a.is_colocated_with(&by_g), "equal integers have equal hashes");
    assert!(!by_a.is_colocated_with(&rule(Strategy::Hash, &["b"], &[servers])));
    assert!(!by_a.is_colocated_with(&rule(Strategy::Hash, &["a"], &[("servers", "s1,s0")])));
    assert!(!by_a.is_colocated_with(&rule(Strategy::Hash, &["a"], &[servers, ("algorithm", "pg_hash")])));
    let world = World(vec![("other".into(), by_a.clone())]);
    let taken = made(Some((Strategy::Hash, &["g"])), &[("colocate_with", "other")], &world).unwrap();
    assert!(taken.is_colocated_with(&by_a));
    let broadcast = made(None, &[servers, ("broadcast", "true")], &world).unwrap();
    assert_eq!((broadcast.placement(), broadcast.shards().len()), (Placement::Broadcast, 2));
}

#[test]
fn bad_combinations_are_refused_with_what_to_do() {
    let s = ("servers", "s0,s1");
    let hash = |key: &'static [&'static str]| Some((Strategy::Hash, key));
    let a = hash(&["a"]);
    type Case<'a> = (Option<(Strategy, &'a [&'a str])>, &'a [(&'a str, &'a str)], &'a str, &'a str);
    let cases: &[Case<'_>] = &[
        (a, &[], "22023", "needs the parameter \"servers\""),
        (None, &[s], "42P16", "needs a sharding key"),
        (a, &[("servers", "s0,nowhere")], "42704", "does not exist"),
        (a, &[("servers", "s0,s0")], "22023", "twice"),
        (a, &[("servers", "s0,")], "22023", "empty name"),
        (a, &[s, ("backups", "1")], "22023", "unrecognized parameter"),
        (a, &[s, s], "42601", "more than once"),
        (a, &[s, ("algorithm", "magic")], "22023", "unrecognized sharding algorithm"),
        (a, &[s, ("algorithm", "list"), ("lists", "1;2")], "42P16", "PARTITION BY HASH"),
        (a, &[s, ("lists", "1;2")], "22023", "no meaning"),
        (a, &[s, ("broadcast", "true"), ("single", "true")], "22023", "both"),
        (a, &[s, ("broadcast", "true")], "42P16", "not partitioned"),
        (None, &[s, ("single", "true")], "22023", "one server"),
        (a, &[s, ("broadcast", "maybe")], "22023", "boolean"),
        (hash(&["z"]), &[s], "42703", "does not exist"),
        (hash(&["f"]), &[s], "0A000", "cannot be a sharding key"),
        (hash(&["a", "a"]), &[s], "42P17", "more than once"),
        (hash(&["a", "g"]), &[s, ("algorithm", "mod")], "0A000", "one column"),
        (hash(&["b"]), &[s, ("algorithm", "mod")], "42804", "integer"),
        (Some((Strategy::List, &["a"])), &[s, ("lists", "1;1")], "22023", "twice"),
        (Some((Strategy::List, &["a"])), &[s, ("lists", "*;*")], "22023", "all other values"),
        (Some((Strategy::List, &["a"])), &[s, ("lists", "x;2")], "22023", "invalid value"),
        (Some((Strategy::List, &["a"])), &[s, ("lists", "1,2")], "22023", "2 servers for 1 shards"),
        (Some((Strategy::Range, &["a"])), &[s, ("ranges", "0..10; 5..20")], "22023", "overlap"),
        (Some((Strategy::Range, &["a"])), &[s, ("ranges", "10..0; 20..30")], "22023", "ascend"),
        (Some((Strategy::Range, &["a"])), &[s, ("ranges", "0-10; 20-30")], "22023", "invalid range"),
        (Some((Strategy::Range, &["a"])), &[s, ("boundaries", "5,5")], "22023", "ascend"),
        (Some((Strategy::Range, &["a"])), &[s], "22023", "needs the parameter \"boundaries\""),
        (a, &[s, ("shards", "0")], "22023", "invalid value"),
        (a, &[s, ("shards", "5000")], "22023", "at most 1024"),
        (a, &[s, ("shards", "4"), ("table_suffix", "_x")], "22023", "same table"),
        (a, &[("colocate_with", "nothing")], "42P01", "does not exist"),
        (a, &[("colocate_with", "nothing"), s], "22023", "no meaning"),
        (a, &[s, ("key_generator", "uuidv7"), ("generated_column", "a")], "42804", "needs a column of type uuid"),
        (a, &[s, ("key_generator", "dice")], "22023", "unrecognized key generator"),
        (a, &[s, ("key_generator", "snowflake")], "22023", "which column"),
        (a, &[s, ("generated_column", "a")], "22023", "needs key_generator"),
    ];
    for (by, written, state, words) in cases {
        let error = made(*by, written, &World(Vec::new())).expect_err(words);
        assert_eq!(error.code().sqlstate(), *state, "{written:?}: {}", error.message());
        assert!(error.message().contains(words), "{written:?}: {}", error.message());
    }
    let columns = columns();
    let options = options(&[s]);
    let definition = Definition {
        schema: "public",
        name: "t",
        columns: &columns,
        unique: &[vec![1]],
        partition_by: Some((Strategy::Hash, vec!["a".into()])),
        options: &options,
    };
    assert_eq!(Rule::new(&definition, &World(Vec::new())).unwrap_err().code(), ErrorCode::FeatureNotSupported);
}

/// Rules over one integer column, of every kind.
fn integer_rules() -> Vec<Rule> {
    let s = ("servers", "s0,s1,s2");
    vec![
        rule(Strategy::Hash, &["a"], &[s]),
        rule(Strategy::Hash, &["a"], &[s, ("algorithm", "pg_hash"), ("shards", "5")]),
        rule(Strategy::Hash, &["a"], &[s, ("algorithm", "mod")]),
        rule(Strategy::List, &["a"], &[s, ("lists", "1,2,3; 4,-5; *")]),
        rule(Strategy::List, &["a"], &[s, ("lists", "1,2,3; 4,-5; 6")]),
        rule(Strategy::Range, &["a"], &[s, ("boundaries", "-3,4,9")]),
        rule(Strategy::Range, &["a"], &[s, ("ranges", "-9..-2; 5..8; -2..3")]),
    ]
}

fn bound() -> impl proptest::strategy::Strategy<Value = Bound<i64>> {
    prop_oneof![
        (-12_i64..12).prop_map(Bound::Included),
        (-12_i64..12).prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

proptest! {
    #[test]
    fn every_row_of_a_domain_is_on_one_of_its_shards(low in bound(), high in bound(), some in prop::collection::vec(-12_i64..12, 0..5)) {
        for rule in integer_rules() {
            let key = |bound: Bound<i64>| bound.map(Key::Number);
            let range = rule.shards_of(&[Domain::Range { low: key(low), high: key(high) }]);
            let list = rule.shards_of(&[Domain::Values(some.iter().map(|value| Key::Number(*value)).collect())]);
            let place = |value: i64| rule.shard_of(&[Datum::Int8(value)]).ok();
            for value in -40..40 {
                if let Some(shard) = place(value).filter(|_| (low, high).contains(&value)) {
                    prop_assert!(range.contains(shard), "{value} is between {low:?} and {high:?}");
                }
            }
            let expected: ShardSet = some.iter().filter_map(|value| place(*value)).collect();
            prop_assert_eq!(list, expected, "no more and no less than the values' shards");
        }
    }
}

#[test]
fn ranges_leave_shards_out() {
    let boundary = rule(Strategy::Range, &["a"], &[("servers", "s0,s1,s2"), ("boundaries", "10,20")]);
    let between = |low: i64, high: i64| {
        let domain = Domain::Range { low: Bound::Included(Key::Number(low)), high: Bound::Excluded(Key::Number(high)) };
        boundary.shards_of(&[domain]).iter().map(|shard| shard.0).collect::<Vec<_>>()
    };
    assert_eq!(between(0, 10), [0]);
    assert_eq!(between(0, 11), [0, 1]);
    assert_eq!(between(20, 30), [2]);
    let modulo = rule(Strategy::Hash, &["a"], &[("servers", "s0,s1,s2,s3"), ("algorithm", "mod")]);
    let domain = Domain::Range { low: Bound::Included(Key::Number(4)), high: Bound::Included(Key::Number(5)) };
    assert_eq!(modulo.shards_of(&[domain]).len(), 2);
}
