//! Making a damaged key space usable again: what can be read stays, what cannot is dropped by name,
//! and no file is lost.
//!
//! [`diagnose`] only looks; [`apply`] works under the writer lock. One manifest makes all of it
//! true, as with every change: a repair that breaks off has changed nothing but second names of the
//! damaged files.

mod apply;
mod diagnose;
mod diagnosing;
mod log;
mod lost_manifest;
mod older;
mod remnants;
mod values;

use std::path::{Path, PathBuf};

pub(crate) use apply::apply;
pub(crate) use diagnose::{damage, diagnose};

use super::environment::Environment;
use super::registry;
use crate::format::manifest::Manifest;
use crate::format::names::{Room, directory_name};
use crate::key::Codec;
use crate::memtable::Memtable;
use values::Mended;

/// What becomes of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Made anew from other files; nothing is lost.
    Rebuilt,
    /// What can be read of it is kept, the rest is dropped.
    Salvaged,
    /// Dropped whole.
    Dropped,
    /// Nothing can be done about it.
    Impossible,
}

/// How many entries something concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many.
    Exactly(u64),
    /// So many at most.
    AtMost(u64),
    /// So many, and nothing tells how many more.
    AtLeast(u64),
    /// Nothing tells.
    Unknown,
}

/// One damaged file.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The trigger; of one whose name is lost, its directory; none if the damage concerns no
    /// trigger, or all.
    pub trigger: Option<String>,
    /// The map of values, if the damage is one of those: a mapper, or the streams of one side.
    pub map: Option<(Room, String)>,
    /// The file.
    pub path: PathBuf,
    /// Where in the file the damage shows first.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
    /// What a repair does about it.
    pub remedy: Remedy,
    /// Entries that are dropped: their ids are new when they come again, unless other files know
    /// them.
    pub dropped: Count,
    /// Entries that are kept but may have lost how they ended: in doubt until they are completed or
    /// released.
    pub reopened: Count,
    /// Between when and when the services of the dropped entries began, in microseconds since 1970;
    /// none if nothing tells.
    pub started_at: Option<(i64, i64)>,
    /// Of a map: ids of which an earlier entry counts again, or may, as a later one is lost.
    pub returned: Count,
    /// Of a map: between when and when the dropped entries were kept until; `i64::MAX` is for ever.
    pub kept_until: Option<(i64, i64)>,
    /// Of a map: the ids that are dropped or count as earlier, as far as they can be read; the
    /// first [`MOST_NAMED`] of them.
    pub ids: Vec<String>,
    /// Bytes that cannot be read.
    pub bytes: u64,
    /// What that means.
    pub meaning: &'static str,
}

/// What is wrong with a key space, and what it will consist of.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) findings: Vec<Finding>,
    /// The state to publish: its segments are those that are whole; log and rolled-up filters
    /// follow from the rest.
    manifest: Manifest,
    /// Numbers of segments whose readable entries are written anew.
    salvaged_segments: Vec<u64>,
    /// File names that are taken out of use, and kept aside.
    retired: Vec<String>,
    /// What is left of a log that cannot go on.
    memtable: Option<Memtable>,
    /// Sequence numbers that the lost part of the log may have used.
    skipped: u64,
    /// Whether rolled-up filters have to be built anew.
    lacks_filters: bool,
    /// Of a map: the entries that are written anew.
    values: Mended,
    /// Whether nothing is left at all: then the space becomes one that was never used.
    is_gone: bool,
}

/// A finding names so many ids at most.
pub const MOST_NAMED: usize = 1_000;

impl Diagnosis {
    /// Whether there is anything that a repair would do.
    pub(crate) fn is_repairable(&self) -> bool {
        !self.findings.is_empty() && self.findings.iter().all(|finding| finding.remedy != Remedy::Impossible)
    }
}

/// Hears of files looked at: done, in all.
pub(crate) type Looked<'a> = &'a mut dyn FnMut(u64, u64) -> crate::Result<()>;

/// The row to put for a key of a map whose last row is lost, given an earlier one if any is left.
/// None where nothing has to be put.
pub(crate) type StandIn = fn(Room, &[u8], Option<&[u8]>) -> Option<Vec<u8>>;

/// A key space to look at.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) codec: &'a Codec,
    pub(crate) directory: &'a Path,
    /// None for a trigger's.
    pub(crate) room: Option<Room>,
    /// Which row stands for a map's lost one, by the protocol that the map is for.
    pub(crate) stand_in: StandIn,
    /// The trigger's name, as the caller knows it.
    pub(crate) named: Option<&'a str>,
}

impl Case<'_> {
    /// Whether a full name is this space's: its directory bears a hash of it.
    fn is_own(&self, full: &str) -> bool {
        let name = full.strip_prefix(self.room.map_or("", Room::prefix));
        name.is_some_and(|name| directory_name(name) == name_of(self.directory))
    }

    /// The full name of the space, from outside of its manifests: as the caller knows it, as it was
    /// noted when the space was made, or as what its directory's name shows of it.
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
