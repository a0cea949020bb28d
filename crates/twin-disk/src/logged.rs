//! A device whose requests are reported as events of the category [`Category::Queue`].

use std::rc::Rc;

use twin_rt::{BoxFuture, Category, Rt};

use crate::{BlockDevice, DeviceInfo, Io, IoErrorKind, IoKind, Pending, ServiceBounds};

/// Wraps a device so that each request is reported when it is submitted, with the number of
/// requests that are then under way. Returns the device itself if no listener wants these events.
pub fn logged(rt: &Rt, device: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
    match rt.logs(Category::Queue) {
        true => Rc::new(Logged { rt: rt.clone(), device }),
        false => device,
    }
}

struct Logged {
    rt: Rt,
    device: Rc<dyn BlockDevice>,
}

impl BlockDevice for Logged {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn submit(&self, io: Io) -> Pending {
        let name = match io.kind {
            IoKind::Read => "read",
            IoKind::Write => "write",
            IoKind::Flush => "flush",
            IoKind::Discard => "discard",
        };
        let under_way = self.device.in_flight() as u64;
        self.rt.log(Category::Queue, name, || {
            [("at_byte", io.at), ("bytes", io.len), ("under_way", under_way)]
        });
        self.device.submit(io)
    }

    fn in_flight(&self) -> usize {
        self.device.in_flight()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.device.bounds()
    }

    fn drops_dead(&self) -> bool {
        self.device.drops_dead()
    }

    fn drop_dead(&self, at: u64, len: u64) {
        self.device.drop_dead(at, len);
    }

    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        self.device.grow(to)
    }
}
