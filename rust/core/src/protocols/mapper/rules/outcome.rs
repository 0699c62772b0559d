//! The outcome of each rule.

/// The rule that decided a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// Receiver: neither pending nor mapped.
    M1,
    /// Receiver: mapped.
    M2,
    /// Receiver: mapped, and pending as well.
    M2LeftOver,
    /// Receiver: pending, policy `error`.
    M3,
    /// Receiver: pending, policy `process`.
    M4,
    /// Receiver: pending, policy `duplicate`.
    M5,
    /// Receiver: best effort.
    M6,
    /// Receiver: its queue has stopped.
    M7,
    /// Receiver: no id.
    M8,
    /// Receiver: an earlier row of the batch with the same id is being sent.
    M1Batch,
    /// Receiver: was to be sent and certainly was not delivered.
    M1Failed,
    /// Receiver: was sent with unknown outcome.
    M1Unknown,
    /// Receiver: best effort, and the attempt failed or its outcome is unknown.
    M6Failed,
    /// Sender: best effort.
    N1,
    /// Sender: not mapped.
    N2,
    /// Sender: mapped, also after a crash between the unit's commit and the source's.
    N3,
    /// Sender: an earlier row of the batch with the same id is taken in.
    N3Batch,
    /// Sender: failed before the unit's commit.
    N4,
    /// Sender: best effort, and the attempt failed.
    N1Failed,
    /// Sender: its queue has stopped.
    N4Queue,
    /// Sender: no id.
    NoId,
    /// Receiver: the earlier row of the batch with the same id failed or waits.
    M1Hold,
    /// Sender: the earlier row of the batch with the same id failed or waits.
    N2Hold,
}

/// The common words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Not there before.
    New,
    /// Best effort: not looked up.
    NewUnchecked,
    /// Sent or taken in before.
    Duplicate,
    /// Perhaps sent before.
    InDoubt,
    /// Tried in this batch, and failed.
    Failed,
    /// Not decided: it waits for its queue.
    Undecided,
}

/// What to do with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Send it, or take it in.
    Process,
    /// Return without error: nothing goes out or in, and the message is acknowledged.
    Skip,
    /// Raise an error: the message stays unacknowledged.
    Raise,
    /// Wait behind the earlier rows of its queue: nothing is acknowledged.
    Hold,
}

/// A change of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Change {
    /// Nothing.
    None,
    /// Write the pending entry, durable before anything is sent.
    WritePending,
    /// Write the pending entry again, durable before anything is sent: it belongs to this attempt
    /// from now on.
    TakePending,
    /// Remove the pending entry, in a unit of work of its own.
    RemovePending,
    /// Write the mapping, durable, then remove the pending entry, each in a unit of work of its
    /// own.
    WriteMappingRemovePending,
    /// Write the mapping within the caller's unit of work.
    MapInUnit,
    /// Roll back the unit of work, and the source.
    RollBack,
}

/// An entry of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Audit {
    /// None.
    None,
    /// An error, with all details that help an administrator to find out what happened.
    Error,
    /// A warning.
    Warning,
    /// A plain entry.
    Entry,
    /// A success, recorded on the id of the message that came first.
    SuccessOnOriginal,
}

/// The whole outcome of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapperOutcome {
    /// The common word.
    pub status: Status,
    /// What to do with the message.
    pub action: Action,
    /// What to change before that.
    pub change: Change,
    /// What to change once it is processed.
    pub on_success: Change,
    /// What to write to the audit log.
    pub audit: Audit,
}

const fn outcome(status: Status, action: Action, change: Change, on_success: Change, audit: Audit) -> MapperOutcome {
    MapperOutcome { status, action, change, on_success, audit }
}

impl Rule {
    /// All rules, in the order of their codes.
    #[rustfmt::skip]
    pub const ALL: [Self; 23] = [
        Self::M1, Self::M2, Self::M2LeftOver, Self::M3, Self::M4, Self::M5, Self::M6, Self::M7, Self::M8, Self::M1Batch,
        Self::M1Failed, Self::M1Unknown, Self::M6Failed, Self::N1, Self::N2, Self::N3, Self::N3Batch, Self::N4,
        Self::N1Failed, Self::N4Queue, Self::NoId, Self::M1Hold, Self::N2Hold,
    ];

