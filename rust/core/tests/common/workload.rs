//! A workload that touches every feature of a history.

use std::sync::Arc;

use dochistory_core::io::FileSystem;
use dochistory_core::{Error, OnOtherRows, OnReplay, Replays};

use super::disturbed::Handles;
use super::rig::{Op, Rig, Step};
use super::{Ids, START, trigger, uuid};

fn id(number: u64) -> String {
    if number.is_multiple_of(2) { uuid(number) } else { format!("urn:document:{number}") }
}

pub fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(id).collect()
}

pub const IDS: u64 = 56;

const BY_RULES: Replays = Replays { on_replay: OnReplay::ByRules, on_other_rows: OnOtherRows::Refuse };
const RERUN: Replays = Replays { on_replay: OnReplay::Rerun, on_other_rows: OnOtherRows::Refuse };
const LOOK_UP: Replays = Replays { on_replay: OnReplay::Rerun, on_other_rows: OnOtherRows::LookUp };

/// Two handles, all features, several days.
pub fn workload() -> Vec<Step> {
    let begin = |slot, numbers: std::ops::Range<u64>, day, batch, replays| Op::Begin {
        slot,
        ids: ids(numbers),
        day,
        batch,
        replays,
    };
    let staged = |slot, numbers: std::ops::Range<u64>, day, batch, replays| Op::BeginStaged {
        slot,
        ids: ids(numbers),
        day,
        batch,
        replays,
    };
    let part_of = |is_first: bool, slot, numbers: std::ops::Range<u64>, batch, replays| {
        let (ids, day) = (ids(numbers), 30);
        if is_first {
            Op::Stage { slot, ids, day, batch, replays }
        } else {
            Op::Commit { slot, ids, day, batch, replays }
        }
    };
    let rows = |slot, numbers: [u64; 2], completed| Op::FinishRows { slot, ids: ids(numbers), completed };
    let steps = [
        (0, begin(0, 0..6, 0, None, BY_RULES)),
        (1, begin(1, 4..10, 0, None, BY_RULES)),
        (0, rows(0, [0, 1], true)),
        (0, rows(0, [2, 3], false)),
        (1, Op::Seal),
        (0, Op::FinishClaim { slot: 0, completed: true }),
        (1, Op::FinishClaim { slot: 1, completed: false }),
        (0, begin(2, 10..14, 1, Some(1), BY_RULES)),
        (1, begin(2, 10..15, 1, Some(1), BY_RULES)),
        (0, Op::Seal),
        (1, begin(2, 10..15, 1, Some(1), LOOK_UP)),
        (1, begin(2, 10..15, 1, Some(1), RERUN)),
        (1, Op::FinishClaim { slot: 2, completed: true }),
        (0, begin(2, 10..15, 1, Some(1), BY_RULES)),
        (0, Op::Load { ids: ids(15..20), day: 2, completed: true }),
        (0, Op::Load { ids: ids(20..23), day: 2, completed: false }),
        (1, Op::FinishKeys { ids: ids(20..22), completed: false, day: 2 }),
        (0, Op::FinishKeys { ids: ids(21..25), completed: true, day: 2 }),
        (1, Op::Seal),
        (1, begin(3, 23..30, 3, Some(2), BY_RULES)),
        (0, Op::Maintain),
        (0, rows(3, [25, 26], true)),
        (1, Op::Reopen),
        (1, begin(4, 30..34, 4, None, BY_RULES)),
        (0, Op::Purge { day: 30 }),
        (0, Op::FinishClaim { slot: 4, completed: true }),
        (1, begin(5, 0..4, 30, Some(3), BY_RULES)),
        (0, staged(7, 2..8, 30, None, BY_RULES)),
        (1, Op::FinishKeys { ids: ids(6..7), completed: false, day: 30 }),
        (0, staged(8, 6..14, 30, Some(5), BY_RULES)),
        (1, Op::Seal),
        (0, rows(8, [8, 9], false)),
        (1, staged(8, 6..14, 30, Some(5), RERUN)),
        (0, Op::Maintain),
        (1, Op::FinishClaim { slot: 8, completed: true }),
        (0, staged(8, 6..14, 30, Some(5), BY_RULES)),
        (0, Op::FinishClaim { slot: 7, completed: false }),
        (1, staged(9, 0..0, 30, Some(6), BY_RULES)),
        (0, begin(9, 14..18, 30, Some(7), BY_RULES)),
        (1, staged(9, 14..19, 30, Some(7), RERUN)),
        (1, staged(9, 14..19, 30, Some(7), LOOK_UP)),
        (0, staged(9, 14..19, 30, Some(7), RERUN)),
        // Others are first with some documents of what was staged, in the log and in segments.
        (0, part_of(true, 10, 40..48, Some(8), BY_RULES)),
        (1, begin(11, 42..45, 30, None, BY_RULES)),
        (1, Op::FinishClaim { slot: 11, completed: true }),
        (0, Op::Seal),
        (1, begin(12, 46..50, 30, None, BY_RULES)),
        (0, part_of(false, 10, 40..48, Some(8), BY_RULES)),
        (1, rows(10, [40, 45], true)),
        (1, Op::FinishClaim { slot: 12, completed: false }),
        (1, part_of(true, 13, 50..55, None, BY_RULES)),
        (0, begin(14, 50..55, 30, None, BY_RULES)),
        (1, part_of(false, 13, 50..55, None, BY_RULES)),
        (0, Op::FinishClaim { slot: 10, completed: true }),
        (0, Op::Seal),
        (0, Op::Maintain),
        (1, Op::Purge { day: 31 }),
        (1, begin(6, 0..40, 31, Some(9), BY_RULES)),
        (0, Op::FinishKeys { ids: ids(34..38), completed: false, day: 31 }),
    ];
    steps.map(|(by, op)| Step { by, op }).to_vec()
}

impl Handles for Rig {
    type Step = Step;

    fn of(systems: Vec<Arc<dyn FileSystem>>) -> Self {
        Self::new("/history", systems, ids(0..IDS))
    }

    fn workload() -> Vec<Step> {
        workload()
    }

    fn by(step: &Step) -> usize {
        step.by
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        self.step(step)
    }

    fn check(&mut self, by: usize) -> Result<(), Error> {
        self.check(by)
    }

    fn restart(&mut self, by: usize, system: Arc<dyn FileSystem>) {
        self.restart(by, system);
    }

    fn verify(&mut self) -> Result<(), Error> {
        self.history(0)?.verify("orders", &mut |_, _| Ok(())).map(drop)
    }

    /// A handle that failed to write writes no more.
    fn failed(&mut self, step: &Step, error: &Error) {
        let text = error.to_string();
        // A claim may belong to the other handle.
        let writes = matches!(step.op, Op::Begin { .. } | Op::FinishKeys { .. });
        let is_of_write =
            ["cannot append to", "cannot sync", "cannot write", "cannot link"].iter().any(|what| text.contains(what));
        if writes && is_of_write && self.histories[step.by].is_some() {
            let key = Ids::new(&["urn:never"]);
            let next = self.history(step.by).unwrap().complete_keys(&trigger(), &key.documents(), START);
            assert!(matches!(next, Err(Error::Failed(_))), "{step:?}: after {error} came {next:?}");
        }
    }
}
