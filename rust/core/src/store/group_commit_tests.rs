//! Threads that write together: one of which fails, and whose frames go to the disk at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{SpaceSettings, Writer};
use crate::history::{History, OpenOptions};
use crate::key::Key;
use crate::store::writer::Beginning;
use crate::testing::simulated::Simulated;
use crate::types::FrameKeys;
use crate::{Error, Result};

#[test]
fn job_that_fails_or_panics_leaves_the_others_alone() {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let history = History::open_on(Arc::new(Simulated::new(0)), Path::new("/history"), &options).unwrap();
    let space = history.space("orders").unwrap();
    let settings = SpaceSettings { time_to_live_us: 1 << 50, ..SpaceSettings::STORED };
    let (leads, panicked, failed, done) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    // The first one leads, and waits until the others have posted their jobs.
    let wait = |_: &mut Writer<'_>| -> Result<()> {
        leads.store(true, Ordering::Release);
        while space.group_commit.posted() < 3 {
            std::thread::yield_now();
        }
        Ok(())
    };
    let follow = |job: &(dyn Fn() -> Result<()> + Sync)| {
        while !leads.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        space.write_together(settings, |_| job())
    };
    std::thread::scope(|scope| {
        scope.spawn(|| space.write_together(settings, wait).unwrap());
        scope.spawn(|| {
            // Where the leader had no time left for it, this thread led itself.
            let found = catch_unwind(AssertUnwindSafe(|| follow(&|| panic!("a job of another thread"))));
            assert!(matches!(found, Err(_) | Ok(Err(Error::State(_)))));
            panicked.fetch_add(1, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let error = follow(&|| Err(Error::State("mine".into()))).unwrap_err();
            assert!(error.to_string().contains("mine"), "{error}");
            failed.fetch_add(1, Ordering::Relaxed);
        });
        scope.spawn(|| {
            follow(&|| Ok(())).unwrap();
            done.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!([&panicked, &failed, &done].map(|count| count.load(Ordering::Relaxed)), [1; 3]);
    assert_eq!(space.group_commit.posted(), 0);
    space.write_together(settings, |_| Ok(())).unwrap();
}

#[test]
fn frames_go_to_the_disk_at_once_where_no_thread_waits() {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let system = Simulated::new(0);
    let history = History::open_on(Arc::new(system.clone()), Path::new("/history"), &options).unwrap();
    let space = history.space("orders").unwrap();
    let settings = SpaceSettings { time_to_live_us: 1 << 50, ..SpaceSettings::STORED };
    let begin = |writer: &mut Writer<'_>, number: u64| {
        let before = system.started();
        let keys = FrameKeys { uuids: vec![Key::from_bytes(u128::from(number).to_be_bytes())], ..FrameKeys::default() };
        writer.begin(Beginning { keys, started_at: 1, ..Beginning::default() })?;
        Ok(system.started() - before)
    };
    assert_eq!(space.write_together(settings, |writer| begin(writer, 1)).unwrap(), 1);
    assert_eq!(space.write(settings, |writer| begin(writer, 2)).unwrap(), 1);
    let leads = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| {
            space.write_together(settings, |writer| {
                leads.store(true, Ordering::Release);
                while space.group_commit.posted() == 0 {
                    std::thread::yield_now();
                }
                begin(writer, 3)
            })
        });
        while !leads.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let this = std::thread::current().id();
        let job = |writer: &mut Writer<'_>| Ok((begin(writer, 4)?, std::thread::current().id() == this));
        let (started, is_own) = space.write_together(settings, job).unwrap();
        // Where the leader had no time left for it, this thread was alone.
        assert_eq!(started, u64::from(is_own));
        assert_eq!(leader.join().unwrap().unwrap(), 1);
    });
}

#[test]
fn short_frame_waits_for_its_sync_beside_a_frozen_log() {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let system = Simulated::new(0);
    let history = History::open_on(Arc::new(system.clone()), Path::new("/history"), &options).unwrap();
    let space = history.space("orders").unwrap();
    let settings = SpaceSettings { time_to_live_us: 1 << 50, ..SpaceSettings::STORED };
    let mut number = 0_u128;
    let mut begin = || {
        let before = system.started();
        number += 1;
        let keys = FrameKeys { uuids: vec![Key::from_bytes(number.to_be_bytes())], ..FrameKeys::default() };
        let begin = |writer: &mut Writer<'_>| {
            writer.begin(Beginning { keys: keys.clone(), started_at: 1, ..Beginning::default() }).map(drop)
        };
        space.write_together(settings, begin).unwrap();
        system.started() - before
    };
    while !space.is_seal_due() {
        assert_eq!(begin(), 1);
    }
    assert_eq!(begin(), 0);
    space.seal_frozen().unwrap();
    assert_eq!(begin(), 1);
}
