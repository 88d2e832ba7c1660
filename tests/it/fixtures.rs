//! What the other tests rely on: properties of the servers beside Ashlar that no test of Ashlar would miss by name.

use std::collections::HashSet;

use ashlar_tests::Postgres;
use ashlar_tests::pg::Connection;

/// Clusters are copies of one, and those of a fleet are told apart by their identifiers.
#[test]
fn every_postgresql_has_an_identifier_of_its_own() {
    let mut servers: Vec<Postgres> = (0..3).map(|_| Postgres::start().unwrap()).collect();
    let identifier = |server: &Postgres| {
        let mut connection = Connection::connect(server.address()).unwrap();
        connection.value("SELECT system_identifier FROM pg_control_system()").unwrap()
    };
    let identifiers: Vec<String> = servers.iter().map(identifier).collect();
    assert_eq!(identifiers.iter().collect::<HashSet<_>>().len(), servers.len(), "{identifiers:?}");

    // And it keeps it, with what it has written, when it reads its log again.
    Connection::connect(servers[0].address()).unwrap().query("CREATE TABLE kept AS SELECT 1 AS k").unwrap();
    servers[0].kill().unwrap();
    servers[0].start_again().unwrap();
    assert_eq!(identifier(&servers[0]), identifiers[0]);
    assert_eq!(Connection::connect(servers[0].address()).unwrap().value("SELECT k FROM kept").unwrap(), "1");
}
