//! The gate of leases, through which every call on an inode goes.
//!
//! Contract: a call that looks at an inode runs while nobody else has a lease to write it, and one that changes
//! it while nobody else has any lease. It waits for that; leases end by themselves. What the holder of a lease wrote that
//! ended so is made durable before anybody else gets in.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::Poll;

use twin_fs::{Cred, Op};
use twin_rt::{Event, Rt, Time};

use super::Served;
use crate::lease::{self, Answer, ClientId, FileId, Kind, LeaseStats, Table};
use crate::status::Status;

/// The leases of a server.
pub(super) struct Leases {
    pub(super) rt: Rt,
    pub(super) table: RefCell<Table>,
    pub(super) changed: Event,
    next_ticket: Cell<u64>,
}

/// The lease under which a call is made.
#[derive(Clone, Copy)]
pub(super) struct Under {
    pub(super) client: ClientId,
    /// Its number, or 0.
    pub(super) number: u64,
    /// The call is right under this lease only.
    pub(super) must: bool,
}

/// A call that is inside the gate.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    ticket: u64,
    id: FileId,
}

impl Leases {
    pub(super) fn new(rt: &Rt, table: Table) -> Leases {
        let (changed, next_ticket) = Default::default();
        Leases { rt: rt.clone(), table: RefCell::new(table), changed, next_ticket }
    }

    pub(super) fn stats(&self) -> LeaseStats {
        self.table.borrow().stats()
    }

    fn ticket(&self) -> u64 {
        self.next_ticket.replace(self.next_ticket.get() + 1)
    }

    /// Waits until the table has changed, or for a time.
    pub(super) async fn wait(&self, until: Time) {
        let mut changed = pin!(self.changed.wait());
        let mut sleep = pin!(self.rt.sleep_until(until));
        let both = |cx: &mut std::task::Context<'_>| {
            let over = changed.as_mut().poll(cx).is_ready() || sleep.as_mut().poll(cx).is_ready();
            if over { Poll::Ready(()) } else { Poll::Pending }
        };
        std::future::poll_fn(both).await;
    }

    /// Makes durable what the holder of a lease wrote that ended by itself. If that fails, the volume has
    /// stopped, or the file is gone: nobody reads it then.
    async fn drain(&self, volumes: &[Served], id: FileId) {
        if let Some(volume) = volumes.iter().find(|volume| volume.keys.volume == id.0) {
            let _ = volume.run(Cred::root(), Op::Fsync { ino: id.1, data_only: false }).await;
        }
        self.table.borrow_mut().drained(id);
        self.changed.notify();
    }

    /// Lets a call in.
    pub(super) async fn enter(
        &self,
        volumes: &[Served],
        id: FileId,
        kind: Kind,
        under: Option<Under>,
    ) -> Result<Pass, Status> {
        let (ticket, mut claims) = (self.ticket(), false);
        let client = under.map(|under| under.client);
        let number = under.filter(|under| under.number > 0).map(|u| (u.number, u.must));
        loop {
            let now = self.rt.now();
            let answer = self.table.borrow_mut().enter(now, ticket, (client, kind), id, number);
            match answer {
                Answer::Yes(()) => return Ok(Pass { ticket, id }),
                Answer::Lost => return Err(Status::LeaseLost),
                Answer::Full => return Err(Status::Jukebox),
                Answer::Drain(torn) => self.drain(volumes, torn).await,
                Answer::Wait(until) => {
                    // The claim is new, so holders hear of it. It must not wake other claims again and again.
                    if !std::mem::replace(&mut claims, true) {
                        self.changed.notify();
                    }
                    self.wait(until).await;
                }
            }
        }
    }

    /// A call has left.
    pub(super) fn leave(&self, pass: Pass) {
        self.table.borrow_mut().leave(pass.ticket, pass.id);
        self.changed.notify();
    }

    pub(super) async fn ask(
        &self,
        volumes: &[Served],
        id: FileId,
        who: (ClientId, Kind),
        reclaim: Option<u64>,
    ) -> Result<lease::Grant, Status> {
        let (ticket, mut claims) = (self.ticket(), false);
        loop {
            let answer = self.table.borrow_mut().ask(self.rt.now(), ticket, who, id, reclaim);
            match answer {
                Answer::Yes(grant) => {
                    self.changed.notify();
                    return Ok(grant);
                }
                Answer::Lost | Answer::Full => return Err(Status::Jukebox),
                Answer::Drain(torn) => self.drain(volumes, torn).await,
                Answer::Wait(until) => {
                    // The claim is new, so holders hear of it. It must not wake other claims again and again.
                    if !std::mem::replace(&mut claims, true) {
                        self.changed.notify();
                    }
                    self.wait(until).await;
                }
            }
        }
    }
}
