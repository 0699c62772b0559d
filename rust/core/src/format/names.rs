//! The names of all files and directories of a history.

use std::path::{Path, PathBuf};

/// The identity file.
pub(crate) const IDENTITY: &str = "HISTORY";
/// A second copy of the identity file, for repairs: without the secret in it, no id can be compared
/// with the stored keys.
pub(crate) const SPARE: &str = "HISTORY.copy";
/// The directory of the triggers' key spaces.
pub(crate) const TRIGGERS: &str = "triggers";
/// The directory of the registry.
pub(crate) const REGISTRY: &str = "known";
/// Files that the Python package keeps beside the key spaces.
pub(crate) const OF_THE_PACKAGE: [&str; 3] = ["audit", "statistics", "sweeper.json"];
/// The file in a key space that the writer locks.
pub(crate) const WRITER_LOCK: &str = "turn";
/// The file in a key space that maintenance locks.
pub(crate) const MAINTENANCE_LOCK: &str = "upkeep";
/// The file in a key space that the one who puts a frozen log into segments locks.
pub(crate) const SEAL_LOCK: &str = "seal";
/// The file in a key space that the writer of a bulk load's part locks.
pub(crate) const LOAD_LOCK: &str = "load";

/// The use of a map of values. Each use has its own directory in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Room {
    /// Message id mappers.
    Mapper,
    /// Guaranteed delivery.
    Delivery,
}

impl Room {
    /// Every room.
    pub const ALL: [Self; 2] = [Self::Mapper, Self::Delivery];

    /// The directory's name.
    pub(crate) const fn directory(self) -> &'static str {
        match self {
            Self::Mapper => "mappers",
            Self::Delivery => "delivery",
        }
    }

    /// The prefix that sets its names apart from those of other rooms, in manifests and logs.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Mapper => "mapper:",
            Self::Delivery => "delivery:",
        }
    }
}

/// The files of a key space. Each has a number in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Manifest,
    Log,
    /// A log that is over, whose file the next one takes.
    OldLog,
    Segment,
    GlobalFilter,
    Values,
    /// A manifest that a snapshot keeps.
    Pin,
    /// A complete or incomplete file that no manifest names yet.
    New,
    /// A part of a bulk load that no manifest names yet.
    LoadPart,
    /// A file that is being published.
    Temporary,
}

impl FileKind {
    const ALL: [Self; 10] = [
        Self::Manifest,
        Self::Log,
        Self::OldLog,
        Self::Segment,
        Self::GlobalFilter,
        Self::Values,
        Self::Pin,
        Self::New,
        Self::LoadPart,
        Self::Temporary,
    ];

    /// How the names of these files begin.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Manifest => "manifest-",
            Self::Log => "log-",
            Self::OldLog => "old-",
            Self::Segment => "segment-",
            Self::GlobalFilter => "filter-",
            Self::Values => "values-",
            Self::Pin => "pin-",
            Self::New => "new-",
            Self::LoadPart => "part-",
            Self::Temporary => "tmp-",
        }
    }

    /// The kind of the file that has this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.has(name))
    }

    /// Whether a file of this name is of this kind.
    pub(crate) fn has(self, name: &str) -> bool {
        name.starts_with(self.prefix())
    }

    /// The name of the file of this kind that has this number.
    pub(crate) fn name(self, number: u64) -> String {
        match self {
            Self::Manifest => format!("{}{number:020}", self.prefix()),
            _ => format!("{}{number:016x}", self.prefix()),
        }
    }

    /// The file of this kind that has this number.
    pub(crate) fn path(self, directory: &Path, number: u64) -> PathBuf {
        directory.join(self.name(number))
    }

    /// The number in a name of this kind.
    pub(crate) fn number_in(self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(self.prefix())?;
        match self {
            Self::Manifest if digits.len() == 20 => digits.parse().ok(),
            Self::Manifest => None,
            _ => u64::from_str_radix(digits, 16).ok(),
        }
    }
}

/// A directory's name for a trigger: the harmless characters of its name, for people, and a hash of
/// the whole name. The result never leaves the parent directory; the manifest holds the name
/// itself.
pub(crate) fn directory_name(trigger: &str) -> String {
    let harmless = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    let readable: String = trigger.chars().take(40).map(harmless).collect();
    format!("{readable}-{:032x}", xxhash_rust::xxh3::xxh3_128(trigger.as_bytes()))
}

/// Whether a name is one of [`directory_name`]: desktops and file systems leave files of their own.
pub(crate) fn is_directory_name(name: &str) -> bool {
    let is_hash = |hash: &str| hash.len() == 32 && hash.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    name.rsplit_once('-').is_some_and(|(_, hash)| is_hash(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_trigger_name_leaves_the_directory() {
        for name in ["../../etc/passwd", "/", ".", "..", "", "a\0b", "con", "ä/ö", &"x".repeat(500)] {
            let directory = directory_name(name);
            assert!(!directory.contains(['/', '\0', '.']), "{directory}");
            assert!(directory.len() <= 80);
            assert!(is_directory_name(&directory));
        }
        assert_ne!(directory_name("a/b"), directory_name("a-b"));
        assert!([".DS_Store", "orders", "orders-1", ""].into_iter().all(|name| !is_directory_name(name)));
    }

    #[test]
    fn a_file_is_found_again_by_its_name() {
        for kind in FileKind::ALL {
            let path = kind.path(Path::new("space"), 0x1f);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(FileKind::of(name), Some(kind));
            assert_eq!(kind.number_in(name), Some(0x1f));
        }
        assert_eq!(FileKind::of("notes.txt"), None);
    }
}
