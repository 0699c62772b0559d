//! Chooses the instructions that read UUIDs, once a chunk of rows.

use super::identify::{Out, Pass, Values};

/// Runs a pass with the best instructions that this processor has.
#[cfg(target_arch = "x86_64")]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    if std::arch::is_x86_feature_detected!("avx2") {
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

/// Runs a pass; for this kind of processor there is one way only.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    pass.run(values, out, super::uuid::halves);
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use crate::key::format_uuid;
    use crate::key::uuid::{UUID_TEXT_BYTES, UuidText, halves};
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

    proptest! {
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
