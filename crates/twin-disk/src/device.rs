//! The block-device seam.
//!
//! Contract of every device: addresses and lengths are in bytes and are multiples of the sector
//! size. Requests may complete in any order. A write is durable only after a later
//! [`IoKind::Flush`] has completed; until then any subset of its sectors may survive a power
//! failure. A sector is written whole or not at all.
//!
//! A request may have any length. [`DeviceInfo::max_io`] is the most that a device moves at once.
//! It breaks a longer request up itself ([`Io::parts`]), as a host's block layer does, and
//! completes it when all parts are complete. Callers that can choose should not exceed `max_io`.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use twin_rt::{BoxFuture, Nanos, Receiver, SECS, Sender, Time};

use crate::{Block, total};

/// The kinds of device requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoKind {
    /// Read `len` bytes at `at`.
    Read,
    /// Write `blocks` at `at`.
    Write,
    /// Make all writes durable that completed before this request.
    Flush,
    /// Tell the device that the content of `len` bytes at `at` is no longer needed.
    Discard,
}

/// The class of the bytes of a request. Only recorders and simulations treat classes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Class {
    /// Structures of the file system, which are always real bytes.
    #[default]
    Meta,
    /// Contents of files of users, which simulations may replace by stamps.
    Data,
    /// Both, as in a log write.
    Mixed,
}

/// The part of the file system that makes a request, for statistics and for scheduling policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// An operation of a client, which waits for the request.
    #[default]
    User,
    /// Write-back of dirty blocks.
    WriteBack,
    /// Read-ahead for a sequential reader.
    ReadAhead,
    /// The cleaner moves live blocks.
    Cleaner,
    /// A checkpoint is being written.
    Checkpoint,
    /// Recovery, checks and repairs.
    Recovery,
}

/// One request to a device. It is plain data and may be sent to another thread.
#[derive(Clone, Debug)]
pub struct Io {
    /// The kind of request.
    pub kind: IoKind,
    /// The first byte on the device.
    pub at: u64,
    /// The number of bytes; zero for a flush.
    pub len: u64,
    /// The data of a write, in order; the lengths add up to `len`. Empty for other kinds.
    pub blocks: Vec<Block>,
    /// The class of the bytes, for recorders and simulations.
    pub class: Class,
    /// The part of the file system that makes the request.
    pub origin: Origin,
    /// When its maker needs it, if that is known: a hint for queues that serve by deadline.
    pub deadline: Option<Time>,
}

impl Io {
    /// A read of `len` bytes at byte `at`.
    pub fn read(at: u64, len: u64, class: Class, origin: Origin) -> Io {
        Io { kind: IoKind::Read, at, len, blocks: Vec::new(), class, origin, deadline: None }
    }

    /// A write of `blocks` at byte `at`.
    pub fn write(at: u64, blocks: Vec<Block>, class: Class, origin: Origin) -> Io {
        let len = total(&blocks);
        Io { kind: IoKind::Write, at, len, blocks, class, origin, deadline: None }
    }

    /// A flush of the whole device.
    pub fn flush(origin: Origin) -> Io {
        let (kind, class) = (IoKind::Flush, Class::Meta);
        Io { kind, at: 0, len: 0, blocks: Vec::new(), class, origin, deadline: None }
    }

    /// A discard of `len` bytes at byte `at`.
    pub fn discard(at: u64, len: u64) -> Io {
        let (kind, class) = (IoKind::Discard, Class::Meta);
        Io { kind, at, len, blocks: Vec::new(), class, origin: Origin::WriteBack, deadline: None }
    }

    /// Returns the same request with the time at which its result is needed.
    #[must_use]
    pub fn needed_at(self, deadline: Time) -> Io {
        Io { deadline: Some(deadline), ..self }
    }

    /// Divides a read or write into requests of at most `most` bytes, in order. Other requests stay
    /// whole.
    pub fn parts(self, most: u32) -> Vec<Io> {
        let most = u64::from(most);
        let moves_data = matches!(self.kind, IoKind::Read | IoKind::Write);
        if self.len <= most || most == 0 || !moves_data {
            return vec![self];
        }
        let Io { kind, at: start, len: all, blocks, class, origin, deadline } = self;
        let mut rest = blocks.into_iter();
        let mut cut: Option<Block> = None;
        let mut parts = Vec::new();
        let mut done = 0;
        while done < all {
            let len = most.min(all - done);
            let mut blocks = Vec::new();
            let mut missing = if kind == IoKind::Write { len as usize } else { 0 };
            while missing > 0 {
                let Some(block) = cut.take().or_else(|| rest.next()) else { break };
                let fits = block.len().min(missing);
                if fits < block.len() {
                    cut = Some(block.slice(fits, block.len() - fits));
                    blocks.push(block.slice(0, fits));
                } else {
                    blocks.push(block);
                }
                missing -= fits;
            }
            parts.push(Io { kind, at: start + done, len, blocks, class, origin, deadline });
            done += len;
        }
        parts
    }
}

