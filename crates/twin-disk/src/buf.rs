//! Byte buffers that devices can use directly. They are aligned, can be shared, and can be divided
//! without copying.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The alignment, in bytes, that direct I/O may require of an address in memory.
const ALIGN: usize = 4096;
/// Buffers of this length or more are kept for the next use.
const POOLED_FROM: usize = 16 * ALIGN;
/// Buffers of this length or more are aligned; this costs at most an eighth of their memory.
const ALIGNED_FROM: usize = 8 * ALIGN;
/// A pool keeps this fraction of its bytes, whatever is in use.
const SPARE: usize = 8;

/// A buffer that is being filled and has one owner. A buffer of 32 KiB or more begins at a multiple
/// of 4,096. A smaller one may lie anywhere, because alignment would double the memory of a block;
/// a device copies it together with its neighbours.
#[derive(Debug)]
pub struct Buf {
    storage: Vec<u8>,
    start: usize,
    len: usize,
    /// The pool to which the storage returns when it is no longer needed.
    home: Option<Arc<FreeList>>,
}

impl Buf {
    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Buf {
        if len < ALIGNED_FROM {
            return Buf { storage: vec![0u8; len], start: 0, len, home: None };
        }
        Buf::aligned(len)
    }

    /// A buffer of `len` zero bytes whose first byte lies at a multiple of 4,096, for devices. A
    /// small one wastes memory and should not be kept; see [`compact`](Self::compact).
    pub fn aligned(len: usize) -> Buf {
        Buf::within(vec![0u8; len + ALIGN - 1], len, None)
    }

    fn within(storage: Vec<u8>, len: usize, home: Option<Arc<FreeList>>) -> Buf {
        // `align_offset` may return `usize::MAX` only in const evaluation.
        let start = storage.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        Buf { storage, start, len, home }
    }

    /// A buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        if bytes.len() < ALIGNED_FROM {
            return Buf { storage: bytes.to_vec(), start: 0, len: bytes.len(), home: None };
        }
        // Not zeroed first: that would cost as much again.
        let mut storage: Vec<u8> = Vec::with_capacity(bytes.len() + ALIGN - 1);
        let start = storage.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        storage.resize(start, 0);
        storage.extend_from_slice(bytes);
        Buf { storage, start, len: bytes.len(), home: None }
    }

    /// A buffer that takes these bytes over where they are, so it is aligned to nothing, whatever its
    /// length: for what no device sees.
    pub fn taking(storage: Vec<u8>) -> Buf {
        let len = storage.len();
        Buf { storage, start: 0, len, home: None }
    }

    /// Returns the same bytes without wasted memory: a small aligned buffer is copied into one of
    /// its size.
    pub fn compact(self) -> Buf {
        if self.len < ALIGNED_FROM && self.storage.len() > self.len {
            Buf::copy_of(&self)
        } else {
            self
        }
    }

    /// Cuts the buffer to its first `len` bytes. A larger `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Turns the filled buffer into shared bytes that do not change.
    pub fn freeze(self) -> Bytes {
        let len = self.len as u32;
        Bytes { buf: Arc::new(self), off: 0, len }
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.storage));
        }
    }
}

/// The storage of a pool. Its lock is held for single moves only: buffers return to the pool from any
/// thread, also from those that must not wait.
#[derive(Debug)]
struct FreeList {
    most_bytes: usize,
    kept: Mutex<FreeBuffers>,
}

#[derive(Debug, Default)]
struct FreeBuffers {
    /// Bytes that are not in use.
    bytes: usize,
    /// Number of bytes in buffers that somebody uses.
    used: usize,
    storage: Vec<Vec<u8>>,
}

impl FreeList {
    /// Takes back storage that was in use.
    fn give_back(&self, storage: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.used = kept.used.saturating_sub(storage.len());
        kept.keep(storage, self.most_bytes);
    }

    /// Adds storage that was never in use.
    fn add(&self, storage: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.keep(storage, self.most_bytes);
    }

    /// The storage that was used last, of those that are large enough and at most about twice as
    /// large as needed; or new storage, in place of what does not fit where all would be too much.
    fn take(&self, len: usize) -> Vec<u8> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |storage: &Vec<u8>| storage.len() >= len && storage.len() / 2 <= len;
        if let Some(place) = kept.storage.iter().rposition(fits) {
            let storage = kept.storage.swap_remove(place);
            kept.bytes -= storage.len();
            kept.used += storage.len();
            return storage;
        }
        while kept.bytes > self.most_bytes / SPARE
            && kept.bytes + kept.used + len > self.most_bytes
            && let Some(storage) = kept.storage.pop()
        {
            kept.bytes -= storage.len();
        }
        kept.used += len;
        vec![0u8; len]
    }
}

