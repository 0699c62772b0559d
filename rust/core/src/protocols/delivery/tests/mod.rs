#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first surprise")]

mod codec;
mod crash;
mod end_of_poll;
mod examples;
mod header;
mod properties;
mod reference;
mod send;
mod shards;
mod simulation;
mod table;

use super::*;
use crate::columns::{IdColumn, Validity};

/// One message as it arrives: its stream, and its header unless the message is damaged.
type Arriving<'a> = (&'a str, Option<PartHeader>);

fn header(resend_count: u64, prev: u64, cur: u64, seq: u32) -> PartHeader {
    PartHeader { resend_count, prev, cur, seq }
}

/// A table of one stream, "s".
fn one_stream(log_received: u64, rereceive_count: u64) -> StreamTable {
    let mut table = StreamTable::new();
    table.insert("s", ReceiverState { rereceive_count, ..ReceiverState::starting_at(log_received) }).unwrap();
    table
}

/// Decides a poll given as texts for stream "s".
fn poll_texts(table: &StreamTable, texts: &[&str], options: &Options) -> Poll {
    let (mut offsets, mut values) = (vec![0], Vec::new());
    for text in texts {
        values.extend_from_slice(text.as_bytes());
        offsets.push(i32::try_from(values.len()).unwrap());
    }
    let headers = Headers::Text(IdColumn::Utf8 { offsets: &offsets, values: &values, validity: Validity::all() });
    let streams = vec![0; texts.len()];
    receive(table, &HeaderColumns { streams: &streams, names: &["s"], headers }, options, 7).unwrap()
}

/// Decides a poll given as headers.
fn poll_headers(table: &StreamTable, arrivals: &[Arriving<'_>], options: &Options) -> Poll {
    let mut names: Vec<&str> = Vec::new();
    let mut streams = Vec::new();
    let mut bits = vec![0_u8; arrivals.len() / 8 + 1];
    let (mut epochs, mut prevs, mut curs, mut seqs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (row, (stream, header)) in arrivals.iter().enumerate() {
        let known = names.iter().position(|name| name == stream);
        streams.push(known.unwrap_or(names.len()) as u32);
        if known.is_none() {
            names.push(stream);
        }
        bits[row / 8] |= u8::from(header.is_some()) << (row % 8);
        let PartHeader { resend_count, prev, cur, seq } = header.unwrap_or(self::header(0, 0, 0, 0));
        epochs.push(resend_count);
        prevs.push(prev);
        curs.push(cur);
        seqs.push(seq);
    }
    let validity = Validity::new(&bits, 0);
    let headers = Headers::Numbers { resend_count: &epochs, prev: &prevs, cur: &curs, seq: &seqs, validity };
    receive(table, &HeaderColumns { streams: &streams, names: &names, headers }, options, 7).unwrap()
}

fn poll_one(table: &StreamTable, headers: &[PartHeader], options: &Options) -> Poll {
    poll_headers(table, &headers.iter().map(|&header| ("s", Some(header))).collect::<Vec<_>>(), options)
}

/// (prev, cur, seq) of what the poll applies to one of its streams, in order.
fn applied(poll: &Poll, arrivals: &[Arriving<'_>], stream: &str) -> Vec<(u64, u64, u32)> {
    let mut ranked = Vec::new();
    for (row, (of, header)) in arrivals.iter().enumerate().filter(|(_, (of, _))| *of == stream) {
        if let (Some(rank), Some(h)) = (poll.rows.apply_rank(row), header) {
            assert_eq!(poll.rows.status(row), Status::New, "{of}: what is applied is new");
            ranked.push((rank, (h.prev, h.cur, h.seq)));
        }
    }
    for one in poll.released.iter().filter(|one| &*poll.streams[one.stream as usize].stream == stream) {
        ranked.push((one.apply_rank, (one.prev, one.cur, one.seq)));
    }
    ranked.sort_unstable();
    assert!(ranked.iter().enumerate().all(|(at, (rank, _))| at as u32 == *rank), "ranks have no gaps: {ranked:?}");
    ranked.into_iter().map(|(_, message)| message).collect()
}

fn decisions(poll: &Poll) -> Vec<Decision> {
    (0..poll.rows.len()).map(|row| poll.rows.decision(row)).collect()
}

fn statuses(poll: &Poll) -> Vec<Status> {
    (0..poll.rows.len()).map(|row| poll.rows.status(row)).collect()
}
