//! A workload of two processes, played with one operation that fails.

use dochistory_core::testing::simulated::{Fault, Simulated};

use super::{Harness, Subject};

/// Play the workload with one operation that fails; answers how many operations each process did.
pub fn disturb<S: Subject>(victim: usize, at: u64, fault: Fault) -> [u64; 2] {
    let machine = Simulated::new(at);
    let processes = [machine.process(), machine.process()];
    processes[victim].fail_at(at, fault);
    let mut harness = Harness::<S>::new(&processes);
    for step in &S::workload() {
        let mut tries = 0;
        while let Err(error) = harness.step(step) {
            assert!(processes[victim].has_failed(), "nothing failed, but {error}");
            tries += 1;
            assert!(tries < 6, "trying again does not help: {error}");
            S::check_failed(&mut harness, step, &error);
            // A sync that failed for one is told to the others too, once: each handle has to be
            // reopened at most once.
            for by in [step.by, 1 - step.by] {
                let mut reopened = 0;
                harness.restart(by, &processes[by]);
                while let Err(error) = harness.check(by) {
                    reopened += 1;
                    assert!(reopened < 3, "reopening does not help: {error}");
                    harness.restart(by, &processes[by]);
                }
            }
        }
    }
    let operations = [0, 1].map(|process: usize| processes[process].operations());
    machine.lose_power(at);
    harness.restart(0, &machine.process());
    harness.check(0).unwrap();
    harness.verify().unwrap();
    operations
}

/// Without `DOCHISTORY_FAULTS=all`, which the campaign sets, one operation of this many fails; each
/// kind of fault begins at another one.
const EVERY: usize = 5;

/// Let operations of the workload fail, each once in one way, which may follow from the operation's
/// number.
pub fn disturb_everywhere<S: Subject>(what: &str, fault: impl Fn(u64) -> Fault + std::panic::RefUnwindSafe) {
    let operations = disturb::<S>(0, u64::MAX, Fault::Broken);
    let is_all = std::env::var("DOCHISTORY_FAULTS").is_ok_and(|wanted| wanted == "all");
    let (every, first) = if is_all { (1, 1) } else { (EVERY, 1 + what.len() as u64 % EVERY as u64) };
    let (mut failed, mut tried) = (Vec::new(), 0);
    for (victim, count) in operations.into_iter().enumerate() {
        for at in (first..=count).step_by(every) {
            tried += 1;
            if std::panic::catch_unwind(|| disturb::<S>(victim, at, fault(at))).is_err() {
                eprintln!("failed: process {victim}, operation {at}, {:?}", fault(at));
                failed.push((victim, at));
            }
        }
    }
    eprintln!("figure: {what} = {tried}");
    assert!(tried > 0 && failed.is_empty(), "of {operations:?} operations {failed:?} failed");
}

/// A bit of a file that is read wrongly.
pub fn flip(at: u64) -> Fault {
    Fault::Flip(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)
}
