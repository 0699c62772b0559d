//! Ids that look like frames, in payloads of frames that a crash tore; and room behind frames.

use std::path::Path;

use super::append::{BLOCK, ROOM, SHORT};
use super::frame::{Frame, FrameKind};
use super::*;
use crate::segment::values::run::ValueRun;
use crate::testing::simulated::{Fault, Simulated};
use crate::types::FrameKeys;

const LOG: u64 = 7;

fn made(mark: Option<u64>) -> (Simulated, Log) {
    let system = Simulated::new(3);
    let owner = Owner::new([1; 16], "orders");
    let path = Path::new("/log");
    let log = match mark {
        Some(mark) => Log::create_with(&system, path, LOG, owner, mark),
        None => Log::create(&system, path, LOG, owner, FrameForms::default()),
    };
    (system, log.unwrap())
}

fn frame(sequence: u64, durable: u64, text: &[u8]) -> Frame {
    let mut keys = FrameKeys::default();
    keys.push_text(crate::key::Key { hi: 1, lo: sequence }, text);
    let (kind, replaces, transaction) = (FrameKind::Begin, None, None);
    Frame {
        kind,
        sequence,
        claim: sequence,
        started_at: 5,
        replaces,
        durable,
        transaction,
        keys,
        values: ValueRun::default(),
    }
}

