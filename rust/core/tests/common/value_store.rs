//! A closed store with maps of values, with something of everything in them, to be damaged.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use dochistory_core::history::values::{NewValue, Room, ValueEdit};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::{Error, Result};

use super::store::{Files, collect, ids};
use super::{DAY, Ids, START, open};

/// A space of values of each room, with plain and later files, what is removed and pending, and a
/// log.
pub fn build(root: &Path) {
    let (history, ids) = (open(root), ids());
    for (room, value) in [(Room::Mapper, "external"), (Room::Delivery, "state")] {
        let values = history.values(room, "channel").unwrap();
        for round in 0..3usize {
            let change = |turn: &mut ValueEdit| {
                for (row, id) in ids.iter().enumerate().skip(round * 10).take(30) {
                    let value = format!("{value} {round} {row}");
                    let (persist_until, pending) = (START + (row as i64 % 20) * DAY, row % 3 == 0);
                    let entry = NewValue { value: Some(value.as_bytes()), persist_until, pending };
                    turn.put(values.id(id.as_bytes()), entry)?;
                }
                turn.remove(values.id(ids[round * 10].as_bytes()))
            };
            values.write(change).unwrap();
            if round < 2 {
                let snapshot = values.pin().unwrap();
                values.unpin(&snapshot).unwrap();
            }
        }
    }
}

/// What the spaces hold of all ids.
pub fn held(root: &Path, read_only: bool) -> Result<Vec<String>> {
    let history = History::open(root, &OpenOptions { read_only, ..OpenOptions::default() })?;
    let ids = ids();
    let column = Ids::new(&ids);
    let documents = column.documents();
    let mut all = Vec::new();
    for room in Room::ALL {
        let values = history.values(room, "channel")?;
        let found = values.look(&values.ids(&documents.ids[0]))?;
        let one = |row| format!("{:?} {} {}", found.value(row), found.persist_until(row), found.is_pending(row));
        all.extend((0..ids.len()).map(one));
    }
    Ok(all)
}

pub struct Store {
    _directory: tempfile::TempDir,
    pub root: PathBuf,
    /// The files of the spaces; those of the history itself are another test's.
    pub files: Files,
    pub good: Vec<String>,
}

impl Store {
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let root = directory.path().join("h");
        build(&root);
        let good = held(&root, true).unwrap();
        let mut files = Files::new();
        for room in ["mappers", "delivery"] {
            collect(&root.join(room), &mut files);
        }
        assert!(files.keys().filter(|path| kind(path) == "values").count() >= 4);
        Self { _directory: directory, root, files, good }
    }

    /// Whether damage was noticed; otherwise it must have changed nothing.
    pub fn notices(&self, what: &str, read_only: bool) -> bool {
        match std::panic::catch_unwind(AssertUnwindSafe(|| held(&self.root, read_only))) {
            Err(cause) => panic!("{what}: a panic: {cause:?}"),
            Ok(Ok(found)) => assert!(found == self.good, "{what}: other values"),
            Ok(Err(Error::Corrupt { .. } | Error::Open { .. })) => return true,
            Ok(Err(error)) => panic!("{what}: {error}"),
        }
        false
    }

    pub fn restore(&self) {
        let mut now = Files::new();
        for room in ["mappers", "delivery"] {
            collect(&self.root.join(room), &mut now);
        }
        for path in now.keys().filter(|path| !self.files.contains_key(*path)) {
            std::fs::remove_file(path).unwrap();
        }
        for (path, bytes) in self.files.iter().filter(|(path, bytes)| now.get(*path) != Some(bytes)) {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

pub fn kind(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().split('-').next().unwrap().to_owned()
}

pub fn is_advisory(path: &Path) -> bool {
    ["turn", "upkeep"].contains(&kind(path).as_str())
}
