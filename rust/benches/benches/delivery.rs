//! Headers a second: many streams, and one stream in order, in reverse, shuffled, and all held.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dochistory_core::columns::{IdColumn, Validity};
use dochistory_core::protocols::delivery::{
    HeaderColumns, Headers, Options, PartHeader, ReceiverState, StreamTable, receive,
};

const ROWS: u64 = 1_000_000;
const START: u64 = 1_000_000_000;

struct Poll {
    names: Vec<String>,
    streams: Vec<u32>,
    offsets: Vec<i32>,
    values: Vec<u8>,
}

/// A fixed shuffle: the order of `SplitMix64` numbers.
fn shuffled(count: u64) -> Vec<u64> {
    let mix = |n: u64| {
        let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        n ^ (n >> 31)
    };
    let mut all: Vec<u64> = (0..count).collect();
    all.sort_by_key(|&n| mix(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    all
}

/// Message number `order[row]` of the whole, dealt to `streams` streams in turn; each stream's
/// chain starts at `first`.
fn poll(order: &[u64], streams: u64, first: u64) -> Poll {
    let mut poll = Poll {
        names: (0..streams).map(|n| format!("publisher-{n:05}")).collect(),
        streams: Vec::new(),
        offsets: vec![0],
        values: Vec::new(),
    };
    for &number in order {
        let (stream, place) = (number % streams, number / streams);
        let prev = first + place * 150;
        let header = PartHeader { resend_count: 0, prev, cur: prev + 150, seq: 0 };
        poll.values.extend(header.to_string().into_bytes());
        poll.offsets.push(poll.values.len() as i32);
        poll.streams.push(stream as u32);
    }
    poll
}

fn measure(criterion: &mut Criterion, name: &str, poll: &Poll) {
    let mut table = StreamTable::new();
    for stream in &poll.names {
        assert!(table.insert(stream, ReceiverState::starting_at(START)).is_ok());
    }
    let names: Vec<&str> = poll.names.iter().map(String::as_str).collect();
    let mut group = criterion.benchmark_group("delivery");
    group.sample_size(20).throughput(Throughput::Elements(poll.streams.len() as u64));
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        bencher.iter_batched(
            || (),
            |()| {
                let headers = Headers::Text(IdColumn::Utf8 {
                    offsets: &poll.offsets,
                    values: &poll.values,
                    validity: Validity::all(),
                });
                let columns = HeaderColumns { streams: &poll.streams, names: &names, headers };
                receive(black_box(&table), &columns, &Options::default(), 0)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn headers(criterion: &mut Criterion) {
    let in_order: Vec<u64> = (0..ROWS).collect();
    let reversed: Vec<u64> = (0..ROWS).rev().collect();
    let mixed = shuffled(ROWS);
    measure(criterion, "10,000 streams, in order", &poll(&in_order, 10_000, START));
    measure(criterion, "10,000 streams, shuffled", &poll(&mixed, 10_000, START));
    measure(criterion, "10,000 streams, one message each", &poll(&in_order[..10_000], 10_000, START));
    measure(criterion, "one stream, in order", &poll(&in_order, 1, START));
    measure(criterion, "one stream, reversed", &poll(&reversed, 1, START));
    measure(criterion, "one stream, shuffled", &poll(&mixed, 1, START));
    measure(criterion, "one stream, shuffled, all held", &poll(&mixed, 1, START + 1));
}

criterion_group!(benches, headers);
criterion_main!(benches);
