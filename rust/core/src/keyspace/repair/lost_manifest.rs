//! What takes the place of a manifest that is gone: an older one or a snapshot, and what the directory holds.

use std::path::Path;

use super::super::publish::{entry_of, is_partition_width};
use super::super::view::{Environment, log_path, manifest_path, newest, read_manifest, segment_path};
use super::name_of;
use crate::history::directory_name;
use crate::log::{Log, Owner, START};
use crate::manifest::{Manifest, SegmentEntry};
use crate::segment::Segment;
use crate::{Error, Result};

const DAY: i64 = 86_400_000_000;
/// No claim that the lost manifest knew of has a number that is given away after it.
const MANY: u64 = 1 << 32;

/// What a repair starts from.
pub(super) struct Basis {
    /// Its segments are all that the directory holds.
    pub(super) manifest: Manifest,
    /// Whether the trigger's name is known.
    pub(super) is_named: bool,
}

/// The best basis there is.
pub(super) fn basis(env: &Environment, directory: &Path, names: &[String], named: Option<&str>) -> Result<Basis> {
    let own = name_of(directory);
    let is_own = |name: &str| directory_name(name) == own;
    let mut manifest = older(env, directory, names).filter(|older| is_own(&older.name)).unwrap_or_else(|| {
        let left = left_of_newest(env, directory);
        let readable = own.rsplit_once('-').map(|(readable, _)| readable.to_owned());
        let name = named.map(str::to_owned).into_iter().chain(left.name).chain(readable).find(|name| is_own(name));
        Manifest {
            history: env.history,
            name: name.unwrap_or_default(),
            partition_us: left.partition_us.unwrap_or(DAY),
            purged_upto: i64::MIN,
            ..Manifest::default()
        }
    });
    let numbers = |prefix: &str, radix| {
        let of = move |name: &String| u64::from_str_radix(name.strip_prefix(prefix)?, radix).ok();
        names.iter().filter_map(of).collect::<Vec<_>>()
    };
    let files = ["segment-", "filter-", "log-", "new-"].map(|prefix| numbers(prefix, 16)).concat();
    manifest.number = numbers("manifest-", 10).into_iter().max().unwrap_or(0);
    manifest.next_file = files.iter().copied().max().unwrap_or(1).max(manifest.next_file) + 1;
    manifest.rollups = Vec::new();
    manifest.segments = numbers("segment-", 16).into_iter().map(|id| entry(env, directory, id)).collect();
    manifest.log.proven = START;
    manifest.next_sequence = manifest.next_sequence.max(highest_claim(env, directory, &manifest) + 1) + MANY;
    Ok(Basis { is_named: is_own(&manifest.name), manifest })
}

/// The newest manifest or snapshot that is whole.
fn older(env: &Environment, directory: &Path, names: &[String]) -> Option<Manifest> {
    let is_state = |name: &&String| Manifest::number_of(name).is_some() || name.starts_with("pin-");
    let states = names.iter().filter(is_state).filter_map(|name| read_manifest(env, &directory.join(name)).ok());
    states.max_by_key(|manifest| manifest.number)
}

/// What the bytes of a damaged manifest still tell, as far as it proves itself.
#[derive(Default)]
struct Left {
    name: Option<String>,
    partition_us: Option<i64>,
}

fn left_of_newest(env: &Environment, directory: &Path) -> Left {
    let read = || -> Result<Vec<u8>> {
        let number = newest(env, directory)?.ok_or_else(|| Error::State("there is no manifest".into()))?;
        let path = manifest_path(directory, number);
        let file = env.system.open(&path, false).map_err(Error::io("open", &path))?;
        let mut bytes = vec![0; file.len().map_err(Error::io("look at", &path))?.min(1 << 16) as usize];
        file.read_at(&mut bytes, 0).map_err(Error::io("read", &path))?;
        Ok(bytes)
    };
    let Ok(bytes) = read() else { return Left::default() };
    // The name stands behind its length at byte 40; the directory's name tells whether it is right.
    let own = name_of(directory);
    let starts = bytes.get(44..).unwrap_or_default();
    let is_own = |length: &usize| std::str::from_utf8(&starts[..*length]).is_ok_and(|name| directory_name(name) == own);
    let Some(length) = (0..=starts.len().min(4096)).find(is_own) else { return Left::default() };
    let partition = starts[length..].first_chunk().map(|field| i64::from_le_bytes(*field));
    Left {
        name: String::from_utf8(starts[..length].to_vec()).ok(),
        partition_us: partition.filter(|width| is_partition_width(*width)),
    }
}

/// A segment as its header describes it; of one that cannot be opened, only its number.
fn entry(env: &Environment, directory: &Path, id: u64) -> SegmentEntry {
    match Segment::head(&*env.system, &segment_path(directory, id)) {
        Ok((header, sum)) if header.id == id => entry_of(&header, sum, header.pages),
        _ => SegmentEntry { id, ..SegmentEntry::default() },
    }
}

fn highest_claim(env: &Environment, directory: &Path, manifest: &Manifest) -> u64 {
    let claims = |entry: &SegmentEntry| -> Result<u64> {
        let segment = Segment::open(&*env.system, &segment_path(directory, entry.id), env.history)?;
        Ok(segment.stamps()?.iter().map(|stamp| stamp.claim).max().unwrap_or(0))
    };
    manifest.segments.iter().map(|entry| claims(entry).unwrap_or(0)).max().unwrap_or(0)
}

/// The logs that may hold what no segment does: the newest, and while that is empty the one before it, as a new log is made
/// before the manifest that names it.
pub(super) fn live_logs(env: &Environment, directory: &Path, names: &[String], owner: Owner) -> Vec<u64> {
    let id = |name: &String| u64::from_str_radix(name.strip_prefix("log-")?, 16).ok();
    let mut ids: Vec<u64> = names.iter().filter_map(id).collect();
    ids.sort_unstable();
    let is_empty = |id: u64| {
        let log = Log::open(&*env.system, &log_path(directory, id), id, owner, false);
        log.is_ok_and(|log| log.inherited == START)
    };
    let mut live = Vec::new();
    while let Some(id) = ids.pop() {
        live.insert(0, id);
        if !is_empty(id) {
            break;
        }
    }
    live
}
