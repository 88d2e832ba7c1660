//! Which queries ask shards for their first rows, and what the texts are that these get.

use std::time::Duration;

use ashlar_shard::two_phase::Recovery;
use datafusion::common::tree_node::TreeNodeRecursion;

use super::*;
use crate::sharded::open;
use crate::sharded::test_fleet::{fleet, physical};
use crate::statement::Kind;
use crate::testing;

const COLUMNS: &str = "id bigint PRIMARY KEY, n int, d numeric(10,2), f float8, v text, w varchar(9), b boolean, u uuid, \
                       ts timestamptz, tm time, y bytea, c char(3)";

/// Rows of `t` that are joined with a table of this server, and how what is asked of its shards ends; `None`: without any order.
const ROWS: &[(&str, Option<&str>)] = &[
    ("SELECT id FROM t ORDER BY n LIMIT 5", Some(" FROM public.t ORDER BY n LIMIT 5")),
    (
        "SELECT id, v FROM t ORDER BY n DESC, v, d NULLS FIRST LIMIT 5 OFFSET 7",
        Some(" ORDER BY n DESC, v, d NULLS FIRST LIMIT 12"),
    ),
    (
        "SELECT id AS one, n AS two, f * 2 AS three FROM t WHERE n > 3 AND d IS NOT NULL ORDER BY two DESC NULLS LAST, one LIMIT 1",
        Some(" ORDER BY n DESC NULLS LAST, id LIMIT 1"),
    ),
    (
        "SELECT f, u, ts, tm, y, b, w FROM t ORDER BY f, u, ts, tm, y, b, w LIMIT 3",
        Some(" ORDER BY f, u, ts, tm, y, b, w LIMIT 3"),
    ),
    ("SELECT id FROM t ORDER BY n OFFSET 7", None),
    ("SELECT id FROM t ORDER BY n + 1 LIMIT 5", None),
    ("SELECT id FROM t ORDER BY n, c LIMIT 5", None),
    ("SELECT id FROM t WHERE abs(n) > 2 ORDER BY n LIMIT 5", None),
    ("SELECT id FROM t WHERE n > 2 AND v > 'a' ORDER BY n LIMIT 5", None),
    ("SELECT n, count(*) AS many FROM t GROUP BY n ORDER BY n LIMIT 5", None),
    ("SELECT id FROM (SELECT id, n FROM t LIMIT 9) l ORDER BY n LIMIT 5", None),
];

#[test]
fn shards_are_asked_for_their_first_rows_where_they_sort_as_we_do() {
    let dir = std::env::temp_dir().join(format!("ashlar-first-rows-test-{}", std::process::id()));
    let engine = testing::engine_with(&["CREATE TABLE home (h int PRIMARY KEY)"]);
    let recovery = Recovery { period: Duration::from_secs(3600), after: Duration::from_secs(3600) };
    open(&engine, &fleet(&dir, &[("t", COLUMNS)]), recovery).unwrap();
    for (rows, end) in ROWS {
        let sql = format!("SELECT * FROM home, ({rows}) s");
        let Kind::Select(select) = testing::plan(&engine, &sql).kind else { panic!("{sql}") };
        let plan = physical(&engine, &select);
        let (mut texts, mut sorts) = (Vec::new(), 0);
        let walked = plan.apply(|node| {
            sorts += usize::from(node.is::<SortExec>());
            let parts = node.downcast_ref::<ShardScanExec>().into_iter().flat_map(ShardScanExec::parts);
            texts.extend(parts.map(|part| part.text.clone()));
            Ok(TreeNodeRecursion::Continue)
        });
        walked.unwrap();
        assert_eq!(texts.len(), 2, "{sql}: {texts:?}");
        let Some(end) = end else {
            assert!(texts.iter().all(|text| !text.contains(" ORDER BY ")), "{sql}: {texts:?}");
            continue;
        };
        assert!(texts.iter().all(|text| text.ends_with(end)), "{sql}: {texts:?}");
        assert!(texts.iter().all(|text| text.contains(" WHERE ") == rows.contains(" WHERE ")), "{sql}: {texts:?}");
        // Which of them are the first of all is decided here.
        assert!(sorts > 0, "{sql}");
    }
    drop(std::fs::remove_dir_all(&dir));
}

#[test]
fn only_types_with_one_order_are_sorted_by_shards() {
    let is = |scalar, is_by_bytes| is_ordered_alike(SqlType::Scalar(scalar), is_by_bytes);
    assert!(is(ScalarType::Numeric { precision: 10, scale: 2 }, false));
    assert!(is(ScalarType::Bytea, false));
    assert!(is(ScalarType::Text, true) && !is(ScalarType::Text, false));
    assert!(is(ScalarType::Varchar { length: Some(3) }, true) && !is(ScalarType::Varchar { length: None }, false));
    assert!(!is(ScalarType::Interval, true) && !is(ScalarType::Jsonb, true));
    assert!(!is_ordered_alike(SqlType::Array(ScalarType::Int4), true));
}

#[test]
fn what_is_written_of_an_order_is_what_it_is() {
    let order = |descending, nulls_first| direction(SortOptions { descending, nulls_first });
    assert_eq!([order(false, false), order(false, true)], ["", " NULLS FIRST"]);
    assert_eq!([order(true, false), order(true, true)], [" DESC NULLS LAST", " DESC"]);
}
