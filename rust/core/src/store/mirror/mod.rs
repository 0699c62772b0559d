//! A key space whose durable truth is a chain of commits in an object store.
//!
//! Its directory is a replica that belongs to one handle: the same log, segments and manifests,
//! byte for byte. An operation decides and appends as in a directory. What it appended is durable
//! once a commit holds it; threads that wait share a commit. If another handle's commit was first,
//! everything that was appended since is undone, the newer commits are applied, and each operation
//! decides again.

mod commit;
mod settle;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::environment::Environment;
use crate::format::names::REGISTRY;
use crate::objects::chain::{Chain, pause_of};
use crate::objects::change::Stored;
use crate::objects::commit::Commit;
use crate::objects::names::Names;
use crate::{Error, Result};

/// Commits behind a base from which the log is sealed: a new reader fetches each of them.
const MOST_COMMITS: u64 = if cfg!(feature = "small") { 6 } else { 128 };

/// How many ended generations are remembered, for threads that still wait.
const REMEMBERED: usize = 1024;

/// What a handle knows of the chain, and how far its replica follows.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// Held while a commit is on its way: threads that wait for it share the next one.
    known: Mutex<Known>,
    /// How often appended frames had to be undone.
    generation: AtomicU64,
    /// Whether the view is one of the chain's states, and what was appended since.
    is_ready: AtomicBool,
    /// The thread whose operation holds the writer lock.
    writer: Mutex<Option<ThreadId>>,
    /// Commits since the base.
    behind: AtomicU64,
    /// The object that says that this space was used.
    registry: String,
}

#[derive(Debug)]
struct Known {
    chain: Chain,
    /// Whether the replica holds what the commits up to `chain`'s head, without `newer`, make up.
    is_loaded: bool,
    /// Whether frames behind `committed` have to be undone.
    is_broken: bool,
    /// Commits that were read and are not applied yet.
    newer: Vec<Commit>,
    committed: Committed,
    /// The objects of the replica's files, by name.
    files: BTreeMap<String, Stored>,
    /// Where earlier generations ended.
    ended: BTreeMap<u64, Committed>,
}

/// Up to where the log is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Committed {
    log: u64,
    position: u64,
}

impl Committed {
    /// Whether a frame that ends here is committed: in this log, or by a manifest that ended it.
    fn covers(self, log: u64, end: u64) -> bool {
        self.log > log || self.log == log && self.position >= end
    }
}

/// Notes that a thread's operation holds the writer lock, until it is dropped.
#[derive(Debug)]
pub(super) struct AtWork<'a>(&'a Mirror);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        *self.0.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Mirror {
    /// The mirror of the space in `directory`, if the history is in an object store.
    pub(super) fn of(env: &Environment, directory: &std::path::Path) -> Option<Self> {
        let store = env.objects.clone()?;
        let part = |path: Option<&std::path::Path>| {
            path.and_then(std::path::Path::file_name)
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        let (room, own) = (part(directory.parent()), part(Some(directory)));
        let names = Names::new(&format!("{room}/{own}/"));
        let registry = format!("{REGISTRY}/{room}-{own}");
        let known = Known {
            chain: Chain::new(store, names, env.history),
            is_loaded: false,
            is_broken: false,
            newer: Vec::new(),
            committed: Committed::default(),
            files: BTreeMap::new(),
            ended: BTreeMap::new(),
        };
        let (generation, is_ready) = (AtomicU64::new(0), AtomicBool::new(false));
        let (writer, behind) = (Mutex::new(None), AtomicU64::new(0));
        Some(Self { known: Mutex::new(known), generation, is_ready, writer, behind, registry })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the view may be read.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Register the space, which has a commit.
    pub(super) fn make_known(&self, name: &str) -> Result<()> {
        let known = self.lock();
        if !known.chain.has(&self.registry)? {
            known.chain.put_new(&self.registry, name.as_bytes())?;
        }
        Ok(())
    }

    /// The state of the chain, from its base on. A space that was used and has no commit must not
    /// pass for one that was never used.
    fn find(&self, known: &mut Known) -> Result<Vec<Commit>> {
        let commits = known.chain.find()?;
        if !commits.is_empty() || !known.chain.has(&self.registry)? {
            return Ok(commits);
        }
        // Its first commit may just have come.
        let commits = known.chain.find()?;
        if commits.is_empty() {
            let reason = "it says that this trigger was used, but none of its commits is in the bucket: were they \
                          deleted by hand, or by a lifecycle rule? nothing was changed; restore them from a copy";
            return Err(Error::Objects { operation: "rely on", name: self.registry.clone(), reason: reason.into() });
        }
        Ok(commits)
    }

    /// Whether a new reader would have to fetch too many commits: the log is then sealed.
    pub(super) fn is_long(&self) -> bool {
        self.behind.load(Ordering::Relaxed) >= MOST_COMMITS
    }

    fn note_length(&self, known: &Known) {
        let head = known.chain.head();
        self.behind.store(head.number - head.base, Ordering::Relaxed);
    }

    /// The calling thread holds the writer lock.
    pub(super) fn at_work(&self) -> AtWork<'_> {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
        AtWork(self)
    }

    fn is_own_work(&self) -> bool {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) == Some(std::thread::current().id())
    }

    /// What was appended since the last commit has to be undone.
    fn break_off(&self, known: &mut Known) {
        known.is_broken = true;
        known.ended.insert(self.generation(), known.committed);
        while known.ended.len() > REMEMBERED {
            known.ended.pop_first();
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Wait before an operation decides again, so that others make progress.
    pub(super) fn back_off(&self, round: u32) {
        let store = self.lock().chain.store();
        store.pause(pause_of(round));
    }

    /// Collect what no state needs, and is older than `grace`. Answers how many objects went.
    pub(super) fn collect(&self, grace: std::time::Duration) -> Result<u64> {
        let known = self.lock();
        if !known.is_loaded || !known.newer.is_empty() {
            return Ok(0);
        }
        let live = known.files.values().map(|stored| stored.object.clone()).collect();
        known.chain.collect(known.chain.head().base, &live, grace)
    }
}