/// Awaits the parts of a request. Returns the data that they read, in order, or the first error.
pub async fn all_parts(under_way: Vec<Pending>) -> IoResult {
    let mut all = Vec::new();
    let mut failed = None;
    for result in twin_rt::join_all(under_way).await {
        match result {
            Ok(blocks) => all.extend(blocks),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(all), Err)
}

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoErrorKind {
    /// The medium could not be read or written there.
    Medium,
    /// The device has no room for the write (a file on a full file system).
    NoSpace,
    /// The device is gone.
    Gone,
    /// The request is outside the device or not aligned to sectors.
    OutOfRange,
    /// Any other error of the host, with its text.
    Other(String),
}

/// A failed request, with its place on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// The kind of the request.
    pub op: IoKind,
    /// The first byte on the device.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
    /// Why the request failed.
    pub kind: IoErrorKind,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.op {
            IoKind::Read => "reading",
            IoKind::Write => "writing",
            IoKind::Flush => return write!(f, "flushing the device: {}", self.kind),
            IoKind::Discard => "discarding",
        };
        write!(f, "{verb} {} bytes at byte {}: {}", self.len, self.at, self.kind)
    }
}

impl fmt::Display for IoErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoErrorKind::Medium => f.write_str("the medium failed"),
            IoErrorKind::NoSpace => f.write_str("the device has no room for it"),
            IoErrorKind::Gone => f.write_str("the device is gone"),
            IoErrorKind::OutOfRange => f.write_str("outside the device or not on a sector"),
            IoErrorKind::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for IoError {}

/// The result of a request: for a read the data, as blocks whose lengths add up to that of the
/// request; for other kinds an empty list.
pub type IoResult = Result<Vec<Block>, IoError>;

/// A request under way, which is awaited for its result. Dropping it does not stop the request.
pub struct Pending(Receiver<IoResult>);

/// The device's end of a [`Pending`], with which the device completes the request.
pub struct Completion(Sender<IoResult>);

/// A connected pair: the device keeps the completion, the caller gets the pending request.
pub fn pending() -> (Completion, Pending) {
    let (sender, receiver) = twin_rt::oneshot();
    (Completion(sender), Pending(receiver))
}

impl Completion {
    /// Sends the result to the waiting task. If the completion is dropped instead, the task waits
    /// for ever, as after a power failure.
    pub fn done(self, result: IoResult) {
        self.0.send(result);
    }
}

impl Pending {
    /// A request that is already complete.
    pub fn ready(result: IoResult) -> Pending {
        Pending(Receiver::ready(result))
    }
}

impl Future for Pending {
    type Output = IoResult;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// The size, the limits and the name of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The size of the device in bytes.
    pub size: u64,
    /// The unit of addresses, of lengths and of atomic writes, in bytes; it is a power of two.
    pub sector: u32,
    /// The most bytes that the device moves at once; it breaks longer requests up.
    pub max_io: u32,
    /// The name of the device in messages.
    pub name: String,
}

impl DeviceInfo {
    /// Fails with `OutOfRange` unless the request consists of whole sectors inside the device.
    pub fn check(&self, io: &Io) -> Result<(), IoError> {
        let sector = u64::from(self.sector);
        let end = io.at.checked_add(io.len);
        let inside = end.is_some_and(|end| end <= self.size);
        if inside && io.at.is_multiple_of(sector) && io.len.is_multiple_of(sector) {
            return Ok(());
        }
        let kind = IoErrorKind::OutOfRange;
        Err(IoError { op: io.kind, at: io.at, len: io.len, kind })
    }
}

/// The origin of a request, and the time by which it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Purpose {
    /// The part of the file system that makes it.
    pub origin: Origin,
    /// When it is needed, if that is known.
    pub deadline: Option<Time>,
}

impl From<Origin> for Purpose {
    fn from(origin: Origin) -> Purpose {
        Purpose { origin, deadline: None }
    }
}

