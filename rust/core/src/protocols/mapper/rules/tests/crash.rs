//! The eight steps of sending out, with a crash after each of them and then the same message again.
use super::*;

#[derive(Default)]
struct World {
    pending: bool,
    mapped: bool,
    sent: u32,
    acknowledged: bool,
}

impl World {
    fn change(&mut self, change: Change) {
        match change {
            Change::WritePending | Change::TakePending => self.pending = true,
            Change::RemovePending => self.pending = false,
            Change::WriteMappingRemovePending => (self.mapped, self.pending) = (true, false),
            Change::None => {}
            Change::MapInUnit | Change::RollBack => panic!("not of this direction"),
        }
    }

    /// One arrival, which a crash may end after some of the steps that change something.
    fn arrive(&mut self, policy: Policy, steps: u32) -> Rule {
        let rule = Rows::new(&[("a", Qos::ExactlyOnce, 0)]).receive(self.pending, self.mapped, policy, None)[0];
        let outcome = rule.outcome();
        if steps > 0 {
            self.change(outcome.change); // Step 3.
        }
        if steps > 1 && outcome.action == Action::Process {
            self.sent += 1; // Steps 4 and 5.
        }
        if steps > 2 && outcome.on_success == Change::WriteMappingRemovePending {
            self.mapped = true; // Step 6.
        }
        if steps > 3 {
            self.change(outcome.on_success); // Step 7.
        }
        if steps > 4 && outcome.action != Action::Raise {
            self.acknowledged = true; // Step 8.
        }
        rule
    }
}

const ALL_STEPS: u32 = 5;

#[test]
fn crash_after_each_step_leads_to_the_promised_rule() {
    for (steps, next, sent) in [
        (0, Rule::M1, 1),
        (1, Rule::M3, 0),
        (2, Rule::M3, 1),
        (3, Rule::M2LeftOver, 1),
        (4, Rule::M2, 1),
        (5, Rule::M2, 1),
    ] {
        let mut world = World::default();
        assert_eq!(world.arrive(Policy::Error, steps), Rule::M1);
        assert_eq!(world.arrive(Policy::Error, ALL_STEPS), next, "after {steps} steps");
        assert_eq!(world.sent, sent, "never sent twice");
        assert_eq!(world.acknowledged, next != Rule::M3, "a message in doubt stays unacknowledged");
    }
}

#[test]
fn correct_administrator_gets_it_sent_exactly_once() {
    for steps in [1, 2] {
        let mut world = World::default();
        world.arrive(Policy::Error, steps);
        let answer = if world.sent == 0 { Policy::Process } else { Policy::Duplicate };
        for _ in 0..3 {
            world.arrive(answer, ALL_STEPS);
        }
        assert_eq!((world.sent, world.pending, world.mapped, world.acknowledged), (1, false, true, true));
    }
}
