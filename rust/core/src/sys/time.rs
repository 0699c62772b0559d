//! Points in time for people.

/// A time in microseconds since 1970 as `2026-11-21T09:30:00.000000Z`.
pub fn format_us(time_us: i64) -> String {
    let (seconds, micros) = (time_us.div_euclid(1_000_000), time_us.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a day number, counted from 1 March 0000 so that leap days come last.
fn civil(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Now, in microseconds since 1970.
pub fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::format_us;

    #[test]
    fn a_time_is_written_as_people_write_it() {
        assert_eq!(format_us(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(format_us(951_782_400_000_001), "2000-02-29T00:00:00.000001Z");
        assert_eq!(format_us(1_795_253_400_000_000), "2026-11-21T09:30:00.000000Z");
        assert_eq!(format_us(-1), "1969-12-31T23:59:59.999999Z");
    }
}
