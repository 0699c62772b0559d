//! Purging: expired entries go, in whole files.

use super::view::View;
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::Manifest;
use crate::segment::format::Mark;
use crate::sys::time::format_us;
use crate::types::duration::duration_text;
use crate::{Error, Result};

const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// The result of a purge, or of a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Entries in the dropped files, and expired entries of the log.
    pub entries: u64,
    /// Of them those in the log.
    pub log_entries: u64,
    /// Bytes of the dropped files.
    pub bytes: u64,
    /// Segments dropped.
    pub segments: u64,
}

/// The parameters of a purge.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// The time taken as now, in microseconds since 1970.
    pub now_us: i64,
    /// Only tell what would go.
    pub dry_run: bool,
    /// The machine's clock, against which `now_us` is checked; none to skip the check.
    pub clock_us: Option<i64>,
}

impl Purge {
    /// A purge at this time, without a check of the clock.
    pub fn at(now_us: i64) -> Self {
        Self { now_us, dry_run: false, clock_us: None }
    }

    /// A typing error (2099 for 2026) must not empty a history. There is nothing to check if
    /// `now_us` is the machine's own time, or if entries stay. `what` is purged, and `all` is the
    /// number of its entries that any purge could remove.
    pub(super) fn check_clock(self, what: &str, expired: &Purged, all: impl FnOnce() -> Result<u64>) -> Result<()> {
        let Some(clock_us) = self.clock_us.filter(|_| !self.dry_run) else { return Ok(()) };
        let ahead_us = self.now_us.saturating_sub(clock_us);
        if ahead_us <= DAY_US || expired.entries == 0 || expired.entries < all()? {
            return Ok(());
        }
        Err(Error::Config(format!(
            "now is {}, {} ahead of this machine's clock, and a purge at that time drops all {} entries of {what}: \
             purge with force=True, or --force, if that is meant",
            format_us(self.now_us),
            duration_text(ahead_us / DAY_US * DAY_US),
            expired.entries
        )))
    }
}

impl KeySpace {
    /// Drop everything that began a time to live before now, or earlier: whole segments, and single
    /// entries of the log. A segment that holds others, too, stays, and so does all that began at
    /// the time of its entries: the end of one of them may be there.
    pub(crate) fn purge(&self, settings: SpaceSettings, purge: Purge) -> Result<Purged> {
        let planned = |view: Option<&View>| {
            settings.check(view)?;
            let Some(view) = view else { return Ok((i64::MIN, Purged::default(), false)) };
            let stored = view.manifest.time_to_live_us;
            let time_to_live_us = if stored > 0 { stored } else { settings.time_to_live_us };
            if time_to_live_us <= 0 {
                return Ok((i64::MIN, Purged::default(), false));
            }
            let cutoff = view.purgeable_upto(purge.now_us.saturating_sub(time_to_live_us));
            let (expired, has_left) = view.expired(cutoff);
            let what = format!("trigger {:?}", view.manifest.name);
            purge.check_clock(&what, &expired, || Ok(view.expired(i64::MAX).0.entries))?;
            Ok((cutoff, expired, has_left || expired != Purged::default()))
        };
        let (_, expired_now, has_work) = self.read(planned)?;
        if purge.dry_run || !has_work {
            return Ok(expired_now);
        }
        self.write_again(settings, |writer| {
            // Nor is what it purges to stand in a file that any process keeps for the next log.
            writer.space.remove_kept_log()?;
            writer.space.collect_old_logs(&writer.space.env.system.names(&writer.space.directory)?)?;
            let (cutoff, expired, _) = planned(writer.space.present().as_ref())?;
            let in_log =
                writer.space.present().as_ref().and_then(View::oldest_in_memory).is_some_and(|oldest| oldest <= cutoff);
            // One manifest for everything: a purge that is interrupted has purged nothing.
            let purge = |manifest: &mut Manifest| {
                manifest.purged_upto = manifest.purged_upto.max(cutoff);
                manifest.segments.retain(|entry| entry.max_started_at > cutoff);
                manifest.forget_dropped();
            };
            if in_log {
                writer.seal_with(cutoff, purge)?;
                return Ok(expired);
            }
            let mut manifest = writer.successor()?;
            purge(&mut manifest);
            writer.publish(&manifest)?;
            writer.clear_remains();
            Ok(expired)
        })
    }
}

impl View {
    /// The latest time, up to `cutoff`, for which no segment holds entries of before and after it.
    fn purgeable_upto(&self, cutoff: i64) -> i64 {
        let mut times: Vec<_> =
            self.manifest.segments.iter().map(|entry| (entry.max_started_at, entry.min_started_at)).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        times.into_iter().fold(cutoff, |upto, (last, first)| if last > upto { upto.min(first - 1) } else { upto })
    }

    /// What a purge at `cutoff` removes, and whether also releases go that the log remembers of
    /// entries in segments: these are entries of nothing.
    fn expired(&self, cutoff: i64) -> (Purged, bool) {
        let mut purged = Purged::default();
        for entry in self.manifest.segments.iter().filter(|entry| entry.max_started_at <= cutoff) {
            purged.entries += entry.entries;
            purged.bytes += entry.bytes;
            purged.segments += 1;
        }
        let frozen = self.frozen.iter().flat_map(|frozen| frozen.memtable.entries());
        let in_log = self.memtable.entries().chain(frozen);
        let mut has_left = false;
        for (_, _, stamp) in in_log.filter(|(_, _, stamp)| stamp.started_at <= cutoff) {
            let is_released = stamp.mark == Mark::Released;
            has_left |= is_released;
            purged.log_entries += u64::from(!is_released);
        }
        purged.entries += purged.log_entries;
        (purged, has_left)
    }
}
