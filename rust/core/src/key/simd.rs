//! Chooses the instructions that read UUIDs, once a chunk of rows.

use super::pass::{Out, Pass, Values};

/// Runs a pass with the best instructions that this processor has.
#[cfg(target_arch = "x86_64")]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    if super::simd_avx512::is_there() {
        #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
        // SAFETY: the processor has just been found to have what it takes.
        unsafe {
            super::simd_avx512::run(pass, values, out);
        }
    } else if std::arch::is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
        // SAFETY: the processor has just been found to have AVX2.
        unsafe {
            super::simd_avx2::run(pass, values, out);
        }
    } else {
        pass.run(values, out, super::uuid::halves);
    }
}

/// Runs a pass with the best instructions that this processor has.
#[cfg(target_arch = "aarch64")]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    if std::arch::is_aarch64_feature_detected!("neon") {
        #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
        // SAFETY: the processor has just been found to have NEON.
        unsafe {
            super::simd_neon::run(pass, values, out);
        }
    } else {
        pass.run(values, out, super::uuid::halves);
    }
}

/// Runs a pass; this kind of processor has only one way.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    pass.run(values, out, super::uuid::halves);
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use crate::key::format_uuid;
    use crate::key::uuid::{UUID_TEXT_BYTES, UuidText, halves};
    #[cfg(target_arch = "x86_64")]
    use crate::key::{Codec, Key, parse_uuid};
    use proptest::prelude::*;

    /// The wide parse, or the plain one where the processor has no wide one.
    fn wide(text: &UuidText) -> Option<[u64; 2]> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
            // SAFETY: the processor has just been found to have AVX2.
            return unsafe { crate::key::simd_avx2::halves(text) };
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
            // SAFETY: the processor has just been found to have NEON.
            return unsafe { crate::key::simd_neon::halves(text) };
        }
        halves(text)
    }

    #[test]
    fn each_byte_at_each_place_is_read_alike() {
        let uuid =
            format_uuid([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0x99, 0x9a, 0xaa, 0xa9, 0xff, 0xf0, 0x0f]);
        for at in 0..UUID_TEXT_BYTES {
            for byte in 0..=255 {
                let mut text = uuid;
                text[at] = byte;
                assert_eq!(wide(&text), halves(&text), "byte {byte:#x} at {at}");
            }
        }
    }

    /// How many of the first texts are UUIDs, in groups of sixteen, and their keys. One text after
    /// the other if `plain`, or if the processor cannot do it otherwise.
    #[cfg(target_arch = "x86_64")]
    fn keys_of(codec: &Codec, texts: &[UuidText], plain: bool) -> Vec<Key> {
        use crate::key::simd_avx512;
        let mut keys = vec![Key::default(); texts.len()];
        let done = if plain || !simd_avx512::is_there() {
            let key = |text: &UuidText| parse_uuid(text).map(|uuid| codec.mix(uuid));
            for (key, found) in keys.iter_mut().zip(texts.iter().map_while(key)) {
                *key = found;
            }
            texts.iter().map_while(key).count() / 16 * 16
        } else {
            #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
            // SAFETY: the processor has just been found to have what it takes.
            unsafe {
                simd_avx512::keys_of(codec, texts, &mut keys)
            }
        };
        keys.truncate(done);
        keys
    }

    #[cfg(target_arch = "x86_64")]
    fn assert_alike(secret: [u8; 32], texts: &[UuidText]) {
        let codec = Codec::new(&secret);
        assert_eq!(keys_of(&codec, texts, false), keys_of(&codec, texts, true), "{texts:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn each_byte_at_each_place_of_sixteen_is_read_alike() {
        let uuid = |number: u8| format_uuid(std::array::from_fn(|at| number.wrapping_mul(29) ^ (at as u8 * 17)));
        let texts: [UuidText; 16] = std::array::from_fn(|row| uuid(row as u8));
        for (row, at) in (0..16).flat_map(|row| (0..UUID_TEXT_BYTES).map(move |at| (row, at))) {
            for byte in 0..=255 {
                let mut texts = texts;
                texts[row][at] = byte;
                assert_alike([row as u8; 32], &texts);
            }
        }
    }

    proptest! {
        #[cfg(target_arch = "x86_64")]
        #[test]
        fn many_are_read_and_mixed_as_one_after_the_other(
            secret: [u8; 32],
            uuids in prop::collection::vec(any::<[u8; 16]>(), 0..100),
            spoilt in prop::collection::vec((any::<prop::sample::Index>(), 0..36_usize, any::<u8>()), 0..2),
            shift in 0..64_usize,
        ) {
            let mut texts: Vec<_> = uuids.into_iter().map(format_uuid).collect();
            for (row, at, byte) in spoilt {
                if !texts.is_empty() {
                    row.get_mut(&mut texts)[at] = byte;
                }
            }
            let mut buffer = vec![0xff; shift];
            buffer.extend(texts.as_flattened());
            assert_alike(secret, buffer[shift..].as_chunks().0);
        }

        #[test]
        fn uuids_are_read_alike_wherever_they_lie(uuid: [u8; 16], shift in 0..64_usize) {
            let mut buffer = vec![0xff; shift];
            buffer.extend_from_slice(&format_uuid(uuid));
            let text = buffer[shift..].first_chunk().unwrap();
            prop_assert!(wide(text).is_some());
            prop_assert_eq!(wide(text), halves(text));
        }

        #[test]
        fn any_bytes_are_read_alike(
            bytes in prop::collection::vec(any::<u8>(), 40..120),
            uuid: [u8; 16],
            spoilt in prop::collection::vec((0..36_usize, any::<u8>()), 0..3),
            shift in 0..4_usize,
        ) {
            let mut bytes = bytes;
            let text = *bytes[shift..].first_chunk().unwrap();
            prop_assert_eq!(wide(&text), halves(&text));
            bytes[shift..shift + 36].copy_from_slice(&format_uuid(uuid));
            for (at, byte) in spoilt {
                bytes[shift + at] = byte;
            }
            let text = bytes[shift..].first_chunk().unwrap();
            prop_assert_eq!(wide(text), halves(text));
        }
    }
}
