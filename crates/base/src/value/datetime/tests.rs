//! What PostgreSQL 15 makes of the same inputs, and the calendar against `chrono`.

use chrono::Datelike;

use crate::ScalarType;
use crate::value::table::{check, check_in};
use crate::value::text::Zone;

use super::*;

#[test]
fn dates_are_read_in_the_usual_forms() {
    check(
        ScalarType::Date,
        &[
            ("1999-01-08", "1999-01-08"),
            ("January 8, 1999", "1999-01-08"),
            ("1/8/1999", "1999-01-08"),
            ("1/18/1999", "1999-01-18"),
            ("01/02/03", "2003-01-02"),
            ("1999-Jan-08", "1999-01-08"),
            ("Jan-08-1999", "1999-01-08"),
            ("08-Jan-1999", "1999-01-08"),
            ("99-Jan-08", "22008: date/time field value out of range: \"99-Jan-08\""),
            ("08-Jan-99", "1999-01-08"),
            ("Jan-08-99", "1999-01-08"),
            ("19990108", "1999-01-08"),
            ("990108", "1999-01-08"),
            ("1999.008", "1999-01-08"),
            ("2020-123", "2020-05-02"),
            ("2020.123 0405", "2020-05-02"),
            ("2020.123 12", "22007: invalid input syntax for type date: \"2020.123 12\""),
            ("2020.123 040", "22007: invalid input syntax for type date: \"2020.123 040\""),
            ("2020.123 Jan", "22007: invalid input syntax for type date: \"2020.123 Jan\""),
            ("Mar-30-2020+0530", "22007: invalid input syntax for type date: \"Mar-30-2020+0530\""),
            ("2020-01-02-0304", "22007: invalid input syntax for type date: \"2020-01-02-0304\""),
            ("2020-02-29", "2020-02-29"),
            ("2021-02-29", "22008: date/time field value out of range: \"2021-02-29\""),
            ("2020-13-01", "22008: date/time field value out of range: \"2020-13-01\""),
            ("2020-00-01", "22008: date/time field value out of range: \"2020-00-01\""),
            ("2020-01-00", "22008: date/time field value out of range: \"2020-01-00\""),
            ("0000-01-01", "22008: date/time field value out of range: \"0000-01-01\""),
            ("0001-01-01", "0001-01-01"),
            ("10000-01-01", "10000-01-01"),
            ("262142-12-31", "262142-12-31"),
            ("5874898-01-01", "22008: date out of range: \"5874898-01-01\""),
            ("2020-1-2", "2020-01-02"),
            ("1/2/20", "2020-01-02"),
            ("12/31/69", "2069-12-31"),
            ("12/31/70", "1970-12-31"),
            ("2020/01/02", "2020-01-02"),
            ("2020 01 02", "2020-01-02"),
            ("1 Jan 2020", "2020-01-01"),
            ("2020 Jan 1", "2020-01-01"),
            ("Sept 5 2020", "2020-09-05"),
            ("septem 5 2020", "22007: invalid input syntax for type date: \"septem 5 2020\""),
            ("Mon Jan 6 2020", "2020-01-06"),
            ("Mon 2020-01-06", "22007: invalid input syntax for type date: \"Mon 2020-01-06\""),
            ("epoch", "1970-01-01"),
            ("2020-01-02 03:04:05", "2020-01-02"),
            ("2020-01-02 25:00", "22008: date/time field value out of range: \"2020-01-02 25:00\""),
            ("2020-01-02 Foo/Bar", "22023: time zone \"foo/bar\" not recognized"),
            ("2020-01-02 foo", "22007: invalid input syntax for type date: \"2020-01-02 foo\""),
            ("99999999999-01-01", "22008: date/time field value out of range: \"99999999999-01-01\""),
            ("", "22007: invalid input syntax for type date: \"\""),
            ("x", "22007: invalid input syntax for type date: \"x\""),
            ("2020", "22007: invalid input syntax for type date: \"2020\""),
            ("2020-01", "22007: invalid input syntax for type date: \"2020-01\""),
            ("12/25", "22007: invalid input syntax for type date: \"12/25\""),
            ("2020-01-02x", "22007: invalid input syntax for type date: \"2020-01-02x\""),
            ("13/13/2020", "22008: date/time field value out of range: \"13/13/2020\""),
            ("31/12/2020", "22008: date/time field value out of range: \"31/12/2020\""),
            ("Feb 30 2020", "22008: date/time field value out of range: \"Feb 30 2020\""),
            ("2020-01-02 AD", "2020-01-02"),
            ("20200102T040506Z", "2020-01-02"),
            ("2020-W01-1", "22007: invalid input syntax for type date: \"2020-W01-1\""),
            ("1Jan2020", "2020-01-01"),
            ("2020-01-02 2020-01-03", "22007: invalid input syntax for type date: \"2020-01-02 2020-01-03\""),
        ],
    );
}

