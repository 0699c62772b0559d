//! From ids to keys, under the secret of a history.

use super::{Form, Key, format_uuid};
use xxhash_rust::xxh3::{xxh3_128_with_secret, xxh3_128_with_seed};

const ROUNDS: usize = 4;
const TEXT_SECRET_BYTES: usize = 192;

/// Turns ids into keys. Two codecs of one secret agree. Without the secret nobody can choose ids
/// that fall into one block or bucket.
#[derive(Clone)]
pub struct Codec {
    rounds: [Round; ROUNDS],
    text_secret: [u8; TEXT_SECRET_BYTES],
    #[cfg(any(test, feature = "testing"))]
    colliding: bool,
}

/// One round of the bijection: the number to add and the number to multiply by.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) before: u64,
    pub(super) odd: u64,
}

impl Round {
    /// A 64x64 to 128 bit product, folded. It need not be invertible: the rounds around it are.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "must melt into loops that are compiled for wider registers")]
    fn of(self, half: u64) -> u64 {
        let product = u128::from(half ^ self.before) * u128::from(self.odd);
        (product >> 64) as u64 ^ product as u64
    }
}

impl Codec {
    /// The codec of a history's secret.
    pub fn new(secret: &[u8; 32]) -> Self {
        // Seeds number the pieces: the first few make round keys, those from 256 on the secret for
        // texts.
        let piece = |number: u64| xxh3_128_with_seed(secret, number);
        let rounds = std::array::from_fn(|round| {
            let piece = piece(round as u64);
            Round { before: piece as u64, odd: (piece >> 64) as u64 | 1 }
        });
        let mut text_secret = [0; TEXT_SECRET_BYTES];
        for (number, bytes) in (256..).zip(text_secret.chunks_exact_mut(16)) {
            bytes.copy_from_slice(&piece(number).to_le_bytes());
        }
        Self {
            rounds,
            text_secret,
            #[cfg(any(test, feature = "testing"))]
            colliding: false,
        }
    }

    /// A codec whose texts share four keys, so that tests meet collisions.
    #[cfg(any(test, feature = "testing"))]
    pub fn colliding_for_tests(secret: &[u8; 32]) -> Self {
        Self::new(secret).with_collisions()
    }

    /// The same codec with texts that share four keys.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn with_collisions(self) -> Self {
        Self { colliding: true, ..self }
    }

    /// The key of a UUID; no two UUIDs share one.
    #[inline]
    pub fn mix(&self, uuid: [u8; 16]) -> Key {
        let both = u128::from_le_bytes(uuid);
        self.mix_halves([both as u64, (both >> 64) as u64])
    }

    /// [`Codec::mix`] of the UUID's first and last eight bytes, both read as little-endian.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "must melt into loops that are compiled for wider registers")]
    pub(super) fn mix_halves(&self, [mut left, mut right]: [u64; 2]) -> Key {
        let [first, second, third, fourth] = self.rounds;
        left ^= first.of(right);
        right ^= second.of(left);
        left ^= third.of(right);
        right ^= fourth.of(left);
        Key { hi: right, lo: left }
    }

    /// The rounds of [`Codec::mix`], for callers that mix several UUIDs at once.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn rounds(&self) -> [Round; ROUNDS] {
        self.rounds
    }

    /// The UUID of a key that [`Codec::mix`] gave.
    #[inline]
    pub fn unmix(&self, key: Key) -> [u8; 16] {
        let [first, second, third, fourth] = self.rounds;
        let (mut left, mut right) = (key.lo, key.hi);
        right ^= fourth.of(left);
        left ^= third.of(right);
        right ^= second.of(left);
        left ^= first.of(right);
        (u128::from(right) << 64 | u128::from(left)).to_le_bytes()
    }

    /// Tells the id of a row from others, even without a key: for a UUID its key, for any text a
    /// hash of it.
    pub(crate) fn digest(&self, form: Form, key: Key, text: &[u8]) -> Key {
        match form {
            Form::Absent | Form::Uuid => key,
            Form::Text if !self.has_collisions() => key,
            Form::Text | Form::TooLong => Self::key_of(xxh3_128_with_secret(text, &self.text_secret)),
        }
    }

    #[cfg(any(test, feature = "testing"))]
    fn has_collisions(&self) -> bool {
        self.colliding
    }

    #[cfg(not(any(test, feature = "testing")))]
    #[expect(clippy::unused_self, reason = "tests have codecs whose keys collide")]
    fn has_collisions(&self) -> bool {
        false
    }

    fn key_of(hash: u128) -> Key {
        Key { hi: (hash >> 64) as u64, lo: hash as u64 }
    }

    /// The id of a key, as it came; `text` is the text of a key that is not a UUID's.
    pub(crate) fn text_of(&self, key: Key, text: Option<&[u8]>) -> String {
        match text {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => String::from_utf8_lossy(&format_uuid(self.unmix(key))).into_owned(),
        }
    }

    /// The key of any other text. Different texts may share one.
    #[inline]
    pub fn hash_text(&self, text: &[u8]) -> Key {
        let hash = xxh3_128_with_secret(text, &self.text_secret);
        #[cfg(any(test, feature = "testing"))]
        if self.colliding {
            return Key { hi: (hash as u64) << 62, lo: 0 };
        }
        Self::key_of(hash)
    }
}

/// Hides the secret, so that it never gets into logs.
impl std::fmt::Debug for Codec {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Codec").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
