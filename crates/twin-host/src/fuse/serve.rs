//! Serves a mount from its first request to its end, and handles signals.

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

/// Serves a mount until it is unmounted. The first signal unmounts it; if a process uses the mount,
/// it is detached from the tree, and the process has `grace_ns` to finish. After the grace, or at
/// the second signal, the session ends although clients still use it.
///
/// When this returns, no operation is under way. The caller must make everything durable.
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
        // Failures are ignored, because only speed depends on it.
        let file = mount.dir.join(name);
        let work = offload(host, move || drop(std::fs::File::open(file)));
        if let Ok(work) = work {
            host.rt().spawn("prime", work);
        }
    }
    // Everything runs in one task, so that nothing is left behind when it ends.
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

/// Unmounting after a signal, and the grace period after it.
struct Stop {
    unmounter: Unmounter,
    grace_ns: Nanos,
    stopping: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Stop {
    /// Begins to unmount. Returns false if it has begun before.
    fn begin(&mut self, host: &Host) -> bool {
        if self.stopping.is_some() {
            return false;
        }
        let (rt, grace_ns, unmounter) = (host.rt().clone(), self.grace_ns, self.unmounter.clone());
        // On another thread, because the kernel sends us writes before it unmounts.
        let work = offload(host, move || unmounter.unmount_or_detach());
        self.stopping = Some(Box::pin(async move {
            if let Ok(work) = work {
                let _ = work.await;
            }
            rt.sleep(grace_ns).await;
        }));
        true
    }

    /// Ready when the grace period is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(stopping) = &mut self.stopping else { return Poll::Pending };
        let over = stopping.as_mut().poll(cx);
        if over.is_ready() {
            *stopping = Box::pin(pending());
        }
        over
    }
}
