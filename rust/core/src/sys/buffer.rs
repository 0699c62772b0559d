//! Vectors of threads of the background. What these give back to the usual allocator, that may
//! keep for each of them. So the large ones are memory of the system, which gets it back when the
//! thread ends: until then it keeps some for its next vectors.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};

/// A vector whose memory the system gets back, if it is large.
pub(crate) type Buffer<T> = allocator_api2::vec::Vec<T, OwnMemory>;

/// An empty one with room for `items` items.
pub(crate) fn buffer<T>(items: usize) -> Buffer<T> {
    Buffer::with_capacity_in(items, OwnMemory)
}

/// One that holds a copy of `items`.
pub(crate) fn copied<T: Copy>(items: &[T]) -> Buffer<T> {
    let mut copy = buffer(items.len());
    copy.extend_from_slice(items);
    copy
}

/// Memory of the system for what is large, of the usual allocator for the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnMemory;

#[expect(unsafe_code, reason = "an allocator is trusted to hand out what is nobody else's")]
// SAFETY: what is handed out stays where it is until it comes back. Its layout alone decides where
// it is from, and goes back to.
unsafe impl Allocator for OwnMemory {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        match own::size(layout) {
            Some(size) => own::take(size, layout.size()).ok_or(AllocError),
            None => Global.allocate(layout),
        }
    }

    unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        match own::size(layout) {
            // SAFETY: it was taken with this size, and nobody uses it any more.
            Some(size) => unsafe { own::give_back(start, size) },
            // SAFETY: it is from there.
            None => unsafe { Global.deallocate(start, layout) },
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "memory is asked of the system, and given back by its address")]
mod own {
    use std::alloc::Layout;
    use std::cell::RefCell;
    use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use crate::sys::background;

    /// Size from which memory is the system's.
    const LEAST: usize = 1 << 18;
    /// Addresses are multiples of this at least.
    const PAGE: usize = 1 << 12;
    /// How much a thread keeps at a time.
    const MOST_KEPT: usize = 6;

    thread_local! {
        static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
    }

    /// Memory that nobody uses.
    pub(super) struct Kept {
        start: NonNull<u8>,
        size: usize,
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            // SAFETY: it is mapped, and nobody uses it.
            unsafe { munmap(self.start.as_ptr().cast(), self.size).unwrap_or_default() };
        }
    }

    /// How much is mapped for this; none where it is the usual allocator's. There are few sizes, so
    /// that one vector can have what another one had: what it does not use takes no memory.
    pub(super) fn size(layout: Layout) -> Option<usize> {
        let is_own = layout.size() >= LEAST && layout.align() <= PAGE;
        is_own.then(|| layout.size().next_power_of_two())
    }

    /// Memory that nobody uses, from now on the caller's, who wants the first `used` bytes of it.
    pub(super) fn take(size: usize, used: usize) -> Option<NonNull<[u8]>> {
        let kept = KEPT.try_with(|all| {
            let mut all = all.borrow_mut();
            all.iter().position(|kept| kept.size == size).map(|at| all.swap_remove(at))
        });
        let memory = match kept.ok().flatten() {
            Some(kept) => kept,
            None => map(size, used)?,
        };
        let start = memory.start;
        std::mem::forget(memory);
        NonNull::new(slice_from_raw_parts_mut(start.as_ptr(), used))
    }

    /// Keep it for the next vector, or give it back to the system.
    ///
    /// # Safety
    /// [`take`] has answered it for this size, and nobody uses it any more.
    pub(super) unsafe fn give_back(start: NonNull<u8>, size: usize) {
        let mut memory = Some(Kept { start, size });
        if background::is_entered() {
            let keep = |all: &RefCell<Vec<Kept>>| {
                let mut all = all.borrow_mut();
                if all.len() < MOST_KEPT {
                    all.extend(memory.take());
                }
            };
            // A thread that ends keeps nothing.
            KEPT.try_with(keep).unwrap_or_default();
        }
    }

    /// How much this thread keeps.
    #[cfg(test)]
    pub(super) fn kept() -> usize {
        KEPT.with_borrow(Vec::len)
    }

    fn map(size: usize, used: usize) -> Option<Kept> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses where, and takes nothing that is in use.
        let start = unsafe { mmap_anonymous(null_mut(), size, protection, MapFlags::PRIVATE).ok()? };
        // SAFETY: it fills with zeros what has been mapped just now. Before Linux 5.14 the first
        // use of each page does.
        unsafe { madvise(start, used, Advice::LinuxPopulateWrite).unwrap_or_default() };
        Some(Kept { start: NonNull::new(start.cast())?, size })
    }
}

#[cfg(not(target_os = "linux"))]
mod own {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    pub(super) fn size(_: Layout) -> Option<usize> {
        None
    }

    pub(super) fn take(_: usize) -> Option<NonNull<[u8]>> {
        None
    }

    #[expect(unsafe_code, reason = "as above")]
    pub(super) unsafe fn give_back(_: NonNull<u8>, _: usize) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sys::background;

    const LARGE: usize = 1 << 18;

    #[test]
    fn what_is_in_a_buffer_stays_while_it_grows() {
        let mut items = buffer(0);
        for item in 0..3 * LARGE as u64 / 8 {
            items.push(item);
        }
        assert!(items.iter().copied().eq(0..3 * LARGE as u64 / 8));
        assert_eq!(copied(&items), items);
    }

    #[test]
    fn threads_of_the_background_use_memory_again() {
        let again = |is_in_background: bool| {
            let work = move || {
                if is_in_background {
                    background::enter();
                }
                let mut first = buffer::<u64>(LARGE / 8 + 1);
                first.push(7);
                let start = first.as_ptr() as usize;
                drop(first);
                let other_size = buffer::<u64>(2 * LARGE / 8 + 1);
                let second = buffer::<u64>(LARGE / 8 + 2);
                // A thread may get what it has given back to the system.
                let is_other = other_size.as_ptr() as usize != start;
                (second.as_ptr() as usize == start, is_other, own::kept())
            };
            std::thread::spawn(work).join().unwrap()
        };
        assert_eq!(again(true), (true, true, 0));
        assert_eq!(again(false).2, 0);
    }

    #[test]
    fn threads_keep_a_few_buffers_each() {
        let kept = || {
            drop([(); 9].map(|()| buffer::<u8>(LARGE)));
            own::kept()
        };
        let in_background = move || {
            background::enter();
            kept()
        };
        assert_eq!((kept(), std::thread::spawn(in_background).join().unwrap()), (0, 6));
    }
}
