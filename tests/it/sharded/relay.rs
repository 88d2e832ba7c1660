//! Sits between Ashlar and its shards and knows where a message ends: something happens just before one goes through, or just before
//! its answer does. So every step of a commit on several shards is a place where a test can kill somebody.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use ashlar_tests::process::PATIENCE;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Ashlar is killed.
    Kill,
    /// The connection is cut.
    Cut,
    /// Nothing goes through until [`Wire::release`].
    Hold,
    /// The shard's end is cut, and Ashlar's stays open until [`Wire::release`]: nobody is there any more to answer it.
    CutShard,
    /// Ashlar's end is cut, and the shard's stays open until [`Wire::release`]: it waits for somebody who has gone.
    CutAshlar,
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before the shard has seen the message.
    Before,
    /// When the shard is at it: it has the message, nothing that Ashlar sends follows, and it happens at [`Wire::release`].
    Meanwhile,
    /// When the shard has done it all, and Ashlar has not heard of it.
    After,
}

/// The code of a cancel request, in place of a version.
const CANCEL: u32 = 80_877_102;

/// What a commit on several shards says, in this order. What looks after transactions that were left says all of it too, but for the first,
/// and Ashlar looks after them whenever it likes.
const WORDS_OF_COMMITS: [&str; 4] =
    ["PREPARE TRANSACTION", "INSERT INTO ashlar.decisions", "COMMIT PREPARED", "DELETE FROM ashlar.decisions"];

struct Trap {
    text: String,
    when: When,
    skip: usize,
    act: Act,
    /// How many words of a commit have to be said before it counts, so that it is the commit's and not that of a look.
    awaits: usize,
    /// So many of them were, in their order.
    said: usize,
}

impl Trap {
    /// Whether it is this message that it waits for.
    fn takes(&mut self, body: &[u8]) -> bool {
        let counts = self.said >= self.awaits;
        if !counts && holds(body, WORDS_OF_COMMITS[self.said]) {
            self.said += 1;
        }
        counts && holds(body, &self.text)
    }
}

/// Whether a message has this in it.
fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[derive(Default)]
struct State {
    trap: Option<Trap>,
    /// Messages of the simple protocol that still go through, before Ashlar dies.
    left: Option<(u64, When)>,
    victim: u32,
    is_sprung: bool,
    is_held: bool,
    /// What is counted in messages, and how many had it.
    counted: Option<(String, usize)>,
    /// Cancel requests stay here.
    holds_cancels: bool,
    /// So many have.
    cancels_held: usize,
    /// The tag of an answer that is lost on its way.
    lost: Option<String>,
}

/// All relays of one Ashlar.
#[derive(Default)]
pub(super) struct Wire {
    state: Mutex<State>,
    changed: Condvar,
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Whom [`Act::Kill`] kills.
    pub(super) fn aim(&self, pid: u32) {
        self.state().victim = pid;
    }

    /// At the message of the simple protocol that has this in it, once `skip` of them have gone through. Where that is a word of a commit it
    /// is that of a commit which begins from here on.
    pub(super) fn set(&self, text: &str, skip: usize, when: When, act: Act) {
        let awaits = WORDS_OF_COMMITS.iter().position(|word| *word == text).unwrap_or(0);
        let mut state = self.state();
        state.trap = Some(Trap { text: text.to_owned(), when, skip, act, awaits, said: 0 });
        state.is_sprung = false;
    }

    /// Ashlar dies at a message of the simple protocol, whatever it says, after so many have gone through.
    pub(super) fn die_after(&self, messages: u64, when: When) {
        let mut state = self.state();
        state.left = Some((messages, when));
        state.is_sprung = false;
    }

    /// Nothing happens any more; whether something was still to.
    pub(super) fn disarm(&self) -> bool {
        let mut state = self.state();
        let was_armed = state.trap.is_some() || state.left.is_some();
        (state.trap, state.left) = (None, None);
        was_armed
    }

    /// Counts the messages that have this in them, of whichever protocol, from here on.
    pub(super) fn count(&self, text: &str) {
        self.state().counted = Some((text.to_owned(), 0));
    }

