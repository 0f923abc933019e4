//! Keeping an idle process small.

/// Lets all threads of this process share two heaps. By itself glibc gives
/// every thread one, eight for each core, and each of them keeps what its
/// thread once needed: a third of the resident memory here. To be called
/// first thing in `main`; elsewhere than on glibc it does nothing.
pub fn share_heaps() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the allocator's settings have no other door")]
    // SAFETY: it stores a number; what it returns says only whether it did.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}
