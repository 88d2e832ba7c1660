//! Channels of LISTEN and NOTIFY: the listeners of each, and the notifications on their way to them.
//!
//! One instance for a server. A session reserves room for its notifications before its transaction commits and delivers
//! them afterwards. If a listener does not read, NOTIFY fails instead of the server growing. Never waits.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_store::Reservation;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bytes of notifications that may wait for one session.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// Bytes of a notification beside its texts, including its place in a mailbox.
const NOTIFICATION_BYTES: usize = 96;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The process number of the session that sent it.
    pub pid: i32,
    /// The channel.
    pub channel: String,
    /// The payload.
    pub payload: String,
}

impl Notification {
    /// Bytes that it holds, as estimated.
    pub fn bytes(&self) -> usize {
        NOTIFICATION_BYTES + self.channel.len() + self.payload.len()
    }
}

/// The channels of a server, with their listeners.
#[derive(Default)]
pub struct Channels(Mutex<HashMap<String, Vec<Arc<Mailbox>>>>);

/// The notifications that wait for one session.
#[derive(Default)]
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    notifications: VecDeque<Arc<Notification>>,
    /// Bytes of the notifications, and of those that room has been reserved for.
    bytes: usize,
    /// The charge for them; what is charged beyond them is released when nothing waits.
    memory: Option<Reservation>,
}

impl Waiting {
    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if self.bytes == 0
            && let Some(memory) = &mut self.memory
        {
            memory.clear();
        }
    }
}

impl Mailbox {
    /// An empty mailbox, with the account that its notifications are charged to.
    pub fn charged_to(memory: Reservation) -> Self {
        let waiting = Waiting { memory: Some(memory), ..Waiting::default() };
        Self { waiting: Mutex::new(waiting), arrived: Notify::new() }
    }

    /// Reserves room; false if there is none.
    fn make_room(&self, bytes: usize) -> bool {
        let mut waiting = self.waiting.lock();
        let fits = waiting.bytes + bytes <= WAITING_BYTES_MAX;
        if fits && waiting.memory.as_mut().is_none_or(|memory| memory.grow(bytes).is_ok()) {
            waiting.bytes += bytes;
            return true;
        }
        false
    }

    fn give_back(&self, bytes: usize) {
        self.waiting.lock().give_back(bytes);
    }

    /// Takes the notifications that have arrived.
    pub fn take(&self) -> Vec<Arc<Notification>> {
        let mut waiting = self.waiting.lock();
        let taken: Vec<Arc<Notification>> = waiting.notifications.drain(..).collect();
        waiting.give_back(taken.iter().map(|notification| notification.bytes()).sum::<usize>());
        taken
    }

    /// Resolves when there is a notification to take.
    pub async fn arrived(&self) {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            // Before the look, so that nothing that comes in between is missed.
            arrived.as_mut().enable();
            if !self.waiting.lock().notifications.is_empty() {
                return;
            }
            arrived.await;
        }
    }
}

impl Channels {
    /// Registers a listener of a channel.
    pub fn listen(&self, channel: &str, mailbox: &Arc<Mailbox>) {
        let mut channels = self.0.lock();
        let listeners = channels.entry(channel.to_owned()).or_default();
        if !listeners.iter().any(|known| Arc::ptr_eq(known, mailbox)) {
            listeners.push(Arc::clone(mailbox));
        }
    }

    /// Removes a listener of a channel.
    pub fn unlisten(&self, channel: &str, mailbox: &Arc<Mailbox>) {
        let mut channels = self.0.lock();
        let Some(listeners) = channels.get_mut(channel) else { return };
        listeners.retain(|known| !Arc::ptr_eq(known, mailbox));
        if listeners.is_empty() {
            channels.remove(channel);
        }
    }

