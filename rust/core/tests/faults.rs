//! Storage that fails without a crash: every operation of a workload fails once, in every way. The
//! call succeeds or gives a typed error; after a failed write the handle refuses to write; after
//! reopening nothing acknowledged is lost and nothing unacknowledged is half there, even if the
//! power goes in the end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use std::path::Path;
use std::sync::Arc;

use dochistory_core::Error;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Call, OnReplay};
use dochistory_core::testing::simulated::{Fault, Simulated};
use harness::simulated::faults::{disturb_everywhere, flip};
use harness::{Ids, Maps, START, Triggers, trigger};

#[test]
fn frame_whose_sync_failed_counts_only_once_rewritten() {
    let mut met = 0;
    for at in 1..40 {
        let machine = Simulated::new(at);
        let open = |process: &Simulated, read_only: bool| {
            let options = OpenOptions { create: !read_only, read_only, ..OpenOptions::default() };
            History::open_on(Arc::new(process.clone()), Path::new("/history"), &options).unwrap()
        };
        let rule = |history: &History| {
            let ids = Ids::new(&["urn:1"]);
            let verdicts = history.classify(&trigger(), &ids.documents(), &mut Call::at(START)).unwrap();
            (verdicts.outcomes[0].rule(), verdicts.unavailable.is_some())
        };
        let failing = machine.process();
        let history = open(&failing, false);
        let begin = |id: &str| {
            let ids = Ids::new(&[id]);
            history.begin(&trigger(), &ids.documents(), &mut Call::at(START), None, OnReplay::ByRules)
        };
        begin("urn:0").unwrap();
        failing.fail_at(failing.operations() + at, Fault::Broken);
        let Err(Error::Io { operation: "sync", .. }) = begin("urn:1") else { continue };
        met += 1;
        let reader = open(&machine.process(), true);
        assert!(rule(&reader).1, "a reader cannot mend it: for it the history is not available");
        assert_eq!(rule(&open(&machine.process(), false)), ("R11", false));
        assert_eq!(rule(&reader), ("R11", false));
        machine.lose_power(0);
        assert_eq!(rule(&open(&machine.process(), false)), ("R11", false));
    }
    assert_eq!(met, 1);
}

#[test]
fn an_input_output_error_at_any_operation_loses_nothing() {
    disturb_everywhere::<Triggers>("Broken faults", |_| Fault::Broken);
}

#[test]
fn a_full_disk_at_any_operation_loses_nothing() {
    disturb_everywhere::<Triggers>("Full faults", |_| Fault::Full);
}

#[test]
fn a_write_that_stops_halfway_loses_nothing() {
    disturb_everywhere::<Triggers>("Short faults", |_| Fault::Short);
}

#[test]
fn a_bit_read_wrongly_changes_no_verdict() {
    disturb_everywhere::<Triggers>("Flip(0) faults", flip);
}

#[test]
fn no_operation_that_fails_loses_a_value_or_changes_one() {
    disturb_everywhere::<Maps>("Broken faults of maps", |_| Fault::Broken);
    disturb_everywhere::<Maps>("Full faults of maps", |_| Fault::Full);
    disturb_everywhere::<Maps>("Short faults of maps", |_| Fault::Short);
    disturb_everywhere::<Maps>("Flip(0) faults of maps", flip);
}
