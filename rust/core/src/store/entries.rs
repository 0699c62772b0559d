//! Listing entries: each key once, with its present state, wherever its entries are.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::KeySpace;
use super::view::View;
use crate::Result;
use crate::key::{Form, Key};
use crate::segment::format::{Mark, Part, Stamp};
use crate::segment::merge::KeyCursor;
use crate::segment::{Segment, Wanted};
use crate::types::HistoryState;

/// Entries that are processed in one chunk.
const CHUNK: usize = 8192;

/// One entry of the history.
#[derive(Clone, Debug)]
pub(crate) struct ListedEntry {
    pub(crate) key: Key,
    /// The text of a key that is no UUID.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) stamp: Stamp,
}

/// Where a listing stands, in a view of its own.
pub(crate) struct EntryCursor {
    view: Option<View>,
    /// 0 is the log, then the segments.
    source: usize,
    /// Column and place within the source.
    part: Part,
    /// None before the first wanted key of this part.
    place: Option<u64>,
    /// The upper halves of the wanted keys.
    keys: RangeInclusive<u64>,
    started_at: Range<i64>,
    /// Whether only entries in progress are wanted.
    is_open: bool,
    from_log: std::vec::IntoIter<ListedEntry>,
}

impl KeySpace {
    /// Start a listing of the present state; later changes do not show in it. It has only keys
    /// whose upper half is in `keys`. It skips segments without an entry in `started_at`, and with
    /// `is_open` segments without an entry in progress.
    pub(crate) fn entry_cursor(
        &self,
        keys: RangeInclusive<u64>,
        started_at: Range<i64>,
        is_open: bool,
    ) -> Result<EntryCursor> {
        let mut view = self.pinned_view()?;
        // What a power cut may still take is not listed: by now this handle has read as much.
        self.look_durably(|view| Ok(((), view.is_some_and(|view| !view.is_log_untouched()))))?;
        if let Some(view) = &mut view {
            view.index_pending();
        }
        let of_tail = |view: &View| {
            let entry = |(key, text, stamp): (Key, Option<&[u8]>, Stamp)| ListedEntry {
                key,
                text: text.map(<[u8]>::to_vec),
                stamp,
            };
            let mut entries: Vec<_> =
                view.memtable.entries().filter(|(key, ..)| keys.contains(&key.hi)).map(entry).collect();
            if let Some(frozen) = &view.frozen {
                let of_frozen = frozen.memtable.entries().filter(|(key, ..)| keys.contains(&key.hi));
                entries.extend(of_frozen.filter(|entry| !view.is_told_by_log(entry)).map(entry));
            }
            entries
        };
        let from_log = view.as_ref().map_or(Vec::new(), of_tail).into_iter();
        Ok(EntryCursor { view, source: 0, part: Part::UuidKeys, place: None, keys, started_at, is_open, from_log })
    }
}

impl KeySpace {
    /// The entries of these keys that count, each with its row: those that a listing returns, found
    /// by a look-up.
    pub(crate) fn entries_of(&self, wanted: &Wanted) -> Result<Vec<(u32, Stamp)>> {
        self.look_durably(|view| {
            let Some(view) = view else { return Ok((Vec::new(), false)) };
            let found = self.asked.counted(view.lookup(wanted, i64::MIN)?);
            let is_processing = |row: u32| found.states[row as usize] == HistoryState::Processing;
            let open = found.processing.iter().filter(|open| is_processing(open.row));
            let mut counting: Vec<_> = open
                .map(|open| (open.row, Stamp { claim: open.claim, started_at: open.started_at, mark: Mark::Open }))
                .collect();
            counting.extend(completions(view, wanted, &found.states)?);
            counting.sort_by_key(|(row, _)| *row);
            Ok((counting, found.rests_on_log))
        })
    }
}

/// For each completed key the entry that a listing returns: the first completed one, the log before
/// the segments.
fn completions(view: &View, wanted: &Wanted, states: &[HistoryState]) -> Result<Vec<(u32, Stamp)>> {
    let mut found: Vec<Option<Stamp>> = vec![None; states.len()];
    let mut keep = |row: u32, stamp: Stamp| {
        if states[row as usize] == HistoryState::Completed && view.memtable.effective(stamp) == Mark::Completed {
            found[row as usize].get_or_insert(Stamp { mark: Mark::Completed, ..stamp });
        }
    };
    view.find_in_memory(wanted, &mut |row, stamp, _| keep(row, stamp));
    for segment in &view.segments {
        let mut candidates = Vec::new();
        segment.may_contain(wanted, 0, &mut candidates)?;
        segment.find(wanted, &candidates, &mut keep)?;
    }
    Ok((0..).zip(found).filter_map(|(row, stamp)| Some((row, stamp?))).collect())
}

impl View {
    /// Whether the log says as much of a key as this entry of the frozen log before it.
    fn is_told_by_log(&self, (key, text, stamp): &(Key, Option<&[u8]>, Stamp)) -> bool {
        let form = if text.is_some() { Form::Text } else { Form::Uuid };
        let wanted = Wanted { keys: &[*key], forms: &[form], text: &|_| text.unwrap_or_default() };
        let (mark, mut is_told) = (self.memtable.effective(*stamp), false);
        self.memtable.find(&wanted, 0, &mut |_, other| {
            is_told |= match mark {
                Mark::Completed => self.memtable.effective(other) == Mark::Completed,
                Mark::Open | Mark::Released => other.claim == stamp.claim,
            };
        });
        is_told
    }
}

