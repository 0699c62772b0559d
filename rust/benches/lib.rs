//! Nothing but benchmarks: `cargo bench --manifest-path rust/benches/Cargo.toml`.
