//! A radix sort of numbers by their high bits, where the low bits are in order already. It starts
//! from the lowest digit that counts.

/// Digits of 11 bits: their counts fit the nearest cache.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Fewer numbers than this are sorted by comparing, which is faster.
const FEW: usize = 1 << 11;

/// The numbers and a buffer, which is kept from one sort to the next.
#[derive(Debug, Default)]
pub(super) struct RowSort {
    numbers: Vec<u64>,
    other: Vec<u64>,
}

impl RowSort {
    /// Takes the numbers, and sorts them. Each is below `1 << bits`, and they are in order by their
    /// lowest `sorted_bits`.
    pub(super) fn sort(&mut self, numbers: impl Iterator<Item = u64>, sorted_bits: u32, bits: u32) {
        self.numbers.clear();
        self.numbers.extend(numbers);
        if self.numbers.len() < FEW {
            self.numbers.sort_unstable();
            return;
        }
        self.other.resize(self.numbers.len(), 0);
        for shift in (sorted_bits..bits).step_by(DIGIT_BITS as usize) {
            self.pass(shift);
        }
    }

    /// The numbers, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.numbers.iter().copied()
    }

    /// Sorts by one digit; equal ones stay as they are.
    fn pass(&mut self, shift: u32) {
        let digit = |number: u64| (number >> shift) as usize % DIGITS;
        let mut places = [0_u32; DIGITS];
        for &number in &self.numbers {
            places[digit(number)] += 1;
        }
        let mut start = 0;
        for place in &mut places {
            (*place, start) = (start, start + *place);
        }
        for &number in &self.numbers {
            let place = &mut places[digit(number)];
            self.other[*place as usize] = number;
            *place += 1;
        }
        std::mem::swap(&mut self.numbers, &mut self.other);
    }
}

#[cfg(test)]
mod tests {
    use super::RowSort;

    #[test]
    fn numbers_come_out_in_order_however_many_digits_they_have() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        };
        let mut sorter = RowSort::default();
        for (count, bits) in [(0, 20), (100, 40), (5_000, 20), (5_000, 48), (3_000, 64), (70_000, 33), (4_000, 17)] {
            let row_bits = 17;
            let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            let numbers: Vec<u64> = (0..count).map(|row| ((random() << row_bits) & mask) | row).collect();
            sorter.sort(numbers.iter().copied(), row_bits, bits);
            let mut sorted = numbers;
            sorted.sort_unstable();
            assert!(sorter.iter().eq(sorted), "{count} numbers of {bits} bits");
        }
    }
}
