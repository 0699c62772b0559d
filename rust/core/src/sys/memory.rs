//! Zeroed memory that the system gets back as soon as it is dropped: what a thread gives back to
//! its allocator, the allocator may keep. Where there are large pages, it uses them: with small
//! ones nearly every random access would first have to look its page up.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Size from which large pages pay, in bytes: the size of one.
const LARGE_BYTES: usize = 2 << 20;
/// Size from which memory is asked of the system, in bytes.
const OWN_BYTES: usize = 1 << 18;

/// Zeroed memory of the system; none if there is none.
pub(crate) fn mapped(bytes: usize) -> Option<MmapMut> {
    let memory = MmapMut::map_anon(bytes).ok()?;
    #[cfg(target_os = "linux")]
    {
        if bytes >= LARGE_BYTES {
            // Where there are no large pages, small ones do.
            drop(memory.advise(memmap2::Advice::HugePage));
        }
        // Reading a page first would map the shared page of zeros, and to replace that at the first
        // write interrupts every processor of this process. (Before Linux 5.14 it stays so.) Other
        // threads get the lock of the address space between two parts.
        for start in (0..bytes).step_by(LARGE_BYTES) {
            let length = LARGE_BYTES.min(bytes - start);
            drop(memory.advise_range(memmap2::Advice::PopulateWrite, start, length));
        }
    }
    Some(memory)
}

/// Bytes, all zero at first. Few of them are the allocator's.
#[derive(Debug)]
pub(crate) enum Zeroed {
    Few(Vec<u8>),
    Own(MmapMut),
}

impl Default for Zeroed {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Zeroed {
    pub(crate) fn of(bytes: usize) -> Self {
        let own = if bytes < OWN_BYTES { None } else { mapped(bytes) };
        own.map_or_else(|| Self::Few(vec![0; bytes]), Self::Own)
    }

    /// Have room for at least `bytes`: what is there stays.
    pub(crate) fn reach(&mut self, bytes: usize) {
        if self.len() < bytes {
            let mut more = Self::of(bytes + bytes / 4);
            more[..self.len()].copy_from_slice(self);
            *self = more;
        }
    }
}

impl Deref for Zeroed {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Few(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

impl DerefMut for Zeroed {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Few(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_and_the_rest_is_zero() {
        let mut memory = Zeroed::default();
        for bytes in [1, 100, OWN_BYTES, OWN_BYTES + 1, 3 * LARGE_BYTES] {
            memory.reach(bytes);
            assert!(memory.len() >= bytes);
            memory[bytes - 1] = 7;
        }
        assert!(matches!(memory, Zeroed::Own(_)));
        assert_eq!(memory.iter().map(|byte| usize::from(*byte)).sum::<usize>(), 5 * 7);
        memory.reach(5);
        assert!(memory.len() >= 3 * LARGE_BYTES);
    }
}
