//! Who the lab is at a server that somebody else runs: what `psql` and `redis-cli` take from the environment. Passwords are in no
//! record, and nobody is told those of another server: each is kept by the address that it is for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use super::pg::PASSWORD;
use crate::workload::Door;

/// What a server is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Said where it is asked for.
    pub(crate) password: String,
    /// Said at once, for RESP asks for none.
    pub(crate) resp_password: Option<String>,
}

impl Default for Login {
    /// At servers that the lab has started.
    fn default() -> Self {
        let postgres = || "postgres".to_owned();
        Self { user: postgres(), database: postgres(), password: PASSWORD.to_owned(), resp_password: None }
    }
}

/// There is one environment, so there is one table.
static KNOWN: Mutex<BTreeMap<SocketAddr, Login>> = Mutex::new(BTreeMap::new());

/// The login at an address.
pub(crate) fn of(address: SocketAddr) -> Login {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned().unwrap_or_default()
}

/// From now on a server that the lab has not started is told what the environment says. What of that may be known, line by line.
pub(crate) fn take_from_environment(address: SocketAddr, door: Door) -> Vec<String> {
    let login = read(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let said = match door {
        Door::Resp => login.resp_password.iter().map(|_| "a password of REDISCLI_AUTH".to_owned()).collect(),
        Door::Sql | Door::Text => vec![format!("user {}", login.user), format!("database {}", login.database)],
    };
    set(address, login);
    said
}

/// From now on this is what the server at an address is told.
pub(crate) fn set(address: SocketAddr, login: Login) {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(address, login);
}

fn read(variable: impl Fn(&str) -> Option<String>) -> Login {
    let usual = Login::default();
    let user = variable("PGUSER").unwrap_or(usual.user);
    Login {
        database: variable("PGDATABASE").unwrap_or(usual.database),
        password: variable("PGPASSWORD").unwrap_or(usual.password),
        resp_password: variable("REDISCLI_AUTH"),
        user,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_who_the_lab_is() {
        assert_eq!(read(|_| None), Login::default());
        let login = read(|name| Some(format!("{name}'s")));
        let expected = ["PGUSER's", "PGDATABASE's", "PGPASSWORD's", "REDISCLI_AUTH's"];
        let found = [&login.user, &login.database, &login.password, login.resp_password.as_ref().unwrap()];
        assert_eq!(found, expected);
    }
}
