//! LISTEN, UNLISTEN and NOTIFY: requests of a transaction that take effect when it commits.

use std::collections::BTreeSet;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_store::Reservation;

use super::{Block, SqlSession};
use crate::session::Shared;
use crate::session::channels::{Letters, Mailbox, Notification, Wish, listening};

/// A payload must be shorter than this, in bytes, as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 8000;

/// The name of a channel must be shorter than this, in bytes.
const CHANNEL_BYTES_MAX: usize = 64;

/// Bytes of a channel that a session listens to, beside its name, here and in the list of all listeners. Both contain the name.
const LISTENED_BYTES: usize = 256;

/// Bytes of a session's channels that are not charged, because most sessions listen to few.
const LISTENED_BYTES_FREE: usize = 64 << 10;

/// What a session listens to, and what its transaction has asked for.
#[derive(Default)]
pub(super) struct Mail {
    /// Created by its first LISTEN.
    mailbox: Option<Arc<Mailbox>>,
    listening: BTreeSet<String>,
    /// The charge for what it listens to, if that is much.
    memory: Option<Reservation>,
    wishes: Vec<Wish>,
    /// The charge for the requests.
    held: Option<Reservation>,
}

/// Requests that take effect when the transaction has committed. Dropping this without that undoes what was prepared, for instance
/// because the client disconnects while its commit waits.
pub(super) struct Outgoing {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    letters: Letters,
    listening: BTreeSet<String>,
    memory: Option<Reservation>,
    /// Channels that are registered already, so that the transaction receives its own notifications.
    new: Vec<String>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.new.iter().for_each(|channel| self.shared.channels.unlisten(channel, &self.mailbox));
    }
}

impl SqlSession {
    /// Adds a request of the transaction.
    pub(super) fn wish(&mut self, wish: Wish) -> Result<()> {
        let bytes = match &wish {
            Wish::Notify(notification) => {
                check_channel(&notification.channel)?;
                if notification.payload.len() >= PAYLOAD_BYTES_MAX {
                    return Err(Error::new(ErrorCode::InvalidParameterValue, "payload string too long"));
                }
                // Told twice it is told once.
                let is_known = |known: &Wish| matches!(known, Wish::Notify(known) if known == notification);
                if self.mail.wishes.iter().any(is_known) {
                    return Ok(());
                }
                notification.bytes()
            }
            Wish::Listen(channel) => {
                check_channel(channel)?;
                size_of::<Wish>() + channel.len()
            }
            Wish::Unlisten(channel) => size_of::<Wish>() + channel.as_ref().map_or(0, String::len),
        };
        let store = self.shared.engine.store();
        self.mail.held.get_or_insert_with(|| store.reservation()).grow(bytes)?;
        self.mail.wishes.push(wish);
        Ok(())
    }

    /// The request of a NOTIFY.
    pub(super) fn notification(&self, channel: &str, payload: &str) -> Wish {
        Wish::Notify(Notification { pid: self.identity.pid, channel: channel.to_owned(), payload: payload.to_owned() })
    }

    /// The number of requests: a mark for ROLLBACK TO SAVEPOINT.
    pub(super) fn wishes(&self) -> usize {
        self.mail.wishes.len()
    }

    /// Removes the requests after a mark.
    pub(super) fn forget_wishes(&mut self, left: usize) {
        self.mail.wishes.truncate(left);
        if left == 0 {
            self.mail.held = None;
        }
    }

    /// Prepares the requests for the commit that follows; `None` if there are none.
    ///
    /// # Errors
    /// 54000; 53200 over the memory bound.
    pub(super) fn prepare_wishes(&mut self) -> Result<Option<Outgoing>> {
        if self.mail.wishes.is_empty() {
            return Ok(None);
        }
        let wishes = std::mem::take(&mut self.mail.wishes);
        let then = listening(&self.mail.listening, &wishes);
        let new: Vec<String> = then.difference(&self.mail.listening).cloned().collect();
        let store = self.shared.engine.store();
        let bytes: usize = then.iter().map(|channel| LISTENED_BYTES + 2 * channel.len()).sum();
        let is_paid_for = bytes <= LISTENED_BYTES_FREE || then == self.mail.listening;
        let mut memory = (!is_paid_for).then(|| store.reservation());
        if let Some(memory) = &mut memory {
            memory.grow(bytes)?;
        }
        let mailbox = self.mail.mailbox.get_or_insert_with(|| Arc::new(Mailbox::charged_to(store.reservation())));
        new.iter().for_each(|channel| self.shared.channels.listen(channel, mailbox));
        let (shared, mailbox) = (Arc::clone(&self.shared), Arc::clone(mailbox));
        let mut outgoing = Outgoing { shared, mailbox, letters: Letters::default(), listening: then, memory, new };
        let said = wishes.into_iter().filter_map(|wish| match wish {
            Wish::Notify(notification) => Some(notification),
            Wish::Listen(_) | Wish::Unlisten(_) => None,
        });
        outgoing.letters = self.shared.channels.prepare(said.collect())?;
        Ok(Some(outgoing))
    }

    /// Carries out what was prepared, or undoes it.
    pub(super) fn settle_wishes(&mut self, outgoing: Option<Outgoing>, is_committed: bool) {
        self.mail.held = None;
        let Some(mut outgoing) = outgoing.filter(|_| is_committed) else { return };
        outgoing.new.clear();
        let listening = std::mem::take(&mut outgoing.listening);
        let gone = self.mail.listening.difference(&listening);
        gone.for_each(|channel| self.shared.channels.unlisten(channel, &outgoing.mailbox));
        std::mem::take(&mut outgoing.letters).send();
        if listening != self.mail.listening {
            (self.mail.listening, self.mail.memory) = (listening, outgoing.memory.take());
        }
    }

    /// UNLISTEN *, at once.
    pub(super) fn listen_to_nothing(&mut self) {
        if let Some(mailbox) = &self.mail.mailbox {
            self.mail.listening.iter().for_each(|channel| self.shared.channels.unlisten(channel, mailbox));
        }
        self.mail = Mail::default();
    }

    /// Takes the notifications for a client that is in no transaction.
    pub fn take_notifications(&mut self) -> Vec<Arc<Notification>> {
        match &self.mail.mailbox {
            Some(mailbox) if self.block == Block::None => mailbox.take(),
            _ => Vec::new(),
        }
    }

    /// Whether there may ever be one.
    pub fn has_mailbox(&self) -> bool {
        self.mail.mailbox.is_some()
    }

    /// Resolves when there is a notification for such a client.
    pub fn notified(&self) -> impl Future<Output = ()> + use<> {
        let mailbox = self.mail.mailbox.clone().filter(|_| self.block == Block::None);
        async move {
            match mailbox {
                Some(mailbox) => mailbox.arrived().await,
                None => std::future::pending().await,
            }
        }
    }
}

/// 22023
fn check_channel(channel: &str) -> Result<()> {
    let message = match channel.len() {
        0 => "channel name cannot be empty",
        CHANNEL_BYTES_MAX.. => "channel name too long",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorCode::InvalidParameterValue, message))
}