#[test]
fn times_are_read_in_the_usual_forms() {
    check(
        ScalarType::Time,
        &[
            ("04:05:06.789", "04:05:06.789"),
            ("04:05", "04:05:00"),
            ("040506", "04:05:06"),
            ("0405", "04:05:00"),
            ("04:05 AM", "04:05:00"),
            ("04:05 PM", "16:05:00"),
            ("12:00 AM", "00:00:00"),
            ("12:00 PM", "12:00:00"),
            ("13:00 PM", "22008: date/time field value out of range: \"13:00 PM\""),
            ("04:05:06.789-8", "04:05:06.789"),
            ("040506+0730", "04:05:06"),
            ("04:05:06 PST", "04:05:06"),
            ("2003-04-12 04:05:06 America/New_York", "04:05:06"),
            ("04:05:06 America/New_York", "22007: invalid input syntax for type time: \"04:05:06 America/New_York\""),
            ("04:05:06 Etc/UTC", "04:05:06"),
            ("24:00:00", "24:00:00"),
            ("24:00:01", "22008: date/time field value out of range: \"24:00:01\""),
            ("23:59:60", "24:00:00"),
            ("23:59:60.5", "22008: date/time field value out of range: \"23:59:60.5\""),
            ("23:59:59.9999999", "24:00:00"),
            ("04:05:06.1234565", "04:05:06.123456"),
            ("04:05:06.1234575", "04:05:06.123458"),
            ("00:00:00.0000005", "00:00:00"),
            ("00:00:00.0000015", "00:00:00.000002"),
            ("allballs", "00:00:00"),
            ("04:05Z", "04:05:00"),
            ("T04:05:06", "04:05:06"),
            ("t040506", "04:05:06"),
            ("4:5", "04:05:00"),
            ("04:60", "22008: date/time field value out of range: \"04:60\""),
            ("25:00", "22008: date/time field value out of range: \"25:00\""),
            ("04", "22007: invalid input syntax for type time: \"04\""),
            ("", "22007: invalid input syntax for type time: \"\""),
            ("x", "22007: invalid input syntax for type time: \"x\""),
            ("2020-01-01", "22007: invalid input syntax for type time: \"2020-01-01\""),
            ("04:05:06 2020", "22007: invalid input syntax for type time: \"04:05:06 2020\""),
            ("04:05:06:07", "22007: invalid input syntax for type time: \"04:05:06:07\""),
            ("Mon 04:05", "22007: invalid input syntax for type time: \"Mon 04:05\""),
        ],
    );
}

#[test]
fn timestamps_are_read_in_the_usual_forms() {
    check(
        ScalarType::Timestamp,
        &[
            ("2020.123 0405", "2020-05-02 04:05:00"),
            ("2020.123T040506.5", "2020-05-02 04:05:06.5"),
            ("2020-01-02-0304", "22007: invalid input syntax for type timestamp: \"2020-01-02-0304\""),
            ("31-may-14-2108", "22007: invalid input syntax for type timestamp: \"31-may-14-2108\""),
            ("2020-01-01", "2020-01-01 00:00:00"),
            ("2020-01-01 04:05:06.789", "2020-01-01 04:05:06.789"),
            ("2020-01-01T04:05:06.789Z", "2020-01-01 04:05:06.789"),
            ("2020-01-01 04:05:06.1234565", "2020-01-01 04:05:06.123456"),
            ("1999-12-31 23:59:59.9999999", "2000-01-01 00:00:00"),
            ("2020-01-01 24:00:00", "2020-01-02 00:00:00"),
            ("2020-01-01 23:59:60", "2020-01-02 00:00:00"),
            ("2020-01-01 12:30 AM", "2020-01-01 00:30:00"),
            ("Jan 1 2020 4:05 PM", "2020-01-01 16:05:00"),
            ("2020-01-01 04:05:06+02", "2020-01-01 04:05:06"),
            ("20200101T040506.789", "2020-01-01 04:05:06.789"),
            ("20200101 040506", "2020-01-01 04:05:06"),
            ("2020-01-01 040506", "2020-01-01 04:05:06"),
            ("Wed Dec 17 07:37:16 1997 PST", "1997-12-17 07:37:16"),
            ("12/17/1997 07:37:16.00 PST", "1997-12-17 07:37:16"),
            ("262142-12-31 23:59:59.999999", "262142-12-31 23:59:59.999999"),
            ("294277-01-01", "22008: timestamp out of range: \"294277-01-01\""),
            ("04:05 2020-01-01", "22007: invalid input syntax for type timestamp: \"04:05 2020-01-01\""),
            ("2020-01-01 25:00:00", "22008: date/time field value out of range: \"2020-01-01 25:00:00\""),
            ("2020-02-30 00:00", "22008: date/time field value out of range: \"2020-02-30 00:00\""),
            ("2020-01-01 00:00:00 foo", "22007: invalid input syntax for type timestamp: \"2020-01-01 00:00:00 foo\""),
            ("2020-01-01T", "22007: invalid input syntax for type timestamp: \"2020-01-01T\""),
            ("x", "22007: invalid input syntax for type timestamp: \"x\""),
            ("04:05", "22007: invalid input syntax for type timestamp: \"04:05\""),
            ("2020-01-01 00:00:00-16", "22009: time zone displacement out of range: \"2020-01-01 00:00:00-16\""),
        ],
    );
}

