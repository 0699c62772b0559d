//! Reads and mixes sixteen UUIDs at a time with AVX-512, VBMI included.

use super::codec::Round;
use super::pass::{Out, Pass, TOGETHER, Values};
use super::uuid::{DASHES, UUID_TEXT_BYTES, UuidText};
use super::{Codec, Key};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512, _mm512_maddubs_epi16, _mm512_mask_blend_epi32,
    _mm512_mask_test_epi8_mask, _mm512_maskz_loadu_epi8, _mm512_movepi8_mask, _mm512_mul_epu32, _mm512_packus_epi16,
    _mm512_permutex2var_epi8, _mm512_permutex2var_epi64, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi64,
    _mm512_setr_epi64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

/// Results of the three-operand instruction: `a | b | c`, `a ^ b ^ c` and `a | (b ^ c)`.
const ANY: i32 = 0xfe;
const ODD: i32 = 0x96;
const DIFFERS: i32 = 0xf6;

/// Rows of one register.
const EIGHT: usize = 8;

/// The bytes of a text.
const TEXT: u64 = (1 << UUID_TEXT_BYTES) - 1;

/// Those of them that are dashes.
const DASH_BITS: u64 = 1 << DASHES[0] | 1 << DASHES[1] | 1 << DASHES[2] | 1 << DASHES[3];

/// Where the digits of two texts stand, which lie in one register each.
static DIGITS: [u8; 64] = digits();

/// What each byte below 128 is worth as a digit; 128 if it is none.
static WORTH: [[u8; 64]; 2] = worth();

const fn digits() -> [u8; 64] {
    let (mut places, mut at, mut digit) = ([0; 64], 0, 0);
    while at < UUID_TEXT_BYTES {
        if DASH_BITS >> at & 1 == 0 {
            places[digit] = at as u8;
            places[digit + 32] = 64 + at as u8;
            digit += 1;
        }
        at += 1;
    }
    places
}

const fn worth() -> [[u8; 64]; 2] {
    let (mut worth, mut byte) = ([[128; 64]; 2], 0);
    while byte < 128 {
        match byte as u8 {
            b'0'..=b'9' => worth[byte / 64][byte % 64] = byte as u8 - b'0',
            b'a'..=b'f' => worth[byte / 64][byte % 64] = byte as u8 - b'a' + 10,
            _ => {}
        }
        byte += 1;
    }
    worth
}

/// Eight halves for each of two groups of rows, which are mixed side by side: a product has to wait
/// for the round before.
type Both = [__m512i; 2];

/// Whether this processor supports it.
#[inline]
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vbmi")
        && std::arch::is_x86_feature_detected!("avx2")
}

/// [`Pass::run`], compiled for AVX-512.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vbmi")]
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    pass.run_together(
        values,
        out,
        |codec, texts, keys| keys_of(codec, texts, keys),
        |text| super::simd_avx2::halves(text),
    );
}

/// Writes the keys of UUIDs, as [`super::uuid::halves`] and [`Codec::mix`] give them, sixteen at a
/// time. Stops at the first sixteen that contain a text which is no UUID. Answers how many it
/// wrote.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vbmi")]
pub(super) fn keys_of(codec: &Codec, texts: &[UuidText], keys: &mut [Key]) -> usize {
    let mut done = 0;
    for (texts, keys) in texts.as_chunks::<TOGETHER>().0.iter().zip(keys.as_chunks_mut::<TOGETHER>().0) {
        let (front, back) = texts.split_at(EIGHT);
        let (Some(front), Some(back)) = (front.first_chunk(), back.first_chunk()) else { break };
        let ((front, wrong_front), (back, wrong_back)) = (halves(front), halves(back));
        if wrong_front | wrong_back != 0 {
            break;
        }
        let [lo, hi] = mixed(codec.rounds(), [front[0], back[0]], [front[1], back[1]]);
        let (front, back) = keys.split_at_mut(EIGHT);
        write(front, lo[0], hi[0]);
        write(back, lo[1], hi[1]);
        done += TOGETHER;
    }
    done
}

/// The first and the last eight bytes of each UUID, in the order of the texts; and a number that is
/// zero if all are UUIDs.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vbmi")]
#[inline]
fn halves(texts: &[UuidText; EIGHT]) -> ([__m512i; 2], u64) {
    let zero = _mm512_setzero_si512();
    let (mut no_dash, mut no_digit) = (zero, zero);
    let mut pairs = [zero; EIGHT / 2];
    for (pair, [even, odd]) in pairs.iter_mut().zip(texts.as_chunks().0) {
        let (even, odd) = (load(even), load(odd));
        let dashes = _mm512_set1_epi8(b'-' as i8);
        no_dash = _mm512_ternarylogic_epi64::<DIFFERS>(no_dash, even, dashes);
        no_dash = _mm512_ternarylogic_epi64::<DIFFERS>(no_dash, odd, dashes);
        let digits = _mm512_permutex2var_epi8(even, sixty_four(&DIGITS), odd);
        let worth = _mm512_permutex2var_epi8(sixty_four(&WORTH[0]), digits, sixty_four(&WORTH[1]));
        // A byte from 128 on finds the worth of another: it stands out by itself.
        no_digit = _mm512_ternarylogic_epi64::<ANY>(no_digit, digits, worth);
        *pair = _mm512_maddubs_epi16(worth, _mm512_set1_epi16(0x0110));
    }
    let wrong = _mm512_mask_test_epi8_mask(DASH_BITS, no_dash, no_dash) | _mm512_movepi8_mask(no_digit);
    // Each holds four UUIDs, in eights of bytes: firsts of the 1st and 3rd, lasts of these, then
    // the same of the 2nd and 4th.
    let four = _mm512_packus_epi16(pairs[0], pairs[1]);
    let others = _mm512_packus_epi16(pairs[2], pairs[3]);
    let firsts = _mm512_setr_epi64(0, 4, 1, 5, 8, 12, 9, 13);
    let lasts = _mm512_setr_epi64(2, 6, 3, 7, 10, 14, 11, 15);
    let of = |places| _mm512_permutex2var_epi64(four, places, others);
    ([of(firsts), of(lasts)], wrong)
}

