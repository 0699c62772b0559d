//! Prefetching a cache line.

/// Fetch the line that holds `bytes[at]`, if the machine can; out of bounds nothing happens.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one instruction; a call around it would cost more than it")]
pub(crate) fn line(bytes: &[u8], at: usize) {
    item(bytes, at);
}

/// Fetch the line in which `items[at]` begins, if the machine can; out of bounds nothing happens.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one instruction; a call around it would cost more than it")]
pub(crate) fn item<T>(items: &[T], at: usize) {
    let Some(item) = items.get(at) else { return };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees and cannot fault; SSE is part of
        // every x86-64.
        #[expect(unsafe_code, reason = "the hint has no safe spelling")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // Out-of-order cores overlap the loads that follow; there is no stable hint here.
        let _ = item;
    }
}
