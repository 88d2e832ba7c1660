//! What plans promise, counted in rows by `EXPLAIN ANALYZE`.

use ashlar_tests::Ashlar;

/// Rows that left the scan of the statement's one table.
fn rows_of_scan(plan: &str) -> u64 {
    let line = plan.lines().find(|line| line.contains("GridScanExec")).unwrap_or_else(|| panic!("no scan:\n{plan}"));
    let (_, rows) = line.split_once("output_rows=").unwrap_or_else(|| panic!("no rows: {line}"));
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
