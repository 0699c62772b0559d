//! Maps of values of each room.

use std::path::{Path, PathBuf};

use dochistory_core::Result;
use dochistory_core::history::values::{NewValue, Room, ValueEdit};
use dochistory_core::history::{History, OpenOptions};

use super::super::{DAY, Ids, Maps, START, Triggers, open, reading};
use super::{Files, Stored, kind};

/// The name of the map of each room.
pub const MAP: &str = "channel";

impl Stored for Maps {
    const OF: &'static str = " of maps";

    fn ids() -> Vec<String> {
        Triggers::ids()
    }

    /// Plain and later files, what is removed and pending, and a log.
    fn build(root: &Path) {
        let (history, ids) = (open(root), Self::ids());
        for (room, value) in [(Room::Mapper, "external"), (Room::Delivery, "state")] {
            let values = history.values(room, MAP).unwrap();
            for round in 0..3usize {
                let change = |edit: &mut ValueEdit| {
                    for (row, id) in ids.iter().enumerate().skip(round * 10).take(30) {
                        let value = format!("{value} {round} {row}");
                        let (persist_until, pending) = (START + (row as i64 % 20) * DAY, row % 3 == 0);
                        let entry = NewValue { value: Some(value.as_bytes()), persist_until, pending };
                        edit.put(values.id(id.as_bytes()), entry)?;
                    }
                    edit.remove(values.id(ids[round * 10].as_bytes()))
                };
                values.write(change).unwrap();
                if round < 2 {
                    let snapshot = values.pin().unwrap();
                    values.unpin(&snapshot).unwrap();
                }
            }
        }
    }

    /// Those of the history itself are damaged with its triggers.
    fn directories(root: &Path) -> Vec<PathBuf> {
        ["mappers", "delivery"].map(|room| root.join(room)).into_iter().filter(|room| room.exists()).collect()
    }

    fn is_complete(files: &Files, _: &[String]) -> bool {
        files.keys().filter(|path| kind(path) == "values").count() >= 4
    }

    /// What the maps hold of all ids; an id that is not there begins with `None`.
    fn read(root: &Path, read_only: bool) -> Result<Vec<String>> {
        let history = History::open(root, &OpenOptions { read_only, ..OpenOptions::default() })?;
        let ids = Self::ids();
        let column = Ids::new(&ids);
        let documents = column.documents();
        let mut all = Vec::new();
        for room in Room::ALL {
            let values = history.values(room, MAP)?;
            let found = values.look(&values.ids(&documents.ids[0]))?;
            let entry = |row| format!("{:?} {} {}", found.value(row), found.persist_until(row), found.is_pending(row));
            all.extend((0..ids.len()).map(entry));
        }
        Ok(all)
    }

    fn verify(root: &Path) -> Result<()> {
        let history = History::open(root, &reading())?;
        for room in Room::ALL {
            for name in history.value_spaces(room)? {
                history.values(room, &name)?.verify(&mut |_, _| Ok(()))?;
            }
        }
        Ok(())
    }
}
