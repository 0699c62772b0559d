//! Repairing a store that was damaged in every way one file can be: afterwards it opens, all of it
//! is whole, and it says what it said, but for what the repair named. Nothing happens without being
//! asked for, and no file goes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cut;
#[path = "../harness/mod.rs"]
mod harness;
#[cfg(feature = "testing")]
mod interrupted;
mod maps;
mod one_file;
mod staged;
mod triggers;

use std::path::Path;

use dochistory_core::repair::{Count, Finding, Options, Report, repair};

/// Say what a repair would do.
fn plan(root: &Path) -> Report {
    repair(root, &Options::default(), &mut |_, _| Ok(())).unwrap()
}

fn apply(root: &Path) -> Report {
    repair(root, &Options { apply: true, ..Options::default() }, &mut |_, _| Ok(())).unwrap()
}

/// The upper bound of a count, if it has one.
fn most(count: Count) -> Option<u64> {
    match count {
        Count::Exactly(entries) | Count::AtMost(entries) => Some(entries),
        Count::AtLeast(_) | Count::Unknown => None,
    }
}

/// The upper bound of all findings together; none where one of them has none.
fn most_of(report: &Report, count: fn(&Finding) -> Count) -> Option<u64> {
    report.findings.iter().try_fold(0u64, |sum, finding| Some(sum.saturating_add(most(count(finding))?)))
}
