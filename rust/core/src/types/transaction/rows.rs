//! A fingerprint of the rows of a batch, independent of order, partitioning and place.

use crate::Result;
use crate::io::bytes::{Decoder, Encoder};
use crate::key::{Codec, Form, Key};

/// Start values of the sums for each form of an id, so that a row without an id counts too.
const FORMS: [u64; 4] = [0x9fb2_1c65_1e98_df25, 0xc2b2_ae3d_27d4_eb4f, 0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// The ids of all rows of a batch, as a multiset: the number of rows, and two sums over their keys.
/// The fingerprints that tasks compute for their parts add up to that of the whole batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchRows {
    count: u64,
    sums: [u64; 2],
}

impl BatchRows {
    /// Number of rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Add the rows of another part of the batch.
    pub fn add(&mut self, part: Self) {
        self.count = self.count.wrapping_add(part.count);
        for (sum, other) in self.sums.iter_mut().zip(part.sums) {
            *sum = sum.wrapping_add(other);
        }
    }

    /// Add one row. A secret spreads the keys, so that nobody can aim at these sums from outside.
    #[inline]
    pub(crate) fn push(&mut self, form: Form, key: Key) {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b | 1);
            (product >> 64) as u64 ^ product as u64
        };
        let seed = FORMS[form as usize];
        let sums = [fold(key.hi ^ seed, key.lo.rotate_left(17)), fold(key.lo ^ seed, key.hi.rotate_left(41))];
        self.add(Self { count: 1, sums: [sums[0].wrapping_add(key.lo), sums[1].wrapping_add(key.hi)] });
    }

    /// Add a row of text, as stored in the column.
    pub(crate) fn push_text(&mut self, codec: &Codec, form: Form, key: Key, text: &[u8]) {
        self.push(form, codec.digest(form, key, text));
    }

    pub(crate) fn numbers(self) -> [u64; 3] {
        [self.count, self.sums[0], self.sums[1]]
    }

    pub(crate) fn of_numbers([count, first, second]: [u64; 3]) -> Self {
        Self { count, sums: [first, second] }
    }

    pub(crate) fn encode(self, out: &mut Encoder) {
        for number in self.numbers() {
            out.u64(number);
        }
    }

    pub(crate) fn decode(from: &mut Decoder) -> Result<Self> {
        Ok(Self::of_numbers([from.u64()?, from.u64()?, from.u64()?]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(rows: &[(u8, u64)]) -> BatchRows {
        let codec = Codec::new(&[7; 32]);
        let mut found = BatchRows::default();
        for (form, number) in rows {
            let form = [Form::Absent, Form::TooLong, Form::Uuid, Form::Text][usize::from(form % 4)];
            let key = match form {
                Form::Uuid => codec.mix(u128::from(*number).to_le_bytes()),
                _ => Key::default(),
            };
            let text = number.to_string();
            let text = if form == Form::Absent { "" } else { &text };
            let key = if form == Form::Text { codec.hash_text(text.as_bytes()) } else { key };
            found.push_text(&codec, form, key, text.as_bytes());
        }
        found
    }

    proptest! {
        #[test]
        fn parts_in_any_order_add_up_to_the_whole(
            mut rows in prop::collection::vec((0u8..4, 0u64..50), 0..40), cut in 0usize..40, by in 0usize..40
        ) {
            let whole = of(&rows);
            let by = by % rows.len().max(1);
            rows.rotate_left(by);
            rows.reverse();
            let (one, other) = rows.split_at(cut.min(rows.len()));
            let mut sum = of(other);
            sum.add(of(one));
            prop_assert_eq!(sum, whole);
        }

        #[test]
        fn other_rows_are_told_apart(
            one in prop::collection::vec((0u8..4, 0u64..4), 0..6), other in prop::collection::vec((0u8..4, 0u64..4), 0..6)
        ) {
            let sorted = |rows: &[(u8, u64)]| {
                let mut rows: Vec<_> = rows.iter().map(|(form, id)| (form % 4, if form % 4 == 0 { 0 } else { *id })).collect();
                rows.sort_unstable();
                rows
            };
            prop_assert_eq!(of(&one) == of(&other), sorted(&one) == sorted(&other));
        }
    }

    #[test]
    fn a_copy_and_a_row_without_an_id_count() {
        assert_ne!(of(&[(2, 1)]), of(&[(2, 1), (2, 1)]));
        assert_ne!(of(&[(2, 1)]), of(&[(2, 1), (0, 0)]));
        assert_ne!(of(&[]), of(&[(0, 0)]));
        assert_ne!(of(&[(1, 1)]), of(&[(1, 2)]));
    }

    #[test]
    fn a_fingerprint_is_read_back_as_it_was_written() {
        let rows = of(&[(2, 1), (3, 2), (0, 0)]);
        let mut out = Encoder::new();
        rows.encode(&mut out);
        let bytes = out.finish();
        assert_eq!(bytes.len(), 24);
        let mut from = Decoder::new(&bytes, std::path::Path::new("rows"));
        assert_eq!(BatchRows::decode(&mut from).unwrap(), rows);
    }
}
