//! What a scan of files leaves unread: the row groups that a join has no use for.

use std::fs::File;

use arrow::array::{ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch, StringArray};
use ashlar_base::value::text::Zone;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::engine::{Operators, Whose};
use crate::testing;

const GROUPS: usize = 10;
const GROUP_ROWS: usize = 1000;

/// What counts row groups that are left out when a file is opened, and while it is read.
const AT_OPENING: &str = "row_groups_pruned_statistics";
const LATER: &str = "row_groups_pruned_dynamic_filter";

/// A file of this test, removed at its end.
struct Written(PathBuf);

impl Written {
    /// Row groups whose keys follow one another, of four types.
    fn new() -> Self {
        let all = || 0..(GROUPS * GROUP_ROWS) as i32;
        let columns: [(&str, ArrayRef); 4] = [
            ("id", Arc::new(all().map(i64::from).collect::<Int64Array>())),
            ("k", Arc::new(all().collect::<Int32Array>())),
            ("t", Arc::new(all().map(|row| Some(format!("{row:05}"))).collect::<StringArray>())),
            ("d", Arc::new(all().map(Some).collect::<Date32Array>())),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let path = std::env::temp_dir().join(format!("ashlar-files-test-{}.parquet", std::process::id()));
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(GROUP_ROWS)).build();
        let file = File::create_new(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        assert_eq!(writer.close().unwrap().num_row_groups(), GROUPS);
        Self(path)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Row groups that scans of files have left out, and rows that left them.
fn left_out_and_read(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    let left_out_by = |metric: &MetricValue| match metric {
        MetricValue::PruningMetrics { name, pruning_metrics } if *name == AT_OPENING => pruning_metrics.pruned(),
        MetricValue::Count { name, count } if *name == LATER => count.value(),
        _ => 0,
    };
    let (mut left_out, mut read) = (0, 0);
    plan.apply(|node| {
        if node.name() == "DataSourceExec"
            && let Some(metrics) = node.metrics()
        {
            read += metrics.output_rows().unwrap_or(0);
            left_out += metrics.iter().map(|metric| left_out_by(metric.value())).sum::<usize>();
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    (left_out, read)
}

#[test]
fn row_groups_without_a_partner_are_not_read() {
    let written = Written::new();
    let own = testing::engine_with(&[
        "CREATE TABLE near (w bigint)",
        "CREATE TABLE few (w bigint, k integer, t text, d date)",
        // More keys than are listed, all of them of one row group; and two, of two.
        "INSERT INTO near SELECT 3200 + 2 * i FROM generate_series(1, 40) AS g(i)",
        "INSERT INTO few VALUES (1500, 1500, '01500', date '1970-01-01' + 1500), (NULL, NULL, NULL, NULL)",
        "INSERT INTO few VALUES (8500, 8500, '08500', date '1970-01-01' + 8500)",
    ]);
    let foreign = format!("CREATE FOREIGN TABLE many () SERVER files OPTIONS (path '{}')", written.0.display());
    testing::alone(&own, &foreign).unwrap();
    let stock = own.of_session(Zone::Utc, Operators { joins: Whose::Stock, ..Operators::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // With the row groups that are left out.
    for (sql, groups) in [
        ("SELECT count(*), sum(m.id) FROM many m JOIN near n ON m.id = n.w", 9),
        ("SELECT m.t FROM many m WHERE m.id IN (SELECT w FROM near)", 9),
        ("SELECT n.w, m.t FROM near n LEFT JOIN many m ON m.id = n.w", 9),
        ("SELECT m.t FROM many m JOIN few f ON m.id = f.w", 8),
        ("SELECT m.t FROM many m JOIN few f ON m.k = f.k", 8),
        ("SELECT m.id FROM many m JOIN few f ON m.t = f.t", 8),
        ("SELECT m.t FROM many m JOIN few f ON m.d = f.d", 8),
        // All rows matter.
        ("SELECT count(*), count(n.w) FROM many m LEFT JOIN near n ON m.id = n.w", 0),
        ("SELECT count(*) FROM many m WHERE NOT EXISTS (SELECT 1 FROM near n WHERE n.w = m.id)", 0),
    ] {
        let (_, expected) = runtime.block_on(testing::answered(&stock, sql));
        let (plan, found) = runtime.block_on(testing::answered(&own, sql));
        assert_eq!(found, expected, "{sql}");
        let lines = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
        assert!(lines.contains("UnchainedHashJoinExec"), "{sql}: {lines}");
        let (left_out, read) = left_out_and_read(&plan);
        assert_eq!(left_out, groups, "{sql}: {lines}");
        let most = (GROUPS - groups) * GROUP_ROWS;
        // Of a row group that is read, pages may be left out too.
        assert!(read > 0 && read <= most && (groups > 0 || read == most), "{sql}: {read}\n{lines}");
    }
}
