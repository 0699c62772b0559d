//! Ids that were made to look like frames: they stand in other frames' payloads, where a crash tore these.

use std::path::Path;

use super::frame::{Frame, FrameKeys, Kind};
use super::*;
use crate::io::simulated::Simulated;
use crate::values::run::Run;

const LOG: u64 = 7;

fn made(mark: Option<u64>) -> (Simulated, Log) {
    let system = Simulated::new(3);
    let owner = Owner::new([1; 16], "orders");
    let path = Path::new("/log");
    let log = match mark {
        Some(mark) => Log::create_with(&system, path, LOG, owner, mark),
        None => Log::create(&system, path, LOG, owner),
    };
    (system, log.unwrap())
}

fn frame(sequence: u64, durable: u64, text: &[u8]) -> Frame {
    let mut keys = FrameKeys::default();
    keys.push_text(crate::key::Key { hi: 1, lo: sequence }, text);
    let (kind, replaces, transaction) = (Kind::Begin, None, None);
    Frame {
        kind,
        sequence,
        claim: sequence,
        started_at: 5,
        replaces,
        durable,
        transaction,
        keys,
        values: Run::default(),
    }
}

/// What somebody who knows everything but the mark sends as an id: a frame's header for the place where the id will stand.
fn forged(at: u64) -> Vec<u8> {
    let mut bytes = frame(99, at, b"").encode(Place { log: LOG, mark: 0, position: at });
    bytes.truncate(HEADER);
    bytes
}

/// A frame at `position` that holds a forged header as an id, torn behind that.
fn torn(log: &Log, position: u64) -> Vec<u8> {
    // Its id stands behind the header, one key, and one length filled up to eight bytes.
    let at = position + (HEADER + 16 + 8) as u64;
    let mut bytes = frame(1, START, &[&forged(at)[..], &[b'x'; 64]].concat()).encode(log.place(position));
    bytes.truncate(bytes.len() - 16);
    bytes
}

#[test]
fn an_id_that_looks_like_a_later_frame_makes_no_damage_of_a_torn_tail() {
    let (_, log) = made(None);
    log.file.write_at(&torn(&log, START), START).unwrap();
    assert!(matches!(Frames::new(&log, START, log.len().unwrap()).next(), Ok(Next::Torn)));
    log.check_torn(START, START).unwrap();
    let mut taken = 0;
    assert!(log.salvage(START, &mut |_, _| taken += 1).unwrap().is_empty());
    assert_eq!(taken, 0);
    // In a log of the first version it would have.
    let (_, old) = made(Some(0));
    old.file.write_at(&torn(&old, START), START).unwrap();
    assert!(old.check_torn(START, START).is_err());
}

#[test]
fn a_later_frame_of_the_log_itself_shows_that_a_place_was_durable() {
    for mark in [None, Some(0)] {
        let (_, log) = made(mark);
        let torn = torn(&log, START);
        log.file.write_at(&torn, START).unwrap();
        let behind = START + (torn.len() as u64).next_multiple_of(8);
        log.file.write_at(&frame(2, START + 8, b"urn:2").encode(log.place(behind)), behind).unwrap();
        assert!(matches!(log.check_torn(START, START), Err(Error::Corrupt { offset: START, .. })));
    }
}

#[test]
fn a_repair_takes_no_frame_out_of_an_id() {
    let (_, log) = made(None);
    let mut damaged = torn(&log, START);
    damaged[5] ^= 1;
    log.file.write_at(&damaged, START).unwrap();
    let behind = START + (damaged.len() as u64).next_multiple_of(8);
    log.file.write_at(&frame(2, START + 8, b"urn:2").encode(log.place(behind)), behind).unwrap();
    let mut taken = Vec::new();
    let gaps = log.salvage(START, &mut |frame, _| taken.push(frame.sequence)).unwrap();
    assert_eq!((taken, gaps.len(), gaps[0].end), (vec![2], 1, behind));
}

#[test]
fn two_logs_have_different_marks_and_keep_them() {
    let (system, log) = made(None);
    let other = Log::create(&system, Path::new("/other"), LOG, Owner::new([1; 16], "orders")).unwrap();
    assert!(log.mark != 0 && other.mark != 0 && log.mark != other.mark);
    let again = Log::open(&system, &log.path, LOG, Owner::new([1; 16], "orders"), false).unwrap();
    assert_eq!(again.mark, log.mark);
}

#[test]
fn a_log_of_the_first_version_is_read_and_written_on() {
    let (system, log) = made(Some(0));
    log.file.write_at(&frame(1, START, b"urn:1").encode(log.place(START)), START).unwrap();
    let again = Log::open(&system, &log.path, LOG, Owner::new([1; 16], "orders"), true).unwrap();
    assert_eq!(again.mark, 0);
    let Next::Frame(_, end) = Frames::new(&again, START, again.len().unwrap()).next().unwrap() else { panic!() };
    again.file.write_at(&frame(2, START, b"urn:2").encode(again.place(end)), end).unwrap();
    let found = Frames::new(&again, end, again.len().unwrap()).next().unwrap();
    assert!(matches!(found, Next::Frame(frame, _) if frame.sequence == 2));
}
