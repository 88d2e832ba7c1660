//! Routes of statements, in a small world of tables of every placement.

use ashlar_base::Value;

use super::{Decision, Merge, Parameter, Request, Route, Source, Spread, route};
use crate::rules::Generator;

mod conditions;
mod joined;
mod joins;
mod told;
mod twin;
mod world;
mod writes;

use world::World;

impl World {
    pub(crate) fn route(&self, sql: &str) -> ashlar_base::Result<Option<Route>> {
        let parsed = pg_query::parse(sql, 0).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let node = parsed.protobuf.stmts[0].stmt.as_ref().unwrap().node.as_ref().unwrap();
        route(&Source { text: sql, offset: 0, node }, self)
    }

    fn spread(&self, sql: &str) -> ashlar_base::Result<Spread> {
        let parsed = pg_query::parse(sql, 0).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let node = parsed.protobuf.stmts[0].stmt.as_ref().unwrap().node.as_ref().unwrap();
        Spread::new(&Source { text: sql, offset: 0, node }, self)
    }

    /// Where a statement goes, in a few words.
    fn goes(&self, sql: &str, parameters: &[Parameter<'_>]) -> String {
        let route = match self.route(sql) {
            Ok(Some(route)) => route,
            Ok(None) => return "elsewhere".to_owned(),
            Err(error) => return format!("{}: {}", error.code().sqlstate(), error.message()),
        };
        let generate = |generator| match generator {
            Generator::Snowflake => Ok(Value::Int8(7)),
            Generator::UuidV7 => Ok(Value::Uuid([7; 16])),
        };
        let request = Request { parameters: &parameters, generate: Some(&generate), ..Request::default() };
        match decided(&route, &request) {
            Ok(Decision::Engine { reason }) => format!("engine: {reason}"),
            Ok(Decision::Forward(forward)) => {
                let shards: Vec<String> = forward.statements.iter().map(|one| one.shard.to_string()).collect();
                let merge = match forward.merge {
                    Merge::Pass => String::new(),
                    Merge::Rows(gathering) => {
                        format!(
                            " Rows {}+{}",
                            gathering.skip,
                            gathering.take.map_or("all".into(), |take| take.to_string())
                        )
                    }
                    other => format!(" {other:?}"),
                };
                format!("{}{merge}", shards.join(","))
            }
            Err(error) => format!("{}: {}", error.code().sqlstate(), error.message()),
        }
    }

    /// What the shards are sent.
    fn texts(&self, sql: &str) -> Vec<(String, String, Option<Vec<u16>>)> {
        let route = self.route(sql).unwrap().unwrap();
        let generate = |_| Ok(Value::Int8(7));
        let parameters = vec![Parameter { oid: 20, is_binary: false, bytes: Some(b"4") }; 4];
        let request = Request { parameters: &parameters, generate: Some(&generate), ..Request::default() };
        match decided(&route, &request).unwrap() {
            Decision::Forward(forward) => forward
                .statements
                .into_iter()
                .map(|one| (one.server.to_owned(), one.text.into_owned(), one.parameters))
                .collect(),
            Decision::Engine { reason } => panic!("{sql}: {reason}"),
        }
    }
}

pub(crate) fn text(oid: u32, text: &str) -> Parameter<'_> {
    Parameter { oid, is_binary: false, bytes: Some(text.as_bytes()) }
}

/// Each statement with where it must go; a text that ends in `...` need only begin so.
fn check(cases: &[(&str, &str)]) {
    let world = World::new();
    for (sql, expected) in cases {
        let goes = world.goes(sql, &[]);
        match expected.strip_suffix("...") {
            Some(beginning) => assert!(goes.starts_with(beginning), "{sql}\n  goes {goes}\n  not  {expected}"),
            None => assert_eq!(goes, *expected, "{sql}"),
        }
    }
}

/// What a route decides; where it says at once what that is, it says the same.
fn decided<'r>(route: &'r Route, request: &Request<'_>) -> ashlar_base::Result<Decision<'r>> {
    let decision = route.decide(request);
    if let Some(one) = route.at_once(request) {
        let Ok(Decision::Forward(forward)) = &decision else { panic!("{one:?}, but {decision:?}") };
        let [statement] = &forward.statements[..] else { panic!("{one:?}, but {forward:?}") };
        assert_eq!((&**one.server, one.shard, one.text), (statement.server, statement.shard, &*statement.text));
        assert_eq!((&forward.merge, &statement.parameters), (&Merge::Pass, &None));
        assert_eq!(one.is_as_sent, *one.text == *route.text);
    }
    decision
}

