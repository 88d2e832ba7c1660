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
        ("group by rollup ((a)::int)", "group by rollup (((a)::int))"),
        ("group by cube (a, (b)::int, (c, d))", "group by cube (a, ((b)::int), (c, d))"),
        ("group by grouping sets ((a), (), ((b) + 1), (c))", "group by grouping sets ((a), (), ((b) + 1), (c))"),
        (
            "group by grouping sets ((a + 1) * 2, rollup ((b)::text, f((c), d)), (x))",
            "group by grouping sets (((a + 1) * 2), rollup (((b)::text), f((c), d)), (x))",
        ),
        ("select trim(leading from x) from t", "select trim(leading ' ' from x) from t"),
        ("select trim(from x), trim(both 'a' from x)", "select trim(BOTH ' ' FROM x), trim(both 'a' from x)"),
        ("select trim(x) from trim", "select trim(x) from trim"),
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
