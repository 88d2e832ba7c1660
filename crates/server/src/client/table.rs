//! Results as aligned text, the way psql prints them.
//!
//! Used by `ashlar sql` and the demo. Pure.

use std::fmt::Write;

use super::pg::Answer;

/// Types whose values stand at the right, as psql has it: numbers and OIDs.
const RIGHT_ALIGNED: [u32; 8] = [20, 21, 23, 26, 700, 701, 1700, 790];

/// A result as a table with a header and the number of rows.
pub fn render(answer: &Answer) -> String {
    let Some(columns) = &answer.columns else { return String::new() };
    let header: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let right: Vec<bool> = columns.iter().map(|column| RIGHT_ALIGNED.contains(&column.type_oid)).collect();
    // A line break inside a value would break the table.
    let shown = |value: &Option<String>| value.as_deref().unwrap_or("").replace('\n', "\\n");
    let rows: Vec<Vec<String>> = answer.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let mut text = align(&header, &rows, &right);
    let _ = writeln!(text, "({} {})", rows.len(), if rows.len() == 1 { "row" } else { "rows" });
    text
}

fn align(header: &[String], rows: &[Vec<String>], right: &[bool]) -> String {
    let widths: Vec<usize> = (0..header.len())
        .map(|place| {
            let values = rows.iter().filter_map(|row| row.get(place));
            values.chain(header.get(place)).map(|value| width(value)).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let titles: Vec<String> = header.iter().zip(&widths).map(|(title, width)| centred(title, *width)).collect();
    let _ = writeln!(text, " {}", titles.join(" | ").trim_end());
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let _ = writeln!(text, "{}", rules.join("+"));
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(place, value)| {
                let padding = " ".repeat(widths[place] - width(value));
                if right[place] { padding + value } else { value.clone() + &padding }
            })
            .collect();
        let _ = writeln!(text, " {}", cells.join(" | ").trim_end());
    }
    text
}

fn centred(title: &str, width_in_all: usize) -> String {
    let space = width_in_all - width(title);
    format!("{}{title}{}", " ".repeat(space / 2), " ".repeat(space - space / 2))
}

/// Characters, which is what terminals mostly show one column for.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::pg::ResultColumn;
    use expect_test::expect;

    fn column(name: &str, type_oid: u32) -> ResultColumn {
        ResultColumn { name: name.to_owned(), type_oid }
    }

    #[test]
    fn numbers_stand_at_the_right_and_nulls_are_blank() {
        let answer = Answer {
            columns: Some(vec![column("name", 25), column("n", 20)]),
            rows: vec![
                vec![Some("é".to_owned()), Some("1".to_owned())],
                vec![Some("two\nlines".to_owned()), Some("1000".to_owned())],
                vec![None, None],
            ],
            ..Answer::default()
        };
        expect![[r#"
                name    |  n
            ------------+------
             é          |    1
             two\nlines | 1000
                        |
            (3 rows)
        "#]]
        .assert_eq(&render(&answer));
    }

    #[test]
    fn a_statement_without_rows_is_no_table() {
        assert_eq!(render(&Answer { tag: "CREATE TABLE".to_owned(), ..Answer::default() }), "");
    }
}