#[test]
fn instants_take_their_zone_from_the_text() {
    check(
        ScalarType::Timestamptz,
        &[
            ("2020-01-01 04:05:06", "2020-01-01 04:05:06+00"),
            ("2020-01-01 04:05:06+02", "2020-01-01 02:05:06+00"),
            ("2020-01-01 04:05:06 +05:30", "2019-12-31 22:35:06+00"),
            ("2020-01-01 04:05:06-0330", "2020-01-01 07:35:06+00"),
            ("2020-01-01 04:05:06Z", "2020-01-01 04:05:06+00"),
            ("2020-01-01 00:00:00+15:59:59", "2019-12-31 08:00:01+00"),
            ("2020-01-01 04:05:06 Europe/Berlin", "2020-01-01 03:05:06+00"),
            ("2020-07-01 04:05:06 europe/berlin", "2020-07-01 02:05:06+00"),
            ("2020-07-01 04:05:06 PST", "2020-07-01 12:05:06+00"),
            ("2020-07-01 04:05:06 EST5EDT", "2020-07-01 08:05:06+00"),
            ("2020-03-08 02:30 America/New_York", "2020-03-08 07:30:00+00"),
            ("2020-11-01 01:30 America/New_York", "2020-11-01 06:30:00+00"),
            ("2020-03-29 02:30 Europe/Berlin", "2020-03-29 01:30:00+00"),
            ("2020-10-25 02:30 Europe/Berlin", "2020-10-25 01:30:00+00"),
            ("2020-01-01 04:05:06 UTC+3", "2020-01-01 07:05:06+00"),
            (
                "2020-01-01 04:05:06 <+03>-3",
                "22007: invalid input syntax for type timestamp with time zone: \"2020-01-01 04:05:06 <+03>-3\"",
            ),
            ("1883-11-18 12:00 America/New_York", "1883-11-18 17:00:00+00"),
            ("2038-01-19 03:14:08 Europe/London", "2038-01-19 03:14:08+00"),
            ("2099-12-31 00:00 Australia/Sydney", "2099-12-30 13:00:00+00"),
            ("2100-01-01 00:00 Australia/Sydney", "2099-12-31 13:00:00+00"),
            ("2104-02-29 00:00 Australia/Sydney", "2104-02-28 13:00:00+00"),
            ("2500-07-01 00:00 America/New_York", "2500-07-01 04:00:00+00"),
            ("9999-07-01 00:00 America/New_York", "9999-07-01 04:00:00+00"),
            ("2011-12-30 12:00 Pacific/Apia", "2011-12-30 22:00:00+00"),
            ("epoch", "1970-01-01 00:00:00+00"),
            ("20200101T040506+02", "2020-01-01 02:05:06+00"),
            ("2020-01-01 00:00:00 Foo/Bar", "22023: time zone \"foo/bar\" not recognized"),
            ("2020-01-01-02", "22007: invalid input syntax for type timestamp with time zone: \"2020-01-01-02\""),
            ("2020-01-01 allballs", "2020-01-01 00:00:00+00"),
        ],
    );
}

