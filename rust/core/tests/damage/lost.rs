//! What a store says whose identity, triggers or names are gone.

use std::path::PathBuf;

use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Call, OnReplay};

use crate::harness::closed::triggers::named;
use crate::harness::closed::{Store, Stored};
use crate::harness::{Ids, START, Triggers};

#[test]
fn lost_identity_is_not_created_again() {
    let store = Store::<Triggers>::new();
    std::fs::remove_file(store.root.join("HISTORY")).unwrap();
    for (create, read_only) in [(true, false), (false, false), (false, true)] {
        let opened = History::open(&store.root, &OpenOptions { create, read_only, ..OpenOptions::default() });
        assert!(opened.unwrap_err().to_string().contains("restores it"));
    }
}

#[test]
fn trigger_without_any_files_is_damaged_not_unused() {
    for with_directory in [true, false] {
        let store = Store::<Triggers>::new();
        let is_of_orders = |path: &&PathBuf| path.parent().unwrap().to_string_lossy().contains("triggers/orders-");
        let gone: Vec<_> = store.files.keys().filter(is_of_orders).cloned().collect();
        for path in &gone {
            std::fs::remove_file(path).unwrap();
        }
        if !with_directory {
            std::fs::remove_dir(gone[0].parent().unwrap()).unwrap();
        }
        for read_only in [true, false] {
            assert!(store.notices("all files of a trigger are gone", read_only));
        }
        let history = History::open(&store.root, &OpenOptions::default()).unwrap();
        let ids = Ids::new(&Triggers::ids());
        let begun = history.begin(&named("orders"), &ids.documents(), &mut Call::at(START), None, OnReplay::ByRules);
        let text = begun.unwrap_err().to_string();
        assert!(text.contains("known/triggers-orders-") && text.contains("dochistory repair"), "{text}");
        assert!(history.triggers().is_err() && history.verify("orders", &mut |_, _| Ok(())).is_err());
        // The other one goes on, and so does a store of a build that named nothing.
        history.verify("invoices", &mut |_, _| Ok(())).unwrap();
        std::fs::remove_dir_all(store.root.join("known")).unwrap();
        assert_eq!(history.triggers().unwrap(), ["invoices"]);
    }
}

#[test]
fn store_without_registered_names_gets_them_at_the_next_change() {
    let store = Store::<Triggers>::new();
    std::fs::remove_dir_all(store.root.join("known")).unwrap();
    assert!(!store.notices("no names", true));
    let history = History::open(&store.root, &OpenOptions::default()).unwrap();
    history.complete_keys(&named("orders"), &Ids::new(&["urn:any"]).documents(), START).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(store.root.join("known")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 1);
    assert_eq!(std::fs::read_to_string(&names[0]).unwrap(), "orders");
}
