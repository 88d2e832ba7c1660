//! The measures that are compared and reported: how each follows from a measurement, and which direction is better.

use ashlar_telemetry::profile::Kind;

use super::Measurement;

/// Operations that must lie beyond a percentile: of fewer, one that was unlucky is the figure.
pub(crate) const BEYOND_MIN: u64 = 10;

/// jemalloc samples one allocation in so many bytes.
const SAMPLED_BYTES: f64 = (1 << 19) as f64;

/// A figure of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Throughput,
    Mean,
    P50,
    P90,
    P99,
    P999,
    CpuPerOperation,
    MemoryPeak,
    MemoryAboveData,
    EngineMemory,
    AllocatedPerOperation,
    EntryMemory,
    EntryLive,
}

/// All of them, in the order in which they are shown.
pub(crate) const MEASURES: &[Measure] = &[
    Measure::Throughput,
    Measure::Mean,
    Measure::P50,
    Measure::P90,
    Measure::P99,
    Measure::P999,
    Measure::CpuPerOperation,
    Measure::MemoryPeak,
    Measure::MemoryAboveData,
    Measure::EngineMemory,
    Measure::AllocatedPerOperation,
    Measure::EntryMemory,
    Measure::EntryLive,
];

impl Measure {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Mean => "mean latency",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::CpuPerOperation => "server CPU per operation",
            Self::MemoryPeak => "peak memory",
            Self::MemoryAboveData => "peak above the data",
            Self::EngineMemory => "engine's memory",
            Self::AllocatedPerOperation => "allocated per operation",
            Self::EntryMemory => "memory per entry",
            Self::EntryLive => "live heap per entry",
        }
    }

    /// What it takes to have it, of a measure that every run is to have.
    pub(crate) fn needs(self) -> Option<&'static str> {
        match self {
            Self::P90 => Some("needs 100 operations in each repetition"),
            Self::P99 => Some("needs 1,000 operations in each repetition"),
            Self::P999 => Some("needs 10,000 operations in each repetition"),
            Self::CpuPerOperation | Self::MemoryPeak => Some("known of servers that the lab started"),
            Self::AllocatedPerOperation => Some("run --profile allocations takes it, of a server that gives profiles"),
            Self::Throughput
            | Self::Mean
            | Self::P50
            | Self::MemoryAboveData
            | Self::EngineMemory
            | Self::EntryMemory
            | Self::EntryLive => None,
        }
    }

    /// Whether it says what the server needed, and not how fast it was.
    pub(crate) fn is_need(self) -> bool {
        self == Self::CpuPerOperation || self.is_bytes()
    }

    /// Whether it is counted in bytes.
    pub(crate) fn is_bytes(self) -> bool {
        matches!(
            self,
            Self::MemoryPeak
                | Self::MemoryAboveData
                | Self::EngineMemory
                | Self::AllocatedPerOperation
                | Self::EntryMemory
                | Self::EntryLive
        )
    }

    /// Whether more of it is better.
    pub(crate) fn more_is_better(self) -> bool {
        self == Self::Throughput
    }

    /// The figure of a measurement; None where it was not measured, or is nothing that a ratio can be made of.
    pub(crate) fn of(self, measurement: &Measurement) -> Option<f64> {
        let latency = &measurement.latency;
        // What was never sent would have had the longest latencies.
        if self.is_latency() && measurement.unsent > 0 {
            return None;
        }
        // A percentile is as good as the number of operations beyond it: of one in so many.
        let beyond = match self {
            Self::P90 => measurement.operations / 10,
            Self::P99 => measurement.operations / 100,
            Self::P999 => measurement.operations / 1000,
            _ => BEYOND_MIN,
        };
        if beyond < BEYOND_MIN {
            return None;
        }
        let figure = match self {
            Self::Throughput => measurement.operations_per_second,
            Self::Mean => latency.mean_us,
            Self::P50 => latency.p50_us,
            Self::P90 => latency.p90_us,
            Self::P99 => latency.p99_us,
            Self::P999 => latency.p999_us,
            Self::CpuPerOperation => {
                let operations = measurement.operations_per_second * measurement.measured_seconds;
                measurement.server_cpu_seconds? * 1e6 / operations
            }
            Self::MemoryPeak => measurement.server_memory_peak_bytes? as f64,
            Self::MemoryAboveData => memory_above_data(measurement)?,
            Self::EngineMemory => measurement.engine_memory_bytes? as f64,
            Self::AllocatedPerOperation => {
                let profile = measurement.profile(Kind::Allocations)?;
                profile.total as f64 / (measurement.operations_per_second * profile.seconds)
            }
            Self::EntryMemory => measurement.footprint?.per_entry(),
            Self::EntryLive => measurement.footprint?.live_per_entry()?,
        };
        (figure.is_finite() && figure > 0.0).then_some(figure)
    }

    /// The ratio by which the figure may differ from what it stands for, because it is counted in steps; None where it was not
    /// measured.
    pub(crate) fn resolution(self, measurement: &Measurement) -> Option<f64> {
        Some(match self {
            // One answer.
            Self::Throughput => 1.0 / (measurement.operations_per_second * measurement.measured_seconds),
            // A tick of the kernel's accounting is 10 ms, a page 4 KiB.
            Self::CpuPerOperation => 0.01 / measurement.server_cpu_seconds?,
            Self::MemoryPeak => 4096.0 / measurement.server_memory_peak_bytes? as f64,
            Self::MemoryAboveData => 4096.0 / memory_above_data(measurement)?,
            // What plans are written with.
            Self::EngineMemory => 1024.0 / measurement.engine_memory_bytes? as f64,
            // A page.
            Self::EntryMemory | Self::EntryLive => {
                4096.0 / (self.of(measurement)? * measurement.footprint?.entries as f64)
            }
            // What one sample of the allocator stands for.
            Self::AllocatedPerOperation => SAMPLED_BYTES / measurement.profile(Kind::Allocations)?.total as f64,
            // The three digits of a histogram.
            Self::Mean | Self::P50 | Self::P90 | Self::P99 | Self::P999 => 0.001,
        })
        .filter(|ratio: &f64| ratio.is_finite())
    }

    fn is_latency(self) -> bool {
        matches!(self, Self::Mean | Self::P50 | Self::P90 | Self::P99 | Self::P999)
    }

    /// The figure for people.
    pub(crate) fn shown(self, figure: f64) -> String {
        match self {
            Self::Throughput => format!("{}/s", scaled(figure, 1000.0, &["", " K", " M"])),
            bytes if bytes.is_bytes() => scaled(figure, 1024.0, &[" B", " KiB", " MiB", " GiB"]),
            _ => scaled(figure, 1000.0, &[" us", " ms", " s"]),
        }
    }
}