/// The longest times that a device can promise for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceBounds {
    /// The longest time until the data of a request anywhere begins to move, in nanoseconds.
    pub positioning_ns: Nanos,
    /// Bytes a second of a long request, at the slowest place.
    pub bytes_per_s: u64,
}

impl ServiceBounds {
    /// The longest time in nanoseconds that `requests` requests with `bytes` bytes in all can take.
    pub fn worst_ns(&self, requests: u64, bytes: u64) -> Nanos {
        let moving = u128::from(bytes) * u128::from(SECS) / u128::from(self.bytes_per_s.max(1));
        let moving = Nanos::try_from(moving).unwrap_or(Nanos::MAX);
        requests.saturating_mul(self.positioning_ns).saturating_add(moving)
    }
}

/// A block device: a disk model, an image file or a real disk.
pub trait BlockDevice: 'static {
    /// The size, the limits and the name of the device.
    fn info(&self) -> DeviceInfo;

    /// Starts a request, without waiting. The request is under way when the call returns, even if
    /// the result is never awaited.
    fn submit(&self, io: Io) -> Pending;

    /// The number of requests that are submitted and not complete.
    fn in_flight(&self) -> usize;

    /// The longest times of requests; `None` if nobody knows them.
    fn bounds(&self) -> Option<ServiceBounds> {
        None
    }

    /// True if [`drop_dead`](Self::drop_dead) is of use to it, which then includes what only a recovery would read.
    fn drops_dead(&self) -> bool {
        false
    }

    /// While it [`drops_dead`](Self::drops_dead): nobody will read `len` bytes at `at` again before they are
    /// written again. Unlike a [discard](Io::discard) this is no request: it takes no
    /// time, is in no statistics and changes nothing that can be seen through requests. A simulated disk may drop
    /// from memory what lies there.
    fn drop_dead(&self, at: u64, len: u64) {
        let _ = (at, len);
    }

    /// Looks whether the device has become larger, after it was made to have at least `to` bytes, if that is
    /// asked for: an image file can be made longer. Gives the size, which is that of [`info`](Self::info) from now on.
    /// Nothing of what is there changes.
    ///
    /// # Errors
    /// If it cannot become so large.
    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        let size = self.info().size;
        let why = || IoErrorKind::Other("this device has the size that it has".into());
        let fits = to.is_none_or(|to| to <= size);
        Box::pin(ready(if fits { Ok(size) } else { Err(why()) }))
    }
}

impl<D: BlockDevice + ?Sized> BlockDevice for std::rc::Rc<D> {
    fn info(&self) -> DeviceInfo {
        (**self).info()
    }
    fn submit(&self, io: Io) -> Pending {
        (**self).submit(io)
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
    fn bounds(&self) -> Option<ServiceBounds> {
        (**self).bounds()
    }
    fn drops_dead(&self) -> bool {
        (**self).drops_dead()
    }
    fn drop_dead(&self, at: u64, len: u64) {
        (**self).drop_dead(at, len);
    }
    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        (**self).grow(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, gather};

    #[test]
    fn the_parts_of_a_write_have_its_bytes_in_order_and_none_is_too_long() {
        let bytes: Vec<u8> = (0..150_016u32).map(|i| i as u8).collect();
        let blocks = bytes.chunks(10_000).map(|c| Block::Bytes(Bytes::copy_of(c))).collect();
        let parts = Io::write(4096, blocks, Class::Data, Origin::User).parts(64 << 10);
        assert_eq!(parts.len(), 3);
        let mut at = 4096;
        for part in &parts {
            assert_eq!((part.at, part.kind), (at, IoKind::Write));
            let len = part.len as usize;
            let start = (at - 4096) as usize;
            assert_eq!(gather(&part.blocks, 0, len).to_bytes()[..], bytes[start..start + len]);
            at += part.len;
        }
        assert_eq!(at, 4096 + 150_016);
    }

    #[test]
    fn what_fits_and_what_moves_no_data_stays_whole() {
        assert_eq!(Io::read(0, 512, Class::Data, Origin::User).parts(512).len(), 1);
        assert_eq!(Io::read(0, 1024, Class::Data, Origin::User).parts(512).len(), 2);
        assert_eq!(Io::discard(0, 1 << 40).parts(512).len(), 1);
        assert_eq!(Io::flush(Origin::User).parts(512).len(), 1);
    }
}
