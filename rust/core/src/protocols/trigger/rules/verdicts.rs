//! The two tables of verdicts, by the code of the outcome: the meaning of each rule and of each
//! step of the resolver.

use super::outcome::{Acknowledge, Action, Outcome, Status};
use super::reason::{Reason, Step};

/// Everything that an outcome stands for.
#[derive(Clone, Copy)]
struct Verdict {
    rule: &'static str,
    status: Option<Status>,
    action: Action,
    acknowledge: Acknowledge,
    message: Option<&'static str>,
}

static VERDICTS: [Verdict; Outcome::COUNT] = verdicts();

/// What an outcome stands for.
impl Outcome {
    /// What the document is; none when its trigger is suspended or it is rejected.
    #[inline]
    pub fn status(self) -> Option<Status> {
        self.verdict().status
    }

    /// What to do with it.
    #[inline]
    pub fn action(self) -> Action {
        self.verdict().action
    }

    /// When to acknowledge it.
    #[inline]
    pub fn acknowledge(self) -> Acknowledge {
        self.verdict().acknowledge
    }

    /// The rules that led here, such as `R9`, `R10>S1` or `R8+batch`.
    #[inline]
    pub fn rule(self) -> &'static str {
        self.verdict().rule
    }

    /// One sentence for the journal; none for a NEW document.
    #[inline]
    pub fn message(self) -> Option<&'static str> {
        self.verdict().message
    }

    fn verdict(self) -> &'static Verdict {
        &VERDICTS[usize::from(self.as_u8())]
    }
}

const fn new(rule: &'static str) -> Verdict {
    Verdict {
        rule,
        status: Some(Status::New),
        action: Action::Process,
        acknowledge: Acknowledge::AfterService,
        message: None,
    }
}

const fn duplicate(rule: &'static str, message: &'static str) -> Verdict {
    Verdict {
        rule,
        status: Some(Status::Duplicate),
        action: Action::Discard,
        acknowledge: Acknowledge::Now,
        message: Some(message),
    }
}

const fn in_doubt(rule: &'static str, message: &'static str) -> Verdict {
    Verdict {
        rule,
        status: Some(Status::InDoubt),
        action: Action::Log,
        acknowledge: Acknowledge::Now,
        message: Some(message),
    }
}

const fn suspend(rule: &'static str, message: &'static str) -> Verdict {
    Verdict { rule, status: None, action: Action::Suspend, acknowledge: Acknowledge::No, message: Some(message) }
}

const fn reject(rule: &'static str, message: &'static str) -> Verdict {
    Verdict { rule, status: None, action: Action::Reject, acknowledge: Acknowledge::Now, message: Some(message) }
}

/// The steps S1 to S7 after one rule that asks the resolver.
macro_rules! after_resolver {
    ($table:ident, $reason:ident, $rule:literal, $why:literal) => {
        put(&mut $table, Step::S1, Reason::$reason, new(concat!($rule, ">S1")));
        let says_duplicate = concat!($why, "; the resolver says that it is a duplicate.");
        put(&mut $table, Step::S2, Reason::$reason, duplicate(concat!($rule, ">S2"), says_duplicate));
        let says_in_doubt = concat!($why, "; the resolver says that it is in doubt.");
        put(&mut $table, Step::S3, Reason::$reason, in_doubt(concat!($rule, ">S3"), says_in_doubt));
        // A suspension passes its verdict on to all later rows, so its message must not speak of
        // this row's reason.
        let suspends = "The trigger is suspended because its resolver failed transiently; \
                        the document is rolled back and not acknowledged.";
        put(&mut $table, Step::S4, Reason::$reason, suspend(concat!($rule, ">S4"), suspends));
        let transient = concat!($why, "; the resolver failed transiently and the trigger does not suspend.");
        put(&mut $table, Step::S5, Reason::$reason, in_doubt(concat!($rule, ">S5"), transient));
        let failed = concat!($why, "; the resolver failed.");
        put(&mut $table, Step::S6, Reason::$reason, in_doubt(concat!($rule, ">S6"), failed));
        let unknown = concat!($why, "; the resolver gave no status that is known.");
        put(&mut $table, Step::S7, Reason::$reason, in_doubt(concat!($rule, ">S7"), unknown));
    };
}