/// What was resident at most above what was there with the data, before the first query.
fn memory_above_data(measurement: &Measurement) -> Option<f64> {
    Some(measurement.server_memory_peak_bytes? as f64 - measurement.server_memory_loaded_bytes? as f64)
}

/// Three digits and a unit.
fn scaled(mut figure: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while figure >= step * 0.9995 && unit + 1 < units.len() {
        figure /= step;
        unit += 1;
    }
    let digits = if figure < 9.995 {
        2
    } else if figure < 99.95 {
        1
    } else {
        0
    };
    format!("{figure:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        for (measure, figure, shown) in [
            (Measure::Throughput, 123_456.0, "123 K/s"),
            (Measure::Throughput, 7.0, "7.00/s"),
            (Measure::Throughput, 999_999.0, "1.00 M/s"),
            (Measure::P99, 12.34, "12.3 us"),
            (Measure::P99, 1234.0, "1.23 ms"),
            (Measure::MemoryPeak, 1_048_576.0, "1.00 MiB"),
        ] {
            assert_eq!(measure.shown(figure), shown);
        }
    }

    #[test]
    fn a_percentile_needs_ten_operations_beyond_it() {
        let mut one = crate::record::tests::measurement("ashlar", 8, 1);
        for (operations, expected) in [
            (99, [true, false, false, false]),
            (100, [true, true, false, false]),
            (1000, [true, true, true, false]),
            (10_000, [true, true, true, true]),
        ] {
            one.operations = operations;
            let there = [Measure::P50, Measure::P90, Measure::P99, Measure::P999].map(|p| p.of(&one).is_some());
            assert_eq!(there, expected, "{operations}");
        }
    }

    #[test]
    fn latencies_of_those_that_were_sent_say_nothing_of_the_others() {
        let mut one = crate::record::tests::measurement("ashlar", 8, 1);
        assert!(one.is_sound() && Measure::Mean.of(&one).is_some());
        one.unsent = 1;
        assert!(!one.is_sound() && Measure::Throughput.of(&one).is_some());
        assert!(MEASURES.iter().all(|measure| !measure.is_latency() || measure.of(&one).is_none()));
    }

    #[test]
    fn what_an_engine_counts_is_a_figure_where_it_counts() {
        let mut one = crate::record::tests::measurement("duckdb", 1, 1);
        assert_eq!((Measure::EngineMemory.of(&one), Measure::EngineMemory.resolution(&one)), (None, None));
        one.engine_memory_bytes = Some(3 << 20);
        assert_eq!(
            Measure::EngineMemory.of(&one).map(|bytes| Measure::EngineMemory.shown(bytes)),
            Some("3.00 MiB".into())
        );
        assert!(Measure::EngineMemory.is_need() && !Measure::EngineMemory.more_is_better());
    }

    #[test]
    fn what_a_query_needed_is_above_what_was_there() {
        let mut one = crate::record::tests::measurement("ashlar", 1, 1);
        assert_eq!(Measure::MemoryAboveData.of(&one), None);
        one.server_memory_loaded_bytes = Some(150 << 20);
        assert_eq!(Measure::MemoryAboveData.of(&one), Some(f64::from(50 << 20)));
        one.server_memory_loaded_bytes = Some(201 << 20);
        assert_eq!(Measure::MemoryAboveData.of(&one), None, "no ratio can be made of less than nothing");
    }
}
