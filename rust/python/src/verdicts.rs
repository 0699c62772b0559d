//! Arrow out: the verdicts of a batch as columns. Each outcome is one byte, so each column is one look-up a row.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, DictionaryArray, Int8Array, PrimitiveArray, RecordBatch, StringArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Int8Type, Schema};
use dochistory_core::engine::Verdicts;
use dochistory_core::rules::{Acknowledge, Action, Outcome as Decision, Status};

use crate::columns::Columns;
use crate::errors::Outcome;
use crate::keys::key_column;
use crate::messages::message_column;

/// Rows that are compared at once.
const TOGETHER: usize = 16;

/// One column of words: which word each outcome has.
struct Words {
    field: FieldRef,
    words: ArrayRef,
    /// By the code of the outcome; -1 is null.
    places: [i8; 256],
}

static STATUS: LazyLock<Words> = LazyLock::new(|| {
    let words = Status::ALL.map(Status::as_str);
    Words::new("status", &words, |outcome| outcome.status().map(|status| status as usize))
});
static ACTION: LazyLock<Words> =
    LazyLock::new(|| Words::new("action", &Action::ALL.map(Action::as_str), |outcome| Some(outcome.action() as usize)));
static ACKNOWLEDGE: LazyLock<Words> = LazyLock::new(|| {
    let words = Acknowledge::ALL.map(Acknowledge::as_str);
    Words::new("acknowledge", &words, |outcome| Some(outcome.acknowledge() as usize))
});
static RULE: LazyLock<Words> = LazyLock::new(|| {
    let mut words: Vec<&'static str> = Vec::new();
    for outcome in Decision::all() {
        if !words.contains(&outcome.rule()) {
            words.push(outcome.rule());
        }
    }
    Words::new("rule", &words, |outcome| words.iter().position(|word| *word == outcome.rule()))
});

impl Words {
    fn new(name: &str, words: &[&'static str], place: impl Fn(Decision) -> Option<usize>) -> Self {
        let mut places = [-1; 256];
        for outcome in Decision::all() {
            if let Some(place) = place(outcome).and_then(|place| i8::try_from(place).ok()) {
                places[usize::from(outcome.as_u8())] = place;
            }
        }
        let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let field = Arc::new(Field::new(name, kind, true));
        Self { field, words: Arc::new(StringArray::from(words.to_vec())), places }
    }

    /// The word of each row. Most rows of a batch have one outcome, so a few are compared at once first.
    fn places(&self, outcomes: &[Decision]) -> Vec<i8> {
        let mut places = Vec::with_capacity(outcomes.len());
        let of = |outcome: Decision| self.places[usize::from(outcome.as_u8())];
        for rows in outcomes.chunks(TOGETHER) {
            let first = rows[0].as_u8();
            if rows.len() == TOGETHER && rows.iter().fold(0, |other, row| other | (row.as_u8() ^ first)) == 0 {
                places.extend_from_slice(&[of(rows[0]); TOGETHER]);
            } else {
                places.extend(rows.iter().map(|row| of(*row)));
            }
        }
        places
    }

    fn column(&self, outcomes: &[Decision]) -> Outcome<ArrayRef> {
        let places = self.places(outcomes);
        let has_null = places.iter().fold(0, |all, place| all | place) < 0;
        let keys: Int8Array = if has_null {
            let nulls = NullBuffer::new(BooleanBuffer::collect_bool(places.len(), |row| places[row] >= 0));
            let places = places.into_iter().map(|place| place.max(0)).collect::<Vec<_>>();
            PrimitiveArray::new(places.into(), Some(nulls))
        } else {
            PrimitiveArray::new(places.into(), None)
        };
        Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, self.words.clone())?))
    }
}

/// The verdicts as the six columns of the output.
pub(crate) fn verdict_columns(verdicts: &Verdicts, columns: &Columns) -> Outcome<RecordBatch> {
    let outcomes = &verdicts.outcomes;
    let mut fields = Vec::with_capacity(6);
    let mut arrays = Vec::with_capacity(6);
    for words in [&STATUS, &ACTION, &ACKNOWLEDGE, &RULE] {
        arrays.push(words.column(outcomes)?);
        fields.push(words.field.clone());
    }
    let others = [("key", key_column(columns, &verdicts.sources)), ("message", message_column(verdicts))];
    for (name, array) in others {
        fields.push(Arc::new(Field::new(name, array.data_type().clone(), true)));
        arrays.push(array);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}
