//! Reads UUIDs with NEON: all 32 digits in two registers.

use super::pass::{Out, Pass, Values};
use super::uuid::{DASHES, UuidText};
use std::arch::aarch64::{
    uint8x16_t, uint8x16x3_t, vaddq_u8, vandq_u8, vdupq_n_u8, vget_lane_u64, vld1q_u8, vminq_u8, vminvq_u8, vmovn_u16,
    vorrq_u16, vqtbl1q_u8, vqtbl3q_u8, vreinterpret_u64_u8, vreinterpretq_u16_u8, vshlq_n_u8, vshrq_n_u8, vshrq_n_u16,
};

/// [`Pass::run`], compiled for NEON.
#[target_feature(enable = "neon")]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    pass.run(values, out, |text| halves(text));
}

/// What [`super::uuid::halves`] gives.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn halves(text: &UuidText) -> Option<[u64; 2]> {
    let dashes = DASHES.iter().fold(0, |wrong, &at| wrong | (text[at] ^ b'-'));
    let [first, middle, last] = sixteens(text, [0, 16, 20]);
    let all = uint8x16x3_t(first, middle, last);
    // Byte 32 of the text and those after it are the end of `last`, which is 44 and after in all
    // three.
    let first = bytes([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 14, 15, 16, 17]);
    let last = bytes([19, 20, 21, 22, 24, 25, 26, 27, 28, 29, 30, 31, 44, 45, 46, 47]);
    let (first, known_first) = digit_values(vqtbl3q_u8(all, first));
    let (last, known_last) = digit_values(vqtbl3q_u8(all, last));
    let digits = vminvq_u8(vminq_u8(known_first, known_last)) != 0;
    (dashes == 0 && digits).then_some([eight_bytes(first), eight_bytes(last)])
}

/// Sixteen bytes of a text from each of three places on.
#[target_feature(enable = "neon")]
#[inline]
fn sixteens(text: &UuidText, places: [usize; 3]) -> [uint8x16_t; 3] {
    places.map(|place| text[place..].first_chunk().map_or(vdupq_n_u8(0), |chunk| bytes(*chunk)))
}

/// Sixteen bytes as a register.
#[target_feature(enable = "neon")]
#[inline]
fn bytes(bytes: [u8; 16]) -> uint8x16_t {
    #[expect(unsafe_code, reason = "reads 16 bytes into one register")]
    // SAFETY: the array is 16 bytes long, and the read needs no alignment.
    unsafe {
        vld1q_u8(bytes.as_ptr())
    }
}

/// What each digit is worth, and a byte for each that is zero if it is no digit.
#[target_feature(enable = "neon")]
#[inline]
fn digit_values(digits: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
    let upper = vshrq_n_u8::<4>(digits);
    let lower = vandq_u8(digits, vdupq_n_u8(15));
    // A digit is 3 above 0 to 9 (bit 0) or 6 above 1 to 6 (bit 1).
    let by_upper = bytes([0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let by_lower = bytes([1, 3, 3, 3, 3, 3, 3, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    let known = vandq_u8(vqtbl1q_u8(by_upper, upper), vqtbl1q_u8(by_lower, lower));
    let worth = bytes([0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    (vaddq_u8(lower, vqtbl1q_u8(worth, upper)), known)
}

/// Sixteen digits as eight bytes, the first in the lowest byte.
#[target_feature(enable = "neon")]
#[inline]
fn eight_bytes(digits: uint8x16_t) -> u64 {
    let upper = vreinterpretq_u16_u8(vshlq_n_u8::<4>(digits));
    let lower = vshrq_n_u16::<8>(vreinterpretq_u16_u8(digits));
    vget_lane_u64::<0>(vreinterpret_u64_u8(vmovn_u16(vorrq_u16(upper, lower))))
}
