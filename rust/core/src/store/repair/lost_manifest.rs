//! The replacement of a lost manifest: an older one or a snapshot, and the files of the directory.

use std::path::Path;

use super::Case;
use super::remnants::Remnants;
use crate::Result;
use crate::format::manifest::{Manifest, SegmentEntry, ValueFileEntry};
use crate::format::names::FileKind;
use crate::segment::Segment;
use crate::segment::values::segment::ValueSegment as Values;
use crate::store::environment::Environment;
use crate::store::files::read_manifest;
use crate::store::publish::entry_of;
use crate::store::staged::is_staged_name;
use crate::wal::{Frames, Log, Next, Owner, START};

const DAY: i64 = 86_400_000_000;
/// Numbers to skip, so that no claim of the lost manifest has the number of a later one.
const MANY: u64 = 1 << 32;

/// The starting point of a repair.
pub(super) struct Basis {
    /// A manifest whose segments and files of values are those of the directory.
    pub(super) manifest: Manifest,
    /// Whether the space's name is known.
    pub(super) is_named: bool,
    /// Staged files with the name of a segment, of which nothing shows that they were committed.
    pub(super) uncommitted: Vec<SegmentEntry>,
    /// For a map: whether files are counted without proof that they did before.
    pub(super) is_unsure: bool,
}

/// The best starting point available.
pub(super) fn basis(case: Case, names: &[String]) -> Basis {
    let Case { env, directory, .. } = case;
    let remnants = Remnants::of_newest(case);
    let older = older(env, directory, names).filter(|older| case.is_own(&older.name));
    let known = older.clone().unwrap_or_default();
    let mut manifest = older.unwrap_or_else(|| Manifest {
        history: env.history,
        name: remnants.name.clone().or_else(|| case.name()).unwrap_or_default(),
        partition_us: remnants.partition_us.unwrap_or(DAY),
        purged_upto: i64::MIN,
        ..Manifest::default()
    });
    let numbers = |kind: FileKind| names.iter().filter_map(move |name| kind.number_in(name)).collect::<Vec<_>>();
    let files = [FileKind::Segment, FileKind::GlobalFilter, FileKind::Values, FileKind::Log, FileKind::New];
    let files = files.map(numbers).concat();
    manifest.number = numbers(FileKind::Manifest).into_iter().max().unwrap_or(0);
    manifest.next_file = files.iter().copied().max().unwrap_or(1).max(manifest.next_file) + 1;
    manifest.global_filters = Vec::new();
    manifest.frozen = None;
    let staged = staged(env, directory, names);
    // The commit gives a staged file its second name before it publishes, and removes the first one
    // only afterwards.
    let is_shown = |entry: &SegmentEntry| {
        !staged.contains(&(entry.id, entry.sum))
            || remnants.names(entry.id, entry.sum)
            || known.segments.iter().any(|other| (other.id, other.sum) == (entry.id, entry.sum))
    };
    let segments = numbers(FileKind::Segment).into_iter().map(|id| entry(env, directory, id));
    let (segments, uncommitted): (Vec<_>, Vec<_>) = segments.partition(is_shown);
    manifest.segments = segments;
    let found = numbers(FileKind::Values).into_iter().map(|id| value_entry(case, &remnants, &known, id)).collect();
    let (values, is_unsure) = that_count(found);
    manifest.values = values;
    manifest.log.proven = START;
    manifest.next_sequence = manifest.next_sequence.max(highest_claim(env, directory, &manifest) + 1) + MANY;
    Basis { is_named: case.is_own(&manifest.name), manifest, uncommitted, is_unsure }
}

/// The newest manifest or snapshot that is intact.
fn older(env: &Environment, directory: &Path, names: &[String]) -> Option<Manifest> {
    let is_state = |name: &&String| FileKind::Manifest.number_in(name).is_some() || FileKind::Pin.has(name);
    let states = names.iter().filter(is_state).filter_map(|name| read_manifest(env, &directory.join(name)).ok());
    states.max_by_key(|manifest| manifest.number)
}

/// Numbers and header sums of the files that jobs staged.
fn staged(env: &Environment, directory: &Path, names: &[String]) -> Vec<(u64, u32)> {
    let head = |name: &String| Segment::head(&*env.system, &directory.join(name)).ok();
    let heads = names.iter().filter(|name| is_staged_name(name)).filter_map(head);
    heads.map(|(header, sum)| (header.id, sum)).collect()
}

