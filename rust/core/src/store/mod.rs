//! One trigger's part of a history: its log, segments and manifests, read without a lock and
//! written under the writer lock.

pub(crate) mod alone;
pub(crate) mod batch;
mod bulk_load;
mod compaction;
mod entries;
pub(crate) mod environment;
pub(crate) mod files;
mod finish;
mod frozen;
mod frozen_files;
mod gc;
mod group_commit;
#[cfg(test)]
mod group_commit_tests;
mod group_write;
mod held;
mod inspect;
pub(crate) mod limits;
mod lock;
mod lookup;
mod mirror;
mod pin;
mod publish;
mod publish_beside;
mod purge;
mod recycled;
pub(crate) mod registry;
mod released;
pub(crate) mod repair;
mod seal_pace;
mod settings;
pub(crate) mod staged;
mod sync;
mod union;
pub(crate) mod values;
pub(crate) mod view;
mod waiter;
mod wake_throttle;
#[cfg(test)]
mod wake_throttle_tests;
mod writer;
pub(crate) mod writer_lock;
mod young;
mod young_renewal;
#[cfg(all(test, feature = "small"))]
mod young_tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLockReadGuard};
use std::time::Duration;

pub(crate) use bulk_load::{Fingerprint, LoadedPart};
pub use compaction::{Maintained, Progress};
pub(crate) use entries::{EntryCursor, ListedEntry};
use environment::Environment;
pub(crate) use finish::ClaimedKeys;
pub use finish::Finished;
use group_commit::GroupCommit;
use held::Files;
pub use inspect::{PartitionStatistics, SpaceStatistics};
pub use lookup::InProgress;
pub(crate) use lookup::LookedUp;
use mirror::Mirror;
pub(crate) use mirror::{Ahead, Seen};
pub use pin::Pin;
pub use purge::{Purge, Purged};
use recycled::Recycled;
use seal_pace::SealProgress;
pub(crate) use settings::SpaceSettings;
use sync::GroupSync;
pub(crate) use view::View;
pub(crate) use writer::{Beginning, Writer};

use crate::wal::Log;
use crate::{Error, Result};

/// A trigger's key space, as this process has it open.
#[derive(Debug)]
pub(crate) struct KeySpace {
    env: Environment,
    directory: PathBuf,
    name: String,
    files: Arc<Files>,
    sync: GroupSync,
    group_commit: GroupCommit,
    /// Whether this handle reads one snapshot only.
    is_pinned: bool,
    /// The longest time between `begin` and the end of its claim that this handle saw, in
    /// microseconds; 0 before the first.
    longest_run_us: AtomicU64,
    /// Whether the directory above is created with its first space.
    makes_room: bool,
    asked: Asked,
    /// The last claim that this handle began of keys that nobody had begun; 0 for none.
    fresh: AtomicU64,
    /// Set once the space is in the registry.
    known: OnceLock<()>,
    /// Where its durable truth is, if not in its directory.
    mirror: Option<Arc<Mirror>>,
    /// The file of a log that is over.
    recycled: Recycled,
    /// How much of the frozen log is in segments.
    sealed: SealProgress,
    /// Whether maintenance of this handle is building a global filter.
    is_covering: AtomicBool,
    /// Held while the young filter is built again.
    renewing: Mutex<()>,
}

/// The counters of this handle since it was opened.
#[derive(Debug, Default)]
struct Asked {
    rows: AtomicU64,
    /// Rows when all segments had joined the young filter last.
    rows_at_join: AtomicU64,
    /// Rows when the union filter was there last, or was built.
    rows_at_union: AtomicU64,
    filter_positives: AtomicU64,
}

impl Asked {
    fn counted(&self, found: LookedUp) -> LookedUp {
        self.rows.fetch_add(found.states.len() as u64, Ordering::Relaxed);
        self.filter_positives.fetch_add(found.filter_positives, Ordering::Relaxed);
        found
    }
}

impl KeySpace {
    pub(crate) fn new(env: Environment, directory: PathBuf, name: &str) -> Self {
        let (files, sync, group_commit) = (Arc::default(), GroupSync::default(), GroupCommit::default());
        let (longest_run_us, asked) = (AtomicU64::new(0), Asked::default());
        let (is_pinned, makes_room, known) = (false, false, OnceLock::new());
        let mirror = Mirror::of(&env, &directory).map(Arc::new);
        let name = name.to_owned();
        Self {
            env,
            directory,
            name,
            files,
            sync,
            group_commit,
            is_pinned,
            longest_run_us,
            makes_room,
            asked,
            fresh: AtomicU64::new(0),
            known,
            mirror,
            recycled: Recycled::default(),
            sealed: SealProgress::default(),
            is_covering: AtomicBool::new(false),
            renewing: Mutex::default(),
        }
    }

