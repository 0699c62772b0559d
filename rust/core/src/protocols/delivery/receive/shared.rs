//! The streams of a poll, divided among several threads. Each thread takes adjacent streams, with
//! rows of its own; the results are merged in the order of the streams.

use std::ops::Range;

use super::Pass;
use crate::protocols::delivery::columns::HeaderColumns;
use crate::protocols::delivery::decision::Reason;
use crate::protocols::delivery::group::{Arrival, Group, Grouped};
use crate::protocols::delivery::options::Options;
use crate::protocols::delivery::table::StreamTable;

/// The work of one thread: its streams and their messages, with the rows renumbered.
struct Share<'a> {
    groups: &'a [Group],
    start: usize,
    arrivals: &'a [Arrival],
    reasons: Vec<Reason>,
}

pub(super) fn run<'p>(
    threads: usize,
    table: &'p StreamTable,
    columns: &HeaderColumns<'_>,
    options: &'p Options,
    now: i64,
    mut grouped: Grouped,
) -> Pass<'p> {
    let rows: Vec<u32> = grouped.arrivals.iter().map(|arrival| arrival.row).collect();
    let parts = split(threads, &grouped.groups);
    for (groups, start) in &parts {
        for group in &grouped.groups[groups.clone()] {
            for place in group.start..group.end {
                grouped.arrivals[place].row = (place - start) as u32;
            }
        }
    }
    let mut whole = Pass::new(table, options, now, std::mem::take(&mut grouped.reasons));
    let share = |(groups, start): &(Range<usize>, usize)| {
        let groups = &grouped.groups[groups.clone()];
        let end = groups.last().map_or(*start, |last| last.end);
        let arrivals = &grouped.arrivals[*start..end];
        Share { groups, start: *start, arrivals, reasons: vec![Reason::UnknownStream; arrivals.len()] }
    };
    let work = |share: Share<'_>| {
        let mut pass = Pass::new(table, options, now, share.reasons);
        for one in share.groups {
            let arrivals = &share.arrivals[one.start - share.start..one.end - share.start];
            pass.group(one, columns.names[one.name as usize], arrivals);
        }
        pass
    };
    let found: Vec<Pass<'_>> = std::thread::scope(|scope| {
        let running: Vec<_> = parts.iter().map(|part| (scope.spawn(|| work(share(part))), part)).collect();
        // A thread that could not be joined has panicked. Its work is done here, which shows the
        // reason.
        running.into_iter().map(|(thread, part)| thread.join().unwrap_or_else(|_| work(share(part)))).collect()
    });
    for (pass, (groups, start)) in found.into_iter().zip(&parts) {
        let places = grouped.groups[groups.clone()].iter().flat_map(|group| group.start..group.end);
        whole.add(pass, *start, places, &rows);
    }
    whole
}

/// Divides adjacent streams into ranges of about equally many messages, and tells where the
/// messages of each begin.
fn split(threads: usize, groups: &[Group]) -> Vec<(Range<usize>, usize)> {
    let total: usize = groups.iter().map(|group| group.end - group.start).sum();
    let enough = total.div_ceil(threads).max(1);
    let mut parts = Vec::new();
    let (mut first, mut messages) = (0, 0);
    for (at, group) in groups.iter().enumerate() {
        messages += group.end - group.start;
        if messages >= enough || at + 1 == groups.len() {
            parts.push((first..at + 1, groups[first].start));
            (first, messages) = (at + 1, 0);
        }
    }
    parts
}

impl Pass<'_> {
    /// Adds the results of another pass, for streams behind those of this one.
    fn add(&mut self, other: Pass<'_>, start: usize, places: impl Iterator<Item = usize>, rows: &[u32]) {
        let streams = self.streams.len() as u32;
        for place in places {
            let (local, row) = (place - start, rows[place] as usize);
            self.outputs.reasons[row] = other.outputs.reasons[local];
            self.outputs.apply_ranks[row] = other.outputs.apply_ranks[local];
        }
        self.streams.extend(other.streams);
        self.pending.extend(other.pending);
        self.changes.extend(other.changes.into_iter().map(|mut one| {
            one.stream += streams;
            one
        }));
        self.outputs.released.extend(other.outputs.released.into_iter().map(|mut one| {
            one.stream += streams;
            one
        }));
        self.outputs.dropped.extend(other.outputs.dropped.into_iter().map(|mut one| {
            one.stream += streams;
            one
        }));
    }
}
