//! A closed store on a real disk, damaged in every way one file can be: flipped bytes, every
//! shorter length, missing, taken for another of its kind, forged. Reading it gives a typed error
//! or the same verdicts or values; never others, never a panic.
//!
//! Long files are probed in steps; `DOCHISTORY_DAMAGE=all` tries each of their bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod forged;
#[path = "../harness/mod.rs"]
mod harness;
mod lost;

use harness::closed::log::{room, used};
use harness::closed::{Store, Stored, is_advisory, kind};
use harness::{Maps, Triggers};

/// Where files are probed: the header, the edges of pages, and in steps through the rest.
trait Probed: Stored {
    const HEADER: usize;
    const STEP: usize;
    /// Files up to this length are probed everywhere.
    const SHORT: usize;
}

impl Probed for Triggers {
    const HEADER: usize = 256;
    const STEP: usize = 29;
    const SHORT: usize = 1024;
}

impl Probed for Maps {
    const HEADER: usize = 128;
    const STEP: usize = 61;
    const SHORT: usize = 0;
}

fn places<S: Probed>(length: usize) -> Vec<usize> {
    let all = length <= S::SHORT || std::env::var("DOCHISTORY_DAMAGE").is_ok_and(|what| what == "all");
    let is_edge = |at: usize| at % 4096 < 4 || at % 4096 >= 4092;
    (0..length).filter(|at| all || *at < S::HEADER || at.is_multiple_of(S::STEP) || is_edge(*at)).collect()
}

fn flip_bytes<S: Probed>() {
    let store = Store::<S>::new();
    let mut flipped = 0;
    for (path, bytes) in &store.files {
        let places = places::<S>(used(path, bytes));
        flipped += places.len();
        let is_noticed = |at: &usize| {
            let mut damaged = bytes.clone();
            damaged[*at] ^= 1 << (at % 8);
            std::fs::write(path, &damaged).unwrap();
            store.notices(&format!("byte {at} of {}", path.display()), true)
        };
        let noticed = places.iter().filter(|at| is_noticed(at)).count();
        // Bytes in the room behind a log's frames are a torn tail.
        for at in room(path, bytes) {
            assert!(!is_noticed(&at), "byte {at} of the room of {}", path.display());
        }
        std::fs::write(path, bytes).unwrap();
        match kind(path).as_str() {
            _ if is_advisory(path) => assert_eq!(noticed, 0, "{} is advisory", path.display()),
            "HISTORY" | "manifest" | "log" => {
                assert_eq!(noticed, places.len(), "{} is checked whole", path.display());
            }
            _ => assert!(noticed > places.len() / 10, "{}: {noticed} of {}", path.display(), places.len()),
        }
    }
    eprintln!("figure: bytes{} flipped = {flipped}", S::OF);
    assert_eq!(S::read(&store.root, true).unwrap(), store.good);
}

fn shorten_files<S: Probed>() {
    let store = Store::<S>::new();
    let mut cut = 0;
    for (path, bytes) in &store.files {
        let lengths = places::<S>(used(path, bytes));
        cut += lengths.len();
        for length in lengths.into_iter().chain(room(path, bytes)) {
            std::fs::write(path, &bytes[..length]).unwrap();
            let noticed = store.notices(&format!("{} at {length} bytes", path.display()), true);
            let is_missed = length < used(path, bytes) && !is_advisory(path);
            assert_eq!(noticed, is_missed, "{} at {length} bytes", path.display());
        }
        std::fs::remove_file(path).unwrap();
        for read_only in [true, false] {
            let noticed = store.notices(&format!("{} missing", path.display()), read_only);
            assert_eq!(noticed, !is_advisory(path), "{} missing", path.display());
        }
        store.restore();
    }
    eprintln!("figure: lengths{} cut to = {cut}", S::OF);
    assert_eq!(S::read(&store.root, true).unwrap(), store.good);
}

fn swap_files<S: Stored>() {
    let (store, other) = (Store::<S>::new(), Store::<S>::new());
    let mut errors = 0;
    let mut must_notice = |what: &str, is_harmless: bool| {
        let noticed = store.notices(what, true);
        assert!(noticed || is_harmless, "{what}");
        errors += usize::from(noticed);
        store.restore();
    };
    let pairs = store.files.iter().flat_map(|one| store.files.iter().map(move |two| (one, two)));
    for ((one, a), (two, b)) in pairs.filter(|((one, _), (two, _))| one < two && kind(one) == kind(two)) {
        std::fs::write(one, b).unwrap();
        std::fs::write(two, a).unwrap();
        must_notice(&format!("{} and {} swapped", one.display(), two.display()), a == b || is_advisory(one));
    }
    // The same file of another history.
    for (path, bytes) in &other.files {
        let here = store.root.join(path.strip_prefix(&other.root).unwrap());
        std::fs::write(&here, bytes).unwrap();
        must_notice(&format!("{} from another history", here.display()), is_advisory(path));
    }
    assert!(errors > 10);
}

#[test]
fn a_flipped_byte_is_noticed_or_changes_nothing() {
    flip_bytes::<Triggers>();
}

#[test]
fn a_flipped_byte_of_a_space_is_noticed_or_changes_nothing() {
    flip_bytes::<Maps>();
}

#[test]
fn a_shortened_or_missing_file_is_noticed_or_changes_nothing() {
    shorten_files::<Triggers>();
}

#[test]
fn a_shortened_missing_or_swapped_file_of_a_space_is_noticed() {
    shorten_files::<Maps>();
    swap_files::<Maps>();
}

#[test]
fn a_file_in_the_place_of_another_is_noticed() {
    swap_files::<Triggers>();
}
