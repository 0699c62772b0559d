//! Fuzzing without a fuzzer: the kept corpora, and mutations of them that follow from a seed, are
//! put through the targets that `cargo fuzz` drives (rust/fuzz). So it happens on every machine,
//! whatever is installed there.
//!
//! `DOCHISTORY_FUZZ_RUNS` says how many mutations a target gets, `DOCHISTORY_FUZZ_SEED` where they
//! start from, and `DOCHISTORY_FUZZ_WRITE=1` writes the seeds of the corpora again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;

use dochistory_core::testing::fuzzing::{TARGETS, Target, seeds};

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

/// The seeds of a target, and what was kept of it besides, in the order of the files' names.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(corpus(target)).into_iter().flatten();
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    seeds(target).into_iter().chain(names.iter().map(|name| std::fs::read(name).unwrap())).collect()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A splitmix64 sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }

    /// Change an input in one to eight places, mostly near its start, where the fields are.
    fn mutate(&mut self, mut bytes: Vec<u8>, others: &[Vec<u8>]) -> Vec<u8> {
        const TELLING: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 1 << 31, 1 << 63, u64::MAX];
        for _ in 0..=self.below(8) {
            let range = if self.below(2) == 0 { bytes.len() } else { bytes.len().min(320) };
            let at = self.below(range);
            match self.below(7) {
                0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                3 => {
                    let value = TELLING[self.below(TELLING.len())].to_le_bytes();
                    let width = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at.min(bytes.len()));
                    bytes[at..at + width].copy_from_slice(&value[..width]);
                }
                4 => bytes.truncate(at),
                5 => {
                    let more: Vec<u8> = (0..self.below(24)).map(|_| self.below(256) as u8).collect();
                    bytes.splice(at..at, more);
                }
                _ => {
                    let other = &others[self.below(others.len())];
                    let from = self.below(other.len());
                    let length = self.below(64).min(other.len() - from);
                    let end = (at + length).min(bytes.len());
                    bytes.splice(at.min(end)..end, other[from..from + length].iter().copied());
                }
            }
        }
        bytes
    }
}

/// Put one input through; a panic is a failure that tells the input.
fn put((name, target): Target, input: &[u8]) {
    if std::panic::catch_unwind(|| target(input)).is_err() {
        let at = std::env::temp_dir().join(format!("dochistory-fuzz-{name}"));
        std::fs::write(&at, input).unwrap();
        panic!("target {name} failed; its input is in {}", at.display());
    }
}

#[test]
fn every_kept_input_gives_an_answer_or_an_error() {
    if std::env::var("DOCHISTORY_FUZZ_WRITE").is_ok() {
        for (name, _) in TARGETS {
            std::fs::create_dir_all(corpus(name)).unwrap();
            for (number, seed) in seeds(name).iter().enumerate() {
                std::fs::write(corpus(name).join(format!("seed-{number:02}")), seed).unwrap();
            }
        }
    }
    for target in TARGETS {
        let kept = kept(target.0);
        assert!(!kept.is_empty(), "there is nothing to put through {}", target.0);
        for input in &kept {
            put(target, input);
        }
    }
}

#[test]
fn every_mutated_input_gives_an_answer_or_an_error() {
    let (runs, seed) = (setting("DOCHISTORY_FUZZ_RUNS", 20_000), setting("DOCHISTORY_FUZZ_SEED", 1));
    for target in TARGETS {
        let corpus = kept(target.0);
        let mut random = Random(seed);
        for _ in 0..runs {
            let start = corpus[random.below(corpus.len())].clone();
            let input = random.mutate(start, &corpus);
            put(target, &input);
        }
        eprintln!("{}: {runs} mutations of {} inputs", target.0, corpus.len());
    }
    eprintln!("figure: fuzz runs = {}", runs * TARGETS.len() as u64);
}
