//! A log in the file of another one: what its readers find, and who keeps it from being taken.

use std::path::Path;

use super::append::SHORT;
use super::frame::{Frame, FrameKind};
use super::*;
use crate::segment::values::run::ValueRun;
use crate::testing::simulated::Simulated;
use crate::types::FrameKeys;

const OLD: &str = "/log-1";
const KEPT: &str = "/old-1";
const NEW: &str = "/log-2";

fn owner() -> Owner {
    Owner::new([1; 16], "orders")
}

/// A frame that begins a claim of one text.
fn frame(sequence: u64, length: u64) -> Frame {
    let mut keys = FrameKeys::default();
    keys.push_text(crate::key::Key { hi: 1, lo: sequence }, &vec![b'x'; length as usize]);
    let (kind, claim, started_at, durable) = (FrameKind::Begin, sequence, 5, START);
    let (replaces, transaction, values) = (None, None, ValueRun::default());
    Frame { kind, sequence, claim, started_at, replaces, durable, transaction, keys, values }
}

/// Append frames of these lengths; answers where they end.
fn append(log: &Log, mut at: u64, lengths: &[u64]) -> u64 {
    for (number, length) in lengths.iter().enumerate() {
        let bytes = frame(number as u64 + 1, *length).encode(log.place(at));
        log.append(&bytes, at).unwrap();
        at += bytes.len() as u64;
    }
    at
}

/// How many frames can be read, and what follows them.
fn read(log: &Log) -> (usize, Next) {
    let mut frames = Frames::new(log, START, log.len().unwrap());
    let mut count = 0;
    loop {
        match frames.next().unwrap() {
            Next::Frame(..) => count += 1,
            other => return (count, other),
        }
    }
}

/// A file with frames of one length, kept for the next log.
fn kept(length: u64) -> Simulated {
    let system = Simulated::new(3);
    let old = Log::create(&system, Path::new(OLD), 1, owner(), FrameForms::default()).unwrap();
    append(&old, START, &[length; 20]);
    drop(old);
    assert!(recycle::retire(&system, Path::new(OLD), Path::new(KEPT)).unwrap());
    system
}

fn recycled(system: &Simulated) -> Option<Log> {
    Log::recycle(system, Path::new(KEPT), Path::new(NEW), 2, owner(), FrameForms::default()).unwrap()
}

fn opened(system: &Simulated) -> Log {
    Log::open(system, Path::new(NEW), 2, owner(), true).unwrap()
}

#[test]
fn frames_over_remains_are_followed_by_nothing() {
    // Over frames of their own length, and of others; the last ones end behind the old file.
    for (old, new) in [(40, 40), (40, 48), (500, 8), (20, SHORT + 8), (SHORT, 2 * SHORT), (3000, 5000)] {
        let system = kept(old);
        let log = recycled(&system).unwrap();
        assert!(matches!(read(&log), (0, Next::End)), "{old} {new}");
        let room = log.len().unwrap();
        let (mut at, mut count) = (START, 0);
        while at < room + 3 * new {
            at = append(&log, at, &[new]);
            count += 1;
            for log in [&log, &opened(&system)] {
                let (found, next) = read(log);
                assert!(found == count && matches!(next, Next::End), "{old} {new}: {found} of {count}, {next:?}");
            }
        }
        assert_eq!(opened(&system).salvage(at, &mut |_, _| count -= 1).unwrap(), []);
        assert_eq!(count, 0);
    }
}

#[test]
fn a_frame_that_a_crash_lost_before_another_is_torn() {
    let system = kept(40);
    let log = recycled(&system).unwrap();
    let first = append(&log, START, &[40]);
    let bytes = frame(3, 40).encode(log.place(first + 400));
    log.file.write(&bytes, first + 400).unwrap();
    // For a process that opens it. One that has read the first frame knows that no crash came
    // since.
    assert!(matches!(read(&opened(&system)), (1, Next::Torn)));
    let length = log.len().unwrap();
    assert!(matches!(Frames::reusing(&log, first, length, Vec::new()).next(), Ok(Next::End)));
    assert!(matches!(Frames::reusing(&opened(&system), first, length, Vec::new()).next(), Ok(Next::Torn)));
    // Nothing shows that the lost one was durable.
    log.check_torn(first, first).unwrap();
}

