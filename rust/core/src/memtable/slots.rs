//! Memory for a large table with random access.

use std::ops::{Deref, DerefMut};

use crate::sys::memory::Zeroed;

/// One slot.
pub(super) type Slot = [u8; 8];

/// A table of slots, all zero at first.
#[derive(Debug, Default)]
pub(super) struct Slots(Zeroed);

impl Slots {
    pub(super) fn zeroed(count: usize) -> Self {
        Self(Zeroed::of(count * size_of::<Slot>()))
    }
}

impl Deref for Slots {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        self.0.as_chunks().0
    }
}

impl DerefMut for Slots {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Slot] {
        self.0.as_chunks_mut().0
    }
}