/// The id sent by somebody who knows everything but the mark: a frame's header for the place where
/// the id will stand.
fn forged(at: u64) -> Vec<u8> {
    let mut bytes = frame(99, at, b"").encode(FramePlace { log: LOG, mark: 0, position: at });
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
fn id_that_looks_like_a_frame_keeps_a_torn_end_torn() {
    let (_, log) = made(None);
    log.file.write(&torn(&log, START), START).unwrap();
    assert!(matches!(Frames::new(&log, START, log.len().unwrap()).next(), Ok(Next::Torn)));
    log.check_torn(START, START).unwrap();
    let mut taken = 0;
    assert!(log.salvage(START, &mut |_, _| taken += 1).unwrap().is_empty());
    assert_eq!(taken, 0);
    // In a log of the first version it would pass.
    let (_, old) = made(Some(0));
    old.file.write(&torn(&old, START), START).unwrap();
    assert!(old.check_torn(START, START).is_err());
}

#[test]
fn later_frame_shows_that_an_earlier_place_was_durable() {
    for mark in [None, Some(0)] {
        let (_, log) = made(mark);
        let torn = torn(&log, START);
        log.file.write(&torn, START).unwrap();
        let behind = START + (torn.len() as u64).next_multiple_of(8);
        log.file.write(&frame(2, START + 8, b"urn:2").encode(log.place(behind)), behind).unwrap();
        assert!(matches!(log.check_torn(START, START), Err(Error::Corrupt { offset: START, .. })));
    }
}

#[test]
fn a_repair_takes_no_frame_out_of_an_id() {
    let (_, log) = made(None);
    let mut damaged = torn(&log, START);
    damaged[5] ^= 1;
    log.file.write(&damaged, START).unwrap();
    let behind = START + (damaged.len() as u64).next_multiple_of(8);
    log.file.write(&frame(2, START + 8, b"urn:2").encode(log.place(behind)), behind).unwrap();
    let mut taken = Vec::new();
    let gaps = log.salvage(START, &mut |frame, _| taken.push(frame.sequence)).unwrap();
    assert_eq!((taken, gaps.len(), gaps[0].end), (vec![2], 1, behind));
}

#[test]
fn two_logs_have_different_marks_and_keep_them() {
    let (system, log) = made(None);
    let other =
        Log::create(&system, Path::new("/other"), LOG, Owner::new([1; 16], "orders"), FrameForms::default()).unwrap();
    assert!(log.mark != 0 && other.mark != 0 && log.mark != other.mark);
    let again = Log::open(&system, &log.file.path, LOG, Owner::new([1; 16], "orders"), false).unwrap();
    assert_eq!(again.mark, log.mark);
}

#[test]
fn a_log_of_the_first_version_is_read_and_written_on() {
    let (system, log) = made(Some(0));
    log.file.write(&frame(1, START, b"urn:1").encode(log.place(START)), START).unwrap();
    let again = Log::open(&system, &log.file.path, LOG, Owner::new([1; 16], "orders"), true).unwrap();
    assert_eq!(again.mark, 0);
    let Next::Frame(_, end) = Frames::new(&again, START, again.len().unwrap()).next().unwrap() else { panic!() };
    again.file.write(&frame(2, START, b"urn:2").encode(again.place(end)), end).unwrap();
    let found = Frames::new(&again, end, again.len().unwrap()).next().unwrap();
    assert!(matches!(found, Next::Frame(frame, _) if frame.sequence == 2));
}

/// The content at a position of a log, as it is now.
fn next(log: &Log, position: u64) -> Next {
    Frames::new(log, position, log.len().unwrap()).next().unwrap()
}

/// A log of `frames` frames, and where each ends.
fn appended(frames: u64) -> (Simulated, Log, Vec<u64>) {
    let (system, log) = made(None);
    let mut ends = vec![START];
    for sequence in 1..=frames {
        let at = ends[ends.len() - 1];
        let bytes = frame(sequence, START, b"urn:of-some-length").encode(log.place(at));
        log.append(&bytes, at).unwrap();
        ends.push(at + bytes.len() as u64);
    }
    (system, log, ends)
}

#[test]
fn room_is_made_ahead_for_many_frames_and_is_the_end_of_the_log() {
    let (_, log, ends) = appended(1);
    let length = log.len().unwrap();
    assert!(length >= ends[1] + ROOM && length < ends[1] + ROOM + BLOCK);
    let last = |position| log.last_before(position).unwrap().unwrap();
    assert!(log.ends_at(ends[1], last(ends[1])).unwrap() && !log.ends_at(START, last(START)).unwrap());
    assert!(!log.ends_at(ends[1], [0; 8]).unwrap(), "another file's bytes");
    assert!(matches!(next(&log, START), Next::Frame(_, end) if end == ends[1]));
    assert!(matches!(next(&log, ends[1]), Next::End));
    let (_, log, ends) = appended(10);
    assert_eq!(log.len().unwrap(), length);
    assert!(matches!(next(&log, ends[10]), Next::End));
}

#[test]
fn frame_larger_than_the_room_makes_more_and_loses_nothing() {
    let (_, log, ends) = appended(300);
    assert!(ends[300] > START + ROOM + BLOCK && log.len().unwrap() > ends[300]);
    let mut sequences = Vec::new();
    assert!(log.salvage(ends[300], &mut |frame, _| sequences.push(frame.sequence)).unwrap().is_empty());
    assert_eq!(sequences, (1..=300).collect::<Vec<_>>());
}

#[test]
fn room_of_short_frames_has_blocks_and_room_of_long_ones_none() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let owner = Owner::new([1; 16], "orders");
    let log = Log::create(&crate::io::Disk, &path, LOG, owner, FrameForms::default()).unwrap();
    let room = || {
        let there = std::fs::metadata(&path).unwrap();
        (there.len(), there.blocks() * 512)
    };
    log.append(&[1; 100], START).unwrap();
    log.file.sync().unwrap();
    let (length, on_disk) = room();
    assert!(length >= START + 100 + ROOM && on_disk >= length);
    // Nothing is made where the room suffices, and none of it is changed.
    log.append(&[2; 8000], START + 100).unwrap();
    assert_eq!(room(), (length, on_disk));
    let end = START + 8100;
    let long = vec![3; SHORT as usize + 8];
    let frames = 2 + (length - end) / long.len() as u64;
    (0..frames).for_each(|number| log.append(&long, end + number * long.len() as u64).unwrap());
    log.file.sync().unwrap();
    let end = end + frames * long.len() as u64;
    assert!(room().0 >= end + ROOM && room().1 < room().0, "{:?}", room());
    assert!(matches!(next(&log, end), Next::End));
}

