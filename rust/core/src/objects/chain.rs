//! The chain of commits of one key space (`docs/object-storage.md`; `tests/objects/model.rs`
//! searches all interleavings of its steps).
//!
//! - A commit gets its number by a create-if-absent: of two writers one has it.
//! - Before the first commit of a block there is an open gate for the block. A collector closes the
//!   gate before it deletes the first commit of the block, the lowest block first. A gate is never
//!   deleted, and a closed one never opens.
//! - A writer acknowledges a commit, and a reader believes what it read, only after it has read an
//!   open gate for the newest commit that was there before: the number behind it was never deleted,
//!   so nobody had it before.
//! - All gates of a chain have one mark. Where another mark stands in one, another history was put
//!   in the place of this one. What this process has committed there and could not prove yet, it
//!   takes back: it would be a gap in the chain of that history.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::chance::{drawn, pause_of};
use super::change::Stored;
use super::commit::{Commit, CommitId};
use super::gate::{Gate, Marks, first_gate, replaced};
use super::names::{Names, block_of};
use super::side_by_side::side_by_side;
use super::{ObjectStore, Put};
use crate::format::names::IDENTITY;
use crate::{Error, Result};

/// How often a request is sent that gets no answer.
const TRIES: u32 = 6;
/// How often a reader begins again when a collector overtakes it.
const FINDS: u32 = 50;
/// How long a commit is tried, besides the client's own retries of its last request.
const LONGEST: Duration = Duration::from_secs(30);
/// The operation of an error about an object that is not there.
pub(crate) const MISSING: &str = "find";

/// What is known to be the newest commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// 0 while there is none.
    pub(crate) number: u64,
    pub(crate) id: CommitId,
    /// The commit from which the state can be read.
    pub(crate) base: u64,
}

/// What may be done while a commit is checked. It may be left out, and nothing rests on it.
pub(crate) type Beside<'a> = &'a (dyn Fn() + Sync);

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It counts, and is the head now.
    Won,
    /// Another one has its number, or had it. The newest state tells.
    Refused,
    /// A collector has passed: it does not count, or it counted and was collected before its writer
    /// knew. What this writer knew may not count either: the state has to be found again.
    Lost,
}

/// What follows a head.
#[derive(Debug)]
pub(crate) enum Followed {
    /// These commits; the last one is the head now.
    Newer(Vec<Commit>),
    /// A collector has passed: the state has to be found again.
    Lost,
}

/// One key space's chain, as this process knows it.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) names: Names,
    history: [u8; 16],
    pub(super) head: Head,
    /// Shared by all clones, as the next one.
    marks: Marks,
    /// Own commits that were stored, and of which no gate was read since.
    unproven: Arc<Mutex<Vec<(u64, CommitId)>>>,
}

