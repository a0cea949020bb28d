//! Read-ahead for small reads that are near each other. It replaces the track buffer for a device
//! that has none.
//!
//! A log stores small files, and the inodes of a directory, one behind the other. Without
//! read-ahead, a cold read of them makes as many small requests, each of which waits for the one
//! before. Therefore a small read that closely follows another one is replaced by a larger read, a
//! window, in which the reads behind it find their data. Windows grow with the number of reads that
//! follow each other. A read that follows no other is made unchanged.
//!
//! Contract: a window holds the content that the device had when it was read. It is dropped as soon
//! as a write or a discard that touches it is submitted. A window that cannot be read costs only
//! time: the reads that waited for it are then made on their own.

use std::collections::VecDeque;

use twin_disk::{Block, Bytes, Completion};

/// Reads of at least this many bytes are large: a caller that makes them has read ahead itself.
const LARGE: u64 = 64 << 10;
/// A read that begins at most this many bytes behind the end of another one follows it.
const NEAR: u64 = 64 << 10;
/// The sizes of the first window of a run of reads, and of the largest, in bytes.
const FIRST: u64 = 32 << 10;
const MOST: u64 = 256 << 10;
/// The number of windows in memory, and of runs of reads that are remembered.
const WINDOWS: usize = 24;
const RUNS: usize = 12;

/// A read that waits for a window.
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) completion: Completion,
}

struct Window {
    number: u64,
    at: u64,
    len: u64,
    /// The content, after it was read.
    bytes: Option<Bytes>,
    waiters: Vec<Waiter>,
    /// True if the range was written after the read began: only reads that wait already may use it.
    stale: bool,
}

impl Window {
    fn has(&self, at: u64, len: u64) -> bool {
        !self.stale && self.at <= at && at + len <= self.at + self.len
    }
}

/// A run of small reads near each other.
struct ReadRun {
    end: u64,
    window: u64,
}

/// How a read is to be served.
pub(super) enum Advice {
    /// The data is here; the caller completes the read with it.
    Here(Bytes, Completion),
    /// The read waits for a window that is being read.
    Waits,
    /// The read waits for this window, which the caller must read: number, place and length.
    Window(u64, u64, u64),
    /// The caller makes this read unchanged.
    Alone(Waiter),
}

/// The windows of a device.
pub(super) struct Ahead {
    /// The size of the device in bytes.
    size: u64,
    sector: u64,
    next: u64,
    windows: VecDeque<Window>,
    runs: VecDeque<ReadRun>,
}

impl Ahead {
    pub(super) fn new(size: u64, sector: u64) -> Ahead {
        Ahead { size, sector, next: 0, windows: VecDeque::new(), runs: VecDeque::new() }
    }

    /// The device has become larger.
    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Decides about a read, which must be within the device and not empty.
    pub(super) fn read(&mut self, waiter: Waiter) -> Advice {
        let (at, len) = (waiter.at, waiter.len);
        if len >= LARGE {
            return Advice::Alone(waiter);
        }
        let length = self.follow(at, len);
        if let Some(place) = self.windows.iter().position(|w| w.has(at, len)) {
            let window = &mut self.windows[place];
            let Some(bytes) = &window.bytes else {
                window.waiters.push(waiter);
                return Advice::Waits;
            };
            // Copied, because the reader may keep its block for long and would keep the whole
            // window alive.
            let cut = bytes.slice((at - window.at) as usize, len as usize);
            return Advice::Here(Bytes::copy_of(&cut), waiter.completion);
        }
        let length = length.min((self.size - at) / self.sector * self.sector);
        if length <= len {
            return Advice::Alone(waiter);
        }
        self.make_room();
        let number = self.next;
        self.next += 1;
        let waiters = vec![waiter];
        let window = Window { number, at, len: length, bytes: None, waiters, stale: false };
        self.windows.push_back(window);
        Advice::Window(number, at, length)
    }

    /// The length of the window to read for this request; 0 if it follows no other read.
    fn follow(&mut self, at: u64, len: u64) -> u64 {
        let end = at + len;
        let near = |run: &ReadRun| at + NEAR >= run.end && at <= run.end + NEAR;
        let place = self.runs.iter().position(near);
        let run = match place.and_then(|place| self.runs.remove(place)) {
            Some(run) => ReadRun { end, window: (run.window * 2).clamp(FIRST, MOST) },
            None => ReadRun { end, window: 0 },
        };
        if self.runs.len() == RUNS {
            self.runs.pop_front();
        }
        let window = run.window;
        self.runs.push_back(run);
        window
    }

    fn make_room(&mut self) {
        let idle = |w: &Window| w.bytes.is_some() || w.stale && w.waiters.is_empty();
        if self.windows.len() >= WINDOWS
            && let Some(place) = self.windows.iter().position(idle)
        {
            self.windows.remove(place);
        }
    }

    /// Drops the windows that hold these bytes, which are about to change.
    pub(super) fn forget(&mut self, at: u64, len: u64) {
        let touched = |w: &Window| w.at < at.saturating_add(len) && at < w.at + w.len;
        self.windows.iter_mut().filter(|w| touched(w)).for_each(|w| w.stale = true);
        self.windows.retain(|w| !w.stale || w.bytes.is_none());
    }

