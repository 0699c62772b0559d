//! What others do between two steps of a reader or a writer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dochistory_core::Error;
use dochistory_core::columns::FlagColumn;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::{Disk, FileSystem, ProcessId};
use dochistory_core::protocols::trigger::{Call, OnReplay};
use harness::forwarding::{Changes, Forwarding};
use harness::{Ids, START, begin, fresh, open, rules, trigger};

type Step = Box<dyn FnOnce() + Send>;

/// The machine's file system. Once it has said that the next manifest is not there, others take a
/// step.
#[derive(Clone, Default)]
struct Between {
    step: Arc<Mutex<Option<Step>>>,
    /// How often a process that is gone still counts as alive; none if no process is gone.
    dying: Arc<Mutex<Option<u32>>>,
}

impl fmt::Debug for Between {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("Between")
    }
}

impl Changes for Between {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        let is_there = Disk.exists(path)?;
        if !is_there && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("manifest")) {
            let step = self.step.lock().unwrap().take();
            if let Some(step) = step {
                step();
            }
        }
        Ok(is_there)
    }

    fn is_alive(&self, process: &ProcessId) -> Option<bool> {
        let mut dying = self.dying.lock().unwrap();
        let Some(left) = *dying else { return Disk.is_alive(process) };
        *dying = Some(left.saturating_sub(1));
        Some(left > 0)
    }

    fn pause(&self, _duration: Duration) {}
}

fn opened(system: &Between, path: &Path) -> History {
    History::open_on(Arc::new(Forwarding(system.clone())), path, &OpenOptions::default()).unwrap()
}

#[test]
fn end_that_rests_on_a_load_is_not_read_without_it() {
    let (directory, writer) = fresh();
    begin(&writer, &trigger(), &["before"], START);
    let system = Between::default();
    for is_open in [true, false] {
        let id = format!("urn:{is_open}");
        let reader = is_open.then(|| opened(&system, directory.path()));
        if let Some(reader) = &reader {
            assert_eq!(rules(reader, &trigger(), &["before"], START), ["R11"]);
        }
        let claim = begin(&writer, &trigger(), &[&id], START).claim.unwrap();
        let (path, loaded) = (directory.path().to_path_buf(), id.clone());
        *system.step.lock().unwrap() = Some(Box::new(move || {
            let other = open(&path);
            let mut load = other.load(&trigger()).unwrap();
            let ids = Ids::new(&[loaded]);
            load.push(&ids.documents(), &[START], i64::MAX, FlagColumn::Absent).unwrap();
            load.finish().unwrap();
            claim.release(None).unwrap();
        }));
        let reader = reader.unwrap_or_else(|| opened(&system, directory.path()));
        assert_eq!(rules(&reader, &trigger(), &[&id], START), ["R9"], "a handle that was open before: {is_open}");
        assert!(system.step.lock().unwrap().is_none(), "nobody looked for the next manifest");
    }
}

/// Where a trigger's only key space has the file of its lock.
fn lock_file(directory: &Path) -> PathBuf {
    std::fs::read_dir(directory.join("triggers")).unwrap().next().unwrap().unwrap().path().join("turn")
}

#[test]
fn killed_holder_is_waited_for_until_it_counts_as_dead() {
    const WITHIN: std::ops::Range<usize> = 256..320;
    let (directory, history) = fresh();
    begin(&history, &trigger(), &["before"], START);
    drop(history);
    let (system, path) = (Between::default(), lock_file(directory.path()));
    let holder = opened(&system, directory.path());
    let (seen, held) = (path.clone(), Arc::new(Mutex::new(Vec::new())));
    let keep = held.clone();
    *system.step.lock().unwrap() = Some(Box::new(move || *keep.lock().unwrap() = std::fs::read(seen).unwrap()));
    begin(&holder, &trigger(), &["held"], START);
    // It dies where it stood when it had just taken the lock.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[WITHIN].copy_from_slice(&held.lock().unwrap()[WITHIN]);
    assert!(bytes[WITHIN][..16] != [0; 16], "nobody held the lock");
    std::fs::write(&path, &bytes).unwrap();
    let others = opened(&system, directory.path());
    // A holder that is alive is another writer under the same lock.
    let ids = Ids::new(&["refused"]);
    let refused = others.begin(&trigger(), &ids.documents(), &mut Call::at(START), None, OnReplay::ByRules);
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    *system.dying.lock().unwrap() = Some(5);
    begin(&others, &trigger(), &["after"], START);
    assert_eq!(*system.dying.lock().unwrap(), Some(0));
    assert_eq!(rules(&others, &trigger(), &["before", "held", "refused", "after"], START), ["R11", "R11", "R8", "R11"]);
}
