//! Looking up while the store is asked whether what is looked at is the newest state.
//!
//! An answer has to rest on a commit that was the newest one at some time during the call. It does
//! not matter whether that is known before the look-up or after it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use super::Mirror;
use crate::objects::chain::Head;
use crate::store::view::View;
use crate::store::{KeySpace, LookedUp, SpaceSettings};
use crate::{Error, Result};

/// What is known of a replica before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The store has to be asked.
    #[default]
    Unknown,
    /// The same call has made sure that it is the newest state.
    Newest,
}

/// The store is being asked whether what was looked at is the newest state.
#[derive(Debug)]
pub(crate) struct Ahead {
    space: Arc<KeySpace>,
    asked: Option<JoinHandle<Result<bool>>>,
    generation: u64,
    /// The log and the end of the frames that the answer rests on.
    rests_on: Option<(u64, u64)>,
}

impl Ahead {
    /// Whether what was seen counts. Otherwise the replica is the newest state now: look again.
    pub(crate) fn counts(mut self) -> Result<bool> {
        let Some(mirror) = self.space.mirror.as_deref() else { return Ok(true) };
        match self.asked.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(true))) => {}
            Some(Ok(Err(error))) => return Err(error),
            Some(Ok(Ok(false)) | Err(_)) => return self.space.follow(mirror).map(|()| false),
        }
        let Some((log, end)) = self.rests_on else { return Ok(true) };
        match self.space.reach_commit(mirror, log, end, self.generation) {
            Err(Error::Refused) => self.space.catch_up().map(|()| false),
            reached => reached.map(|()| true),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // No request outlives the call.
        drop(self.asked.take().map(JoinHandle::join));
    }
}

impl Mirror {
    /// The newest commit that the view holds, if it can be read as it is.
    fn readable(&self) -> Option<Head> {
        let is_settled = self.is_settled.load(Ordering::Acquire) && !self.is_own_work();
        let is_readable = is_settled && self.chain.store().takes_threads();
        is_readable.then(|| *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KeySpace {
    /// [`KeySpace::read`], with the look before it is known that the state is the newest one, where
    /// that can be: what was seen in an older state is dropped, and looked for again.
    pub(in crate::store) fn read_meanwhile<T>(&self, mut look: impl FnMut(Option<&View>) -> Result<T>) -> Result<T> {
        let Some(mirror) = self.mirror.as_deref().filter(|_| !self.is_pinned) else { return self.read(look) };
        let Some(head) = mirror.readable() else { return self.read(look) };
        let _in_use = self.files.enter();
        self.refresh()?;
        let seen = thread::scope(|scope| {
            let asked = thread::Builder::new().spawn_scoped(scope, || mirror.chain.is_newest(head));
            let Ok(asked) = asked else { return Ok(None) };
            let looked = {
                let view = self.present();
                mirror.is_ready().then(|| look(view.as_ref()))
            };
            let is_newest = asked.join().map_err(|_| Error::State("a thread that asks the store failed".into()))??;
            Ok::<_, Error>(Some((is_newest, looked)))
        })?;
        match seen {
            Some((true, Some(looked))) => looked,
            Some((false, _)) => {
                self.follow(mirror)?;
                self.read_present(look)
            }
            _ => self.read(look),
        }
    }

    /// [`KeySpace::look`] that may answer before it is known that the state is the newest one: the
    /// caller asks [`Ahead::counts`] before it hands the answer out.
    pub(crate) fn look_ahead(
        self: &Arc<Self>,
        settings: SpaceSettings,
        rows: usize,
        mut look: impl FnMut(Option<&View>) -> Result<LookedUp>,
    ) -> Result<(LookedUp, Option<Ahead>)> {
        let Some(mut ahead) = self.ask_ahead() else { return Ok((self.look(settings, rows, look)?, None)) };
        let looked = self.prepared(rows, || {
            let _in_use = self.files.enter();
            self.refresh()?;
            let view = self.present();
            if !self.mirror.as_deref().is_some_and(Mirror::is_ready) {
                return Ok(None);
            }
            settings.check(view.as_ref())?;
            let found = self.asked.counted(look(view.as_ref())?);
            let end = |view: &View| (view.log.id, view.memtable.position);
            Ok::<_, Error>(Some((view.as_ref().filter(|_| found.rests_on_log).map(end), found)))
        });
        // An error may be that of an old state, whose files are gone.
        let Ok(Some((rests_on, found))) = looked else { return Ok((self.look(settings, rows, look)?, None)) };
        ahead.rests_on = rests_on;
        Ok((found, Some(ahead)))
    }

    /// Ask the store whether the replica is the newest state, if it can be read as it is.
    fn ask_ahead(self: &Arc<Self>) -> Option<Ahead> {
        let mirror = self.mirror.as_deref().filter(|_| !self.is_pinned)?;
        let generation = mirror.generation();
        let head = mirror.readable()?;
        let chain = mirror.chain.clone();
        let asked = thread::Builder::new().spawn(move || chain.is_newest(head)).ok()?;
        Some(Ahead { space: self.clone(), asked: Some(asked), generation, rests_on: None })
    }
}
