//! How a batch that goes out ends. An end speaks of its own attempt only: the pending entries that
//! this very send wrote, and that nobody decided about since. What others sent, have under way,
//! decided or mapped by hand stays.

use super::{Ending, Ids, Qos, Record, Result, Rule, Send, SentRow, State, ValueEdit};
use crate::protocols::mapper::texts::{Texts, Untils};
use crate::protocols::mapper::{Known, Mapper, MapperSettings, same_length};

/// What an end does to the map, for one row.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// It was sent: map it.
    Map { value: Option<&'a [u8]>, until: i64 },
    /// It certainly was not delivered: pending no more.
    GiveUp,
    /// It was not tried: as it was before this batch.
    GiveBack,
}

impl Send {
    /// These rows were sent: write their mappings and remove what this send left pending, in one
    /// step. Durable on return; saying it again changes nothing. A mapping to another id stands:
    /// whoever said it first was sent, too. What another sender has pending stays beside the
    /// mapping. `ids` are those that the batch was begun with; `values` and `untils` have a row for
    /// each of `rows`.
    pub fn complete(&self, ids: &Ids, rows: &[u32], values: &Texts, untils: Untils) -> Result<()> {
        same_length("external_ids", values.len(), rows.len())?;
        untils.check(rows.len())?;
        self.settle(ids, rows, SentRow::Done, Some((values, untils)))
    }

    /// These rows failed: with `definite` they were certainly not delivered by this send, and are
    /// pending no more, unless another sender or a decision has taken over; else nobody knows, and
    /// they stay pending. Later rows of their queues are held, as are later rows of the same id.
    /// Durable on return.
    pub fn abort(&self, ids: &Ids, rows: &[u32], definite: bool) -> Result<()> {
        self.settle(ids, rows, if definite { SentRow::Failed } else { SentRow::Unknown }, None)
    }

    fn settle(&self, ids: &Ids, rows: &[u32], became: SentRow, sent: Option<(&Texts, Untils)>) -> Result<()> {
        same_length("ids", ids.len(), self.facts.qos.len())?;
        let mut state = self.state();
        state.check(rows, became)?;
        let after = self.after(&state, rows, became)?;
        let mut steps = Vec::new();
        if let Some((values, untils)) = sent {
            let is_to_map = |row: usize| self.is_checked(row) && state.rows[row] != SentRow::Done;
            let named = rows.iter().enumerate().filter(|(_, row)| is_to_map(**row as usize));
            let map = |place: usize| Step::Map { value: values.get(place), until: untils.get(place) };
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
            // A mapping whose time is over is still none of ours to remove.
            let now = Known::read(&edit.look_at(ids, &touched)?, MapperSettings::default(), 0)?;
            for (at, (row, step)) in steps.iter().enumerate() {
                self.take(*step, edit, ids, *row as usize, (&now, at))?;
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

    /// How the batch stands once these rows became that. What waits does so until it comes again:
    /// it is pending no more, and somebody else may have begun it.
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

    /// One step, by what the map holds of its row now.
    fn take(&self, step: Step, edit: &mut ValueEdit, ids: &Ids, row: usize, (now, at): (&Known, usize)) -> Result<()> {
        let (pending, kept_until) = (now.pending_of(at), now.persist_until[at]);
        let is_own = pending.is_some_and(|pending| pending.attempt == self.attempt);
        let mapped_to = now.values.get(at);
        if let Step::Map { value, until } = step {
            let pending = pending.filter(|_| !is_own);
            let is_shared = now.mapped[at] || pending.is_some();
            let until = if is_shared { until.max(kept_until) } else { until };
            let record = Record { is_mapped: true, value: mapped_to.or(value), pending };
            Mapper::put(edit, ids.id(row), &record, until)?;
            let is_given = mapped_to.is_none();
            return self.mapper.mirror(edit, value.filter(|_| is_given), ids.bytes(row).as_deref(), until);
        }
        if !is_own || pending.is_some_and(|pending| pending.resolved.is_some()) {
            return Ok(());
        }
        let had = self.facts.pending[row] && matches!(step, Step::GiveBack);
        let pending = self.known.pending_of(row).filter(|_| had);
        if !now.mapped[at] && pending.is_none() {
            return edit.remove(ids.id(row));
        }
        let until = if now.mapped[at] { kept_until } else { self.known.persist_until[row] };
        Mapper::put(edit, ids.id(row), &Record { is_mapped: now.mapped[at], value: mapped_to, pending }, until)
    }
}
