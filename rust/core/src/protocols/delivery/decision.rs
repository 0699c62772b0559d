//! The receiver's table, rows 0 to 8: one message against the position of its stream.

use super::header::{BadHeader, MAX_JOINED_EPOCH, PartHeader};

/// The decision about a message when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Decision {
    /// The header cannot be used: delete, log; the message counts as lost.
    Corrupt,
    /// Sent before the last resend request: delete.
    Stale,
    /// Of a later epoch that this side cannot join, because something is missing.
    Future,
    /// Applied, held or buffered already: delete.
    Duplicate,
    /// Begins before and ends after what is applied.
    Overlap,
    /// The place is taken by a message with another end: the first is kept.
    Conflict,
    /// Kept until the messages before it arrive.
    Hold,
    /// Buffered: a part of a transaction whose last part is not there.
    Part,
    /// Applied, with the parts before it, in one commit.
    Apply,
    /// The stream is unknown, and its start was not given.
    Unknown,
}

impl Decision {
    /// All decisions, in the order of their codes.
    pub const ALL: [Self; 10] = [
        Self::Corrupt,
        Self::Stale,
        Self::Future,
        Self::Duplicate,
        Self::Overlap,
        Self::Conflict,
        Self::Hold,
        Self::Part,
        Self::Apply,
        Self::Unknown,
    ];

    /// As it stands in columns.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Corrupt => "CORRUPT",
            Self::Stale => "STALE",
            Self::Future => "FUTURE",
            Self::Duplicate => "DUPLICATE",
            Self::Overlap => "OVERLAP",
            Self::Conflict => "CONFLICT",
            Self::Hold => "HOLD",
            Self::Part => "PART",
            Self::Apply => "APPLY",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// The common words for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// To be applied, now (with an apply rank) or with the last part of its transaction.
    New,
    /// Its content is there already, or comes again.
    Duplicate,
    /// Not applied, and not kept unless the decision is `Hold`; a resend brings it again.
    InDoubt,
    /// Kept.
    Held,
}

impl Status {
    /// All words, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::New, Self::Duplicate, Self::InDoubt, Self::Held];

    /// As it stands in columns.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Duplicate => "DUPLICATE",
            Self::InDoubt => "IN_DOUBT",
            Self::Held => "HELD",
        }
    }
}

/// Why a message got its outcome: the rules that matched, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// Rule 0.
    Malformed,
    /// Rule 0.
    Backwards,
    /// Rule 0.
    NoStream,
    /// First contact without a given `log_received`.
    UnknownStream,
    /// Rule 1.
    Stale,
    /// Rule 2.
    Future,
    /// Rule 3.
    AlreadyApplied,
    /// Rule 4.
    Overlap,
    /// Rule 5, the same message again.
    AlreadyKept,
    /// Rule 5, another message in its place.
    Conflict,
    /// Rule 6.
    Held,
    /// Rule 7.
    Part,
    /// Rule 8.
    Applied,
    /// Rule 2, then 7.
    AdoptedPart,
    /// Rule 2, then 8.
    AdoptedApplied,
    /// Rule 6, then 7 in the same poll.
    HeldPart,
    /// Rule 6, then 8 in the same poll.
    HeldApplied,
    /// Rule 6, then a message that was applied covered it.
    HeldCovered,
    /// Rule 6, then a message that was applied covered half of it.
    HeldOverlap,
    /// Rule 6, then the stream went back in the same poll.
    HeldDropped,
    /// Rule 7, then the stream went back in the same poll.
    PartDropped,
    /// Rule 6, then too many were held.
    HeldOverLimit,
    /// Rule 7 or 8 would apply, but a crash left open whether it was applied already.
    InDoubtRange,
}

impl Reason {
    /// All reasons, in the order of their codes.
    pub const ALL: [Self; 23] = [
        Self::Malformed,
        Self::Backwards,
        Self::NoStream,
        Self::UnknownStream,
        Self::Stale,
        Self::Future,
        Self::AlreadyApplied,
        Self::Overlap,
        Self::AlreadyKept,
        Self::Conflict,
        Self::Held,
        Self::Part,
        Self::Applied,
        Self::AdoptedPart,
        Self::AdoptedApplied,
        Self::HeldPart,
        Self::HeldApplied,
        Self::HeldCovered,
        Self::HeldOverlap,
        Self::HeldDropped,
        Self::PartDropped,
        Self::HeldOverLimit,
        Self::InDoubtRange,
    ];

