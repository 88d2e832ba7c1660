//! A connection that is idle and as it is wanted, lent at once: what nearly every statement finds.
//!
//! Called by the fleet for statements that have nothing else to wait for. Waits for nothing, asks no server, makes nothing.

use std::sync::Arc;
use std::time::Instant;

use super::{Lease, Pool};
use crate::backend::{Backend, Settings};
use crate::server::{Mapping, Server};

impl Pool {
    /// Lends the connection that was given back last, where it has these settings already. `None`: [`Self::lend`] has to be
    /// asked. `now`: what the clock says. `place`: that of the server's line here, once it has been found.
    pub fn lend_idle(
        self: &Arc<Self>,
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        settings: &Settings,
        now: Instant,
        place: &mut Option<usize>,
    ) -> Option<Lease> {
        let fits =
            |backend: &mut Box<Backend>| self.fits(backend, server, mapping, now) && backend.has_settings(settings);
        let mut lines = self.lines.lock();
        let line = match *place {
            Some(place) => lines.at(place)?,
            None => {
                let line = lines.get_mut(&server.name)?;
                *place = Some(line.place);
                line
            }
        };
        let backend = line.idle.pop_if(fits)?;
        line.counts.lent += 1;
        if let Some(card) = &backend.card {
            card.lend();
        }
        let slot = self.slot(line.place, None, line.generation);
        drop(lines);
        Some(Lease { backend: Some(backend), slot, home: None, since: now })
    }
}