#[test]
fn remains_without_zeros_before_them_are_torn() {
    let system = kept(40);
    let log = recycled(&system).unwrap();
    let bytes = frame(1, 40).encode(log.place(START));
    log.file.write(&bytes, START).unwrap();
    assert!(matches!(read(&log), (1, Next::Torn)));
}

#[test]
fn the_file_of_a_log_that_is_open_is_not_taken() {
    let system = Simulated::new(3);
    let (old, to) = (Path::new(OLD), Path::new(KEPT));
    let log = Log::create(&system, old, 1, owner(), FrameForms::default()).unwrap();
    append(&log, START, &[40]);
    assert!(!recycle::retire(&system, old, to).unwrap());
    drop(log);
    let reader = Log::open(&system.process(), old, 1, owner(), false).unwrap();
    assert!(!recycle::retire(&system, old, to).unwrap());
    drop(reader);
    // A copy by links is not overwritten either.
    system.link(old, Path::new("/copy")).unwrap();
    assert!(!recycle::retire(&system, old, to).unwrap());
    system.remove(Path::new("/copy")).unwrap();
    assert!(recycle::retire(&system, old, to).unwrap());
    assert!(!system.exists(old).unwrap());
    system.link(to, Path::new("/copy")).unwrap();
    assert!(recycled(&system).is_none());
    system.remove(Path::new("/copy")).unwrap();
    let new = recycled(&system).unwrap();
    assert!(!system.exists(to).unwrap() && new.is_in_place(&system).unwrap());
    assert!(!recycle::retire(&system, Path::new(NEW), to).unwrap());
}

#[test]
fn a_log_that_was_taken_while_it_was_opened_is_gone() {
    let system = kept(40);
    let early = system.open(Path::new(KEPT), false).unwrap();
    let file = NamedFile { file: early, path: OLD.into() };
    let missing = recycle::hold(&system, &file).unwrap_err();
    assert!(missing.is_missing(), "{missing}");
    drop(file);
    // Under the lock as a whole it cannot be shared.
    let taker = system.open(Path::new(KEPT), true).unwrap();
    assert!(taker.try_lock().unwrap());
    let file = NamedFile { file: system.open(Path::new(KEPT), false).unwrap(), path: KEPT.into() };
    assert!(recycle::hold(&system, &file).unwrap_err().is_missing());
}

#[test]
fn remains_that_are_cleared_read_as_zeros_and_frames_go_on() {
    let system = kept(SHORT);
    let log = recycled(&system).unwrap();
    let end = append(&log, START, &[40, 50]);
    log.clear_remains(end);
    let length = log.len().unwrap();
    let mut rest = vec![1; (length - end) as usize];
    log.file.read(&mut rest, end).unwrap();
    assert!(length > end && rest.iter().all(|byte| *byte == 0));
    append(&log, end, &[SHORT; 12]);
    assert!(matches!(read(&opened(&system)), (14, Next::End)));
}

#[test]
fn a_repair_takes_no_remains_for_lost_bytes() {
    let system = kept(40);
    let log = recycled(&system).unwrap();
    let first = append(&log, START, &[40]);
    let end = append(&log, first, &[40]);
    log.file.write(&[0xff; 8], first).unwrap();
    let gaps = |proven: u64| log.salvage(proven, &mut |_, _| {}).unwrap();
    let found = gaps(end);
    assert_eq!((found.len(), found[0].start, found[0].end), (1, first, end));
    // Where nothing tells how far the log was durable, a torn end looks the same.
    assert!(gaps(first).is_empty());
}
