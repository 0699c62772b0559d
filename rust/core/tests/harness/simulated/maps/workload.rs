//! A workload that touches every feature of a map of values.

use super::super::super::uuid;
use super::super::Step;
use super::{Op, Put};

pub const IDS: u64 = 36;

fn id(number: u64) -> String {
    match number % 3 {
        0 => uuid(number),
        1 => format!("urn:message:{number}"),
        _ => format!("{}{number}", "long ".repeat(40)),
    }
}

pub fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(id).collect()
}

/// Two handles, all features, several weeks.
pub fn workload() -> Vec<Step<Op>> {
    let puts = |numbers: std::ops::Range<u64>, value: u8, until, pending| {
        let put = |number| Put { id: id(number), value: Some(vec![value; 20]), until, pending };
        numbers.map(put).collect::<Vec<_>>()
    };
    let removes = |numbers: std::ops::Range<u64>| numbers.map(id).collect::<Vec<_>>();
    let change = |puts, removes, batch| Op::Change { puts, removes, batch };
    let steps = [
        (0, change(puts(0..6, 1, Some(5), false), vec![], None)),
        (1, change(puts(4..10, 2, Some(20), true), removes(0..1), None)),
        (0, Op::Seal),
        (1, change(puts(2..5, 3, None, false), removes(5..7), None)),
        (0, change(puts(10..14, 4, Some(30), true), vec![], Some(1))),
        (1, Op::Seal),
        (1, Op::End { removes: removes(10..11) }),
        (0, Op::Take { puts: puts(8..20, 5, Some(60), false) }),
        (0, Op::Seal),
        (1, Op::Maintain { all: false }),
        (1, Op::Purge { day: 10, pending: false }),
        // Large: goes into files at once.
        (0, change(puts(0..30, 6, Some(90), false), vec![], Some(2))),
        (1, change(vec![], removes(20..25), None)),
        (0, Op::Fail { puts: puts(0..36, 7, None, false) }),
        (1, Op::Seal),
        (0, Op::Maintain { all: true }),
        (1, Op::Reopen),
        (1, change(puts(30..36, 8, Some(40), true), vec![], None)),
        (0, Op::Purge { day: 50, pending: true }),
        (1, Op::Take { puts: puts(0..36, 9, Some(100), false) }),
        (0, Op::End { removes: vec![] }),
        (0, Op::Purge { day: 95, pending: false }),
    ];
    steps.map(|(by, op)| Step { by, op }).to_vec()
}
