//! The ends of a batch that goes out. An end affects its own attempt only: the pending entries that
//! this send wrote, and that nobody decided about since. It never changes entries that others sent,
//! are sending, decided or mapped by hand.

use std::collections::HashSet;

use super::{Ending, Ids, Qos, Record, Result, Rule, Send, SentRow, State, ValueEdit};
use crate::protocols::mapper::texts::{Texts, Untils};
use crate::protocols::mapper::{Known, Mapper, MapperSettings, same_length};

/// The change of the map by an end, for one row.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// It was sent: map it, unless it is mapped at this time.
    Map { value: Option<&'a [u8]>, until: i64, now_us: i64 },
    /// It certainly was not delivered: no longer pending.
    GiveUp,
    /// It was not tried: restore the state before this batch.
    GiveBack,
}

impl Send {
    /// These rows were sent: write their mappings and remove this send's pending entries, in one
    /// step. Durable on return; repeating it changes nothing. A mapping to another id stays: the
    /// sender that wrote it first sent the message too. A pending entry of another sender stays
    /// beside the mapping. `ids` are those that the batch was begun with; `values` and `untils`
    /// have a row for each of `rows`.
    pub fn complete(&self, ids: &Ids, rows: &[u32], values: &Texts, untils: Untils, now_us: i64) -> Result<()> {
        same_length("external_ids", values.len(), rows.len())?;
        untils.check(rows.len())?;
        self.settle(ids, rows, SentRow::Done, Some((values, untils, now_us)))
    }

    /// These rows failed. With `definite` this send certainly did not deliver them: they are no
    /// longer pending, unless another sender or a decision took over. Without it the outcome is
    /// unknown, and they stay pending. Later rows of their queues and later rows of the same id are
    /// held. Durable on return.
    pub fn abort(&self, ids: &Ids, rows: &[u32], definite: bool) -> Result<()> {
        self.settle(ids, rows, if definite { SentRow::Failed } else { SentRow::Unknown }, None)
    }

    fn settle(&self, ids: &Ids, rows: &[u32], became: SentRow, sent: Option<(&Texts, Untils, i64)>) -> Result<()> {
        same_length("ids", ids.len(), self.facts.qos.len())?;
        let mut state = self.state();
        state.check(rows, became)?;
        let after = self.after(&state, rows, became)?;
        let mut steps = Vec::new();
        if let Some((values, untils, now_us)) = sent {
            let is_to_map = |row: usize| self.is_checked(row) && state.rows[row] != SentRow::Done;
            // Of a row that is named twice the first id counts, as if it were said again later.
            let mut said = HashSet::new();
            let named = rows.iter().enumerate().filter(|(_, row)| is_to_map(**row as usize) && said.insert(**row));
            let map = |place: usize| Step::Map { value: values.get(place), until: untils.get(place), now_us };
            steps.extend(named.map(|(place, row)| (*row, map(place))));
        }
        for row in (0..after.rules.len()).filter(|row| self.is_checked(*row)) {
            let (was, is) = (state.rules[row], after.rules[row]);
            if is == Rule::M1Failed && was != Rule::M1Failed {
                steps.push((row as u32, Step::GiveUp));
            } else if was.is_processed() && is.is_held() {
                steps.push((row as u32, Step::GiveBack));
            }
        }
        let ending = self.claim.filter(|_| !after.is_ended && after.is_done());
        self.mapper.values.write(|edit| {
            let touched: Vec<u32> = steps.iter().map(|(row, _)| *row).collect();
            // A mapping whose time is over still belongs to its writer.
            let now = Known::read(&edit.look_at(ids, &touched)?, MapperSettings::default(), 0)?;
            for (at, (row, step)) in steps.iter().enumerate() {
                let row = *row as usize;
                if self.mapper.settings.mirror {
                    // The mirror of an earlier row may have changed it.
                    let now = Known::read(&edit.present(ids.id(row))?, MapperSettings::default(), 0)?;
                    self.take(*step, edit, ids, row, (&now, 0))?;
                } else {
                    self.take(*step, edit, ids, row, (&now, at))?;
                }
            }
            if let Some(claim) = ending {
                edit.end(claim, Ending::Completed);
            }
            Ok(())
        })?;
        *state = after;
        state.is_ended |= ending.is_some();
        Ok(())
    }

    fn is_checked(&self, row: usize) -> bool {
        self.facts.qos[row] != Qos::BestEffort
    }

    /// The state of the batch once these rows have this result. A waiting row waits until it comes
    /// again: it is no longer pending, and another sender may have begun it.
    fn after(&self, before: &State, rows: &[u32], became: SentRow) -> Result<State> {
        let mut after = before.clone();
        for row in rows {
            after.rows[*row as usize] = became;
        }
        if became != SentRow::Done || rows.iter().any(|row| before.rows[*row as usize] == SentRow::Unknown) {
            after.rules = self.facts.decide(Some(&after.attempts()))?;
            for (is, was) in after.rules.iter_mut().zip(&before.rules).filter(|(_, was)| was.is_held()) {
                *is = *was;
            }
        }
        Ok(after)
    }

    /// Applies one step, by the present entry of its row.
    fn take(&self, step: Step, edit: &mut ValueEdit, ids: &Ids, row: usize, (now, at): (&Known, usize)) -> Result<()> {
        let now = now.record_of(at);
        let pending = now.pending;
        let is_own = pending.is_some_and(|pending| pending.attempt == self.attempt);
        if let Step::Map { value, until, now_us } = step {
            let pending = pending.filter(|_| !is_own);
            let is_over = self.mapper.settings.exact_expiry && now.until <= now_us;
            let mapped = now.value.filter(|_| !is_over);
            let until = if now.is_mapped { until.max(now.until) } else { until };
            let record = Record { pending, ..Record::mapped(mapped.or(value), until) };
            Mapper::put(edit, ids.id(row), &record)?;
            let is_given = mapped.is_none();
            let id = ids.bytes(row).unwrap_or_default();
            // As above, times are not looked at.
            return self.mapper.mirror(edit, value.filter(|_| is_given), &id, until, i64::MIN);
        }
        if !is_own || pending.is_some_and(|pending| pending.resolved.is_some()) {
            return Ok(());
        }
        let had = self.facts.pending[row] && matches!(step, Step::GiveBack);
        let pending = self.known.pending_of(row).filter(|_| had);
        if !now.is_mapped && pending.is_none() {
            return edit.remove(ids.id(row));
        }
        Mapper::put(edit, ids.id(row), &Record { pending, ..now })
    }
}
