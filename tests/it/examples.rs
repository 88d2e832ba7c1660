//! The examples of reference pages: every `sql` block runs, one after the other, and what it gives is what the `text` block behind it
//! shows: rows, a bar between columns, or an error. `...` stands for anything. Without such a block nothing comes back.

use ashlar_tests::tools::repository;
use ashlar_tests::{Ashlar, Options};

/// The pages, and how many blocks of SQL each has at the least.
const PAGES: [(&str, usize); 1] = [("docs/reference/indexes.md", 12)];

#[test]
fn examples_of_reference_pages_are_true() {
    for (page, least) in PAGES {
        let text = std::fs::read_to_string(repository().join(page)).unwrap();
        let server = Ashlar::start(Options::default()).unwrap();
        let mut client = server.connect();
        let mut blocks = blocks(&text).into_iter().peekable();
        let mut examples = 0;
        while let Some((language, sql)) = blocks.next() {
            assert_eq!(language, "sql", "{page}: nothing runs this:\n{sql}");
            let mut found: Vec<String> = Vec::new();
            for statement in sql.split_inclusive(";\n") {
                match client.query(statement) {
                    Ok(rows) => found.extend(rows.into_iter().map(line)),
                    Err(error) => found.push(error.to_string()),
                }
            }
            let found = found.join("\n");
            let shown = blocks.next_if(|(language, _)| language == "text").map_or(String::new(), |(_, shown)| shown);
            assert!(is_like(&found, shown.trim_end()), "{page}: {sql}gives\n{found}\nwhich is shown as\n{shown}");
            examples += 1;
        }
        assert!(examples >= least, "{page} has only {examples} examples");
        server.stop();
    }
}

#[test]
fn what_is_shown_may_leave_something_out() {
    for (found, shown, is_same) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a", false),
        ("a and b", "a...b", true),
        ("a and b", "...and...", true),
        ("a and b", "...and", false),
        ("a and b", "and...", false),
        ("", "", true),
        ("23505: duplicate", "", false),
    ] {
        assert_eq!(is_like(found, shown), is_same, "{found:?} {shown:?}");
    }
}

/// A row as a line.
fn line(row: Vec<Option<String>>) -> String {
    let values: Vec<String> = row.into_iter().map(|value| value.unwrap_or_else(|| "NULL".to_owned())).collect();
    values.join(" | ")
}

/// Whether what was found is what is shown.
fn is_like(found: &str, shown: &str) -> bool {
    let pieces: Vec<&str> = shown.split("...").collect();
    let [first, between @ .., last] = &pieces[..] else { return found == shown };
    let Some(mut rest) = found.strip_prefix(first) else { return false };
    for piece in between {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The fenced blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        if let Some((_, text)) = &mut open {
            if line == "```" {
                blocks.extend(open.take());
            } else {
                text.push_str(line);
                text.push('\n');
            }
        } else if let Some(language) = line.strip_prefix("```") {
            open = Some((language.to_owned(), String::new()));
        }
    }
    blocks
}
