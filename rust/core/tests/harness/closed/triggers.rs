//! Histories of two triggers.

use std::path::{Path, PathBuf};

use dochistory_core::Result;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::rules::Trigger;
use dochistory_core::protocols::trigger::{Call, OnReplay};

use super::super::{DAY, Ids, START, Triggers, begin, open, reading, seal, trigger, uuids};
use super::{Files, Stored, kind};

pub const TRIGGERS: [&str; 2] = ["orders", "invoices"];

pub fn named(name: &str) -> Trigger {
    Trigger { name: name.into(), ..trigger() }
}

impl Stored for Triggers {
    const OF: &'static str = "";

    fn ids() -> Vec<String> {
        let texts = (0..30).map(|number| format!("urn:text:{number}"));
        uuids(0..60).into_iter().chain(texts).collect()
    }

    /// Segments, a global filter, outcomes, a transaction, and a log, for each trigger.
    fn build(root: &Path) {
        let history = open(root);
        let ids = Self::ids();
        for (shift, name) in TRIGGERS.into_iter().enumerate() {
            let trigger = named(name);
            for day in 0..3 {
                let first = day as usize * 15 + shift;
                let claim = begin(&history, &trigger, &ids[first..first + 12], START + day * DAY).claim.unwrap();
                begin(&history, &trigger, &ids[60 + first / 2..64 + first / 2], START + day * DAY);
                claim.complete(Some(&[0, 1, 2])).unwrap();
                seal(&history, name);
                if day == 1 {
                    claim.complete(None).unwrap();
                    history.maintain(name, true, &mut |_, _| Ok(())).unwrap();
                }
            }
            let transaction = dochistory_core::Transaction { application: "stream".into(), batch: 4 };
            let rows = Ids::new(&ids[48 + shift..54 + shift]);
            let mut call = Call::at(START + 3 * DAY);
            let begun =
                history.begin(&trigger, &rows.documents(), &mut call, Some(&transaction), OnReplay::ByRules).unwrap();
            begun.claim.unwrap().complete(Some(&[0, 1])).unwrap();
        }
    }

    fn directories(root: &Path) -> Vec<PathBuf> {
        vec![root.to_owned()]
    }

    fn is_complete(files: &Files, good: &[String]) -> bool {
        let has_all_rules = ["R8", "R9", "R11"].iter().all(|rule| good.iter().any(|one| one == rule));
        has_all_rules && files.keys().all(|path| kind(path) != "new")
    }

    /// The verdicts of all triggers.
    fn read(root: &Path, read_only: bool) -> Result<Vec<String>> {
        let history = History::open(root, &OpenOptions { read_only, ..OpenOptions::default() })?;
        let ids = Ids::new(&Self::ids());
        let mut rules = Vec::new();
        for name in TRIGGERS {
            let verdicts = history.classify(&named(name), &ids.documents(), &mut Call::at(START + 3 * DAY))?;
            assert_eq!(verdicts.unavailable, None, "damage is not a storage that does not answer");
            rules.extend(verdicts.outcomes.iter().map(|outcome| outcome.rule().to_owned()));
        }
        Ok(rules)
    }

    fn verify(root: &Path) -> Result<()> {
        let history = History::open(root, &reading())?;
        TRIGGERS.iter().try_for_each(|name| history.verify(name, &mut |_, _| Ok(())).map(drop))
    }
}
