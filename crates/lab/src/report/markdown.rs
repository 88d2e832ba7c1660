//! The Markdown page: how it was measured, and the table.

use super::{Reported, queries, remarks, table};

/// The page.
pub(super) fn page(runs: &[Reported]) -> String {
    let mut page = String::from("# Measured by ashlar-lab\n");
    for Reported { name, run, .. } in runs {
        page.push_str(&format!("\n## {name}: {}\n\n{}\n\n", run.workload.name, run.workload.question));
        for (what, text) in super::page::facts(run) {
            page.push_str(&format!("- {what}: {text}\n"));
        }
        page.push('\n');
        let table = table::of(&[run]);
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "))
        };
        let whole = |columns: &[String], rows: &[Vec<String>]| {
            let rows: String = rows.iter().map(|row| line(row)).collect();
            format!("{}|{}\n{rows}", line(columns), "---|".repeat(columns.len()))
        };
        page.push_str(&whole(&table.columns, &table.rows));
        for table in queries::of(run).unwrap_or_default() {
            page.push_str(&format!("\n### {}\n\n{}", table.title, whole(&table.columns, &table.rows)));
        }
        for remark in remarks::of(run) {
            page.push_str(&format!("\n{remark}\n"));
        }
    }
    page
}

fn escape(cell: &str) -> String {
    cell.replace('|', "\\|")
}