#[test]
fn room_that_another_process_made_is_not_made_again() {
    let (system, log) = made(None);
    let other = Log::open(&system.process(), Path::new("/log"), LOG, Owner::new([1; 16], "orders"), true).unwrap();
    let bytes = |sequence, at| frame(sequence, START, b"x").encode(log.place(at));
    log.append(&bytes(1, START), START).unwrap();
    let (length, end) = (log.len().unwrap(), START + bytes(1, START).len() as u64);
    other.append(&bytes(2, end), end).unwrap();
    assert_eq!(other.len().unwrap(), length);
    assert!(matches!(next(&log, end), Next::Frame(frame, _) if frame.sequence == 2));
}

#[test]
fn a_frame_is_written_where_its_room_does_not_fit() {
    let appended = |fault, operation| {
        let (system, log) = made(None);
        system.fail_at(system.operations() + operation, fault);
        let done = log.append(&frame(1, START, b"x").encode(log.place(START)), START);
        assert!(system.has_failed());
        done.map(|()| log)
    };
    // The first operation asks for the length, the second one writes.
    let log = appended(Fault::Full, 2).unwrap();
    assert!(matches!(next(&log, START), Next::Frame(_, end) if end == log.len().unwrap()));
    assert!(appended(Fault::Broken, 2).is_err() && appended(Fault::Broken, 1).is_err());
}

#[test]
fn a_file_that_became_shorter_does_not_end_where_it_did() {
    let (system, log, ends) = appended(1);
    let short = <dyn FileSystem>::create_at(&system, Path::new("/short")).unwrap();
    short.write(&[1; 80], 0).unwrap();
    let short = Log { file: short, ..log.clone() };
    assert!(!short.ends_at(ends[1], [0; 8]).unwrap() && short.ends_at(80, [1; 8]).unwrap());
    assert_eq!(short.last_before(ends[1]).unwrap(), None);
    // Room of less than a word, which no writer makes, needs a closer look.
    short.file.file.extend(84).unwrap();
    assert!(!short.ends_at(80, [1; 8]).unwrap());
}

#[test]
fn bytes_behind_zeros_are_a_torn_frame() {
    let (_, log, ends) = appended(3);
    log.file.write(&vec![0; (ends[2] - ends[1]) as usize], ends[1]).unwrap();
    assert!(matches!(next(&log, ends[1]), Next::Torn));
    log.check_torn(ends[1], ends[1]).unwrap();
    assert!(log.check_torn(ends[1], ends[2]).is_err());
    // However far behind.
    let (_, log, ends) = appended(1);
    log.file.file.extend(ends[1] + 3 * CHUNK as u64).unwrap();
    assert!(matches!(next(&log, ends[1]), Next::End));
    log.file.write(&[1], ends[1] + 2 * CHUNK as u64 + 5).unwrap();
    assert!(matches!(next(&log, ends[1]), Next::Torn));
}

#[test]
fn little_is_read_of_a_log_in_which_little_may_be() {
    let (_, log, ends) = appended(3);
    log.file.file.extend(ends[2] + 12 * CHUNK as u64).unwrap();
    let mut frames = Frames::new(&log, START, log.len().unwrap());
    assert!(matches!(frames.next().unwrap(), Next::Frame(..)));
    assert_eq!(frames.buffer.len(), FIRST_STEP);
    // What is read next grows up to a limit.
    for step in 1..12 {
        frames.position = frames.buffer_at + frames.buffer.len() as u64;
        frames.fill(8).unwrap();
        assert_eq!(frames.buffer.len(), CHUNK.min(FIRST_STEP << step).min((frames.length - frames.position) as usize));
    }
}

#[test]
fn a_gap_that_a_repair_reports_ends_where_the_room_begins() {
    let (_, log, ends) = appended(2);
    log.file.write(b"XX", ends[1]).unwrap();
    let gaps = log.salvage(ends[2], &mut |_, _| {}).unwrap();
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].start, gaps[0].end), (ends[1], ends[2]));
}
