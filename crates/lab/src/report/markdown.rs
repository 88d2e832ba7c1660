//! The Markdown page: how it was measured, and the table.

use super::{Reported, facts, remarks, table};

/// The page.
pub(super) fn page(runs: &[Reported]) -> String {
    let mut page = String::from("# Measured by ashlar-lab\n");
    for Reported { name, run, .. } in runs {
        page.push_str(&format!("\n## {name}: {}\n\n{}\n\n", run.workload.name, run.workload.question));
        for (what, text) in facts::of(run) {
            page.push_str(&format!("- {what}: {text}\n"));
        }
        page.push('\n');
        let table = table::of(run);
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "))
        };
        page.push_str(&line(&table.columns));
        page.push_str(&format!("|{}\n", "---|".repeat(table.columns.len())));
        table.rows.iter().for_each(|row| page.push_str(&line(row)));
        for remark in remarks::of(run).into_iter().chain(remarks::harness(run)) {
            page.push_str(&format!("\n{remark}\n"));
        }
    }
    page
}

fn escape(cell: &str) -> String {
    cell.replace('|', "\\|")
}
