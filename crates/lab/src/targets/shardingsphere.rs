//! Apache ShardingSphere-Proxy before some PostgreSQLs: rows of TPC-C belong to one of them by the number of their warehouse modulo how many they
//! are, those of `sql-*` by their key; items are in all, and so is the smaller table of a join, for it joins rows of one server only. Its jars
//! come from Maven Central, which has no version of the proxy after 5.1.0.
//!
//! A transaction that changes rows in both is committed in one after the other (its transaction type LOCAL). That is what it does by
//! default, and right for as long as nothing is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::process::{Process, folder, free_address, on_path, pinned};
use super::{Start, Started, postgres};
use crate::door::PROBE_TIMEOUT;
use crate::door::pg::{PASSWORD, PgClient};
use crate::say;
use crate::workload::rows;

/// What is fetched, with versions.
const POM: &str = include_str!("../../shardingsphere/pom.xml");

/// The plugin that copies the jars; not the one that a distribution of Maven comes with.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// Heap as its own start script has it; modules are opened for its reflection, which is older than they are.
const JVM: &[&str] = &[
    "-Xmx2g",
    "-Xms2g",
    "-Xmn1g",
    "-Xss1m",
    "-XX:AutoBoxCacheMax=4096",
    "-XX:+DisableExplicitGC",
    "-XX:+SegmentedCodeCache",
    "-Dio.netty.leakDetection.level=DISABLED",
    "-Djava.awt.headless=true",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
];

/// What it logs: as its distribution has it, and not each step of each statement, which is what it does where nothing is said.
const LOGGING: &str = "<configuration>
  <appender name=\"console\" class=\"ch.qos.logback.core.ConsoleAppender\">
    <encoder><pattern>%d %-5level %logger - %msg%n</pattern></encoder>
  </appender>
  <logger name=\"com.zaxxer.hikari\" level=\"error\"/>
  <logger name=\"com.atomikos\" level=\"error\"/>
  <logger name=\"io.netty\" level=\"error\"/>
  <root level=\"info\"><appender-ref ref=\"console\"/></root>
</configuration>
";

/// A table of TPC-C, and the column with its warehouse. History belongs to the warehouse that was paid to.
const OF_WAREHOUSES: &[(&str, &str)] = &[
    ("warehouse", "w_id"),
    ("district", "d_w_id"),
    ("customer", "c_w_id"),
    ("history", "h_w_id"),
    ("orders", "o_w_id"),
    ("new_order", "no_w_id"),
    ("order_line", "ol_w_id"),
    ("stock", "s_w_id"),
];

/// The table of TPC-C of which each shard has all rows.
const ITEMS: &str = "item";

/// Where its jars are, or are to be.
fn home() -> Result<PathBuf> {
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    Ok(std::path::absolute(target.join("lab").join("shardingsphere"))?)
}

/// The program of Java, if there is also what the jars are fetched with, or they are here.
pub(super) fn program() -> Result<PathBuf, String> {
    let java = on_path("java").map_err(|reason| format!("{reason}; ./x setup lab installs it"))?;
    let is_here = home().is_ok_and(|home| is_fetched(&home));
    if !is_here {
        on_path("mvn").map_err(|reason| format!("{reason}, which fetches its jars; ./x setup lab installs it"))?;
    }
    Ok(java)
}

/// The mark is written when everything is there.
fn is_fetched(home: &Path) -> bool {
    fs::read_to_string(home.join("fetched")).is_ok_and(|mark| mark == POM)
}

/// Fetches the jars once; the folder with them.
fn fetched() -> Result<PathBuf> {
    let home = home()?;
    let jars = home.join("lib");
    if is_fetched(&home) {
        return Ok(jars);
    }
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    // Until the file is closed: of two labs one waits.
    let lock = fs::File::create(home.join("lock"))?;
    lock.lock()?;
    if is_fetched(&home) {
        return Ok(jars);
    }
    say::note("shardingsphere: fetching its jars with Maven, once (some 100 MB)");
    fs::write(home.join("pom.xml"), POM)?;
    if jars.exists() {
        fs::remove_dir_all(&jars)?;
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", COPY, "-DincludeScope=runtime"]);
    maven.arg(format!("-DoutputDirectory={}", jars.display())).current_dir(&home).stdin(Stdio::null());
    let output = maven.output().context("mvn")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = text.lines().take(5).collect();
        bail!("its jars could not be fetched: mvn: {}\n{}", output.status, lines.join("\n"));
    }
    fs::write(home.join("fetched"), POM)?;
    Ok(jars)
}

