//! What plans promise, counted in rows by `EXPLAIN ANALYZE`.

use ashlar_tests::Ashlar;

/// What the scan of the statement's one table has counted under a name.
fn count_of_scan(plan: &str, name: &str) -> u64 {
    let line = plan.lines().find(|line| line.contains("GridScanExec")).unwrap_or_else(|| panic!("no scan:\n{plan}"));
    let (_, rows) = line.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name}: {line}"));
    let rows = rows.split([',', ']']).next().unwrap_or(rows);
    // `50.00 K`
    let (number, unit) = rows.split_once(' ').unwrap_or((rows, ""));
    let scale = match unit {
        "" => 1.0,
        "K" => 1e3,
        _ => panic!("another unit: {line}"),
    };
    (number.parse::<f64>().unwrap() * scale) as u64
}

/// Rows that left the scan.
fn rows_of_scan(plan: &str) -> u64 {
    count_of_scan(plan, "output_rows")
}

#[test]
fn a_scan_looks_at_the_rows_that_an_index_leaves() {
    let ashlar = Ashlar::shared();
    let mut sql = ashlar.connect();
    sql.query("CREATE TABLE found (id integer PRIMARY KEY, v integer, s text)").unwrap();
    sql.query("INSERT INTO found SELECT i, i % 5000, 'text ' || i % 100 FROM generate_series(1, 50000) AS g(i)")
        .unwrap();
    let mut looked_at = |query: &str| {
        let rows = sql.query(&format!("EXPLAIN ANALYZE {query}")).unwrap();
        let plan: String = rows.iter().map(|row| row[0].clone().unwrap_or_default() + "\n").collect();
        count_of_scan(&plan, "rows_looked_at")
    };
    let (one, range) = ("SELECT count(*) FROM found WHERE v = 7", "SELECT sum(id) FROM found WHERE v > 10 AND v <= 12");
    assert_eq!((looked_at(one), looked_at(range)), (50_000, 50_000));
    ashlar.connect().query("CREATE INDEX ON found (v)").unwrap();
    assert_eq!((looked_at(one), looked_at(range)), (10, 20));
    ashlar.connect().query("CREATE INDEX ON found USING hash (s)").unwrap();
    // The index that leaves fewer rows is the one that is asked.
    assert_eq!(looked_at("SELECT count(*) FROM found WHERE s = 'text 7' AND v = 7"), 10);
    assert_eq!(looked_at("SELECT count(*) FROM found WHERE s = 'text 7'"), 500);
    // One row has the key, whatever else is asked of it.
    assert_eq!(looked_at("SELECT count(*) FROM found WHERE id = 7"), 1);
    assert_eq!(looked_at("SELECT count(*) FROM found WHERE s = 'text 7' AND id = 8 AND v > 1"), 1);
    assert_eq!(looked_at("SELECT count(*) FROM found WHERE id = 0"), 0);
    // Where an index leaves nearly all, reading them in their order is quicker.
    assert_eq!(looked_at("SELECT count(*) FROM found WHERE v >= 0"), 50_000);
}

/// Expressions, predicates, any of several indexes, two at once, and NULLs: the rows that are looked at are those that are
/// wanted.
#[test]
fn indexes_that_compute_and_several_at_once_leave_what_is_wanted() {
    let ashlar = Ashlar::shared();
    let mut sql = ashlar.connect();
    sql.query("CREATE TABLE several (id integer PRIMARY KEY, v integer, s text, a integer, b integer)").unwrap();
    let columns = "i, CASE WHEN i % 1000 > 0 THEN i % 5000 END, 'Text ' || i % 1000, i % 10, i % 11";
    sql.query(&format!("INSERT INTO several SELECT {columns} FROM generate_series(1, 50000) AS g(i)")).unwrap();
    for index in ["(v)", "(lower(s))", "((v + a))", "(v) WHERE a = 3", "(a)", "(b)", "(s text_pattern_ops)"] {
        sql.query(&format!("CREATE INDEX ON several {index}")).unwrap();
    }
    // Where an index leaves a few rows of a partition, no second one is asked to leave fewer.
    let mut check_about = |condition: &str, more: u64| {
        let wanted = ashlar.connect().value(&format!("SELECT count(*) FROM several WHERE {condition}")).unwrap();
        let rows = sql.query(&format!("EXPLAIN ANALYZE SELECT * FROM several WHERE {condition}")).unwrap();
        let plan: String = rows.iter().map(|row| row[0].clone().unwrap_or_default() + "\n").collect();
        let (wanted, looked_at): (u64, u64) = (wanted.parse().unwrap(), count_of_scan(&plan, "rows_looked_at"));
        assert!(looked_at >= wanted && looked_at <= wanted + more, "{condition}: {wanted}\n{plan}");
        assert_ne!(wanted, 0, "{condition}");
    };
    check_about("a = 3 AND b = 4", 10_000);
    let mut check = |condition: &str| check_about(condition, 0);
    check("lower(s) = 'text 7'");
    check("lower(s) IN ('text 7', 'text 8', 'text 9', 'text 10')");
    check("v + a = 20");
    check("v = 7 OR lower(s) = 'text 8' OR v + a = 20");
    check("v = 7 OR v = 8");
    check("v IN (7, 8, 9, 10, 11, 12)");
    check("v IS NULL");
    check("v BETWEEN 10 AND 12");
    check("a = 3 AND v = 13");
    check("s LIKE 'Text 77%'");
    check("s LIKE 'Text 777'");
    check("s LIKE 'Text 77%' AND s >= 'Text 775'");
    check("lower(s) LIKE 'text 77%'");
}