    /// How many there were: one counts before its shard has seen it.
    pub(super) fn counted(&self) -> usize {
        self.state().counted.as_ref().map_or(0, |(_, count)| *count)
    }

    /// Waits until it has happened.
    pub(super) fn wait(&self) {
        let (state, timeout) =
            self.changed.wait_timeout_while(self.state(), PATIENCE, |state| !state.is_sprung).unwrap();
        assert!(!timeout.timed_out(), "no such message: {:?}", state.trap.as_ref().map(|trap| &trap.text));
    }

    /// Whether it has happened.
    pub(super) fn is_sprung(&self) -> bool {
        self.state().is_sprung
    }

    /// Lets go of what is held.
    pub(super) fn release(&self) {
        self.state().is_held = false;
        self.changed.notify_all();
    }

    /// The next CommandComplete with this tag does not come through.
    pub(super) fn lose(&self, tag: &str) {
        self.state().lost = Some(tag.to_owned());
    }

    fn is_lost(&self, message: &[u8]) -> bool {
        let tag = message[5..].strip_suffix(b"\0").filter(|_| message[0] == b'C');
        let mut state = self.state();
        let is_lost = tag.is_some() && tag == state.lost.as_deref().map(str::as_bytes);
        if is_lost {
            state.lost = None;
        }
        is_lost
    }

    /// No cancel request goes through until [`Wire::release_cancels`].
    pub(super) fn hold_cancels(&self) {
        let mut state = self.state();
        (state.holds_cancels, state.cancels_held) = (true, 0);
    }

    /// Waits until one is held.
    pub(super) fn wait_for_cancel(&self) {
        let came = self.changed.wait_timeout_while(self.state(), PATIENCE, |state| state.cancels_held == 0).unwrap();
        assert!(!came.1.timed_out(), "no cancel request");
    }

    /// Lets go of them.
    pub(super) fn release_cancels(&self) {
        self.state().holds_cancels = false;
        self.changed.notify_all();
    }

    fn pass_cancel(&self) {
        let mut state = self.state();
        state.cancels_held += 1;
        self.changed.notify_all();
        let held = self.changed.wait_timeout_while(state, PATIENCE, |state| state.holds_cancels).unwrap();
        assert!(!held.1.timed_out(), "a cancel request was held for too long");
    }

    fn look(&self, kind: u8, body: &[u8]) -> Option<(When, Act)> {
        let mut state = self.state();
        if let Some((text, count)) = &mut state.counted
            && holds(body, text)
        {
            *count += 1;
        }
        if let Some((left, when)) = &mut state.left
            && kind == b'Q'
        {
            if *left > 0 {
                *left -= 1;
            } else {
                let when = *when;
                state.left = None;
                return Some((when, Act::Kill));
            }
        }
        let trap = state.trap.as_mut().filter(|_| kind == b'Q')?;
        if !trap.takes(body) {
            return None;
        }
        if trap.skip > 0 {
            trap.skip -= 1;
            return None;
        }
        let (when, act) = (trap.when, trap.act);
        state.trap = None;
        Some((when, act))
    }

    /// Whether the connection lives on. `cut`: the end of it that is closed meanwhile.
    fn happen(&self, act: Act, cut: Option<&TcpStream>) -> bool {
        let mut state = self.state();
        state.is_sprung = true;
        if act == Act::Kill {
            assert_ne!(state.victim, 0);
            let kill = format!("kill -9 {}", state.victim);
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        }
        if matches!(act, Act::Hold | Act::CutShard | Act::CutAshlar) {
            state.is_held = true;
            // Not before it is held: whoever hears of the cut may let go of it at once.
            if let Some(cut) = cut {
                let _ = cut.shutdown(Shutdown::Both);
            }
            self.changed.notify_all();
            let held = self.changed.wait_timeout_while(state, PATIENCE, |state| state.is_held).unwrap();
            assert!(!held.1.timed_out(), "held for too long");
            return act == Act::Hold;
        }
        self.changed.notify_all();
        false
    }
}

