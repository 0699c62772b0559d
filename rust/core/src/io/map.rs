//! Files in memory: the only place where a mapping is made.

use std::ops::Deref;
use std::sync::Arc;

/// The bytes of an immutable file: mapped, or copied by file systems that cannot map.
#[derive(Clone, Debug)]
pub enum Mapping {
    /// A read-only mapping of the file.
    Mapped(Arc<memmap2::Mmap>),
    /// A copy (simulated file systems).
    Copied(Arc<[u8]>),
}

impl Mapping {
    /// Map the first `length` bytes of a file that is never written or shortened again.
    pub(super) fn of(file: &std::fs::File, length: u64) -> std::io::Result<Self> {
        if length == 0 {
            return Ok(Self::Copied(Arc::new([])));
        }
        let length = usize::try_from(length).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        // SAFETY: published files are never truncated or overwritten by the store (docs/format.md),
        // and their length was checked against the header before mapping; another program that
        // shortens them breaks the store's contract.
        #[expect(unsafe_code, reason = "mapping a file is unsafe because other programs could change it")]
        let map = unsafe { memmap2::MmapOptions::new().len(length).map(file)? };
        Ok(Self::Mapped(Arc::new(map)))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Copied(bytes) => bytes,
        }
    }
}