impl Chain {
    /// A chain whose head has to be found.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, names: Names, history: [u8; 16]) -> Self {
        let (marks, unproven) = (Marks::default(), Arc::default());
        Self { store, names, history, head: Head::default(), marks, unproven }
    }

    pub(crate) fn head(&self) -> Head {
        self.head
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn history(&self) -> [u8; 16] {
        self.history
    }

    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    /// The name of an object with the place of its history, for errors.
    pub(crate) fn full_name(&self, name: &str) -> String {
        let place = self.store.place();
        if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") }
    }

    /// Whether there is an object of this name.
    pub(crate) fn has(&self, name: &str) -> Result<bool> {
        self.tried(|| Ok(self.store.get(name)?.is_some()))
    }

    /// Create an object that says the same for every creator.
    pub(crate) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.tried(|| self.store.put_new(name, bytes))
    }

    /// Store a file under a name that nobody else uses.
    pub(crate) fn put_file(&self, name: &str, path: &Path) -> Result<Put> {
        self.tried(|| self.store.put_file(name, path))
    }

    /// Fetch an object into a file; answers whether it is there.
    pub(crate) fn get_file(&self, stored: &Stored, path: &Path) -> Result<bool> {
        self.tried(|| self.store.get_file(&stored.object, path, stored.bytes))
    }

    /// Find the newest commit, whatever was known, and answer the commits that make up its state:
    /// from its base on. None if nothing was ever committed.
    pub(crate) fn find(&mut self) -> Result<Vec<Commit>> {
        for round in 0..FINDS {
            // A hint saves the listing; neither is believed.
            let first = match if round == 0 { self.hinted()? } else { None } {
                Some(commit) => Some(commit),
                None => self.listed()?,
            };
            if let Some(commits) = self.state_from(first)?
                && self.is_end(commits.last().map_or(0, |last| last.number))?
            {
                self.accept(&commits)?;
                return Ok(commits);
            }
            self.pause(round.min(6));
        }
        Err(failed(
            "follow",
            &self.full_name(&self.names.commits()),
            "commits are collected faster than they can be read",
        ))
    }

    /// Whether this head is the newest commit.
    pub(crate) fn is_newest(&self, head: Head) -> Result<bool> {
        Ok(self.tried(|| self.read(head.number + 1))?.is_none() && self.is_genuine(head.number)?)
    }

    /// The commits that followed the head.
    pub(crate) fn follow(&mut self) -> Result<Followed> {
        let (id, number) = (self.head.id, self.head.number);
        let Some(newer) = self.walk(number, id)? else { return Ok(Followed::Lost) };
        let tail = newer.last().map_or(number, |commit| commit.number);
        if !self.is_genuine(tail)? {
            return Ok(Followed::Lost);
        }
        self.go_to(&newer);
        Ok(Followed::Newer(newer))
    }

    /// The commits that followed the head, for a writer whose next commit proves what it read: it
    /// counts only if the gate is open after it.
    pub(crate) fn read_on(&mut self) -> Result<Followed> {
        let Some(newer) = self.walk(self.head.number, self.head.id)? else { return Ok(Followed::Lost) };
        self.go_to(&newer);
        Ok(Followed::Newer(newer))
    }

    /// Whether the head counts.
    pub(crate) fn is_proven(&self) -> Result<bool> {
        self.is_genuine(self.head.number)
    }

    fn go_to(&mut self, newer: &[Commit]) {
        if let Some(last) = newer.last() {
            self.head = Head { number: last.number, id: last.id, base: last.base };
        }
    }

    /// Commit a change behind the head, and do `beside` while it is checked; without that, whether
    /// it counts is left to be proved. An error means that nobody knows yet whether it counts.
    pub(crate) fn commit(&mut self, change: Vec<u8>, is_base: bool, beside: Option<Beside<'_>>) -> Result<Attempt> {
        let Head { number: known, id: follows, base } = self.head;
        let number = known + 1;
        let base = if is_base || known == 0 { number } else { base };
        let commit = Commit { history: self.history, number, id: drawn()?, follows, base, change };
        if known == 0 || block_of(number) > block_of(known) {
            // A gate in the chain of another history would fence those who have that one open.
            if known > 0 && !self.is_genuine(known)? {
                return Ok(Attempt::Lost);
            }
            let gate = self.names.gate(block_of(number));
            let open = if known == 0 { first_gate()? } else { self.marks.next_gate()? };
            self.tried(|| self.store.put_new(&gate, &open))?;
        }
        let (name, bytes) = (self.names.commit(number), commit.encode());
        let (mut failure, start) = (None, Instant::now());
        for round in 0..TRIES {
            if start.elapsed() > LONGEST {
                break;
            }
            // What is there decides, whatever the answer was: it may be ours after an error, and
            // after a refusal.
            match self.store.put_new(&name, &bytes) {
                Ok(Put::Created) => return self.check(&commit, beside),
                Ok(Put::Exists) => failure = None,
                Err(error) => failure = Some(error),
            }
            match self.read(number) {
                Ok(Some(there)) if there.id == commit.id => return self.check(&commit, beside),
                Ok(Some(_)) => return Ok(Attempt::Refused),
                // It was there, and was collected since.
                Ok(None) if failure.is_none() => return Ok(Attempt::Refused),
                Ok(None) => {}
                Err(error @ Error::Fenced { .. }) => return Err(error),
                Err(error) => failure = Some(error),
            }
            self.pause(round);
        }
        Err(failure
            .unwrap_or_else(|| failed("create", &self.full_name(&name), "the store does not say what became of it")))
    }

    /// The object was created: it counts if nobody had its number before.
    fn check(&mut self, commit: &Commit, beside: Option<Beside<'_>>) -> Result<Attempt> {
        self.own_unproven().push((commit.number, commit.id));
        let is_genuine = beside.map_or(Ok(true), |beside| self.is_genuine_beside(self.head.number, beside));
        if !is_genuine? {
            // Either it stands where a collector has been, and nobody believes it; or it counted,
            // and this writer slept until it was collected. It is not deleted: it may be needed.
            return Ok(Attempt::Lost);
        }
        self.head = Head { number: commit.number, id: commit.id, base: commit.base };
        Ok(Attempt::Won)
    }

    fn own_unproven(&self) -> MutexGuard<'_, Vec<(u64, CommitId)>> {
        self.unproven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a commit that was read is one that counts, and the number behind it was never
    /// deleted. What this process could not prove is taken back where another history stands.
    fn is_genuine(&self, number: u64) -> Result<bool> {
        let before = self.own_unproven().clone();
        let is_genuine = self.is_behind_an_open_gate(number);
        match &is_genuine {
            Ok(_) => self.own_unproven().retain(|own| !before.contains(own)),
            Err(Error::Fenced { .. }) => self.take_back()?,
            Err(_) => {}
        }
        is_genuine
    }

    /// Delete the commits that this process could not prove.
    fn take_back(&self) -> Result<()> {
        let all = self.own_unproven().clone();
        for own in all {
            let name = self.names.commit(own.0);
            let there = self.tried(|| self.store.get(&name))?;
            let there = there.and_then(|bytes| Commit::decode(&bytes, &name, self.history, own.0).ok());
            if there.is_some_and(|there| there.id == own.1) {
                self.tried(|| self.store.delete(&name))?;
            }
            self.own_unproven().retain(|other| *other != own);
        }
        Ok(())
    }

    fn is_behind_an_open_gate(&self, number: u64) -> Result<bool> {
        match self.gate(block_of(number))? {
            Gate::Open => Ok(true),
            Gate::Closed => Ok(false),
            Gate::Absent if number == 0 => Ok(true),
            // A history that was made again has none yet, and no such commit either.
            Gate::Absent if self.has(IDENTITY)? && !self.has(&self.names.commit(number))? => {
                Err(replaced(&self.full_name(&self.names.gate(block_of(number)))))
            }
            Gate::Absent => {
                let gate = self.names.gate(block_of(number));
                Err(failed(
                    "rely on",
                    &self.full_name(&gate),
                    "this object is missing although commits behind it were written: was it \
                     deleted by hand, or by a lifecycle rule? nothing was changed; restore it from a copy or an older \
                     version of it",
                ))
            }
        }
    }

    /// [`Chain::is_genuine`], with a thread that does `beside` meanwhile. Where the store takes one
    /// request at a time, it is done for a commit that counts.
    pub(crate) fn is_genuine_beside(&self, number: u64, beside: Beside<'_>) -> Result<bool> {
        if self.store.lanes() < 2 {
            let is_genuine = self.is_genuine(number)?;
            if is_genuine {
                beside();
            }
            return Ok(is_genuine);
        }
        thread::scope(|scope| {
            let meanwhile = thread::Builder::new().spawn_scoped(scope, beside);
            let is_genuine = self.is_genuine(number);
            // Nothing rests on what it did.
            drop(meanwhile.map(ScopedJoinHandle::join));
            is_genuine
        })
    }

    pub(super) fn gate(&self, block: u64) -> Result<Gate> {
        let name = self.names.gate(block);
        let full_name = self.full_name(&name);
        self.tried(|| self.marks.state_of(block, &full_name, self.store.get(&name)?.as_deref()))
    }

    /// The commits behind number `number` with this id, in order; none if they follow another one.
    fn walk(&self, number: u64, id: CommitId) -> Result<Option<Vec<Commit>>> {
        let mut found: Vec<Commit> = Vec::new();
        let (mut number, mut id) = (number, id);
        // As a rule there is none. Where there are some, there may be many.
        let mut ahead = 1;
        loop {
            let read = self.read_side_by_side(number + 1, ahead)?;
            for commit in &read {
                if commit.follows != id {
                    return Ok(None);
                }
                (number, id) = (commit.number, commit.id);
            }
            let is_last = read.len() < ahead;
            found.extend(read);
            if is_last {
                return Ok(Some(found));
            }
            ahead = (2 * ahead).min(self.store.lanes());
        }
    }

    /// The commits from number `first` on, `many` at most, up to the first that is not there.
    fn read_side_by_side(&self, first: u64, many: usize) -> Result<Vec<Commit>> {
        let read = |number| self.tried(|| self.read(number));
        if many == 1 {
            return Ok(read(first)?.into_iter().collect());
        }
        let numbers: Vec<u64> = (first..first + many as u64).collect();
        let all = side_by_side(many, numbers, read)?;
        Ok(all.into_iter().map_while(|commit| commit).collect())
    }

    /// The commits from the base of the newest one on, which is found from `first` on; none if a
    /// collector has passed, or if `first` does not count.
    fn state_from(&self, first: Option<Commit>) -> Result<Option<Vec<Commit>>> {
        let (number, id) = first.as_ref().map_or((0, CommitId::default()), |first| (first.number, first.id));
        let Some(newer) = self.walk(number, id)? else { return Ok(None) };
        let mut commits: Vec<Commit> = first.into_iter().chain(newer).collect();
        let tail = commits.last().map_or(0, |last| last.number);
        if !self.is_genuine(tail)? {
            return Ok(None);
        }
        let Some(base) = commits.last().map(|last| last.base) else { return Ok(Some(commits)) };
        commits.retain(|commit| commit.number >= base);
        // Each is known by the one behind it.
        while let Some((number, follows)) = commits.first().map(|first| (first.number, first.follows)) {
            if number == base {
                break;
            }
            match self.tried(|| self.read(number - 1))? {
                Some(before) if before.id == follows => commits.insert(0, before),
                // No collector deletes behind an open gate.
                None if self.is_genuine(number - 1)? => return Err(self.lost(&self.names.commit(number - 1))),
                _ => return Ok(None),
            }
        }
        Ok(Some(commits))
    }

    /// Whether the chain ends with commit `tail`. Answers false where the next one has come, or a
    /// collector has passed. Behind a commit that is missing there is none, unless somebody else
    /// deleted it: then what it said must not pass for never said.
    fn is_end(&self, tail: u64) -> Result<bool> {
        let newest = match self.tried(|| self.newest_listed()) {
            // Who may not list relies on nobody else deleting.
            Err(error) if error.is_forbidden() => return Ok(true),
            answer => answer?,
        };
        if newest.is_none_or(|newest| newest <= tail) {
            return Ok(true);
        }
        if self.tried(|| self.read(tail + 1))?.is_none() && self.is_genuine(tail)? {
            return Err(self.lost(&self.names.commit(tail + 1)));
        }
        Ok(false)
    }

    /// The state that was found must not be older than what this process knew.
    fn accept(&mut self, commits: &[Commit]) -> Result<()> {
        let head =
            commits.last().map_or(Head::default(), |last| Head { number: last.number, id: last.id, base: last.base });
        if head.number < self.head.number || head.number == self.head.number && head.id != self.head.id {
            let path = self.full_name(&self.names.commit(head.number)).into();
            let reason = format!(
                "commit {} is the newest, but this handle knows commit {} of this history: an older copy was put in its \
                 place, and nothing was acknowledged; open the history again, and see what the copy lacks",
                head.number, self.head.number
            );
            return Err(Error::Fenced { path, reason });
        }
        self.head = head;
        Ok(())
    }

    /// The error for an object that a commit names, and that is not there.
    pub(crate) fn lost(&self, name: &str) -> Error {
        let reason = "a commit names it, but it is not in the bucket: was it deleted by hand, or by a lifecycle rule? \
                      nothing was changed; restore the object from a copy or an older version of it, and exempt the \
                      history from lifecycle rules";
        failed(MISSING, &self.full_name(name), reason)
    }

    fn hinted(&self) -> Result<Option<Commit>> {
        let hint = self.tried(|| self.store.get(&self.names.hint()))?;
        let number = hint.as_deref().and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?)));
        match number.filter(|number| (1..crate::format::manifest::MOST_NUMBER).contains(number)) {
            Some(number) => self.tried(|| self.read(number)),
            None => Ok(None),
        }
    }

    fn listed(&self) -> Result<Option<Commit>> {
        match self.tried(|| self.newest_listed())? {
            Some(number) => self.tried(|| self.read(number)),
            None => Ok(None),
        }
    }

    /// The highest number of a commit in a listing.
    fn newest_listed(&self) -> Result<Option<u64>> {
        let names = self.store.list(&self.names.commits())?;
        Ok(names.iter().filter_map(|listed| self.names.number_of_commit(&listed.name)).max())
    }

    /// Write that a reader may begin at a base. Nobody relies on it.
    pub(crate) fn give_hint(&self, base: u64) -> Result<()> {
        self.store.put(&self.names.hint(), &base.to_le_bytes())
    }

    /// Commit number `number`, if it is there.
    fn read(&self, number: u64) -> Result<Option<Commit>> {
        let name = self.names.commit(number);
        let Some(bytes) = self.store.get(&name)? else { return Ok(None) };
        match Commit::decode(&bytes, &name, self.history, number) {
            Ok(commit) => Ok(Some(commit)),
            // It may be one of a history that was made again here.
            Err(error) => self.is_genuine(number).and(Err(error)),
        }
    }

    /// Ask again while the store does not answer, or bytes come damaged.
    pub(crate) fn tried<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        let mut round = 0;
        loop {
            match ask() {
                Err(Error::Objects { .. } | Error::Corrupt { .. }) if round + 1 < TRIES => {
                    self.pause(round);
                    round += 1;
                }
                answer => return answer,
            }
        }
    }

    /// Wait, for longer each time, and for another time than others do.
    pub(crate) fn pause(&self, round: u32) {
        self.store.pause(pause_of(round));
    }
}

fn failed(operation: &'static str, name: &str, reason: &str) -> Error {
    Error::Objects { operation, name: name.to_owned(), reason: reason.to_owned() }
}
