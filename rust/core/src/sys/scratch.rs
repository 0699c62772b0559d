//! Buffers that a thread keeps from one call to the next. Judging a small batch takes less time
//! than the system's allocator needs to find and clear blocks of more than a kilobyte for it.

use std::cell::Cell;
use std::thread::LocalKey;

/// Larger buffers are not kept.
const MOST_BYTES: usize = 64 << 10;

/// Where a thread keeps its buffer, declared by `thread_local!`.
pub(crate) type Kept<T> = LocalKey<Cell<Vec<T>>>;

/// At least `length` elements, with the content of the last use. A nested call gets another buffer.
pub(crate) fn taken<T: Clone>(kept: &'static Kept<T>, length: usize, empty: T) -> Vec<T> {
    let mut piece = kept.try_with(Cell::take).unwrap_or_default();
    if piece.len() < length {
        piece.resize(length, empty);
    }
    piece
}

/// Exactly `length` elements, all of them `empty`.
pub(crate) fn cleared<T: Clone>(kept: &'static Kept<T>, length: usize, empty: T) -> Vec<T> {
    let mut piece = kept.try_with(Cell::take).unwrap_or_default();
    if piece.capacity() < length {
        // The system has zeroed memory at hand.
        return vec![empty; length];
    }
    piece.clear();
    piece.resize(length, empty);
    piece
}

/// Keep the buffer for the next call.
pub(crate) fn keep<T>(kept: &'static Kept<T>, piece: Vec<T>) {
    if piece.capacity() * size_of::<T>() <= MOST_BYTES {
        // A thread that ends keeps nothing.
        kept.try_with(|kept| kept.set(piece)).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static PIECE: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    }

    #[test]
    fn a_piece_comes_again_and_a_large_one_does_not() {
        let mut piece = cleared(&PIECE, 100, 7);
        assert_eq!(piece, [7; 100]);
        piece[3] = 1;
        let at = piece.as_ptr();
        let other = taken(&PIECE, 10, 0);
        assert_ne!(other.as_ptr(), at, "somebody else has it");
        keep(&PIECE, piece);
        let again = taken(&PIECE, 10, 0);
        assert_eq!((again.as_ptr(), again[3], again.len()), (at, 1, 100));
        keep(&PIECE, again);
        assert_eq!(cleared(&PIECE, 50, 2), [2; 50]);
        keep(&PIECE, vec![0; MOST_BYTES / 8 + 1]);
        assert_eq!(PIECE.take().capacity(), 0);
    }
}
