//! What the store's parts cost, an entry, on one core: exact look-ups in a segment, sorting,
//! merging, frames of the log.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dochistory_core::key::{Codec, Key};
use dochistory_core::testing::measuring::{BeginFrame, Segments, settle};
use std::hint::black_box;

const ENTRIES: u64 = 300_000;

/// Distinct keys, in no order.
fn keys(range: std::ops::Range<u64>) -> Vec<Key> {
    let codec = Codec::new(&[9; 32]);
    range.map(|number| codec.mix(u128::from(number).to_be_bytes())).collect()
}

/// What a benchmark cannot go on without.
fn must<T>(result: Result<T, impl std::fmt::Display>) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    })
}

fn segments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("segment");
    let directory = must(tempfile::tempdir());
    let parts: Vec<_> = (0..4).map(|part| keys(part * ENTRIES..(part + 1) * ENTRIES)).collect();
    let parts: Vec<&[Key]> = parts.iter().map(Vec::as_slice).collect();
    let segments = must(Segments::write(directory.path(), &parts));
    let (mut sorted, strangers) = (parts[0].to_vec(), keys(1 << 40..(1 << 40) + ENTRIES));
    sorted.sort_unstable();
    group.throughput(Throughput::Elements(ENTRIES));
    for (name, keys) in [("hits in any order", parts[0]), ("hits in order", &sorted), ("misses", &strangers)] {
        group.bench_function(format!("interpolate: {name}"), |bench| bench.iter(|| must(segments.find(keys))));
    }
    group.bench_function("sort", |bench| bench.iter(|| settle(parts[0])));
    group.throughput(Throughput::Elements(4 * ENTRIES));
    group.bench_function("merge four", |bench| bench.iter(|| must(segments.merge())));
    group.finish();
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame");
    for entries in [1, 10_000] {
        group.throughput(Throughput::Elements(entries));
        let frame = BeginFrame::of(keys(0..entries));
        let bytes = frame.encode();
        group.bench_function(format!("encode {entries}"), |bench| bench.iter(|| black_box(frame.encode())));
        group.bench_function(format!("decode {entries}"), |bench| bench.iter(|| must(BeginFrame::decode(&bytes))));
    }
    group.finish();
}

criterion_group!(benches, segments, frames);
criterion_main!(benches);
