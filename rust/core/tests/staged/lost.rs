//! Documents that others begin between the staging of a job and its commit.

use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::rules::{Answer, Expiry, Trigger};
use dochistory_core::protocols::trigger::{Ask, Attempt, Call, Reply, Resolver};
use dochistory_core::{Error, Result};

use crate::harness::{DAY, Ids, START, begin, fresh, open, rules, trigger, uuids};
use crate::{plan, reserve, stage};

/// Who did what between the reservation and the commit, and whether the job may still commit.
fn conflicts(between: impl FnOnce(&History)) -> bool {
    let (directory, history) = fresh();
    begin(&history, &trigger(), &["known"], START - DAY);
    let job = reserve(&history, plan(2));
    let receipts = [
        stage(directory.path(), &job, 0, "a0", &[uuids(0..300), vec!["urn:x".into()]].concat()),
        stage(directory.path(), &job, 1, "a0", &uuids(300..600)),
    ];
    between(&history);
    let before = rules(&history, &trigger(), &uuids(0..600), START);
    match history.commit(&trigger(), &job, &receipts) {
        Ok(_) => false,
        Err(Error::Conflict(_)) => {
            assert_eq!(rules(&history, &trigger(), &uuids(0..600), START), before, "half of it was begun");
            history.give_up(&job).unwrap();
            true
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn document_begun_by_others_meanwhile_is_a_conflict() {
    let seal = |history: &History| drop(history.pin("orders").unwrap());
    assert!(!conflicts(|_| ()));
    assert!(!conflicts(|history| drop(begin(history, &trigger(), &uuids(1000..1010), START))));
    assert!(!conflicts(|history| drop(begin(history, &trigger(), &uuids(1000..4000), START))));
    assert!(conflicts(|history| drop(begin(history, &trigger(), &uuids(599..610), START))));
    assert!(conflicts(|history| drop(begin(history, &trigger(), &["urn:x"], START))));
    assert!(conflicts(|history| {
        begin(history, &trigger(), &["urn:x"], START);
        seal(history);
    }));
    assert!(conflicts(|history| drop(begin(history, &trigger(), &uuids(500..4000), START))));
    assert!(conflicts(|history| {
        history.complete_keys(&trigger(), &Ids::new(&["urn:x"]).documents(), START).unwrap();
        seal(history);
        history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    }));
    // What others began and took back again is new as before.
    assert!(!conflicts(|history| begin(history, &trigger(), &["urn:x"], START).claim.unwrap().release(None).unwrap()));
    assert!(!conflicts(|history| {
        seal(history);
        history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    }));
}

#[test]
fn same_job_decided_again_gets_what_is_left() {
    let (directory, history) = fresh();
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
    begin(&history, &trigger(), &["a"], START).claim.unwrap().complete(None).unwrap();
    assert!(matches!(history.commit(&trigger(), &job, &[receipt]), Err(Error::Conflict(_))));
    history.give_up(&job).unwrap();

    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
    assert_eq!(
        receipt.counts().iter().map(|count| (&count.rule[..], count.rows)).collect::<Vec<_>>(),
        [("R8", 1), ("R9", 1)]
    );
    assert_eq!(history.commit(&trigger(), &job, &[receipt]).unwrap().len(), 1);
}

/// What is left out of a claim on these ids when `between` comes first, and what the lost are
/// decided to be.
fn left_out(
    ids: &[&str],
    between: impl FnOnce(&History),
    before_decision: impl FnOnce(&History),
) -> (Vec<String>, Vec<&'static str>, u64) {
    let (directory, history) = fresh();
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", ids);
    between(&history);
    let claim = history.commit_rest(&trigger(), &job, &[receipt], u64::MAX).unwrap();
    let mut lost = claim.lost().to_vec();
    lost.sort();
    before_decision(&history);
    let again = claim.decide_lost(&trigger(), &Ids::new(&lost).documents(), &mut Call::at(0)).unwrap();
    let rules = again.outcomes.iter().map(|outcome| outcome.rule()).collect();
    let expected =
        ids.len() as u64 - lost.len() as u64 + again.outcomes.iter().filter(|one| one.rule() == "R8").count() as u64;
    assert_eq!((claim.len(), claim.number().is_some()), (expected, expected > 0));
    claim.complete(None).unwrap();
    (lost, rules, claim.len())
}

#[test]
fn a_claim_leaves_out_what_others_were_first_with() {
    let ended = |history: &History| begin(history, &trigger(), &["b"], START).claim.unwrap().complete(None).unwrap();
    let begun = |history: &History| drop(begin(history, &trigger(), &["b", "d", "z"], START));
    let nothing = |_: &History| ();
    let of = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(left_out(&["a", "b", "c", "d"], ended, nothing), (of(&["b"]), vec!["R9"], 3));
    assert_eq!(left_out(&["a", "b", "c", "d"], begun, nothing), (of(&["b", "d"]), vec!["R11", "R11"], 2));
    assert_eq!(left_out(&["a", "b"], nothing, nothing), (vec![], vec![], 2));
    assert_eq!(left_out(&["b", "d"], begun, nothing), (of(&["b", "d"]), vec!["R11", "R11"], 0));
}

#[test]
fn lost_document_released_since_begins_under_the_claim() {
    let release = |history: &History| {
        assert_eq!(history.release_keys(&trigger(), &Ids::new(&["b"]).documents(), START).unwrap().changed, 1);
    };
    let begun = |history: &History| drop(begin(history, &trigger(), &["b", "d"], START));
    let (lost, rules, count) = left_out(&["a", "b", "c", "d"], begun, release);
    assert_eq!((lost, rules, count), (vec!["b".into(), "d".into()], vec!["R8", "R11"], 3));
    assert_eq!(left_out(&["b"], begun, release), (vec!["b".into()], vec!["R8"], 1));
}

#[test]
fn what_a_claim_leaves_out_is_not_its_to_end() {
    let (directory, history) = fresh();
    let ids = [uuids(0..100), vec!["urn:a".into(), "urn:b".into()]].concat();
    let job = reserve(&history, plan(2));
    let receipts =
        [stage(directory.path(), &job, 0, "a0", &ids[..60]), stage(directory.path(), &job, 1, "a0", &ids[60..])];
    let others = begin(&history, &trigger(), &[uuids(50..55), vec!["urn:b".into()]].concat(), START).claim.unwrap();
    assert!(matches!(history.commit_rest(&trigger(), &job, &receipts, 5), Err(Error::Conflict(_))));
    let claim = history.commit_rest(&trigger(), &job, &receipts, 6).unwrap();
    assert_eq!((claim.len(), claim.lost().len()), (96, 6));
    for stranger in [uuids(50..51), vec!["urn:b".into()]] {
        assert!(matches!(claim.complete(Some(&Ids::new(&stranger).documents())), Err(Error::State(_))));
    }
    claim.complete(None).unwrap();
    let lost = |number: usize| (50..55).contains(&number) || number == 101;
    let found = |history: &History| rules(history, &trigger(), &ids, START);
    let is = |rule: &'static str| (0..102).map(|number| if lost(number) { rule } else { "R9" }).collect::<Vec<_>>();
    assert_eq!(found(&history), is("R11"));
    others.release(None).unwrap();
    assert_eq!(found(&open(directory.path())), is("R8"));
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(found(&open(directory.path())), is("R8"));
    let late = claim.decide_lost(&trigger(), &Ids::new(&["urn:b"]).documents(), &mut Call::at(0));
    assert!(matches!(late, Err(Error::State(_))), "a claim that has ended takes no more");
}

/// A resolver that knows one answer.
pub(crate) struct Says(pub(crate) Answer, pub(crate) usize);

impl Resolver for Says {
    fn resolve(&mut self, ask: Ask<'_>) -> Result<Reply> {
        self.1 += ask.rows.len();
        Ok(Reply { answers: vec![self.0; ask.rows.len()], messages: Vec::new() })
    }
}

#[test]
fn lost_documents_are_the_resolvers_to_settle() {
    for (answer, rule, count) in [(Answer::New, "R10>S1", 2), (Answer::Duplicate, "R10>S2", 1)] {
        let (directory, history) = fresh();
        let job = reserve(&history, plan(1));
        let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
        begin(&history, &trigger(), &["b"], START);
        let claim = history.commit_rest(&trigger(), &job, &[receipt], 1).unwrap();
        let (ids, mut resolver) = (Ids::new(&["b", "b"]), Says(answer, 0));
        let mut call = Call { resolver: Some(&mut resolver), ..Call::at(0) };
        let asking = Trigger { complete_resolved: true, ..trigger() };
        let again = claim.decide_lost(&asking, &ids.documents(), &mut call).unwrap();
        assert_eq!(again.outcomes[0].rule(), rule);
        assert_eq!(again.outcomes.iter().filter(|one| one.writes_processing()).count() as u64, count - 1);
        assert_eq!((claim.len(), resolver.1), (count, 2));
        claim.complete(None).unwrap();
        let reopened = rules(&open(directory.path()), &trigger(), &["a", "b"], START);
        assert_eq!(reopened, ["R9", "R9"], "what the resolver calls a duplicate is completed, too");
    }
}

#[test]
fn a_row_that_a_resolver_let_run_is_lost_if_others_ran_it_too() {
    let staged = |between: &dyn Fn(&History)| {
        let (directory, history) = fresh();
        begin(&history, &trigger(), &["b"], START);
        let job = reserve(&history, plan(1));
        let snapshot = History::snapshot_of_job(&job);
        let tasks = History::open(directory.path(), &OpenOptions { snapshot, ..OpenOptions::default() }).unwrap();
        let (ids, mut resolver) = (Ids::new(&["a", "b"]), Says(Answer::New, 0));
        let mut call = Call { resolver: Some(&mut resolver), ..Call::at(0) };
        let attempt = Attempt { part: 0, name: "a0" };
        let receipt = tasks.stage(&trigger(), &job, attempt, &ids.documents(), &mut call).unwrap().receipt;
        between(&history);
        history.commit_rest(&trigger(), &job, &[receipt], 9).unwrap().lost().to_vec()
    };
    let b = Ids::new(&["b"]);
    let release = |history: &History| history.release_keys(&trigger(), &b.documents(), START).unwrap();
    assert!(staged(&|_| ()).is_empty());
    assert!(staged(&|history| assert_eq!(release(history).changed, 1)).is_empty());
    let complete = |history: &History| history.complete_keys(&trigger(), &b.documents(), START).unwrap();
    assert_eq!(staged(&|history| assert_eq!(complete(history).changed, 1)), ["b"]);
    let again = |history: &History| {
        release(history);
        begin(history, &trigger(), &["b"], START);
    };
    assert_eq!(staged(&again), ["b"]);
}

#[test]
fn what_had_expired_and_was_ended_again_is_lost() {
    let (directory, history) = fresh();
    let mut trigger = trigger();
    trigger.expiry = Expiry::Exact;
    begin(&history, &trigger, &["a"], START - 40 * DAY).claim.unwrap().complete(None).unwrap();
    let job = history.reserve(&trigger, plan(1)).unwrap().0;
    let snapshot = History::snapshot_of_job(&job);
    let tasks = History::open(directory.path(), &OpenOptions { snapshot, ..OpenOptions::default() }).unwrap();
    let (ids, attempt) = (Ids::new(&["a", "b"]), Attempt { part: 0, name: "a0" });
    let staged = tasks.stage(&trigger, &job, attempt, &ids.documents(), &mut Call::at(0)).unwrap();
    assert!(staged.verdicts.outcomes.iter().all(|one| one.rule() == "R8"));
    begin(&history, &trigger, &["a"], START).claim.unwrap().complete(None).unwrap();
    let claim = history.commit_rest(&trigger, &job, &[staged.receipt], 9).unwrap();
    assert_eq!(claim.lost(), ["a"]);
}
