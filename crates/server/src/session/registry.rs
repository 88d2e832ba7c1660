//! The SQL sessions that are open, as a cancel request and `pg_stat_activity` find them, and the token through which the request reaches
//! them.
//!
//! The PostgreSQL door registers each session and looks up cancel requests; the session and whatever runs for it
//! watch the token. Nothing here waits for a statement to notice.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

use ashlar_base::{Error, ErrorCode, clock};
use ashlar_query::{ListSessions, OpenSession, OpenSessions};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::activity::Activity;

/// Tells a running statement to stop. Clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Token>);

#[derive(Debug, Default)]
struct Token {
    /// [`RUNS`], or why it should not.
    reason: AtomicU8,
    notify: Notify,
    /// The session's own task, where it has waited by [`CancelToken::cancelled_here`].
    own: AtomicWaker,
}

const RUNS: u8 = 0;
const REQUESTED: u8 = 1;
const TIMED_OUT: u8 = 2;

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests that everything which watches the token stop, now and until [`CancelToken::reset`].
    pub fn cancel(&self) {
        self.stop(REQUESTED);
    }

    /// Stops what watches the token as [`CancelToken::cancel`] does: it has had its time.
    pub fn time_out(&self) {
        self.stop(TIMED_OUT);
    }

    fn stop(&self, reason: u8) {
        // The first reason counts. Whoever was later has what was wanted.
        let _ = self.0.reason.compare_exchange(RUNS, reason, Ordering::SeqCst, Ordering::SeqCst);
        self.0.own.wake();
        self.0.notify.notify_waiters();
    }

    /// Forgets an earlier request: it was for an earlier statement.
    pub fn reset(&self) {
        // Nearly always there is none, and a read does not take the cache line from other cores.
        if self.is_cancelled() {
            self.0.reason.store(RUNS, Ordering::SeqCst);
        }
    }

    /// Whether to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.reason.load(Ordering::SeqCst) != RUNS
    }

    /// 57014: what a client is told whose statement was stopped.
    pub fn error(&self) -> Error {
        let why = match self.0.reason.load(Ordering::SeqCst) {
            TIMED_OUT => "statement timeout",
            _ => "user request",
        };
        Error::new(ErrorCode::QueryCanceled, format!("canceling statement due to {why}"))
    }

    /// Resolves when there is a request to stop.
    pub async fn cancelled(&self) {
        loop {
            let notified = self.0.notify.notified();
            tokio::pin!(notified);
            // Enabled before the flag is read, so that a request between the two is not missed.
            notified.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }

    /// The same for the task that the session is run by, which waits for one thing at a time: it is in no list. Of several tasks that waited
    /// in this way only the last would be woken.
    pub async fn cancelled_here(&self) {
        poll_fn(|context| {
            if self.is_cancelled() {
                return Poll::Ready(());
            }
            self.0.own.register(context.waker());
            // Once more, so that a request between the two is not missed.
            if self.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The open sessions by the number that their client knows. Bounded by `server.connections_max`, which the door holds.
#[derive(Debug, Default)]
pub struct SessionRegistry(Arc<All>);

#[derive(Debug, Default)]
struct All(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    open: HashMap<i32, Open>,
    last_pid: i32,
}

/// An open session.
#[derive(Debug)]
struct Open {
    secret: Box<[u8]>,
    token: CancelToken,
    who: Arc<Who>,
    /// Microseconds since 1970.
    begun: i64,
}

/// What others are told of a session.
#[derive(Debug, Default)]
pub struct Who {
    /// The user of its startup message.
    pub user: String,
    /// The database of its startup message.
    pub database: String,
    /// Where its client is, if that is known.
    pub client: Option<SocketAddr>,
    /// What it is doing.
    pub activity: Arc<Activity>,
}

/// A session's place in the registry, given up when dropped.
#[derive(Debug)]
pub struct Registration {
    sessions: Arc<All>,
    pid: i32,
    secret: Box<[u8]>,
}

impl SessionRegistry {
    /// Enters a session, with a fresh secret of `secret_bytes` bytes that a cancel request must show.
    pub fn register(&self, token: CancelToken, secret_bytes: usize, who: Who) -> Registration {
        let (secret, who) = (random_bytes(secret_bytes), Arc::new(who));
        let begun = clock::wall_micros();
        let mut sessions = self.0.0.lock();
        // Numbers come back only after two billion connections, and even then not while they are in use.
        let pid = loop {
            sessions.last_pid = sessions.last_pid.checked_add(1).unwrap_or(1);
            if !sessions.open.contains_key(&sessions.last_pid) {
                break sessions.last_pid;
            }
        };
        sessions.open.insert(pid, Open { secret: secret.clone(), token, who, begun });
        Registration { sessions: Arc::clone(&self.0), pid, secret }
    }

    /// Cancels what the session is doing, if the secret is its own; says whether it was.
    pub fn cancel(&self, pid: i32, secret: &[u8]) -> bool {
        let sessions = self.0.0.lock();
        match sessions.open.get(&pid) {
            Some(open) if same(&open.secret, secret) => {
                open.token.cancel();
                true
            }
            _ => false,
        }
    }

    /// How many sessions are open.
    pub fn count(&self) -> usize {
        self.0.0.lock().open.len()
    }

    /// The open sessions, for those who ask what is done.
    pub fn listed(&self) -> OpenSessions {
        OpenSessions::of(Arc::<All>::clone(&self.0))
    }
}

impl ListSessions for All {
    fn open_sessions(&self) -> Vec<OpenSession> {
        // Texts are copied when nobody who comes or goes has to wait for it any more.
        let open: Vec<(i32, Arc<Who>, i64)> = {
            let sessions = self.0.lock();
            sessions.open.iter().map(|(pid, open)| (*pid, Arc::clone(&open.who), open.begun)).collect()
        };
        let mut all: Vec<OpenSession> = open.iter().map(|(pid, who, begun)| who.told(*pid, *begun)).collect();
        all.sort_unstable_by_key(|session| session.pid);
        all
    }
}

impl Who {
    fn told(&self, pid: i32, begun: i64) -> OpenSession {
        let Self { user, database, client, activity } = self;
        let doing = activity.now();
        OpenSession {
            pid,
            user: user.clone(),
            database: database.clone(),
            client: *client,
            begun,
            transaction_begun: doing.transaction_begun,
            statement_begun: doing.statement_begun,
            changed: doing.changed,
            state: doing.state(),
            application: doing.application,
            statement: doing.statement,
        }
    }
}

impl Registration {
    /// The number of the session.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What a cancel request must show.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.sessions.0.lock().open.remove(&self.pid);
    }
}

/// Equality that takes the same time wherever the difference is.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// Bytes that a stranger cannot guess: a keyed hash (SipHash, its key from the operating system) of a counter.
fn random_bytes(count: usize) -> Box<[u8]> {
    let state = RandomState::new();
    let words = (0u64..).map(|number| {
        let mut hasher = state.build_hasher();
        hasher.write_u64(number);
        hasher.finish().to_ne_bytes()
    });
    words.flatten().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn the_sessions_own_task_is_woken_by_each_request() {
        let token = CancelToken::new();
        for _ in 0..3 {
            let (own, other) = (token.clone(), token.clone());
            let own = tokio::spawn(async move { own.cancelled_here().await });
            let other = tokio::spawn(async move { other.cancelled().await });
            tokio::task::yield_now().await;
            assert!(!own.is_finished() && !other.is_finished());
            token.cancel();
            own.await.expect("a task that ends");
            other.await.expect("a task that ends");
            token.reset();
            assert!(token.cancelled_here().now_or_never().is_none());
            // One that came while nobody waited, and was forgotten.
            token.time_out();
            assert!(token.cancelled_here().now_or_never().is_some());
            token.reset();
        }
    }

    #[test]
    fn only_the_right_secret_cancels_and_only_while_the_session_is_open() {
        let registry = SessionRegistry::default();
        let (first, second) = (CancelToken::new(), CancelToken::new());
        let one = registry.register(first.clone(), 4, Who::default());
        let other = registry.register(second.clone(), 32, Who::default());
        assert_ne!(one.pid(), other.pid());
        assert_eq!((one.secret().len(), other.secret().len()), (4, 32));

        assert!(!registry.cancel(one.pid(), other.secret()));
        assert!(!registry.cancel(one.pid(), &one.secret()[..3]));
        assert!(!first.is_cancelled());
        assert!(registry.cancel(one.pid(), one.secret()));
        assert!(first.is_cancelled() && !second.is_cancelled());

        let (pid, secret) = (one.pid(), one.secret().to_vec());
        drop(one);
        assert!(!registry.cancel(pid, &secret));
        assert_eq!(registry.count(), 1);
    }

    #[test]
    fn open_sessions_are_told_with_what_they_do() {
        let registry = SessionRegistry::default();
        let who = |user: &str| Who { user: user.to_owned(), ..Who::default() };
        let one = registry.register(CancelToken::new(), 4, who("one"));
        let other = who("other");
        let activity = Arc::clone(&other.activity);
        let other = registry.register(CancelToken::new(), 4, other);
        activity.call("tool");
        activity.begin("SELECT 1");

        let told = registry.0.open_sessions();
        assert_eq!(told.iter().map(|session| session.pid).collect::<Vec<_>>(), [one.pid(), other.pid()]);
        let OpenSession { user, application, state, statement, .. } = &told[1];
        assert_eq!(
            (user.as_str(), application.as_str(), *state, statement.as_str()),
            ("other", "tool", "active", "SELECT 1")
        );
        assert_eq!(registry.listed(), registry.listed());
        assert_ne!(registry.listed(), SessionRegistry::default().listed());

        drop(one);
        assert_eq!(registry.0.open_sessions().len(), 1);
    }

    /// A session whose activity cannot be read yet holds up who asks for it, and nobody who comes or goes.
    #[test]
    fn sessions_come_and_go_while_texts_are_copied() {
        let registry = SessionRegistry::default();
        let who = Who::default();
        let activity = Arc::clone(&who.activity);
        let one = registry.register(CancelToken::new(), 4, who);
        let told = activity.held(|| {
            let listed = Arc::clone(&registry.0);
            let asks = std::thread::spawn(move || listed.open_sessions());
            // With this copy of who it is, the other thread is past the registry's lock.
            while Arc::strong_count(&registry.0.0.lock().open[&one.pid()].who) == 1 {
                std::thread::yield_now();
            }
            drop(registry.register(CancelToken::new(), 4, Who::default()));
            asks
        });
        assert_eq!(told.join().expect("a thread that ends").len(), 1);
    }

    #[test]
    fn a_waiter_sees_a_request_made_before_or_after_it_waits() {
        let token = CancelToken::new();
        let waiting = token.cancelled();
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        token.cancel();
        assert!(waiting.now_or_never().is_some());
        assert!(token.cancelled().now_or_never().is_some());
        token.reset();
        assert!(token.cancelled().now_or_never().is_none());
    }
}
