//! Looking up while the store is asked whether what is looked at is the newest state.
//!
//! An answer has to rest on a commit that was the newest one at some time during the call. It does
//! not matter whether that is known before the look-up or after it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;

use super::Mirror;
use crate::objects::chain::Head;
use crate::store::KeySpace;
use crate::store::view::View;
use crate::{Error, Result};

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
}
