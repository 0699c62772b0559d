use dochistory_core::columns::*;
use dochistory_core::engine::{Call, OnReplay};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::rules::*;
use std::time::Instant;
fn load(name: &str) -> (Vec<i32>, Vec<u8>) {
    let off = std::fs::read(format!("/tmp/pbatches/{name}.off")).unwrap();
    let val = std::fs::read(format!("/tmp/pbatches/{name}.val")).unwrap();
    (off.chunks_exact(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect(), val)
}
fn docs<'a>(b: &'a (Vec<i32>, Vec<u8>), rows: usize) -> Documents<'a> {
    Documents {
        rows,
        ids: vec![IdColumn::Utf8 { offsets: &b.0[..rows + 1], values: &b.1, validity: Validity::all() }],
        count: CountColumn::Absent,
        eligible: FlagColumn::Absent,
    }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (what, path, runs) = (args[1].as_str(), args[2].as_str(), args[3].parse::<usize>().unwrap());
    let threads: usize = args.get(4).map_or(1, |s| s.parse().unwrap());
    let now: i64 = args[5].parse().unwrap();
    let write = what == "begin";
    let h = History::open(path.as_ref(), &OpenOptions { read_only: !write, ..OpenOptions::default() }).unwrap();
    let trigger = Trigger {
        detect_duplicates: true,
        use_history: true,
        history_time_to_live_us: 86_400_000_000 * 30,
        ..Trigger::new("orders", Kind::Messaging)
    };
    let mut ts = vec![];
    for i in 0..runs {
        let name = match what {
            "begin" => format!("b{i}"),
            "hits" => "hits".into(),
            _ => "b0".into(),
        };
        let b = load(&name);
        let d = docs(&b, b.0.len() - 1);
        for _ in 0..if write { 1 } else { 5 } {
            let t = Instant::now();
            let mut call = Call { threads, ..Call::at(now) };
            if write {
                let begun = h.begin(&trigger, &d, &mut call, None, OnReplay::ByRules).unwrap();
                let c = begun.claim.unwrap();
                c.complete(None).unwrap();
                ts.push(t.elapsed().as_secs_f64() * 1e3);
                drop(c);
                drop(begun.verdicts);
            } else {
                let v = h.classify(&trigger, &d, &mut call).unwrap();
                ts.push(t.elapsed().as_secs_f64() * 1e3);
                drop(v);
            }
        }
    }
    println!("{:?}", ts.iter().map(|t| (t * 10.0).round() / 10.0).collect::<Vec<_>>());
    ts.sort_by(f64::total_cmp);
    println!("{what} threads {threads}: median {:.2} ms, min {:.2}", ts[ts.len() / 2], ts[0]);
}
