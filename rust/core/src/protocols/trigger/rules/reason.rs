//! Why a row is undecided, and by which step the resolver's answer decides it.

/// The rule that leaves a row to the resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The history is used and the document has no key.
    R3 = 0,
    /// The history is used and the key is too long for it.
    R4 = 1,
    /// The history is unavailable and the trigger does not suspend.
    R6 = 2,
    /// The key is not in the history, but an earlier row of the batch holds it.
    R8Batch = 3,
    /// The history holds the key as processing only.
    R10 = 4,
    /// Without history: the document came before.
    R13 = 5,
    /// Without history: it is unknown whether the document came before.
    R15 = 6,
}

impl Reason {
    /// Every reason, in the order of its code.
    pub const ALL: [Self; 7] = [Self::R3, Self::R4, Self::R6, Self::R8Batch, Self::R10, Self::R13, Self::R15];

    /// The rule's text, as the resolver gets it and as the outcome's rule begins with it.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::R3 => "R3",
            Self::R4 => "R4",
            Self::R6 => "R6",
            Self::R8Batch => "R8+batch",
            Self::R10 => "R10",
            Self::R13 => "R13",
            Self::R15 => "R15",
        }
    }
}

/// The step that an answer of the resolver leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Step {
    /// The resolver says NEW.
    S1 = 0,
    /// The resolver says DUPLICATE.
    S2 = 1,
    /// The resolver says `IN_DOUBT`.
    S3 = 2,
    /// The resolver failed transiently and the trigger suspends.
    S4 = 3,
    /// The resolver failed transiently and the trigger does not suspend.
    S5 = 4,
    /// The resolver failed in any other way.
    S6 = 5,
    /// The resolver gave no status, or none that is known.
    S7 = 6,
}

impl Step {
    /// Every step, in the order of its code.
    pub const ALL: [Self; 7] = [Self::S1, Self::S2, Self::S3, Self::S4, Self::S5, Self::S6, Self::S7];
}
