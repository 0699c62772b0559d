//! Reads UUIDs with AVX2: all 32 digits at once.

use super::pass::{Out, Pass, Values};
use super::uuid::UuidText;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi128_si64, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_castsi256_si128, _mm256_cmpeq_epi8, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_maddubs_epi16,
    _mm256_movemask_epi8, _mm256_or_si256, _mm256_packus_epi16, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_setr_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
};

/// Bits at 8, 13, 18 and 23.
const DASH_BITS: i32 = 1 << 8 | 1 << 13 | 1 << 18 | 1 << 23;

/// [`Pass::run`], compiled for AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    pass.run(values, out, |text| halves(text));
}

/// What [`super::uuid::halves`] gives.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn halves(text: &UuidText) -> Option<[u64; 2]> {
    let (front, back) = load(text);
    // No digit is a dash, so the dashes must be these and no others.
    let dashes = _mm256_movemask_epi8(_mm256_cmpeq_epi8(front, _mm256_set1_epi8(b'-' as i8)));
    let (values, not_digits) = digit_values(digits(front, back));
    let not_digits = _mm256_movemask_epi8(_mm256_cmpeq_epi8(not_digits, _mm256_setzero_si256()));
    // Two digits make a byte; both eight bytes end up in the lower half of their lane.
    let bytes = _mm256_maddubs_epi16(values, _mm256_set1_epi16(0x0110));
    let bytes = _mm256_packus_epi16(bytes, bytes);
    let first = _mm_cvtsi128_si64(_mm256_castsi256_si128(bytes)) as u64;
    let last = _mm_cvtsi128_si64(_mm256_extracti128_si256::<1>(bytes)) as u64;
    ((dashes ^ DASH_BITS) | not_digits == 0).then_some([first, last])
}

/// The bytes 0 to 31 and 4 to 35 of a text.
#[target_feature(enable = "avx2")]
#[inline]
fn load(text: &UuidText) -> (__m256i, __m256i) {
    let start = text.as_ptr();
    #[expect(unsafe_code, reason = "reads 32 bytes into one register")]
    // SAFETY: both reads stay within the 36 bytes of the text, and need no alignment.
    unsafe {
        (_mm256_loadu_si256(start.cast()), _mm256_loadu_si256(start.add(4).cast()))
    }
}

/// The 32 digits in order, without the dashes: 16 in each lane.
#[target_feature(enable = "avx2")]
#[inline]
fn digits(front: __m256i, back: __m256i) -> __m256i {
    const NONE: i8 = -1;
    // Lanes of `front` begin at text 0 and 16; they lack the last digits of their half.
    #[rustfmt::skip]
    let from_front = _mm256_setr_epi8(
        0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 14, 15, NONE, NONE,
        3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, NONE, NONE, NONE, NONE,
    );
    // Lanes of `back` begin at text 4 and 20.
    #[rustfmt::skip]
    let from_back = _mm256_setr_epi8(
        NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 12, 13,
        NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 12, 13, 14, 15,
    );
    _mm256_or_si256(_mm256_shuffle_epi8(front, from_front), _mm256_shuffle_epi8(back, from_back))
}

/// What each digit is worth, and a byte for each that is zero if it is no digit.
#[target_feature(enable = "avx2")]
#[inline]
fn digit_values(digits: __m256i) -> (__m256i, __m256i) {
    let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(digits), _mm256_set1_epi8(15));
    // A digit is 3 above 0 to 9 (bit 0) or 6 above 1 to 6 (bit 1). Bytes from 0x80 on find nothing
    // in `by_lower`.
    let by_upper = table([0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let by_lower = table([1, 3, 3, 3, 3, 3, 3, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    let known = _mm256_and_si256(_mm256_shuffle_epi8(by_upper, upper), _mm256_shuffle_epi8(by_lower, digits));
    let zeros = table([0, 0, 0, -(b'0' as i8), 0, 0, 10 - b'a' as i8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    (_mm256_add_epi8(digits, _mm256_shuffle_epi8(zeros, upper)), known)
}

/// The same 16 entries for both lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn table(entries: [i8; 16]) -> __m256i {
    #[expect(unsafe_code, reason = "reads 16 bytes into one register")]
    // SAFETY: both types are 16 plain bytes.
    let entries: __m128i = unsafe { std::mem::transmute(entries) };
    _mm256_broadcastsi128_si256(entries)
}
