//! A fixed workload writes fixed bytes: a change of the format shows here first, and no change of
//! the code's shape may.
//!
//! Files in `tests/regressions` hold the hash of all files after each step. `DOCHISTORY_RECORD=1`
//! writes them again, for a change of the format that is meant.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dochistory_core::io::FileSystem;
use dochistory_core::testing::simulated::Simulated;

use super::{Harness, ROOT, Subject};

/// Files that name processes and times, or are named after them.
const OF_THE_MOMENT: [&str; 6] = ["HISTORY", "turn", "upkeep", "pin-", "new-", "repaired-"];

/// All files of a directory and below, in the order of their names.
fn files(system: &Simulated, directory: &Path, found: &mut Vec<PathBuf>) {
    let mut names = system.list(directory).unwrap_or_default();
    names.sort();
    for name in names {
        let path = directory.join(&name);
        if system.open(&path, false).is_ok() {
            if !OF_THE_MOMENT.iter().any(|prefix| name.starts_with(prefix)) {
                found.push(path);
            }
        } else {
            files(system, &path, found);
        }
    }
}

/// How many files there are, their bytes, and a hash of all names and contents.
fn state(system: &Simulated, directory: &Path) -> String {
    let mut found = Vec::new();
    files(system, directory, &mut found);
    let (mut all, mut total) = (Vec::new(), 0);
    for path in &found {
        let file = system.open(path, false).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        total += bytes.len();
        all.extend_from_slice(path.to_string_lossy().as_bytes());
        all.extend_from_slice(&xxhash_rust::xxh3::xxh3_128(&bytes).to_le_bytes());
    }
    format!("{} files {total} bytes {:032x}", found.len(), xxhash_rust::xxh3::xxh3_128(&all))
}

/// The states after each step of the workload.
fn play<S: Subject>() -> String {
    let mut out = String::new();
    let machine = Simulated::new(7);
    let processes = [machine.process(), machine.process()];
    let mut harness = Harness::<S>::new(&processes);
    for (number, step) in S::workload().iter().enumerate() {
        harness.step(step).unwrap();
        writeln!(out, "{number}: {}", state(&machine.process(), Path::new(ROOT))).unwrap();
    }
    out
}

/// Play the workload, and hold what it writes against the kept file.
pub fn writes_what_it_wrote<S: Subject>(kept: &str) {
    let written = play::<S>();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions").join(kept);
    if std::env::var_os("DOCHISTORY_RECORD").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert!(known.lines().count() > 10, "the workload plays many steps");
    for (known, written) in known.lines().zip(written.lines()) {
        assert_eq!(known, written, "{kept}");
    }
    assert_eq!(known.lines().count(), written.lines().count());
}
