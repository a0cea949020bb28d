//! A device whose answers arrive a little later, for tests: see [`twin_rt::Order::Yielding`].

use std::rc::Rc;

use twin_rt::{BoxFuture, Rt};

use crate::{BlockDevice, DeviceInfo, Io, IoErrorKind, Pending, ServiceBounds, pending};

/// Wraps a device in a run with [`Order::Yielding`](twin_rt::Order), so that other tasks may run
/// between the end of a request and the task that waits for it. In other runs it returns the device
/// itself.
pub fn yielding(rt: &Rt, device: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
    match rt.yields() {
        Some(rt) => Rc::new(Yielding { rt, device }),
        None => device,
    }
}

struct Yielding {
    rt: Rt,
    device: Rc<dyn BlockDevice>,
}

impl BlockDevice for Yielding {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn submit(&self, io: Io) -> Pending {
        let (done, answer) = pending();
        let (request, rt) = (self.device.submit(io), self.rt.clone());
        self.rt.spawn("late answer", async move {
            let result = request.await;
            rt.maybe_yield().await;
            done.done(result);
        });
        answer
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
