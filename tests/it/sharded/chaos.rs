//! A bank whose accounts lie on three shards, behind two Ashlars that die all the time, at any message; shards and clients die too. Each
//! transfer writes into the books what it has moved: in the end the accounts are what the books say, and every transfer that was
//! acknowledged is in them. Whoever reads snapshots meanwhile, through either of them, sees all of the money each time that it is answered.
//! Now and then nobody dies for a moment: then nothing that was left may be in doubt for longer than is stated.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ashlar_tests::process::{PATIENCE, wait_for};

use super::members::{IN_DOUBT_MAX, Member, direct, wait_until_finished};
use super::relay::When;
use super::snapshots::{WAYS, look};
use super::*;
use crate::random::Random;

const MEMBERS: usize = 2;
const CLIENTS: usize = 3;
const ACCOUNTS: i64 = 60;
const WORTH: i64 = 1000;

/// Deaths of Ashlars, of shards, which die in two ways in turn, and of clients without which it is not enough.
const DEATHS: usize = 300;
const DEATHS_OF_SHARDS: usize = 30;
const DEATHS_OF_CLIENTS: usize = 30;

/// Totals that readers of snapshots have been told meanwhile, without which it is not enough.
const ANSWERS: usize = 20;

/// Deaths of Ashlars between two of shards.
const DEATHS_PER_SHARD: usize = 6;

/// Deaths of Ashlars between two times that nobody dies.
const DEATHS_PER_PEACE: usize = 30;

/// Those who make others die: one for each Ashlar, and one for all shards.
const GHOSTS: usize = MEMBERS + 1;

/// A client dies with one in so many of its transfers.
const TRANSFERS_PER_DEATH: u64 = 15;

/// A shard that is back is found soon.
const LINES: &str = "health_check_ms = 50";

/// How long that may take, on a machine that does something else, and is slow besides.
const TIME_MAX: Duration = Duration::from_secs(1800);

struct Scene {
    is_over: AtomicBool,
    deaths: AtomicUsize,
    deaths_of_shards: AtomicUsize,
    deaths_of_clients: AtomicUsize,
    /// Totals that were read and right.
    answers: AtomicUsize,
    /// Since when all shards can be reached.
    there_since: Mutex<Option<Instant>>,
    /// Nobody is to die.
    is_peace: AtomicBool,
    /// So many ghosts wait for the end of that.
    at_rest: AtomicUsize,
    doors: Vec<Mutex<SocketAddr>>,
}

impl Scene {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Whether as many have died as shall, and as much was read meanwhile.
    fn is_enough(&self) -> bool {
        self.deaths.load(Ordering::SeqCst) >= DEATHS
            && self.deaths_of_shards.load(Ordering::SeqCst) >= DEATHS_OF_SHARDS
            && self.deaths_of_clients.load(Ordering::SeqCst) >= DEATHS_OF_CLIENTS
            && self.answers.load(Ordering::SeqCst) >= ANSWERS
    }

