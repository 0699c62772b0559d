//! Durations as people write them.

use crate::error::Error;
use crate::protocols::trigger::rules::parse_duration_us;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

fn us(text: &str) -> i64 {
    parse_duration_us("history_time_to_live", text).unwrap()
}

fn refused(text: &str) -> String {
    match parse_duration_us("lock_timeout", text) {
        Err(Error::Config(why)) => why,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn numbers_with_units_are_added_up() {
    let cases = [
        ("30 days", 30 * DAY),
        ("2 hours", 2 * HOUR),
        ("15 min", 900 * SECOND),
        ("500 ms", 500_000),
        ("1 day 12 hours", 36 * HOUR),
        ("1day12hours", 36 * HOUR),
        ("  10 s  ", 10 * SECOND),
        ("2 Weeks", 14 * DAY),
        ("7 us", 7),
        ("7 µs", 7),
        ("1.5 h", 3 * HOUR / 2),
        ("0.000001 s", 1),
        ("0 s", 0),
    ];
    for (text, expected) in cases {
        assert_eq!(us(text), expected, "{text}");
    }
}

#[test]
fn iso_8601_is_read() {
    let cases = [
        ("PT2H", 2 * HOUR),
        ("P30D", 30 * DAY),
        ("P2W", 14 * DAY),
        ("P1DT12H", 36 * HOUR),
        ("PT1H30M5S", HOUR + 1805 * SECOND),
        ("pt0.5s", SECOND / 2),
    ];
    for (text, expected) in cases {
        assert_eq!(us(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_duration_is_refused_with_the_reason() {
    let cases = [
        ("", "it is empty"),
        ("30", "30 has no unit"),
        ("days", "a number is missing before \"days\""),
        ("-5 s", "it cannot be negative"),
        ("PT-5S", "it cannot be negative"),
        ("1 day 2", "2 has no unit"),
        ("5 parsecs", "\"parsecs\" is no unit of time"),
        ("5 M", "write \"min\""),
        ("1 month", "months and years have no fixed length"),
        ("P1Y", "months and years have no fixed length"),
        ("P1M", "months and years have no fixed length"),
        ("P", "a number with its unit is missing at the end"),
        ("P1DT", "a number with its unit is missing at the end"),
        ("P2H", "'H' is no unit of ISO 8601, or not in its place"),
        ("PT5S1H", "'H' is no unit of ISO 8601, or not in its place"),
        ("PT5", "5 has no unit"),
        ("1..5 s", "\"1..5\" is no number"),
        (". s", "\".\" is no number"),
        ("0.0000001 s", "no whole number of microseconds"),
        ("0.1234567890123456789 days", "no whole number of microseconds"),
        ("9223372036854775807 s", "longer than can be counted"),
        ("106751991 days 5 hours", "longer than can be counted"),
        ("99999999999999999999 us", "longer than can be counted"),
        ("1 day, 2 hours", "a number is missing before \", 2 hours\""),
    ];
    for (text, why) in cases {
        let error = refused(text);
        assert!(error.starts_with(&format!("lock_timeout is {text:?}: ")), "{error}");
        assert!(error.contains(why), "{error}");
    }
}
