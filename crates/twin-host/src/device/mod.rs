//! Image files and raw devices as block devices.
//!
//! Contract beyond that of [`BlockDevice`]: nothing is written before [`BlockDevice::submit`], and
//! nothing completes inside it. Every request, even a malformed one, completes as an event of its
//! own, so that a flight log contains them all.

mod ahead;
mod error;
mod exclusion;
mod extent;
mod gather;
mod observe;
mod open;
mod patience;
mod queue;
mod transfer;

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use twin_disk::{
    Block, BlockDevice, BufPool, Class, Completion, DeviceInfo, Io, IoError, IoErrorKind, IoKind,
    IoResult, Origin, Pending, pending,
};

use twin_rt::BoxFuture;

use crate::Host;

use self::ahead::{Advice, Ahead, Waiter};
use self::extent::Extent;
use self::observe::Observed;
use self::queue::DriverQueue;
use self::transfer::ResultOwner;

pub use error::ImageError;
pub use exclusion::is_foreign;
pub use observe::{RequestObserver, Requests};
use open::whole;
pub use open::{ImageOptions, create_image};
pub use queue::QueueChoice;
pub(crate) use transfer::{Ending, Finished, Job, Step, Transfer, WaitingName};

/// The largest request, in bytes. It bounds memory; the kernel splits large requests itself.
const MAX_IO: u32 = 64 << 20;

/// An image file or a raw block device, locked for this process until it is dropped.
///
/// Writes are made from the memory of their blocks without copying where direct I/O allows it;
/// reads go into their own buffers. For the file system a request is under way at once: the kernel
/// gets all new requests in one call, when no task is ready to run.
pub struct FileDevice {
    host: Host,
    state: Rc<DeviceState>,
    info: RefCell<DeviceInfo>,
}

/// The state of a device that its requests share.
pub(crate) struct DeviceState {
    /// The number of the device on its host, from 0, in the order in which devices were opened.
    pub(crate) number: u32,
    fd: Arc<OwnedFd>,
    sector: u32,
    /// The alignment that direct I/O requires in memory; 1 without direct I/O.
    memory_align: usize,
    in_flight: Cell<usize>,
    next_id: Cell<u64>,
    no_discard: Cell<bool>,
    /// Whether the device is as large as it was.
    extent: Extent,
    buffers: BufPool,
    /// Windows that were read ahead of small reads.
    ahead: RefCell<Ahead>,
    /// The order in which requests reach the kernel.
    queue: DriverQueue,
    observed: Observed,
}

impl DeviceState {
    /// Called when a request of this device has its result.
    fn finished(&self, id: u64, completion: Completion, result: IoResult) -> Finished {
        self.in_flight.set(self.in_flight.get() - 1);
        self.observed.ended(id);
        Finished { device: self.number, id, completion, result }
    }
}

impl FileDevice {
    /// Opens and locks an image file or a block device.
    ///
    /// # Errors
    /// If it does not exist, is neither a regular file nor a block device, is in use (by another
    /// twinfs, or a mounted block device), or may not be opened.
    pub fn open(host: &Host, path: &Path, options: &ImageOptions) -> Result<Self, ImageError> {
        let image = open::open(path, options)?;
        let fd = Arc::new(image.fd);
        let state = DeviceState {
            number: host.next_device(),
            fd: Arc::clone(&fd),
            extent: Extent::new(fd, image.is_device, image.size, image.claim),
            sector: image.sector,
            memory_align: image.memory_align,
            in_flight: Cell::new(0),
            next_id: Cell::new(1),
            no_discard: Cell::new(false),
            buffers: host.buffers(),
            ahead: RefCell::new(Ahead::new(image.size, image.sector.into())),
            queue: image.queue,
            observed: Observed::default(),
        };
        let name = path.display().to_string();
        let info = DeviceInfo { size: image.size, sector: image.sector, max_io: MAX_IO, name };
        Ok(FileDevice { host: host.clone(), state: Rc::new(state), info: RefCell::new(info) })
    }

    /// The queue in which requests wait that the device does not take yet, and how many it takes at
    /// once; without a queue all.
    pub fn queue(&self) -> (&'static str, Option<usize>) {
        self.state.queue.described()
    }

    /// The seam by which the device's requests are observed, wherever the device itself is moved.
    pub fn requests(&self) -> Requests {
        Requests::of(&self.state)
    }

    /// True if requests bypass the host's page cache (O_DIRECT).
    pub fn is_direct(&self) -> bool {
        self.state.memory_align > 1
    }
}

impl FileDevice {
    fn read(&self, waiter: Waiter, class: Class) {
        let core = self.host.core();
        let (id, advice) = (waiter.id, self.state.ahead.borrow_mut().read(waiter));
        match advice {
            Advice::Here(bytes, completion) => {
                let result = Ok(vec![Block::Bytes(bytes)]);
                core.finish(self.state.finished(id, completion, result));
            }
            Advice::Waits => {}
            Advice::Window(number, at, len) => {
                let io = Io::read(at, len, class, Origin::ReadAhead);
                let whose = ResultOwner::Window(number);
                core.begin(Transfer::new(Rc::clone(&self.state), whose, io));
            }
            Advice::Alone(waiter) => core.begin(Transfer::read(&self.state, waiter)),
        }
    }
}

impl BlockDevice for FileDevice {
    fn info(&self) -> DeviceInfo {
        self.info.borrow().clone()
    }

    fn submit(&self, io: Io) -> Pending {
        let (completion, pending) = pending();
        let (op, len) = (io.kind, io.len);
        let id = self.state.next_id.get();
        self.state.next_id.set(id + 1);
        self.state.in_flight.set(self.state.in_flight.get() + 1);
        self.state.observed.submitted(id, &io);
        let refused = self.info.borrow().check(&io).err();
        // Changes must not make a file long again that was cut: what was in it is lost.
        let changes = matches!(op, IoKind::Write | IoKind::Flush | IoKind::Discard);
        let refused = refused.or_else(|| {
            let kind = self.state.extent.check().filter(|_| changes)?;
            Some(IoError { op, at: io.at, len, kind })
        });
        // Skipped after the host has refused one: a discarded range may keep its content.
        let pointless = op == IoKind::Discard && self.state.no_discard.get();
        let nothing = len == 0 && op != IoKind::Flush;
        let done = match refused {
            Some(error) => Some(Err(error)),
            None => (pointless || nothing).then(|| Ok(Vec::new())),
        };
        let core = self.host.core();
        match done {
            Some(result) => core.finish(self.state.finished(id, completion, result)),
            None if op == IoKind::Read => {
                self.read(Waiter { id, at: io.at, len, completion }, io.class);
            }
            None => {
                self.state.ahead.borrow_mut().forget(io.at, len);
                let whose = ResultOwner::One(id, completion);
                core.begin(Transfer::new(Rc::clone(&self.state), whose, io));
            }
        }
        pending
    }

    fn in_flight(&self) -> usize {
        self.state.in_flight.get()
    }

    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        let grown = self.state.extent.grow(to).map(|size| whole(size, self.state.sector));
        if let Ok(size) = grown {
            self.state.ahead.borrow_mut().set_size(size);
            self.info.borrow_mut().size = size;
        }
        Box::pin(ready(grown))
    }
}
