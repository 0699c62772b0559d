//! Threads that write together, one of which fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{SpaceSettings, Writer};
use crate::history::{History, OpenOptions};
use crate::testing::simulated::Simulated;
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
