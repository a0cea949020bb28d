//! A mount from its first request to its end, signals included.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use twin_fs::FileSystem;
use twin_rt::Nanos;

use super::mount::{Mount, Unmounter};
use super::session::{End, Session};
use crate::host::Host;
use crate::offload::offload;
use crate::signals::Signals;

/// Serves a mount until it is unmounted. The first signal unmounts it (if a process uses it: takes
/// it out of the tree, and leaves `grace_ns` to end that); after the grace, or at the second
/// signal, the session ends although clients still hold on to it.
///
/// When this returns, no operation is under way. Making everything durable is up to the caller.
///
/// # Errors
/// If `/dev/fuse` cannot be read.
pub async fn serve<F: FileSystem>(
    host: &Host,
    mut mount: Mount,
    session: &Session<F>,
    signals: Option<Rc<Signals>>,
    grace_ns: Nanos,
) -> io::Result<End> {
    session.placed(&mount);
    if let Some(name) = session.prime_name() {
        // Best effort: only speed depends on it.
        let file = mount.dir.join(name);
        let work = offload(host, move || drop(std::fs::File::open(file)));
        if let Ok(work) = work {
            host.rt().spawn("prime", work);
        }
    }
    // All in one task: nothing is left behind when it ends.
    let mut run = pin!(session.run());
    let mut stop = Stop { unmounter: mount.unmounter(), grace_ns, stopping: None };
    let end = poll_fn(|cx| {
        let signal = signals.as_ref().map_or(Poll::Pending, |signals| signals.poll_next(cx));
        if signal.is_ready() && !stop.begin(host) {
            session.abandon();
        }
        if stop.poll(cx).is_ready() {
            session.abandon();
        }
        run.as_mut().poll(cx)
    });
    let end = end.await;
    mount.gone = matches!(end, Ok(End::Unmounted));
    end
}

/// Unmounting at a signal, and the grace after it.
struct Stop {
    unmounter: Unmounter,
    grace_ns: Nanos,
    stopping: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Stop {
    /// Begins; false if it has begun before.
    fn begin(&mut self, host: &Host) -> bool {
        if self.stopping.is_some() {
            return false;
        }
        let (rt, grace_ns, unmounter) = (host.rt().clone(), self.grace_ns, self.unmounter.clone());
        // On another thread: the kernel writes to us before it lets go.
        let work = offload(host, move || unmounter.unmount_or_detach());
        self.stopping = Some(Box::pin(async move {
            if let Ok(work) = work {
                let _ = work.await;
            }
            rt.sleep(grace_ns).await;
        }));
        true
    }

    /// Ready when the grace is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(stopping) = &mut self.stopping else { return Poll::Pending };
        let over = stopping.as_mut().poll(cx);
        if over.is_ready() {
            *stopping = Box::pin(pending());
        }
        over
    }
}
