//! Rows that passed a filter, until they are looked up exactly.

use crate::Result;
use crate::key::{Form, Key};
use crate::segment::Wanted;
use crate::segment::sort;

/// Number of these rows that are looked up at a time: few enough that they stay in the cache from
/// the index to the segments.
pub(super) const BLOCK: usize = if cfg!(feature = "small") { 1 << 4 } else { 1 << 13 };

/// The text of a row whose form is text, by the row's number.
pub(crate) type TextOf<'a> = &'a (dyn Fn(u32) -> &'a [u8] + Sync);

/// A row that passed a filter, with the fields for its exact look-up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Survivor {
    pub(super) key: Key,
    pub(super) row: u32,
    pub(super) form: Form,
}

/// Some survivors as columns.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) rows: Vec<u32>,
    keys: Vec<Key>,
    forms: Vec<Form>,
}

impl Block {
    pub(super) fn fill(&mut self, survivors: &[Survivor]) {
        self.rows.clear();
        self.rows.extend(survivors.iter().map(|survivor| survivor.row));
        self.keys.clear();
        self.keys.extend(survivors.iter().map(|survivor| survivor.key));
        self.forms.clear();
        self.forms.extend(survivors.iter().map(|survivor| survivor.form));
    }

    pub(super) fn look<T>(&self, text: TextOf, look: impl FnOnce(&Wanted, &[u32]) -> T) -> T {
        let Self { rows, keys, forms } = self;
        look(&Wanted { keys, forms, text: &|at| text(rows[at as usize]) }, rows)
    }

    /// Keep some rows only.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        // Without a branch: which row stays is anybody's guess.
        for at in 0..self.rows.len() {
            let row = self.rows[at];
            (self.rows[kept], self.keys[kept], self.forms[kept]) = (row, self.keys[at], self.forms[at]);
            kept += usize::from(keeps(row));
        }
        self.rows.truncate(kept);
        self.keys.truncate(kept);
        self.forms.truncate(kept);
    }
}

/// Passes survivors, `most` at a time.
pub(super) fn each_block(
    survivors: &[Survivor],
    most: usize,
    text: TextOf,
    mut look: impl FnMut(&Wanted, &[u32]) -> Result<()>,
) -> Result<()> {
    let mut block = Block::default();
    for survivors in survivors.chunks(most) {
        block.fill(survivors);
        block.look(text, &mut look)?;
    }
    Ok(())
}

/// Passes all survivors block by block, in the order in which files hold their keys.
pub(super) fn each_sorted_block(
    survivors: &mut Vec<Survivor>,
    text: TextOf,
    look: impl FnMut(&Wanted, &[u32]) -> Result<()>,
) -> Result<()> {
    sort::roughly_by_key(survivors, |survivor| survivor.key);
    each_block(survivors, BLOCK, text, look)
}

/// A row of a chunk by its place there.
pub(super) fn of_place(chunk: &Wanted, first_row: u32, place: u32) -> Survivor {
    Survivor { key: chunk.keys[place as usize], row: first_row + place, form: chunk.forms[place as usize] }
}

/// A row of a block by its place there.
pub(super) fn of_block(block: &Wanted, rows: &[u32], place: u32) -> Survivor {
    Survivor { row: rows[place as usize], ..of_place(block, 0, place) }
}
