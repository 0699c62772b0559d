//! Collecting what no state needs. What may go follows from the chain alone; the grace is for
//! readers that are still fetching.

use std::collections::HashSet;
use std::time::Duration;

use super::chain::Chain;
use super::gate::{CLOSED, Gate};
use super::names::{block_of, last_of};
use crate::Result;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Objects that went.
    pub(crate) gone: u64,
    /// The highest number of a file that no state needs, and that a commit may still name for the
    /// first time.
    pub(crate) beyond: u64,
}

impl Chain {
    /// Delete the commits before `needed`, which is the base of the head or an older one that a pin
    /// keeps, and the files that are not `live` in any state from there on. Only what is older than
    /// `grace` goes, by the store's clock.
    pub(crate) fn collect(&self, needed: u64, live: &HashSet<String>, grace: Duration) -> Result<Collected> {
        // The hint's own time is the store's clock.
        self.tried(|| self.give_hint(self.head.base.max(1)))?;
        let listed = self.tried(|| self.store.list(self.names.all()))?;
        let hint = self.names.hint();
        let Some(now_us) = listed.iter().find(|object| object.name == hint).map(|hint| hint.modified_us) else {
            return Ok(Collected::default());
        };
        // Read before anything goes: a pin that is not listed yet is of a state that names what is
        // live here, or is refused by the one who made it.
        let pinned = self.kept_by_pins(&listed, now_us)?;
        let is_due = |modified_us: i64| u128::try_from(now_us - modified_us).is_ok_and(|age| age >= grace.as_micros());
        let mut commits: Vec<(u64, i64)> = listed
            .iter()
            .filter_map(|object| Some((self.names.number_of_commit(&object.name)?, object.modified_us)))
            .collect();
        commits.sort_unstable();
        let (mut gone, mut beyond) = (0, 0);
        for block in blocks(&commits) {
            let of_block: Vec<_> = commits.iter().filter(|(number, _)| block_of(*number) == block).collect();
            if last_of(block) >= needed.min(self.head.base)
                || of_block.iter().any(|(_, modified_us)| !is_due(*modified_us))
            {
                break;
            }
            self.close(block)?;
            for (number, _) in of_block {
                self.tried(|| self.store.delete(&self.names.commit(*number)))?;
                gone += 1;
            }
        }
        for object in &listed {
            let Some(number) = self.names.number_of_data(&object.name) else { continue };
            if live.contains(&object.name) || pinned.contains(&object.name) || !is_due(object.modified_us) {
                continue;
            }
            beyond = beyond.max(number);
            // Only a commit up to that number could have been the first to name it, and none did.
            if number <= self.head.number {
                self.tried(|| self.store.delete(&object.name))?;
                gone += 1;
            }
        }
        Ok(Collected { gone, beyond })
    }

    /// Close the gates up to that of `block`, the lowest first.
    fn close(&self, block: u64) -> Result<()> {
        let mut lowest = block;
        while lowest > 0 && self.gate(lowest - 1)? != Gate::Closed {
            lowest -= 1;
        }
        for block in lowest..=block {
            let name = self.names.gate(block);
            self.tried(|| self.store.put(&name, CLOSED))?;
        }
        Ok(())
    }
}

/// The blocks of these commits, in order.
fn blocks(commits: &[(u64, i64)]) -> Vec<u64> {
    let mut blocks: Vec<u64> = commits.iter().map(|(number, _)| block_of(*number)).collect();
    blocks.dedup();
    blocks
}
