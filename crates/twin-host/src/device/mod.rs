//! Image files and raw devices as block devices.
//!
//! Contract beyond that of [`BlockDevice`]: nothing is written before [`BlockDevice::submit`]
//! and nothing completes inside it: every request, the malformed ones included, completes as an
//! event of its own, so that a flight log names them all.

mod gather;
mod open;
mod transfer;

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use twin_disk::{BlockDevice, DeviceInfo, Io, IoKind, Pending, pending};

use crate::Host;

pub use open::{ImageError, ImageOptions, create_image};
pub(crate) use transfer::{Finished, Job, Step, Transfer};

/// The largest request, in bytes. A bound on memory, not on the kernel, which splits by itself.
const MAX_IO: u32 = 64 << 20;

/// An image file or a raw block device, locked for this process until it is dropped.
///
/// Writes are gathered from their blocks without copying where direct I/O allows it; reads go
/// into buffers of their own. Requests are under way at once as far as the file system can tell:
/// the kernel gets them, all in one call, when no task is left to run.
pub struct FileDevice {
    host: Host,
    state: Rc<DeviceState>,
    info: DeviceInfo,
}

/// What a request under way needs of its device.
pub(crate) struct DeviceState {
    /// Numbers the host's devices, from 0, in the order in which they were opened.
    pub(crate) number: u32,
    fd: Arc<OwnedFd>,
    sector: u32,
    /// What direct I/O asks of addresses in memory; 1 without direct I/O.
    memory_align: usize,
    in_flight: Cell<usize>,
    next_id: Cell<u64>,
    no_discard: Cell<bool>,
}

impl FileDevice {
    /// Opens and locks an image file or a block device.
    ///
    /// # Errors
    /// If it does not exist, is neither a regular file nor a block device, is in use (by another
    /// twinfs, or a mounted block device), or may not be opened.
    pub fn open(host: &Host, path: &Path, options: &ImageOptions) -> Result<Self, ImageError> {
        let image = open::open(path, options)?;
        let state = DeviceState {
            number: host.next_device(),
            fd: Arc::new(image.fd),
            sector: image.sector,
            memory_align: image.memory_align,
            in_flight: Cell::new(0),
            next_id: Cell::new(1),
            no_discard: Cell::new(false),
        };
        let name = path.display().to_string();
        let info = DeviceInfo { size: image.size, sector: image.sector, max_io: MAX_IO, name };
        Ok(FileDevice { host: host.clone(), state: Rc::new(state), info })
    }

    /// True if requests bypass the host's page cache (O_DIRECT).
    pub fn is_direct(&self) -> bool {
        self.state.memory_align > 1
    }
}

impl BlockDevice for FileDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, io: Io) -> Pending {
        let (completion, pending) = pending();
        let (op, len) = (io.kind, io.len);
        let id = self.state.next_id.get();
        self.state.next_id.set(id + 1);
        self.state.in_flight.set(self.state.in_flight.get() + 1);
        let refused = self.info.check(&io).err();
        // What was discarded may read as before.
        let pointless = op == IoKind::Discard && self.state.no_discard.get();
        let nothing = len == 0 && op != IoKind::Flush;
        let transfer = Transfer::new(Rc::clone(&self.state), id, io, completion);
        match refused {
            Some(error) => self.host.core().finish(transfer.end(Err(error))),
            None if pointless || nothing => self.host.core().finish(transfer.end(Ok(Vec::new()))),
            None => self.host.core().begin(transfer),
        }
        pending
    }

    fn in_flight(&self) -> usize {
        self.state.in_flight.get()
    }
}
