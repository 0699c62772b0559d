//! Many keys against one filter. The waits for memory overlap: a group's blocks are all fetched before the first is tested.

use super::{BLOCK_BYTES, PAGE_BYTES, block_of, blocks_in, simd};
use crate::Result;
use crate::key::{Form, Key};

/// Rows that are fetched together. Enough to keep every line buffer of a core busy; all state stays in the first cache.
const GROUP: usize = 64;

/// Which pages of a filter are known to be what was written.
pub trait Pages {
    /// Whether a page (its offset in the filter divided by [`PAGE_BYTES`]) was verified. Called for every key.
    fn is_verified(&self, page: u64) -> bool;

    /// Verifies a page before the first use of its blocks.
    fn verify(&self, page: u64) -> Result<()>;
}

/// Appends to `survivors` the rows whose key can be in the filter: row `i` of `keys` and `forms` counts as `first_row + i`.
/// Rows without a usable key do not survive, and cause no page to be verified.
pub fn probe(
    data: &[u8],
    keys: &[Key],
    forms: &[Form],
    first_row: u32,
    pages: &impl Pages,
    survivors: &mut Vec<u32>,
) -> Result<()> {
    simd::run(&Probe { data, blocks: blocks_in(data), pages }, &All { keys, forms, first_row }, survivors)
}

/// [`probe`] for the rows (places in `keys`, all usable) that survived another filter.
pub fn probe_selected(
    data: &[u8],
    keys: &[Key],
    rows: &[u32],
    pages: &impl Pages,
    survivors: &mut Vec<u32>,
) -> Result<()> {
    simd::run(&Probe { data, blocks: blocks_in(data), pages }, &Selected { keys, rows }, survivors)
}

/// One row to probe.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    row: u32,
    key: Key,
    usable: bool,
}

/// The rows to probe.
pub(super) trait Rows {
    fn len(&self) -> usize;
    /// `GROUP` rows from the `start`-th on, or those that are left.
    fn group(&self, start: usize) -> impl Iterator<Item = Wanted>;
}

struct All<'a> {
    keys: &'a [Key],
    forms: &'a [Form],
    first_row: u32,
}

impl Rows for All<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.keys.len().min(self.forms.len())
    }

    #[inline]
    fn group(&self, start: usize) -> impl Iterator<Item = Wanted> {
        let rows = self.first_row + start as u32..;
        let pairs = self.keys[start..].iter().zip(&self.forms[start..]).take(GROUP);
        rows.zip(pairs).map(|(row, (&key, form))| Wanted { row, key, usable: form.is_usable() })
    }
}

struct Selected<'a> {
    keys: &'a [Key],
    rows: &'a [u32],
}

impl Rows for Selected<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn group(&self, start: usize) -> impl Iterator<Item = Wanted> {
        let rows = self.rows[start..].iter().take(GROUP);
        rows.map(|&row| Wanted { row, key: self.keys[row as usize], usable: true })
    }
}

/// What all groups of a probe share.
pub(super) struct Probe<'a, P> {
    data: &'a [u8],
    blocks: u64,
    pages: &'a P,
}

impl<P: Pages> Probe<'_, P> {
    /// The loop over the groups, for one way to fetch a line and to test a block.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, together with its test")]
    pub(super) fn run(
        &self,
        rows: &impl Rows,
        survivors: &mut Vec<u32>,
        fetch: impl Fn(&[u8; BLOCK_BYTES]),
        test: impl Fn(&[u8; BLOCK_BYTES], Key) -> bool,
    ) -> Result<()> {
        let blocks = self.data.as_chunks::<BLOCK_BYTES>().0;
        if blocks.is_empty() {
            // Nothing is known of any key, so that none may be ruled out.
            survivors.extend((0..rows.len()).step_by(GROUP).flat_map(|start| usable(rows, start)));
            return Ok(());
        }
        let mut next = self.fetch(rows, 0, blocks, &fetch)?;
        for start in (0..rows.len()).step_by(GROUP) {
            // The next group's lines are on their way while this one's are tested.
            let places = next;
            if start + GROUP < rows.len() {
                next = self.fetch(rows, start + GROUP, blocks, &fetch)?;
            }
            let mut found = [0_u32; GROUP];
            let mut count = 0;
            for (&place, wanted) in places.iter().zip(rows.group(start)) {
                found[count] = wanted.row;
                count += usize::from(wanted.usable & test(&blocks[place as usize], wanted.key));
            }
            survivors.extend_from_slice(&found[..count]);
        }
        Ok(())
    }

    /// The blocks of a group, whose lines are fetched and whose pages are good.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, as part of its loop")]
    fn fetch(
        &self,
        rows: &impl Rows,
        start: usize,
        blocks: &[[u8; BLOCK_BYTES]],
        fetch: &impl Fn(&[u8; BLOCK_BYTES]),
    ) -> Result<[u32; GROUP]> {
        let mut places = [0_u32; GROUP];
        let mut unverified = false;
        for (place, wanted) in places.iter_mut().zip(rows.group(start)) {
            let block = block_of(wanted.key, self.blocks);
            *place = block as u32;
            fetch(&blocks[block as usize]);
            unverified |= wanted.usable & !self.pages.is_verified(page_of(block));
        }
        if unverified {
            self.verify(rows, start)?;
        }
        Ok(places)
    }

    /// Verifies what a group is about to use; almost never called.
    #[cold]
    fn verify(&self, rows: &impl Rows, start: usize) -> Result<()> {
        for wanted in rows.group(start).filter(|wanted| wanted.usable) {
            let page = page_of(block_of(wanted.key, self.blocks));
            if !self.pages.is_verified(page) {
                self.pages.verify(page)?;
            }
        }
        Ok(())
    }
}

fn usable(rows: &impl Rows, start: usize) -> impl Iterator<Item = u32> {
    rows.group(start).filter(|wanted| wanted.usable).map(|wanted| wanted.row)
}

#[inline]
fn page_of(block: u64) -> u64 {
    block / (PAGE_BYTES / BLOCK_BYTES as u64)
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
