//! The memory allocation of this process.
//!
//! A mount allocates and frees buffers of a megabyte all the time. By default the C library returns
//! such buffers to the kernel at once and requests new ones, whose pages are then created and
//! zeroed one by one. That takes more than half the time of receiving a large write.
//!
//! Huge pages are not asked for. On a virtual machine of two processors a page's first use took 1.7 us, and
//! 0.4 us for as much of a huge one; but a mount that had its cache in huge pages
//! (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`) took as long for 4,000 small files and nearly twice as long for
//! 100 MB in one, because large pieces of memory have to be found and zeroed first.

#![allow(unsafe_code)] // The C library's knobs have no safe wrapper.

/// The largest buffer that is kept for reuse, in bytes: the most that the library allows.
#[cfg(target_env = "gnu")]
const KEEP_UP_TO: libc::c_int = 32 << 20;

/// Makes this whole process keep at most `most_bytes` of freed buffers for reuse, besides large
/// ones, which the host keeps itself. Has no effect if the C library is not glibc.
///
/// All threads share one heap. One thread does nearly all the work, and each further heap would
/// keep what its thread has freed, in excess of `most_bytes`.
pub fn keep_freed_buffers(most_bytes: usize) {
    let _keep_free = libc::c_int::try_from(most_bytes).unwrap_or(libc::c_int::MAX);
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes plain numbers and locks what it changes; a refused value changes
    // nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEEP_UP_TO);
        libc::mallopt(libc::M_TRIM_THRESHOLD, _keep_free);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
