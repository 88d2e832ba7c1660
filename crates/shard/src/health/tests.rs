//! Groups without servers: what is decided from what was seen.

use super::*;

const PERIOD: Duration = Duration::from_millis(100);

fn config(lag_max: Option<Duration>) -> HealthConfig {
    HealthConfig { period: PERIOD, failures_max: 3, lag_max }
}

fn group(names: &[(&str, Option<&str>)]) -> Known {
    let mut known = Known::default();
    for (name, primary) in names {
        let server = Server {
            name: (*name).to_owned(),
            host: "h".to_owned(),
            port: 1,
            dbname: "d".to_owned(),
            primary: primary.map(str::to_owned),
        };
        known.servers.insert(server.name.clone(), Arc::new(server));
    }
    known
}

fn seen(is_standby: bool, position: u64, timeline: u32) -> Seen {
    Seen { is_standby, position, timeline }
}

#[test]
fn a_server_that_fails_is_refused_at_once_until_it_is_found_again() {
    // Longer than anything takes here: nobody is asked again because time has passed.
    let health = Health::new(HealthConfig { period: Duration::from_secs(600), ..config(None) });
    let error = Error::new(ErrorCode::UnableToConnect, "nobody there");
    for _ in 0..2 {
        health.failed("s0", &error);
        health.check("s0").unwrap();
    }
    health.failed("s0", &error);
    let refused = health.check("s0").unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CannotConnectNow);
    assert!(refused.fields().detail.as_ref().unwrap().contains("nobody there"));
    // Others are as they are.
    health.check("s1").unwrap();
    health.succeeded("s1");
    health.check("s0").unwrap_err();
    health.succeeded("s0");
    health.check("s0").unwrap();
    assert_eq!(health.failing.load(Ordering::Relaxed), 0);
}

#[test]
fn looks_at_a_server_that_is_down_become_rarer_up_to_a_bound() {
    let error = Error::new(ErrorCode::UnableToConnect, "nobody there");
    let known = group(&[("s0", None)]);
    let server = &known.servers["s0"];
    let health = Health::new(config(None));
    let begin = clock::monotonic();
    health.failed_at("s0", &error, begin);
    // As `watch` goes on, in a time of its own. No statement has to try meanwhile.
    let (mut looks, mut at) = (vec![begin], begin);
    while looks.len() < 16 {
        at += PERIOD;
        assert_eq!(health.check_at("s0", at).is_err(), looks.len() >= 3, "{:?} later", at.duration_since(begin));
        if health.is_due(&known, server, at) {
            health.failed_at("s0", &error, at);
            looks.push(at);
        }
    }
    let between: Vec<u128> = looks.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_millis()).collect();
    let most = BACKOFF_MAX.as_millis();
    assert_eq!(between[..11], [100, 100, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600]);
    assert_eq!(between[11..], [most; 4]);
    // If nobody looks any more, statements try again.
    health.check_at("s0", at + BACKOFF_MAX + GRACE * PERIOD).unwrap();
    // Once it is found again, it begins anew.
    health.succeeded("s0");
    health.check_at("s0", at).unwrap();
    assert!(!health.is_due(&known, server, at));
    (0..3).for_each(|_| health.failed_at("s0", &error, at));
    assert!(!health.is_due(&known, server, at) && health.is_due(&known, server, at + PERIOD));
}

#[test]
fn where_looks_are_rarer_than_the_bound_anyway_they_stay_as_they_are() {
    let error = Error::new(ErrorCode::UnableToConnect, "nobody there");
    let known = group(&[("s0", None)]);
    let server = &known.servers["s0"];
    let period = 2 * BACKOFF_MAX;
    let health = Health::new(HealthConfig { period, failures_max: 1, lag_max: None });
    let mut at = clock::monotonic();
    for look in 0..5 {
        health.failed_at("s0", &error, at);
        assert!(!health.is_due(&known, server, at + period / 2), "{look}");
        at += period;
        assert!(health.is_due(&known, server, at), "{look}");
        health.check_at("s0", at).unwrap_err();
    }
}

#[test]
fn writes_go_to_the_member_that_is_no_standby_on_the_latest_timeline() {
    let health = Health::new(config(None));
    let known = group(&[("s0", None), ("s1", None), ("r0", Some("s0")), ("r1", Some("s0"))]);
    let now = clock::monotonic();
    health.settle(&known);
    assert_eq!(health.acting("s0"), None);
    health.saw("s0", seen(false, 10, 1), now);
    health.saw("r0", seen(true, 10, 0), now);
    health.saw("r1", seen(true, 10, 0), now);
    health.settle(&known);
    assert_eq!(health.acting("s0"), None);
    // One is promoted, while the old one has not noticed.
    health.saw("r1", seen(false, 20, 2), now);
    health.settle(&known);
    assert_eq!(health.acting("s0").as_deref(), Some("r1"));
    assert_eq!(health.acting("s1"), None);
    // The old one comes back as a standby, and is read; the new one is not.
    health.saw("s0", seen(true, 20, 0), now);
    health.settle(&known);
    assert_eq!(health.acting("s0").as_deref(), Some("r1"));
    let read: Vec<String> = (0..4).filter_map(|_| health.replica_for(&known, "s0")).collect();
    assert_eq!(read.len(), 4);
    assert!(read.contains(&"s0".to_owned()) && read.contains(&"r0".to_owned()) && !read.contains(&"r1".to_owned()));
    assert!(health.report(&known.servers["r1"]).is_acting && !health.report(&known.servers["s0"]).is_acting);
}

#[test]
fn a_replica_that_is_too_far_behind_or_down_is_not_read() {
    let lag = Duration::from_secs(5);
    let health = Health::new(config(Some(lag)));
    let known = group(&[("s0", None), ("r0", Some("s0"))]);
    assert_eq!(health.replica_for(&known, "s0"), None, "nobody has looked yet");
    // In a time of its own, which begins late enough for a machine that has just started.
    let now = clock::monotonic() + Duration::from_secs(60);
    let at = |seconds: u64| now.checked_sub(Duration::from_secs(seconds)).unwrap();
    let is_read = |health: &Health| health.replica_for_at(&known, "s0", now).is_some();
    for (seconds, position) in [(30, 100), (10, 200), (6, 300), (2, 400), (0, 500)] {
        health.saw("s0", seen(false, position, 1), at(seconds));
    }
    // What was written more than five seconds ago it must have.
    for (position, expected) in [(299, false), (300, true), (500, true)] {
        health.saw("r0", seen(true, position, 0), now);
        assert_eq!(is_read(&health), expected, "{position}");
    }
    health.failed("r0", &Error::new(ErrorCode::UnableToConnect, "gone"));
    assert!(!is_read(&health));
    assert_eq!(health.report(&known.servers["r0"]).state, "down");
}

#[test]
fn places_in_the_log_are_read() {
    assert_eq!(lsn(b"16/B374D848"), Some(0x16_b374_d848));
    assert_eq!(lsn(b"nonsense"), None);
    assert_eq!(hexadecimal(b"0000000A"), Some(10));
}