    /// What was decided on arrival.
    #[rustfmt::skip]
    pub fn decision(self) -> Decision {
        match self {
            Self::Malformed | Self::Backwards | Self::NoStream => Decision::Corrupt,
            Self::UnknownStream => Decision::Unknown,
            Self::Stale => Decision::Stale,
            Self::Future => Decision::Future,
            Self::AlreadyApplied | Self::AlreadyKept => Decision::Duplicate,
            Self::Overlap => Decision::Overlap,
            Self::Conflict => Decision::Conflict,
            Self::Held | Self::HeldPart | Self::HeldApplied | Self::HeldCovered | Self::HeldOverlap
            | Self::HeldDropped | Self::HeldOverLimit | Self::InDoubtRange => Decision::Hold,
            Self::Part | Self::AdoptedPart | Self::PartDropped => Decision::Part,
            Self::Applied | Self::AdoptedApplied => Decision::Apply,
        }
    }

    /// How the message stands at the end of the poll.
    #[rustfmt::skip]
    pub fn status(self) -> Status {
        match self {
            Self::Malformed | Self::Backwards | Self::NoStream | Self::UnknownStream | Self::Future | Self::Overlap
            | Self::Conflict | Self::HeldOverlap | Self::HeldDropped | Self::PartDropped | Self::HeldOverLimit
            | Self::InDoubtRange => Status::InDoubt,
            Self::Stale | Self::AlreadyApplied | Self::AlreadyKept | Self::HeldCovered => Status::Duplicate,
            Self::Held => Status::Held,
            Self::Part | Self::Applied | Self::AdoptedPart | Self::AdoptedApplied | Self::HeldPart
            | Self::HeldApplied => Status::New,
        }
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Malformed => "D0: the header does not parse, or its epoch is above 2147483646",
            Self::Backwards => "D0: the last commit lies before the previous message's",
            Self::NoStream => "D0: the message names no stream",
            Self::UnknownStream => "first contact: log_received of this stream is not known",
            Self::Stale => "D1: sent before the last resend request",
            Self::Future => "D2: of a later epoch that does not start at log_received",
            Self::AlreadyApplied => "D3: applied already",
            Self::Overlap => "D4: begins before log_received and ends after it",
            Self::AlreadyKept => "D5: held or buffered already",
            Self::Conflict => "D5: another message is held or buffered in its place",
            Self::Held => "D6: something before it is missing",
            Self::Part => "D7: buffered until the last part of its transaction",
            Self::Applied => "D8: applied",
            Self::AdoptedPart => "D2>D7: joined the later epoch, buffered",
            Self::AdoptedApplied => "D2>D8: joined the later epoch, applied",
            Self::HeldPart => "D6>D7: held, then buffered",
            Self::HeldApplied => "D6>D8: held, then applied",
            Self::HeldCovered => "D6>D3: held, then covered by another message",
            Self::HeldOverlap => "D6>D4: held, then half covered by another message",
            Self::HeldDropped => "D6: held, then dropped: the stream goes back to log_received",
            Self::PartDropped => "D7: buffered, then dropped: the stream goes back to log_received",
            Self::HeldOverLimit => "D6: dropped: too many messages are held",
            Self::InDoubtRange => "D6: held until it is settled what was applied before the crash",
        }
    }
}

impl From<BadHeader> for Reason {
    fn from(bad: BadHeader) -> Self {
        match bad {
            BadHeader::Missing | BadHeader::Malformed | BadHeader::Overflow | BadHeader::Epoch => Self::Malformed,
            BadHeader::Backwards => Self::Backwards,
        }
    }
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) rereceive_count: u64,
    pub(super) log_received: u64,
    /// The next part of the transaction after `log_received`.
    pub(super) next: u64,
}

/// The row of the table that matches first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Damaged,
    Stale,
    Adopt,
    Future,
    AlreadyApplied,
    Overlap,
    AlreadyKept,
    Conflict,
    Hold,
    Part,
    Apply,
}

/// Rows 1 to 8; row 0 is decided by the header, but for the last epoch, which only this side's own
/// request makes good. `held` finds the end (`cur`) of the message held in
/// the same place.
#[inline]
pub(super) fn decide(header: &PartHeader, at: &Position, held: impl FnOnce() -> Option<u64>) -> Match {
    let PartHeader { resend_count, prev, cur, seq } = *header;
    let (applied, seq) = (at.log_received, u64::from(seq));
    if resend_count < at.rereceive_count {
        return Match::Stale;
    }
    if resend_count > at.rereceive_count {
        if resend_count > MAX_JOINED_EPOCH {
            return Match::Damaged;
        }
        return if prev == applied && seq == 0 { Match::Adopt } else { Match::Future };
    }
    if (cur > prev && cur <= applied) || (cur == prev && prev < applied) {
        return Match::AlreadyApplied;
    }
    if prev < applied {
        return Match::Overlap;
    }
    // A buffered part has no commit of its own, so it ends where it begins.
    let buffered = prev == applied && seq < at.next;
    match if buffered { Some(prev) } else { held() } {
        Some(end) if end == cur => return Match::AlreadyKept,
        Some(_) => return Match::Conflict,
        None => {}
    }
    if prev > applied || seq > at.next {
        return Match::Hold;
    }
    if cur == prev { Match::Part } else { Match::Apply }
}
