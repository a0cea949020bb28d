//! A mount from its first request to its end, signals included.

use std::io;
use std::rc::Rc;

use twin_fs::FileSystem;
use twin_rt::Nanos;

use super::mount::Mount;
use super::session::{End, Session};
use crate::host::Host;
use crate::offload::offload;
use crate::signals::Signals;

/// Serves a mount until it is unmounted. The first signal unmounts it (if somebody uses it: takes
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
    if let Some(signals) = signals {
        let unmounter = mount.unmounter();
        let (host2, session2) = (host.clone(), session.clone());
        host.rt().spawn("signals", async move {
            signals.next().await;
            let (host3, session3) = (host2.clone(), session2.clone());
            host2.rt().spawn("unmount", async move {
                let work = offload(&host3, move || unmounter.unmount_or_detach());
                if let Ok(work) = work {
                    let _ = work.await;
                }
                host3.rt().sleep(grace_ns).await;
                session3.abandon();
            });
            signals.next().await;
            session2.abandon();
        });
    }
    if let Some(name) = session.prime_name() {
        // Best effort: only speed depends on it.
        let file = mount.dir.join(name);
        let work = offload(host, move || drop(std::fs::File::open(file)));
        if let Ok(work) = work {
            host.rt().spawn("prime", work);
        }
    }
    let end = session.run().await;
    mount.gone = matches!(end, Ok(End::Unmounted));
    end
}
