//! Connections opened before they are needed: as many to each server as the configuration asks for.
//!
//! Started with each pool, as a task of the runtime that drives the pool's connections, so that they are spread over
//! all threads. Connections that broke or are too old are closed by the pools and opened again here. A server that is
//! down is left alone.

use std::sync::{Arc, Weak};

use ashlar_base::scope::{self, Name};
use tokio::task::JoinSet;

use super::Fleet;
use crate::health::is_away;
use crate::pool::{Pool, WARM_PERIOD};
use crate::server::{Mapping, Server};

static WARMING: Name = Name::new("shard connections that nobody needs yet");

/// Begins to make connections for a pool, on the current runtime. Ends with the fleet.
pub(super) fn start(fleet: &Weak<Fleet>, pool: &Arc<Pool>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(scope::task(&WARMING, keep(Weak::clone(fleet), Arc::downgrade(pool)))));
    }
}

async fn keep(fleet: Weak<Fleet>, pool: Weak<Pool>) {
    loop {
        let made = {
            let (Some(fleet), Some(pool)) = (fleet.upgrade(), pool.upgrade()) else { return };
            make(&fleet, &pool).await
        };
        // The others have had their turn meanwhile.
        if !made {
            tokio::time::sleep(WARM_PERIOD).await;
        }
    }
}

/// Makes one connection to each server that has too few; whether there was one.
async fn make(fleet: &Arc<Fleet>, pool: &Arc<Pool>) -> bool {
    let known = fleet.catalog().known();
    let mut works = JoinSet::new();
    for server in known.servers.values().filter(|server| fleet.health().check(&server.name).is_ok()) {
        let Some(mapping) = known.any_mapping(server) else { continue };
        let (fleet, pool) = (Arc::clone(fleet), Arc::clone(pool));
        let (server, mapping) = (Arc::clone(server), Arc::clone(mapping));
        works.spawn(scope::task(&WARMING, async move { make_one(&fleet, &pool, &server, &mapping).await }));
    }
    let mut made = false;
    while let Some(one) = works.join_next().await {
        made |= one.unwrap_or(false);
    }
    made
}

async fn make_one(fleet: &Fleet, pool: &Arc<Pool>, server: &Arc<Server>, mapping: &Arc<Mapping>) -> bool {
    match pool.warm(server, mapping, fleet.warm_share()).await {
        Ok(made) => {
            if made {
                fleet.health().succeeded(&server.name);
            }
            made
        }
        Err(error) => {
            if is_away(&error) {
                fleet.health().failed(&server.name, &error);
            }
            tracing::debug!(server = server.name, %error, "a connection that nobody needs yet could not be made");
            false
        }
    }
}
