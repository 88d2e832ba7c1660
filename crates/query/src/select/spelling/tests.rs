//! Texts before and after, as PostgreSQL reads both.

use super::plain;

#[test]
fn spellings_become_plain() {
    for (text, expected) in [
        ("select a isnull, b notnull", "select a IS NULL, b IS NOT NULL"),
        ("select 'isnull' -- only", "select 'isnull' -- only"),
        ("table t", "SELECT * FROM t"),
        ("select * from only t fetch first 2 rows only", "select * from  t fetch first 2 rows only"),
        ("select 'a'\n  'b'", "select 'ab'"),
        ("select 'a''b\nc'", "select 'a''b\nc'"),
        ("select E'a\\''\n'b'", "select E'a\\'b'"),
        ("select 'a' -- it's\n 'b'", "select 'ab'"),
        (r"select U&'d\0061t\+000061'", "select 'data'"),
        ("select U&'d!0061' UESCAPE '!'", "select 'da'"),
        (r#"select U&"\0069d" from t"#, r#"select "id" from t"#),
        ("select 5 between symmetric 10 and 1", "select 5 between !! 10 and 1"),
        ("select t_1.x from t_1", "select t_1.x from t_1"),
        ("select Top.x from t Top", "select \"top\".x from t \"top\""),
        ("select a as only, b as table from only t", "select a as \"only\", b as \"table\" from  t"),
        (
            "select sum(a) over (partition by b) from t partition",
            "select sum(a) over (partition by b) from t \"partition\"",
        ),
        ("select a + interval '1 day', interval from t", "select a + interval '1 day', \"interval\" from t"),
        (
            "select exists /* of */ (select 1) from t group by cube -- c\n (a)",
            "select exists /* of */ (select 1) from t group by cube -- c\n (a)",
        ),
        (
            "select sum(a) over (partition /* c */ by b), interval /* c */ '1 day' from unnest /* c */ (xs)",
            "select sum(a) over (partition /* c */ by b), interval /* c */ '1 day' from unnest /* c */ (xs)",
        ),
        ("select 1 as isnull order by 1", "select 1 as \"isnull\" order by 1"),
        ("select 1 as table union all table t", "select 1 as \"table\" union all SELECT * FROM t"),
        (
            "select 1 from t where a between interval - 1 and 5",
            "select 1 from t where a between \"interval\" - 1 and 5",
        ),
        ("select a::interval, cast(b as interval) from t", "select a::interval, cast(b as interval) from t"),
        (
            "select format('%s', a), exists (select 1), trim(a) from t group by cube (a)",
            "select format('%s', a), exists (select 1), trim(a) from t group by cube (a)",
        ),
        ("group by rollup ((a)::int)", "group by rollup (((a)::int))"),
        ("group by cube (a, (b)::int, (c, d))", "group by cube (a, ((b)::int), (c, d))"),
        ("group by grouping sets ((a), (), ((b) + 1), (c))", "group by grouping sets ((a), (), ((b) + 1), (c))"),
        (
            "group by grouping sets ((a + 1) * 2, rollup ((b)::text, f((c), d)), (x))",
            "group by grouping sets (((a + 1) * 2), rollup (((b)::text), f((c), d)), (x))",
        ),
        ("select trim(leading from x) from t", "select trim(leading ' ' from x) from t"),
        ("select trim(from x), trim(both 'a' from x)", "select trim(BOTH ' ' FROM x), trim(both 'a' from x)"),
        ("select trim(x) from trim", "select trim(x) from \"trim\""),
        (
            "update t set xs[2] = 5, s = xs[1] where xs[1] = 3",
            "update t set xs = \"array with item\"(xs, 2, 5), s = xs[1] where xs[1] = 3",
        ),
        (
            "UPDATE t SET \"Xs\"[n + f(1, 2)] = a IS DISTINCT FROM (SELECT 1) FROM u",
            "UPDATE t SET \"Xs\" = \"array with item\"(\"Xs\", n + f(1, 2), a IS DISTINCT FROM (SELECT 1)) FROM u",
        ),
        ("select 0x1F, 0b1_01, 0o17, 1_000, 1_0.5_0, a_1", "select 31, 5, 15, 1000, 10.50, a_1"),
        ("select json_array(0x_1 null on null)", "select json_build_array(1 )"),
        ("update t set xs[1:2] = '{1}'", "update t set xs[1:2] = '{1}'"),
        ("select key from t for  no key\nupdate", "select key from t FOR UPDATE OF \"\u{1}no key update\""),
        (
            "select a from t for key share of t skip locked",
            "select a from t FOR SHARE OF \"\u{1}key share\". t skip locked",
        ),
        ("select key from t for update", "select key from t for update"),
        ("update t set xs[1][2] = 1", "update t set xs[1][2] = 1"),
    ] {
        assert_eq!(plain(text).unwrap(), expected);
    }
}

/// Words of other databases are names here: each word of the parser's that PostgreSQL takes for a name, where it does so.
#[test]
fn words_of_others_are_names() {
    use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
    use datafusion::sql::sqlparser::parser::Parser;
    use pg_query::protobuf::KeywordKind;

    const PLACES: [&str; 24] = [
        "SELECT W.a FROM t AS W",
        "SELECT W FROM t",
        "SELECT DISTINCT W FROM t",
        "SELECT ALL W.a, W FROM t",
        "SELECT a AS W FROM t",
        "SELECT a W FROM t",
        "SELECT a FROM t W",
        "SELECT W.* FROM t W",
        "WITH W AS (SELECT 1 AS x) SELECT x FROM W",
        "WITH W AS (SELECT 1 AS x) SELECT W.x FROM t JOIN W ON W.x = t.a",
        "SELECT a FROM t ORDER BY W",
        "SELECT a FROM t ORDER BY W DESC, a",
        "SELECT a FROM t GROUP BY W",
        "SELECT a FROM t GROUP BY a, W HAVING W > 1",
        "SELECT a FROM t W JOIN u ON W.a = u.a",
        "SELECT a FROM t JOIN u W ON W.a = t.a WHERE W.b",
        "SELECT a FROM (SELECT 1) W",
        "INSERT INTO t (W) VALUES (1) RETURNING W",
        "UPDATE t SET W = 1",
        "UPDATE t W SET a = W.b",
        "DELETE FROM t W WHERE W.a = 1",
        "SELECT a FROM t WHERE W = 1 AND a = W",
        "SELECT f(W), (W), a + W FROM t",
        "SELECT CASE WHEN W THEN W ELSE W END FROM t AS x (W)",
    ];
    let parsed = |sql: &str| {
        let plain = plain(sql).unwrap();
        Parser::parse_sql(&super::super::dialect::Postgres, &plain).map(|parsed| parsed[0].to_string())
    };
    // The letter, where it stands by itself.
    let replaced = |piece: &str, name: &str| {
        let begin = piece.trim_start_matches(['(', 'f']).len();
        let (before, rest) = piece.split_at(piece.len() - begin);
        match rest.strip_prefix('W') {
            Some(behind) if !behind.starts_with(|char: char| char.is_ascii_alphabetic()) => {
                format!("{before}{name}{behind}")
            }
            _ => piece.to_owned(),
        }
    };
    let mut odd = Vec::new();
    for word in ALL_KEYWORDS.iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic())) {
        let word = word.to_ascii_lowercase();
        let kind = pg_query::scan(&word).unwrap().tokens[0].keyword_kind();
        for place in PLACES {
            // Reserved words are labels alone; what may stand between two expressions is none without AS; SET begins what an UPDATE does.
            let is_odd = match kind {
                KeywordKind::ReservedKeyword => !place.contains("AS W FROM"),
                KeywordKind::ColNameKeyword | KeywordKind::TypeFuncNameKeyword => place.contains("a W FROM"),
                KeywordKind::NoKeyword | KeywordKind::UnreservedKeyword => word == "set",
            };
            if is_odd {
                continue;
            }
            let with = |name: &str| place.split_inclusive(' ').map(|piece| replaced(piece, name)).collect::<String>();
            let said = with(&word);
            if crate::grammar::parse(&said).is_err() {
                continue;
            }
            let expected = parsed(&with(&format!("\"{word}\""))).unwrap().replace('"', "");
            match parsed(&said) {
                Ok(found) if found.replace('"', "") == expected => {}
                other => odd.push(format!("{said}: {other:?}")),
            }
        }
    }
    assert!(odd.is_empty(), "{} of:\n{}", odd.len(), odd.join("\n"));
}
