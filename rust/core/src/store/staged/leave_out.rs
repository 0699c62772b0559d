//! Keys that a commit leaves out because others were first with them. The rest of a file that holds
//! some of them is rewritten, so that a claim's segments hold the keys of the claim and no others.

use std::collections::HashSet;
use std::sync::Arc;

use super::conflict::{Keys, each_chunk, held_by};
use crate::Result;
use crate::format::manifest::SegmentEntry;
use crate::segment::Segment;
use crate::segment::format::Stamp;
use crate::segment::run::EntryRun;
use crate::store::Writer;
use crate::types::FrameKeys;

/// The entries of a staged segment without the keys in `lost`; none where it holds none of them.
pub(crate) fn rest_of(segment: &Arc<Segment>, stamp: Stamp, lost: &Keys) -> Result<Option<EntryRun>> {
    if lost.len() == 0 || held_by(segment, lost)?.is_empty() {
        return Ok(None);
    }
    let lost: HashSet<_> = lost.each().collect();
    let mut rest = EntryRun::default();
    each_chunk(segment, |keys| {
        for (key, text) in keys.each().filter(|one| !lost.contains(one)) {
            match text {
                Some(text) => rest.push_text(key, text, stamp),
                None => rest.push_uuid(key, stamp),
            }
        }
        Ok(())
    })?;
    Ok(Some(rest))
}

impl Writer<'_> {
    /// Write `processing` for more keys under an existing claim, as segments of their own, in one
    /// manifest.
    pub(crate) fn begin_more(&mut self, keys: &FrameKeys, stamp: Stamp) -> Result<Vec<Arc<Segment>>> {
        let mut manifest = self.next_of_same_log()?;
        let first = manifest.segments.len();
        let written = self.space.write_run(&mut manifest, &mut EntryRun::of_keys(keys, stamp));
        written.and_then(|()| self.publish(&manifest)).inspect_err(|error| self.note_unpublished(error))?;
        Ok(self.segments_of(&manifest.segments[first..]))
    }

    /// The open segments of these entries of the present manifest.
    pub(super) fn segments_of(&self, entries: &[SegmentEntry]) -> Vec<Arc<Segment>> {
        let view = self.space.present();
        let segments = view.as_ref().map_or(&[][..], |view| &view.segments);
        let is_of = |segment: &&Arc<Segment>| entries.iter().any(|entry| entry.id == segment.header().id);
        segments.iter().filter(is_of).cloned().collect()
    }
}
