//! Canonical UUID text, and the way to read it that runs everywhere.

/// Bytes in the text of a UUID.
pub const UUID_TEXT_BYTES: usize = 36;

/// The text of a UUID, as bytes.
pub(super) type UuidText = [u8; UUID_TEXT_BYTES];

/// Where a UUID's text has its dashes.
pub(super) const DASHES: [usize; 4] = [8, 13, 18, 23];

/// The 16 bytes of a canonical UUID text: 36 bytes, lower case, dashes at 8, 13, 18 and 23.
/// Anything else is none.
pub fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let [first, last] = halves(text.try_into().ok()?)?;
    Some((u128::from(last) << 64 | u128::from(first)).to_le_bytes())
}

/// The canonical text of a UUID.
pub fn format_uuid(uuid: [u8; 16]) -> [u8; UUID_TEXT_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; UUID_TEXT_BYTES];
    let mut digits = (0..UUID_TEXT_BYTES).filter(|at| !DASHES.contains(at));
    for byte in uuid {
        for (at, digit) in digits.by_ref().take(2).zip([byte >> 4, byte & 15]) {
            text[at] = DIGITS[digit as usize];
        }
    }
    text
}

/// The UUID's first and last eight bytes as little-endian numbers, eight digits of text at a time.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the loop that reads a column is compiled once for each way to parse")]
pub(super) fn halves(text: &UuidText) -> Option<[u64; 2]> {
    let dashes = DASHES.iter().fold(0, |wrong, &at| wrong | (text[at] ^ b'-'));
    let (a, wrong_a) = eight_digits(eight(text, 0, 4));
    let (b, wrong_b) = eight_digits(eight(text, 9, 14));
    let (c, wrong_c) = eight_digits(eight(text, 19, 24));
    let (d, wrong_d) = eight_digits(eight(text, 28, 32));
    let right = dashes == 0 && (wrong_a | wrong_b | wrong_c | wrong_d) == 0;
    right.then_some([u64::from(b) << 32 | u64::from(a), u64::from(d) << 32 | u64::from(c)])
}

/// Twice four bytes of the text, the first in the lowest byte.
#[inline(always)]
#[expect(clippy::inline_always, reason = "constant positions need no bounds checks once inlined")]
fn eight(text: &UuidText, first: usize, second: usize) -> u64 {
    let four = |at: usize| u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
    u64::from(four(second)) << 32 | u64::from(four(first))
}

/// The four bytes that eight hexadecimal digits stand for, and a number that is zero if they are
/// digits.
#[inline]
fn eight_digits(text: u64) -> (u32, u64) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let plain = text & (0x7f * ONES);
    // '0' to '9' end in their value; 'a' to 'f' end in their value less nine, and have bit 6.
    let values = (plain & (0x0f * ONES)) + ((plain >> 6) & ONES) * 9;
    // Writing the values again finds everything that is not a digit, except what reads as 16 or
    // more.
    let above_nine = ((values + 6 * ONES) >> 4) & ONES;
    let written = values + 0x30 * ONES + above_nine * 0x27;
    let wrong = (written ^ text) | (values & (0xf0 * ONES));
    let bytes = (values << 4 | values >> 8) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    ((pairs | pairs >> 16) as u32, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "01901234-5678-7abc-8def-0123456789ab";

    #[test]
    fn a_canonical_text_is_its_sixteen_bytes() {
        let uuid = parse_uuid(TEXT.as_bytes()).unwrap();
        assert_eq!(uuid, 0x0190_1234_5678_7abc_8def_0123_4567_89ab_u128.to_be_bytes());
        assert_eq!(format_uuid(uuid), TEXT.as_bytes());
    }

    #[test]
    fn other_spellings_of_a_uuid_are_not_canonical() {
        let simple = TEXT.replace('-', "");
        let texts = [
            TEXT.to_uppercase(),
            simple,
            format!("{{{TEXT}}}"),
            format!("urn:uuid:{TEXT}"),
            format!("{TEXT} "),
            TEXT[..35].to_owned(),
            String::new(),
        ];
        for text in texts {
            assert_eq!(parse_uuid(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn each_byte_is_a_digit_or_a_dash_where_it_must_be() {
        for at in 0..36 {
            for byte in 0..=255_u8 {
                let mut text: [u8; 36] = TEXT.as_bytes().try_into().unwrap();
                text[at] = byte;
                let right = if DASHES.contains(&at) { byte == b'-' } else { matches!(byte, b'0'..=b'9' | b'a'..=b'f') };
                assert_eq!(parse_uuid(&text).is_some(), right, "byte {byte:#x} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn writing_and_reading_a_uuid_gives_it_back(uuid: [u8; 16]) {
            prop_assert_eq!(parse_uuid(&format_uuid(uuid)), Some(uuid));
        }
    }
}