/// The way to one shard.
pub(super) struct Relay {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Relay {
    pub(super) fn start(wire: &Arc<Wire>, shard: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (wire, over) = (Arc::clone(wire), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), wire) = (client, Arc::clone(&wire)) else { continue };
                // Where the shard is down, so is the way to it.
                let Ok(server) = TcpStream::connect(shard) else { continue };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                std::thread::spawn(move || connect(&wire, &client, &server));
            }
        });
        Relay { address, is_over }
    }

    /// Where Ashlar finds it.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

/// One connection.
struct Line<'a> {
    wire: &'a Wire,
    client: &'a TcpStream,
    server: &'a TcpStream,
    /// What is to happen when the answer is complete.
    answer: Mutex<Option<Act>>,
    /// One end has been cut, of which the other one is not to hear yet.
    is_half_open: AtomicBool,
}

fn connect(wire: &Wire, client: &TcpStream, server: &TcpStream) {
    let line = Line { wire, client, server, answer: Mutex::new(None), is_half_open: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            line.forth();
            line.end();
        });
        line.back();
        line.end();
    });
    // An answer that never came.
    let unanswered = line.answer.lock().unwrap().take();
    if let Some(act) = unanswered {
        wire.happen(act, None);
    }
}

impl Line<'_> {
    /// Closes both ends together.
    fn end(&self) {
        if !self.is_half_open.load(Ordering::SeqCst) {
            let _ = self.client.shutdown(Shutdown::Both);
            let _ = self.server.shutdown(Shutdown::Both);
        }
    }

    /// Whether the connection lives on.
    fn happen(&self, act: Act) -> bool {
        let cut = match act {
            Act::CutShard => Some(self.server),
            Act::CutAshlar => Some(self.client),
            Act::Kill | Act::Cut | Act::Hold => None,
        };
        if cut.is_some() {
            // Before it is cut: whoever reads there closes the other end too.
            self.is_half_open.store(true, Ordering::SeqCst);
        }
        let lives_on = self.wire.happen(act, cut);
        self.is_half_open.store(false, Ordering::SeqCst);
        lives_on
    }

    fn forth(&self) -> Option<()> {
        let (mut client, mut server) = (self.client, self.server);
        // The first packet has no kind.
        let mut head = [0; 4];
        client.read_exact(&mut head).ok()?;
        let mut first = vec![0; (u32::from_be_bytes(head) as usize).checked_sub(4)?];
        client.read_exact(&mut first).ok()?;
        let is_cancel = first.starts_with(&CANCEL.to_be_bytes());
        if is_cancel {
            self.wire.pass_cancel();
        }
        server.write_all(&[&head[..], &first].concat()).ok()?;
        if is_cancel {
            // The shard closes when it is done.
            let _ = client.read(&mut [0]);
            return None;
        }
        loop {
            let message = message(client)?;
            let found = self.wire.look(message[0], &message[5..]);
            match found {
                Some((When::Before, act)) if !self.happen(act) => return None,
                Some((When::Before | When::Meanwhile, _)) | None => {}
                Some((When::After, act)) => *self.answer.lock().unwrap() = Some(act),
            }
            server.write_all(&message).ok()?;
            if let Some((When::Meanwhile, act)) = found {
                self.wire.happen(Act::Hold, None);
                if !self.happen(act) {
                    return None;
                }
            }
        }
    }

    fn back(&self) -> Option<()> {
        let mut client = self.client;
        loop {
            let message = message(self.server)?;
            let act = if message[0] == b'Z' { self.answer.lock().unwrap().take() } else { None };
            if act.is_some_and(|act| !self.happen(act)) {
                return None;
            }
            if self.wire.is_lost(&message) {
                continue;
            }
            client.write_all(&message).ok()?;
        }
    }
}

/// A message with its kind and length.
fn message(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut message = head.to_vec();
    message.resize(length + 1, 0);
    stream.read_exact(&mut message[5..]).ok()?;
    Some(message)
}