/// Later copies of a key for which the resolver said NEW more than once.
macro_rules! after_resolver_in_batch {
    ($table:ident, $rule:literal, $duplicate:ident, $in_doubt:ident, $new:ident) => {
        set(
            &mut $table,
            Outcome::$duplicate,
            duplicate(
                concat!($rule, ">S1+batch"),
                "The resolver says that the key is new, but an earlier row of the batch has it and counts as processed.",
            ),
        );
        set(
            &mut $table,
            Outcome::$in_doubt,
            in_doubt(
                concat!($rule, ">S1+batch"),
                "The resolver says that the key is new, but an earlier row of the batch has it; such copies stay in doubt.",
            ),
        );
        set(&mut $table, Outcome::$new, new(concat!($rule, ">S1+batch")));
    };
}

const fn set(table: &mut [Verdict; Outcome::COUNT], outcome: Outcome, verdict: Verdict) {
    table[outcome.as_u8() as usize] = verdict;
}

const fn put(table: &mut [Verdict; Outcome::COUNT], step: Step, reason: Reason, verdict: Verdict) {
    set(table, Outcome::resolved(reason, step), verdict);
}

const fn verdicts() -> [Verdict; Outcome::COUNT] {
    let mut table = [new(""); Outcome::COUNT];
    direct(&mut table);
    batch(&mut table);
    after_resolver!(table, R3, "R3", "The document has no key");
    after_resolver!(table, R4, "R4", "The document's key is longer than 96 characters");
    after_resolver!(table, R6, "R6", "The document history is unavailable");
    after_resolver!(table, R8Batch, "R8+batch", "An earlier row of the batch has the same key");
    after_resolver!(table, R10, "R10", "The service began with this key and has not ended");
    after_resolver!(table, R13, "R13", "The document was delivered before");
    after_resolver!(table, R15, "R15", "Nobody knows whether the document was delivered before");
    after_resolver_in_batch!(table, "R6", R6_S1_BATCH_DUPLICATE, R6_S1_BATCH_IN_DOUBT, R6_S1_BATCH_NEW);
    after_resolver_in_batch!(table, "R10", R10_S1_BATCH_DUPLICATE, R10_S1_BATCH_IN_DOUBT, R10_S1_BATCH_NEW);
    table
}

/// The rules that decide without the resolver.
const fn direct(table: &mut [Verdict; Outcome::COUNT]) {
    set(table, Outcome::R0, new("R0"));
    set(table, Outcome::R1, new("R1"));
    set(table, Outcome::R2, reject("R2", "The message was delivered as often as the trigger allows, or oftener."));
    set(table, Outcome::R3, in_doubt("R3", "The document has no key, and the trigger has no resolver."));
    set(
        table,
        Outcome::R4,
        in_doubt("R4", "The document's key is longer than 96 characters, and the trigger has no resolver."),
    );
    let unavailable = "The trigger is suspended because its document history is unavailable; \
                       the document is rolled back and not acknowledged.";
    set(table, Outcome::R5, suspend("R5", unavailable));
    set(
        table,
        Outcome::R7,
        in_doubt("R7", "The document history is unavailable; the trigger neither suspends nor has a resolver."),
    );
    set(table, Outcome::R8, new("R8"));
    set(table, Outcome::R9, duplicate("R9", "The service ended with this key before."));
    set(
        table,
        Outcome::R11,
        in_doubt("R11", "The service began with this key and has not ended; the trigger has no resolver."),
    );
    set(table, Outcome::R12, new("R12"));
    set(table, Outcome::R14, in_doubt("R14", "The document was delivered before, and the trigger has no resolver."));
    set(table, Outcome::R16, new("R16"));
}

/// Later copies of a key that is new to the history.
const fn batch(table: &mut [Verdict; Outcome::COUNT]) {
    set(
        table,
        Outcome::R8_BATCH_DUPLICATE,
        duplicate("R8+batch", "An earlier row of the batch has the same key and counts as processed."),
    );
    set(
        table,
        Outcome::R8_BATCH_IN_DOUBT,
        in_doubt("R8+batch", "An earlier row of the batch has the same key; such copies stay in doubt."),
    );
    set(table, Outcome::R8_BATCH_NEW, new("R8+batch"));
}
