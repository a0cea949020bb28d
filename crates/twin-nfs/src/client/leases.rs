//! The client's side of leases: what it keeps is kept under leases of the server (`consistency=lease`).
//!
//! Contract: data and attributes are used only while a lease of their file is held by the client's own clock,
//! which is allowed to run wrong by a share; a term is counted from when its call was sent. A write is done when it is
//! in memory under a lease to write. A lease that is claimed is vacated: everything is written and committed, then
//! dropped. If a lease is lost (the client was cut off for longer than a term, and somebody else wanted the file), what
//! was not written is dropped, and reported by the next fsync: others may have seen already that it is not there.
//! After a restart of the server leases that still run are reclaimed.
//!
//! An operation on a file holds the node's lock while it uses the lease; a lease is asked for without that lock, so that the
//! older lease can be vacated meanwhile.

use std::rc::Rc;

use twin_fs::{Cred, Ino, Result};
use twin_rt::Nanos;

use super::Inner;
use super::nodes::{Lease, Node};
use super::pages::Pages;
use super::rpc::{Results, garbled};
use crate::lease::{Kind, proc};
use crate::xdr::{Garbage, Reader, Writer};

/// The share of a term for which a LISTEN is held, and with which leases are renewed.
const HOLD_SHARE: u64 = 3;
impl Inner {
    /// Vacates a lease that is claimed.
    async fn vacate(self: &Rc<Self>, ino: Ino, number: u64) {
        let node = self.leased.borrow().get(&ino).cloned();
        let node = node.or_else(|| self.nodes.borrow().get(&ino).cloned());
        if let Some(node) = node {
            let _alone = node.lock.write().await;
            if Inner::number(&node) == number {
                if !self.write_held(&node, number).await {
                    // It is lost, or asked for anew.
                    return;
                }
                self.with_pages(&node, Pages::drop_clean);
                node.lease.set(None);
                self.leased.borrow_mut().remove(&ino);
            }
            // A reply that grants it may be on its way still.
            if node.asking.in_use() {
                node.gave_up.borrow_mut().push(number);
            }
        }
        let (procedure, root) = ((proc::LEASE, proc::VERSION, proc::VACATE), Cred::root());
        let gave = self.rpc.call(procedure, &root, |w| {
            w.u64(self.id.get());
            w.u32(1);
            w.u64(number);
        });
        // If it fails, the lease ends by itself.
        let _ = gave.await;
    }

    /// Renews leases and vacates those that are claimed, for as long as the client is there.
    pub(super) async fn listen(client: std::rc::Weak<Inner>) {
        let Some((rpc, got_lease, id, patience_ns)) = client.upgrade().map(|client| {
            let (rpc, got_lease) = (Rc::clone(&client.rpc), Rc::clone(&client.got_lease));
            (rpc, got_lease, client.id.get(), client.settings.timeout_ns)
        }) else {
            return;
        };
        loop {
            let Some(this) = client.upgrade() else { return };
            let (idle, term_ns) = (this.leased.borrow().is_empty(), this.term_ns.get());
            drop(this);
            if idle {
                got_lease.wait().await;
                continue;
            }
            let hold_ns = term_ns / HOLD_SHARE;
            let args = |w: &mut Writer| {
                w.u64(id);
                w.u64(hold_ns);
            };
            let procedure = (proc::LEASE, proc::VERSION, proc::LISTEN);
            let results = rpc.once(procedure, &Cred::root(), hold_ns + patience_ns, args).await;
            let Some(this) = client.upgrade() else { return };
            if let Some(Ok(term_ns)) = results.map(|results| this.heard(&results)) {
                this.term_ns.set(term_ns);
            }
        }
    }

    /// Takes the reply to a LISTEN; returns the term of leases.
    fn heard(self: &Rc<Self>, results: &Results) -> Result<Nanos> {
        let mut r = results.ok()?;
        let mut head = || -> Result<_, Garbage> { Ok((r.u64()?, r.u64()?, r.u64()?, r.flag()?)) };
        let (boot, term_ns, waited_ns, more) = head().map_err(garbled)?;
        let claimed = claimed(&mut r).map_err(garbled)?;
        self.boot.set(boot);
        let (now, until) = (self.rt.now(), self.end_of(results.sent, waited_ns + term_ns));
        let nodes: Vec<Rc<Node>> = self.leased.borrow().values().cloned().collect();
        for node in nodes {
            let Some(lease) = node.lease.get() else { continue };
            let is_claimed = claimed.iter().any(|&(_, number)| number == lease.number);
            if lease.boot != boot {
                Inner::suspect(&node);
                if node.pages.borrow().oldest().is_some() {
                    self.reclaim(node);
                }
            } else if !more && !is_claimed && !lease.suspect && now < lease.until {
                node.lease.set(Some(Lease { until: until.max(lease.until), ..lease }));
            }
        }
        for (ino, number) in claimed {
            if self.vacating.borrow_mut().insert(number) {
                let client = Rc::clone(self);
                self.rt.spawn("vacate", async move {
                    client.vacate(ino, number).await;
                    client.vacating.borrow_mut().remove(&number);
                });
            }
        }
        Ok(term_ns)
    }

    /// Asks a server that was started anew for a lease whose data is not written.
    fn reclaim(self: &Rc<Self>, node: Rc<Node>) {
        let client = Rc::clone(self);
        self.rt.spawn("reclaim", async move {
            let cred = node.writer.borrow().clone();
            // What is owed is written later, and an error shows then.
            let _ = client.acquire(&cred, &node, Kind::Write).await;
        });
    }
}

fn claimed(r: &mut Reader<'_>) -> Result<Vec<(Ino, u64)>, Garbage> {
    let count = r.u32()?;
    (0..count).map(|_| Ok((r.u64()?, r.u64()?))).collect()
}
