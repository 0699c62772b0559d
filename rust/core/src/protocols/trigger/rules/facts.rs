//! The facts of a document that the rules use, each reduced to the few cases that they distinguish.

use super::trigger::Kind;

/// The meaning of a redelivery count (messaging) or a delivery count (JMS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CountClass {
    /// The sender does not know.
    Undefined = 0,
    /// The document comes for the first time.
    First = 1,
    /// The document came before.
    Again = 2,
    /// The document reached the trigger's maximum number of deliveries.
    OverMax = 3,
}

impl CountClass {
    /// Every class, in the order of its code.
    pub const ALL: [Self; 4] = [Self::Undefined, Self::First, Self::Again, Self::OverMax];
}

/// The class of one count. Messaging counts redeliveries from 0, JMS counts deliveries from 1; a
/// null count and one below the first are undefined. From `most` on it is over the maximum.
#[inline]
pub fn count_class(kind: Kind, most: i64, count: Option<i64>) -> CountClass {
    let first = match kind {
        Kind::Messaging => 0,
        Kind::Jms => 1,
    };
    match count {
        None => CountClass::Undefined,
        Some(count) if count < first => CountClass::Undefined,
        Some(count) if count >= most => CountClass::OverMax,
        Some(count) if count == first => CountClass::First,
        Some(_) => CountClass::Again,
    }
}

/// Whether the document's id can be a key of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyClass {
    /// No id of the chain holds a value.
    Absent = 0,
    /// The chosen id is longer than a key may be.
    TooLong = 1,
    /// The history can hold it.
    Usable = 2,
}

impl KeyClass {
    /// Every class, in the order of its code.
    pub const ALL: [Self; 3] = [Self::Absent, Self::TooLong, Self::Usable];
}
