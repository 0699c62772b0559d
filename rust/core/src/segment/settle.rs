//! Before a run is written: sort it, and fold entries of the same key.

use super::format::{Mark, Stamp};
use super::run::{EntryRun, HeldTexts, Stamps, TextEntry};
use super::sort;

/// Sorted runs up to which merging them is faster than sorting: for 5 of them it takes 12 ns an
/// entry against 25, for 12 as long.
const FEW_RUNS: usize = 8;

/// Maximum number of distinct stamps; above it the start times of completed entries are rounded up.
const MOST_STAMPS: usize = 1 << 16;

impl EntryRun {
    /// Sort, and fold entries that say the same about the same key: a completed one outweighs all
    /// others that do not count for longer.
    pub(crate) fn settle(&mut self) {
        if let Some(coarse) = Coarse::of(self.stamps.list()) {
            self.round(&coarse);
        }
        self.settle_part(usize::MAX);
    }

    /// [`EntryRun::settle`] for a part of a run, whose stamps are bounded as a whole, and whose
    /// entries are `runs` sorted runs: few of them are merged faster than sorted.
    pub(crate) fn settle_part(&mut self, runs: usize) {
        let heap = std::mem::take(&mut self.heap);
        self.settle_texts(runs, |entry| &heap[entry.start as usize..entry.start as usize + entry.length as usize]);
        self.heap = heap;
    }

    /// [`EntryRun::settle_part`], with texts that are held elsewhere.
    pub(crate) fn settle_held(&mut self, held: &dyn HeldTexts) {
        self.settle_texts(usize::MAX, |entry| held.text(entry));
    }

    fn settle_texts<'t>(&mut self, runs: usize, text: impl Fn(&TextEntry) -> &'t [u8]) {
        let EntryRun { uuids, texts, stamps, .. } = self;
        let mark = |number: u32| stamps.get(number);
        // Completed ones first, which have claim 0; then claim by claim, the strongest mark first.
        let strongest_first = |a: u32, b: u32| {
            let (a, b) = (mark(a), mark(b));
            let completed = |stamp: Stamp| stamp.mark == Mark::Completed;
            let by_claim = b.claim.cmp(&a.claim).then(b.mark.cmp(&a.mark)).then(b.started_at.cmp(&a.started_at));
            completed(b).cmp(&completed(a)).then(by_claim)
        };
        if runs <= FEW_RUNS {
            // The standard library's sort finds the runs, and merges them.
            uuids.sort_by(|a, b| a.key.cmp(&b.key).then_with(|| strongest_first(a.stamp, b.stamp)));
        } else {
            sort::by_key(uuids, |entry| entry.key, |a, b| strongest_first(a.stamp, b.stamp));
        }
        let text_order =
            |a: &TextEntry, b: &TextEntry| text(a).cmp(text(b)).then_with(|| strongest_first(a.stamp, b.stamp));
        sort::by_key(texts, |entry| entry.key, text_order);
        uuids.dedup_by(|later, kept| later.key == kept.key && says_nothing_new(mark(kept.stamp), mark(later.stamp)));
        texts.dedup_by(|later, kept| {
            later.key == kept.key && text(later) == text(kept) && says_nothing_new(mark(kept.stamp), mark(later.stamp))
        });
    }
}

/// Whether an entry adds nothing to one of the same key that sorts before it. One that began after
/// a completed one still counts once that has expired, and its claim may complete it.
fn says_nothing_new(kept: Stamp, later: Stamp) -> bool {
    match kept.mark {
        Mark::Completed => kept.started_at >= later.started_at,
        Mark::Open | Mark::Released => kept.claim == later.claim && kept.mark >= later.mark,
    }
}

/// Bounds the number of distinct stamps by rounding the start times of completed entries up, never
/// down: an entry may live a little longer, but is not forgotten early.
pub(crate) struct Coarse {
    first: i64,
    last: i64,
    step: i64,
}

impl Coarse {
    /// How these stamps are to be rounded; none if they are few.
    pub(crate) fn of(stamps: &[Stamp]) -> Option<Self> {
        if stamps.len() <= MOST_STAMPS {
            return None;
        }
        let completed = || stamps.iter().filter(|stamp| stamp.mark == Mark::Completed).map(|stamp| stamp.started_at);
        let (first, last) = (completed().min()?, completed().max()?);
        Some(Self { first, last, step: (last - first) / (MOST_STAMPS as i64 / 2) + 1 })
    }

    pub(crate) fn rounded(&self, mut stamp: Stamp) -> Stamp {
        if stamp.mark == Mark::Completed {
            let after = stamp.started_at - self.first;
            stamp.started_at = (self.first + (after + self.step - 1) / self.step * self.step).min(self.last);
        }
        stamp
    }
}

/// The number of stamps that are left of these, and how they are rounded if they are many.
pub(crate) fn bounded(stamps: &Stamps) -> (usize, Option<Coarse>) {
    let Some(coarse) = Coarse::of(stamps.list()) else { return (stamps.list().len(), None) };
    let mut rounded = Stamps::default();
    for stamp in stamps.list() {
        rounded.index(coarse.rounded(*stamp));
    }
    (rounded.list().len(), Some(coarse))
}