/// Starts so many PostgreSQLs and the proxy before them, and waits until it answers.
pub(super) fn start(shards: usize, program: &Path, start: &Start<'_>) -> Result<Started> {
    let jars = fetched()?;
    let (mut behind, mut configuration) = (Vec::new(), Vec::new());
    for &name in postgres::names(shards)? {
        let (server, settings) = postgres::start_behind(name, start)?;
        configuration.extend(settings);
        behind.push(server);
    }
    let address = free_address()?;
    let folder = folder("shardingsphere")?;
    let conf = folder.path().join("conf");
    fs::create_dir(&conf)?;
    fs::write(conf.join("logback.xml"), LOGGING)?;
    let general = general();
    fs::write(conf.join("server.yaml"), &general)?;
    let ports: Vec<u16> = behind.iter().map(|server| server.address.port()).collect();
    let rules = rules(&ports);
    fs::write(conf.join("config-tables.yaml"), &rules)?;
    let classes = format!("{}:{}", conf.display(), jars.join("*").display());
    let mut command = pinned(start.cores, program);
    command.args(JVM).args(["-classpath", &classes, "org.apache.shardingsphere.proxy.Bootstrap"]);
    command.arg(address.port().to_string()).arg(&conf).current_dir(folder.path());
    let mut process = Process::spawn("shardingsphere", command, folder)?.before(behind);
    process.wait_for(|| PgClient::connect_within(address, PROBE_TIMEOUT).ok().map(drop))?;
    let mut settings = vec!["ShardingSphere-Proxy 5.1.0".to_owned(), JVM.join(" "), "logs from info on".to_owned()];
    settings.extend(general.lines().chain(rules.lines()).map(str::to_owned));
    settings.extend(configuration);
    Ok(Started { process, resp: None, sql: Some(address), http: None, configuration: settings })
}

/// Its `server.yaml`.
fn general() -> String {
    format!(
        "rules:
- !AUTHORITY
  users:
  - postgres@%:{PASSWORD}
  provider:
    type: ALL_PRIVILEGES_PERMITTED
- !TRANSACTION
  defaultType: LOCAL
props:
  max-connections-size-per-query: 1
  proxy-frontend-database-protocol-type: PostgreSQL
  proxy-backend-driver-type: JDBC
  sql-show: false
  check-table-metadata-enabled: false
"
    )
}

/// Its database, with the rules of its tables.
fn rules(ports: &[u16]) -> String {
    let mut text = "schemaName: postgres\ndataSources:\n".to_owned();
    for (place, port) in ports.iter().enumerate() {
        text.push_str(&format!(
            "  ds_{place}:
    url: jdbc:postgresql://127.0.0.1:{port}/postgres
    username: postgres
    password: {PASSWORD}
    connectionTimeoutMilliseconds: 30000
    idleTimeoutMilliseconds: 60000
    maxLifetimeMilliseconds: 1800000
    maxPoolSize: 1050
    minPoolSize: 1
"
        ));
    }
    text.push_str("rules:\n- !SHARDING\n  tables:\n");
    let bound: Vec<String> = OF_WAREHOUSES.iter().map(|(table, _)| format!("ashlar_lab_{table}")).collect();
    let columns = OF_WAREHOUSES.iter().map(|(_, column)| *column);
    let (count, last) = (ports.len(), ports.len().saturating_sub(1));
    for (table, column) in bound.iter().map(String::as_str).zip(columns).chain([(rows::TABLE, rows::KEY)]) {
        text.push_str(&format!(
            "    {table}:
      actualDataNodes: ds_${{0..{last}}}.{table}
      databaseStrategy:
        standard:
          shardingColumn: {column}
          shardingAlgorithmName: by_number
"
        ));
    }
    text.push_str(&format!(
        "  bindingTables:
  - {}
  broadcastTables:
  - ashlar_lab_{ITEMS}
  - {}
  defaultTableStrategy:
    none:
  shardingAlgorithms:
    by_number:
      type: MOD
      props:
        sharding-count: {count}
",
        bound.join(","),
        rows::PICKS
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_rule() {
        let rules = rules(&[1, 2, 3, 4]);
        let of_rows = [rows::TABLE, rows::PICKS].map(str::to_owned);
        for table in crate::workload::tpcc_tables().into_iter().chain(of_rows) {
            assert!(rules.contains(&table), "{table}");
        }
        for part in ["//127.0.0.1:4/postgres", "ds_${0..3}.ashlar_lab_rows\n", "sharding-count: 4\n"] {
            assert!(rules.contains(part), "{part} is not in\n{rules}");
        }
    }
}
