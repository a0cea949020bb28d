//! The program LEASE: the server's side of leases.
//!
//! Contract: holders learn of claims through their LISTEN calls. A server without leases answers that there is no
//! such program.

use twin_disk::Bytes;
use twin_rt::{Nanos, Rt, SECS};

use super::gate::{Leases, Under};
use super::{Context, Server};
use crate::attrs;
use crate::handle::{HANDLE_LEN, HANDLE_MAX};
use crate::lease::{self, Kind, LOST, LeaseStats, Table, VACATED_MAX};
use crate::rpc::{Call, Refusal};
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};

/// The longest time for which a LISTEN is held.
const HOLD_MAX_NS: Nanos = 60 * SECS;

impl Server {
    /// The same server with leases. `grace`: an earlier start of it may have granted some.
    ///
    /// Leases are for clients that ask for them with the program [`lease::proc::LEASE`]; the calls of others wait for
    /// leases that they conflict with.
    #[must_use]
    pub fn with_leases(self, rt: &Rt, terms: lease::Terms, grace: bool) -> Server {
        let boot = (self.boot >> 33).max(1);
        let table = Table::new(terms, boot, rt.now(), grace);
        Server { leases: Some(Leases::new(rt, table)), ..self }
    }

    /// The counters of leases, if there are any.
    pub fn lease_stats(&self) -> Option<LeaseStats> {
        self.leases.as_ref().map(Leases::stats)
    }

    /// True if a call of this program must not be executed twice: a procedure of NFS under a lease that changes
    /// something, and GET. Each copy of a GET would claim the file for itself. Those that are granted after the client has
    /// its reply give it leases of which it does not know, and others wait for their ends: longer than until they
    /// repeat their own calls, so that there are ever more claims.
    pub(super) fn once(call: &Call, record: &Bytes) -> bool {
        match (call.program, call.procedure) {
            (lease::proc::LEASE, lease::proc::GET) => true,
            (lease::proc::LEASE, lease::proc::NFS) => {
                let mut r = Reader::new(&record[call.args_at..]);
                let procedure = r.fixed(16).and_then(|_| r.u32());
                procedure.is_ok_and(super::proc::is_changing)
            }
            _ => false,
        }
    }

    pub(super) async fn lease(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<Result<(), Garbage>, Refusal> {
        let leases = self.leases.as_ref().ok_or(Refusal::Program)?;
        Ok(match c.call.procedure {
            lease::proc::NULL => r.end(),
            lease::proc::GET => self.get_lease(leases, c, r, out).await,
            lease::proc::LISTEN => listen(leases, r, out).await,
            lease::proc::VACATE => vacate(leases, &mut r, out),
            lease::proc::NFS => self.call_under(leases, c, r, out).await,
            _ => return Err(Refusal::Procedure),
        })
    }

    async fn get_lease(
        &self,
        leases: &Leases,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let arrived = leases.rt.now();
        let client = r.u64()?;
        let handle = r.opaque(HANDLE_MAX)?;
        let kind = if r.flag()? { Kind::Write } else { Kind::Read };
        let reclaim = Some(r.u64()?).filter(|&boot| boot > 0);
        r.end()?;
        let Ok(bytes) = <&[u8; HANDLE_LEN]>::try_from(handle) else {
            out.u32(Status::BadHandle as u32);
            return Ok(());
        };
        // Who may not look at the inode must not be able to make others vacate it.
        let id = match self.file_of(c, bytes) {
            Ok(id) => id,
            Err(status) => {
                out.u32(status as u32);
                return Ok(());
            }
        };
        let grant = match leases.ask(&self.volumes, id, (client, kind), reclaim).await {
            Ok(grant) => grant,
            Err(status) => {
                out.u32(status as u32);
                return Ok(());
            }
        };
        // The attributes are looked at under the lease.
        let under = Under { client, number: grant.number, must: false };
        let held = self.hold(Context { under: Some(under), ..c }, handle).await;
        let held = match held {
            Ok(held) => held,
            Err(status) => {
                leases.table.borrow_mut().vacate(client, &[grant.number]);
                leases.changed.notify();
                out.u32(status as u32);
                return Ok(());
            }
        };
        let now = leases.rt.now();
        out.u32(0);
        out.u64(leases.table.borrow().boot());
        out.u64(grant.number);
        out.flag(grant.kind == Kind::Write);
        out.u64(grant.until.since(now.min(grant.until)));
        out.u64(now.since(arrived));
        out.flag(grant.reclaimed);
        attrs::attributes(out, held.volume.keys.volume, held.attr());
        held.release().await;
        Ok(())
    }

    async fn call_under(
        &self,
        leases: &Leases,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let (client, number) = (r.u64()?, r.u64()?);
        let procedure = r.u32()?;
        let args_at = c.call.args_at + r.position();
        let Some(count) = super::proc::index(procedure) else { return Err(Garbage) };
        self.count(|counters| counters.calls[count] += 1);
        let must = number > 0 && procedure != super::proc::READ;
        let under = Some(Under { client, number, must });
        let program = super::proc::NFS;
        let call = Call { program, version: 3, procedure, args_at, ..c.call.clone() };
        let at = out.len();
        let inner = Context { call: &call, under, ..c };
        // The procedures of NFS use this one's futures: they are boxed to end the recursion of types.
        Box::pin(self.nfs(inner, Reader::new(&c.record[args_at..]), out)).await?;
        if out.u32_at(at) == Some(LOST) {
            out.truncate(at + 4);
            out.u64(leases.table.borrow().boot());
        }
        Ok(())
    }
}

async fn listen(leases: &Leases, mut r: Reader<'_>, out: &mut Writer) -> Result<(), Garbage> {
    let arrived = leases.rt.now();
    let (client, hold_ns) = (r.u64()?, r.u64()?.min(HOLD_MAX_NS));
    r.end()?;
    let until = arrived + hold_ns;
    while leases.rt.now() < until && !leases.table.borrow().has_news(leases.rt.now(), client) {
        leases.wait(until).await;
    }
    let now = leases.rt.now();
    let renewal = leases.table.borrow_mut().renew(now, client);
    let table = leases.table.borrow();
    out.u32(0);
    out.u64(table.boot());
    out.u64(table.terms().term_ns);
    out.u64(now.since(arrived));
    out.flag(renewal.more);
    out.u32(renewal.claimed.len() as u32);
    for (ino, number) in renewal.claimed {
        out.u64(ino);
        out.u64(number);
    }
    Ok(())
}

fn vacate(leases: &Leases, r: &mut Reader<'_>, out: &mut Writer) -> Result<(), Garbage> {
    let (client, count) = (r.u64()?, r.u32()? as usize);
    if count > VACATED_MAX {
        return Err(Garbage);
    }
    let numbers = (0..count).map(|_| r.u64()).collect::<Result<Vec<u64>, Garbage>>()?;
    r.end()?;
    leases.table.borrow_mut().vacate(client, &numbers);
    leases.changed.notify();
    out.u32(0);
    Ok(())
}
