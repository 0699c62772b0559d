//! Keys of the claim that began last end without a look-up, unless others may have begun them too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use dochistory_core::columns::{FlagColumn, Validity};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::testing::lower_limits;
use harness::forwarding::{Changes, Forwarding};
use harness::{Ids, START, begin, fresh, rules, trigger, uuids};

fn looked_up(history: &History) -> u64 {
    history.statistics("orders").unwrap().looked_up
}

#[test]
fn log_put_into_segments_meanwhile_needs_no_look_up() {
    lower_limits();
    let (_directory, history) = fresh();
    let (filling, ids) = (uuids(0..14), uuids(14..20));
    begin(&history, &trigger(), &filling, START);
    // The log names keys by their places from the first such call on, and is full then.
    history.complete_keys(&trigger(), &Ids::new(&filling).documents(), START).unwrap();
    begin(&history, &trigger(), &ids, START);
    let segments = history.statistics("orders").unwrap().segments;
    history.seal("orders").unwrap();
    assert!(history.statistics("orders").unwrap().segments > segments, "the log before was put into segments");
    let before = looked_up(&history);
    history.complete_keys(&trigger(), &Ids::new(&ids).documents(), START).unwrap();
    assert_eq!(looked_up(&history) - before, 0);
    assert_eq!(rules(&history, &trigger(), &ids, START), ["R9"; 6]);
}

type Step = Box<dyn FnOnce() + Send>;

/// The machine's file system. Before the first file of a load is made, others take a step.
#[derive(Clone)]
struct Loading(Arc<Mutex<Option<Step>>>);

impl fmt::Debug for Loading {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("Loading")
    }
}

impl Changes for Loading {
    fn before_create(&self, path: &Path) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-")) {
            let step = self.0.lock().unwrap().take();
            if let Some(step) = step {
                step();
            }
        }
    }
}

#[test]
fn keys_loaded_under_a_number_reserved_before_are_looked_up() {
    lower_limits();
    let (directory, history) = fresh();
    let (ids, sooner) = (uuids(0..4), uuids(4..8));
    begin(&history, &trigger(), &sooner, START);
    history.complete_keys(&trigger(), &Ids::new(&sooner).documents(), START).unwrap();
    let history = Arc::new(history);
    let (beginning, begun) = (history.clone(), ids.clone());
    let system = Loading(Arc::new(Mutex::new(Some(Box::new(move || {
        assert!(begin(&beginning, &trigger(), &begun, START).claim.is_some());
    })))));
    let loader = Arc::new(Forwarding(system.clone()));
    let loader = History::open_on(loader, directory.path(), &OpenOptions::default()).unwrap();
    let mut load = loader.load(&trigger()).unwrap();
    let completed = FlagColumn::Bits { bits: &[0], offset: 0, validity: Validity::all() };
    load.push(&Ids::new(&ids).documents(), &[START; 4], i64::MAX, completed).unwrap();
    load.finish().unwrap();
    assert!(system.0.lock().unwrap().is_none(), "the batch began while the load wrote");
    let before = looked_up(&history);
    history.release_keys(&trigger(), &Ids::new(&ids).documents(), START).unwrap();
    assert_eq!(looked_up(&history) - before, 4);
    assert_eq!(rules(&history, &trigger(), &ids, START), ["R8"; 4]);
}
