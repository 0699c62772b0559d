//! Who compacts: a hint among the handles of a bucket, so that two do not compact the same files.
//!
//! Nothing rests on it. Where two compact nonetheless, the second finds that its files are not due
//! any more, and its work is lost.

use super::Mirror;
use crate::Result;
use crate::objects::Listed;
use crate::objects::chance::drawn;

/// For how long a handle is taken to be at work, by the store's clock.
const LEASE_US: i64 = 10 * 60 * 1_000_000;

/// Says that this handle compacts, until it is dropped.
#[derive(Debug)]
pub(in crate::store) struct Announced<'a> {
    mirror: &'a Mirror,
    name: String,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        // If it stays, it counts for the time of its lease.
        drop(self.mirror.chain.store().delete(&self.name));
    }
}

impl Mirror {
    /// Say that this handle is about to compact; none if another one said so before, and may still
    /// be at work. A store that does not answer keeps nobody from it.
    pub(in crate::store) fn announce(&self) -> Result<Option<Announced<'_>>> {
        let mark = drawn()?.first_chunk().map_or(0, |mark| u64::from_le_bytes(*mark));
        let (store, name) = (self.chain.store(), self.chain.names().upkeep(mark));
        let own = Announced { mirror: self, name };
        let said = store.put(&own.name, b"").and_then(|()| store.list(&self.chain.names().upkeeps()));
        let Ok(listed) = said else { return Ok(Some(own)) };
        let Some(now_us) = listed.iter().find(|one| one.name == own.name).map(|one| one.modified_us) else {
            return Ok(Some(own));
        };
        let (old, others): (Vec<&Listed>, Vec<&Listed>) = listed
            .iter()
            .filter(|one| one.name != own.name)
            .partition(|one| now_us.saturating_sub(one.modified_us) >= LEASE_US);
        for one in old {
            drop(store.delete(&one.name));
        }
        // Times may be whole seconds: of two in one, neither goes on.
        Ok(if others.iter().any(|one| one.modified_us <= now_us) { None } else { Some(own) })
    }
}
