//! Moments as text, in UTC.

use std::path::Path;
use std::time::UNIX_EPOCH;

/// `2026-11-22T05:57:42Z` of microseconds since 1970.
///
/// The days are those of Hinnant's `civil_from_days` (howardhinnant.github.io/date_algorithms.html): eras of 400 years that begin
/// in March, so that a leap day ends its year.
pub(crate) fn utc(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// When a file was last changed; None if that cannot be found out.
pub(crate) fn of_file(path: &Path) -> Option<String> {
    let since = path.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok().map(utc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_moment_of_its_last_change() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_modified(UNIX_EPOCH + std::time::Duration::from_secs(951_782_400)).unwrap();
        assert_eq!(of_file(file.path()).as_deref(), Some("2000-02-29T00:00:00Z"));
        assert_eq!(of_file(&file.path().join("nowhere")), None);
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_327_062, "2026-11-22T05:57:42Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000), text);
        }
    }
}
