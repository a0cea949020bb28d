//! Serves a mount from its first request to its end, and handles signals.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use twin_fs::FileSystem;
use twin_rt::{Nanos, SECS};

use super::deputy::Deputy;
use super::errand::Errand;
use super::mount::Mount;
use super::session::{End, Session};
use crate::host::Host;
use crate::signals::Signals;

/// How long the first calls into a mount may take until it counts as ready all the same.
const PRIMING_NS: Nanos = 10 * SECS;

/// Serves a mount until it is unmounted. `ready` is called when the mount is idle: nothing of ours uses
/// it then, so that it could be unmounted at once. The first signal unmounts it; if a process uses the
/// mount, it is detached from the tree, and the process has `grace_ns` to finish. After the grace, or
/// at the second signal, the session ends although clients still use it.
///
/// When this returns, no operation is under way. The caller must make everything durable.
///
/// # Errors
/// If `/dev/fuse` cannot be read, or `ready` fails.
pub async fn serve<F: FileSystem>(
    host: &Host,
    mut mount: Mount,
    session: &Session<F>,
    signals: Option<Rc<Signals>>,
    grace_ns: Nanos,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<End> {
    session.placed(&mount)?;
    let deputy = mount.deputy().clone();
    let mut priming = pin!(prime(host, &deputy, session.wants_priming()));
    let mut ready = Some(ready);
    // Everything runs in one task, so that nothing is left behind when it ends.
    let mut run = pin!(session.run());
    let mut stop = Stop { deputy: deputy.clone(), grace_ns, stopping: None };
    let mut failed = None;
    let end = poll_fn(|cx| {
        if ready.is_some() && priming.as_mut().poll(cx).is_ready() {
            failed = ready.take().and_then(|ready| ready().err());
            if failed.is_some() {
                session.abandon();
            }
        }
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
    // A program that unmounts this early finds the mount ready, too.
    failed = failed.or_else(|| ready.take().and_then(|ready| ready().err()));
    match failed {
        Some(error) => Err(error),
        None => end,
    }
}

/// Serves a mount while `work` is under way, then unmounts it, and returns what the work came to. Who still uses the
/// mount then has `grace_ns` to end.
///
/// # Errors
/// If `/dev/fuse` cannot be read, or somebody else unmounted it before the work had ended.
pub async fn serve_while<F: FileSystem, T>(
    host: &Host,
    mut mount: Mount,
    session: &Session<F>,
    grace_ns: Nanos,
    work: impl Future<Output = T>,
) -> io::Result<T> {
    session.placed(&mount)?;
    let mut stop = Stop { deputy: mount.deputy().clone(), grace_ns, stopping: None };
    let mut run = pin!(session.run());
    let mut work = pin!(work);
    let mut done = None;
    let end = poll_fn(|cx| {
        if done.is_none()
            && let Poll::Ready(value) = work.as_mut().poll(cx)
        {
            done = Some(value);
            stop.begin(host);
        }
        if stop.poll(cx).is_ready() {
            session.abandon();
        }
        run.as_mut().poll(cx)
    });
    let end = end.await;
    mount.gone = matches!(end, Ok(End::Unmounted));
    end?;
    done.ok_or_else(|| io::Error::other("it was unmounted while it was in use"))
}

/// Makes the first calls into a mount. Failures are ignored, because only speed depends on it.
async fn prime(host: &Host, deputy: &Deputy, wanted: bool) {
    if !wanted {
        return;
    }
    let mut done = pin!(deputy.ask(&Errand::Prime));
    let mut late = pin!(host.rt().sleep(PRIMING_NS));
    poll_fn(|cx| {
        let over = done.as_mut().poll(cx).is_ready() || late.as_mut().poll(cx).is_ready();
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Unmounting after a signal, and the grace period after it.
struct Stop {
    deputy: Deputy,
    grace_ns: Nanos,
    stopping: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Stop {
    /// Begins to unmount. Returns false if it has begun before.
    fn begin(&mut self, host: &Host) -> bool {
        if self.stopping.is_some() {
            return false;
        }
        let (rt, grace_ns) = (host.rt().clone(), self.grace_ns);
        // The deputy does it, because the kernel sends us writes before it unmounts.
        let work = self.deputy.ask(&Errand::Unmount);
        self.stopping = Some(Box::pin(async move {
            let _ = work.await;
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
