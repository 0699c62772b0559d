//! A key space whose durable truth is a chain of commits in an object store.
//!
//! Its directory is a replica that belongs to one handle: the same log, segments and manifests,
//! byte for byte. An operation decides and appends as in a directory. What it appended is durable
//! once a commit holds it; threads that wait share a commit. If another handle's commit was first,
//! everything that was appended since is undone, the newer commits are applied, and each operation
//! decides again.

mod along;
mod commit;
mod copy;
mod meanwhile;
mod pin;
mod pin_name;
mod repair;
mod settle;
mod staged;
mod upkeep;
mod verify;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

pub(super) use along::Along;
pub(crate) use meanwhile::{Ahead, Seen};

use super::environment::Environment;
use crate::format::names::REGISTRY;
use crate::objects::chain::{Chain, Head};
use crate::objects::chance::{pause_of, share};
use crate::objects::change::Stored;
use crate::objects::collect::Collected;
use crate::objects::commit::Commit;
use crate::objects::names::Names;
use crate::objects::pins::Pinned;
use crate::{Error, Result};

/// Commits behind a base from which the log is sealed: a new reader fetches each of them.
const MOST_COMMITS: u64 = if cfg!(feature = "small") { 6 } else { 128 };

/// The least number of commits that may come between the storing of a file and the first that names
/// it.
const LEAST_AHEAD: u64 = 16;
/// The least time over which the pace of commits is taken.
const LEAST_TIME: Duration = Duration::from_secs(10);
/// Bytes a second of a slow upload.
const SLOW: f64 = 10e6;
/// Commits without a change that one collection makes at most.
const MOST_EMPTY: u64 = 32;
/// How long after another handle's commit this one gives way to others.
const CROWDED: Duration = Duration::from_secs(5);
/// After how many commits in a row a gap is left first, and every how many at most.
const FIRST_GAP: u32 = 8;
const MOST_GAP: u32 = 64;
/// Time between two looks for threads that may share a commit.
const GATHERING: Duration = Duration::from_millis(1);
/// What counts of a commit that took long: all pauses are measured by it.
const MOST_TOOK: Duration = Duration::from_millis(300);
/// The least bound of the pause after a refusal.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

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
    /// Whether, besides, nothing is to be undone or applied before the next frame is appended.
    is_settled: AtomicBool,
    /// The newest commit that the view holds, for readers, who wait for no commit under way.
    seen: Mutex<Head>,
    /// The chain, for requests that need no head.
    chain: Chain,
    /// The thread whose operation holds the writer lock.
    writer: Mutex<Option<ThreadId>>,
    /// Held while the directory of a pinned state is filled.
    pinning: Mutex<()>,
    /// The pin that was stored or read last: a pinned state never changes.
    last_pin: Mutex<Option<(String, Arc<Pinned>)>>,
    /// Threads that wait for a commit.
    waiting: AtomicUsize,
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
    /// Whether the head was read for a commit that would prove it, and there was none yet. Nothing
    /// may be answered by it, or collected.
    is_unproven: bool,
    /// Commits that were read and are not applied yet.
    newer: Vec<Commit>,
    committed: Committed,
    /// The objects of the replica's files, by name.
    files: BTreeMap<String, Stored>,
    /// Files that were stored before a manifest names them, by name, and the last commit that may.
    staged: BTreeMap<String, (u64, Stored)>,
    /// When another handle's commit was met last.
    met: Option<Instant>,
    /// Commits since then that were not refused.
    won: u32,
    /// After how many of them a gap is left.
    next_gap: u32,
    /// When the last commit was over.
    last: Option<Instant>,
    /// How many threads waited for one of the last commits.
    shared: usize,
    /// The first commit that was known, and when.
    began: Option<(u64, Instant)>,
    /// How long the last commit took.
    took: Duration,
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

