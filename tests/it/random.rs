//! Random numbers that a seed repeats. The seed is printed; a failing test shows it.
//!
//! Each run has the same ones, so that a change is judged by what it changes. `ASHLAR_SEED` sets others, and `ASHLAR_SEED=new` those of the
//! clock, for who looks for what no run has met.

/// Where the numbers begin.
const SEED: u64 = 20_261_130;

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    /// From `ASHLAR_SEED`, or from [`SEED`].
    pub(crate) fn from_environment() -> Random {
        let seed = match std::env::var("ASHLAR_SEED").as_deref() {
            Ok("new") => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                now.map_or(1, |elapsed| elapsed.as_nanos() as u64)
            }
            Ok(seed) => seed.parse().expect("ASHLAR_SEED is a number, or new"),
            Err(_) => SEED,
        };
        eprintln!("ASHLAR_SEED={seed}");
        Random(seed)
    }

    /// A sequence of its own for one of several clients.
    pub(crate) fn from_seed(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