#[test]
fn instants_are_shown_on_the_clock_of_the_session() {
    check_in(
        Zone::parse("Europe/Berlin").unwrap(),
        ScalarType::Timestamptz,
        &[
            ("2020-01-01 12:00", "2020-01-01 12:00:00+01"),
            ("2020-07-01 12:00", "2020-07-01 12:00:00+02"),
            ("2020-07-01 12:00Z", "2020-07-01 14:00:00+02"),
            ("1900-01-01 00:00", "1900-01-01 00:00:00+01"),
            ("2150-07-01 12:00Z", "2150-07-01 14:00:00+02"),
            ("2020-07-01 12:00 America/New_York", "2020-07-01 18:00:00+02"),
            ("epoch", "1970-01-01 01:00:00+01"),
            ("0001-01-02 00:00", "0001-01-02 00:00:00+00:53:28"),
        ],
    );
    check_in(
        Zone::parse("America/New_York").unwrap(),
        ScalarType::Timestamptz,
        &[
            ("2020-01-01 12:00", "2020-01-01 12:00:00-05"),
            ("2020-07-01 12:00", "2020-07-01 12:00:00-04"),
            ("2020-07-01 12:00Z", "2020-07-01 08:00:00-04"),
            ("1900-01-01 00:00", "1900-01-01 00:00:00-05"),
            ("2150-07-01 12:00Z", "2150-07-01 08:00:00-04"),
            ("2020-07-01 12:00 America/New_York", "2020-07-01 12:00:00-04"),
            ("epoch", "1969-12-31 19:00:00-05"),
            ("0001-01-02 00:00", "0001-01-02 00:00:00-04:56:02"),
        ],
    );
    check_in(
        Zone::parse("Asia/Kolkata").unwrap(),
        ScalarType::Timestamptz,
        &[
            ("2020-01-01 12:00", "2020-01-01 12:00:00+05:30"),
            ("2020-07-01 12:00", "2020-07-01 12:00:00+05:30"),
            ("2020-07-01 12:00Z", "2020-07-01 17:30:00+05:30"),
            ("1900-01-01 00:00", "1900-01-01 00:00:00+05:21:10"),
            ("2150-07-01 12:00Z", "2150-07-01 17:30:00+05:30"),
            ("2020-07-01 12:00 America/New_York", "2020-07-01 21:30:00+05:30"),
            ("epoch", "1970-01-01 05:30:00+05:30"),
            ("0001-01-02 00:00", "0001-01-02 00:00:00+05:53:28"),
        ],
    );
    check_in(
        Zone::parse("Australia/Lord_Howe").unwrap(),
        ScalarType::Timestamptz,
        &[
            ("2020-01-01 12:00", "2020-01-01 12:00:00+11"),
            ("2020-07-01 12:00", "2020-07-01 12:00:00+10:30"),
            ("2020-07-01 12:00Z", "2020-07-01 22:30:00+10:30"),
            ("1900-01-01 00:00", "1900-01-01 00:00:00+10"),
            ("2150-07-01 12:00Z", "2150-07-01 22:30:00+10:30"),
            ("2020-07-01 12:00 America/New_York", "2020-07-02 02:30:00+10:30"),
            ("epoch", "1970-01-01 10:00:00+10"),
            ("0001-01-02 00:00", "0001-01-02 00:00:00+10:36:20"),
        ],
    );
}

#[test]
fn what_has_no_fixed_meaning_or_no_place_is_refused() {
    for text in
        ["infinity", "-infinity", "now", "today", "tomorrow", "March 15, 44 BC", "0001-01-01 BC", "262143-01-01"]
    {
        for error in [parse_date(text).unwrap_err(), parse_timestamptz(text, Zone::Utc).unwrap_err()] {
            assert_eq!(error.code(), ErrorCode::FeatureNotSupported, "{text}: {error}");
        }
    }
}

#[test]
fn a_half_of_the_day_needs_a_time() {
    check(
        ScalarType::Timestamp,
        &[("2020-01-01 PM", "22007: invalid input syntax for type timestamp: \"2020-01-01 PM\"")],
    );
}

#[test]
fn fields_in_another_order_get_a_hint() {
    let hint = |text| parse_date(text).unwrap_err().fields().hint.clone();
    assert_eq!(hint("31/12/2020").as_deref(), Some("Perhaps you need a different \"datestyle\" setting."));
    assert_eq!(hint("2021-02-29"), None);
}

#[test]
fn the_calendar_is_that_of_chrono() {
    for days in (-800_000..800_000).step_by(13) {
        let date = chrono::NaiveDate::from_epoch_days(days).unwrap();
        let civil = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
        assert_eq!(civil_from_days(i64::from(days)), civil);
        assert_eq!(days_from_civil(civil.0, civil.1, civil.2), i64::from(days));
    }
}

#[test]
fn a_local_time_before_the_first_year_is_written() {
    let mut out = Vec::new();
    write_timestamptz(DATE_MIN * DAY_MICROS, Zone::Fixed(-3600), &mut out);
    assert_eq!(out, b"0001-12-31 23:00:00-01 BC");
}
