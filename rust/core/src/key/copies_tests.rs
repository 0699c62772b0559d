use super::*;
use crate::key::{Codec, format_uuid};
use proptest::prelude::*;
use std::collections::HashMap;

/// A batch of texts, `None` where there is no usable key.
fn identified(codec: &Codec, ids: &[Option<String>]) -> (Vec<Key>, Vec<Form>) {
    let identify = |id: &Option<String>| match id {
        None => (Key::default(), Form::TooLong),
        Some(text) => match crate::key::parse_uuid(text.as_bytes()) {
            Some(uuid) => (codec.mix(uuid), Form::Uuid),
            None => (codec.hash_text(text.as_bytes()), Form::Text),
        },
    };
    ids.iter().map(identify).unzip()
}

fn expected(ids: &[Option<String>]) -> Vec<Copy> {
    let mut firsts = HashMap::new();
    let mut copies = Vec::new();
    for (row, id) in (0..).zip(ids) {
        let Some(id) = id else { continue };
        let first = *firsts.entry(id).or_insert(row);
        if first != row {
            copies.push(Copy { row, first });
        }
    }
    copies
}

fn found(codec: &Codec, ids: &[Option<String>]) -> Vec<Copy> {
    let (keys, forms) = identified(codec, ids);
    copies(&keys, &forms, &|a, b| ids[a as usize] == ids[b as usize])
}

fn uuid(number: u32) -> String {
    let text = format_uuid(u128::from(number).to_be_bytes());
    String::from_utf8(text.to_vec()).unwrap()
}

fn id() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        3 => (0..200_u32).prop_map(|number| Some(uuid(number))),
        3 => (0..200_u32).prop_map(|number| Some(format!("order-{number}"))),
    ]
}

proptest! {
    #[test]
    fn copies_are_the_rows_whose_id_stands_above(ids in prop::collection::vec(id(), 0..700)) {
        prop_assert_eq!(found(&Codec::new(&[1; 32]), &ids), expected(&ids));
    }

    #[test]
    fn texts_that_share_a_key_are_no_copies(ids in prop::collection::vec(id(), 0..300)) {
        prop_assert_eq!(found(&Codec::colliding_for_tests(&[1; 32]), &ids), expected(&ids));
    }
}

#[test]
fn copies_are_found_in_a_large_batch() {
    let ids: Vec<_> = (0..300_000_u32).map(|row| Some(uuid(if row % 37 == 0 { row / 2 } else { row }))).collect();
    let want = expected(&ids);
    assert!(want.len() > 3_000);
    assert_eq!(found(&Codec::new(&[1; 32]), &ids), want);
}

#[test]
fn all_copies_are_suspects_however_the_rows_are_divided() {
    let ids: Vec<_> = (0..100_000_u32).map(|row| (row % 5 > 0).then(|| uuid(row % 37_000))).collect();
    let (keys, forms) = identified(&Codec::new(&[1; 32]), &ids);
    let mut tags = vec![NO_TAG; keys.len()];
    write_tags(&keys, &forms, &mut tags);
    let copies = expected(&ids);
    let later = |suspects: &[u32]| {
        let suspects: std::collections::HashSet<_> = suspects.iter().collect();
        copies.iter().all(|copy| suspects.contains(&copy.row))
    };
    assert!(later(&Seen::new(&tags, 0).suspects));
    for size in [50_000, 33_334, 14_300] {
        let parts: Vec<_> = (0..).step_by(size).zip(tags.chunks(size)).collect();
        let seen: Vec<_> = parts.iter().map(|(first, tags)| Seen::new(tags, *first as u32)).collect();
        let mut suspects: Vec<u32> = seen.iter().flat_map(|part| part.suspects.clone()).collect();
        for (part, (first, tags)) in parts.iter().enumerate() {
            suspects.extend(seen[..part].iter().flat_map(|earlier| earlier.again(tags, *first as u32)));
        }
        assert!(later(&suspects));
    }
}

#[test]
fn rows_with_unique_tags_are_not_compared() {
    let mut tags: Vec<Tag> = (1..=1000).collect();
    tags[700] = tags[3];
    assert_eq!(alike(&tags, vec![3, 5, 600, 700]), [3, 700]);
    let many: Vec<u32> = (0..100).collect();
    assert_eq!(alike(&tags, many.clone()), many);
}

#[test]
fn a_batch_of_one_repeated_id_is_one_document_and_its_copies() {
    let ids = vec![Some(uuid(7)); 1000];
    let want: Vec<_> = (1..1000).map(|row| Copy { row, first: 0 }).collect();
    assert_eq!(found(&Codec::new(&[1; 32]), &ids), want);
}

#[test]
fn a_uuid_and_a_text_of_one_key_are_not_copies() {
    let keys = [Key { hi: 1, lo: 2 }; 4];
    let forms = [Form::Uuid, Form::Text, Form::Uuid, Form::Text];
    let want = [Copy { row: 2, first: 0 }, Copy { row: 3, first: 1 }];
    assert_eq!(copies(&keys, &forms, &|_, _| true), want);
}

#[test]
fn rows_without_a_usable_key_are_not_copies() {
    let keys = [Key::default(); 4];
    let forms = [Form::Absent, Form::TooLong, Form::Absent, Form::TooLong];
    assert_eq!(copies(&keys, &forms, &|_, _| true), []);
}

#[test]
fn an_empty_batch_has_no_copies() {
    assert_eq!(copies(&[], &[], &|_, _| true), []);
}