impl EntryCursor {
    /// The next entries that count; none after the last. A batch may be empty.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<ListedEntry>>> {
        let Some(view) = self.view.take() else { return Ok(None) };
        let source = self.source;
        let chunk = self.chunk(&view);
        let kept = match chunk {
            Ok(Some(chunk)) => Some(counting(&view, source, &chunk)?),
            Ok(None) => None,
            Err(error) => return Err(error),
        };
        self.view = Some(view);
        Ok(kept)
    }

    fn chunk(&mut self, view: &View) -> Result<Option<Vec<ListedEntry>>> {
        if self.source == 0 {
            let chunk: Vec<_> = self.from_log.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                self.source = 1;
            }
            return Ok(Some(chunk));
        }
        let Some(segment) = view.segments.get(self.source - 1) else { return Ok(None) };
        let header = segment.header();
        let is_outside = header.max_started_at < self.started_at.start || header.min_started_at >= self.started_at.end;
        // An entry that a segment records as ended is not in progress anywhere.
        let is_empty = is_outside || self.is_open && header.open == 0;
        let chunk = if is_empty { Vec::new() } else { read_chunk(segment, self.part, &self.keys, &mut self.place)? };
        if chunk.is_empty() {
            self.place = None;
            if self.part == Part::UuidKeys {
                self.part = Part::TextKeys;
            } else {
                (self.part, self.source) = (Part::UuidKeys, self.source + 1);
            }
        }
        Ok(Some(chunk))
    }
}

fn read_chunk(
    segment: &Arc<Segment>,
    part: Part,
    keys: &RangeInclusive<u64>,
    place: &mut Option<u64>,
) -> Result<Vec<ListedEntry>> {
    let mut cursor = KeyCursor::new(segment, part);
    match *place {
        Some(place) => cursor.seek(place)?,
        None => cursor.seek_key(*keys.start())?,
    }
    let mut scratch = Vec::new();
    let mut chunk = Vec::new();
    let is_wanted = |key: &Key, chunk: &Vec<ListedEntry>| chunk.len() < CHUNK && key.hi <= *keys.end();
    while let Some(key) = cursor.peek()?.filter(|key| is_wanted(key, &chunk)) {
        let (text, stamp) = if part == Part::UuidKeys {
            (None, segment.stamp_at(Part::UuidStamps, cursor.place(), &mut scratch)?)
        } else {
            let text = segment.text_at(cursor.place(), &mut scratch)?.to_vec();
            (Some(text), segment.stamp_at(Part::TextStamps, cursor.place(), &mut scratch)?)
        };
        chunk.push(ListedEntry { key, text, stamp });
        cursor.advance();
    }
    *place = Some(cursor.place());
    Ok(chunk)
}

/// The entries in a chunk of `source` that decide their key's state, unless an earlier source has
/// one.
fn counting(view: &View, source: usize, chunk: &[ListedEntry]) -> Result<Vec<ListedEntry>> {
    let keys: Vec<Key> = chunk.iter().map(|entry| entry.key).collect();
    let forms: Vec<Form> =
        chunk.iter().map(|entry| if entry.text.is_some() { Form::Text } else { Form::Uuid }).collect();
    let text = |row: u32| chunk[row as usize].text.as_deref().unwrap_or(&[]);
    let wanted = Wanted { keys: &keys, forms: &forms, text: &text };
    let found = view.lookup(&wanted, i64::MIN)?;
    let mut told = vec![Vec::new(); chunk.len()];
    if source > 0 {
        view.find_in_memory(&wanted, &mut |row, stamp, _| told[row as usize].push(stamp));
        for segment in &view.segments[..source - 1] {
            let mut candidates = Vec::new();
            segment.may_contain(&wanted, 0, &mut candidates)?;
            segment.find(&wanted, &candidates, &mut |row, stamp| told[row as usize].push(stamp))?;
        }
    }
    let mut kept = Vec::new();
    let mut seen_here = std::collections::HashSet::new();
    for (row, mut entry) in chunk.iter().cloned().enumerate() {
        entry.stamp.mark = view.memtable.effective(entry.stamp);
        let claim = if entry.stamp.mark == Mark::Completed { 0 } else { entry.stamp.claim };
        let is_same = |stamp: &Stamp| match entry.stamp.mark {
            Mark::Completed => view.memtable.effective(*stamp) == Mark::Completed,
            Mark::Open | Mark::Released => stamp.claim == entry.stamp.claim,
        };
        let is_current = match (found.states[row], entry.stamp.mark) {
            (HistoryState::Completed, Mark::Completed) => true,
            (HistoryState::Processing, Mark::Open) => {
                found.processing.iter().any(|open| open.row == row as u32 && open.claim == entry.stamp.claim)
            }
            _ => false,
        };
        if is_current && !told[row].iter().any(is_same) && seen_here.insert((entry.key, entry.text.clone(), claim)) {
            kept.push(entry);
        }
    }
    Ok(kept)
}
