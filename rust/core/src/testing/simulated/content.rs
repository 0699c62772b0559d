//! The bytes of one file: the content that reading shows, the durable content, and the sectors that
//! may become durable on their own.

use std::collections::BTreeMap;

use super::random::Random;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Content {
    /// The content that reading shows.
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Each sector that was written since the last sync, in all its versions.
    sectors: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The lengths that the file had since the last sync.
    lengths: Vec<usize>,
}

impl Content {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.now
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        self.extend(end);
        self.now[start..end].copy_from_slice(bytes);
        for sector in start / SECTOR..end.div_ceil(SECTOR) {
            let last = ((sector + 1) * SECTOR).min(self.now.len());
            self.sectors.entry(sector).or_default().push(self.now[sector * SECTOR..last].to_vec());
        }
    }

    pub(super) fn extend(&mut self, length: usize) {
        if length > self.now.len() {
            self.now.resize(length, 0);
            self.lengths.push(length);
        }
    }

    pub(super) fn sync(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.sectors) {
            if let Some(version) = versions.last() {
                put(&mut self.durable, sector, version);
            }
        }
        self.lengths.clear();
        self.durable.resize(self.now.len(), 0);
    }

    /// The system tried to sync, failed, and takes all pages as clean.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        let chance = random.below(3);
        self.settle(random, chance);
    }

    pub(super) fn lose_power(&mut self, random: &mut Random, chance: usize) {
        self.settle(random, chance);
        self.now = self.durable.clone();
    }

    /// Of the content that is not durable keep nothing (0), all (1), or some by chance.
    fn settle(&mut self, random: &mut Random, chance: usize) {
        let mut pick = |count: usize| [0, count, random.below(count + 1)][chance];
        let lengths = std::mem::take(&mut self.lengths);
        if let Some(length) = pick(lengths.len()).checked_sub(1).and_then(|at| lengths.get(at)) {
            self.durable.resize(*length, 0);
        }
        let length = self.durable.len();
        for (sector, versions) in std::mem::take(&mut self.sectors) {
            if let Some(version) = pick(versions.len()).checked_sub(1).and_then(|at| versions.get(at)) {
                put(&mut self.durable, sector, version);
            }
        }
        self.durable.truncate(length);
    }
}

fn put(durable: &mut Vec<u8>, sector: usize, version: &[u8]) {
    let (start, end) = (sector * SECTOR, sector * SECTOR + version.len());
    if durable.len() < end {
        durable.resize(end, 0);
    }
    durable[start..end].copy_from_slice(version);
}
