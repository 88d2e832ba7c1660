//! Which constants are lifted, and which plan a text finds.

use super::*;
use crate::grammar;

/// The text that is planned for `sql`, and the types it is planned with.
fn lifted(sql: &str) -> Option<(String, Vec<u32>)> {
    let shape = shape(sql)?;
    let parsed = grammar::only_one(grammar::parse(sql).unwrap()).unwrap().unwrap();
    let lifted = lift(sql, &shape, &parsed)?;
    Some((lifted.parsed.text, lifted.declared))
}

fn assert_lifted(sql: &str, text: &str, declared: &[u32]) {
    assert_eq!(lifted(sql), Some((text.to_owned(), declared.to_vec())), "{sql}");
}

#[test]
fn what_is_compared_with_a_column_is_lifted() {
    assert_lifted("SELECT a FROM t WHERE id = 5", "SELECT a FROM t WHERE id = $1", &[INT4]);
    assert_lifted("SELECT a FROM t WHERE 'x' <= b", "SELECT a FROM t WHERE $1 <= b", &[0]);
    assert_lifted(
        "SELECT a FROM t WHERE id > 3000000000 AND (t.b = 'it''s' OR NOT c <> 7);",
        "SELECT a FROM t WHERE id > $1 AND (t.b = $2 OR NOT c <> $3)",
        &[INT8, 0, INT4],
    );
    assert_lifted(
        "DELETE FROM t WHERE a IN (1, 2) AND b BETWEEN 'a' AND 'b'",
        "DELETE FROM t WHERE a IN ($1, $2) AND b BETWEEN $3 AND $4",
        &[INT4, INT4, 0, 0],
    );
}

#[test]
fn what_is_assigned_is_lifted() {
    assert_lifted(
        "INSERT INTO t VALUES (1, 'a', 1.5, NULL), (2, 'b', 2.5, 3 + 4)",
        "INSERT INTO t VALUES ($1, $2, 1.5, NULL), ($3, $4, 2.5, 3 + 4)",
        &[INT4, 0, INT4, 0],
    );
    assert_lifted(
        "UPDATE t SET a = 'x', n = n + -12, m = m * 2 WHERE id = 9",
        "UPDATE t SET a = $1, n = n + $2, m = m * $3 WHERE id = $4",
        &[0, INT4, INT4, INT4],
    );
}

#[test]
fn a_minus_belongs_to_its_constant() {
    assert_lifted("SELECT a FROM t WHERE id = -2147483648", "SELECT a FROM t WHERE id = $1", &[INT4]);
    assert_lifted("SELECT a FROM t WHERE id = - 2147483649", "SELECT a FROM t WHERE id = $1", &[INT8]);
    // A difference is not compared with: it stays.
    assert_eq!(lifted("SELECT a FROM t WHERE id = b -5"), None);
}

#[test]
fn everything_else_stays() {
    for sql in [
        "SELECT 1, 'a' FROM t ORDER BY 1 LIMIT 5",
        "SELECT a FROM t WHERE b LIKE 'x%'",
        "SELECT a FROM t WHERE b = 1.5",
        "SELECT a FROM t WHERE b + 1 = 2",
        "SELECT a FROM t WHERE d = DATE '2024-01-01'",
        "SELECT a FROM t WHERE b = E'x'",
        "SELECT a FROM t WHERE b = 99999999999999999999",
        "SELECT a FROM t GROUP BY a HAVING a > 5",
        "SELECT a FROM t WHERE 1 = 1",
    ] {
        assert_eq!(lifted(sql), None, "{sql}");
    }
    for sql in [
        "SELECT a FROM t WHERE b = $1",
        "SELECT a FROM t WHERE b = 5 -- five",
        "SELECT a /* 5 */ FROM t WHERE b = 5",
        "SELECT 1; SELECT 2",
        "SELECT 'open",
        "SELECT $$5$$",
    ] {
        assert_eq!(shape(sql), None, "{sql}");
    }
}

#[test]
fn a_shape_and_its_constants_are_the_text() {
    for sql in [
        "SELECT a5, \"b 5\", 1e5, 0x1F, 5 FROM t5 WHERE x = 'it''s' AND y = 5",
        "SELECT ''",
        "SELECT ä FROM ö WHERE ü = 'ß' ",
    ] {
        let shape = shape(sql).unwrap();
        let mut constants = shape.constants.iter().map(|constant| constant.text);
        let text: String = shape
            .key
            .chars()
            .map(|c| if c == MARK { constants.next().unwrap().to_owned() } else { c.to_string() })
            .collect();
        assert_eq!(text, sql);
    }
}

#[test]
fn a_plan_is_for_texts_with_the_same_fixed_constants_and_types() {
    let sql = "SELECT a, 'k' FROM t WHERE id = 5 AND b = 'x'";
    let first = shape(sql).unwrap();
    let parsed = grammar::only_one(grammar::parse(sql).unwrap()).unwrap().unwrap();
    let lifting = lift(sql, &first, &parsed).unwrap().lifting;
    let values = |sql: &str| {
        let types = [SqlType::Scalar(ScalarType::Int4), SqlType::Scalar(ScalarType::Text)];
        let shape = shape(sql).unwrap();
        assert_eq!(shape.key, first.key);
        lifting.values(&shape.constants, &types, &TextStyle::default())
    };
    let found = values("SELECT a, 'k' FROM t WHERE id = 77 AND b = 'it''s'");
    assert_eq!(found, Some(vec![Value::Int4(77), Value::Text("it's".into())]));
    assert_eq!(values("SELECT a, 'other' FROM t WHERE id = 5 AND b = 'x'"), None);
    assert_eq!(values("SELECT a, 'k' FROM t WHERE id = 3000000000 AND b = 'x'"), None);
    assert_eq!(values("SELECT a, 'k' FROM t WHERE id = '5' AND b = 'x'"), None);
}
