//! Many keys against one filter. The waits for memory overlap: a group's blocks are prefetched
//! while the group before is tested.

use super::{BLOCK_BYTES, PAGE_BYTES, block_of, blocks_in};
use crate::Result;
use crate::key::{Form, Key};

/// Rows that are fetched in one group. Enough to keep every line buffer of a core busy, and few
/// enough that all state stays in the first cache.
const GROUP: usize = 64;

/// Which pages of a filter are verified.
pub trait Pages {
    /// Whether a page (its offset in the filter divided by [`PAGE_BYTES`]) was verified. Called for
    /// every key.
    fn is_verified(&self, page: u64) -> bool;

    /// Whether all pages are known to be verified, so that single pages need no check.
    fn are_verified(&self) -> bool;

    /// Verifies a page before the first use of its blocks.
    fn verify(&self, page: u64) -> Result<()>;
}

/// The rows to probe.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    keys: &'a [Key],
    forms: &'a [Form],
    first_row: u32,
}

impl<'a> Rows<'a> {
    /// The rows that both columns have; the first one counts as `first_row`.
    pub(super) fn new(keys: &'a [Key], forms: &'a [Form], first_row: u32) -> Self {
        let rows = keys.len().min(forms.len());
        Self { keys: &keys[..rows], forms: &forms[..rows], first_row }
    }

    /// The first rows, at most [`GROUP`], and what follows them.
    #[inline]
    fn split(self) -> (Self, Self) {
        let at = self.keys.len().min(GROUP);
        let ((keys, later_keys), (forms, later_forms)) = (self.keys.split_at(at), self.forms.split_at(at));
        let later = Self { keys: later_keys, forms: later_forms, first_row: self.first_row + at as u32 };
        (Self { keys, forms, ..self }, later)
    }

    /// Both columns, if this is a whole group.
    #[inline]
    fn whole(&self) -> Option<(&'a [Key; GROUP], &'a [Form; GROUP])> {
        self.keys.try_into().ok().zip(self.forms.try_into().ok())
    }

    fn usable(&self) -> impl Iterator<Item = (u32, Key)> {
        let rows = (self.first_row..).zip(self.keys).zip(self.forms);
        rows.filter(|(_, form)| form.is_usable()).map(|((row, key), _)| (row, *key))
    }
}

/// What all groups of a probe share.
pub(super) struct Probe<'a, P> {
    data: &'a [u8],
    blocks: u64,
    pages: &'a P,
}

/// The rows of a group that survived, counted from its first.
struct Probed {
    rows: [u32; GROUP],
    count: usize,
}

impl<'a, P: Pages> Probe<'a, P> {
    /// Of a whole filter.
    pub(super) fn new(data: &'a [u8], pages: &'a P) -> Self {
        Self { data, blocks: blocks_in(data), pages }
    }

    /// The loop over the groups, for one way to fetch a line and to test a block.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, together with its test")]
    pub(super) fn run(
        &self,
        rows: Rows<'_>,
        survivors: &mut Vec<u32>,
        fetch: impl Fn(&[u8; BLOCK_BYTES]),
        test: impl Fn(&[u8; BLOCK_BYTES], Key) -> bool,
    ) -> Result<()> {
        let blocks = self.data.as_chunks::<BLOCK_BYTES>().0;
        if blocks.is_empty() {
            // The filter has no block: it cannot rule out any key.
            survivors.extend(rows.usable().map(|(row, _)| row));
            return Ok(());
        }
        if self.pages.are_verified() {
            self.groups::<true>(rows, blocks, survivors, fetch, test)
        } else {
            self.groups::<false>(rows, blocks, survivors, fetch, test)
        }
    }

    /// [`Probe::run`] for a filter with blocks. With `KNOWN`, all pages are verified.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, together with its test")]
    fn groups<const KNOWN: bool>(
        &self,
        rows: Rows<'_>,
        blocks: &[[u8; BLOCK_BYTES]],
        survivors: &mut Vec<u32>,
        fetch: impl Fn(&[u8; BLOCK_BYTES]),
        test: impl Fn(&[u8; BLOCK_BYTES], Key) -> bool,
    ) -> Result<()> {
        let mut places = [0_u32; GROUP];
        let (mut group, mut later) = rows.split();
        let mut unverified = false;
        for ((place, key), form) in places.iter_mut().zip(group.keys).zip(group.forms) {
            *place = self.ask::<KNOWN>(*key, *form, blocks, &mut unverified, &fetch);
        }
        while !group.keys.is_empty() {
            if unverified {
                self.verify(group)?;
                unverified = false;
            }
            let (next, rest) = later.split();
            let mut found = Probed { rows: [0; GROUP], count: 0 };
            if let (Some((keys, _)), Some((next_keys, next_forms))) = (group.whole(), next.whole()) {
                // Row by row: between two lines that are asked for there is a test to do.
                for at in 0..GROUP {
                    let place = places[at];
                    places[at] = self.ask::<KNOWN>(next_keys[at], next_forms[at], blocks, &mut unverified, &fetch);
                    // Hardly any key passes: the branch is nearly always predicted.
                    if test(&blocks[place as usize], keys[at]) {
                        found.add(at as u32);
                    }
                }
            } else {
                let asked = places;
                for ((place, key), form) in places.iter_mut().zip(next.keys).zip(next.forms) {
                    *place = self.ask::<KNOWN>(*key, *form, blocks, &mut unverified, &fetch);
                }
                for ((at, place), key) in (0..).zip(asked).zip(group.keys) {
                    if test(&blocks[place as usize], *key) {
                        found.add(at);
                    }
                }
            }
            // Hardly any key passes: checking those for a usable form is cheaper than checking all.
            let passed = found.rows[..found.count].iter().filter(|at| group.forms[**at as usize].is_usable());
            survivors.extend(passed.map(|at| group.first_row + at));
            (group, later) = (next, rest);
        }
        Ok(())
    }

    /// Finds the block of a key and prefetches its line. Notes whether its page has to be verified
    /// before it is used.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, as part of its loop")]
    fn ask<const KNOWN: bool>(
        &self,
        key: Key,
        form: Form,
        blocks: &[[u8; BLOCK_BYTES]],
        unverified: &mut bool,
        fetch: &impl Fn(&[u8; BLOCK_BYTES]),
    ) -> u32 {
        let block = block_of(key, self.blocks);
        fetch(&blocks[block as usize]);
        if !KNOWN {
            *unverified |= form.is_usable() & !self.pages.is_verified(page_of(block));
        }
        block as u32
    }

    /// Verifies the pages that a group is about to use; almost never called.
    #[cold]
    fn verify(&self, group: Rows<'_>) -> Result<()> {
        for (_, key) in group.usable() {
            let page = page_of(block_of(key, self.blocks));
            if !self.pages.is_verified(page) {
                self.pages.verify(page)?;
            }
        }
        Ok(())
    }
}

impl Probed {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, as part of its loop")]
    fn add(&mut self, row: u32) {
        // The mask tells the compiler that there are no more rows than places.
        self.rows[self.count % GROUP] = row;
        self.count += 1;
    }
}

#[inline]
fn page_of(block: u64) -> u64 {
    block / (PAGE_BYTES / BLOCK_BYTES as u64)
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
