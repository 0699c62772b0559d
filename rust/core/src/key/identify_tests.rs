use super::*;
use crate::columns::Validity;
use crate::key::{format_uuid, parse_uuid};
use proptest::prelude::*;

const SECRET: [u8; 32] = [42; 32];

/// Values of one column in owned form, from which each layout is built.
type Owned = Vec<Option<Vec<u8>>>;

fn bitmap(values: &Owned, offset: usize) -> Vec<u8> {
    let mut bits = vec![0xaa; (values.len() + offset).div_ceil(8) + 1];
    for (row, value) in values.iter().enumerate() {
        let at = row + offset;
        bits[at / 8] = bits[at / 8] & !(1 << (at % 8)) | u8::from(value.is_some()) << (at % 8);
    }
    bits
}

fn flat(values: &Owned) -> (Vec<i64>, Vec<u8>) {
    let mut offsets = vec![0];
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        offsets.push(bytes.len() as i64);
    }
    (offsets, bytes)
}

fn views(values: &Owned, bytes: &[u8]) -> Vec<u128> {
    let mut start = 0;
    let view = |value: &[u8]| {
        let mut view = value.len() as u128;
        if value.len() <= 12 {
            let mut inline = [0; 16];
            inline[4..4 + value.len()].copy_from_slice(value);
            view |= u128::from_le_bytes(inline);
        } else {
            assert_eq!(&bytes[start..start + value.len()], value);
            view |= (start as u128) << 96;
        }
        start += value.len();
        view
    };
    values.iter().map(|value| value.as_deref().unwrap_or_default()).map(view).collect()
}

/// The rule, one row at a time.
fn expected(codec: &Codec, columns: &[Owned], row: usize) -> (Key, Form, u8) {
    for (source, column) in columns.iter().enumerate() {
        match &column[row] {
            None => {}
            Some(text) if text.is_empty() => {}
            Some(text) if String::from_utf8_lossy(text).chars().count() > 96 => {
                return (Key::default(), Form::TooLong, source as u8);
            }
            Some(text) => {
                return match parse_uuid(text) {
                    Some(uuid) => (codec.mix(uuid), Form::Uuid, source as u8),
                    None => (codec.hash_text(text), Form::Text, source as u8),
                };
            }
        }
    }
    (Key::default(), Form::Absent, NO_SOURCE)
}

fn identified(codec: &Codec, ids: &[IdColumn<'_>], rows: Range<usize>) -> Vec<(Key, Form, u8)> {
    // What the slices held before must not matter.
    let mut keys = vec![Key { hi: 1, lo: 1 }; rows.len()];
    let mut forms = vec![Form::Text; rows.len()];
    let mut sources = vec![7; rows.len()];
    identify(codec, ids, rows, &mut keys, &mut forms, &mut sources);
    keys.into_iter().zip(forms).zip(sources).map(|((key, form), source)| (key, form, source)).collect()
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Vec::new())),
        6 => any::<[u8; 16]>().prop_map(|uuid| Some(format_uuid(uuid).to_vec())),
        1 => any::<[u8; 16]>().prop_map(|uuid| Some(format_uuid(uuid).to_ascii_uppercase())),
        2 => "\\PC{0,40}".prop_map(|text| Some(text.into_bytes())),
        1 => "[ é😀]{90,100}".prop_map(|text| Some(text.into_bytes())),
    ]
}

fn columns() -> impl Strategy<Value = (Vec<Owned>, Range<usize>)> {
    (1..4_usize, 1..70_usize).prop_flat_map(|(columns, rows)| {
        let column = prop::collection::vec(value(), rows);
        let range = (0..=rows, 0..=rows).prop_map(|(a, b)| a.min(b)..a.max(b));
        (prop::collection::vec(column, columns), range)
    })
}

