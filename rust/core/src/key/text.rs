//! The limit on the length of an id.

/// How many Unicode code points an id may have.
pub const MAX_CODE_POINTS: usize = 96;

/// Whether a text (valid UTF-8) has more code points than an id may have.
#[inline]
pub fn too_long(text: &[u8]) -> bool {
    // A code point takes one to four bytes, so most texts are settled by their length.
    text.len() > MAX_CODE_POINTS && (text.len() > 4 * MAX_CODE_POINTS || code_points(text) > MAX_CODE_POINTS)
}

/// Every byte but the continuations (`0b10......`) begins a code point.
#[cold]
fn code_points(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ninety_six_code_points_pass_and_ninety_seven_do_not() {
        for point in ["a", "é", "€", "😀"] {
            assert!(!too_long(point.repeat(96).as_bytes()), "96 of {point}");
            assert!(too_long(point.repeat(97).as_bytes()), "97 of {point}");
        }
        assert!(!too_long(b""));
    }

    proptest! {
        #[test]
        fn the_limit_counts_code_points(text in "\\PC{80,110}") {
            prop_assert_eq!(too_long(text.as_bytes()), text.chars().count() > 96);
        }
    }
}
