//! The memory that a plan says it took, in the lines of EXPLAIN ANALYZE.
//!
//! ```text
//! Peak Memory: 2041 kB                                       Ashlar: all operators of the query, at its highest
//! Sort Method: quicksort  Memory: 25kB                       PostgreSQL: one operator
//! Buckets: 1024  Batches: 1  Memory Usage: 40kB              likewise
//! ```

/// The sum of what the lines name, in bytes; none where they name nothing.
pub(super) fn memory<'a>(lines: impl Iterator<Item = &'a str>) -> Option<u64> {
    lines.filter_map(of_line).reduce(u64::saturating_add)
}

fn of_line(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("Memory Usage: ").or_else(|| line.split_once("Memory: "))?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = rest.split_at(digits);
    let kilobytes: u64 = number.parse().ok()?;
    unit.trim_start().starts_with("kB").then(|| kilobytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operators_of_a_plan_took_is_added_up() {
        let plan = "Sort  (actual rows=3 loops=1)\n  Sort Method: quicksort  Memory: 25kB\n  ->  HashAggregate\n\
                    Batches: 1  Memory Usage: 40kB\n  Sort Method: external merge  Disk: 900kB\n  Buckets: 8  Memory Usage: 9kB\n\
                    Planning:\n  Buffers: shared hit=3\nExecution Time: 2.5 ms";
        assert_eq!(memory(plan.lines()), Some(74 * 1024));
        assert_eq!(memory("Rows: 4\nPeak Memory: 2041 kB\nExecution Time: 1.0 ms".lines()), Some(2041 * 1024));
        assert_eq!(memory("Peak Memory: 0 kB".lines()), Some(0));
        assert_eq!(memory("Seq Scan on t\n  Filter: (label = 'Memory: much')".lines()), None);
    }
}
