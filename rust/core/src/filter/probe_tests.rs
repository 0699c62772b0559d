use super::*;
use crate::Error;
use crate::filter::{blocks_for, contains_block, insert, probe};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Remembers which pages were verified; fails on one page if asked to.
#[derive(Default)]
struct Watched {
    verified: RefCell<BTreeSet<u64>>,
    damaged: Option<u64>,
    /// Says that all are verified, whatever was.
    all: bool,
}

impl Pages for Watched {
    fn is_verified(&self, page: u64) -> bool {
        self.verified.borrow().contains(&page)
    }

    fn are_verified(&self) -> bool {
        self.all
    }

    fn verify(&self, page: u64) -> Result<()> {
        if self.damaged == Some(page) {
            return Err(Error::State(format!("page {page} is damaged")));
        }
        assert!(self.verified.borrow_mut().insert(page), "page {page} is verified twice");
        Ok(())
    }
}

const FORMS: [Form; 4] = [Form::Absent, Form::TooLong, Form::Uuid, Form::Text];

fn key(number: u64) -> Key {
    crate::key::Codec::new(&[8; 32]).mix(u128::from(number).to_be_bytes())
}

fn filled(keys: u64) -> Vec<u8> {
    let mut data = vec![0; blocks_for(keys, 10) as usize * BLOCK_BYTES];
    (0..keys).for_each(|number| insert(&mut data, key(number)));
    data
}

fn one_by_one(data: &[u8], key: Key) -> bool {
    let start = block_of(key, blocks_in(data)) as usize * BLOCK_BYTES;
    contains_block(data[start..].first_chunk().unwrap(), key)
}

proptest! {
    #[test]
    fn a_probe_of_many_is_many_probes_of_one(
        data in prop::collection::vec(any::<u8>(), 32..2000),
        shift in 0..32_usize,
        rows in prop::collection::vec((any::<u64>(), any::<u64>(), 0..4_usize), 0..600),
        first_row in 0..1000_u32,
    ) {
        // Half of all bits set would pass one key in 256: set more.
        let data: Vec<u8> = data.into_iter().map(|byte| byte | byte.rotate_left(3) | 0x5a).collect();
        let data = &data[shift.min(data.len() - 32)..];
        let keys: Vec<_> = rows.iter().map(|&(hi, lo, _)| Key { hi, lo }).collect();
        let forms: Vec<_> = rows.iter().map(|row| FORMS[row.2]).collect();
        let pass = |row: &usize| forms[*row].is_usable() && one_by_one(data, keys[*row]);
        let want: Vec<u32> = (0..rows.len()).filter(pass).map(|row| first_row + row as u32).collect();

        for all in [false, true] {
            let pages = Watched { all, ..Watched::default() };
            let mut survivors = vec![77];
            probe(data, &keys, &forms, first_row, &pages, &mut survivors).unwrap();
            prop_assert_eq!(survivors[0], 77);
            prop_assert_eq!(&survivors[1..], &want);
            prop_assert!(!all || pages.verified.borrow().is_empty(), "nothing is verified again");
        }
    }
}

#[test]
fn only_pages_that_usable_keys_need_are_verified_once() {
    let data = filled(100_000);
    let keys: Vec<_> = (0..60).map(key).collect();
    let forms: Vec<_> = (0..60).map(|row| FORMS[row % 4]).collect();
    let page = |key: &Key| block_of(*key, blocks_in(&data)) * 32 / 4096;
    let needed = keys.iter().zip(&forms).filter(|(_, form)| form.is_usable()).map(|(key, _)| page(key)).collect();

    let pages = Watched::default();
    for _ in 0..2 {
        let mut survivors = Vec::new();
        probe(&data, &keys, &forms, 0, &pages, &mut survivors).unwrap();
        assert_eq!(survivors.len(), 30);
    }
    assert_eq!(*pages.verified.borrow(), needed);
}

#[test]
fn a_damaged_page_fails_the_probe_that_needs_it() {
    let data = filled(100_000);
    let needed = block_of(key(5), blocks_in(&data)) * 32 / 4096;
    let pages = Watched { damaged: Some(needed), ..Watched::default() };
    let keys = [key(5)];
    let mut survivors = Vec::new();
    let error = probe(&data, &keys, &[Form::Uuid], 0, &pages, &mut survivors).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(survivors.is_empty());
    // The same key without a usable form does not touch the page.
    probe(&data, &keys, &[Form::TooLong], 0, &pages, &mut survivors).unwrap();
    assert!(survivors.is_empty());
}

#[test]
fn a_filter_without_blocks_rules_nothing_out() {
    let keys: Vec<_> = (0..300).map(key).collect();
    let forms: Vec<_> = (0..300).map(|row| FORMS[row % 4]).collect();
    let mut survivors = Vec::new();
    probe(&[0; 31], &keys, &forms, 0, &Watched::default(), &mut survivors).unwrap();
    let want: Vec<u32> = (0..300).filter(|row| row % 4 >= 2).collect();
    assert_eq!(survivors, want);
}
