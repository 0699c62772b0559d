//! Files that somebody has changed who means harm: every checksum fits.

use std::path::Path;

use dochistory_core::history::values::{NewValue, Room};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Call, OnReplay};
use dochistory_core::{Purge, Result};

use crate::harness::closed::log::{frames, used};
use crate::harness::closed::maps::MAP;
use crate::harness::closed::triggers::{TRIGGERS, named};
use crate::harness::closed::{Files, Store, Stored, is_advisory, kind};
use crate::harness::{DAY, Ids, Maps, START, Triggers};

const PAGE: usize = 4096;

/// Where files are forged: the header, and in steps through the rest; and with how many values
/// each.
trait Forged: Stored {
    const HEADER: usize;
    const STEP: usize;
    const VALUES: usize;

    /// Everything a program can do with a store.
    fn use_all(root: &Path) -> Result<()>;
}

impl Forged for Triggers {
    const HEADER: usize = 320;
    const STEP: usize = 389;
    const VALUES: usize = 2;

    fn use_all(root: &Path) -> Result<()> {
        let history = History::open(root, &OpenOptions::default())?;
        let ids = Ids::new(&Self::ids());
        for name in TRIGGERS {
            let trigger = named(name);
            history.classify(&trigger, &ids.documents(), &mut Call::at(START))?;
            let mut entries = history.entries(name, None)?;
            while entries.next_batch()?.is_some() {}
            history.statistics(name)?;
            history.verify(name, &mut |_, _| Ok(()))?;
            history.begin(&trigger, &ids.documents(), &mut Call::at(START + 4 * DAY), None, OnReplay::ByRules)?;
            history.complete_keys(&trigger, &ids.documents(), START + 4 * DAY)?;
            let snapshot = history.pin(name)?;
            history.unpin(name, &snapshot)?;
            history.maintain(name, true, &mut |_, _| Ok(()))?;
            history.purge(&trigger, Purge::at(START + 31 * DAY))?;
        }
        Ok(())
    }
}

impl Forged for Maps {
    const HEADER: usize = 480;
    const STEP: usize = 197;
    const VALUES: usize = 1;

    fn use_all(root: &Path) -> Result<()> {
        Self::read(root, false)?;
        let history = History::open(root, &OpenOptions::default())?;
        for room in Room::ALL {
            let values = history.values(room, MAP)?;
            let mut entries = values.entries()?;
            while entries.next_batch()?.is_some() {}
            values.statistics()?;
            values.verify(&mut |_, _| Ok(()))?;
            let entry = NewValue { value: None, persist_until: START, pending: false };
            values.write(|edit| edit.put(values.id(b"urn:new"), entry))?;
            values.purge_by(Purge::at(START + 5 * DAY), false)?;
            let snapshot = values.pin()?;
            values.unpin(&snapshot)?;
            values.maintain(true, &mut |_, _| Ok(()))?;
            values.purge_by(Purge::at(START + 31 * DAY), true)?;
        }
        Ok(())
    }
}

/// Change bytes and make every checksum fit again, as somebody who means harm would.
fn forge(files: &Files, path: &Path, at: usize, value: &[u8]) -> Files {
    let mut files = files.clone();
    let bytes = files.get_mut(path).unwrap();
    let end = (at + value.len()).min(bytes.len());
    let old = bytes.clone();
    bytes[at..end].copy_from_slice(&value[..end - at]);
    let kind = kind(path);
    if ["segment", "filter", "values"].contains(&kind.as_str()) {
        let pages = old.len() / (PAGE + 4);
        let sums: Vec<u8> = std::iter::once(0)
            .chain(bytes[..pages * PAGE].chunks(PAGE).skip(1).map(crc32c::crc32c))
            .flat_map(u32::to_le_bytes)
            .collect();
        let old_sum = crc32c::crc32c(&old[pages * PAGE..]).to_le_bytes();
        replace(&mut bytes[..PAGE], old_sum, crc32c::crc32c(&sums).to_le_bytes());
        bytes[pages * PAGE..].copy_from_slice(&sums);
        let header = crc32c::crc32c(&bytes[..PAGE - 4]).to_le_bytes();
        bytes[PAGE - 4..PAGE].copy_from_slice(&header);
        let old_header: [u8; 4] = old[PAGE - 4..PAGE].try_into().unwrap();
        for manifest in files.iter_mut().filter(|(path, _)| self::kind(path) == "manifest").map(|(_, bytes)| bytes) {
            replace(manifest, old_header, header);
            close(manifest);
        }
    } else if kind == "log" {
        let start = if at < 64 { 0 } else { frames(&old).into_iter().rfind(|start| *start <= at).unwrap() };
        if start == 0 {
            close(&mut bytes[..64]);
        } else {
            let payload = u64::from_le_bytes(old[start + 56..start + 64].try_into().unwrap()) as usize;
            let sum = crc32c::crc32c(&bytes[start + 96..start + 96 + payload]).to_le_bytes();
            bytes[start + 72..start + 76].copy_from_slice(&sum);
            close(&mut bytes[start..start + 96]);
        }
    } else {
        close(bytes);
    }
    files
}

fn replace(bytes: &mut [u8], old: [u8; 4], new: [u8; 4]) {
    if let Some(at) = bytes.windows(4).position(|window| window == old) {
        bytes[at..at + 4].copy_from_slice(&new);
    }
}

/// Put a checksum at the end.
fn close(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_last_chunk_mut::<4>().unwrap();
    *sum = crc32c::crc32c(content).to_le_bytes();
}

fn forge_files<S: Forged>() {
    let store = Store::<S>::new();
    let values: [&[u8]; 8] = [
        &[0xff; 8],
        &[0; 8],
        &[1, 0, 0, 0, 0, 0, 0, 0x80],
        &[0xff; 4],
        &[0; 4],
        &[0xff],
        &[7],
        &[0, 0, 0, 0, 1, 0, 0, 0],
    ];
    let mut refused = 0;
    let mut tried = 0;
    for (path, bytes) in store.files.iter().filter(|(path, _)| !is_advisory(path)) {
        let places =
            (0..used(path, bytes)).filter(|at| *at < S::HEADER && at % 4 == 0 || at % S::STEP == 0 || at % PAGE == 64);
        for (step, at) in places.enumerate() {
            let chosen = [values[(step / 3 + at) % values.len()], values[step % values.len()]];
            for value in &chosen[..S::VALUES] {
                let forged = forge(&store.files, path, at, value);
                store.become_files(&forged);
                let used = std::panic::catch_unwind(|| S::use_all(&store.root));
                assert!(used.is_ok(), "{} with {value:?} at {at}", path.display());
                refused += usize::from(used.unwrap().is_err());
                tried += 1;
            }
        }
    }
    eprintln!("figure: forgeries{} = {tried}", S::OF);
    assert!(refused > tried / 20, "{refused} of {tried} refused");
}

#[test]
fn forged_files_make_errors_and_never_a_panic() {
    forge_files::<Triggers>();
}

#[test]
fn forged_files_of_a_space_make_errors_and_never_a_panic() {
    forge_files::<Maps>();
}