    /// The table.
    #[expect(clippy::match_same_arms, reason = "one line a rule, as in the table that it implements")]
    #[rustfmt::skip]
    pub const fn outcome(self) -> MapperOutcome {
        use Action::{Hold, Process, Raise, Skip};
        use Change::{MapInUnit, RemovePending, RollBack, TakePending, WriteMappingRemovePending, WritePending};
        use Status::{Duplicate, Failed, InDoubt, New, NewUnchecked, Undecided};
        const NO: Change = Change::None;
        match self {
            //                         status        action   change now                 on success
            //                         audit
            Self::M1         => outcome(New,          Process, WritePending,              WriteMappingRemovePending, Audit::None),
            Self::M2         => outcome(Duplicate,    Skip,    NO,                        NO,                        Audit::None),
            Self::M2LeftOver => outcome(Duplicate,    Skip,    RemovePending,             NO,                        Audit::None),
            Self::M3         => outcome(InDoubt,      Raise,   NO,                        NO,                        Audit::Error),
            Self::M4         => outcome(New,          Process, TakePending,               WriteMappingRemovePending, Audit::Warning),
            Self::M5         => outcome(Duplicate,    Skip,    WriteMappingRemovePending, NO,                        Audit::Entry),
            Self::M6         => outcome(NewUnchecked, Process, NO,                        NO,                        Audit::None),
            Self::M7         => outcome(Undecided,    Hold,    NO,                        NO,                        Audit::None),
            Self::M8         => outcome(InDoubt,      Raise,   NO,                        NO,                        Audit::Error),
            Self::M1Batch    => outcome(InDoubt,      Raise,   NO,                        NO,                        Audit::Error),
            Self::M1Failed   => outcome(Failed,       Raise,   RemovePending,             NO,                        Audit::Error),
            Self::M1Unknown  => outcome(InDoubt,      Raise,   NO,                        NO,                        Audit::Error),
            Self::M6Failed   => outcome(Failed,       Raise,   NO,                        NO,                        Audit::Error),
            Self::N1         => outcome(NewUnchecked, Process, NO,                        NO,                        Audit::None),
            Self::N2         => outcome(New,          Process, NO,                        MapInUnit,                 Audit::None),
            Self::N3         => outcome(Duplicate,    Skip,    NO,                        NO,                        Audit::SuccessOnOriginal),
            Self::N3Batch    => outcome(Duplicate,    Skip,    NO,                        NO,                        Audit::SuccessOnOriginal),
            Self::N4         => outcome(Failed,       Raise,   RollBack,                  NO,                        Audit::Error),
            Self::N1Failed   => outcome(Failed,       Raise,   NO,                        NO,                        Audit::Error),
            Self::N4Queue    => outcome(Undecided,    Hold,    NO,                        NO,                        Audit::None),
            Self::NoId       => outcome(InDoubt,      Raise,   NO,                        NO,                        Audit::Error),
            Self::M1Hold     => outcome(Undecided,    Hold,    NO,                        NO,                        Audit::None),
            Self::N2Hold     => outcome(Undecided,    Hold,    NO,                        NO,                        Audit::None),
        }
    }

    /// The rule's name, as it stands in verdicts.
    #[rustfmt::skip]
    pub const fn code(self) -> &'static str {
        match self {
            Self::M1 => "M1", Self::M2 | Self::M2LeftOver => "M2", Self::M3 => "M3", Self::M4 => "M4",
            Self::M5 => "M5", Self::M6 => "M6", Self::M7 => "M7", Self::M8 => "M8",
            Self::M1Batch => "M1+batch", Self::M1Failed => "M1>failed", Self::M1Unknown => "M1>unknown",
            Self::M6Failed => "M6>failed",
            Self::N1 => "N1", Self::N2 => "N2", Self::N3 => "N3", Self::N3Batch => "N3+batch",
            Self::N4 => "N4", Self::N1Failed => "N1>failed", Self::N4Queue => "N4+queue", Self::NoId => "N+no id",
            Self::M1Hold => "M1+hold", Self::N2Hold => "N2+hold",
        }
    }

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::M1 => "not sent before",
            Self::M2 => "sent before",
            Self::M2LeftOver => "sent before; a pending entry was left over",
            Self::M3 => "pending: it is unclear whether it was sent; check the receiving system, then resolve the id",
            Self::M4 => "pending, and the policy says to send it",
            Self::M5 => "pending, and the policy says that it was sent",
            Self::M6 | Self::N1 => "best effort is not checked",
            Self::M7 | Self::N4Queue => "an earlier message of its queue failed, is in doubt or waits",
            Self::M8 | Self::NoId => "without an id of 1 to 65,535 bytes nothing can be checked",
            Self::M1Batch => "an earlier row of the batch has the same id and is being sent",
            Self::M1Failed => "not delivered; a retry is new, unless somebody else has begun it or decided about it",
            Self::M1Unknown => "sent, but it is unknown whether it was delivered",
            Self::M6Failed => "best effort, and the attempt failed or its outcome is unknown",
            Self::N2 => "not taken in before",
            Self::N3 => "taken in before",
            Self::N3Batch => "an earlier row of the batch has the same id and is taken in",
            Self::N4 => "failed before the commit of its unit of work; both are rolled back",
            Self::N1Failed => "best effort, and the attempt failed",
            Self::M1Hold | Self::N2Hold => {
                "the earlier row of the batch with the same id failed or waits; so does this one"
            }
        }
    }

    /// Whether a retry can help without a decision by an administrator.
    pub const fn is_retryable(self) -> bool {
        self.is_held() || matches!(self, Self::M1Failed | Self::M6Failed | Self::N4 | Self::N1Failed)
    }

    /// Whether the message is to be sent, or taken in.
    pub(crate) const fn is_processed(self) -> bool {
        matches!(self.outcome().action, Action::Process)
    }

    /// Whether the message waits.
    pub(crate) const fn is_held(self) -> bool {
        matches!(self.outcome().action, Action::Hold)
    }

    /// Whether later rows of the batch with the same id meet this one.
    pub(super) const fn takes_id(self) -> bool {
        matches!(self, Self::M1 | Self::M4 | Self::M1Unknown | Self::N2)
    }

    /// Whether later rows of the same queue must wait.
    pub(super) const fn stops_queue(self) -> bool {
        matches!(self.outcome().action, Action::Raise | Action::Hold)
    }
}
