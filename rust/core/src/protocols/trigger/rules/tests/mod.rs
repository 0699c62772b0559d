mod batch;
mod columns;
mod duration;
mod model;
mod rows;
mod trigger;
mod verdicts;

use super::{InBatch, Kind, ProcessingMode, Settings, Trigger};

/// Settings that detect duplicates with the history; each test changes what it is about.
fn settings() -> Settings {
    Settings { detect_duplicates: true, use_history: true, ..Trigger::new("orders", Kind::Messaging).settings(false) }
}

/// Every combination of settings that the rules look at.
fn all_settings() -> Vec<Settings> {
    let mut all = Vec::new();
    for &kind in Kind::ALL {
        for &processing_mode in ProcessingMode::ALL {
            for in_batch in [None, Some(InBatch::Duplicate), Some(InBatch::InDoubt), Some(InBatch::New)] {
                for switches in 0..32 {
                    all.push(Settings {
                        kind,
                        processing_mode,
                        in_batch,
                        detect_duplicates: switches & 1 != 0,
                        use_history: switches & 2 != 0,
                        suspend: switches & 4 != 0,
                        resolver: switches & 8 != 0,
                        max_delivery_count: 3,
                        max_redelivery_count: (switches & 16 != 0).then_some(2),
                    });
                }
            }
        }
    }
    all
}
