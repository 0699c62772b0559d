//! Durations as people write them: `30 days`, `90m`, `1 day 12 hours`, `500 ms`, or ISO 8601
//! (`PT2H`).

use crate::error::{Error, Result};

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;
const WEEK_US: i64 = 7 * DAY_US;

/// Maximum decimal places: no unit has as many above a microsecond.
const MAX_DECIMALS: usize = 15;

/// The microseconds of a text, or why it is no duration.
type Parsed = std::result::Result<i64, String>;

/// The microseconds of the duration that `text` says; `setting` is named in the error.
///
/// # Errors
/// [`Error::Config`] with the setting, the text, and what is wrong with it.
pub fn parse_duration_us(setting: &str, text: &str) -> Result<i64> {
    let trimmed = text.trim();
    let parsed = match trimmed.strip_prefix(['P', 'p']) {
        Some(iso) => sum_iso(iso),
        None => sum_words(trimmed),
    };
    parsed.map_err(|why| {
        Error::Config(format!(
            "{setting} is {text:?}: {why}; allowed is for example \"30 days\", \"1 day 12 hours\", \"500 ms\" or \"PT2H\""
        ))
    })
}

/// A duration as [`parse_duration_us`] reads it: `1 day 12 hours`.
pub fn duration_text(duration_us: i64) -> String {
    let units = [("day", DAY_US), ("hour", HOUR_US), ("min", MINUTE_US), ("s", SECOND_US), ("ms", 1000), ("us", 1)];
    let (mut rest, mut parts) = (duration_us, Vec::new());
    for (unit, unit_us) in units {
        let count = rest / unit_us;
        rest %= unit_us;
        if count != 0 {
            let plural = if count != 1 && unit_us >= HOUR_US { "s" } else { "" };
            parts.push(format!("{count} {unit}{plural}"));
        }
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// Numbers that each have a unit after them.
fn sum_words(text: &str) -> Parsed {
    let mut rest = text;
    let mut total_us = 0;
    loop {
        let (number, after) = split_number(rest)?;
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        total_us = add(total_us, number, word_us(number, unit)?)?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(total_us);
        }
    }
}

/// The part after the `P` of ISO 8601: weeks and days, then a `T` and hours, minutes, seconds.
fn sum_iso(text: &str) -> Parsed {
    let upper = text.to_ascii_uppercase();
    let (date, time) = upper.split_once('T').map_or((upper.as_str(), None), |(date, time)| (date, Some(time)));
    if time.unwrap_or(date).is_empty() {
        return Err("a number with its unit is missing at the end".to_owned());
    }
    let days_us = sum_designators(date, &[('W', WEEK_US), ('D', DAY_US)])?;
    let time_us = sum_designators(time.unwrap_or(""), &[('H', HOUR_US), ('M', MINUTE_US), ('S', SECOND_US)])?;
    days_us.checked_add(time_us).ok_or_else(too_long)
}

/// Numbers that each have one letter after them, in the order of `units`.
fn sum_designators(text: &str, mut units: &[(char, i64)]) -> Parsed {
    let mut rest = text;
    let mut total_us = 0;
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let mut letters = after.chars();
        let letter = letters.next().ok_or_else(|| format!("{number} has no unit"))?;
        let Some(at) = units.iter().position(|(unit, _)| *unit == letter) else {
            return Err(unfit_designator(letter));
        };
        total_us = add(total_us, number, units[at].1)?;
        units = &units[at + 1..];
        rest = letters.as_str();
    }
    Ok(total_us)
}

fn unfit_designator(letter: char) -> String {
    match letter {
        'Y' | 'M' => no_fixed_length(),
        _ => format!("{letter:?} is no unit of ISO 8601, or not in its place"),
    }
}

/// Splits a number off the front.
fn split_number(text: &str) -> std::result::Result<(&str, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) if text.starts_with('-') => Err("it cannot be negative".to_owned()),
        ("", "") => Err("it is empty".to_owned()),
        ("", _) => Err(format!("a number is missing before {text:?}")),
        parts => Ok(parts),
    }
}

/// The microseconds of one unit, by its word.
fn word_us(number: &str, word: &str) -> Parsed {
    if word == "M" {
        return Err("\"M\" could be minutes or months: write \"min\"".to_owned());
    }
    match word.to_lowercase().as_str() {
        "us" | "µs" | "μs" | "microsecond" | "microseconds" => Ok(1),
        "ms" | "millisecond" | "milliseconds" => Ok(1000),
        "s" | "sec" | "secs" | "second" | "seconds" => Ok(SECOND_US),
        "m" | "min" | "mins" | "minute" | "minutes" => Ok(MINUTE_US),
        "h" | "hr" | "hrs" | "hour" | "hours" => Ok(HOUR_US),
        "d" | "day" | "days" => Ok(DAY_US),
        "w" | "week" | "weeks" => Ok(WEEK_US),
        "month" | "months" | "y" | "year" | "years" => Err(no_fixed_length()),
        "" => Err(format!("{number} has no unit")),
        _ => Err(format!("{word:?} is no unit of time")),
    }
}

/// `total_us` and `number` units more.
fn add(total_us: i64, number: &str, unit_us: i64) -> Parsed {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || decimals.is_empty() || decimals.contains('.') {
        return Err(format!("{number:?} is no number"));
    }
    let whole_us = whole.parse::<i64>().ok().and_then(|whole| whole.checked_mul(unit_us)).ok_or_else(too_long)?;
    let sum_us = total_us.checked_add(whole_us).ok_or_else(too_long)?;
    sum_us.checked_add(decimals_us(number, decimals, unit_us)?).ok_or_else(too_long)
}

/// The microseconds of the decimal places of `number`; exact, or an error.
fn decimals_us(number: &str, decimals: &str, unit_us: i64) -> Parsed {
    let too_fine = || format!("{number} of that unit is no whole number of microseconds");
    let digits = decimals.trim_end_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if digits.len() > MAX_DECIMALS {
        return Err(too_fine());
    }
    let numerator = digits.parse::<i128>().map_err(|_| too_fine())? * i128::from(unit_us);
    let denominator = 10_i128.pow(digits.len() as u32);
    if numerator % denominator == 0 { Ok((numerator / denominator) as i64) } else { Err(too_fine()) }
}

fn too_long() -> String {
    "it is longer than can be counted in microseconds".to_owned()
}

fn no_fixed_length() -> String {
    "months and years have no fixed length: write days".to_owned()
}
