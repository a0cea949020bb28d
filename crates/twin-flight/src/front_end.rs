//! The front end of a run that is fed from outside, as a mount is fed by the kernel: requests
//! arrive at any time, and the volume is closed when all of them have been answered.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

use twin_fs::{FsError, Request, Volume};
use twin_rt::Rt;

/// The requests that have arrived, and whether more will come.
#[derive(Default)]
pub struct FrontEnd {
    arrivals: RefCell<VecDeque<Request>>,
    closing: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    operations: Cell<u64>,
    in_flight: Cell<u64>,
}

impl FrontEnd {
    /// A request arrives.
    pub fn arrive(&self, request: Request) {
        self.arrivals.borrow_mut().push_back(request);
        self.wake();
    }

    /// No more requests come.
    pub fn close(&self) {
        self.closing.set(true);
        self.wake();
    }

    /// True if no more requests come.
    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Number of requests that have arrived so far.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Executes arriving requests on the volume, each as a task, until no request is left and no
    /// more come; then closes the volume.
    ///
    /// # Errors
    /// Those of closing.
    pub async fn serve(self: Rc<Self>, rt: Rt, volume: Volume) -> Result<(), FsError> {
        std::future::poll_fn(|cx| {
            while let Some(request) = self.next() {
                let (volume, front_end) = (volume.clone(), Rc::clone(&self));
                rt.run_or_spawn("operation", async move {
                    let _ = volume.execute(request).await;
                    front_end.answered();
                });
            }
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            let done = self.closing.get() && self.in_flight.get() == 0;
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        volume.close().await
    }

    fn next(&self) -> Option<Request> {
        let request = self.arrivals.borrow_mut().pop_front()?;
        self.operations.set(self.operations.get() + 1);
        self.in_flight.set(self.in_flight.get() + 1);
        Some(request)
    }

    fn answered(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 && self.closing.get() {
            self.wake();
        }
    }
}
