//! One statement for the shards of a server.

use super::{Decision, Parameter, Request, World};

/// What each server is asked; empty where each has one statement already.
fn joined(sql: &str) -> Vec<(String, String)> {
    let world = World::new();
    let route = world.route(sql).unwrap().unwrap();
    let parameters = vec![Parameter { oid: 20, is_binary: false, bytes: Some(b"4") }; 2];
    let request = Request { parameters: &parameters, ..Request::default() };
    let Decision::Forward(forward) = route.decide(&request).unwrap() else { panic!("{sql}") };
    assert!(forward.is_joinable(), "{sql}");
    let Some(joined) = forward.by_server() else { return Vec::new() };
    assert_eq!((&joined.merge, joined.outcome), (&forward.merge, forward.outcome));
    for one in &joined.statements {
        pg_query::parse(&one.text, 0).unwrap_or_else(|error| panic!("{}: {error}", one.text));
    }
    joined.statements.into_iter().map(|one| (one.server.to_owned(), one.text.into_owned())).collect()
}

#[test]
fn shards_of_one_server_are_asked_together() {
    let asked = joined("SELECT x FROM h ORDER BY t DESC, 1 NULLS FIRST LIMIT $1 -- all");
    let part = |shard: u8| {
        format!(
            "(SELECT x , t AS \"_ashlar_1\" FROM \"h_{shard}\" AS \"h\" \
             ORDER BY t DESC, 1 NULLS FIRST LIMIT CAST($1 AS bigint) -- all\n)"
        )
    };
    let of = |server: &str, shards: [u8; 2]| {
        let [first, second] = shards.map(part);
        let text = format!("{first} UNION ALL {second} ORDER BY \"_ashlar_1\" DESC NULLS FIRST, 1 NULLS FIRST");
        (server.to_owned(), text)
    };
    assert_eq!(asked, [of("s0", [0, 2]), of("s1", [1, 3])]);
    // Groups that are sorted by what tells them apart come in that order, others are put in order when they are complete, and rows in any
    // order have none.
    for (sql, end) in [
        ("SELECT x, count(*) FROM h GROUP BY x ORDER BY x", "GROUP BY x ORDER BY x\n) ORDER BY 1 NULLS LAST"),
        ("SELECT x, count(*) FROM h GROUP BY x ORDER BY 2", "GROUP BY x ORDER BY 2\n)"),
        ("SELECT DISTINCT x FROM h ORDER BY x LIMIT 2", "ORDER BY x LIMIT 2\n) ORDER BY 1 NULLS LAST"),
        ("SELECT x FROM h LIMIT 2", "FROM \"h_2\" AS \"h\" LIMIT 2\n)"),
        ("SELECT *, x FROM h ORDER BY t, k", "ORDER BY \"_ashlar_1\" NULLS LAST, \"_ashlar_2\" NULLS LAST"),
    ] {
        let asked = joined(sql);
        assert_eq!(asked.len(), 2, "{sql}");
        assert!(asked[0].1.ends_with(end), "{sql}: {}", asked[0].1);
    }
}

#[test]
fn columns_of_stars_are_named_where_they_are_counted() {
    let asked = joined("SELECT *, h.*, x AS y FROM h ORDER BY t LIMIT 1");
    assert!(!asked[0].1.contains('*'), "{asked:?}");
    let asked = joined("SELECT * FROM h JOIN h AS i ON h.k = i.k ORDER BY h.x");
    let columns = ["h", "i"].map(|of| format!("\"{of}\".\"k\", \"{of}\".\"x\", \"{of}\".\"t\"")).join(", ");
    for (_, text) in &asked {
        assert_eq!(text.matches(&format!("(SELECT {columns} , h.x AS \"_ashlar_1\" FROM ")).count(), 2, "{text}");
    }
    assert_eq!(asked.len(), 2);
    // Nobody knows here which columns a merged join shows first.
    let world = World::new();
    let is_joinable = |sql: &str| {
        let route = world.route(sql).unwrap().unwrap();
        let Decision::Forward(forward) = route.decide(&Request::default()).unwrap() else { panic!("{sql}") };
        forward.is_joinable()
    };
    assert!(!is_joinable("SELECT * FROM h NATURAL JOIN \"all\" LIMIT 3"));
    assert!(!is_joinable("SELECT * FROM (SELECT k, x AS k FROM h) AS s LIMIT 3"));
    assert!(is_joinable("SELECT x FROM h NATURAL JOIN \"all\" LIMIT 3"));
    // Where one shard of each server answers, the text stays.
    let text = world.texts("SELECT * FROM h WHERE k IN (0, 1) LIMIT 3")[0].1.clone();
    assert!(text.starts_with("SELECT * FROM"), "{text}");
}

#[test]
fn a_server_with_one_shard_is_asked_as_it_is() {
    assert!(joined("SELECT x FROM a ORDER BY x").is_empty());
    let asked = joined("SELECT x FROM h WHERE k IN (0, 1, 2) ORDER BY x");
    assert!(asked[0].1.contains("UNION ALL"), "{}", asked[0].1);
    assert_eq!(asked[1].1, "SELECT x FROM \"h_1\" AS \"h\" WHERE k IN (1) ORDER BY x");
}
