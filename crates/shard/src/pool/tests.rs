//! Pools without servers: who has the right to make a connection, and who has it next.

use std::sync::Arc;
use std::time::Duration;

use ashlar_base::{ErrorCode, Result, clock};
use tokio::task::JoinHandle;

use super::bound::MOVE_AFTER;
use super::{Bounds, Pool, PoolConfig, Purpose, Slot};
use crate::backend::Limits;
use crate::server::Server;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two pools of sessions, and that of queries.
struct World {
    server: Arc<Server>,
    a: Arc<Pool>,
    b: Arc<Pool>,
    queries: Arc<Pool>,
}

/// With so many connections, one of them for queries alone.
fn world(connections_max: usize, waiting_max: usize, wait_max: Duration) -> World {
    world_with(connections_max, 0, waiting_max, wait_max)
}

fn world_with(connections_max: usize, connections_min: usize, waiting_max: usize, wait_max: Duration) -> World {
    let limits = Limits { connect: PATIENCE, silence: PATIENCE, message_bytes_max: 1 << 20, statements_max: 1 };
    let config = PoolConfig {
        connections_max,
        connections_of_queries: 1,
        connections_min,
        waiting_max,
        wait_max,
        idle_max: None,
        life_max: None,
        limits,
    };
    let bounds: Arc<Bounds> = Arc::default();
    let pool = |name: &str, purpose: Purpose| Pool::new(name, purpose, config, None, Arc::clone(&bounds));
    let (host, dbname) = ("h".to_owned(), "d".to_owned());
    World {
        server: Arc::new(Server { name: "s0".to_owned(), host, port: 1, dbname, primary: None }),
        a: pool("a", Purpose::Sessions),
        b: pool("b", Purpose::Sessions),
        queries: pool("queries", Purpose::Queries),
    }
}

impl World {
    async fn place(&self, pool: &Arc<Pool>) -> Slot {
        pool.enter(&self.server).await.unwrap()
    }

    async fn refused(&self, pool: &Arc<Pool>) {
        let error = pool.enter(&self.server).await.err().unwrap();
        assert_eq!(error.code(), ErrorCode::TooManyConnections);
    }

    /// Somebody who waits in a pool.
    async fn waiter(&self, pool: &Arc<Pool>) -> JoinHandle<Result<Slot>> {
        let before = waiting(pool);
        let (own, server) = (Arc::clone(pool), Arc::clone(&self.server));
        let waiter = tokio::spawn(async move { own.enter(&server).await });
        until(|| waiting(pool) > before).await;
        waiter
    }

    fn is_anybody_overdue(&self) -> bool {
        self.a.bounds.of(&self.server.name, &self.a.config).is_anybody_overdue()
    }
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

fn waiting(pool: &Pool) -> usize {
    pool.statistics().iter().map(|line| line.waiting).sum()
}

fn in_use(pool: &Pool) -> usize {
    pool.statistics().iter().map(|line| line.in_use).sum()
}

fn taken(pool: &Pool) -> u64 {
    pool.statistics().iter().map(|line| line.taken).sum()
}

#[tokio::test]
async fn pools_have_no_more_than_the_bound_together() {
    let world = world(4, 10, Duration::from_millis(1));
    let World { a, b, queries, .. } = &world;
    for _ in 0..3 {
        let held = [world.place(a).await, world.place(b).await, world.place(a).await];
        // The fourth is for queries.
        world.refused(a).await;
        world.refused(b).await;
        let of_queries = world.place(queries).await;
        world.refused(queries).await;
        assert_eq!((in_use(a), in_use(b), in_use(queries)), (2, 1, 1));
        drop(held);
        // They may have half.
        let more = world.place(queries).await;
        world.refused(queries).await;
        // And one thread what the others do not have.
        let held = [world.place(b).await, world.place(b).await];
        world.refused(a).await;
        world.refused(b).await;
        drop((held, of_queries, more));
    }
    assert_eq!((in_use(a), in_use(b), in_use(queries)), (0, 0, 0));
    assert!(!world.is_anybody_overdue());
}

#[tokio::test]
async fn of_many_connections_one_is_left() {
    let world = world(32, 10, Duration::from_millis(1));
    let World { a, b, queries, .. } = &world;
    let mut held = Vec::new();
    for _ in 0..15 {
        held.push(world.place(a).await);
        held.push(world.place(b).await);
    }
    world.refused(a).await;
    held.push(world.place(queries).await);
    world.refused(queries).await;
    assert_eq!(in_use(a) + in_use(b) + in_use(queries), 31);
    // Nor is it theirs when queries want all that they may have.
    drop(held);
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(world.place(queries).await);
    }
    world.refused(queries).await;
    for _ in 0..15 {
        held.push(world.place(a).await);
    }
    world.refused(b).await;
}

