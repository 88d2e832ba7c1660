//! What joins tell scans while they run: fewer rows leave them, and answers are those of the engine's own operators.

use ashlar_base::value::text::Zone;
use datafusion::common::tree_node::TreeNode;

use super::*;
use crate::engine::{Operators, Whose};
use crate::testing;

/// Rows that left the scans of a table.
fn scanned(plan: &Arc<dyn ExecutionPlan>, table: &str) -> usize {
    let mut rows = 0;
    plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<GridScanExec>()
            && scan.region().schema().name == table
        {
            rows += scan.metrics().unwrap().output_rows().unwrap_or(0);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    rows
}

#[test]
fn rows_without_a_partner_do_not_leave_the_scan() {
    let own = testing::engine_with(&[
        "CREATE TABLE large (id integer PRIMARY KEY, k integer, t text, d date)",
        "CREATE TABLE small (w integer, t text, d date)",
        "INSERT INTO large SELECT i, nullif(i, 77), 'text ' || i, date '2020-01-01' + i FROM generate_series(1, 20000) AS g(i)",
        "INSERT INTO small SELECT i * 50, 'text ' || i * 50, date '2020-01-01' + i * 50 FROM generate_series(1, 300) AS g(i)",
        "INSERT INTO small VALUES (NULL, NULL, NULL), (50, 'text 50', date '2020-02-20')",
    ]);
    let stock = own.of_session(Zone::Utc, Operators { joins: Whose::Stock, ..Operators::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // With the most rows of the large table that may leave its scan, or, where that is most of them, the least.
    for (sql, most) in [
        ("SELECT l.id, s.t FROM large l JOIN small s ON l.k = s.w", 1000),
        ("SELECT l.id, s.t FROM large l JOIN small s ON l.t = s.t", 2000),
        ("SELECT l.id, s.t FROM large l JOIN small s ON l.k = s.w AND l.d = s.d", 2000),
        ("SELECT l.id, s.t FROM large l JOIN small s ON l.k = s.w WHERE l.id > 10000", 1000),
        ("SELECT l.id, s.t FROM small s LEFT JOIN large l ON l.k = s.w", 1000),
        ("SELECT l.id FROM large l WHERE l.k IN (SELECT w FROM small)", 1000),
        ("SELECT s.t FROM small s WHERE EXISTS (SELECT 1 FROM large l WHERE l.k = s.w AND l.id <> 100)", 1000),
        ("SELECT s.t, g.n FROM small s JOIN (SELECT k, count(*) AS n FROM large GROUP BY k) g ON g.k = s.w", 1000),
        // All rows matter.
        ("SELECT count(*) FROM large l LEFT JOIN small s ON l.k = s.w", 20_000),
        ("SELECT count(*) FROM large l WHERE NOT EXISTS (SELECT 1 FROM small s WHERE s.w = l.k)", 20_000),
        ("SELECT count(*) FROM large l FULL JOIN small s ON l.k = s.w", 20_000),
        // What a limit takes is not to be other rows.
        ("SELECT count(*) <= 300 FROM small s JOIN (SELECT k FROM large LIMIT 15000) l ON l.k = s.w", 15_000),
    ] {
        let (_, expected) = runtime.block_on(testing::answered(&stock, sql));
        let (plan, found) = runtime.block_on(testing::answered(&own, sql));
        assert_eq!(found, expected, "{sql}");
        let rows = scanned(&plan, "large");
        let lines = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
        assert!(lines.contains("UnchainedHashJoinExec"), "{sql}: {lines}");
        let is_right = if most < 15_000 { rows <= most } else { rows >= most };
        assert!(is_right, "{sql}: {rows} of 20000\n{lines}");
        // Once more: nothing that was told before is told again.
        let change = "UPDATE small SET w = w + 7";
        testing::alone(&stock, change).unwrap();
        let (_, expected) = runtime.block_on(testing::answered(&stock, sql));
        let (_, found) = runtime.block_on(testing::answered(&own, sql));
        assert_eq!(found, expected, "{sql}, after {change}");
        testing::alone(&stock, "UPDATE small SET w = w - 7").unwrap();
    }
}
