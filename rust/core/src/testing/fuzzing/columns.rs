//! The columnar input: buffers of any content, taken as columns of ids, counts and flags.

use std::path::Path;
use std::sync::Arc;

use crate::columns::{CountColumn, Documents, FlagColumn, IdCell, IdColumn, Validity};
use crate::history::{History, OpenOptions};
use crate::protocols::trigger::rules::{Kind, Trigger};
use crate::protocols::trigger::{Call, OnReplay};
use crate::testing::simulated::Simulated;

/// Takes the fuzzer's bytes piece by piece; zeros follow the last.
struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A small number, sometimes negative or very large.
    fn number(&mut self) -> i64 {
        match self.byte() {
            255 => i64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            byte => i64::from(byte as i8),
        }
    }

    fn validity(&mut self) -> Validity<'a> {
        let how = self.byte();
        let length = usize::from(self.byte() % 9);
        if how < 128 { Validity::all() } else { Validity::new(self.bytes(length), usize::from(how % 11)) }
    }

    /// The number of rows; sometimes one more or less.
    fn around(&mut self, rows: usize) -> usize {
        match self.byte() {
            254 => rows + 1,
            255 => rows.saturating_sub(1),
            _ => rows,
        }
    }
}

/// The buffers that a column borrows.
struct Buffers {
    offsets: Vec<i32>,
    large: Vec<i64>,
    views: Vec<u128>,
    indices: Vec<u32>,
}

impl Buffers {
    fn new(pieces: &mut Pieces, rows: usize) -> Self {
        let count = pieces.around(rows);
        // Most offsets rise, so that the code behind the checks is reached.
        let mut at = 0i64;
        let rises = !pieces.byte().is_multiple_of(4);
        let large: Vec<i64> = (0..=count)
            .map(|_| {
                let step = pieces.number();
                at = if rises { at + (step & 7) } else { step };
                at
            })
            .collect();
        let view = |pieces: &mut Pieces| {
            let (length, buffer, start) = (pieces.byte(), pieces.byte() % 3, pieces.byte() % 32);
            u128::from(length % 20) | u128::from(buffer) << 64 | u128::from(start) << 96
        };
        let views = (0..count).map(|_| view(pieces)).collect();
        let indices = (0..count).map(|_| pieces.number() as u32).collect();
        Self { offsets: large.iter().map(|offset| *offset as i32).collect(), large, views, indices }
    }

    fn column<'a>(&'a self, pieces: &mut Pieces<'a>, depth: u8) -> IdColumn<'a> {
        let kind = pieces.byte() % 5;
        let length = usize::from(pieces.byte());
        let (values, validity) = (pieces.bytes(length), pieces.validity());
        match kind {
            0 => IdColumn::Utf8 { offsets: &self.offsets, values, validity },
            1 => IdColumn::LargeUtf8 { offsets: &self.large, values, validity },
            2 => IdColumn::Utf8View {
                views: &self.views,
                buffers: vec![values, b"another buffer of some bytes"],
                validity,
            },
            3 if depth == 0 => {
                let values = Box::new(self.column(pieces, 1));
                IdColumn::Dictionary { indices: self.indices.clone(), values, validity }
            }
            _ => IdColumn::Uuid { values, validity },
        }
    }
}

/// Classify and begin documents with columns made from the bytes.
pub fn columns(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    let (how, rows) = (pieces.byte(), usize::from(pieces.byte() % 24));
    let buffers: Vec<Buffers> = (0..=how % 3).map(|_| Buffers::new(&mut pieces, rows)).collect();
    let ids: Vec<IdColumn> = buffers.iter().map(|buffers| buffers.column(&mut pieces, 0)).collect();
    let counts: Vec<i64> = (0..pieces.around(rows)).map(|_| pieces.number()).collect();
    let count = if how & 4 == 0 { CountColumn::Absent } else { CountColumn::I64(&counts, pieces.validity()) };
    let eligible = if how & 8 == 0 {
        FlagColumn::Absent
    } else {
        FlagColumn::Bits { bits: pieces.bytes(4), offset: usize::from(pieces.byte() % 9), validity: pieces.validity() }
    };
    let documents = Documents { rows, ids, count, eligible };
    if documents.check().is_ok() {
        // Every row of valid columns can be read.
        let read = |column: &IdColumn| (0..rows).filter(|row| column.get(*row) != IdCell::Null).count();
        assert!(documents.ids.iter().map(read).sum::<usize>() <= rows * documents.ids.len());
    }
    judge(&documents, how);
}

fn judge(documents: &Documents, how: u8) {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let Ok(history) = History::open_on(Arc::new(Simulated::new(0)), Path::new("/h"), &options) else { return };
    let mut trigger = Trigger::new("fuzzed", if how & 16 == 0 { Kind::Messaging } else { Kind::Jms });
    (trigger.detect_duplicates, trigger.use_history) = (true, true);
    let classified = history.classify(&trigger, documents, &mut Call::at(0)).is_ok();
    let begun = history.begin(&trigger, documents, &mut Call::at(0), None, OnReplay::ByRules);
    assert_eq!(classified, begun.is_ok(), "what can be classified can be begun");
    if let Ok(begun) = begun {
        assert_eq!(begun.verdicts.outcomes.len(), documents.rows);
        assert!(documents.check().is_ok(), "columns that are not whole are refused");
    }
}
