//! The yardstick of `sum(v)`: a plain loop over a `Vec<i64>`, compiled by the benchmark with `rustc -O`.
//!
//! Prints the median time of one pass in microseconds. Its arguments are the number of rows and of passes.

use std::hint::black_box;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let (rows, passes) = (arguments.next().expect("rows"), arguments.next().expect("passes"));
    let values: Vec<i64> = (0..rows as i64).map(|row| row % 1_000_003).collect();
    let mut times: Vec<u128> = (0..passes)
        .map(|_| {
            let values = black_box(values.as_slice());
            let began = Instant::now();
            black_box(values.iter().sum::<i64>());
            began.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    println!("{}", times[times.len() / 2]);
}
