use super::*;
use proptest::prelude::*;

#[test]
fn the_text_form_is_read_by_its_numbers_and_not_by_its_padding() {
    let expected = header(0, 942_712, 1_119_170, 0);
    for text in ["(0-0000942712-0001119170-0)", "(0-942712-1119170-0)", "(000-00000000000000942712-01119170-00)"] {
        assert_eq!(PartHeader::parse(text.as_bytes()), Ok(expected));
    }
    assert_eq!(expected.to_string(), "(0-0000942712-0001119170-0)");
}

#[test]
fn one_to_twenty_digits_parse_and_an_overflow_does_not() {
    let most = PartHeader::parse(b"(2147483647-0-18446744073709551615-4294967295)");
    assert_eq!(most, Ok(header(MAX_EPOCH, 0, u64::MAX, u32::MAX)));
    assert_eq!(PartHeader::parse(b"(0-0-18446744073709551616-0)"), Err(BadHeader::Overflow));
    assert_eq!(PartHeader::parse(b"(0-0-99999999999999999999-0)"), Err(BadHeader::Overflow));
    assert_eq!(PartHeader::parse(b"(0-0-1-4294967296)"), Err(BadHeader::Overflow));
    assert_eq!(PartHeader::parse(b"(0-0-000000000000000000001-0)"), Err(BadHeader::Malformed));
}

#[test]
fn an_epoch_that_no_receiver_asks_for_is_damage() {
    for epoch in [MAX_EPOCH + 1, u64::MAX] {
        assert_eq!(PartHeader::parse(format!("({epoch}-0-1-0)").as_bytes()), Err(BadHeader::Epoch));
        assert_eq!(PartHeader::new(epoch, 0, 1, 0), Err(BadHeader::Epoch));
    }
    assert_eq!(Reason::from(BadHeader::Epoch).decision(), Decision::Corrupt);
}

#[test]
fn other_text_is_malformed() {
    for text in [
        "",
        "(",
        "()",
        "0-1-2-0",
        "(0-1-2)",
        "(0-1-2-0",
        "(0-1-2-0) ",
        " (0-1-2-0)",
        "(0-1-2-0-0)",
        "(--1-2-0)",
        "(0-1-2-)",
        "(-1-2-0)",
        "(0-+1-2-0)",
        "(0-1x-2-0)",
        "(0-1.0-2-0)",
        "(0-1-2-0))",
        "(0_1_2_0)",
        "(0-1-2-0\u{661})",
    ] {
        assert_eq!(PartHeader::parse(text.as_bytes()), Err(BadHeader::Malformed), "{text:?}");
    }
}

#[test]
fn an_end_before_the_beginning_is_refused() {
    assert_eq!(PartHeader::parse(b"(0-0000942712-0000942711-0)"), Err(BadHeader::Backwards));
    assert_eq!(PartHeader::new(0, 2, 1, 0), Err(BadHeader::Backwards));
}

proptest! {
    #[test]
    fn every_header_reads_back_from_its_text(resend_count in 0..=MAX_EPOCH, a: u64, b: u64, seq: u32) {
        let written = header(resend_count, a.min(b), a.max(b), seq);
        prop_assert_eq!(PartHeader::parse(written.to_string().as_bytes()), Ok(written));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(text: Vec<u8>) {
        if let Ok(read) = PartHeader::parse(&text) {
            prop_assert_eq!(PartHeader::parse(read.to_string().as_bytes()), Ok(read));
        }
    }
}
