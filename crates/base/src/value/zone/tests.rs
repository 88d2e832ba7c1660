//! What PostgreSQL 15 makes of the same settings, and offsets against `chrono`.

use proptest::prelude::*;

use super::*;
use crate::value::datetime::SECOND_MICROS;

#[test]
fn the_setting_takes_names_hours_and_posix_zones() {
    for (text, shown, offset) in [
        ("UTC", "UTC", 0),
        ("utc", "UTC", 0),
        ("europe/berlin", "Europe/Berlin", 3600),
        ("EST5EDT", "EST5EDT", -18000),
        ("+02", "<+02>-02", 7200),
        ("-3.5", "<-03:30>+03:30", -12600),
        ("0", "UTC", 0),
        ("UTC+3", "<-03>+03", -10800),
        ("<+03>-3", "<+03>-03", 10800),
        ("GMT-02:30", "<+02:30>-02:30", 9000),
        // Only whole hours are east; with minutes it is a POSIX zone without a name.
        ("+02:00", "<-02>+02", -7200),
    ] {
        let zone = Zone::parse(text).unwrap();
        assert_eq!(zone.to_string(), shown, "{text}");
        // The first moment of 2020.
        assert_eq!(zone.offset_at(1_577_836_800 * SECOND_MICROS), offset, "{text}");
    }
    for text in ["", "foo", "200", "Europe/Nowhere", "UTC+", "UTC+1:2:3:4", "nan", "inf", "ab3"] {
        let error = Zone::parse(text).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidParameterValue);
        assert_eq!(error.message(), format!("invalid value for parameter \"TimeZone\": \"{text}\""));
    }
}

#[test]
fn later_years_repeat_the_rules_of_the_last_known_ones() {
    let micros = |year, month| days_from_civil(year, month, 1) * DAY_MICROS;
    let zone = Zone::parse("America/New_York").unwrap();
    for year in [2099, 2100, 2101, 2400, 9999, 262_142] {
        assert_eq!(zone.offset_at(micros(year, 7)), -4 * 3600, "{year}");
        assert_eq!(zone.offset_at(micros(year, 1)), -5 * 3600, "{year}");
    }
    // No clock changes for Ramadan after 2087.
    let zone = Zone::parse("Africa/Casablanca").unwrap();
    assert_eq!(zone.offset_at(micros(2086, 5)), 0);
    assert!((1..=12).all(|month| zone.offset_at(micros(2400, month)) == 3600));
}

#[test]
fn zones_without_letters_are_abbreviated_by_their_offset() {
    let abbreviation = |name: &str, text: &str| {
        let instant = crate::value::datetime::parse_timestamptz(text, Zone::Utc).unwrap();
        Zone::parse(name).unwrap().abbreviation_at(instant)
    };
    for (name, text, expected) in [
        ("Asia/Kathmandu", "2024-01-01", "+0545"),
        ("America/Santiago", "2024-01-01", "-03"),
        ("America/Santiago", "2024-07-01", "-04"),
        ("America/Guyana", "1950-01-01", "-0345"),
        ("Africa/Casablanca", "2011-05-28", "+01"),
        ("Europe/Berlin", "2150-07-01", "CEST"),
        ("Europe/Berlin", "1890-01-01", "LMT"),
        ("UTC", "2024-01-01", "UTC"),
        ("3.5", "2024-01-01", "+03:30"),
    ] {
        assert_eq!(abbreviation(name, text), expected, "{name} {text}");
    }
}

proptest! {
    #[test]
    fn a_local_time_leads_back_to_its_instant(
        zone in proptest::sample::select(&chrono_tz::TZ_VARIANTS[..]),
        seconds in -5_000_000_000i64..4_000_000_000,
    ) {
        let zone = Zone::Named(zone);
        let utc = seconds * SECOND_MICROS;
        let local = utc + i64::from(zone.offset_at(utc)) * SECOND_MICROS;
        let back = local - i64::from(zone.offset_at_local(local)) * SECOND_MICROS;
        // An hour that occurs twice is read as its second occurrence; on the clock it is the same.
        prop_assert_eq!(back + i64::from(zone.offset_at(back)) * SECOND_MICROS, local);
        prop_assert!(back >= utc);
    }

    #[test]
    fn any_setting_is_a_zone_or_an_error(text in "\\PC*") {
        let _ = Zone::parse(&text);
        let _ = Zone::by_name(&text);
    }
}