#[tokio::test]
async fn who_waits_is_given_what_another_pool_frees() {
    let world = world(2, 10, PATIENCE);
    let mut held = Some(world.place(&world.a).await);
    let (mut from, mut to) = (&world.a, &world.b);
    for has_waited_long in [false, true, false, true] {
        let waiter = world.waiter(to).await;
        until(|| !has_waited_long || world.is_anybody_overdue()).await;
        let before = taken(to);
        drop(held.take());
        held = Some(waiter.await.unwrap().unwrap());
        assert_eq!((in_use(from), in_use(to)), (0, 1));
        assert!(!has_waited_long || taken(to) == before + 1);
        assert!(!world.is_anybody_overdue());
        std::mem::swap(&mut from, &mut to);
    }
}

#[tokio::test]
async fn who_came_first_is_served_first() {
    let world = world(2, 10, PATIENCE);
    let mut held = Some(world.place(&world.a).await);
    let mut line = Vec::new();
    for _ in 0..4 {
        line.push(world.waiter(&world.a).await);
    }
    // Who leaves the line changes nothing for those before and behind him.
    let gone = line.remove(1);
    gone.abort();
    assert!(gone.await.is_err());
    assert_eq!(waiting(&world.a), 3);
    while !line.is_empty() {
        drop(held.take());
        until(|| line.iter().any(JoinHandle::is_finished)).await;
        let served: Vec<bool> = line.iter().map(JoinHandle::is_finished).collect();
        assert!(served[0] && !served[1..].contains(&true), "{served:?}");
        held = Some(line.remove(0).await.unwrap().unwrap());
        assert_eq!((in_use(&world.a), waiting(&world.a)), (1, line.len()));
    }
    drop(held);
    assert_eq!(in_use(&world.a), 0);
}

#[tokio::test]
async fn who_has_waited_much_longer_elsewhere_is_first() {
    let world = world(2, 10, PATIENCE);
    let held = world.place(&world.a).await;
    let early = world.waiter(&world.b).await;
    until(|| world.is_anybody_overdue()).await;
    let late = world.waiter(&world.a).await;
    drop(held);
    let first = early.await.unwrap().unwrap();
    assert_eq!((waiting(&world.a), waiting(&world.b)), (1, 0));
    drop(first);
    drop(late.await.unwrap().unwrap());
}

#[tokio::test]
async fn who_has_left_the_line_is_not_waited_for() {
    let world = world(2, 1, PATIENCE);
    let held = world.place(&world.a).await;
    let gone = world.waiter(&world.b).await;
    until(|| world.is_anybody_overdue()).await;
    world.refused(&world.b).await;
    gone.abort();
    assert!(gone.await.is_err());
    assert!(!world.is_anybody_overdue());
    let waiter = world.waiter(&world.b).await;
    drop(held);
    drop(waiter.await.unwrap().unwrap());
    assert_eq!((in_use(&world.a), in_use(&world.b), waiting(&world.b)), (0, 0, 0));
}

#[tokio::test]
async fn a_right_goes_to_the_first_who_may_have_it() {
    let world = world(4, 10, PATIENCE);
    let bound = world.a.bounds.of(&world.server.name, &world.a.config);
    let [a, b, queries] = [&world.a, &world.b, &world.queries].map(|pool| bound.join(pool));
    for purpose in [Purpose::Sessions, Purpose::Sessions, Purpose::Sessions, Purpose::Queries] {
        assert!(bound.open(purpose));
    }
    let now = clock::monotonic();
    let is = |given: Option<Arc<Pool>>, pool: &Arc<Pool>| given.is_some_and(|given| Arc::ptr_eq(&given, pool));
    bound.tell(b, Some(now));
    // Who is here and came little later is first here.
    assert!(bound.hand_over(a, Some(now + MOVE_AFTER)).is_none());
    assert!(is(bound.hand_over(a, Some(now + 2 * MOVE_AFTER)), &world.b));
    assert!(is(bound.hand_over(a, None), &world.b));
    // Sessions have no more than they may.
    assert!(bound.hand_over(queries, None).is_none());
    bound.tell(queries, Some(now + MOVE_AFTER));
    assert!(is(bound.hand_over(a, None), &world.b));
    bound.tell(b, Some(now + 2 * MOVE_AFTER));
    assert!(is(bound.hand_over(a, None), &world.queries));
    // Queries have half now, and sessions one less than they may.
    assert!(is(bound.hand_over(a, None), &world.b));
    assert!(is(bound.hand_over(queries, None), &world.b));
    assert!(bound.hand_over(queries, None).is_none());
    bound.tell(b, None);
    bound.tell(queries, None);
    assert!(!bound.is_anybody_overdue() && bound.hand_over(a, None).is_none());
}

