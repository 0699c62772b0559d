//! A closed store on a real disk, with something of everything in it, to be damaged.

pub mod log;
pub mod maps;
pub mod triggers;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use dochistory_core::{Error, Result};

/// The files of a store by their path, as they were when it was closed.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What is stored.
pub trait Stored {
    /// What reports add where it is no trigger's.
    const OF: &'static str;

    fn ids() -> Vec<String>;
    fn build(root: &Path);
    /// Where the files lie that are its own.
    fn directories(root: &Path) -> Vec<PathBuf>;
    /// Whether there is something of everything.
    fn is_complete(files: &Files, good: &[String]) -> bool;
    /// What the store says of all ids.
    fn read(root: &Path, read_only: bool) -> Result<Vec<String>>;
    /// Every byte of what is there.
    fn verify(root: &Path) -> Result<()>;
}

pub struct Store<S> {
    _directory: tempfile::TempDir,
    pub root: PathBuf,
    pub files: Files,
    /// What it says while nothing is damaged.
    pub good: Vec<String>,
    stored: PhantomData<S>,
}

impl<S: Stored> Store<S> {
    pub fn new() -> Self {
        let directory = directory();
        let root = directory.path().join("h");
        S::build(&root);
        let good = S::read(&root, true).unwrap();
        let store = Self { _directory: directory, files: Self::now(&root), root, good, stored: PhantomData };
        assert!(S::is_complete(&store.files, &store.good));
        store
    }

    fn now(root: &Path) -> Files {
        S::directories(root).iter().flat_map(|directory| files_of(directory)).collect()
    }

    /// Read the store, damaged as `what` says. Answers whether the damage was noticed; if not, it
    /// must have changed nothing.
    pub fn notices(&self, what: &str, read_only: bool) -> bool {
        match std::panic::catch_unwind(AssertUnwindSafe(|| S::read(&self.root, read_only))) {
            Err(cause) => panic!("{what}: a panic: {cause:?}"),
            Ok(Ok(found)) => assert!(found == self.good, "{what}: it says\n{found:?} and said\n{:?}", self.good),
            Ok(Err(Error::Corrupt { .. } | Error::Open { .. })) => return true,
            Ok(Err(error)) => panic!("{what}: {error}"),
        }
        false
    }

    pub fn restore(&self) {
        self.become_files(&self.files);
    }

    /// Let the store have these files, and no others of its own.
    pub fn become_files(&self, files: &Files) {
        remove_repairs(&self.root);
        write(&Self::now(&self.root), files);
    }
}

/// Damage does not care how durable the disk is, and thousands of syncs take their time.
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn files_of(directory: &Path) -> Files {
    let mut files = Files::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_of(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// What is there is to become `files` again.
pub fn write(now: &Files, files: &Files) {
    for path in now.keys().filter(|path| !files.contains_key(*path)) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, bytes) in files.iter().filter(|(path, bytes)| now.get(*path) != Some(bytes)) {
        std::fs::write(path, bytes).unwrap();
    }
}

/// What repairs have put aside.
pub fn remove_repairs(root: &Path) {
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if kind(&path) == "repaired" {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
}

pub fn kind(path: &Path) -> String {
    if path.parent().is_some_and(|parent| parent.ends_with("known")) {
        return "known".into();
    }
    path.file_name().unwrap().to_string_lossy().split('-').next().unwrap().to_owned()
}

/// Whether the file can be lost without harm.
pub fn is_advisory(path: &Path) -> bool {
    ["turn", "upkeep", "load", "HISTORY.copy", "known"].contains(&kind(path).as_str())
}

/// The newest file of a kind.
pub fn newest(directory: &Path, wanted: &str) -> PathBuf {
    files_of(directory).into_keys().filter(|path| kind(path) == wanted).max().unwrap()
}

/// Change bits of a byte of a file.
pub fn flip(path: &Path, at: usize, bits: u8) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= bits;
    std::fs::write(path, bytes).unwrap();
}
