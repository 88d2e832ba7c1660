//! Where each value comes from, what is refused and how it is told, and that the reference page is the code's.

use super::*;
use expect_test::{expect, expect_file};

fn sources(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str, &str)]) -> Sources {
    let own = |text: &str| text.to_owned();
    Sources {
        file: ConfigFile::parse("a.toml", file).expect("a file that parses"),
        environment: environment.iter().map(|(name, value)| (own(name), own(value))).collect(),
        flags: flags.iter().map(|(flag, path, value)| (own(flag), own(path), own(value))).collect(),
    }
}

fn resolved(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str, &str)]) -> Resolved {
    resolve(sources(file, environment, flags)).expect("a valid configuration")
}

fn problems(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str, &str)]) -> String {
    let found = match ConfigFile::parse("a.toml", file) {
        Err(problems) => problems,
        Ok(_) => match resolve(sources(file, environment, flags)) {
            Err(problems) => problems,
            Ok(resolved) => resolved.unknown,
        },
    };
    found.iter().map(|problem| format!("{problem}\n")).collect()
}

fn origin(resolved: &Resolved, path: &str) -> String {
    let place = FIELDS.iter().position(|field| field.path() == path).expect("a field");
    resolved.origins[place].to_string()
}

#[test]
fn nothing_written_is_the_default_everywhere() {
    let resolved = resolved("", &[], &[]);
    assert_eq!(resolved.config, Config::default());
    assert!(resolved.origins.iter().all(|origin| *origin == Origin::Default));
    assert!(resolved.is_default("store.partition_count"));
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_and_each_is_named() {
    let file = "[store]\npartition_count = 64\nmemory_mib_max = 100\n[query]\nthreads = 3\n";
    let environment = [("ASHLAR_STORE__MEMORY_MIB_MAX", "200"), ("ASHLAR_QUERY__THREADS", "4"), ("PATH", "/bin")];
    let resolved = resolved(file, &environment, &[("--set", "query.threads", "5")]);
    assert_eq!(resolved.config.store.partition_count, 64);
    assert_eq!(resolved.config.store.memory_mib_max, 200);
    assert_eq!(resolved.config.query.threads, 5);
    assert_eq!(origin(&resolved, "store.partition_count"), "a.toml:2");
    assert_eq!(origin(&resolved, "store.memory_mib_max"), "environment ASHLAR_STORE__MEMORY_MIB_MAX");
    assert_eq!(origin(&resolved, "query.threads"), "flag --set");
    assert_eq!(origin(&resolved, "log.level"), "default");
}

#[test]
fn what_show_prints_is_a_file_that_gives_the_same_configuration() {
    let flags = [("--set", "log.format", "json"), ("--pg", "server.pg_address", "[::1]:0")];
    let first = resolved("[server]\ncores = 2\nconnections_max = 1_000\nidle_timeout_ms = 0x10\n", &[], &flags);
    let second = resolved(&first.show(), &[], &[]);
    assert_eq!(first.config, second.config);
    assert_eq!(first.config.server.idle_timeout_ms, 16);
    assert!(first.show().contains("cores = 2"), "{}", first.show());
}

#[test]
fn the_default_file_changes_nothing_and_stays_valid_when_its_lines_are_taken_up() {
    assert_eq!(resolved(&default_file(), &[], &[]).config, Config::default());
    let is_setting = |line: &&str| !line.starts_with("# ");
    let taken_up: String =
        default_file().lines().filter(is_setting).map(|line| format!("{}\n", line.trim_start_matches('#'))).collect();
    let resolved = resolved(&taken_up, &[], &[]);
    assert_eq!(resolved.config, Config::default());
    assert!(resolved.origins.iter().all(|origin| matches!(origin, Origin::File(_))));
}

#[test]
fn mistakes_are_all_reported_with_their_place() {
    let file = "[server]\npg_adress = \"127.0.0.1:1\"\ncores = \"four\"\nresp_address = \"localhost\"\n\
                [store]\nmemory_mib_max = 3\npartition_count = 70000\n[log]\nlevel = \"loud\"\n[query]\nthreads = 1.5\n";
    expect![[r#"
        a.toml:3: server.cores: expected integer without quotation marks, found string
        a.toml:4: server.resp_address: "localhost" is not an address with a port, such as 127.0.0.1:5433
        a.toml:6: store.memory_mib_max: 3 is outside 16 to 16777216
        a.toml:7: store.partition_count: 70000 is outside 1 to 16384
        a.toml:9: log.level: "loud" is not one of: error, warn, info, debug, trace
        a.toml:11: query.threads: expected integer, found float
    "#]]
    .assert_eq(&problems(file, &[], &[]));
    expect![[r#"
        environment ASHLAR_SERVER__CORES: server.cores: "many" is not a whole number
        flag --set store.size=9: store.size: unknown field; `ashlar config show` lists all
    "#]]
    .assert_eq(&problems("", &[("ASHLAR_SERVER__CORES", "many")], &[("--set store.size=9", "store.size", "9")]));
}

#[test]
fn a_file_that_is_no_toml_names_the_line() {
    let found = problems("[server]\ncores = \n", &[], &[]);
    assert!(found.starts_with("a.toml:2: "), "{found}");
}

#[test]
fn unknown_names_are_reported_and_do_not_stop_the_rest() {
    let file = "[server]\npg_adress = \"127.0.0.1:1\"\ncores = 7\n[replica]\nx = 1\n";
    let resolved = resolved(file, &[("ASHLAR_SERVER__COARSE", "1"), ("ASHLAR_TEST", "1")], &[]);
    assert_eq!(resolved.config.server.cores, 7);
    let unknown: String = resolved.unknown.iter().map(|problem| format!("{problem}\n")).collect();
    expect![[r#"
        a.toml:2: server.pg_adress: unknown field; did you mean server.pg_address?
        a.toml:4: replica: unknown section; the sections are server, store, query, shard, log
        environment ASHLAR_SERVER__COARSE: server.coarse: unknown field; did you mean server.cores?
    "#]]
    .assert_eq(&unknown);
}

#[test]
fn a_door_opens_to_other_machines_only_when_that_is_said() {
    expect![[r#"
        flag --pg: server.pg_address: 0.0.0.0:5433 can be reached by other machines, and this door asks for no password: listen on 127.0.0.1, or set server.allow_remote_without_authentication = true to accept that anybody who reaches the port can read and change everything
    "#]]
    .assert_eq(&problems("", &[], &[("--pg", "server.pg_address", "0.0.0.0:5433")]));
    let allowed = "[server]\nhttp_address = \"0.0.0.0:80\"\nallow_remote_without_authentication = true\n";
    assert_eq!(resolved(allowed, &[], &[]).config.server.http_address.port(), 80);
    // Every address of the loopback network is loopback.
    resolved("[server]\npg_address = \"127.8.8.8:1\"\nresp_address = \"[::1]:2\"\n", &[], &[]);
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    expect![[r#"
        a.toml:3: server.resp_address: 127.0.0.1:7000 is already the pg_address
        a.toml:5: store.partition_count: 100 is not a power of two
    "#]]
    .assert_eq(&problems(
        "[server]\npg_address = \"127.0.0.1:7000\"\nresp_address = \"127.0.0.1:7000\"\n[store]\npartition_count = 100\n",
        &[],
        &[],
    ));
    // One of them is for queries: with one there were none for anybody else.
    expect![[r#"
        a.toml:2: shard.connections_per_server_max: 1 is outside 2 to 65536
    "#]]
    .assert_eq(&problems("[shard]\nconnections_per_server_max = 1\n", &[], &[]));
    expect![[r#"
        a.toml:3: shard.connections_per_server_min: 9 is more than connections_per_server_max, which is 8
    "#]]
    .assert_eq(&problems("[shard]\nconnections_per_server_max = 8\nconnections_per_server_min = 9\n", &[], &[]));
    // Two free ports are two ports.
    resolved("[server]\npg_address = \"127.0.0.1:0\"\nresp_address = \"127.0.0.1:0\"\n", &[], &[]);
}

#[test]
fn the_reference_page_is_up_to_date() {
    // After a change: UPDATE_EXPECT=1 cargo test -p ashlar-base config
    expect_file!["../../../../docs/reference/config.md"].assert_eq(&reference_page());
}
