//! What is kept of comments, and what becomes of it with the table.

use super::super::stored_definition::StoredTable;
use super::{BETWEEN, TablePart, kept_with};

/// What is said, by part.
fn said(text: &str) -> Vec<(TablePart, String)> {
    let kept = StoredTable::read("t", text).unwrap();
    kept.comments.iter().map(|(part, text)| (part.clone(), text.to_string())).collect()
}

fn column(name: &str, text: &str) -> (TablePart, String) {
    (TablePart::Column(name.to_owned()), text.to_owned())
}

#[test]
fn comments_go_where_their_columns_go() {
    let mut text = "CREATE TABLE t (k int PRIMARY KEY, a int, b int)".to_owned();
    for next in [
        "COMMENT ON TABLE t IS 'table'",
        "COMMENT ON COLUMN t.a IS 'first'",
        "COMMENT ON COLUMN t.b IS 'gone'",
        "COMMENT ON CONSTRAINT t_pkey ON t IS 'key'",
        "ALTER TABLE t RENAME COLUMN a TO c",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t ADD COLUMN a int",
        "ALTER TABLE t ADD COLUMN b int",
        "COMMENT ON COLUMN t.a IS 'second'",
    ] {
        text = format!("{text}{BETWEEN}{next}");
    }
    let expected = [
        (TablePart::Table, "table".to_owned()),
        column("a", "second"),
        column("c", "first"),
        (TablePart::Key, "key".to_owned()),
    ];
    assert_eq!(said(&text), expected);
    let text = format!("{text}{BETWEEN}ALTER TABLE t DROP CONSTRAINT t_pkey");
    assert_eq!(said(&text), expected[..3]);
}

#[test]
fn what_is_said_again_is_kept_once() {
    let made = "CREATE TABLE t (k int PRIMARY KEY, a int)";
    let part = TablePart::Column("a".to_owned());
    let one = kept_with(made, &part, "COMMENT ON COLUMN t.a IS 'one'".to_owned()).unwrap();
    let two = kept_with(&one, &part, "COMMENT ON COLUMN t.a IS 'two'".to_owned()).unwrap();
    assert_eq!(said(&two), [column("a", "two")]);
    assert_eq!(two.matches("COMMENT").count(), 1, "{two}");
    let none = kept_with(&two, &part, "COMMENT ON COLUMN t.a IS NULL".to_owned()).unwrap();
    assert!(said(&none).is_empty(), "{none}");
    // Another column has had the name before.
    let renamed = format!("{one}{BETWEEN}ALTER TABLE t RENAME COLUMN a TO b{BETWEEN}ALTER TABLE t ADD COLUMN a int");
    let both = kept_with(&renamed, &part, "COMMENT ON COLUMN t.a IS 'new'".to_owned()).unwrap();
    assert_eq!(said(&both), [column("a", "new"), column("b", "one")]);
}