impl FreeBuffers {
    /// Keeps storage for reuse, unless all storage together, in use or kept, would exceed `most_bytes`.
    /// Buffers in use count, because the bound is on the memory of the process: kept storage gives way
    /// to them, but for a share of [`SPARE`]. What is in use may be the content of a full cache, which has
    /// a bound of its own, and then each buffer that comes needs one that has just left.
    fn keep(&mut self, storage: Vec<u8>, most_bytes: usize) {
        let kept = self.bytes + storage.len();
        if kept <= most_bytes / SPARE || kept + self.used <= most_bytes {
            self.bytes += storage.len();
            self.storage.push(storage);
        }
    }
}

/// A pool of large buffers that are reused. Allocating and zeroing memory for each use would cost
/// as much as filling it. The pool is cheap to clone, and buffers may outlive it.
#[derive(Clone, Debug)]
pub struct BufPool(Arc<FreeList>);

impl BufPool {
    /// A pool that keeps storage for reuse as long as it and what is in use are `most_bytes` at most; an eighth of
    /// these it keeps in any case. More can be in use: what is needed is given.
    pub fn new(most_bytes: usize) -> BufPool {
        BufPool(Arc::new(FreeList { most_bytes, kept: Mutex::default() }))
    }

    /// Adds `count` buffers of `len` bytes, as far as the limit of the pool allows. The operating
    /// system provides their memory now, and not page by page when they are first filled.
    pub fn prepare(&self, count: usize, len: usize) {
        // The bytes are not zero, because the allocator provides zeros without touching the memory.
        (0..count).for_each(|_| self.0.add(vec![0xff; len + ALIGN - 1]));
    }

    /// A buffer of `len` bytes for a device, aligned as [`Buf::aligned`]. The caller overwrites it:
    /// it may contain the bytes of an earlier use. A buffer shorter than 64 KiB does not return to
    /// the pool.
    pub fn take(&self, len: usize) -> Buf {
        if len < POOLED_FROM {
            return Buf::aligned(len);
        }
        let whole = len + ALIGN - 1;
        let storage = self.0.take(whole);
        Buf::within(storage, len, Some(Arc::clone(&self.0)))
    }
}

/// A piece of a shared buffer that does not change, of at most 4 GiB. Cloning and slicing copy no
/// bytes. A small piece keeps its whole buffer in memory, so copy a piece that is kept for long.
#[derive(Clone)]
pub struct Bytes {
    buf: Arc<Buf>,
    off: u32,
    len: u32,
}

