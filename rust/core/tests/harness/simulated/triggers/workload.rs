//! A workload that touches every feature of a history.

use std::ops::Range;

use dochistory_core::{OnOtherRows, OnReplay, Replays};

use super::super::super::uuid;
use super::super::Step;
use super::{Batch, Op};

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
pub fn workload() -> Vec<Step<Op>> {
    let batch =
        |slot, numbers: Range<u64>, day, number, replays| Batch { slot, ids: ids(numbers), day, number, replays };
    let begin = |slot, numbers, day, number, replays| Op::Begin(batch(slot, numbers, day, number, replays));
    let staged = |slot, numbers, day, number, replays| Op::BeginStaged(batch(slot, numbers, day, number, replays));
    let stage = |slot, numbers, number| Op::Stage(batch(slot, numbers, 30, number, BY_RULES));
    let commit = |slot, numbers, number| Op::Commit(batch(slot, numbers, 30, number, BY_RULES));
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
        (0, stage(10, 40..48, Some(8))),
        (1, begin(11, 42..45, 30, None, BY_RULES)),
        (1, Op::FinishClaim { slot: 11, completed: true }),
        (0, Op::Seal),
        (1, begin(12, 46..50, 30, None, BY_RULES)),
        (0, commit(10, 40..48, Some(8))),
        (1, rows(10, [40, 45], true)),
        (1, Op::FinishClaim { slot: 12, completed: false }),
        (1, stage(13, 50..55, None)),
        (0, begin(14, 50..55, 30, None, BY_RULES)),
        (1, commit(13, 50..55, None)),
        (0, Op::FinishClaim { slot: 10, completed: true }),
        (0, Op::Seal),
        (0, Op::Maintain),
        (1, Op::Purge { day: 31 }),
        (1, begin(6, 0..40, 31, Some(9), BY_RULES)),
        (0, Op::FinishKeys { ids: ids(34..38), completed: false, day: 31 }),
    ];
    steps.map(|(by, op)| Step { by, op }).to_vec()
}
