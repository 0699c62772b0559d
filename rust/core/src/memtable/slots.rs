//! Memory for a large table with random access. It uses large pages where the system has them: with
//! small ones nearly every access would first have to look its page up.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Size from which large pages pay, in bytes: the size of one.
const LARGE_BYTES: usize = 2 << 20;

/// One slot.
pub(super) type Slot = [u8; 8];

/// A table of slots, all zero at first.
#[derive(Debug)]
pub(super) enum Slots {
    Small(Vec<Slot>),
    Large(MmapMut),
}

impl Default for Slots {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Slots {
    pub(super) fn zeroed(count: usize) -> Self {
        let bytes = count * size_of::<Slot>();
        if bytes < LARGE_BYTES {
            return Self::Small(vec![[0; 8]; count]);
        }
        match MmapMut::map_anon(bytes) {
            Ok(map) => {
                // Where there are no large pages, small ones do.
                #[cfg(target_os = "linux")]
                drop(map.advise(memmap2::Advice::HugePage));
                Self::Large(map)
            }
            Err(_) => Self::Small(vec![[0; 8]; count]),
        }
    }
}

impl Deref for Slots {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        match self {
            Self::Small(slots) => slots,
            Self::Large(map) => map.as_chunks().0,
        }
    }
}

impl DerefMut for Slots {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Slot] {
        match self {
            Self::Small(slots) => slots,
            Self::Large(map) => map.as_chunks_mut().0,
        }
    }
}
