//! Keys of an open claim that were released by themselves: the outcome of the claim no longer
//! reaches them, so its completion names them.

use super::limits;
use super::view::View;
use crate::Result;
use crate::key::{Form, Key};
use crate::segment::Wanted;
use crate::store::Writer;
use crate::types::{FrameKeys, Places};

/// Keys that are looked up at a time.
const TOGETHER: usize = 1 << 16;

impl Writer<'_> {
    /// Whether single keys may have been released since a claim began.
    pub(crate) fn may_lack_keys(&self, claim: u64) -> bool {
        self.space.present().as_ref().is_some_and(|view| claim < view.released_upto())
    }

    /// Some keys of a claim as a frame names them: by their places where the log has begun it.
    pub(crate) fn named(&self, claim: (u64, i64), places: Places, keys: impl FnOnce() -> FrameKeys) -> FrameKeys {
        let can_name = |view: &View| view.log.frames.places && view.memtable.has_begun(claim, places.count());
        let is_named = places.count() >= limits::fewest_places() && self.space.present().as_ref().is_some_and(can_name);
        if is_named { FrameKeys::of_places(places) } else { keys() }
    }

    /// Those of a claim's keys for which it has no open entry. Places take less than to look.
    pub(crate) fn lacking(&self, claim: u64, keys: FrameKeys) -> Result<FrameKeys> {
        if keys.places.is_some() {
            return Ok(keys);
        }
        self.space.index_pending();
        let each: Vec<(Key, Option<&[u8]>)> = keys.each().collect();
        let mut lacking = FrameKeys::default();
        for some in each.chunks(TOGETHER) {
            let all: Vec<Key> = some.iter().map(|(key, _)| *key).collect();
            let form = |text: Option<&[u8]>| if text.is_some() { Form::Text } else { Form::Uuid };
            let forms: Vec<Form> = some.iter().map(|(_, text)| form(*text)).collect();
            let wanted = Wanted { keys: &all, forms: &forms, text: &|row| some[row as usize].1.unwrap_or_default() };
            let found = match self.space.present().as_ref() {
                Some(view) => view.lookup(&wanted, i64::MIN)?,
                None => return Ok(keys.clone()),
            };
            let mut is_open = vec![false; some.len()];
            for entry in found.processing.iter().filter(|entry| entry.claim == claim) {
                is_open[entry.row as usize] = true;
            }
            for ((key, text), _) in some.iter().zip(is_open).filter(|(_, is_open)| !is_open) {
                match text {
                    Some(text) => lacking.push_text(*key, text),
                    None => lacking.uuids.push(*key),
                }
            }
        }
        Ok(lacking)
    }
}