/// What [`Codec::mix`] does: the lower and the upper halves of the keys.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vbmi")]
#[inline]
fn mixed(rounds: [Round; 4], mut left: Both, mut right: Both) -> [Both; 2] {
    let [first, second, third, fourth] = rounds;
    left = with(left, first, right);
    right = with(right, second, left);
    left = with(left, third, right);
    right = with(right, fourth, left);
    [left, right]
}

/// One half, with what a round makes of the other: the two halves of a product of 128 bits.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vbmi")]
#[inline]
fn with(half: Both, round: Round, other: Both) -> Both {
    const LOWER: u16 = 0x5555;
    let before = _mm512_set1_epi64(round.before.cast_signed());
    let odd = _mm512_set1_epi64(round.odd.cast_signed());
    let upper_odd = _mm512_srli_epi64::<32>(odd);
    let rest = _mm512_set1_epi64(0xffff_ffff);
    let a = [_mm512_xor_si512(other[0], before), _mm512_xor_si512(other[1], before)];
    let b = [_mm512_srli_epi64::<32>(a[0]), _mm512_srli_epi64::<32>(a[1])];
    let low = [_mm512_mul_epu32(a[0], odd), _mm512_mul_epu32(a[1], odd)];
    let middle = [_mm512_mul_epu32(b[0], odd), _mm512_mul_epu32(b[1], odd)];
    let other_middle = [_mm512_mul_epu32(a[0], upper_odd), _mm512_mul_epu32(a[1], upper_odd)];
    let high = [_mm512_mul_epu32(b[0], upper_odd), _mm512_mul_epu32(b[1], upper_odd)];
    // Neither sum overflows: the largest product leaves room for two more halves.
    let carry = [_mm512_srli_epi64::<32>(low[0]), _mm512_srli_epi64::<32>(low[1])];
    let middle = [_mm512_add_epi64(middle[0], carry[0]), _mm512_add_epi64(middle[1], carry[1])];
    let carry = [_mm512_and_si512(middle[0], rest), _mm512_and_si512(middle[1], rest)];
    let lower = [_mm512_add_epi64(other_middle[0], carry[0]), _mm512_add_epi64(other_middle[1], carry[1])];
    let carry = [_mm512_srli_epi64::<32>(middle[0]), _mm512_srli_epi64::<32>(middle[1])];
    let high = [_mm512_add_epi64(high[0], carry[0]), _mm512_add_epi64(high[1], carry[1])];
    let carry = [_mm512_srli_epi64::<32>(lower[0]), _mm512_srli_epi64::<32>(lower[1])];
    let high = [_mm512_add_epi64(high[0], carry[0]), _mm512_add_epi64(high[1], carry[1])];
    let upper = [_mm512_slli_epi64::<32>(lower[0]), _mm512_slli_epi64::<32>(lower[1])];
    let low = [_mm512_mask_blend_epi32(LOWER, upper[0], low[0]), _mm512_mask_blend_epi32(LOWER, upper[1], low[1])];
    [
        _mm512_ternarylogic_epi64::<ODD>(half[0], high[0], low[0]),
        _mm512_ternarylogic_epi64::<ODD>(half[1], high[1], low[1]),
    ]
}

/// Writes keys whose lower and upper halves stand in two registers.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vbmi")]
#[inline]
fn write(keys: &mut [Key], lo: __m512i, hi: __m512i) {
    let of = |places| _mm512_permutex2var_epi64(hi, places, lo);
    let (front, back) =
        (of(_mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11)), of(_mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15)));
    let (four, others) = keys.split_at_mut(EIGHT / 2);
    #[expect(unsafe_code, reason = "writes four keys from one register, twice")]
    // SAFETY: a key is 16 bytes, `hi` before `lo` (`repr(C)`), so four of them are 64; the writes
    // need no alignment.
    unsafe {
        _mm512_storeu_si512(four.as_mut_ptr().cast(), front);
        _mm512_storeu_si512(others.as_mut_ptr().cast(), back);
    }
}

/// A text and zeros after it.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load(text: &UuidText) -> __m512i {
    #[expect(unsafe_code, reason = "reads 36 bytes into one register")]
    // SAFETY: the mask keeps the read within the 36 bytes of the text, and it needs no alignment.
    unsafe {
        _mm512_maskz_loadu_epi8(TEXT, text.as_ptr().cast())
    }
}

/// Sixty-four bytes as a register.
#[target_feature(enable = "avx512f")]
#[inline]
fn sixty_four(bytes: &[u8; 64]) -> __m512i {
    #[expect(unsafe_code, reason = "reads 64 bytes into one register")]
    // SAFETY: the array is 64 bytes long, and the read needs no alignment.
    unsafe {
        _mm512_loadu_si512(bytes.as_ptr().cast())
    }
}
