//! Arrow out: the verdicts of a batch as columns. Each outcome is one byte, so each column is one
//! look-up a row.

use std::sync::{Arc, LazyLock};

use crate::arrow::array::{ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use crate::arrow::buffer::{BooleanBuffer, NullBuffer};
use crate::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use dochistory_core::protocols::trigger::Verdicts;
use dochistory_core::protocols::trigger::rules::{Acknowledge, Action, Outcome as Decision, Status};

use crate::columns::Columns;
use crate::errors::Outcome;
use crate::keys::key_column;
use crate::messages::message_column;
use crate::unchecked::dictionary;

/// Rows that are compared at once.
const TOGETHER: usize = 16;

/// Rows from which on a second thread is worth its start.
const LARGE: usize = 1 << 16;

/// One column of words: the word of each outcome.
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

    /// The column of these places, one a row; a negative one is null.
    fn column(&self, places: Vec<i8>) -> Outcome<ArrayRef> {
        let has_null = places.iter().fold(0, |all, place| all | place) < 0;
        let nulls =
            has_null.then(|| NullBuffer::new(BooleanBuffer::collect_bool(places.len(), |row| places[row] >= 0)));
        let places = if has_null { places.into_iter().map(|place| place.max(0)).collect() } else { places };
        dictionary(PrimitiveArray::new(places.into(), nulls), self.words.clone())
    }
}

/// The index of each row in each of the columns of words. Most rows of a batch have one outcome, so
/// a few are compared at once, and only rows that differ from the first one are written again.
fn places(columns: [&Words; 4], outcomes: &[Decision]) -> [Vec<i8>; 4] {
    let Some(usual) = outcomes.first().map(|outcome| outcome.as_u8()) else { return [(); 4].map(|()| Vec::new()) };
    let place = |words: &Words, outcome: u8| words.places[usize::from(outcome)];
    let mut places = columns.map(|words| vec![place(words, usual); outcomes.len()]);
    for (start, rows) in (0..).step_by(TOGETHER).zip(outcomes.chunks(TOGETHER)) {
        let first = rows[0].as_u8();
        let are_alike = rows.iter().fold(0, |other, row| other | (row.as_u8() ^ first)) == 0;
        if are_alike && first == usual {
            continue;
        }
        for (places, words) in places.iter_mut().zip(columns) {
            let places = &mut places[start..start + rows.len()];
            if are_alike {
                places.fill(place(words, first));
            } else {
                places.iter_mut().zip(rows).for_each(|(at, row)| *at = place(words, row.as_u8()));
            }
        }
    }
    places
}

/// The columns of words, in their order.
fn of_words() -> [&'static Words; 4] {
    [&STATUS, &ACTION, &ACKNOWLEDGE, &RULE]
}

/// The columns of words, by the outcomes, with capacity for two more.
fn word_columns(outcomes: &[Decision]) -> Outcome<Vec<ArrayRef>> {
    let mut columns = Vec::with_capacity(6);
    for (words, places) in of_words().into_iter().zip(places(of_words(), outcomes)) {
        columns.push(words.column(places)?);
    }
    Ok(columns)
}

/// The verdicts as the six columns of the output, made by at most two threads.
pub(crate) fn verdict_columns(verdicts: &Verdicts, columns: &Columns, threads: usize) -> Outcome<RecordBatch> {
    let words = || word_columns(&verdicts.outcomes);
    let texts = || (key_column(columns, &verdicts.sources), message_column(verdicts));
    let (arrays, (key, message)) = if threads > 1 && verdicts.outcomes.len() >= LARGE {
        std::thread::scope(|scope| {
            let words = scope.spawn(words);
            let texts = texts();
            (words.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)), texts)
        })
    } else {
        (words(), texts())
    };
    let mut arrays = arrays?;
    let schema = schema(key.data_type(), message.data_type());
    arrays.extend([key, message]);
    Ok(RecordBatch::try_new(schema, arrays)?)
}

/// The columns' names and types. Most calls get the same object.
fn schema(key: &DataType, message: &DataType) -> SchemaRef {
    static USUAL: LazyLock<SchemaRef> = LazyLock::new(|| described(&DataType::Utf8, &DataType::Utf8));
    if (key, message) == (&DataType::Utf8, &DataType::Utf8) { USUAL.clone() } else { described(key, message) }
}

fn described(key: &DataType, message: &DataType) -> SchemaRef {
    let texts = [("key", key), ("message", message)].map(|(name, kind)| Arc::new(Field::new(name, kind.clone(), true)));
    let fields: Vec<FieldRef> = of_words().into_iter().map(|words| words.field.clone()).chain(texts).collect();
    Arc::new(Schema::new(fields))
}
