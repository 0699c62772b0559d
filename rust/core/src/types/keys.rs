//! Keys of a batch, as columns.

use super::Places;
use crate::key::Key;

/// The keys of a frame, as columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameKeys {
    pub(crate) uuids: Vec<Key>,
    pub(crate) texts: Vec<Key>,
    pub(crate) lengths: Vec<u16>,
    pub(crate) heap: Vec<u8>,
    /// Claim and start time of each key, first of the UUIDs, then of the texts, where they differ
    /// from the frame's.
    pub(crate) claims: Option<Vec<(u64, i64)>>,
    /// The keys of a claim that the same log began, by their places; then there are no others.
    pub(crate) places: Option<Places>,
}

impl FrameKeys {
    pub(crate) fn len(&self) -> usize {
        self.uuids.len() + self.texts.len()
    }

    /// Whether it names no key.
    pub(crate) fn names_none(&self) -> bool {
        self.len() == 0 && self.places.as_ref().is_none_or(|places| places.iter().next().is_none())
    }

    /// Some keys of a claim, by their places.
    pub(crate) fn of_places(places: Places) -> Self {
        Self { places: Some(places), ..Self::default() }
    }

    /// Each key with its text, if it is one.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Key, Option<&[u8]>)> {
        self.uuids.iter().map(|key| (*key, None)).chain(self.each_text().map(|(key, text)| (key, Some(text))))
    }

    /// Each key that has a text, with it.
    pub(crate) fn each_text(&self) -> impl Iterator<Item = (Key, &[u8])> {
        let mut start = 0;
        self.texts.iter().zip(&self.lengths).map(move |(key, length)| {
            let text = &self.heap[start..start + usize::from(*length)];
            start += text.len();
            (*key, text)
        })
    }

    /// Make room for texts of `bytes` in all.
    pub(crate) fn reserve_texts(&mut self, count: usize, bytes: usize) {
        self.texts.reserve_exact(count);
        self.lengths.reserve_exact(count);
        self.heap.reserve_exact(bytes);
    }

    /// Add a key, with its text if it is one.
    pub(crate) fn push(&mut self, key: Key, text: Option<&[u8]>) {
        match text {
            Some(text) => self.push_text(key, text),
            None => self.uuids.push(key),
        }
    }

    pub(crate) fn push_text(&mut self, key: Key, text: &[u8]) {
        self.texts.push(key);
        self.lengths.push(text.len() as u16);
        self.heap.extend_from_slice(text);
    }
}
