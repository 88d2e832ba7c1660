//! When the next look is due.

use super::*;

#[test]
fn a_wake_up_for_something_else_does_not_put_the_next_look_off() {
    let period = Duration::from_millis(5000);
    let looked = clock::monotonic();
    assert_eq!(rest(period, None, looked), Duration::ZERO, "the first one is at once");
    // Woken every 900 ms: the waits between come to one period together.
    let mut now = looked;
    let mut waits = Vec::new();
    loop {
        let left = rest(period, Some(looked), now);
        if left.is_zero() {
            break;
        }
        let wait = left.min(Duration::from_millis(900));
        waits.push(wait);
        now += wait;
    }
    assert_eq!(waits.iter().sum::<Duration>(), period);
    assert_eq!(waits.len(), 6);
    // A machine that was asleep: it is due, whatever has passed.
    assert_eq!(rest(period, Some(looked), now + 10 * period), Duration::ZERO);
}
