//! Chooses the instructions that test blocks, once a probe.

use super::probe::{Pages, Probe, Rows};
use crate::Result;
use crate::key::{Form, Key};

/// Appends to `survivors` the rows whose key can be in the filter: row `i` of `keys` and `forms`
/// counts as `first_row + i`. Rows without a usable key do not survive, and cause no page to be
/// verified.
pub fn probe(
    data: &[u8],
    keys: &[Key],
    forms: &[Form],
    first_row: u32,
    pages: &impl Pages,
    survivors: &mut Vec<u32>,
) -> Result<()> {
    run(&Probe::new(data, pages), Rows::new(keys, forms, first_row), survivors)
}

/// Runs a probe with the best instructions that this processor has.
#[cfg(target_arch = "x86_64")]
fn run<P: Pages>(probe: &Probe<'_, P>, rows: Rows<'_>, survivors: &mut Vec<u32>) -> Result<()> {
    if std::arch::is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
        // SAFETY: the processor has just been found to have AVX2.
        unsafe {
            super::simd_avx2::run(probe, rows, survivors)
        }
    } else {
        probe.run(rows, survivors, |_| (), super::contains_block)
    }
}

/// Runs a probe with the best instructions that this processor has.
#[cfg(target_arch = "aarch64")]
fn run<P: Pages>(probe: &Probe<'_, P>, rows: Rows<'_>, survivors: &mut Vec<u32>) -> Result<()> {
    if std::arch::is_aarch64_feature_detected!("neon") {
        #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
        // SAFETY: the processor has just been found to have NEON.
        unsafe {
            super::simd_neon::run(probe, rows, survivors)
        }
    } else {
        probe.run(rows, survivors, |_| (), super::contains_block)
    }
}

/// Runs a probe; this kind of processor has only one way.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn run<P: Pages>(probe: &Probe<'_, P>, rows: Rows<'_>, survivors: &mut Vec<u32>) -> Result<()> {
    probe.run(rows, survivors, |_| (), super::contains_block)
}

/// Puts keys into a filter with the best instructions that this processor has.
pub(super) fn insert_all(data: &mut [u8], first: u64, blocks: u64, keys: impl Iterator<Item = Key>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
        // SAFETY: the processor has just been found to have AVX2.
        unsafe {
            super::simd_avx2::insert_all(data, first, blocks, keys);
        }
        return;
    }
    super::insert_each(data, first, blocks, keys);
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use crate::filter::{contains_block, insert};
    use crate::key::Key;
    use proptest::prelude::*;

    /// The wide test, or the plain one where the processor has no wide one.
    fn wide(block: &[u8; 32], key: Key) -> bool {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
            // SAFETY: the processor has just been found to have AVX2.
            return unsafe { crate::filter::simd_avx2::contains(block, key) };
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            #[expect(unsafe_code, reason = "calls code that is compiled for more than the least processor")]
            // SAFETY: the processor has just been found to have NEON.
            return unsafe { crate::filter::simd_neon::contains(block, key) };
        }
        contains_block(block, key)
    }

    proptest! {
        #[test]
        fn blocks_are_tested_alike_wherever_they_lie(
            bytes: [u8; 32],
            inserted in prop::collection::vec(any::<u64>(), 0..40),
            hi: u64,
            lo: u64,
            missing in 0..256_usize,
            shift in 0..64_usize,
        ) {
            let (mut buffer, mut random) = (vec![0; shift + 32], vec![0xff; shift]);
            random.extend_from_slice(&bytes);
            for &lo in &inserted {
                insert(&mut buffer[shift..], Key { hi, lo });
            }
            // One that is there, one that is probably not, and one that only one bit keeps out.
            let keys = inserted.iter().copied().chain([lo]).map(|lo| Key { hi, lo });
            for key in keys {
                for buffer in [&buffer, &random] {
                    let block = buffer[shift..].first_chunk().unwrap();
                    prop_assert_eq!(wide(block, key), contains_block(block, key));
                }
                let mut almost = [0xff; 32];
                almost[missing / 8] ^= 1 << (missing % 8);
                prop_assert_eq!(wide(&almost, key), contains_block(&almost, key));
            }
        }
    }
}