impl EntryRun {
    /// Round the times of its stamps.
    pub(crate) fn round(&mut self, coarse: &Coarse) {
        let old = self.stamps.list().to_vec();
        self.stamps.replace(Vec::new());
        let numbers: Vec<u32> = old.into_iter().map(|stamp| self.stamps.index(coarse.rounded(stamp))).collect();
        self.uuids.iter_mut().for_each(|entry| entry.stamp = numbers[entry.stamp as usize]);
        self.texts.iter_mut().for_each(|entry| entry.stamp = numbers[entry.stamp as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn many_stamps_are_rounded_up_and_bounded_for_all_parts_alike() {
        let mut stamps = Stamps::default();
        let time = |number: i64| 1_000_000 + number * number % 86_400_000_007;
        for number in 0..MOST_STAMPS as i64 + 4000 {
            let mark = if number % 20 == 0 { Mark::Open } else { Mark::Completed };
            stamps.index(Stamp { claim: number as u64, started_at: time(number), mark });
        }
        let (left, coarse) = bounded(&stamps);
        let coarse = coarse.unwrap();
        let times: Vec<i64> = stamps.list().iter().map(|stamp| stamp.started_at).collect();
        let span = times.iter().max().unwrap() - times.iter().min().unwrap();
        let mut rounded = Stamps::default();
        for stamp in stamps.list() {
            let later = coarse.rounded(*stamp);
            let most = if stamp.mark == Mark::Completed { span / (MOST_STAMPS as i64 / 2) } else { 0 };
            assert!((0..=most).contains(&(later.started_at - stamp.started_at)), "{stamp:?} became {later:?}");
            rounded.index(later);
        }
        assert!(left == rounded.list().len() && left <= MOST_STAMPS, "{left} stamps");
        // A part of a run has no more of them, however its own would be rounded.
        let mut run = EntryRun::default();
        for number in 0..MOST_STAMPS as u64 + 4000 {
            run.push_uuid(Key { hi: number, lo: number }, stamps.get(number as u32));
        }
        run.round(&coarse);
        run.settle_part(usize::MAX);
        assert!(run.stamps.list().len() == left && run.uuids.len() == MOST_STAMPS + 4000);
        assert_eq!(bounded(&Stamps::default()).0, 0);
    }

    #[test]
    fn what_began_after_a_completed_entry_stays_beside_it() {
        let (completed, key) = (Mark::Completed, Key { hi: 1, lo: 2 });
        let of = |claim, started_at, mark| Stamp { claim, started_at, mark };
        let (mut uuids, mut texts) = (EntryRun::default(), EntryRun::default());
        for stamp in [
            of(0, 5, completed),
            of(0, 3, completed),
            of(7, 5, Mark::Open),
            of(7, 6, Mark::Open),
            of(8, 4, Mark::Open),
            // Of a load, whose claim has no number yet.
            of(0, 6, Mark::Open),
        ] {
            uuids.push_uuid(key, stamp);
            texts.push_text(key, b"a", stamp);
        }
        for mut run in [uuids, texts] {
            run.settle();
            let numbers = run.uuids.iter().map(|entry| entry.stamp).chain(run.texts.iter().map(|entry| entry.stamp));
            let left: Vec<_> = numbers.map(|number| run.stamps.get(number)).collect();
            assert_eq!(left, [of(0, 5, completed), of(7, 6, Mark::Open), of(0, 6, Mark::Open)]);
        }
    }

    #[test]
    fn few_sorted_runs_settle_as_they_would_when_sorted() {
        let marks = [Mark::Open, Mark::Completed, Mark::Released];
        for runs in 1..=FEW_RUNS + 1 {
            let unsettled = || {
                let mut run = EntryRun::default();
                for number in 0..runs as u64 {
                    let mut part = EntryRun::default();
                    for n in 0..700_u64 {
                        // Every third key is in all runs, under several claims and marks.
                        let key = if n % 3 == 0 { n } else { n * 16 + number };
                        let key = Key { hi: key.wrapping_mul(0x9e37_79b9_7f4a_7c15), lo: key };
                        let mark = marks[((n + number) % 3) as usize];
                        part.push_uuid(key, Stamp { claim: (n + number) % 5, started_at: number as i64, mark });
                    }
                    part.settle();
                    for entry in &part.uuids {
                        run.push_uuid(entry.key, part.stamps.get(entry.stamp));
                    }
                }
                run
            };
            let listed = |run: &EntryRun| -> Vec<_> {
                run.uuids.iter().map(|entry| (entry.key, run.stamps.get(entry.stamp))).collect()
            };
            let (mut merged, mut sorted) = (unsettled(), unsettled());
            merged.settle_part(runs);
            sorted.settle();
            assert!(merged.uuids.is_sorted_by_key(|entry| entry.key) && merged.len() < runs * 700 + 1);
            assert_eq!(listed(&merged), listed(&sorted));
        }
    }
}
