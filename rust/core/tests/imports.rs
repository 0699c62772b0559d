//! The house's plan: a room imports from the rooms below it only, and `docs/design.md` draws them
//! in this order.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

/// From the ground up.
const ROOMS: [&str; 16] = [
    "sys",
    "io",
    "columns",
    "key",
    "types",
    "format",
    "filter",
    "segment",
    "wal",
    "memtable",
    "objects",
    "store",
    "history",
    "protocols",
    "repair",
    "testing",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Code without comments, and without tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let shipped = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    shipped.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn floor(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

/// The rooms that a file names after `crate::`.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn no_room_imports_from_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut upward, mut seen) = (Vec::new(), 0);
    for path in &files {
        let inside = path.strip_prefix(&root).unwrap();
        let is_test = inside.iter().any(|part| part == "tests" || part.to_string_lossy().ends_with("tests.rs"));
        let Some(own) = inside.iter().next().and_then(|room| floor(&room.to_string_lossy())) else { continue };
        for room in imports(&code(path)).filter(|_| !is_test) {
            let Some(other) = floor(room) else { continue };
            seen += 1;
            if other > own {
                upward.push(format!("{} imports {room}", inside.display()));
            }
        }
    }
    assert!(seen > 300, "only {seen} imports were found: is the source where it was?");
    assert_eq!(upward, Vec::<String>::new());
}

#[test]
fn every_room_has_its_line_in_the_design() {
    let design = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design.md");
    let design = std::fs::read_to_string(design).unwrap();
    let drawn: Vec<&str> = design.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let places: Vec<usize> = ROOMS
        .iter()
        .map(|room| drawn.iter().position(|word| word == room).unwrap_or_else(|| panic!("{room}")))
        .collect();
    assert!(places.is_sorted_by(|below, above| below > above), "the picture draws the top first: {places:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(!path.is_dir() || floor(&name).is_some(), "{name} has no floor");
    }
}
