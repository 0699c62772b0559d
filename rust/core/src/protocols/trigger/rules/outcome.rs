//! The decision about a document: one byte that stands for its status, action, acknowledgement,
//! rule and message.

use super::reason::{Reason, Step};
use super::trigger::InBatch;

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// It was not processed before.
    New = 0,
    /// It was processed before.
    Duplicate = 1,
    /// It is unknown.
    InDoubt = 2,
}

impl Status {
    /// Every status, in the order of its code.
    pub const ALL: [Self; 3] = [Self::New, Self::Duplicate, Self::InDoubt];

    /// The name in the output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Duplicate => "DUPLICATE",
            Self::InDoubt => "IN_DOUBT",
        }
    }
}

/// What to do with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Run the service.
    Process = 0,
    /// Drop it.
    Discard = 1,
    /// Keep it where a person can look at it.
    Log = 2,
    /// Suspend the trigger and roll back.
    Suspend = 3,
    /// Refuse it: it was delivered too often.
    Reject = 4,
}

impl Action {
    /// Every action, in the order of its code.
    pub const ALL: [Self; 5] = [Self::Process, Self::Discard, Self::Log, Self::Suspend, Self::Reject];

    /// The name in the output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "PROCESS",
            Self::Discard => "DISCARD",
            Self::Log => "LOG",
            Self::Suspend => "SUSPEND",
            Self::Reject => "REJECT",
        }
    }
}

/// When the sender may forget a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Acknowledge {
    /// When the service has ended.
    AfterService = 0,
    /// At once.
    Now = 1,
    /// Not at all: the document must come again.
    No = 2,
}

impl Acknowledge {
    /// Every case, in the order of its code.
    pub const ALL: [Self; 3] = [Self::AfterService, Self::Now, Self::No];

    /// The name in the output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterService => "AFTER_SERVICE",
            Self::Now => "NOW",
            Self::No => "NO",
        }
    }
}

/// The outcome of one row, as a code.
///
/// The codes lie in groups so that a pass over a column can tell them apart by comparing bytes:
/// first all that PROCESS, then the rest, then all that SUSPEND, last the unanswered ones (step
/// S7). They may change from one version to the next and are never stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Outcome(u8);

/// First code of each step; the reason's code is added.
const STEP_BASE: [u8; 7] = [6, 28, 35, 57, 42, 49, 64];
/// Codes below this one PROCESS.
const END_OF_PROCESS: u8 = 15;
/// Codes from this one to the unanswered ones SUSPEND.
const START_OF_SUSPEND: u8 = 56;
/// Codes from this one on are unanswered.
const START_OF_UNANSWERED: u8 = 64;

/// The outcomes that a rule gives without the resolver.
#[expect(missing_docs, reason = "the names are the ids of the rules")]
impl Outcome {
    pub const R0: Self = Self(0);
    pub const R1: Self = Self(1);
    pub const R8: Self = Self(2);
    pub const R12: Self = Self(3);
    pub const R16: Self = Self(4);
    pub const R8_BATCH_NEW: Self = Self(5);
    pub(super) const R6_S1_BATCH_NEW: Self = Self(13);
    pub(super) const R10_S1_BATCH_NEW: Self = Self(14);
    pub const R2: Self = Self(15);
    pub const R3: Self = Self(16);
    pub const R4: Self = Self(17);
    pub const R7: Self = Self(18);
    pub const R9: Self = Self(19);
    pub const R11: Self = Self(20);
    pub const R14: Self = Self(21);
    pub const R8_BATCH_DUPLICATE: Self = Self(22);
    pub const R8_BATCH_IN_DOUBT: Self = Self(23);
    pub(super) const R6_S1_BATCH_DUPLICATE: Self = Self(24);
    pub(super) const R6_S1_BATCH_IN_DOUBT: Self = Self(25);
    pub(super) const R10_S1_BATCH_DUPLICATE: Self = Self(26);
    pub(super) const R10_S1_BATCH_IN_DOUBT: Self = Self(27);
    pub const R5: Self = Self(START_OF_SUSPEND);
}

