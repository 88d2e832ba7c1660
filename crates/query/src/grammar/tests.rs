//! Positions and messages are those of PostgreSQL 15 for the same text.

use super::*;

fn failure(sql: &str) -> (String, Option<u32>) {
    let error = parse(sql).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SyntaxError);
    (error.message().to_owned(), error.fields().position)
}

#[test]
fn syntax_errors_say_where() {
    assert_eq!(failure("SELEC 1"), ("syntax error at or near \"SELEC\"".into(), Some(1)));
    assert_eq!(failure("SELECT 1 FROM"), ("syntax error at end of input".into(), Some(14)));
    assert_eq!(failure("SELECT a FROM t WHERE FROM"), ("syntax error at or near \"FROM\"".into(), Some(23)));
    assert_eq!(failure("SELECT 'ä', FROM t"), ("syntax error at or near \"FROM\"".into(), Some(13)));
}

#[test]
fn statements_keep_their_own_text() {
    let statements = parse("SELECT 1; ;\n  INSERT INTO t VALUES (1) ; SELECT 2").unwrap();
    let texts: Vec<&str> = statements.iter().map(|statement| statement.text.as_str()).collect();
    assert_eq!(texts, ["SELECT 1", "INSERT INTO t VALUES (1)", "SELECT 2"]);
}

#[test]
fn empty_strings_have_no_statement() {
    assert!(parse("").unwrap().is_empty());
    assert!(parse(" ; -- nothing\n").unwrap().is_empty());
}

#[test]
fn names_are_found_as_words() {
    assert_eq!(position_of_name("SELECT xy, x FROM t", "x"), Some(12));
    assert_eq!(position_of_name("SELECT 'x', x", "x"), Some(13));
    assert_eq!(position_of_name("SELECT y", "x"), None);
}
