//! Repairing a damaged key space: readable entries stay, unreadable ones are dropped and reported,
//! and no file is deleted.
//!
//! [`diagnose`] only reads; [`apply`] works under the writer lock. One manifest makes the whole
//! repair effective, as with every change: a repair that is interrupted has only added second names
//! of the damaged files.

mod apply;
mod damage;
mod diagnose;
mod diagnosing;
mod log;
mod lost_manifest;
mod older;
mod remnants;
mod values;

use std::path::{Path, PathBuf};

pub(crate) use apply::apply;
pub(crate) use damage::damage;
pub(crate) use diagnose::diagnose;

use super::environment::Environment;
use super::registry;
use crate::format::manifest::Manifest;
use crate::format::names::{Room, directory_name};
use crate::key::Codec;
use crate::memtable::Memtable;
use damage::Mended;

/// The treatment of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Rebuilt from other files; nothing is lost.
    Rebuilt,
    /// Its readable part is kept, the rest is dropped.
    Salvaged,
    /// Dropped whole.
    Dropped,
    /// No repair is possible.
    Impossible,
}

/// A number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly this number.
    Exactly(u64),
    /// At most this number.
    AtMost(u64),
    /// At least this number; the maximum is unknown.
    AtLeast(u64),
    /// The number is unknown.
    Unknown,
}

/// One damaged file.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The trigger; if its name is lost, its directory. None if the damage concerns no trigger, or
    /// all.
    pub trigger: Option<String>,
    /// The map of values, if the damage is in one: a mapper, or the streams of one side.
    pub map: Option<(Room, String)>,
    /// The file.
    pub path: PathBuf,
    /// The first damaged offset in the file.
    pub offset: u64,
    /// The damage.
    pub reason: String,
    /// The treatment by a repair.
    pub remedy: Remedy,
    /// Entries that are dropped: their ids are new when they come again, unless other files hold
    /// them.
    pub dropped: Count,
    /// Entries that are kept but may have lost how they ended: in doubt until they are completed or
    /// released.
    pub reopened: Count,
    /// The earliest and the latest start of the dropped entries' services, in microseconds since
    /// 1970; none if unknown.
    pub started_at: Option<(i64, i64)>,
    /// For a map: ids of which an earlier entry counts again, or may, because a later one is lost.
    pub returned: Count,
    /// For a map: the earliest and the latest time until which the dropped entries were kept;
    /// `i64::MAX` is forever.
    pub kept_until: Option<(i64, i64)>,
    /// For a map: the ids that are dropped or count as earlier, as far as they can be read; the
    /// first [`MOST_NAMED`] of them.
    pub ids: Vec<String>,
    /// Bytes that cannot be read.
    pub bytes: u64,
    /// The consequences.
    pub meaning: &'static str,
}

/// The damage of a key space, and the content of its new state.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) findings: Vec<Finding>,
    /// The state to publish: its segments are the intact ones; log and global filters follow from
    /// the rest.
    manifest: Manifest,
    /// Numbers of segments whose readable entries are rewritten.
    salvaged_segments: Vec<u64>,
    /// File names that are taken out of use, and kept aside.
    retired: Vec<String>,
    /// The readable part of a log that cannot be continued.
    memtable: Option<Memtable>,
    /// Sequence numbers that the lost part of the log may have used.
    skipped: u64,
    /// Whether global filters have to be rebuilt.
    lacks_filters: bool,
    /// For a map: the rewritten entries.
    values: Mended,
    /// Whether nothing is left at all: then the space becomes one that was never used.
    is_gone: bool,
}

/// Maximum number of ids that a finding names.
pub const MOST_NAMED: usize = 1_000;

impl Diagnosis {
    /// Whether there is anything to repair.
    pub(crate) fn is_repairable(&self) -> bool {
        !self.findings.is_empty() && self.findings.iter().all(|finding| finding.remedy != Remedy::Impossible)
    }
}

/// Progress callback: `(done, total)` files.
pub(crate) type Looked<'a> = &'a mut dyn FnMut(u64, u64) -> crate::Result<()>;

/// Makes the row to put for a key of a map whose last row is lost, from an earlier one if any is
/// left. None where no row is needed.
pub(crate) type StandIn = fn(Room, &[u8], Option<&[u8]>) -> Option<Vec<u8>>;

/// A key space to check.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) codec: &'a Codec,
    pub(crate) directory: &'a Path,
    /// None for a trigger's.
    pub(crate) room: Option<Room>,
    /// Makes the row that replaces a map's lost one, by the protocol of the map.
    pub(crate) stand_in: StandIn,
    /// The trigger's name, as the caller knows it.
    pub(crate) named: Option<&'a str>,
}

impl Case<'_> {
    /// Whether a full name belongs to this space: its directory's name has a hash of it.
    fn is_own(&self, full: &str) -> bool {
        let name = full.strip_prefix(self.room.map_or("", Room::prefix));
        name.is_some_and(|name| directory_name(name) == name_of(self.directory))
    }

    /// The full name of the space, from outside its manifests: the caller's, the one in the
    /// registry, or the part that is in its directory's name.
    fn name(&self) -> Option<String> {
        let own = name_of(self.directory);
        let shown = own.rsplit_once('-').map(|(shown, _)| format!("{}{shown}", self.room.map_or("", Room::prefix)));
        let noted = registry::name_of(self.env, self.directory);
        self.named.map(str::to_owned).into_iter().chain(noted).chain(shown).find(|name| self.is_own(name))
    }
}

fn name_of(directory: &Path) -> String {
    directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
