//! What each part of the columnar path costs, a row, on one core.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dochistory_core::Result;
use dochistory_core::columns::{IdColumn, Validity};
use dochistory_core::filter::{self, Pages};
use dochistory_core::key::copies;
use dochistory_core::key::{Codec, Form, Key, format_uuid, identify, parse_uuid};
use std::hint::black_box;

/// Rows that one call takes, as the columnar path does it.
const CHUNK: usize = 4096;

fn codec() -> Codec {
    Codec::new(&[9; 32])
}

/// Distinct keys, in no order.
fn keys(range: std::ops::Range<u64>) -> Vec<Key> {
    let codec = codec();
    range.map(|number| codec.mix(u128::from(number).to_be_bytes())).collect()
}

/// A utf8 column of random-looking UUIDs.
fn uuid_text(rows: usize) -> (Vec<i32>, Vec<u8>) {
    let text = keys(0..rows as u64).into_iter().flat_map(|key| format_uuid(key.to_bytes())).collect();
    ((0..=rows as i32).map(|row| row * 36).collect(), text)
}

fn single(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one");
    group.throughput(Throughput::Elements(CHUNK as u64));
    let (codec, (_, text), some) = (codec(), uuid_text(CHUNK), keys(0..CHUNK as u64));
    group.bench_function("parse_uuid", |bench| {
        bench.iter(|| text.chunks_exact(36).filter_map(parse_uuid).fold(0, |sum, uuid| sum ^ uuid[0]));
    });
    group.bench_function("mix", |bench| {
        bench.iter(|| some.iter().map(|key| codec.mix(key.to_bytes())).fold(0, |sum, key| sum ^ key.hi ^ key.lo));
    });
    group.bench_function("hash_text", |bench| {
        bench.iter(|| text.chunks_exact(36).map(|text| codec.hash_text(text)).fold(0, |sum, key| sum ^ key.hi));
    });
    group.finish();
}

fn identify_rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("identify");
    let rows = 1_000_000;
    group.throughput(Throughput::Elements(rows as u64));
    let (codec, (offsets, text)) = (codec(), uuid_text(rows));
    let upper = text.to_ascii_uppercase();
    let bits = vec![0xff; rows.div_ceil(8)];
    let column = |values, validity| [IdColumn::Utf8 { offsets: &offsets, values, validity }];
    let uuids: Vec<u8> = keys(0..rows as u64).into_iter().flat_map(Key::to_bytes).collect();
    let cases = [
        ("uuid text", column(&text, Validity::all())),
        ("uuid text with a null bitmap", column(&text, Validity::new(&bits, 0))),
        ("other text", column(&upper, Validity::all())),
        ("16 byte uuid", [IdColumn::Uuid { values: &uuids, validity: Validity::all() }]),
    ];
    let mut chunk = (vec![Key::default(); CHUNK], vec![Form::Absent; CHUNK], vec![0; CHUNK]);
    for (name, ids) in cases {
        group.bench_function(name, |bench| {
            bench.iter(|| {
                for start in (0..rows).step_by(CHUNK) {
                    let range = start..(start + CHUNK).min(rows);
                    let length = range.len();
                    let (keys, forms, sources) = &mut chunk;
                    identify(&codec, &ids, range, &mut keys[..length], &mut forms[..length], &mut sources[..length]);
                    black_box((keys, forms, sources));
                }
            });
        });
    }
    group.finish();
}

/// One bit a page, all set.
struct Verified(Vec<u64>);

impl Pages for Verified {
    #[inline]
    fn is_verified(&self, page: u64) -> bool {
        self.0[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    fn are_verified(&self) -> bool {
        true
    }

    fn verify(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

fn probe(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("probe");
    let rows = 1_000_000;
    group.throughput(Throughput::Elements(rows as u64));
    let strangers = keys(1 << 40..(1 << 40) + rows as u64);
    let forms = vec![Form::Uuid; CHUNK];
    for (name, inserted) in [("15 MB", 10_000_000), ("150 MB", 100_000_000_u64)] {
        let mut data = vec![0; filter::blocks_for(inserted, 12) as usize * filter::BLOCK_BYTES];
        let codec = codec();
        (0..inserted).for_each(|number| filter::insert(&mut data, codec.mix(u128::from(number).to_be_bytes())));
        let pages = Verified(vec![u64::MAX; data.len() / (64 * 4096) + 1]);
        let mut survivors = Vec::new();
        group.bench_function(name, |bench| {
            bench.iter(|| {
                survivors.clear();
                for chunk in strangers.chunks(CHUNK) {
                    let forms = &forms[..chunk.len()];
                    let probed = filter::probe(&data, chunk, forms, 0, &pages, &mut survivors);
                    assert!(probed.is_ok());
                }
                black_box(survivors.len())
            });
        });
    }
    group.finish();
}

fn copies_in_a_batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copies");
    for rows in [1000, 100_000, 1_000_000] {
        group.throughput(Throughput::Elements(rows));
        let keys = keys(0..rows);
        let forms = vec![Form::Uuid; rows as usize];
        group.bench_function(format!("{rows} rows"), |bench| {
            bench.iter(|| copies(&keys, &forms, &|_, _| true).len());
        });
    }
    group.finish();
}

criterion_group!(benches, single, identify_rows, probe, copies_in_a_batch);
criterion_main!(benches);
