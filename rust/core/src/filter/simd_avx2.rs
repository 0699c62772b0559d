//! Tests a block with AVX2: all eight lanes at once.

use super::probe::{Pages, Probe, Rows};
use super::{BLOCK_BYTES, SALTS};
use crate::Result;
use crate::key::Key;
use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_set1_epi32, _mm256_sllv_epi32,
    _mm256_srli_epi32, _mm256_testc_si256,
};

/// [`Probe::run`], compiled for AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn run<P: Pages>(probe: &Probe<'_, P>, rows: Rows<'_>, survivors: &mut Vec<u32>) -> Result<()> {
    probe.run(rows, survivors, fetch, |block, key| contains(block, key))
}

/// [`super::insert_each`], compiled for AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn insert_all(data: &mut [u8], first: u64, blocks: u64, keys: impl Iterator<Item = Key>) {
    super::insert_each(data, first, blocks, keys);
}

/// Prefetches the line of a block, without waiting for it.
#[inline]
fn fetch(block: &[u8; BLOCK_BYTES]) {
    #[expect(unsafe_code, reason = "there is no safe way to ask for a line")]
    // SAFETY: a prefetch reads nothing that the program sees and cannot fault; SSE is part of every
    // x86-64.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().cast());
    }
}

/// What [`super::contains_block`] says.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn contains(block: &[u8; BLOCK_BYTES], key: Key) -> bool {
    let products = _mm256_mullo_epi32(_mm256_set1_epi32(key.lo as i32), eight_lanes(&SALTS));
    let bits = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32::<27>(products));
    _mm256_testc_si256(load(block), bits) == 1
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(block: &[u8; BLOCK_BYTES]) -> __m256i {
    #[expect(unsafe_code, reason = "reads 32 bytes into one register")]
    // SAFETY: the block is 32 bytes long, and the read needs no alignment.
    unsafe {
        _mm256_loadu_si256(block.as_ptr().cast())
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn eight_lanes(lanes: &[u32; 8]) -> __m256i {
    #[expect(unsafe_code, reason = "reads 32 bytes into one register")]
    // SAFETY: eight lanes are 32 bytes long, and the read needs no alignment.
    unsafe {
        _mm256_loadu_si256(lanes.as_ptr().cast())
    }
}
