//! Identifying and looking up, chunk by chunk: a chunk's keys are sifted while they are in the cache.

use super::batch::{Batch, Part, text_of};
use crate::batch::Sieve;
use crate::columns::Documents;
use crate::key::{Codec, identify};
use crate::keyspace::view::View;
use crate::keyspace::{InProgress, LookedUp};
use crate::segment::Wanted;
use crate::{Error, Result};

/// Rows of a chunk.
const CHUNK: usize = 4096;

/// What a look-up needs besides the batch.
#[derive(Clone, Copy)]
pub(super) struct Look<'a, 'd> {
    pub(super) codec: &'a Codec,
    pub(super) documents: &'a Documents<'d>,
    /// Entries that began at or before this time do not count.
    pub(super) expired: i64,
    pub(super) threads: usize,
    /// Whether the batch was identified before.
    pub(super) is_identified: bool,
}

impl Look<'_, '_> {
    /// Identify the batch and look it up in `view`, or in an empty history.
    pub(super) fn run(&self, batch: &mut Batch, view: Option<&View>) -> Result<LookedUp> {
        let rows = batch.keys.len();
        let mut suspects = std::mem::take(&mut batch.suspects);
        let mut parts = batch.parts(self.threads);
        let sieve = (!self.is_identified).then(|| Sieve::new(rows, parts.len() > 1));
        if parts.len() == 1 {
            let part = parts.pop();
            let found = part
                .map_or_else(|| Ok(LookedUp::default()), |part| self.part(part, view, sieve.as_ref(), &mut suspects));
            batch.suspects = suspects;
            return found;
        }
        let done = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for part in parts {
                let sieve = sieve.as_ref();
                let first = part.rows.start;
                let work = move || {
                    let mut suspects = Vec::new();
                    self.part(part, view, sieve, &mut suspects).map(|found| (found, suspects))
                };
                running.push((first, scope.spawn(work)));
            }
            let mut done = Vec::new();
            for (first, thread) in running {
                done.push((first, thread.join().map_err(|_| Error::State("a look-up thread failed".into()))??));
            }
            Ok::<_, Error>(done)
        })?;
        let mut all = LookedUp::default();
        for (first, (found, part_suspects)) in done {
            suspects.extend(part_suspects);
            let shifted = |entry: InProgress| InProgress { row: entry.row + first as u32, ..entry };
            all.states.extend(found.states);
            all.processing.extend(found.processing.into_iter().map(shifted));
            all.rests_on_log |= found.rests_on_log;
            all.filter_positives += found.filter_positives;
        }
        batch.suspects = suspects;
        Ok(all)
    }

    fn part(
        &self,
        part: Part,
        view: Option<&View>,
        sieve: Option<&Sieve>,
        suspects: &mut Vec<u32>,
    ) -> Result<LookedUp> {
        let Part { rows, keys, forms, sources } = part;
        let mut sifted = view.map(View::sifted);
        let chunks = keys.chunks_mut(CHUNK).zip(forms.chunks_mut(CHUNK)).zip(sources.chunks_mut(CHUNK));
        for (number, ((keys, forms), sources)) in chunks.enumerate() {
            let first = rows.start + number * CHUNK;
            if let Some(sieve) = sieve {
                identify(self.codec, &self.documents.ids, first..first + keys.len(), keys, forms, sources);
                sieve.see(keys, forms, first as u32, suspects);
            }
            if let (Some(view), Some(sifted)) = (view, &mut sifted) {
                let text = |row: u32| text_of(self.documents, sources[row as usize], first + row as usize);
                view.sift(&Wanted { keys, forms, text: &text }, (number * CHUNK) as u32, sifted)?;
            }
        }
        let (Some(view), Some(sifted)) = (view, sifted) else { return Ok(LookedUp::none(keys.len())) };
        let text = |row: u32| text_of(self.documents, sources[row as usize], rows.start + row as usize);
        view.confirm(&Wanted { keys, forms, text: &text }, &sifted, self.expired)
    }
}
