//! Operations of several threads under one lock and one sync.

use std::time::{Duration, Instant};

use super::group_commit::{Job, Others};
use super::{KeySpace, SpaceSettings, Writer};
use crate::wal::Log;
use crate::{Error, Result};

/// Maximum time for which others' operations are done under one lock: writers of other processes
/// wait for it, too.
const MOST: Duration = Duration::from_millis(1);

/// What an operation answered, and how far the log must be durable before that counts.
struct Done<T> {
    result: Result<T>,
    place: Option<(Log, u64)>,
}

impl KeySpace {
    /// [`KeySpace::write_again`] for a short operation. Those of several threads share a lock and
    /// a sync.
    pub(crate) fn write_together<T: Send>(
        &self,
        settings: SpaceSettings,
        mut operation: impl FnMut(&mut Writer<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        if self.mirror.is_some() || self.env.read_only || self.is_pinned {
            return self.write_again(settings, operation);
        }
        self.sync.check()?;
        let _in_use = self.files.enter();
        let (mut done, start) = (None, Instant::now());
        let mut job = |writer: &mut Writer<'_>| done = Some(writer.do_one(settings, &mut operation));
        let led = self.group_commit.run(&mut job, |job, others| {
            let left = self.env.lock_timeout.saturating_sub(start.elapsed());
            self.lead(job, others, left).inspect_err(|error| self.note(error))
        });
        let Some(Done { result, place }) = done else {
            return Err(led.err().unwrap_or_else(|| Error::State("the thread that wrote for this call failed".into())));
        };
        let result = result?;
        led?;
        if let Some((log, position)) = place {
            self.reach(&log, position, true).inspect_err(|error| self.note(error))?;
            let in_place = self.check_in_place(&log).map_err(|error| self.or_away(error));
            in_place.inspect_err(|error| self.note(error))?;
        }
        Ok(result)
    }

    /// Take the lock, do the jobs of all that wait, and make the log durable.
    fn lead(&self, job: &mut Job<'_>, others: &mut Others<'_>, limit: Duration) -> Result<()> {
        let lock = self.writer_lock()?;
        // While another process holds the lock, its writes so far can be read.
        let taken = lock.take(&*self.env.system, limit, || drop(self.refresh()));
        let guard = taken.map_err(|error| self.or_away(error))?;
        let mut writer = Writer::holding(self, guard);
        writer.is_last = !others.are_waiting();
        job(&mut writer);
        writer.is_last = false;
        let start = Instant::now();
        while start.elapsed() < MOST && others.do_next(&mut writer) {}
        let place = self.end_of_log();
        drop(writer);
        // The others find an error for themselves.
        place.map_or(Ok(()), |(log, position)| self.reach(&log, position, true))
    }

    /// The log, and where its frames end.
    fn end_of_log(&self) -> Option<(Log, u64)> {
        self.present().as_ref().map(|view| (view.log.clone(), view.memtable.position))
    }
}

impl Writer<'_> {
    /// One of several operations under the same lock.
    fn do_one<T>(&mut self, settings: SpaceSettings, operation: &mut impl FnMut(&mut Self) -> Result<T>) -> Done<T> {
        let result = self.try_one(settings, operation).inspect_err(|error| self.space.note(error));
        // What failed may have published a manifest that could not be read: the next operation must
        // not append to a log that has ended.
        self.is_prepared &= result.is_ok();
        Done { result, place: self.space.end_of_log() }
    }

    fn try_one<T>(&mut self, settings: SpaceSettings, operation: &mut impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        self.space.sync.check()?;
        if self.is_prepared {
            // Nobody else wrote since.
            settings.check(self.space.present().as_ref())?;
            self.learn(settings)?;
        } else {
            self.prepare(settings)?;
            self.is_prepared = true;
        }
        self.begun = 0;
        let result = operation(self)?;
        self.seal_if_full()?;
        Ok(result)
    }
}
