//! The rules once more, each row by looking back over all rows before it; and both compared on
//! random batches.
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Fact {
    id: Option<u8>,
    qos: Qos,
    queue: u32,
    pending: bool,
    mapped: bool,
    policy: Policy,
    attempt: Attempt,
}

fn any_fact() -> impl Strategy<Value = Fact> {
    let qos = prop_oneof![1 => Just(Qos::BestEffort), 2 => Just(Qos::ExactlyOnce), 4 => Just(Qos::InOrder)];
    let policy = prop_oneof![Just(Policy::Error), Just(Policy::Process), Just(Policy::Duplicate)];
    let attempt = prop_oneof![
        6 => Just(Attempt::Open), 1 => Just(Attempt::Done), 1 => Just(Attempt::Failed), 1 => Just(Attempt::Unknown)
    ];
    let flag = || prop::bool::weighted(0.2);
    (prop::option::weighted(0.95, 0..12_u8), qos, 0..4_u32, flag(), flag(), policy, attempt).prop_map(
        |(id, qos, queue, pending, mapped, policy, attempt)| Fact { id, qos, queue, pending, mapped, policy, attempt },
    )
}

/// Status, action and change of row `at`, from the outcomes of the rows before it.
type Word = (Status, Action, Change);

/// One direction's rules: of row `at`, from the words of the rows before it, and those before
/// anything was tried.
type Naive = fn(&[Fact], &[Word], &[Word], usize) -> Word;

fn stopped(rows: &[Fact], words: &[Word], at: usize) -> bool {
    rows[at].qos == Qos::InOrder
        && (0..at).any(|row| {
            rows[row].qos == Qos::InOrder
                && rows[row].queue == rows[at].queue
                && matches!(words[row].1, Action::Raise | Action::Hold)
        })
}

/// This row was to go first, and was tried: nothing before it undoes that.
fn was_tried(rows: &[Fact], first: &[Word], at: usize) -> bool {
    rows[at].attempt != Attempt::Open && first.get(at).is_some_and(|word| word.1 == Action::Process)
}

/// An earlier copy is, or may be, on its way.
fn on_its_way(rows: &[Fact], words: &[Word], first: &[Word], at: usize) -> bool {
    (0..at).any(|row| {
        let may_be = rows[row].attempt == Attempt::Unknown && was_tried(rows, first, row);
        let begun = words[row].1 == Action::Process || may_be;
        rows[row].id == rows[at].id && rows[row].qos != Qos::BestEffort && begun
    })
}

/// An earlier copy waits.
fn one_waits(rows: &[Fact], words: &[Word], at: usize) -> bool {
    (0..at).any(|row| rows[row].id == rows[at].id && rows[row].qos != Qos::BestEffort && words[row].1 == Action::Hold)
}

/// An earlier copy was to go first, before anything was tried.
fn came_second(rows: &[Fact], first: &[Word], at: usize) -> bool {
    let is_first = |row: usize| first.get(row).is_some_and(|word| word.1 == Action::Process);
    (0..at).any(|row| rows[row].id == rows[at].id && rows[row].qos != Qos::BestEffort && is_first(row))
}

const HELD: Word = (Status::Undecided, Action::Hold, Change::None);