impl Outcome {
    /// How many outcomes there are; their codes are the numbers below.
    pub const COUNT: usize = START_OF_UNANSWERED as usize + Reason::ALL.len();

    /// A row that `reason` left undecided, after the resolver's answer led to `step`.
    pub const fn resolved(reason: Reason, step: Step) -> Self {
        Self(STEP_BASE[step as usize] + reason as u8)
    }

    /// A later copy of a key whose first row the history decided NEW (R8).
    pub const fn copy_of_new(policy: InBatch) -> Self {
        match policy {
            InBatch::Duplicate => Self::R8_BATCH_DUPLICATE,
            InBatch::InDoubt => Self::R8_BATCH_IN_DOUBT,
            InBatch::New => Self::R8_BATCH_NEW,
        }
    }

    /// A later copy of a key for which the resolver said NEW, as it had for an earlier row. None
    /// where `reason` is that of a row without a key, or where the resolver was asked about the
    /// copy itself.
    pub const fn copy_of_resolved(reason: Reason, policy: InBatch) -> Option<Self> {
        match (reason, policy) {
            (Reason::R6, InBatch::Duplicate) => Some(Self::R6_S1_BATCH_DUPLICATE),
            (Reason::R6, InBatch::InDoubt) => Some(Self::R6_S1_BATCH_IN_DOUBT),
            (Reason::R6, InBatch::New) => Some(Self::R6_S1_BATCH_NEW),
            (Reason::R10, InBatch::Duplicate) => Some(Self::R10_S1_BATCH_DUPLICATE),
            (Reason::R10, InBatch::InDoubt) => Some(Self::R10_S1_BATCH_IN_DOUBT),
            (Reason::R10, InBatch::New) => Some(Self::R10_S1_BATCH_NEW),
            _ => None,
        }
    }

    /// Every outcome, in the order of its code.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        (0..Self::COUNT as u8).map(Self)
    }

    /// The code.
    #[inline]
    pub const fn as_u8(self) -> u8 {
        self.0
    }

    /// Whether the service runs.
    #[inline]
    pub const fn is_process(self) -> bool {
        self.0 < END_OF_PROCESS
    }

    /// Whether the service runs and the history was asked and could hold the key: then, and only
    /// then, it is written as processing before the service begins.
    #[inline]
    pub const fn writes_processing(self) -> bool {
        matches!(self, Self::R8 | Self::R8_BATCH_NEW | Self::R10_S1_BATCH_NEW)
            || self.0 == Self::resolved(Reason::R10, Step::S1).0
            || self.0 == Self::resolved(Reason::R8Batch, Step::S1).0
    }

    /// Whether the trigger is suspended.
    #[inline]
    pub const fn is_suspend(self) -> bool {
        self.0 >= START_OF_SUSPEND && self.0 < START_OF_UNANSWERED
    }

    /// The outcome that an undecided row has until the resolver answers, and keeps if it never
    /// does: in doubt, so a lost answer can neither run a service nor drop a document.
    pub(super) const fn unanswered(reason: Reason) -> Self {
        Self::resolved(reason, Step::S7)
    }

    /// Why the row is unanswered, if it is.
    #[inline]
    pub(super) fn unanswered_reason(self) -> Option<Reason> {
        let code = self.0.checked_sub(START_OF_UNANSWERED)?;
        Reason::ALL.get(usize::from(code)).copied()
    }

    /// Whether any of the rows suspends or is unanswered: the only ones that need a second look.
    #[inline]
    pub(super) fn any_needs_look(rows: &[Self]) -> bool {
        // A maximum, unlike a search that stops early, compiles to a few vector instructions.
        rows.iter().fold(0, |highest, outcome| outcome.0.max(highest)) >= START_OF_SUSPEND
    }
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.rule(), self.status().map_or(self.action().as_str(), Status::as_str))
    }
}