    /// Note the time that a service took.
    pub(crate) fn note_run(&self, took: Duration) {
        self.longest_run_us.fetch_max(took.as_micros().max(1) as u64, Ordering::Relaxed);
    }

    /// A space in a room, whose directory is created with its first space.
    pub(crate) fn new_in_room(env: Environment, directory: PathBuf, name: &str) -> Self {
        let mut space = Self::new(env, directory, name);
        space.makes_room = true;
        space
    }

    /// Create the directory above, durably, if this space has to.
    fn make_room(&self) -> Result<()> {
        let Some(room) = self.directory.parent().filter(|_| self.makes_room) else { return Ok(()) };
        self.env.system.make_directory(room)?;
        let history = room.parent().unwrap_or(room);
        self.env.system.sync_names(history)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether anything was ever written here.
    pub(crate) fn exists(&self) -> Result<bool> {
        self.read(|view| Ok(view.is_some()))
    }

    /// Read the present state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(Option<&View>) -> Result<T>) -> Result<T> {
        let _in_use = self.files.enter();
        self.catch_up()?;
        self.read_present(look)
    }

    /// [`KeySpace::read`], where it has just been seen to that a replica is the newest state.
    fn read_present<T>(&self, look: impl FnOnce(Option<&View>) -> Result<T>) -> Result<T> {
        loop {
            let is_there = self.refresh()?;
            let view = self.present();
            // Another thread, which found a newer view and failed to read it or to sync its name.
            if is_there && view.as_ref().is_none_or(|view| view.is_spent) {
                continue;
            }
            // Others may have begun to change the replica since.
            if self.mirror.as_deref().is_none_or(|mirror| self.is_pinned || mirror.is_ready()) {
                return look(view.as_ref());
            }
            drop(view);
            self.catch_up()?;
        }
    }

    /// Look at the state that this handle knows, which may not be the newest one; none if it knows
    /// none.
    pub(crate) fn glance<T>(&self, look: impl FnOnce(&View) -> Result<T>) -> Result<Option<T>> {
        let _in_use = self.files.enter();
        self.present().as_ref().map(look).transpose()
    }

    fn present(&self) -> RwLockReadGuard<'_, Option<View>> {
        self.files.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refresh the view: read what other processes wrote since. Answers whether there is one.
    fn refresh(&self) -> Result<bool> {
        if self.is_pinned {
            return Ok(self.present().is_some());
        }
        if self.mirror.is_some() {
            return self.reopen().map(|()| self.present().is_some());
        }
        if let Some(view) = self.present().as_ref()
            && view.is_current(&self.env)?
        {
            return Ok(true);
        }
        self.change(|slot| {
            let known = slot.as_ref().map(|view| view.manifest.number);
            match slot {
                Some(view) if !view.is_spent => view.advance(&self.env)?,
                _ => *slot = View::load(&self.env, &self.directory, None)?,
            }
            let now = slot.as_ref().map(|view| view.manifest.number);
            if now.is_none() {
                self.env.check_new(&self.directory)?;
            } else if now != known {
                // The process that published this may have died before its name was durable, and
                // nothing may rest on the name until then.
                let synced = self.env.system.sync_directory(&self.directory);
                synced.map_err(Error::io("sync", &self.directory)).inspect_err(|_| *slot = None)?;
            }
            if let Some(view) = slot {
                self.check_name(view)?;
                self.sync.learn(view.log.id, view.proven());
            }
            Ok(slot.is_some())
        })
    }

    /// Nobody else changes a replica, but its log may have been closed while it was idle.
    fn reopen(&self) -> Result<()> {
        if !self.present().as_ref().is_some_and(|view| view.log.is_closed) {
            return Ok(());
        }
        self.change(|slot| match slot {
            Some(view) if !view.is_spent => view.advance(&self.env),
            Some(_) => {
                *slot = View::load(&self.env, &self.directory, None)?;
                Ok(())
            }
            None => Ok(()),
        })
    }

    /// Whether its durable truth is in an object store.
    pub(crate) fn is_in_bucket(&self) -> bool {
        self.mirror.is_some()
    }

    /// Delete the objects that no state needs and that are older than `grace`.
    pub(crate) fn collect_objects(&self, grace: Duration) -> Result<u64> {
        self.mirror.as_deref().map_or(Ok(0), |mirror| mirror.collect(grace))
    }

