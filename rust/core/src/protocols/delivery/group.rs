//! Groups the messages by stream: a counting sort that keeps the order of arrival.

use std::collections::HashMap;

use super::columns::{HeaderColumns, NO_STREAM};
use super::decision::Reason;
use super::table::StreamTable;

/// A message with a usable header, at its place among the messages of its stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    pub(super) resend_count: u64,
    pub(super) prev: u64,
    pub(super) cur: u64,
    pub(super) seq: u32,
    pub(super) row: u32,
}

/// The messages of one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Index of the stream's name in the columns.
    pub(super) name: u32,
    /// Its number in the table, if the table knows it.
    pub(super) known: Option<u32>,
    /// Where its arrivals begin.
    pub(super) start: usize,
    /// Where they end. The gap before the next group is the room of unusable headers.
    pub(super) end: usize,
}

/// The poll, stream by stream.
#[derive(Debug)]
pub(super) struct Grouped {
    pub(super) groups: Vec<Group>,
    pub(super) arrivals: Vec<Arrival>,
    /// Final for unusable headers (rule 0).
    pub(super) reasons: Vec<Reason>,
    /// `prev` of each row.
    pub(super) transactions: Vec<u64>,
}

const NO_GROUP: u32 = u32::MAX;

pub(super) fn group(columns: &HeaderColumns<'_>, table: &StreamTable) -> Grouped {
    let rows = columns.streams.len();
    let (mut groups, group_of_name) = lay_out(columns, table);
    let mut arrivals = vec![Arrival::default(); rows];
    let mut reasons = vec![Reason::NoStream; rows];
    let mut transactions = vec![0; rows];
    for (row, &name) in columns.streams.iter().enumerate() {
        if name == NO_STREAM {
            continue;
        }
        match columns.headers.get(row) {
            Ok(header) => {
                let group = &mut groups[group_of_name[name as usize] as usize];
                let (resend_count, prev, cur, seq) = (header.resend_count, header.prev, header.cur, header.seq);
                arrivals[group.end] = Arrival { resend_count, prev, cur, seq, row: row as u32 };
                group.end += 1;
                transactions[row] = prev;
                // Correct unless the stream is known; for a known one its pass writes the reason.
                reasons[row] = Reason::UnknownStream;
            }
            Err(bad) => reasons[row] = bad.into(),
        }
    }
    Grouped { groups, arrivals, reasons, transactions }
}

/// Reserves room for each stream that has messages, in the order of the names.
fn lay_out(columns: &HeaderColumns<'_>, table: &StreamTable) -> (Vec<Group>, Vec<u32>) {
    let mut counts = vec![0_usize; columns.names.len()];
    for &name in columns.streams {
        if name != NO_STREAM {
            counts[name as usize] += 1;
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut sizes: Vec<usize> = Vec::new();
    let mut group_of_known = vec![NO_GROUP; table.len()];
    let mut group_of_new: HashMap<&str, u32> = HashMap::new();
    let mut group_of_name = vec![NO_GROUP; columns.names.len()];
    for (name, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
        let known = table.find(columns.names[name]);
        let group = match known {
            Some(id) => &mut group_of_known[id as usize],
            None => group_of_new.entry(columns.names[name]).or_insert(NO_GROUP),
        };
        if *group == NO_GROUP {
            *group = groups.len() as u32;
            groups.push(Group { name: name as u32, known, start: 0, end: 0 });
            sizes.push(0);
        }
        sizes[*group as usize] += count;
        group_of_name[name] = *group;
    }
    let mut start = 0;
    for (group, size) in groups.iter_mut().zip(sizes) {
        (group.start, group.end) = (start, start);
        start += size;
    }
    (groups, group_of_name)
}
