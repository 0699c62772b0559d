//! Random numbers that follow from a seed.

/// A sequence of numbers that looks random and is the same for the same seed (splitmix64).
#[derive(Clone, Debug)]
pub(in crate::testing) struct Random(u64);

impl Random {
    pub(in crate::testing) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in crate::testing) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(in crate::testing) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(in crate::testing) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