    /// Ends a window. Returns the reads that waited for it, with their data if it was read and
    /// without data if it could not be read.
    pub(super) fn done(&mut self, number: u64, blocks: Option<&[Block]>) -> Vec<Ended> {
        let Some(place) = self.windows.iter().position(|w| w.number == number) else {
            return Vec::new();
        };
        let bytes = match blocks {
            Some([Block::Bytes(bytes)]) => Some(bytes.clone()),
            _ => None,
        };
        let window = &mut self.windows[place];
        let from = window.at;
        let cut = |w: &Waiter| {
            let bytes = bytes.as_ref()?;
            Some(Bytes::copy_of(&bytes.slice((w.at - from) as usize, w.len as usize)))
        };
        let waiters = std::mem::take(&mut window.waiters);
        let ended = waiters.into_iter().map(|w| (cut(&w), w)).collect();
        if window.stale || bytes.is_none() {
            self.windows.remove(place);
        } else {
            window.bytes = bytes;
        }
        ended
    }
}

/// A read that waited, with its data if there is any.
pub(super) type Ended = (Option<Bytes>, Waiter);

#[cfg(test)]
mod tests {
    use super::*;
    use twin_disk::{Buf, pending};

    fn read(ahead: &mut Ahead, at: u64, len: u64) -> Advice {
        let (completion, _) = pending();
        ahead.read(Waiter { id: at, at, len, completion })
    }

    fn device(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i / 512 % 251) as u8).collect()
    }

    /// Reads the window that the advice asks for, if any, from `content`.
    fn serve(ahead: &mut Ahead, advice: &Advice, content: &[u8]) -> Vec<Ended> {
        let &Advice::Window(number, at, len) = advice else { return Vec::new() };
        let part = &content[at as usize..(at + len) as usize];
        ahead.done(number, Some(&[Block::Bytes(Buf::copy_of(part).freeze())]))
    }

    #[test]
    fn reads_that_follow_each_other_need_few_requests_and_others_none_more() {
        let content = device(4 << 20);
        let mut ahead = Ahead::new(4 << 20, 512);
        let mut requests = 0;
        for i in 0..1000 {
            let (at, want) = (i * 1024, &content[(i * 1024) as usize..][..1024]);
            let advice = read(&mut ahead, at, 1024);
            for (bytes, waiter) in serve(&mut ahead, &advice, &content) {
                let from = waiter.at as usize;
                assert!(bytes.unwrap()[..] == content[from..from + 1024]);
            }
            match advice {
                Advice::Here(bytes, _) => assert!(bytes[..] == *want),
                _ => requests += 1,
            }
        }
        assert!(requests < 12, "{requests} requests");
        let mut ahead = Ahead::new(1 << 40, 512);
        let apart = (0..200).map(|i| (i * 7919 % 200) << 30);
        assert!(apart.into_iter().all(|at| matches!(read(&mut ahead, at, 4096), Advice::Alone(_))));
    }

    #[test]
    fn nothing_that_was_written_over_is_given_to_later_reads() {
        let mut content = device(1 << 20);
        let mut ahead = Ahead::new(1 << 20, 512);
        read(&mut ahead, 0, 4096);
        let advice = read(&mut ahead, 4096, 4096);
        serve(&mut ahead, &advice, &content);
        assert!(matches!(read(&mut ahead, 8192, 4096), Advice::Here(..)));
        content[8192..12_288].fill(1);
        ahead.forget(8192, 4096);
        let advice = read(&mut ahead, 8192, 4096);
        // The range is written while the window is being read: the waiting reads may still use it.
        ahead.forget(12_288, 4096);
        assert!(!matches!(read(&mut ahead, 12_288, 4096), Advice::Here(..) | Advice::Waits));
        let ended = serve(&mut ahead, &advice, &content);
        assert_eq!(ended.len(), 1);
        assert!(ended[0].0.as_ref().unwrap().iter().all(|&b| b == 1));
        assert!(!matches!(read(&mut ahead, 8192, 4096), Advice::Here(..)));
    }

    #[test]
    fn a_window_that_cannot_be_read_leaves_its_readers_to_themselves() {
        let mut ahead = Ahead::new(1 << 20, 512);
        read(&mut ahead, 0, 4096);
        let Advice::Window(number, ..) = read(&mut ahead, 4096, 4096) else { panic!() };
        assert!(matches!(read(&mut ahead, 8192, 4096), Advice::Waits));
        let ended = ahead.done(number, None);
        assert!(ended.len() == 2 && ended.iter().all(|(bytes, _)| bytes.is_none()));
    }

    #[test]
    fn a_window_ends_with_the_device() {
        let mut ahead = Ahead::new(10_000, 512);
        read(&mut ahead, 0, 4096);
        assert!(matches!(read(&mut ahead, 4096, 512), Advice::Window(_, 4096, 5632)));
    }
}
