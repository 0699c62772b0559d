//! Keys: every id of a document as 16 uniformly distributed bytes.
//!
//! A canonical UUID is its own identity: its 16 bytes go through a keyed bijection, and nothing is
//! lost. Every other text is a keyed 128-bit hash; where two hashes are equal, the texts are
//! compared.

mod codec;
mod copies;
mod identify;
mod pass;
mod simd;
#[cfg(target_arch = "x86_64")]
mod simd_avx2;
#[cfg(target_arch = "x86_64")]
mod simd_avx512;
#[cfg(target_arch = "aarch64")]
mod simd_neon;
mod text;
mod uuid;

pub use codec::Codec;
pub use copies::{Candidates, Copy, NO_TAG, SameText, Seen, Suspected, Tag, alike, copies, copies_among, write_tags};
pub use identify::{NO_SOURCE, identify};
pub use text::{MAX_CODE_POINTS, too_long};
pub use uuid::{UUID_TEXT_BYTES, format_uuid, parse_uuid};

/// The place of a document in a history: sort order, shard and filter hash at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The half that decides the order first.
    pub hi: u64,
    /// The other half.
    pub lo: u64,
}

impl Key {
    /// As it stands on disk: `hi`, then `lo`, both little-endian.
    #[inline]
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.lo) << 64 | u128::from(self.hi)).to_le_bytes()
    }

    /// From its bytes on disk.
    #[inline]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self { hi: both as u64, lo: (both >> 64) as u64 }
    }
}

/// What the id of a document is.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// No id at all: there is no key.
    #[default]
    Absent = 0,
    /// More code points than a history takes: there is no key.
    TooLong = 1,
    /// A UUID: the key alone is the identity.
    Uuid = 2,
    /// Any other text: equal keys still have to compare their texts.
    Text = 3,
}

impl Form {
    /// Whether there is a key to look up.
    #[inline]
    pub fn is_usable(self) -> bool {
        self as u8 >= Self::Uuid as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_orders_by_hi_and_then_by_lo() {
        let key = |hi, lo| Key { hi, lo };
        assert!(key(1, u64::MAX) < key(2, 0));
        assert!(key(1, 1) < key(1, 2));
    }

    #[test]
    fn a_key_on_disk_is_hi_then_lo_little_endian() {
        let key = Key { hi: 0x0807_0605_0403_0201, lo: 0x100f_0e0d_0c0b_0a09 };
        assert_eq!(key.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(Key::from_bytes(key.to_bytes()), key);
    }

    #[test]
    fn only_uuids_and_texts_are_usable() {
        let usable = [Form::Absent, Form::TooLong, Form::Uuid, Form::Text].map(Form::is_usable);
        assert_eq!(usable, [false, false, true, true]);
    }
}
