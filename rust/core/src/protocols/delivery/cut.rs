//! A caller that has applied only the first of the transactions that a poll handed out.

use std::collections::HashMap;

use super::columns::HeaderColumns;
use super::poll::{Change, Poll};
use super::state::Volatile;
use crate::error::{Error, Result};

impl Poll {
    /// Records how far the caller has applied the streams that it names: a COMMIT within the poll's
    /// messages, or where the stream stood before. A stream that was not applied whole goes back:
    /// its kept messages are dropped, and a resend is requested from there.
    pub fn cut(&mut self, columns: &HeaderColumns<'_>, applied_upto: &HashMap<String, u64>) -> Result<()> {
        if applied_upto.is_empty() {
            return Ok(());
        }
        let mut whole = 0;
        for one in &self.streams {
            whole += usize::from(applied_upto.get(&*one.stream).is_some_and(|&upto| upto == one.log_received));
        }
        if whole == applied_upto.len() {
            return Ok(());
        }
        let order = self.in_order(columns);
        let of_stream = |stream: u32| {
            let start = order.partition_point(|one| one.stream < stream);
            &order[start..start + order[start..].partition_point(|one| one.stream == stream)]
        };
        let known: HashMap<&str, usize> = self.streams.iter().enumerate().map(|(at, one)| (&*one.stream, at)).collect();
        let mut cuts = Vec::new();
        for (name, &upto) in applied_upto {
            let at = *known.get(name.as_str()).ok_or_else(|| {
                Error::State(format!("log_received names stream {name:?}, which is not in this poll"))
            })?;
            if upto == self.streams[at].log_received {
                continue;
            }
            let applied = of_stream(at as u32);
            let count = applied.partition_point(|one| one.commit <= upto);
            let before = applied.first().map_or(self.streams[at].log_received, |one| one.transaction);
            if upto < before || upto > self.streams[at].log_received {
                return Err(Error::State(format!(
                    "stream {name:?}: log_received is {upto}, but this poll brings the stream from {before} to {}",
                    self.streams[at].log_received
                )));
            }
            cuts.push((at, upto, count as u64));
        }
        for (at, upto, count) in cuts {
            self.cut_stream(at, upto, count)?;
        }
        Ok(())
    }

    fn cut_stream(&mut self, at: usize, upto: u64, count: u64) -> Result<()> {
        let found = self.changes.binary_search_by_key(&(at as u32), |change| change.stream);
        let change = found.map_err(|_| Error::State("nothing of this stream was to be applied".into()))?;
        let Change { applying: before, after, .. } = &mut self.changes[change];
        let time_received = if count > 0 { after.time_received } else { before.time_received };
        after.log_received = upto;
        after.applying_upto = upto;
        after.rereceive_count = after.rereceive_count.saturating_add(1);
        after.receive_count = before.receive_count + count;
        after.time_received = time_received;
        self.pending[at].durable = *after;
        self.pending[at].volatile = Volatile { outstanding: true, ..Volatile::default() };
        let outcome = &mut self.streams[at];
        (outcome.log_received, outcome.rereceive_count) = (upto, after.rereceive_count);
        outcome.confirm = (upto > after.confirm_received).then_some(upto);
        outcome.resend = Some((after.rereceive_count, upto));
        (outcome.patience, outcome.held, outcome.buffered_parts) = (None, 0, 0);
        Ok(())
    }
}
