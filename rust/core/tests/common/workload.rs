//! A workload that touches every feature.

use dochistory_core::engine::OnReplay::{ByRules, Rerun};

use super::rig::{Op, Step};
use super::uuid;

fn id(number: u64) -> String {
    if number.is_multiple_of(2) { uuid(number) } else { format!("urn:document:{number}") }
}

pub fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(id).collect()
}

pub const IDS: u64 = 40;

/// Two handles, all features, several days.
pub fn workload() -> Vec<Step> {
    let begin = |slot, numbers: std::ops::Range<u64>, day, batch, replay| Op::Begin {
        slot,
        ids: ids(numbers),
        day,
        batch,
        replay,
    };
    let staged = |slot, numbers: std::ops::Range<u64>, day, batch, replay| Op::BeginStaged {
        slot,
        ids: ids(numbers),
        day,
        batch,
        replay,
    };
    let rows = |slot, numbers: [u64; 2], completed| Op::FinishRows { slot, ids: ids(numbers), completed };
    let steps = [
        (0, begin(0, 0..6, 0, None, ByRules)),
        (1, begin(1, 4..10, 0, None, ByRules)),
        (0, rows(0, [0, 1], true)),
        (0, rows(0, [2, 3], false)),
        (1, Op::Seal),
        (0, Op::FinishClaim { slot: 0, completed: true }),
        (1, Op::FinishClaim { slot: 1, completed: false }),
        (0, begin(2, 10..14, 1, Some(1), ByRules)),
        (0, Op::Seal),
        (1, begin(2, 10..15, 1, Some(1), Rerun)),
        (1, Op::FinishClaim { slot: 2, completed: true }),
        (0, begin(2, 10..15, 1, Some(1), ByRules)),
        (0, Op::Load { ids: ids(15..20), day: 2, completed: true }),
        (0, Op::Load { ids: ids(20..23), day: 2, completed: false }),
        (1, Op::FinishKeys { ids: ids(20..22), completed: false, day: 2 }),
        (0, Op::FinishKeys { ids: ids(21..25), completed: true, day: 2 }),
        (1, Op::Seal),
        (1, begin(3, 23..30, 3, Some(2), ByRules)),
        (0, Op::Maintain),
        (0, rows(3, [25, 26], true)),
        (1, Op::Reopen),
        (1, begin(4, 30..34, 4, None, ByRules)),
        (0, Op::Purge { day: 30 }),
        (0, Op::FinishClaim { slot: 4, completed: true }),
        (1, begin(5, 0..4, 30, Some(3), ByRules)),
        (0, staged(7, 2..8, 30, None, ByRules)),
        (1, Op::FinishKeys { ids: ids(6..7), completed: false, day: 30 }),
        (0, staged(8, 6..14, 30, Some(5), ByRules)),
        (1, Op::Seal),
        (0, rows(8, [8, 9], false)),
        (1, staged(8, 6..14, 30, Some(5), Rerun)),
        (0, Op::Maintain),
        (1, Op::FinishClaim { slot: 8, completed: true }),
        (0, staged(8, 6..14, 30, Some(5), ByRules)),
        (0, Op::FinishClaim { slot: 7, completed: false }),
        (1, staged(9, 0..0, 30, Some(6), ByRules)),
        (0, begin(9, 14..18, 30, Some(7), ByRules)),
        (1, staged(9, 14..19, 30, Some(7), Rerun)),
        (0, Op::Seal),
        (0, Op::Maintain),
        (1, Op::Purge { day: 31 }),
        (1, begin(6, 0..40, 31, Some(8), ByRules)),
        (0, Op::FinishKeys { ids: ids(34..38), completed: false, day: 31 }),
    ];
    steps.map(|(by, op)| Step { by, op }).to_vec()
}