proptest! {
    #[test]
    fn every_layout_of_text_follows_the_key_chain((columns, rows) in columns(), offset in 0..9_usize) {
        let codec = Codec::new(&SECRET);
        let want: Vec<_> = rows.clone().map(|row| expected(&codec, &columns, row)).collect();

        let flats: Vec<_> = columns.iter().map(flat).collect();
        let narrow: Vec<Vec<i32>> = flats.iter().map(|(at, _)| at.iter().map(|&at| at as i32).collect()).collect();
        let bits: Vec<_> = columns.iter().map(|column| bitmap(column, offset)).collect();
        let viewed: Vec<_> = columns.iter().zip(&flats).map(|(column, (_, bytes))| views(column, bytes)).collect();
        macro_rules! all {
            ($layout:expr) => {{
                let ids: Vec<IdColumn<'_>> = (0..columns.len()).map($layout).collect();
                identified(&codec, &ids, rows.clone())
            }};
        }
        let nulls = |column: usize| Validity::new(&bits[column], offset);
        let utf8 = |column: usize, validity| IdColumn::Utf8 { offsets: &narrow[column], values: &flats[column].1, validity };
        let large = |column: usize, validity| IdColumn::LargeUtf8 { offsets: &flats[column].0, values: &flats[column].1, validity };
        let reversed: Vec<u32> = (0..columns[0].len() as u32).rev().collect();

        prop_assert_eq!(&all!(|column| utf8(column, nulls(column))), &want);
        // Null and "" are both absent, so leaving the nulls out changes nothing.
        prop_assert_eq!(&all!(|column| utf8(column, Validity::all())), &want);
        prop_assert_eq!(&all!(|column| large(column, nulls(column))), &want);
        prop_assert_eq!(&all!(|column| large(column, Validity::all())), &want);
        prop_assert_eq!(&all!(|column| IdColumn::Utf8View {
            views: &viewed[column][..],
            buffers: vec![&flats[column].1[..]],
            validity: nulls(column),
        }), &want);
        let mirrored: Vec<_> = rows.clone().map(|row| expected(&codec, &columns, columns[0].len() - 1 - row)).collect();
        prop_assert_eq!(&all!(|column| IdColumn::Dictionary {
            indices: reversed.clone(),
            values: Box::new(utf8(column, nulls(column))),
            validity: Validity::all(),
        }), &mirrored);
    }

    #[test]
    fn a_uuid_of_sixteen_bytes_is_its_canonical_text(uuids: Vec<Option<[u8; 16]>>) {
        let codec = Codec::new(&SECRET);
        let texts: Owned = uuids.iter().map(|uuid| uuid.map(|uuid| format_uuid(uuid).to_vec())).collect();
        let values: Vec<u8> = uuids.iter().flat_map(|uuid| uuid.unwrap_or_default()).collect();
        let bits = bitmap(&texts, 3);
        let ids = [IdColumn::Uuid { values: &values, validity: Validity::new(&bits, 3) }];
        let want: Vec<_> = (0..uuids.len()).map(|row| expected(&codec, std::slice::from_ref(&texts), row)).collect();
        prop_assert_eq!(identified(&codec, &ids, 0..uuids.len()), want);
    }
}

#[test]
fn without_id_columns_every_row_is_absent() {
    let absent = (Key::default(), Form::Absent, NO_SOURCE);
    assert_eq!(identified(&Codec::new(&SECRET), &[], 5..8), vec![absent; 3]);
}

#[test]
fn a_too_long_id_does_not_fall_back_to_the_next_column() {
    let long = "x".repeat(97);
    let first = IdColumn::Utf8 { offsets: &[0, 97], values: long.as_bytes(), validity: Validity::all() };
    let second = IdColumn::Utf8 { offsets: &[0, 5], values: b"track", validity: Validity::all() };
    let ids = [first, second];
    assert_eq!(identified(&Codec::new(&SECRET), &ids, 0..1), vec![(Key::default(), Form::TooLong, 0)]);
}

#[test]
fn runs_of_uuids_are_identified_as_rows_by_themselves() {
    let codec = Codec::new(&SECRET);
    // Runs of all lengths about sixteen, with something else between: another length, another case,
    // nothing.
    let mut values: Owned = Vec::new();
    let others = [b"urn:1".to_vec(), format_uuid([0xab; 16]).to_ascii_uppercase(), Vec::new(), vec![b'x'; 36]];
    for length in 0..70_u8 {
        values.extend((0..length).map(|number| Some(format_uuid([length ^ number.wrapping_mul(37); 16]).to_vec())));
        values.push(Some(others[usize::from(length) % 4].clone()));
    }
    let (offsets, bytes) = flat(&values);
    let narrow: Vec<i32> = offsets.iter().map(|at| *at as i32).collect();
    let rows = 3..values.len() - 5;
    let want: Vec<_> = rows.clone().map(|row| expected(&codec, std::slice::from_ref(&values), row)).collect();
    let validity = Validity::all();
    let ids = [IdColumn::Utf8 { offsets: &narrow, values: &bytes, validity }];
    assert_eq!(identified(&codec, &ids, rows.clone()), want);
    let ids = [IdColumn::LargeUtf8 { offsets: &offsets, values: &bytes, validity }];
    assert_eq!(identified(&codec, &ids, rows), want);
}

#[test]
fn blanks_are_an_id() {
    let ids = [IdColumn::Utf8 { offsets: &[0, 1], values: b" ", validity: Validity::all() }];
    let codec = Codec::new(&SECRET);
    assert_eq!(identified(&codec, &ids, 0..1), vec![(codec.hash_text(b" "), Form::Text, 0)]);
}
