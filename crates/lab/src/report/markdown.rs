//! The Markdown page: how it was measured, and the tables.

use super::table::Table;
use super::{Reported, below, facts, remarks, table};

/// The page.
pub(super) fn page(runs: &[Reported]) -> String {
    let mut page = String::from("# Measured by ashlar-lab\n");
    for Reported { name, run, .. } in runs {
        page.push_str(&format!("\n## {name}: {}\n\n{}\n\n", run.workload.name, run.workload.question));
        for (what, text) in facts::of(run) {
            page.push_str(&format!("- {what}: {text}\n"));
        }
        page.push('\n');
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "))
        };
        let whole = |Table { columns, rows }: &Table| {
            let rows: String = rows.iter().map(|row| line(row)).collect();
            format!("{}|{}\n{rows}", line(columns), "---|".repeat(columns.len()))
        };
        page.push_str(&whole(&table::of(run)));
        for (title, table) in below(run) {
            page.push_str(&format!("\n### {title}\n\n{}", whole(&table)));
        }
        for remark in remarks::of(run).into_iter().chain(remarks::harness(run)) {
            page.push_str(&format!("\n{remark}\n"));
        }
    }
    page
}

fn escape(cell: &str) -> String {
    cell.replace('|', "\\|")
}