    /// Between two deaths: waits where nobody is to die.
    fn rest(&self) {
        if self.is_peace.load(Ordering::SeqCst) {
            self.at_rest.fetch_add(1, Ordering::SeqCst);
            wait_for(TIME_MAX, || !self.is_peace.load(Ordering::SeqCst) || self.is_over());
            self.at_rest.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// A connection to a member, as soon as it is alive; `None` when all is over.
    fn connect(&self, member: usize) -> Option<pg::Connection> {
        let mut connection = None;
        let connected = wait_for(PATIENCE, || {
            let door = *self.doors[member].lock().unwrap();
            connection = pg::Connection::connect(door).ok();
            connection.is_some() || self.is_over()
        });
        assert!(connected, "a member stays dead");
        connection.filter(|_| !self.is_over())
    }

    /// Transfers until all is over: the numbers of those that were acknowledged.
    fn transfer(&self, member: usize, client: usize, seed: u64) -> Vec<i64> {
        let mut random = Random::from_seed(seed);
        let mut acknowledged = Vec::new();
        let mut number = ((member * CLIENTS + client) as i64) << 32;
        while let Some(mut connection) = self.connect(member) {
            if connection.query("SET lock_timeout = '500ms'").is_err() {
                continue;
            }
            while !self.is_over() {
                number += 1;
                let (one, other) = (random.below(ACCOUNTS as u64) as i64, random.below(ACCOUNTS as u64) as i64);
                // In one order, so that they do not wait for each other.
                let (a, b, n) = (one.min(other), one.max(other), random.below(20) as i64 - 10);
                let moved = [
                    "BEGIN".to_owned(),
                    format!("UPDATE bank SET v = v - {n} WHERE k = {a}"),
                    format!("UPDATE bank SET v = v + {n} WHERE k = {b}"),
                    format!("INSERT INTO books VALUES ({number}, {a}, {b}, {n})"),
                ]
                .iter()
                .try_for_each(|sql| connection.query(sql).map(drop));
                if moved.is_ok() {
                    if random.one_in(TRANSFERS_PER_DEATH) {
                        // A client that does not live to hear of it.
                        self.deaths_of_clients.fetch_add(1, Ordering::SeqCst);
                        let _ = connection.send(&pg::message(b'Q', &[b"COMMIT\0"]));
                        break;
                    }
                    if connection.query("COMMIT").is_ok() {
                        acknowledged.push(number);
                        continue;
                    }
                }
                if connection.query("ROLLBACK").is_err() {
                    break;
                }
            }
        }
        acknowledged
    }

    /// Adds up all accounts until all is over, in one way after the other: nothing is ever seen half, whoever dies meanwhile.
    fn read(&self, member: usize) {
        let mut way = 0;
        while let Some(mut connection) = self.connect(member) {
            if connection.query("SET sharded_reads = 'snapshot'").is_err() {
                continue;
            }
            while !self.is_over() {
                match look(&mut connection, way % WAYS) {
                    Ok(total) => {
                        assert_eq!(total, ACCOUNTS * WORTH, "way {}", way % WAYS);
                        self.answers.fetch_add(1, Ordering::SeqCst);
                        way += 1;
                    }
                    // What a dead shard, or what it has left prepared, keeps from an answer is no loss of the connection.
                    Err(_) if connection.query("SELECT 1").is_ok() => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// Has a member die at one message after the other.
    fn haunt(&self, at: usize, member: &mut Member, seed: u64) {
        let mut random = Random::from_seed(seed);
        while !self.is_over() {
            self.rest();
            let when = if random.one_in(2) { When::Before } else { When::After };
            member.wire.die_after(random.below(80), when);
            let goes_on = wait_for(PATIENCE, || member.wire.is_sprung() || self.is_over());
            assert!(goes_on, "nothing goes on any more");
            if member.wire.disarm() {
                return;
            }
            member.wire.wait();
            member.restart();
            *self.doors[at].lock().unwrap() = member.ashlar.pg();
            self.deaths.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Has one shard after the other die: killed with all of its processes, or told to end at once, in turn.
    fn haunt_shards(&self, shards: &mut [Postgres]) {
        for (number, victim) in (0..shards.len()).cycle().enumerate() {
            let next = self.deaths.load(Ordering::SeqCst) + DEATHS_PER_SHARD;
            wait_for(TIME_MAX, || {
                self.rest();
                self.deaths.load(Ordering::SeqCst) >= next || self.is_over()
            });
            if self.is_over() {
                return;
            }
            *self.there_since.lock().unwrap() = None;
            if number % 2 == 0 {
                shards[victim].kill().unwrap();
            } else {
                shards[victim].signal("QUIT").unwrap();
                shards[victim].wait().unwrap();
            }
            shards[victim].start_again().unwrap();
            *self.there_since.lock().unwrap() = Some(Instant::now());
            self.deaths_of_shards.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// How old the oldest is that a shard has prepared and not finished, in milliseconds; 0 where there is none.
const OLDEST: &str = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - prepared) * 1000), 0)::bigint \
                      FROM pg_prepared_xacts";

/// Looks all the time how long anything is in doubt.
struct Watcher<'a> {
    scene: &'a Scene,
    addresses: Vec<SocketAddr>,
    /// To the shards, as far as they are there.
    connections: Vec<Option<pg::Connection>>,
    watched: Watched,
}

/// What a watcher has seen.
#[derive(Default)]
struct Watched {
    /// The longest that anything was in doubt while all shards could be reached, Ashlars dying or not.
    longest: Duration,
    /// The same of the times that nobody died, each counted from its begin, and how many these were.
    longest_in_peace: Duration,
    peaces: usize,
}

impl Watcher<'_> {
    fn new(scene: &Scene, addresses: Vec<SocketAddr>) -> Watcher<'_> {
        let connections = addresses.iter().map(|_| None).collect();
        Watcher { scene, addresses, connections, watched: Watched::default() }
    }

    /// Until all is over.
    fn watch(mut self) -> Watched {
        let mut next = DEATHS_PER_PEACE;
        wait_for(TIME_MAX, || {
            if let Some(age) = self.look() {
                self.watched.longest = self.watched.longest.max(age);
            }
            if self.scene.deaths.load(Ordering::SeqCst) >= next {
                self.have_peace();
                next = self.scene.deaths.load(Ordering::SeqCst) + DEATHS_PER_PEACE;
            }
            self.scene.is_over()
        });
        self.watched
    }

    /// How long the oldest that is prepared on any shard has been in doubt since all of them can be reached; `None` where one cannot be.
    fn look(&mut self) -> Option<Duration> {
        let since = (*self.scene.there_since.lock().unwrap())?;
        let mut oldest = Duration::ZERO;
        for (address, connection) in self.addresses.iter().zip(&mut self.connections) {
            if connection.is_none() {
                *connection = pg::Connection::connect(*address).ok();
            }
            let Ok(age) = connection.as_mut()?.value(OLDEST) else {
                *connection = None;
                return None;
            };
            oldest = oldest.max(Duration::from_millis(age.parse().unwrap()));
        }
        // None has gone meanwhile.
        let is_same = *self.scene.there_since.lock().unwrap() == Some(since);
        is_same.then(|| oldest.min(since.elapsed()))
    }

    /// Nobody dies until all has been finished that was in doubt before: the bound holds from here on, since all shards and Ashlars are
    /// there. Nor before snapshots have been read, which takes more messages than there are between two deaths. Clients go on.
    fn have_peace(&mut self) {
        let scene = self.scene;
        scene.is_peace.store(true, Ordering::SeqCst);
        let is_peace = wait_for(PATIENCE, || scene.at_rest.load(Ordering::SeqCst) == GHOSTS || scene.is_over());
        assert!(is_peace, "somebody goes on dying");
        let begin = Instant::now();
        let mut longest = Duration::ZERO;
        let is_finished = wait_for(IN_DOUBT_MAX, || {
            // Before the look: what was prepared before the begin is older than this.
            let passed = begin.elapsed();
            let Some(age) = self.look() else { return scene.is_over() };
            longest = longest.max(age.min(begin.elapsed()));
            age < passed || scene.is_over()
        });
        assert!(is_finished, "something is in doubt for more than {IN_DOUBT_MAX:?} in which nobody died");
        let answers = || scene.answers.load(Ordering::SeqCst);
        let enough = answers() + MEMBERS;
        let is_read = wait_for(PATIENCE, || answers() >= enough || scene.is_over());
        assert!(is_read, "nobody reads a snapshot although nobody dies");
        if !scene.is_over() {
            self.watched.longest_in_peace = self.watched.longest_in_peace.max(longest);
            self.watched.peaces += 1;
        }
        scene.is_peace.store(false, Ordering::SeqCst);
        let is_over = wait_for(PATIENCE, || scene.at_rest.load(Ordering::SeqCst) == 0 || scene.is_over());
        assert!(is_over, "somebody goes on resting");
    }
}

#[test]
fn the_books_are_right_whoever_dies_when() {
    let mut random = Random::from_environment();
    let mut shards: Vec<Postgres> = (0..3).map(|_| Postgres::start().unwrap()).collect();
    let mut members: Vec<Member> = (0..MEMBERS).map(|_| Member::with(&shards, LINES)).collect();
    let tables = [
        ("bank", "k bigint PRIMARY KEY, v bigint", "k"),
        ("books", "id bigint PRIMARY KEY, a bigint, b bigint, n bigint", "id"),
    ];
    for (table, columns, key) in tables {
        let create = format!("CREATE TABLE {table} ({columns}) {}", members[0].by(key));
        done(&mut members[0].ashlar.connect(), &create);
        members[1..].iter().for_each(|member| member.know(&shards, table, columns, key));
    }
    let accounts: Vec<String> = (0..ACCOUNTS).map(|account| format!("({account}, {WORTH})")).collect();
    done(&mut members[0].ashlar.connect(), &format!("INSERT INTO bank VALUES {}", accounts.join(", ")));

    let scene = Scene {
        is_over: AtomicBool::new(false),
        deaths: AtomicUsize::new(0),
        deaths_of_shards: AtomicUsize::new(0),
        deaths_of_clients: AtomicUsize::new(0),
        answers: AtomicUsize::new(0),
        there_since: Mutex::new(Some(Instant::now())),
        is_peace: AtomicBool::new(false),
        at_rest: AtomicUsize::new(0),
        doors: members.iter().map(|member| Mutex::new(member.ashlar.pg())).collect(),
    };
    let seeds: Vec<u64> = (0..MEMBERS * (CLIENTS + 1)).map(|_| random.next()).collect();
    let addresses: Vec<SocketAddr> = shards.iter().map(Postgres::address).collect();
    let begin = Instant::now();
    let (acknowledged, watched): (Vec<i64>, Watched) = std::thread::scope(|scope| {
        let scene = &scene;
        let mut seeds = seeds.into_iter();
        let mut clients = Vec::new();
        let mut readers = Vec::new();
        let mut ghosts = Vec::new();
        for (at, member) in members.iter_mut().enumerate() {
            for client in 0..CLIENTS {
                let seed = seeds.next().unwrap();
                clients.push(scope.spawn(move || scene.transfer(at, client, seed)));
            }
            readers.push(scope.spawn(move || scene.read(at)));
            let seed = seeds.next().unwrap();
            ghosts.push(scope.spawn(move || scene.haunt(at, member, seed)));
        }
        let shards = &mut shards;
        ghosts.push(scope.spawn(move || scene.haunt_shards(shards)));
        let watcher = scope.spawn(move || Watcher::new(scene, addresses).watch());
        // It ends early where somebody has failed.
        let has_failed = || watcher.is_finished() || ghosts.iter().chain(&readers).any(|one| one.is_finished());
        wait_for(TIME_MAX, || scene.is_enough() || has_failed());
        scene.is_over.store(true, Ordering::SeqCst);
        ghosts.into_iter().chain(readers).for_each(|one| one.join().unwrap());
        let acknowledged: Vec<i64> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (acknowledged, watcher.join().unwrap())
    });
    let [deaths, of_shards, of_clients] =
        [&scene.deaths, &scene.deaths_of_shards, &scene.deaths_of_clients].map(|deaths| deaths.load(Ordering::SeqCst));
    let time = begin.elapsed();

    wait_until_finished(&shards);
    let read = |sql: &str| -> Vec<Vec<i64>> {
        let all = shards.iter().flat_map(|shard| rows(&mut direct(shard), sql));
        all.map(|row| row.into_iter().map(|value| value.unwrap().parse().unwrap()).collect()).collect()
    };
    let mut expected: BTreeMap<i64, i64> = (0..ACCOUNTS).map(|account| (account, WORTH)).collect();
    let books = read("SELECT id, a, b, n FROM books");
    for entry in &books {
        *expected.get_mut(&entry[1]).unwrap() -= entry[3];
        *expected.get_mut(&entry[2]).unwrap() += entry[3];
    }
    let found: BTreeMap<i64, i64> = read("SELECT k, v FROM bank").into_iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(found, expected, "the accounts are not what the books say");
    let written: std::collections::BTreeSet<i64> = books.iter().map(|entry| entry[0]).collect();
    let lost: Vec<&i64> = acknowledged.iter().filter(|number| !written.contains(number)).collect();
    assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
    let (told, kept) = (acknowledged.len(), books.len());
    let answers = scene.answers.load(Ordering::SeqCst);
    let died =
        format!("{deaths} deaths, {of_shards} of shards, {of_clients} of clients, {answers} totals read in {time:?}");
    eprintln!("{died}, {told} transfers acknowledged, {kept} committed");
    let Watched { longest, longest_in_peace, peaces } = watched;
    eprintln!("in doubt for {longest:?} at most; for {longest_in_peace:?} the {peaces} times that nobody died");
    assert!(scene.is_enough(), "only {died}");
    assert!(peaces >= DEATHS / DEATHS_PER_PEACE / 2, "nobody died {peaces} times only");
    assert!(acknowledged.len() > 100, "{} transfers only", acknowledged.len());
    // Both of them see the same, and it has not become more or less.
    for member in &members {
        // A shard that has just come back is refused until somebody has looked at it again.
        let mut sum = String::new();
        wait_for(PATIENCE, || {
            member.ashlar.connect().value("SELECT sum(v) FROM bank").is_ok_and(|found| {
                sum = found;
                true
            })
        });
        assert_eq!(sum, (ACCOUNTS * WORTH).to_string());
    }
}