fn going_out(rows: &[Fact], words: &[Word], first: &[Word], at: usize) -> Word {
    let fact = &rows[at];
    if was_tried(rows, first, at) {
        return match (fact.attempt, fact.qos) {
            (Attempt::Open | Attempt::Done, _) => first[at],
            (_, Qos::BestEffort) => (Status::Failed, Action::Raise, Change::None),
            (Attempt::Failed, _) => (Status::Failed, Action::Raise, Change::RemovePending),
            (Attempt::Unknown, _) => (Status::InDoubt, Action::Raise, Change::None),
        };
    }
    if stopped(rows, words, at) {
        return HELD;
    }
    if fact.qos == Qos::BestEffort {
        return (Status::NewUnchecked, Action::Process, Change::None);
    }
    if fact.id.is_none() || on_its_way(rows, words, first, at) {
        return (Status::InDoubt, Action::Raise, Change::None);
    }
    if fact.mapped {
        return (Status::Duplicate, Action::Skip, if fact.pending { Change::RemovePending } else { Change::None });
    }
    if fact.pending && fact.policy == Policy::Error {
        return (Status::InDoubt, Action::Raise, Change::None);
    }
    if fact.pending && fact.policy == Policy::Duplicate {
        return (Status::Duplicate, Action::Skip, Change::WriteMappingRemovePending);
    }
    if came_second(rows, first, at) || one_waits(rows, words, at) {
        return HELD;
    }
    (Status::New, Action::Process, if fact.pending { Change::TakePending } else { Change::WritePending })
}

fn coming_in(rows: &[Fact], words: &[Word], first: &[Word], at: usize) -> Word {
    let fact = &rows[at];
    if was_tried(rows, first, at) {
        return match (fact.attempt, fact.qos) {
            (Attempt::Open | Attempt::Done, _) => first[at],
            (_, Qos::BestEffort) => (Status::Failed, Action::Raise, Change::None),
            _ => (Status::Failed, Action::Raise, Change::RollBack),
        };
    }
    if stopped(rows, words, at) {
        return HELD;
    }
    let earlier = (0..at)
        .any(|row| rows[row].id == fact.id && rows[row].qos != Qos::BestEffort && words[row].1 == Action::Process);
    match (fact.qos, fact.id) {
        (Qos::BestEffort, _) => (Status::NewUnchecked, Action::Process, Change::None),
        (_, None) => (Status::InDoubt, Action::Raise, Change::None),
        _ if fact.mapped || earlier => (Status::Duplicate, Action::Skip, Change::None),
        _ if came_second(rows, first, at) || one_waits(rows, words, at) => HELD,
        _ => (Status::New, Action::Process, Change::None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_columnar_rules_say_what_the_naive_ones_say(mut rows in prop::collection::vec(any_fact(), 0..40)) {
        // The map says the same of every copy of an id.
        for at in 0..rows.len() {
            if let Some(first) = rows[..at].iter().position(|row| row.id == rows[at].id) {
                (rows[at].pending, rows[at].mapped) = (rows[first].pending, rows[first].mapped);
                rows[at].policy = rows[first].policy;
            }
        }
        let names: Vec<String> = rows.iter().map(|row| row.id.map_or(String::new(), |id| id.to_string())).collect();
        let batch = Rows::new(&rows.iter().zip(&names).map(|(row, name)| (&**name, row.qos, row.queue)).collect::<Vec<_>>());
        let attempts: Vec<Attempt> = rows.iter().map(|row| row.attempt).collect();
        let pending: Vec<bool> = rows.iter().map(|row| row.pending).collect();
        let mapped: Vec<bool> = rows.iter().map(|row| row.mapped).collect();
        let policies: Vec<Policy> = rows.iter().map(|row| row.policy).collect();
        let out = decide_receiver(&ReceiverFacts {
            batch: batch.batch(Some(&attempts)), pending: &pending, mapped: &mapped, policies: Policies::Rows(&policies),
        }).unwrap();
        let into = decide_sender(&SenderFacts { batch: batch.batch(Some(&attempts)), mapped: &mapped }).unwrap();
        let untried: Vec<Fact> = rows.iter().map(|row| Fact { attempt: Attempt::Open, ..row.clone() }).collect();
        for (rules, naive) in [(out, going_out as Naive), (into, coming_in)] {
            let mut first = Vec::new();
            for at in 0..rows.len() {
                first.push(naive(&untried, &first, &[], at));
            }
            let mut words = Vec::new();
            for at in 0..rows.len() {
                words.push(naive(&rows, &words, &first, at));
                let found = rules[at].outcome();
                prop_assert_eq!((found.status, found.action, found.change), words[at], "row {} of {:?}", at, rows);
            }
        }
    }
}
