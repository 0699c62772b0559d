//! What a mapper holds, naively: each pending id has an owner, and an end touches what its sender
//! owns.

use dochistory_core::protocols::mapper::rules::Policy;

/// A row of a batch that goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: usize,
    pub rule: &'static str,
    /// The rule before it was tried.
    first: &'static str,
    pub is_done: bool,
}

impl Row {
    pub fn can_end(&self) -> bool {
        !self.is_done && matches!(self.rule, "M1" | "M4" | "M1>unknown")
    }
}

/// One id: what it is mapped to, if it is; who has it pending, and what was decided about that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Id {
    pub mapped: Option<Option<String>>,
    pub pending: Option<(usize, Option<Policy>)>,
    /// Attempts that were handed out, since the last decision, and of which nobody knows for
    /// certain that they failed.
    perhaps_sent: Vec<usize>,
}

/// Ids, and the batches that senders have begun.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub ids: Vec<Id>,
    pub sends: Vec<Vec<Row>>,
}

impl Model {
    pub fn new(ids: usize) -> Self {
        Self { ids: vec![Id::default(); ids], sends: Vec::new() }
    }

    pub fn begin(&mut self, ids: &[usize], channel: Policy) {
        let (before, number) = (self.ids.clone(), self.sends.len());
        let mut rows: Vec<Row> = Vec::new();
        for id in ids.iter().copied() {
            let is_copy = rows.iter().any(|row| row.id == id && matches!(row.rule, "M1" | "M4"));
            let policy = before[id].pending.map(|(_, decided)| decided.unwrap_or(channel));
            let now = &mut self.ids[id];
            let rule = match (is_copy, &before[id].mapped, policy) {
                (true, ..) => "M1+batch",
                (_, Some(_), _) => {
                    (now.pending, now.perhaps_sent) = (None, Vec::new());
                    "M2"
                }
                (_, None, None) => {
                    assert!(now.perhaps_sent.is_empty(), "id {id} is new, and {:?} may have arrived", now.perhaps_sent);
                    "M1"
                }
                (_, None, Some(Policy::Error)) => "M3",
                (_, None, Some(Policy::Process)) => "M4",
                (_, None, Some(Policy::Duplicate)) => {
                    *now = Id { mapped: Some(None), ..Id::default() };
                    "M5"
                }
            };
            if matches!(rule, "M1" | "M4") {
                (now.pending, now.perhaps_sent) = (Some((number, None)), vec![number]);
            }
            rows.push(Row { id, rule, first: rule, is_done: false });
        }
        self.sends.push(rows);
    }

    pub fn complete(&mut self, send: usize, row: usize, value: &str) {
        let row = &mut self.sends[send][row];
        let id = &mut self.ids[row.id];
        if id.mapped.as_ref().is_none_or(Option::is_none) {
            id.mapped = Some(Some(value.to_owned()));
        }
        id.pending = id.pending.filter(|(owner, _)| *owner != send);
        id.perhaps_sent.retain(|attempt| *attempt != send);
        row.is_done = true;
        row.rule = row.first;
    }

    pub fn abort(&mut self, send: usize, row: usize, definite: bool) {
        let id = self.sends[send][row].id;
        self.sends[send][row].rule = if definite { "M1>failed" } else { "M1>unknown" };
        if !definite {
            return;
        }
        self.sends[send].iter_mut().filter(|row| row.id == id && row.rule == "M1+batch").for_each(|row| {
            row.rule = "M1+hold";
        });
        let id = &mut self.ids[id];
        id.pending = id.pending.filter(|pending| *pending != (send, None));
        id.perhaps_sent.retain(|attempt| *attempt != send);
    }

    pub fn resolve(&mut self, id: usize, policy: Policy) {
        let id = &mut self.ids[id];
        id.pending = id.pending.map(|(owner, _)| (owner, (policy != Policy::Error).then_some(policy)));
    }

    pub fn create(&mut self, id: usize, value: &str) {
        self.ids[id].mapped.get_or_insert(Some(value.to_owned()));
    }

    pub fn remove(&mut self, id: usize) {
        self.ids[id].mapped = None;
    }

    /// Remove everything, what is pending included.
    pub fn purge(&mut self) {
        self.ids.iter_mut().for_each(|id| *id = Id::default());
    }
}