    fn check_name(&self, view: &View) -> Result<()> {
        if view.manifest.name == self.name {
            return Ok(());
        }
        Err(Error::corrupt(&self.directory, 0, format!("this is the history of trigger {:?}", view.manifest.name)))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Option<View>) -> Result<T>) -> Result<T> {
        change(&mut self.files.view.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Look up `rows` in the present state. An answer that rests on frames of the log is returned
    /// only once they are durable.
    pub(crate) fn look(
        &self,
        settings: SpaceSettings,
        rows: usize,
        look: impl FnMut(Option<&View>) -> Result<LookedUp>,
    ) -> Result<LookedUp> {
        self.look_in(Seen::Unknown, settings, rows, look)
    }

    /// [`KeySpace::look`], which may rest on what was seen to before.
    pub(crate) fn look_in(
        &self,
        seen: Seen,
        settings: SpaceSettings,
        rows: usize,
        mut look: impl FnMut(Option<&View>) -> Result<LookedUp>,
    ) -> Result<LookedUp> {
        let mut counted = |view: Option<&View>| {
            settings.check(view)?;
            let found = self.asked.counted(look(view)?);
            let rests_on_log = found.rests_on_log;
            Ok((found, rests_on_log))
        };
        self.prepared(rows, || self.look_durably_in(seen, &mut counted))
    }

    /// [`KeySpace::look`] for any answer, which tells whether it rests on the log.
    pub(crate) fn look_durably<T>(&self, look: impl FnMut(Option<&View>) -> Result<(T, bool)>) -> Result<T> {
        self.look_durably_in(Seen::Unknown, look)
    }

    fn look_durably_in<T>(
        &self,
        mut seen: Seen,
        mut look: impl FnMut(Option<&View>) -> Result<(T, bool)>,
    ) -> Result<T> {
        let _in_use = self.files.enter();
        loop {
            let generation = self.mirror.as_deref().map_or(0, Mirror::generation);
            let look = |view: Option<&View>| {
                let (found, rests_on_log) = look(view)?;
                // A pinned state was durable before it was pinned.
                let rests_on = view.filter(|_| rests_on_log && !self.is_pinned);
                let is_doubtful = rests_on.is_some_and(|view| view.is_doubtful(&self.env));
                Ok((found, rests_on.map(|view| (view.log.clone(), view.memtable.position)), is_doubtful))
            };
            let (found, log, is_doubtful) = match std::mem::take(&mut seen) {
                Seen::Unknown => self.read_meanwhile(look)?,
                Seen::Newest => self.read_present(look)?,
            };
            let Some((log, position)) = log else { return Ok(found) };
            if let Some(mirror) = &self.mirror {
                match self.reach_commit(mirror, log.id, position, generation) {
                    Err(Error::Refused) => continue,
                    reached => return reached.map(|()| found),
                }
            }
            if !is_doubtful || self.env.read_only {
                if is_doubtful && writer_lock::has_failed(&*self.env.system, &self.directory, log.id) {
                    let reason = "its last sync failed, and no writer has mended it yet";
                    return Err(Error::io("rely on", &log.file.path)(std::io::Error::other(reason)));
                }
                self.reach(&log, position, false)?;
                return Ok(found);
            }
            // Taking the lock puts doubtful frames into segments.
            self.write(SpaceSettings::STORED, |_| Ok(()))?;
        }
    }

    /// Make the log durable up to `end`, in one sync with other waiting threads and processes. Of a
    /// frame that we wrote under a lock released just now (`is_new`), no other process can have
    /// synced anything yet.
    fn reach(&self, log: &Log, end: u64, is_new: bool) -> Result<()> {
        self.sync.reach(log, end, |wanted, has_waited| self.sync_for_all(log, wanted, is_new && !has_waited))
    }

    /// Make the log durable up to `wanted` at least; answers how far. Frames that another process
    /// synced are not synced again, and our sync covers all frames that we know of. (Simultaneous
    /// syncs of several processes use the same disk flush in the system.)
    fn sync_for_all(&self, log: &Log, wanted: u64, is_new: bool) -> Result<u64> {
        let lock = self.files.writer_lock();
        let known = self.sync.durable(log.id);
        // Reading the record costs as much as any system call; skipping it costs at most one sync.
        let is_shown = !is_new || known < log.inherited;
        let shown = lock.as_ref().filter(|_| is_shown).map_or(0, |lock| lock.watermark(log.id));
        if shown >= wanted {
            return Ok(shown);
        }
        // Our sync proves nothing about frames that were in the log when we opened it.
        let is_ours_to_say = shown.max(known) >= log.inherited;
        let target = if is_ours_to_say { wanted.max(self.whole_frames(log)) } else { wanted };
        let synced = log.file.sync();
        let Some(lock) = lock else { return synced.map(|()| target) };
        // If recording the failure fails too, writers still detect it themselves.
        synced.inspect_err(|_| drop(lock.set_failed(log.id)))?;
        lock.set_watermark(log.id, target)?;
        Ok(target)
    }

    /// How far we have read whole frames of a log.
    fn whole_frames(&self, log: &Log) -> u64 {
        self.present().as_ref().filter(|view| view.log.id == log.id).map_or(0, |view| view.memtable.position)
    }
}

impl LookedUp {
    /// The answer of an empty history.
    pub(crate) fn none(rows: usize) -> Self {
        Self { states: vec![crate::types::HistoryState::Absent; rows], ..Self::default() }
    }
}
