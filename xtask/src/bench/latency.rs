//! GETs at a given rate, measured from the moment each was due: a server that stalls is charged for every request that
//! had to wait, not only for the one that was under way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::data::Numbers;

/// Connections, each with a thread of its own.
const CONNECTIONS: u64 = 8;

/// How long an answer may take before the row is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Latencies, sorted.
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    /// The latency that this share of the requests did not exceed.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }
}

/// Sends `per_second` GETs of random keys for `length`; every reply must be a value of `value_bytes`.
pub(super) fn paced_gets(
    address: SocketAddr,
    per_second: f64,
    length: Duration,
    keys: u64,
    value_bytes: usize,
) -> Result<Latencies> {
    let each = per_second / CONNECTIONS as f64;
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|number| std::thread::spawn(move || connection(address, each, length, keys, value_bytes, number)))
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        match worker.join() {
            Ok(latencies) => all.extend(latencies?),
            Err(_) => bail!("a client thread panicked"),
        }
    }
    all.sort_unstable();
    Ok(Latencies(all))
}

fn connection(
    address: SocketAddr,
    per_second: f64,
    length: Duration,
    keys: u64,
    value_bytes: usize,
    number: u64,
) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut numbers = Numbers::new(number + 1);
    let head = format!("${value_bytes}\r\n").into_bytes();
    let mut reply = vec![0; head.len() + value_bytes + b"\r\n".len()];
    let mut latencies = Vec::new();
    let interval = Duration::from_secs_f64(1.0 / per_second);
    // The connections take turns instead of sending at the same moment.
    let start = Instant::now() + interval.mul_f64(number as f64 / CONNECTIONS as f64);
    let mut due = start;
    while due - start < length {
        if let Some(early) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        let request = format!("*2\r\n$3\r\nGET\r\n$16\r\nkey:{:012}\r\n", numbers.below(keys));
        stream.write_all(request.as_bytes())?;
        stream.read_exact(&mut reply)?;
        if !reply.starts_with(&head) || !reply.ends_with(b"\r\n") {
            bail!("a GET was answered with {:?}", String::from_utf8_lossy(&reply));
        }
        latencies.push(due.elapsed());
        due += interval;
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_is_a_latency_that_was_seen() {
        let latencies = Latencies((1..=1000).map(Duration::from_micros).collect());
        assert_eq!(latencies.quantile(0.0), Duration::from_micros(1));
        assert_eq!(latencies.quantile(0.5), Duration::from_micros(501));
        assert_eq!(latencies.quantile(0.999), Duration::from_micros(999));
        assert_eq!(latencies.quantile(1.0), Duration::from_micros(1000));
        assert_eq!(Latencies(vec![]).quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn every_request_is_charged_from_the_moment_it_was_due() {
        // A server that answers one GET and then stalls for as long as the whole run takes.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stall = Duration::from_millis(200);
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 64];
            let began = Instant::now();
            while let Ok(count) = stream.read(&mut request) {
                if count == 0 {
                    break;
                }
                while began.elapsed() < stall {
                    std::thread::yield_now();
                }
                stream.write_all(b"$1\r\nx\r\n").unwrap();
            }
        });
        let latencies = connection(address, 100.0, Duration::from_millis(100), 10, 1, 0).unwrap();
        server.join().unwrap();
        assert_eq!(latencies.len(), 10);
        assert!(latencies[5] > Duration::from_millis(100), "{latencies:?}");
    }
}
