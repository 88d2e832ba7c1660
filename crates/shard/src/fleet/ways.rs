//! Ways to servers, as they were looked up last: which server a name is, and who logs in there.
//!
//! A session has its own, and asks by them for connections that are idle. They hold until anything that is known of servers changes.

use std::sync::Arc;

use crate::catalog::ShardCatalog;
use crate::server::{Mapping, Server};

/// Servers to which one session has ways at a time.
const WAYS_MAX: usize = 16;

/// Ways of one user, who asks one pool by them.
#[derive(Default)]
pub struct Ways {
    /// What was known when they were looked up.
    version: u64,
    ways: Vec<Way>,
}

struct Way {
    name: Arc<str>,
    server: Arc<Server>,
    mapping: Arc<Mapping>,
    /// The place of its connections in the session's pool, once it is known.
    line: Option<usize>,
}

/// What a way leads to, and where its connections are kept once that is known.
pub(super) type Found<'a> = (&'a Arc<Server>, &'a Arc<Mapping>, &'a mut Option<usize>);

impl Ways {
    /// The way to a server; `None` where there is none.
    pub(super) fn to(&mut self, catalog: &ShardCatalog, name: &Arc<str>, role: &str) -> Option<Found<'_>> {
        let version = catalog.version();
        if self.version != version {
            self.ways.clear();
            self.version = version;
        }
        let is_it = |way: &Way| Arc::ptr_eq(&way.name, name) || way.name == *name;
        let place = match self.ways.iter().position(is_it) {
            Some(place) => place,
            None => {
                // What changes meanwhile has another version than the one that was read before.
                let known = catalog.known();
                let server = Arc::clone(known.server(name).ok()?);
                let mapping = Arc::clone(known.mapping_of_member(&server, role).ok()?);
                if self.ways.len() >= WAYS_MAX {
                    self.ways.clear();
                }
                self.ways.push(Way { name: Arc::clone(name), server, mapping, line: None });
                self.ways.len() - 1
            }
        };
        let way = &mut self.ways[place];
        Some((&way.server, &way.mapping, &mut way.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Secret;

    fn server(name: &str, port: u16) -> Arc<Server> {
        Arc::new(Server { name: name.to_owned(), host: "h".to_owned(), port, dbname: "d".to_owned(), primary: None })
    }

    #[test]
    fn a_way_is_looked_up_again_when_something_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = ShardCatalog::open(dir.path()).unwrap();
        let mut ways = Ways::default();
        let names: Vec<Arc<str>> = (0..=WAYS_MAX).map(|number| format!("s{number}").into()).collect();
        assert!(ways.to(&catalog, &names[0], "u").is_none());
        let declare = |port: u16| {
            let declared = catalog.change(|known| {
                for name in &names {
                    known.servers.insert(name.to_string(), server(name, port));
                    let mapping = Mapping {
                        server: name.to_string(),
                        role: None,
                        user: "postgres".to_owned(),
                        password: Secret::new(""),
                    };
                    known.mappings.insert((name.to_string(), String::new()), Arc::new(mapping));
                }
                Ok(())
            });
            declared.unwrap();
        };
        declare(1);
        let known = catalog.known();
        for name in names.iter().chain(&names) {
            let (server, mapping, _) = ways.to(&catalog, name, "u").unwrap();
            assert!(Arc::ptr_eq(server, known.server(name).unwrap()) && mapping.user == "postgres");
        }
        assert!(ways.ways.len() <= WAYS_MAX);
        // The same name, written elsewhere.
        let count = ways.ways.len();
        let last: Arc<str> = names[WAYS_MAX].to_string().into();
        assert_eq!(ways.to(&catalog, &last, "u").map(|(server, _, _)| server.port), Some(1));
        assert_eq!(ways.ways.len(), count);
        declare(2);
        assert_eq!(ways.to(&catalog, &last, "u").map(|(server, _, _)| server.port), Some(2));
        let dropped = catalog.change(|known| {
            known.servers.clear();
            Ok(())
        });
        dropped.unwrap();
        assert!(ways.to(&catalog, &last, "u").is_none());
    }
}