/// A segment as its header describes it; if it cannot be opened, only its number.
fn entry(env: &Environment, directory: &Path, id: u64) -> SegmentEntry {
    match Segment::head(&*env.system, &FileKind::Segment.path(directory, id)) {
        Ok((header, sum)) if header.id == id => entry_of(&header, sum, header.pages),
        _ => SegmentEntry { id, ..SegmentEntry::default() },
    }
}

/// The evidence for a file of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// The remnants of the lost manifest name it.
    Newest,
    /// An older manifest or a snapshot names it.
    Older,
    Nobody,
}

/// A file of values as the manifests describe it, else as its header does; if it cannot be opened,
/// only its number.
fn value_entry(case: Case, remnants: &Remnants, known: &Manifest, id: u64) -> (ValueFileEntry, Witness) {
    let marks =
        ValueFileEntry { id, purged_upto: i64::MIN, pending_purged_upto: i64::MIN, ..ValueFileEntry::default() };
    let older = known.values.iter().find(|entry| entry.id == id);
    match Values::head(&*case.env.system, &FileKind::Values.path(case.directory, id), case.env.history) {
        Ok((_, header, sum)) if header.id == id => {
            if let Some(entry) = remnants.values(&header, sum) {
                return (entry, Witness::Newest);
            }
            if let Some(entry) = older.filter(|entry| entry.sum == sum) {
                return (*entry, Witness::Older);
            }
            // Without a statement of the file itself it is taken as a later one: files that are
            // searched first hide others, as newer files do.
            let is_later = header.is_later.unwrap_or(true);
            (ValueFileEntry { sum, is_later, rows: header.rows, ..marks }, Witness::Nobody)
        }
        _ => older
            .map_or((ValueFileEntry { is_later: true, ..marks }, Witness::Nobody), |entry| (*entry, Witness::Older)),
    }
}

/// The files that count, and whether that is a guess. Files that the lost manifest names count. If
/// there are any, files that only an older manifest names do not count: a snapshot keeps them
/// alive, and their entries are in newer files.
fn that_count(found: Vec<(ValueFileEntry, Witness)>) -> (Vec<ValueFileEntry>, bool) {
    let tells = found.iter().any(|(_, witness)| *witness == Witness::Newest);
    let counts = |(_, witness): &(ValueFileEntry, Witness)| !(tells && *witness == Witness::Older);
    let counting: Vec<_> = found.into_iter().filter(counts).collect();
    let is_unsure = counting.iter().any(|(_, witness)| *witness != Witness::Newest);
    (counting.into_iter().map(|(entry, _)| entry).collect(), is_unsure)
}

fn highest_claim(env: &Environment, directory: &Path, manifest: &Manifest) -> u64 {
    let claims = |entry: &SegmentEntry| -> Result<u64> {
        let segment = Segment::open(&*env.system, &FileKind::Segment.path(directory, entry.id), env.history)?;
        Ok(segment.stamps()?.iter().map(|stamp| stamp.claim).max().unwrap_or(0))
    };
    manifest.segments.iter().map(|entry| claims(entry).unwrap_or(0)).max().unwrap_or(0)
}

/// The logs that may hold entries that no segment holds: the newest two that are not empty, as the
/// first may have been frozen, and the empty ones behind them, because a new log is created before
/// the manifest that names it.
pub(super) fn live_logs(case: Case, names: &[String], owner: Owner) -> Vec<u64> {
    let id = |name: &String| FileKind::Log.number_in(name);
    // A loss of power may bring back the name of a log whose file another one has taken.
    let is_taken = |id: u64| {
        let path = FileKind::Log.path(case.directory, id);
        Log::is_taken(&*case.env.system, &path, id, owner).unwrap_or(false)
    };
    let mut ids: Vec<u64> = names.iter().filter_map(id).filter(|id| !is_taken(*id)).collect();
    ids.sort_unstable();
    // A log no longer than its header holds no frame, whatever the state of the header: a log that
    // was being created may have none.
    let is_short = |id: u64| -> std::io::Result<bool> {
        Ok(case.env.system.open(&FileKind::Log.path(case.directory, id), false)?.len()? <= START)
    };
    let is_empty = |id: u64| {
        let log = Log::open(&*case.env.system, &FileKind::Log.path(case.directory, id), id, owner, false);
        let has_none = |log: Log| matches!(Frames::new(&log, START, log.inherited).next(), Ok(Next::End));
        log.is_ok_and(has_none) || is_short(id).unwrap_or(false)
    };
    let (mut live, mut full) = (Vec::new(), 0);
    while full < 2
        && let Some(id) = ids.pop()
    {
        live.insert(0, id);
        full += u64::from(!is_empty(id));
    }
    live
}