#[tokio::test]
async fn half_of_the_connections_of_queries_may_keep_snapshots() {
    let tiny = world(2, 10, PATIENCE);
    let only = tiny.queries.keeping("s0", true).await.unwrap();
    assert!(tiny.queries.keeping("s0", true).await.is_err());
    drop(only);
    // Queries may have four.
    let World { a, queries, .. } = &world(8, 10, PATIENCE);
    let [first, second] = [queries.keeping("s0", true).await.unwrap(), queries.keeping("s0", true).await.unwrap()];
    let error = queries.keeping("s0", true).await.err().unwrap();
    assert_eq!(error.code(), ErrorCode::TooManyConnections);
    assert!(error.fields().hint.is_some());
    // Those of other servers are counted by themselves, and those of sessions not.
    drop((queries.keeping("s1", true).await.unwrap(), a.keeping("s0", true).await.unwrap()));
    // One that ends with its statement waits for its turn.
    let own = Arc::clone(queries);
    let waiter = tokio::spawn(async move { own.keeping("s0", false).await.map(drop) });
    drop(first);
    waiter.await.unwrap().unwrap();
    drop((second, queries.keeping("s0", true).await.unwrap()));
}

#[tokio::test]
async fn who_reads_a_snapshot_for_long_is_counted_with_those_who_keep_one() {
    // Queries may have eight, and half of them keep and read.
    let World { queries, .. } = &world(16, 10, PATIENCE);
    let kept = queries.keeping("s0", true).await.unwrap();
    let read = queries.reading("s0", 2).await.unwrap();
    let other = queries.keeping("s0", true).await.unwrap();
    let error = queries.reading("s0", 1).await.err().unwrap();
    assert_eq!(error.code(), ErrorCode::TooManyConnections);
    // Who has the connection that keeps it needs no more.
    drop(queries.reading("s0", 0).await.unwrap());
    drop(read);
    assert!(queries.reading("s0", 3).await.is_err());
    drop(other);
    // All that there may be is enough for however many.
    let all = queries.reading("s0", 100).await.unwrap();
    assert!(queries.keeping("s0", true).await.is_err());
    drop((kept, all));
    // Where one may keep a snapshot it is read all the same.
    let tiny = world(2, 10, PATIENCE);
    let _kept = tiny.queries.keeping("s0", true).await.unwrap();
    drop(tiny.queries.reading("s0", 2).await.unwrap());
}

#[tokio::test]
async fn as_many_are_made_early_as_there_shall_be() {
    let world = world_with(4, 4, 10, PATIENCE);
    let World { server, a, b, queries } = &world;
    let early = |pool: &Arc<Pool>, share: usize| pool.make_early(server, share);
    // Queries have what sessions may not have, and each thread its share.
    assert!(early(queries, 4).is_none());
    let [first, second] = [early(a, 2), early(a, 2)].map(Option::unwrap);
    assert!(early(a, 2).is_none());
    let third = early(b, 2).unwrap();
    assert!(early(b, 2).is_none());
    let fourth = early(queries, 4).unwrap();
    assert!(early(queries, 4).is_none());
    // What is lost is made again; nothing more than that is closed for being idle.
    drop(second);
    let second = early(a, 2).unwrap();
    let bound = a.bounds.of(&server.name, &a.config);
    assert!(!bound.close_needless(Purpose::Sessions));
    drop((first, second, third, fourth));
    assert_eq!((in_use(a), in_use(b), in_use(queries)), (0, 0, 0));

    // Where somebody uses as many nothing is made.
    let world = world_with(4, 1, 10, PATIENCE);
    let held = world.place(&world.a).await;
    assert!(world.b.make_early(&world.server, 1).is_none());
    let bound = world.a.bounds.of(&world.server.name, &world.a.config);
    assert!(bound.open(Purpose::Sessions));
    assert!(bound.close_needless(Purpose::Sessions) && !bound.close_needless(Purpose::Sessions));
    drop(held);
}

#[tokio::test]
async fn each_server_is_counted_by_itself() {
    let world = world(8, 10, PATIENCE);
    let a = &world.a;
    let other = Arc::new(Server { name: "s1".to_owned(), ..(*world.server).clone() });
    let held = [world.place(a).await, world.place(a).await, a.enter(&other).await.unwrap()];
    let told: Vec<(String, usize)> = a.statistics().into_iter().map(|line| (line.server, line.in_use)).collect();
    assert_eq!(told, [("s0".to_owned(), 2), ("s1".to_owned(), 1)]);
    drop(held);
    assert_eq!(in_use(a), 0);
    assert!(world.b.statistics().is_empty());
}

#[tokio::test]
async fn who_looks_at_connections_does_not_take_the_lock_that_they_are_lent_under() {
    let world = world(4, 10, PATIENCE);
    let held = world.place(&world.a).await;
    let lines = world.a.lines.lock();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let pool = Arc::clone(&world.a);
    let looking = std::thread::spawn(move || sender.send(pool.connections()));
    let seen = receiver.recv_timeout(PATIENCE);
    drop(lines);
    looking.join().unwrap().unwrap();
    // The place is there, and its connection has not been made.
    assert_eq!(seen, Ok(Vec::new()));
    drop(held);
}