#[test]
fn a_key_leads_to_its_shard() {
    check(&[
        ("SELECT * FROM a WHERE k = 4", "1"),
        ("SELECT * FROM a WHERE 5 = k AND x > 3", "2"),
        ("SELECT * FROM a WHERE k = -1", "2"),
        ("SELECT * FROM a WHERE k = '4'::int8", "1"),
        ("SELECT x FROM public.a WHERE public.a.k = 4", "1"),
        ("SELECT * FROM a AS z WHERE z.k = 4", "1"),
        ("SELECT * FROM a z(q, w) WHERE q = 4", "1"),
        ("SELECT * FROM a WHERE k = 4 AND k = 7", "0"),
        ("SELECT * FROM a WHERE k = 4 AND k = 5", "0"),
        ("SELECT * FROM a WHERE k = NULL", "0"),
        ("SELECT * FROM a WHERE k IN (4, 7, 10)", "1"),
        ("SELECT * FROM a WHERE k IN (4, 5)", "1,2 Concat"),
        ("SELECT * FROM a WHERE k = ANY (ARRAY[4, 7])", "1"),
        ("SELECT * FROM a WHERE k = 4 OR k = 7", "1"),
        ("SELECT * FROM a WHERE k = 4 OR x = 7", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE k = 4 AND (x = 7 OR t = 'x')", "1"),
        ("SELECT * FROM a WHERE (k = 4 AND x = 1) OR (k = 5 AND x = 2)", "1,2 Concat"),
        ("SELECT * FROM a WHERE NOT k = 4", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE k <> 4", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE k + 0 = 4", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE k = 1.0", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE k BETWEEN 4 AND 5", "1,2 Concat"),
        ("SELECT * FROM a WHERE k > 3 AND k < 5", "1"),
        ("SELECT * FROM a WHERE false", "0"),
        ("SELECT * FROM a WHERE k IS NOT DISTINCT FROM 4", "1"),
        ("SELECT * FROM a", "0,1,2 Concat"),
        ("SELECT * FROM r WHERE k < 10", "0"),
        ("SELECT * FROM r WHERE k <= 10", "0,1 Concat"),
        ("SELECT * FROM r WHERE k >= 20", "2"),
        ("SELECT * FROM r WHERE 12 <= k AND k < 20", "1"),
        ("SELECT * FROM l WHERE t = 'at'", "0"),
        ("SELECT * FROM l WHERE t = 'fr'", "2"),
        ("SELECT * FROM l WHERE t > 'at'", "0,1,2 Concat"),
        ("SELECT * FROM d WHERE day = '2026-03-01'", "1"),
        ("SELECT * FROM d WHERE day >= DATE '2026-07-01'", "2"),
        ("SELECT * FROM d WHERE day < timestamp '2026-01-01 10:00'", "0,1,2 Concat"),
        ("SELECT * FROM p WHERE m = 1", "0,1,2 Concat"),
        // Rows as values, with columns besides the key.
        ("SELECT * FROM a WHERE (k, x) = (4, 1)", "1"),
        ("SELECT * FROM a WHERE ROW (x, k) = ROW (1, 4)", "1"),
        ("SELECT * FROM a WHERE (4, 1) = (k, x)", "1"),
        ("SELECT * FROM a WHERE (k, x) IN ((4, 1), (7, 2))", "1"),
        ("SELECT * FROM a WHERE (x, k) IN ((1, 4), (2, 5))", "1,2 Concat"),
        ("SELECT * FROM a WHERE (k, x) = (4, 1) OR x = 2", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE NOT (k, x) = (4, 1)", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE (k, x) <> (4, 1)", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE (x, k) NOT IN ((1, 4))", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE (x, k) < (1, 4)", "0,1,2 Concat"),
        // Where the first members differ the key may be any.
        ("SELECT * FROM r WHERE (x, k) < (1, 4)", "0,1,2 Concat"),
        ("SELECT * FROM r WHERE (x, k) >= (1, 20)", "0,1,2 Concat"),
        ("SELECT * FROM r WHERE (k, x) = (10, 1)", "1"),
        ("SELECT * FROM a WHERE (k, x) IN (SELECT k, x FROM c)", "0,1,2 Concat"),
        ("SELECT * FROM a WHERE (k, x) IN (SELECT k, x FROM c WHERE k = 4)", "1"),
        ("SELECT * FROM a WHERE (k, x) IN (SELECT x, k FROM c)", "engine..."),
        ("SELECT * FROM local", "elsewhere"),
    ]);
    let world = World::new();
    let both = world.goes("SELECT * FROM p WHERE m = 1 AND n = 'x'", &[]);
    assert_eq!(both.len(), 1, "{both}");
    assert_eq!(world.goes("SELECT * FROM p WHERE (m, n) = (1, 'x')", &[]), both);
    assert_eq!(world.goes("SELECT * FROM p WHERE (m, n) IN ((1, 'x'))", &[]), both);
    assert_eq!(world.goes("SELECT * FROM p WHERE (n, x, m) = ('x', 5, 1)", &[]), both);
    assert_eq!(world.goes("SELECT * FROM p WHERE (m, x) = (1, 5)", &[]), "0,1,2 Concat");
    assert_eq!(world.goes("SELECT * FROM p WHERE m = 1 AND (n = 'x' OR (n = 'x' AND x = 2))", &[]), both);
}

#[test]
fn parameters_lead_to_their_shards() {
    let world = World::new();
    let sql = "SELECT * FROM a WHERE k = $1";
    assert_eq!(world.goes(sql, &[text(20, "4")]), "1");
    assert_eq!(world.goes(sql, &[text(0, "4")]), "1");
    assert_eq!(world.goes(sql, &[Parameter { oid: 20, is_binary: true, bytes: Some(&[0, 0, 0, 0, 0, 0, 0, 5]) }]), "2");
    assert_eq!(world.goes(sql, &[Parameter { oid: 23, is_binary: true, bytes: Some(&[0, 0, 0, 5]) }]), "2");
    assert_eq!(world.goes(sql, &[Parameter { oid: 20, is_binary: false, bytes: None }]), "0", "NULL is nowhere");
    assert_eq!(world.goes(sql, &[text(1700, "4")]), "0,1,2 Concat", "a numeric may be no integer");
    assert_eq!(world.goes(sql, &[]), "0,1,2 Concat");
    assert_eq!(world.goes("SELECT * FROM a WHERE k = ANY ($1)", &[text(1016, "{4,7}")]), "1");
    assert_eq!(world.goes("SELECT * FROM a WHERE k IN ($1, $2)", &[text(20, "4"), text(20, "6")]), "0,1 Concat");
    assert_eq!(world.goes("SELECT * FROM a WHERE k = $1::int8", &[text(20, "4")]), "1");
    assert_eq!(world.goes("SELECT * FROM a WHERE k = $1::numeric", &[text(1700, "4")]), "0,1,2 Concat");
    let row = "SELECT * FROM a WHERE (k, x) = ($1, $2)";
    assert_eq!(world.goes(row, &[text(20, "4"), text(23, "1")]), "1");
    assert_eq!(world.goes(row, &[text(20, "5"), text(23, "4")]), "2");
    let rows = "SELECT * FROM a WHERE (x, k) IN ((1, $1), ($3, $2))";
    assert_eq!(world.goes(rows, &[text(20, "4"), text(20, "7"), text(23, "2")]), "1");
    assert_eq!(world.goes(rows, &[text(20, "4"), text(20, "5"), text(23, "2")]), "1,2 Concat");
    let uuid = "SELECT * FROM u WHERE g = $1";
    let one = world.goes(uuid, &[text(2950, "c0ffee00-1234-5678-9abc-def012345678")]);
    assert_eq!(world.goes("SELECT * FROM u WHERE g = 'C0FFEE00-1234-5678-9abc-def012345678'", &[]), one);
}

#[test]
fn what_shards_cannot_do_apart_is_left_to_the_engine() {
    check(&[
        ("SELECT count(*) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT avg(x) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT avg(DISTINCT x) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT avg(DISTINCT x + 1) FROM a", "engine..."),
        ("SELECT avg(x) FILTER (WHERE k > 3) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT avg(x) FILTER (WHERE k > (SELECT 3)) FROM a", "engine..."),
        ("SELECT avg((SELECT max(y) FROM b WHERE b.k = a.k)) FROM a", "engine..."),
        ("SELECT stddev(x), var_pop(x + 1) FILTER (WHERE k > 3) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT stddev(DISTINCT x) FROM a", "engine..."),
        ("SELECT variance(random()) FROM a", "engine..."),
        ("SELECT variance(x) FILTER (WHERE random() < 0.5) FROM a", "engine..."),
        ("SELECT avg(x) FILTER (WHERE random() < 0.5) FROM a", "engine..."),
        ("SELECT avg(CASE WHEN random() < 0.5 THEN x END) FROM a", "engine..."),
        ("SELECT avg(CASE WHEN t <> '' THEN x END) FILTER (WHERE k < 5) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT corr(x, k) FROM a", "engine..."),
        ("SELECT count(DISTINCT x) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT count(DISTINCT x), 'x' AS what FROM a", "engine..."),
        ("SELECT count(DISTINCT x) FROM a WHERE k IN (4, 5)", "1,2 Rows 0+all"),
        ("SELECT bit_and(x), bit_or(DISTINCT x), bit_xor(k) FILTER (WHERE k > 3) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT bit_xor(DISTINCT x) FROM a", "engine..."),
        ("SELECT count(*) + 1 FROM a", "0,1,2 Rows 0+all"),
        ("SELECT count(DISTINCT x) * 2, round(avg(x), 1), -sum(k) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT sum(x)::text FROM a", "engine..."),
        ("SELECT sum(x) * $1 FROM a", "0,1,2 Rows 0+all"),
        ("SELECT sum(x) * $1 FROM a WHERE x > $1", "engine..."),
        ("SELECT round(avg(x), $1) FROM a", "engine..."),
        ("SELECT count(DISTINCT x) * $1 FROM a", "engine..."),
        ("SELECT x::numeric(9, 2) + 1, count(*) FROM a GROUP BY x", "0,1,2 Rows 0+all"),
        ("SELECT least(x::numeric(9, 2), count(*)::numeric(9, 2)) FROM a GROUP BY x", "engine..."),
        ("SELECT sum(x) / (SELECT 2) FROM a", "engine..."),
        ("SELECT sum(x) + k FROM a GROUP BY x", "engine..."),
        ("SELECT sum(x) + row_number() OVER () FROM a", "engine..."),
        ("SELECT round(stddev(x), 2) FROM a", "0,1,2 Rows 0+all"),
        ("SELECT round(corr(x, k)) FROM a", "engine..."),
        ("SELECT x FROM a GROUP BY x ORDER BY sum(k) / count(t) DESC, -x LIMIT 3", "0,1,2 Rows 0+3"),
        ("SELECT 'x' AS what, count(*) FROM a ORDER BY 2 LIMIT 1", "0,1,2 Rows 0+1"),
        ("SELECT generate_series(1, 2), count(*) FROM a", "engine..."),
        ("SELECT sum(x) FROM a WHERE k IN (4, 5)", "1,2 Rows 0+all"),
        ("SELECT max(x) FROM a HAVING count(*) > 1", "0,1,2 Rows 0+all"),
        ("SELECT max(x) FROM a HAVING count(*) > $1", "0,1,2 Rows 0+all"),
        ("SELECT max(x) FROM a WHERE x > $1 HAVING count(*) > $1", "engine..."),
        ("SELECT x FROM a GROUP BY x HAVING min(t) IN ('b', $1) AND x NOT IN (1, 2)", "0,1,2 Rows 0+all"),
        ("SELECT count(DISTINCT x) FROM a HAVING min(t) = 'b'", "engine..."),
        ("SELECT x FROM a GROUP BY x HAVING min(t) > lower('B')", "engine..."),
        ("SELECT count(*) FROM a JOIN b ON a.x = b.y", "engine..."),
        ("SELECT count(*) FROM a WHERE k = 4", "1"),
        ("SELECT * FROM a ORDER BY x", "0,1,2 Rows 0+all"),
        ("SELECT * FROM a WHERE k = 4 ORDER BY x", "1"),
        ("SELECT * FROM a ORDER BY 1", "engine..."),
        ("SELECT k FROM a ORDER BY x USING <", "0,1,2 Rows 0+all"),
        ("SELECT k FROM a ORDER BY x USING >=", "engine..."),
        ("SELECT DISTINCT k, x FROM a ORDER BY x LIMIT 2", "0,1,2 Rows 0+2"),
        ("SELECT x, count(*) FROM a GROUP BY x ORDER BY x", "0,1,2 Rows 0+all"),
        ("SELECT * FROM a LIMIT 1", "0,1,2 Rows 0+1"),
        ("SELECT * FROM a LIMIT 2 OFFSET 3", "0,1,2 Rows 3+2"),
        ("SELECT * FROM a OFFSET 3", "0,1,2 Rows 3+all"),
        ("SELECT * FROM a LIMIT -1", "2201W..."),
        ("SELECT * FROM a LIMIT 1 + 1", "engine..."),
        ("SELECT * FROM a ORDER BY x FETCH FIRST 1 ROW WITH TIES", "0,1,2 Rows 0+1"),
        ("SELECT DISTINCT x FROM a ORDER BY x FETCH FIRST 1 ROW WITH TIES", "engine..."),
        ("SELECT x, count(*) FROM a GROUP BY x ORDER BY x FETCH FIRST 1 ROW WITH TIES", "engine..."),
        ("SELECT * FROM a ORDER BY x FETCH FIRST 2 ROWS ONLY", "0,1,2 Rows 0+2"),
        ("SELECT * FROM a ORDER BY x OFFSET 3 ROWS FETCH NEXT ROW ONLY", "0,1,2 Rows 3+1"),
        ("SELECT x, count(*) FROM a GROUP BY x FETCH FIRST 2 ROWS ONLY", "0,1,2 Rows 0+2"),
        ("SELECT * FROM a LIMIT 1 FOR UPDATE", "0A000..."),
        ("SELECT DISTINCT x FROM a", "0,1,2 Rows 0+all"),
        ("SELECT DISTINCT x FROM a ORDER BY x DESC LIMIT 2 OFFSET 1", "0,1,2 Rows 1+2"),
        ("SELECT DISTINCT ON (x) x FROM a", "engine..."),
        ("SELECT DISTINCT row_number() OVER () FROM a", "engine..."),
        ("SELECT t FROM a ORDER BY t COLLATE \"de_DE\"", "engine..."),
        ("SELECT t COLLATE \"de_DE\" AS u FROM a ORDER BY u", "engine..."),
        ("SELECT DISTINCT x, k FROM a", "0,1,2 Concat"),
        ("SELECT DISTINCT ON (k) x FROM a", "0,1,2 Concat"),
        ("SELECT x, count(*) FROM a GROUP BY x", "0,1,2 Rows 0+all"),
        ("SELECT x + 1, sum(x), min(t) FROM a GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3 OFFSET 1", "0,1,2 Rows 1+3"),
        ("SELECT count(*) AS n FROM a GROUP BY x, t ORDER BY n", "0,1,2 Rows 0+all"),
        ("SELECT x, count(*) FROM a WHERE k = 4 GROUP BY x", "1"),
        ("SELECT a.x, count(*) FROM a JOIN b USING (k) GROUP BY a.x", "0,1,2 Rows 0+all"),
        ("SELECT a.x, count(*) FROM a JOIN b ON a.x = b.y GROUP BY a.x", "engine..."),
        ("SELECT x, avg(k) FROM a GROUP BY x", "0,1,2 Rows 0+all"),
        ("SELECT x, count(DISTINCT k) FROM a GROUP BY x", "0,1,2 Rows 0+all"),
        ("SELECT x, sum(DISTINCT k), min(DISTINCT t) FROM a GROUP BY x ORDER BY 2", "0,1,2 Rows 0+all"),
        ("SELECT x, count(*) + 1 FROM a GROUP BY x", "0,1,2 Rows 0+all"),
        ("SELECT x, count(*) FROM a GROUP BY x HAVING count(*) > 1", "0,1,2 Rows 0+all"),
        (
            "SELECT x FROM a GROUP BY x HAVING NOT (x < 3 OR sum(k) BETWEEN -1 AND 2.5) AND max(t) IS NOT NULL",
            "0,1,2 Rows 0+all",
        ),
        ("SELECT x FROM a GROUP BY x HAVING sum(k) + 1 > 2 OR sum(k) / 2 IN (x, -count(*))", "0,1,2 Rows 0+all"),
        ("SELECT x FROM a GROUP BY x HAVING sum(k) + 1 > $1", "engine..."),
        ("SELECT x FROM a GROUP BY x HAVING t > 'a'", "engine..."),
        ("SELECT x / 2 AS half, x FROM a GROUP BY x HAVING count(*) > 1", "engine..."),
        ("SELECT x, count(*) FROM a GROUP BY x ORDER BY count(*)", "0,1,2 Rows 0+all"),
        ("SELECT x FROM a GROUP BY x ORDER BY avg(k) FILTER (WHERE k > 1) DESC, x LIMIT 2", "0,1,2 Rows 0+2"),
        ("SELECT count(*) FROM a GROUP BY t ORDER BY t COLLATE \"C\"", "0,1,2 Rows 0+all"),
        ("SELECT count(*) FROM a GROUP BY t ORDER BY t COLLATE \"de_DE\"", "engine..."),
        ("SELECT x, min(t COLLATE \"de_DE\") FROM a GROUP BY x", "engine..."),
        ("SELECT x, count(*) FROM a GROUP BY x LIMIT $1", "engine..."),
        ("SELECT x AS y, count(*) FROM a GROUP BY y", "0,1,2 Rows 0+all"),
        ("SELECT x % 2 AS half, count(*) FROM a GROUP BY half ORDER BY half", "0,1,2 Rows 0+all"),
        ("SELECT lower(t), count(*) FROM a GROUP BY lower", "engine..."),
        ("SELECT lower(t), count(*) FROM a GROUP BY LOWER ( t ) ORDER BY lower(t)", "0,1,2 Rows 0+all"),
        ("SELECT count(*) FROM a GROUP BY lower(t)", "0,1,2 Rows 0+all"),
        ("SELECT x, count(*) FROM a GROUP BY x + 1, x", "0,1,2 Rows 0+all"),
        ("SELECT x, x * 2, count(*) FROM a GROUP BY x", "0,1,2 Rows 0+all"),
        ("SELECT x, k, count(*) FROM a GROUP BY x", "engine..."),
        ("SELECT DISTINCT x, count(*) FROM a GROUP BY x", "engine..."),
        ("SELECT x, count(*) OVER () FROM a GROUP BY x", "engine..."),
        ("SELECT x FROM a GROUP BY ROLLUP (x)", "0,1,2 Rows 0+all"),
        ("SELECT x, t, sum(k) FROM a GROUP BY GROUPING SETS ((x, t), (t), ()) ORDER BY x LIMIT 2", "0,1,2 Rows 0+2"),
        (
            "SELECT x FROM a GROUP BY t, CUBE (x) HAVING grouping(x) = 0 ORDER BY grouping(x), grouping(t) + 1",
            "0,1,2 Rows 0+all",
        ),
        ("SELECT x FROM a GROUP BY GROUPING SETS ((x), (x))", "engine..."),
        ("SELECT x FROM a GROUP BY x, ROLLUP (x)", "engine..."),
        ("SELECT x FROM a GROUP BY ROLLUP (x, a.x)", "engine..."),
        ("SELECT x + 1 FROM a GROUP BY ROLLUP (x + 1)", "engine..."),
        ("SELECT count(*) FROM a GROUP BY GROUPING SETS (())", "engine..."),
        ("SELECT count(DISTINCT t) FROM a GROUP BY ROLLUP (x)", "engine..."),
        ("SELECT count(DISTINCT k) FROM a GROUP BY ROLLUP (x)", "0,1,2 Rows 0+all"),
        ("SELECT k, count(*) FROM a GROUP BY k HAVING count(*) > 1", "0,1,2 Concat"),
        ("SELECT k, count(*) FROM a GROUP BY 1", "0,1,2 Concat"),
        ("SELECT k, count(*) FROM a GROUP BY ROLLUP (k)", "0,1,2 Rows 0+all"),
        ("SELECT row_number() OVER () FROM a", "engine..."),
        ("SELECT k FROM a UNION SELECT k FROM c", "engine..."),
        ("SELECT k FROM a WHERE k = 4 UNION SELECT k FROM c WHERE k = 7", "1"),
        ("SELECT now() FROM a", "engine..."),
        ("SELECT current_date FROM a WHERE k = 4", "1"),
        ("SELECT * FROM d WHERE day < 'today'", "engine..."),
        ("SELECT random() FROM a", "0,1,2 Concat"),
        ("SELECT * FROM a, (SELECT id FROM \"all\" WHERE random() < 0.5) AS s WHERE a.x = s.id", "engine..."),
        ("SELECT my_function(k) FROM a WHERE k = 4", "engine: function my_function..."),
        ("SELECT nextval('s') FROM a WHERE k = 4", "engine..."),
        ("SELECT txid_current() FROM a WHERE k = 4", "1"),
        ("SELECT txid_current() FROM a", "0A000: this statement concerns several shards, and..."),
        ("SELECT pg_advisory_xact_lock(k) FROM a WHERE k = 4", "0A000: advisory locks..."),
        ("SELECT pg_advisory_lock(1)", "elsewhere"),
        ("SELECT set_config('a.b', 'c', false) FROM a WHERE k = 4", "engine..."),
        ("SELECT to_tsvector('english', t) @@ to_tsquery('english', 'x') FROM a", "0,1,2 Concat"),
        ("SELECT to_tsvector(t) FROM a WHERE k = 4", "engine: function to_tsvector..."),
        ("SELECT jsonb_path_query('[1, 2]', '$[*]'), int4range(x, 5) FROM a WHERE k = 4", "1"),
        ("SELECT ctid FROM a WHERE k = 4", "1"),
        ("SELECT * FROM a, local WHERE k = 4", "engine..."),
        ("SELECT * FROM a WHERE k IN (4, 5) FOR UPDATE", "1,2 Concat"),
        ("SELECT * FROM a ORDER BY x FOR UPDATE", "0,1,2 Rows 0+all"),
        ("SELECT * INTO n FROM a", "0A000..."),
        ("TABLE a", "0,1,2 Concat"),
        ("TABLE a ORDER BY x", "engine..."),
        ("SELECT * FROM ONLY a WHERE k = 4", "1"),
        ("SELECT * FROM a * WHERE k = 4", "1"),
        ("SELECT * FROM h * WHERE k = 4", "engine..."),
        ("SELECT * FROM ONLY h WHERE k = 4", "0"),
        ("SELECT * FROM ONLY (h) WHERE k = 4", "engine..."),
        ("SELECT * FROM (TABLE h) AS s WHERE k = 4", "engine..."),
        ("SELECT * FROM public/* a */./* b */h WHERE k = 4", "0"),
        ("SELECT (SELECT count(a.x)) FROM a", "engine..."),
        ("SELECT (SELECT sum(b.y + a.x) FROM b WHERE b.k = a.k) FROM a", "0,1,2 Concat"),
        ("SELECT x AS from FROM a ORDER BY lower(t)", "engine..."),
        ("SELECT x AS limit FROM a LIMIT 3", "0,1,2 Rows 0+3"),
    ]);
}

#[test]
fn shards_are_asked_for_what_is_put_together() {
    let world = World::new();
    let first = |sql: &str| world.texts(sql)[0].1.clone();
    assert_eq!(
        first("SELECT t FROM a ORDER BY lower(t), x DESC LIMIT 10 OFFSET 5"),
        "SELECT t , lower(t) AS \"_ashlar_1\", x AS \"_ashlar_2\" FROM a ORDER BY lower(t), x DESC LIMIT 15 OFFSET 0"
    );
    assert_eq!(
        first("SELECT x, avg ( k + (1) ) FROM a GROUP BY x"),
        "SELECT x, avg ( k + (1) ) , pg_catalog.sum( k + (1) ) AS \"_ashlar_1\", pg_catalog.count( k + (1) ) AS \"_ashlar_2\" FROM a GROUP BY x"
    );
    assert_eq!(
        first("SELECT count(*) AS n FROM h GROUP BY h.x ORDER BY 1 LIMIT 2 OFFSET 1"),
        "SELECT count(*) AS n , \"h\".\"x\" AS \"_ashlar_1\" FROM \"h_0\" AS \"h\" GROUP BY h.x ORDER BY 1 LIMIT ALL OFFSET 0"
    );
    assert_eq!(
        first("SELECT x AS k FROM h ORDER BY k LIMIT $1 OFFSET $2"),
        "SELECT x AS k FROM \"h_0\" AS \"h\" ORDER BY k LIMIT CAST($1 AS bigint) + coalesce(CAST($2 AS bigint), 0) OFFSET 0"
    );
    assert_eq!(first("SELECT k FROM a OFFSET $1"), "SELECT k FROM a OFFSET CAST($1 AS bigint) * 0");
    assert_eq!(
        first("SELECT k FROM a ORDER BY x USING > OFFSET 3 ROWS FETCH NEXT ROW ONLY"),
        "SELECT k , x AS \"_ashlar_1\" FROM a ORDER BY x USING > OFFSET 0 ROWS FETCH NEXT (4) ROW ONLY"
    );
    assert_eq!(
        first("SELECT k FROM a ORDER BY k OFFSET $1 FETCH FIRST 2 ROWS WITH TIES"),
        "SELECT k FROM a ORDER BY k OFFSET 0 FETCH FIRST (2 + coalesce(CAST($1 AS bigint), 0)) ROWS WITH TIES"
    );
    assert_eq!(
        first("SELECT k FROM a FETCH FIRST $1 ROWS ONLY"),
        "SELECT k FROM a FETCH FIRST (CAST($1 AS bigint)) ROWS ONLY"
    );
    assert_eq!(
        first("SELECT x, count(*) FROM a GROUP BY x FETCH FIRST 2 ROWS ONLY"),
        "SELECT x, count(*) FROM a GROUP BY x FETCH FIRST (NULL) ROWS ONLY"
    );
    assert_eq!(
        first("SELECT h.x FROM h ORDER BY h.t"),
        "SELECT h.x , h.t AS \"_ashlar_1\" FROM \"h_0\" AS \"h\" ORDER BY h.t"
    );
    assert_eq!(first("SELECT count(*), sum(x) FROM a"), "SELECT count(*), sum(x) FROM a");
    assert_eq!(
        first("SELECT x, count(DISTINCT t) FROM h GROUP BY x HAVING sum(k) > 9 AND count(DISTINCT t) < 5 LIMIT $1"),
        "SELECT x, count(DISTINCT t) , \"t\" AS \"_ashlar_1\", sum(k) AS \"_ashlar_2\" FROM \"h_0\" AS \"h\" GROUP BY x, \"t\" \
         HAVING true LIMIT nullif(CAST($1 AS bigint), CAST($1 AS bigint))"
    );
    assert_eq!(
        first("SELECT sum(DISTINCT x) FILTER (WHERE k > 1) FROM a -- all"),
        "SELECT sum(DISTINCT x) FILTER (WHERE k > 1) , \"x\" AS \"_ashlar_1\" FROM a GROUP BY \"x\" -- all"
    );
    assert_eq!(
        first(
            "SELECT t FROM a GROUP BY t HAVING min(x) > $1 AND t <> 'it''s' AND max(t) < varchar 'b' AND 9 >= count(*)"
        ),
        "SELECT t , min(x) AS \"_ashlar_1\", CASE WHEN true THEN $1 ELSE min(x) END AS \"_ashlar_2\", \
         CASE WHEN true THEN 'it''s' ELSE \"t\" END AS \"_ashlar_3\", max(t) AS \"_ashlar_4\", \
         CASE WHEN true THEN CAST('b' AS \"pg_catalog\".\"varchar\") ELSE max(t) END AS \"_ashlar_5\", \
         count(*) AS \"_ashlar_6\" FROM a GROUP BY t HAVING true"
    );
    assert_eq!(
        first(
            "SELECT sum(x) / nullif(count(t), 0), sum(x)::numeric(9, 2) s FROM a ORDER BY sum(x) / nullif(count(t),0) DESC, -sum(x)"
        ),
        "SELECT CASE WHEN false THEN (sum(x) / nullif(count(t), 0)) END AS \"?column?\", CASE WHEN false THEN (sum(x)::numeric(9, 2)) \
         ELSE CAST(NULL AS pg_catalog.numeric(9, 2)) END s , sum(x) AS \"_ashlar_1\", count(t) AS \"_ashlar_2\", \
         CASE WHEN false THEN (-sum(x)) END AS \"_ashlar_3\" FROM a \
         ORDER BY CASE WHEN false THEN (sum(x) / nullif(count(t),0)) END DESC, CASE WHEN false THEN (-sum(x)) END"
    );
    assert_eq!(
        first("SELECT variance( x ) FILTER (WHERE k > 1) FROM a"),
        "SELECT variance( x ) FILTER (WHERE k > 1) , pg_catalog.count( x ) FILTER (WHERE k > 1) AS \"_ashlar_1\", \
         pg_catalog.sum(( x )::pg_catalog.numeric) FILTER (WHERE k > 1) AS \"_ashlar_2\", \
         pg_catalog.sum(( x )::pg_catalog.numeric * ( x )::pg_catalog.numeric) FILTER (WHERE k > 1) AS \"_ashlar_3\" FROM a"
    );
    assert_eq!(
        first(
            "SELECT x, grouping(x) AS level, sum(k) FROM h GROUP BY ROLLUP (h.t, x) HAVING Grouping (x) < grouping(t, x) LIMIT 3"
        ),
        "SELECT x, grouping(x) AS level, sum(k) , \"h\".\"t\" AS \"_ashlar_1\", grouping(\"h\".\"t\", \"x\") AS \"_ashlar_2\", \
         grouping(t, x) AS \"_ashlar_3\" FROM \"h_0\" AS \"h\" GROUP BY ROLLUP (h.t, x) HAVING true LIMIT ALL"
    );
    assert_eq!(
        first("SELECT $1 / sum(x) AS share FROM a"),
        "SELECT CASE WHEN false THEN ($1 / sum(x)) END AS share , CASE WHEN true THEN $1 ELSE sum(x) END AS \"_ashlar_1\", \
         sum(x) AS \"_ashlar_2\" FROM a"
    );
    // Outputs keep the names that PostgreSQL gives them.
    for (output, name) in [
        ("round(avg(x), 2)", "round"),
        ("sum(x)::float8", "sum"),
        ("(sum(x) + 1)::float8", "float8"),
        ("coalesce(sum(x), 0)", "coalesce"),
        ("nullif(sum(x), 0)", "nullif"),
        ("greatest(sum(x), 0)", "greatest"),
        ("CASE WHEN count(*) > 1 THEN sum(x) ELSE 0 END", "case"),
        ("CASE WHEN count(*) > 1 THEN 0 ELSE max(x) END", "max"),
        ("-sum(x)", "?column?"),
    ] {
        let text = first(&format!("SELECT {output} FROM a"));
        assert!(text.contains(&format!("({output}) END AS \"{name}\"")), "{text}");
    }
    // No two shards have the same key.
    let keyed = "SELECT x, count(DISTINCT k), avg(DISTINCT k) FROM a GROUP BY x";
    assert!(!first(keyed).contains("GROUP BY x,"), "{}", first(keyed));
    let both = "SELECT x, count(DISTINCT k), count(DISTINCT t) FROM a GROUP BY x";
    assert!(first(both).ends_with("GROUP BY x, \"k\", \"t\""), "{}", first(both));
    // The first groups of all are among the first ones of each shard only where their order tells all of them apart.
    let (few, all) = ("LIMIT 7", "LIMIT ALL");
    for (order, limit) in [("x, t", few), ("t DESC, x, 3", few), ("x", all), ("3, x, t", all)] {
        let sql = format!("SELECT x, t, count(*) FROM a GROUP BY x, t ORDER BY {order} LIMIT 5 OFFSET 2");
        assert!(first(&sql).ends_with(&format!("{limit} OFFSET 0")), "{}", first(&sql));
    }
    let left_out = "SELECT x, count(*) FROM a GROUP BY x HAVING count(*) > 1 ORDER BY x LIMIT 5";
    assert!(first(left_out).ends_with("HAVING true ORDER BY x LIMIT ALL"), "{}", first(left_out));
    // Groups come sorted by all that tells them apart, where that is what they are sorted by at all.
    for (sql, order) in [
        ("SELECT x, t, count(*) FROM a GROUP BY x, t ORDER BY x DESC", "ORDER BY x DESC, 2"),
        (
            "SELECT count(*) FROM a GROUP BY x, k + 1, t ORDER BY t NULLS FIRST -- all",
            "ORDER BY t NULLS FIRST, 2, 3 -- all",
        ),
        ("SELECT DISTINCT x, t FROM a ORDER BY t LIMIT 3", "ORDER BY t, 1 LIMIT 3"),
        ("SELECT x, t, count(*) FROM a GROUP BY x, t ORDER BY x, 3", "ORDER BY x, 3"),
        ("SELECT x, count(*) FROM a GROUP BY x ORDER BY x, 2", "ORDER BY x, 2"),
        ("SELECT x, t, count(DISTINCT x) FROM a GROUP BY x, t ORDER BY x", "ORDER BY x"),
        ("SELECT x, t FROM a GROUP BY x, t ORDER BY t COLLATE \"C\"", "ORDER BY t COLLATE \"C\""),
    ] {
        assert!(first(sql).ends_with(order), "{}", first(sql));
    }
}

#[test]
fn each_shard_is_asked_for_its_own_constants_of_a_list() {
    let world = World::new();
    let sent = |sql: &str| world.texts(sql).into_iter().map(|one| one.1).collect::<Vec<_>>();
    assert_eq!(
        sent("SELECT * FROM h WHERE k IN (0, 4, 1, -3) AND x NOT IN (1, 2) ORDER BY k + 1"),
        [
            "SELECT * , k + 1 AS \"_ashlar_1\" FROM \"h_0\" AS \"h\" WHERE k IN (0, 4) AND x NOT IN (1, 2) ORDER BY k + 1",
            "SELECT * , k + 1 AS \"_ashlar_1\" FROM \"h_1\" AS \"h\" WHERE k IN (1, -3) AND x NOT IN (1, 2) ORDER BY k + 1",
        ]
    );
    assert_eq!(
        sent("SELECT x FROM a WHERE k NOT IN (1, 4)"),
        [
            "SELECT x FROM a WHERE k NOT IN (1)",
            "SELECT x FROM a WHERE k NOT IN (1, 4)",
            "SELECT x FROM a WHERE k NOT IN (1)"
        ]
    );
    assert_eq!(
        sent("SELECT x FROM a WHERE k IN (1, 4) AND x IN (1, NULL)"),
        ["SELECT x FROM a WHERE k IN (1, 4) AND x IN (1, NULL)"]
    );
    assert_eq!(sent("SELECT x FROM a WHERE k IN (1, $1, 2)").last().unwrap(), "SELECT x FROM a WHERE k IN (1, $1, 2)");
}

#[test]
fn why_is_explained() {
    let world = World::new();
    let route = world.route("SELECT * FROM a JOIN b ON a.k = b.k WHERE a.k = $1").unwrap().unwrap();
    let parameters = vec![text(20, "4")];
    let request = Request { parameters: &parameters, ..Request::default() };
    let decision = route.decide(&request).unwrap();
    expect_test::expect![[r#"
        Route: shard 1
          s1 (1): SELECT * FROM a JOIN b ON a.k = b.k WHERE a.k = $1
        Condition 1 on (k): k = $1"#]]
    .assert_eq(&route.explain(&decision).join("\n"));
}
