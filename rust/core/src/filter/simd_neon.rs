//! Tests a block with NEON: four lanes at a time.

use super::probe::{Pages, Probe, Rows};
use super::{BLOCK_BYTES, SALTS};
use crate::Result;
use crate::key::Key;
use std::arch::aarch64::{
    uint32x4_t, vbicq_u32, vdupq_n_u32, vld1q_u8, vld1q_u32, vmaxvq_u32, vmulq_u32, vorrq_u32, vreinterpretq_s32_u32,
    vreinterpretq_u32_u8, vshlq_u32, vshrq_n_u32,
};
use std::arch::asm;

/// [`Probe::run`], compiled for NEON.
#[target_feature(enable = "neon")]
pub(super) fn run<P: Pages>(probe: &Probe<'_, P>, rows: Rows<'_>, survivors: &mut Vec<u32>) -> Result<()> {
    probe.run(rows, survivors, fetch, |block, key| contains(block, key))
}

/// Prefetches the line of a block, without waiting for it.
#[inline]
fn fetch(block: &[u8; BLOCK_BYTES]) {
    #[expect(unsafe_code, reason = "there is no stable function to ask for a line")]
    // SAFETY: a prefetch reads nothing that the program sees, changes no register and cannot fault.
    unsafe {
        asm!("prfm pldl1keep, [{block}]", block = in(reg) block.as_ptr(), options(nostack, preserves_flags, readonly));
    }
}

/// What [`super::contains_block`] says.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn contains(block: &[u8; BLOCK_BYTES], key: Key) -> bool {
    let hash = vdupq_n_u32(key.lo as u32);
    let missing = |half: usize| {
        let products = vmulq_u32(hash, salts(half));
        let bits = vshlq_u32(vdupq_n_u32(1), vreinterpretq_s32_u32(vshrq_n_u32::<27>(products)));
        vbicq_u32(bits, lanes(block, half))
    };
    vmaxvq_u32(vorrq_u32(missing(0), missing(1))) == 0
}

/// Half of the salts.
#[target_feature(enable = "neon")]
#[inline]
fn salts(half: usize) -> uint32x4_t {
    let salts = &SALTS.as_chunks::<4>().0[half];
    #[expect(unsafe_code, reason = "reads 16 bytes into one register")]
    // SAFETY: four salts are 16 bytes long.
    unsafe {
        vld1q_u32(salts.as_ptr())
    }
}

/// Half of a block.
#[target_feature(enable = "neon")]
#[inline]
fn lanes(block: &[u8; BLOCK_BYTES], half: usize) -> uint32x4_t {
    let bytes = &block.as_chunks::<16>().0[half];
    #[expect(unsafe_code, reason = "reads 16 bytes into one register")]
    // SAFETY: the bytes are 16, and the read needs no alignment.
    let bytes = unsafe { vld1q_u8(bytes.as_ptr()) };
    vreinterpretq_u32_u8(bytes)
}
