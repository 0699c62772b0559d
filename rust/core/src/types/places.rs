//! Some of the keys of a batch, by their places in it: one bit a key.

/// A set of places below `count`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    count: usize,
    words: Vec<u64>,
}

impl Places {
    /// No place of `count`.
    pub(crate) fn none_of(count: usize) -> Self {
        Self { count, words: vec![0; count.div_ceil(64)] }
    }

    /// From its words; none if they are of another length, or a bit stands behind the last place.
    pub(crate) fn of_words(count: usize, words: Vec<u64>) -> Option<Self> {
        let behind = words.last().map_or(0, |last| last >> 1 >> (count.wrapping_sub(1) % 64));
        (words.len() == count.div_ceil(64) && behind == 0).then_some(Self { count, words })
    }

    /// Number of places that there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Add a place; answers whether it is a new one. Places beyond the last are left out.
    pub(crate) fn insert(&mut self, place: usize) -> bool {
        let Some(word) = self.words.get_mut(place / 64).filter(|_| place < self.count) else { return false };
        let (before, bit) = (*word, 1 << (place % 64));
        *word |= bit;
        before & bit == 0
    }

    /// Take a place out.
    pub(crate) fn remove(&mut self, place: usize) {
        if let Some(word) = self.words.get_mut(place / 64) {
            *word &= !(1 << (place % 64));
        }
    }

    /// Add places.
    pub(crate) fn extend(&mut self, places: impl Iterator<Item = usize>) {
        for place in places {
            self.insert(place);
        }
    }

    pub(crate) fn contains(&self, place: usize) -> bool {
        self.words.get(place / 64).is_some_and(|word| word & 1 << (place % 64) != 0)
    }

    /// All places in it, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_in_order_and_once() {
        for count in [1, 63, 64, 65, 200] {
            let mut places = Places::none_of(count);
            assert!(places.insert(count - 1) && places.insert(0) == (count > 1));
            assert!(!places.insert(count - 1) && !places.insert(count));
            let expected = if count > 1 { vec![0, count - 1] } else { vec![0] };
            assert_eq!(places.iter().collect::<Vec<_>>(), expected);
            assert!(places.contains(count - 1) && !places.contains(count));
            let mut fewer = places.clone();
            for place in [0, count - 1, count + 64] {
                fewer.remove(place);
            }
            assert_eq!(fewer, Places::none_of(count));
            assert_eq!(Places::of_words(count, places.words().to_vec()), Some(places.clone()));
            assert_eq!(Places::of_words(count + 64, places.words().to_vec()), None);
            let mut behind = places.words().to_vec();
            if count % 64 != 0 {
                *behind.last_mut().unwrap() |= 1 << (count % 64);
                assert_eq!(Places::of_words(count, behind), None);
            }
        }
        assert_eq!(Places::of_words(0, Vec::new()), Some(Places::none_of(0)));
    }
}