    /// Reserves room for notifications in the mailboxes of their listeners.
    ///
    /// # Errors
    /// 54000 if a listener has too many notifications that it has not read.
    pub fn prepare(&self, notifications: Vec<Notification>) -> Result<Letters> {
        let channels = self.0.lock();
        let mut letters = Letters::default();
        for notification in notifications {
            let Some(listeners) = channels.get(&notification.channel) else { continue };
            let notification = Arc::new(notification);
            for mailbox in listeners {
                if !mailbox.make_room(notification.bytes()) {
                    // What there is room for already goes with `letters`.
                    return Err(Error::new(
                        ErrorCode::ProgramLimitExceeded,
                        "too many notifications in the NOTIFY queue",
                    )
                    .with_detail(format!("A session that listens to \"{}\" does not read.", notification.channel)));
                }
                letters.0.push((Arc::clone(mailbox), Arc::clone(&notification)));
            }
        }
        Ok(letters)
    }
}

/// Notifications that room is reserved for. Dropping them without sending releases the room.
#[derive(Default)]
pub struct Letters(Vec<(Arc<Mailbox>, Arc<Notification>)>);

impl Letters {
    /// Puts them into the mailboxes.
    pub fn send(mut self) {
        for (mailbox, notification) in self.0.drain(..) {
            mailbox.waiting.lock().notifications.push_back(notification);
            mailbox.arrived.notify_waiters();
        }
    }
}

impl Drop for Letters {
    fn drop(&mut self) {
        for (mailbox, notification) in &self.0 {
            mailbox.give_back(notification.bytes());
        }
    }
}

/// What a transaction does with channels, in its order.
#[derive(Clone, Debug)]
pub enum Wish {
    /// LISTEN
    Listen(String),
    /// UNLISTEN; `None` for all
    Unlisten(Option<String>),
    /// NOTIFY
    Notify(Notification),
}

/// The channels that a session listens to after these requests have taken effect.
pub fn listening(before: &BTreeSet<String>, wishes: &[Wish]) -> BTreeSet<String> {
    let mut channels = before.clone();
    for wish in wishes {
        match wish {
            Wish::Listen(channel) => {
                channels.insert(channel.clone());
            }
            Wish::Unlisten(Some(channel)) => {
                channels.remove(channel);
            }
            Wish::Unlisten(None) => channels.clear(),
            Wish::Notify(_) => {}
        }
    }
    channels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(channel: &str, payload: &str) -> Notification {
        Notification { pid: 1, channel: channel.to_owned(), payload: payload.to_owned() }
    }

    #[test]
    fn letters_arrive_in_order_at_those_who_listen() {
        let channels = Channels::default();
        let (first, second) = (Arc::new(Mailbox::default()), Arc::new(Mailbox::default()));
        channels.listen("a", &first);
        channels.listen("a", &second);
        channels.listen("a", &second);
        channels.listen("b", &second);
        channels.prepare(vec![said("a", "1"), said("b", "2"), said("c", "3")]).unwrap().send();
        channels.unlisten("a", &first);
        channels.prepare(vec![said("a", "4")]).unwrap().send();
        let payloads = |mailbox: &Mailbox| -> Vec<String> {
            mailbox.take().iter().map(|notification| notification.payload.clone()).collect()
        };
        assert_eq!(payloads(&first), ["1"]);
        assert_eq!(payloads(&second), ["1", "2", "4"]);
        assert_eq!(second.waiting.lock().bytes, 0);
        channels.unlisten("a", &second);
        channels.unlisten("b", &second);
        assert!(channels.0.lock().is_empty());
    }

    #[test]
    fn who_does_not_read_makes_others_fail_and_nothing_stays_behind() {
        let channels = Channels::default();
        let (reads, sleeps) = (Arc::new(Mailbox::default()), Arc::new(Mailbox::default()));
        channels.listen("a", &reads);
        channels.listen("a", &sleeps);
        let long = "x".repeat(7000);
        let mut sent = 0;
        while let Ok(letters) = channels.prepare(vec![said("a", &long)]) {
            letters.send();
            assert_eq!(reads.take().len(), 1);
            sent += 1;
        }
        assert!(sent > 1000, "{sent}");
        assert_eq!(reads.waiting.lock().bytes, 0);
        // Not sent after all: as if there had been none.
        assert_eq!(sleeps.take().len(), sent);
        drop(channels.prepare(vec![said("a", &long)]).unwrap());
        assert_eq!(sleeps.waiting.lock().bytes, 0);
        assert!(sleeps.take().is_empty());
    }
}
