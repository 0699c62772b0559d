//! The channel, and the only source of chance.

use std::mem;

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Chances in percent, and what is under way: each with the rounds that it still takes.
#[derive(Debug)]
pub(super) struct Channel<T> {
    loss: u64,
    copy: u64,
    damage: u64,
    delay: u64,
    under_way: Vec<(u64, T)>,
}

impl<T: Clone> Channel<T> {
    pub(super) fn bad(random: &mut Random) -> Self {
        let [loss, copy, damage] = [40, 30, 15].map(|limit| random.below(limit));
        Self { loss, copy, damage, delay: 1 + random.below(6), under_way: Vec::new() }
    }

    pub(super) fn become_good(&mut self) {
        (self.loss, self.copy, self.damage, self.delay) = (0, 0, 0, 1);
    }

    /// Whether it was not lost.
    pub(super) fn send(&mut self, one: &T, random: &mut Random) -> bool {
        let kept = !random.chance(self.loss);
        let copies = u64::from(kept) + u64::from(random.chance(self.copy));
        for _ in 0..copies {
            self.under_way.push((random.below(self.delay), one.clone()));
        }
        copies > 0
    }

    /// What has arrived, in any order when the channel is bad; and whether it is damaged.
    pub(super) fn arrivals(&mut self, random: &mut Random) -> Vec<(T, bool)> {
        let mut arrived = Vec::new();
        for (rounds, one) in mem::take(&mut self.under_way) {
            match rounds.checked_sub(1) {
                Some(left) => self.under_way.push((left, one)),
                None => arrived.push((one, random.chance(self.damage))),
            }
        }
        if self.delay > 1 {
            for at in (1..arrived.len()).rev() {
                arrived.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        arrived
    }
}
