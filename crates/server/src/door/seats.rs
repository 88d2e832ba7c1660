//! How many clients a door serves at once: a bounded number of seats, each held by one connection.
//!
//! Taken by `runtime` at accept (standing room) and by the doors when a client turns out to want a session.
//! Counts only; what a client without a seat is told is its door's business.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Connections beyond the seats that may stand: long enough to send a cancel request, or to be told that the server
/// is full in the words of their protocol. Further ones are closed without a word.
const STANDING: u32 = 128;

/// The seats of one door.
#[derive(Debug)]
pub(crate) struct Seats {
    seated: AtomicU32,
    inside: AtomicU32,
    seats: u32,
}

/// A client with a session; gives the seat back when dropped.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Seats>);

/// An accepted connection; leaves when dropped.
#[derive(Debug)]
pub(crate) struct Entry(Arc<Seats>);

impl Seats {
    /// A door with so many seats.
    pub(crate) fn new(seats: u32) -> Arc<Self> {
        Arc::new(Self { seated: AtomicU32::new(0), inside: AtomicU32::new(0), seats })
    }

    /// Lets a connection in, if there is standing room left.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entry> {
        take(&self.inside, self.seats.saturating_add(STANDING)).then(|| Entry(Arc::clone(self)))
    }

    /// Gives a seat to a connection that is inside, if one is free.
    pub(crate) fn sit(self: &Arc<Self>) -> Option<Seat> {
        take(&self.seated, self.seats).then(|| Seat(Arc::clone(self)))
    }

    /// Clients that have a session.
    pub(crate) fn seated(&self) -> u32 {
        self.seated.load(Ordering::Relaxed)
    }
}

fn take(counter: &AtomicU32, most: u32) -> bool {
    counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count < most).then(|| count + 1)).is_ok()
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seated.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_door_seats_the_next_client_only_after_one_has_left() {
        let seats = Seats::new(2);
        let first = seats.sit().expect("a free seat");
        let second = seats.sit().expect("a free seat");
        assert!(seats.sit().is_none());
        assert_eq!(seats.seated(), 2);
        drop(first);
        let third = seats.sit();
        assert!(third.is_some());
        assert!(seats.sit().is_none());
        drop((second, third));
        assert_eq!(seats.seated(), 0);
    }

    #[test]
    fn standing_room_is_bounded_too() {
        let seats = Seats::new(3);
        let inside: Vec<_> = std::iter::from_fn(|| seats.enter()).take(10_000).collect();
        assert_eq!(inside.len(), 3 + STANDING as usize);
        drop(inside);
        assert!(seats.enter().is_some());
    }
}
