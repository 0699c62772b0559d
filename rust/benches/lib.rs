//! Nothing but benchmarks: `cargo bench --package dochistory-benches`.