impl Bytes {
    /// A shared copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Bytes {
        Buf::copy_of(bytes).freeze()
    }

    /// The bytes `off..off + len` of this slice.
    ///
    /// # Panics
    /// If they are not within this piece.
    #[inline]
    pub fn slice(&self, off: usize, len: usize) -> Bytes {
        assert!(off + len <= self.len as usize, "slice {off}+{len} of {} bytes", self.len);
        Bytes { buf: Arc::clone(&self.buf), off: self.off + off as u32, len: len as u32 }
    }

    /// The bytes, to be changed. They are copied first if the buffer is shared.
    #[inline]
    pub fn make_mut(&mut self) -> &mut [u8] {
        if Arc::get_mut(&mut self.buf).is_none() {
            *self = Bytes::copy_of(self);
        }
        let (off, len) = (self.off as usize, self.len as usize);
        match Arc::get_mut(&mut self.buf) {
            Some(buf) => &mut buf[off..off + len],
            None => unreachable!("a fresh copy has one owner"),
        }
    }

    /// The length in bytes of the whole buffer, which this piece keeps in memory.
    pub fn buffer_len(&self) -> usize {
        self.buf.len
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buf[self.off as usize..(self.off + self.len) as usize]
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_for_direct_io_or_take_no_more_than_they_hold() {
        for len in [0, 1, 512, 4096, ALIGNED_FROM, 100_000] {
            assert_eq!(Buf::aligned(len).as_ptr() as usize % ALIGN, 0);
            for buf in [Buf::zeroed(len), Buf::copy_of(&vec![1; len]), Buf::aligned(len).compact()]
            {
                assert!(buf.storage.len() <= len + len / 8, "{len} bytes");
                assert!(len < ALIGNED_FROM || (buf.as_ptr() as usize).is_multiple_of(ALIGN));
            }
        }
    }

    #[test]
    fn a_pool_gives_what_was_prepared() {
        let pool = BufPool::new(300_000);
        pool.prepare(2, 100_000);
        let both = [pool.take(100_000), pool.take(100_000)];
        assert!(both.iter().all(|buf| buf.iter().all(|&byte| byte == 0xff)));
        assert!(pool.take(100_000).iter().all(|&byte| byte == 0), "there were two");
    }

    #[test]
    fn a_pool_gives_what_came_back_and_keeps_no_more_than_it_may() {
        let pool = BufPool::new(800_000);
        let mut buf = pool.take(140_000);
        buf.fill(7);
        let (at, bytes) = (buf.as_ptr(), buf.freeze());
        let piece = bytes.slice(5, 10);
        drop(bytes);
        // The pool must not hand out the storage, because a slice of it is still in use.
        assert_ne!(pool.take(140_000).as_ptr(), at);
        drop(piece);
        let kept = |pool: &BufPool| pool.0.kept.lock().unwrap().bytes;
        assert_eq!(kept(&pool), 2 * (140_000 + ALIGN - 1));
        // The kept storage is too small for the first length and much too large for the second.
        for len in [150_000, 66_000] {
            assert!(pool.take(len).iter().all(|&b| b == 0));
        }
        let again: Vec<_> = (0..3).map(|_| pool.take(139_000)).collect();
        assert!(again.iter().any(|buf| buf.as_ptr() == at && buf.iter().all(|&b| b == 7)));
        assert!(again.iter().all(|buf| (buf.as_ptr() as usize).is_multiple_of(ALIGN)));
        drop(again);
        assert!(kept(&pool) <= 800_000);
    }

    /// A mount had 200 MiB where 192 were promised: what was kept of one length lay beside what was in
    /// use of another.
    #[test]
    fn what_is_kept_and_what_is_in_use_are_bounded_together() {
        let pool = BufPool::new(1 << 20);
        let all = |pool: &BufPool| {
            let kept = pool.0.kept.lock().unwrap();
            kept.bytes + kept.used
        };
        drop([pool.take(400_000), pool.take(400_000)]);
        assert_eq!(all(&pool), 2 * (400_000 + ALIGN - 1));
        // A buffer of another length is needed, so one of the two kept ones has to go.
        let small = pool.take(150_000);
        let other = pool.take(150_000);
        assert!(all(&pool) <= 1 << 20, "{}", all(&pool));
        // More than the limit is given, and not kept.
        let large: Vec<_> = (0..3).map(|_| pool.take(500_000)).collect();
        assert!(all(&pool) > 1 << 20);
        drop((large, small, other));
        assert!(all(&pool) <= 1 << 20);
    }

    /// Each large write to a mount whose cache was full had new memory, which the kernel had to clear.
    #[test]
    fn a_cache_that_has_all_buffers_gets_those_that_leave_it() {
        let pool = BufPool::new(1 << 20);
        let mut cache: Vec<_> = (0..16).map(|_| pool.take(100_000)).collect();
        for nth in 0..50 {
            let leaves = cache.remove(0);
            let at = leaves.as_ptr();
            drop(leaves);
            cache.push(pool.take(100_000));
            assert_eq!(cache[15].as_ptr(), at, "{nth}");
        }
        cache.truncate(12);
        let kept = pool.0.kept.lock().unwrap().bytes;
        assert!((1..=(1 << 20) / SPARE).contains(&kept), "{kept}");
    }

    #[test]
    fn a_shared_piece_is_copied_before_it_changes() {
        let mut a = Bytes::copy_of(b"hello");
        let b = a.clone();
        a.make_mut()[0] = b'j';
        assert_eq!((&*a, &*b), (&b"jello"[..], &b"hello"[..]));
    }

    #[test]
    fn an_owned_piece_changes_in_place() {
        let mut a = Bytes::copy_of(b"hello").slice(1, 3);
        let before = a.as_ptr();
        a.make_mut()[0] = b'u';
        assert_eq!(a.as_ptr(), before);
        assert_eq!(&*a, b"ull");
    }
}