/// Before a table was analysed, an index is asked whatever it names, and of a side with conditions nobody knows how few its rows are.
#[test]
fn what_analyze_knows_changes_the_plan() {
    let ashlar = Ashlar::shared();
    let mut sql = ashlar.connect();
    sql.query("CREATE TABLE leaning (id integer PRIMARY KEY, v integer, w integer)").unwrap();
    let v = "CASE WHEN i % 1000 = 0 THEN 2 ELSE 1 END";
    sql.query(&format!("INSERT INTO leaning SELECT i, {v}, i FROM generate_series(1, 20000) AS g(i)")).unwrap();
    sql.query("CREATE INDEX leaning_v ON leaning (v)").unwrap();
    sql.query("CREATE TABLE upright (id integer PRIMARY KEY, k integer)").unwrap();
    sql.query("INSERT INTO upright SELECT i, i FROM generate_series(1, 10000) AS g(i)").unwrap();
    let queries = [
        "SELECT sum(w) FROM leaning WHERE v = 1",
        "SELECT sum(w) FROM leaning WHERE v = 2",
        "SELECT count(*) FROM upright JOIN leaning ON leaning.w = upright.k WHERE leaning.v = 2",
    ];
    let answers = queries.map(|query| sql.value(query).unwrap());
    assert_eq!(answers[2], "10");
    // Whether the index is asked for either value, and the table that the join puts its rows of aside: that side comes first.
    let mut planned = || {
        let [most, few, join] = queries.map(|query| {
            let rows = sql.query(&format!("EXPLAIN {query}")).unwrap();
            rows.iter().map(|row| row[0].clone().unwrap_or_default() + "\n").collect::<String>()
        });
        assert!(join.contains("HashJoinExec"), "{join}");
        let scan = |plan: &str| plan.lines().find(|line| line.contains("GridScanExec")).unwrap_or_default().to_owned();
        let is_asked = |plan: &str| scan(plan).contains("indexes=[leaning_v]");
        let side = ["leaning", "upright"].into_iter().find(|name| scan(&join).contains(&format!("table={name},")));
        (is_asked(&most), is_asked(&few), side)
    };
    assert_eq!(planned(), (true, true, Some("upright")));
    ashlar.connect().query("ANALYZE leaning, upright").unwrap();
    assert_eq!(planned(), (false, true, Some("leaning")));
    assert_eq!(queries.map(|query| sql.value(query).unwrap()), answers);
}

#[test]
fn an_analysed_plan_says_how_much_memory_it_took() {
    let ashlar = Ashlar::shared();
    let mut sql = ashlar.connect();
    sql.query("CREATE TABLE weighed (id integer PRIMARY KEY, v integer)").unwrap();
    sql.query("INSERT INTO weighed SELECT i, -i FROM generate_series(1, 50000) AS s(i)").unwrap();
    let mut kilobytes = |query: &str| -> u64 {
        let rows = sql.query(&format!("EXPLAIN ANALYZE {query}")).unwrap();
        let lines: Vec<String> = rows.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect();
        let line = lines.iter().find_map(|line| line.strip_prefix("Peak Memory: ")?.strip_suffix(" kB"));
        line.unwrap_or_else(|| panic!("{lines:?}")).parse().unwrap()
    };
    // Fifty thousand rows of two integers are 390 kB at the least; a sort reserves what its merge will need.
    let sorted = kilobytes("SELECT * FROM weighed ORDER BY v");
    assert!((390..200_000).contains(&sorted), "{sorted} kB");
    assert_eq!(kilobytes("SELECT * FROM weighed WHERE v = 7"), 0, "rows that go by are not kept");
}

#[test]
fn a_limit_ends_the_scan() {
    let ashlar = Ashlar::shared();
    let mut sql = ashlar.connect();
    sql.query("CREATE TABLE long_table (id integer PRIMARY KEY, v integer)").unwrap();
    sql.query("INSERT INTO long_table SELECT i, i % 10 FROM generate_series(1, 50000) AS s(i)").unwrap();
    let mut plan = |query: &str| -> String {
        let rows = sql.query(&format!("EXPLAIN ANALYZE {query}")).unwrap();
        rows.iter().map(|row| row[0].clone().unwrap_or_default() + "\n").collect()
    };
    assert_eq!(rows_of_scan(&plan("SELECT v FROM long_table WHERE v >= 0")), 50_000);
    // Each of the scan's streams may have found its rows before it hears that others have found enough.
    let streams = std::thread::available_parallelism().unwrap().get() as u64;
    for query in ["SELECT * FROM long_table LIMIT 5", "SELECT id FROM long_table WHERE v = 3 LIMIT 5"] {
        let rows = rows_of_scan(&plan(query));
        assert!((5..=5 * streams).contains(&rows), "{rows} rows for {query}");
    }
}
