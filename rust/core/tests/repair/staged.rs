//! What a repair makes of files that tasks have staged.

use std::path::{Path, PathBuf};

use dochistory_core::Replays;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Attempt, Call, Job, JobPlan, Receipt};
use dochistory_core::repair::{Count, Remedy};

use crate::apply;
use crate::harness::closed::{flip, newest};
use crate::harness::{Ids, START, begin, open, rules, seal, trigger, uuids};

/// A job of 40 documents that are staged.
fn staged(root: &Path, history: &History) -> (Job, Receipt) {
    let plan = JobPlan {
        parts: 1,
        reads: true,
        routed: false,
        replays: Replays::default(),
        transaction: None,
        rows: None,
        started_at: START,
    };
    let job = history.reserve(&trigger(), plan).unwrap().0;
    let options = OpenOptions { snapshot: History::snapshot_of_job(&job), read_only: true, ..OpenOptions::default() };
    let task = History::open(root, &options).unwrap();
    let ids = Ids::new(&uuids(0..40));
    let attempt = Attempt { part: 0, name: "a0" };
    let receipt = task.stage(&trigger(), &job, attempt, &ids.documents(), &mut Call::at(0)).unwrap().receipt;
    (job, receipt)
}

fn space(root: &Path) -> PathBuf {
    std::fs::read_dir(root.join("triggers")).unwrap().next().unwrap().unwrap().path()
}

/// Make the newest manifest useless.
fn lose_manifest(root: &Path) {
    flip(&newest(&space(root), "manifest"), 20, 1);
}

#[test]
fn repair_takes_in_no_uncommitted_staged_file() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    let history = open(&root);
    begin(&history, &trigger(), &uuids(100..130), START);
    let (job, receipt) = staged(&root, &history);
    // The pin is the manifest's second name: what is lost is to be a newer one.
    begin(&history, &trigger(), &uuids(130..140), START);
    seal(&history, "orders");
    // Its commit dies when the file has its name, and no manifest names it yet.
    let from = newest(&space(&root), "new");
    let bytes = std::fs::read(&from).unwrap();
    let own = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    std::fs::hard_link(&from, space(&root).join(format!("segment-{own:016x}"))).unwrap();
    drop(history);
    lose_manifest(&root);
    let report = apply(&root);
    assert!(report.is_repaired, "{report:#?}");
    let named = report.findings.iter().find(|finding| finding.path.ends_with(format!("segment-{own:016x}")));
    let named = named.unwrap_or_else(|| panic!("{report:#?}"));
    assert_eq!((named.dropped, named.remedy), (Count::AtMost(40), Remedy::Dropped));
    let history = open(&root);
    assert!(rules(&history, &trigger(), &uuids(0..40), START).iter().all(|rule| *rule == "R8"));
    assert!(rules(&history, &trigger(), &uuids(100..130), START).iter().all(|rule| *rule == "R11"));
    // The numbers that the job reserved are still its own, and it may be committed.
    begin(&history, &trigger(), &uuids(200..230), START);
    history.pin("orders").unwrap();
    history.commit(&trigger(), &job, &[receipt]).unwrap();
    assert!(rules(&history, &trigger(), &uuids(0..40), START).iter().all(|rule| *rule == "R11"));
    assert!(rules(&history, &trigger(), &uuids(200..230), START).iter().all(|rule| *rule == "R11"));
    history.verify("orders", &mut |_, _| Ok(())).unwrap();
}

#[test]
fn committed_staged_file_survives_the_loss_of_the_manifest() {
    for dies_before_tidying in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("h");
        let history = open(&root);
        let (job, receipt) = staged(&root, &history);
        let from = newest(&space(&root), "new");
        let bytes = std::fs::read(&from).unwrap();
        history.commit(&trigger(), &job, &[receipt]).unwrap();
        drop(history);
        if dies_before_tidying {
            std::fs::write(from, bytes).unwrap();
        }
        lose_manifest(&root);
        let report = apply(&root);
        assert!(report.is_repaired, "{report:#?}");
        let history = open(&root);
        assert!(rules(&history, &trigger(), &uuids(0..40), START).iter().all(|rule| *rule == "R11"), "{report:#?}");
    }
}