/// A thread that waits for a commit.
#[derive(Debug)]
struct Waiting<'a>(&'a Mirror);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
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
        let chain = Chain::new(store, names, env.history);
        let known = Known {
            chain: chain.clone(),
            is_loaded: false,
            is_broken: false,
            is_unproven: false,
            newer: Vec::new(),
            committed: Committed::default(),
            files: BTreeMap::new(),
            staged: BTreeMap::new(),
            met: None,
            shared: 0,
            began: None,
            won: 0,
            next_gap: FIRST_GAP,
            last: None,
            took: Duration::ZERO,
            ended: BTreeMap::new(),
        };
        Some(Self {
            known: Mutex::new(known),
            generation: AtomicU64::new(0),
            is_ready: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            seen: Mutex::new(Head::default()),
            chain,
            writer: Mutex::new(None),
            pinning: Mutex::new(()),
            last_pin: Mutex::new(None),
            waiting: AtomicUsize::new(0),
            behind: AtomicU64::new(0),
            registry,
        })
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
        if !self.chain.has(&self.registry)? {
            self.chain.put_new(&self.registry, name.as_bytes())?;
        }
        Ok(())
    }

    /// The view holds everything up to the head.
    fn note_settled(&self, known: &mut Known) {
        known.began.get_or_insert((known.chain.head().number, Instant::now()));
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = known.chain.head();
        let is_settled = known.is_loaded && !known.is_broken && known.newer.is_empty() && self.is_ready();
        self.is_settled.store(is_settled, Ordering::Release);
    }

    /// Whether the view holds the newest commit. Waits for no commit under way: where one has just
    /// been stored, the answer is no.
    fn is_newest(&self) -> Result<bool> {
        if !self.is_settled.load(Ordering::Acquire) {
            return Ok(false);
        }
        let head = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.chain.is_newest(head)
    }

    /// The state of the chain, from its base on. A space that was used and has no commit must not
    /// pass for one that was never used.
    fn find(&self, known: &mut Known) -> Result<Vec<Commit>> {
        let commits = known.chain.find()?;
        known.is_unproven = false;
        if !commits.is_empty() || !known.chain.has(&self.registry)? {
            return Ok(commits);
        }
        // Its first commit may just have come.
        let commits = known.chain.find()?;
        if commits.is_empty() {
            let reason = "it says that this trigger was used, but none of its commits is in the bucket: were they \
                          deleted by hand, or by a lifecycle rule? nothing was changed; restore them from a copy";
            let name = self.chain.full_name(&self.registry);
            return Err(Error::Objects { operation: "rely on", name, reason: reason.into() });
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
        // Before the generation: who sees the new one sees this.
        self.is_settled.store(false, Ordering::Release);
        known.ended.insert(self.generation(), known.committed);
        while known.ended.len() > REMEMBERED {
            known.ended.pop_first();
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Wait before an operation decides again, so that others make progress.
    pub(super) fn back_off(&self, round: u32) {
        let most = (self.lock().took / 4).max(LEAST_PAUSE);
        self.chain.store().pause(pause_of(round).min(most));
    }

    /// Before a commit: wait a little for as many threads of this handle as shared the ones before.
    fn gather(&self, known: &mut Known) {
        let (start, most) = (Instant::now(), known.took / 8);
        while self.waiting.load(Ordering::Acquire) < known.shared && start.elapsed() < most {
            self.chain.store().pause(GATHERING);
        }
        known.shared = self.waiting.load(Ordering::Acquire).max(known.shared.saturating_sub(1));
    }

    /// Notes that a thread waits for a commit, until it is dropped.
    fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        Waiting(self)
    }

    /// Another handle's commit came first.
    fn meet(known: &mut Known) {
        (known.met, known.won, known.next_gap) = (Some(Instant::now()), 0, FIRST_GAP);
    }

    /// Who was refused needs longer to come back than who has won: where others write, too, the
    /// winner lets them come in between. Those of this handle that wait share its next commit.
    ///
    /// The winner cannot see who is refused. So it leaves a gap from time to time, less and less
    /// often, in which one of them can commit.
    fn give_way(&self, known: &mut Known) {
        if known.won == 0 || known.last.is_none_or(|last| last.elapsed() > 2 * known.took) {
            return;
        }
        if known.met.is_some_and(|met| met.elapsed() < CROWDED) {
            self.chain.store().pause((known.took * (1 + known.won.min(4))).mul_f64(share()));
        } else if known.won >= known.next_gap {
            known.next_gap = known.won + known.won.min(MOST_GAP);
            self.chain.store().pause(3 * known.took);
        }
    }

    /// Collect what no state needs, and is older than `grace`. Answers how many objects went.
    pub(super) fn collect(&self, grace: Duration) -> Result<u64> {
        let first = self.collect_once(grace)?;
        let head = self.head();
        // Before the first commit there is nothing to follow.
        if head == 0 || first.beyond <= head || first.beyond > head + MOST_EMPTY {
            return Ok(first.gone);
        }
        // Where few write, files would stay long that somebody might still name.
        while self.head() < first.beyond && self.commit_nothing()? {}
        Ok(first.gone + self.collect_once(grace)?.gone)
    }

    fn head(&self) -> u64 {
        self.lock().chain.head().number
    }

    fn collect_once(&self, grace: Duration) -> Result<Collected> {
        let (chain, live) = {
            let known = self.lock();
            if !known.is_loaded || known.is_unproven || !known.newer.is_empty() {
                return Ok(Collected::default());
            }
            (known.chain.clone(), known.files.values().map(|stored| stored.object.clone()).collect())
        };
        chain.collect(chain.head().base, &live, grace)
    }

    /// How many commits may come between the storing of files outside the lock, of `bytes`
    /// together, and the commit that names them: several times what the pace so far lets expect.
    fn ahead(&self, bytes: u64) -> u64 {
        let known = self.lock();
        let Some((first, since)) = known.began else { return LEAST_AHEAD };
        let pace = (known.chain.head().number - first) as f64 / since.elapsed().max(LEAST_TIME).as_secs_f64();
        LEAST_AHEAD + (4.0 * pace * (1.0 + bytes as f64 / SLOW)) as u64
    }
}
