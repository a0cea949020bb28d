//! The table of leases: who may keep what of which file in memory, and until when.
//!
//! Contract: a pure object that is given the time. A file has one lease to write or any number of leases to
//! read; each ends at a time unless it is renewed. Who wants what conflicts with a lease makes a claim, and
//! waits until the holders have vacated or their time is over; a lease that is claimed is not renewed.
//! Claims are served first come, first served. A call that is executed for somebody without a lease takes part:
//! it waits for leases that conflict, and no such lease is granted while it runs. After a restart nothing is
//! granted for one term, except to those who held it before (they know by their clocks), because the table does
//! not survive. It holds no more than [`Terms::leases_max`] leases and as many claims.
//!
//! After Macklem, "Not Quite NFS, Soft Cache Consistency for NFS" (1994), and Gray and Cheriton, "Leases" (1989).
//! Unlike there, a lapsed lease that nobody has claimed can be revived by its holder, with its old number,
//! which tells the holder that nobody else had the file meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use twin_rt::{Nanos, SECS, Time};

/// The number by which a client calls itself. A client that starts anew has a new one.
pub type ClientId = u64;
/// A file: the numbers of its volume and inode.
pub type FileId = (u64, u64);

/// What a lease allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Data and attributes may be kept and believed.
    Read,
    /// Data may also be changed in memory, and written later.
    Write,
}

/// The terms of a server's leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The time for which a lease is granted or renewed.
    pub term_ns: Nanos,
    /// The time that a write under a lease whose term is over gets for the next one (write slack).
    pub slack_ns: Nanos,
    /// The most leases, and the most claims.
    pub leases_max: u64,
}

impl Default for Terms {
    /// The constants of 4.4BSD (`sys/nfs/nqnfs.h`), with room for more leases.
    fn default() -> Terms {
        Terms { term_ns: 30 * SECS, slack_ns: 5 * SECS, leases_max: 65_536 }
    }
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number of the lease: a new one unless the client had it already.
    pub number: u64,
    /// What it allows.
    pub kind: Kind,
    /// When it ends, by the server's clock.
    pub until: Time,
    /// It was held before the restart.
    pub reclaimed: bool,
}

/// The answer to who asks for a lease, or wants a call executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// Granted.
    Yes(T),
    /// Not yet: ask again when the table has changed, or at this time.
    Wait(Time),
    /// The lease under which the call would change the file is not held any more.
    Lost,
    /// There are too many claims: ask again later.
    Full,
    /// A lease to write this file has ended by itself, and what its holder wrote may not be durable: make it
    /// so, call [`Table::drained`], and ask again. Otherwise others could see what a failure takes back.
    Drain(FileId),
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    client: ClientId,
    number: u64,
    kind: Kind,
    until: Time,
    /// When its holder last heard that it is claimed.
    notified: Option<Time>,
    /// Its room is needed.
    recalled: bool,
}

/// Somebody who waits, or a call that is being executed.
#[derive(Clone, Copy, Debug)]
struct Party {
    ticket: u64,
    client: Option<ClientId>,
    kind: Kind,
}

#[derive(Debug, Default)]
struct File {
    leases: Vec<Lease>,
    claims: VecDeque<Party>,
    /// Calls that are being executed.
    inside: Vec<Party>,
    /// A lease to write has ended by itself.
    torn: bool,
}

/// Two uses of a file that exclude each other.
fn excludes(a: (Option<ClientId>, Kind), b: (Option<ClientId>, Kind)) -> bool {
    let same = a.0.is_some() && a.0 == b.0;
    !same && (a.1 == Kind::Write || b.1 == Kind::Write)
}

impl Lease {
    fn party(&self) -> (Option<ClientId>, Kind) {
        (Some(self.client), self.kind)
    }
}

impl File {
    fn is_claimed(&self, lease: &Lease) -> bool {
        let wants = |claim: &Party| excludes((claim.client, claim.kind), lease.party());
        lease.recalled || self.claims.iter().any(wants)
    }

    fn is_idle(&self) -> bool {
        let users = self.leases.len() + self.claims.len() + self.inside.len();
        users == 0 && !self.torn
    }
}

/// What a client gets that renews its leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Leases that were not renewed, because they are claimed: inode and number.
    pub claimed: Vec<(u64, u64)>,
    /// There are more of these than were listed: then none was renewed.
    pub more: bool,
}

/// Counters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseStats {
    /// Leases that were granted anew.
    pub granted: u64,
    /// Leases that their holders gave back.
    pub vacated: u64,
    /// Leases that ended because their time was over and somebody wanted the file.
    pub expired: u64,
    /// Leases that were granted again after a restart.
    pub reclaimed: u64,
    /// Calls that were refused because their lease was not held any more.
    pub refused: u64,
}

/// The most leases that are listed in one reply.
const CLAIMED_MAX: usize = 256;

/// The table. See the module.
#[derive(Debug)]
pub struct Table {
    terms: Terms,
    /// The number of this start of the server.
    boot: u64,
    /// Until then only who held a lease before the start gets it.
    grace: Time,
    files: BTreeMap<FileId, File>,
    /// The file of each lease.
    numbers: BTreeMap<u64, FileId>,
    of_client: BTreeMap<ClientId, BTreeSet<u64>>,
    claims: usize,
    next: u64,
    stats: LeaseStats,
}

impl Table {
    /// An empty table of the start `boot` of a server. `grace`: an earlier start may have granted leases.
    pub fn new(terms: Terms, boot: u64, now: Time, grace: bool) -> Table {
        let grace = if grace { now + terms.term_ns } else { now };
        let (files, numbers, of_client, stats) = Default::default();
        Table { terms, boot, grace, files, numbers, of_client, claims: 0, next: 1, stats }
    }

    /// The number of this start of the server.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// The terms of the leases.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The counters so far.
    pub fn stats(&self) -> LeaseStats {
        self.stats
    }

    /// The number of leases.
    pub fn len(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// True if there is no lease.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// A client asks for a lease. `ticket` is the number of the request; `reclaim` the start of the server of
    /// which the client knew when its lease of an earlier start still ran.
    pub fn ask(
        &mut self,
        now: Time,
        ticket: u64,
        (client, kind): (ClientId, Kind),
        id: FileId,
        reclaim: Option<u64>,
    ) -> Answer<Grant> {
        let reclaimed = now < self.grace && reclaim == Some(self.boot);
        if now < self.grace && !reclaimed {
            return Answer::Wait(self.grace);
        }
        let party = Party { ticket, client: Some(client), kind };
        self.expire(now, id, &party);
        let file = self.files.entry(id).or_default();
        if file.torn {
            return Answer::Drain(id);
        }
        let own = file.leases.iter().position(|lease| lease.client == client);
        let excluded = |other: &Party| excludes((other.client, other.kind), (Some(client), kind));
        let ahead = || file.claims.iter().take_while(|claim| claim.ticket != ticket);
        // Who has a lease that others claim has to vacate it first.
        let gives_way = own.is_some_and(|at| {
            ahead().any(|claim| excludes((claim.client, claim.kind), file.leases[at].party()))
        });
        let held = |lease: &Lease| excludes(lease.party(), (Some(client), kind));
        if gives_way
            || ahead().any(excluded)
            || file.inside.iter().any(excluded)
            || file.leases.iter().any(held)
        {
            return self.wait(now, id, party);
        }
        let until = now + self.terms.term_ns;
        if let Some(at) = own {
            let lease = &mut file.leases[at];
            lease.kind = lease.kind.max(kind);
            lease.until = lease.until.max(until);
            let grant = Grant { number: lease.number, kind: lease.kind, until, reclaimed };
            self.quit(ticket, id);
            return Answer::Yes(grant);
        }
        if self.len() >= self.terms.leases_max {
            return match self.make_room(now) {
                Some(torn) => Answer::Drain(torn),
                None => self.wait(now, id, party),
            };
        }
        self.quit(ticket, id);
        Answer::Yes(self.grant(id, (client, kind), until, reclaimed))
    }

    fn grant(
        &mut self,
        id: FileId,
        (client, kind): (ClientId, Kind),
        until: Time,
        reclaimed: bool,
    ) -> Grant {
        let number = self.boot << 32 | self.next;
        self.next += 1;
        self.stats.granted += u64::from(!reclaimed);
        self.stats.reclaimed += u64::from(reclaimed);
        let lease = Lease { client, number, kind, until, notified: None, recalled: false };
        self.files.entry(id).or_default().leases.push(lease);
        self.numbers.insert(number, id);
        self.of_client.entry(client).or_default().insert(number);
        Grant { number, kind, until, reclaimed }
    }

    /// A call is to be executed for a client, or for somebody who has none of these leases. `number` is the
    /// lease under which the client calls; `must` if the call is right only under that lease.
    pub fn enter(
        &mut self,
        now: Time,
        ticket: u64,
        (client, kind): (Option<ClientId>, Kind),
        id: FileId,
        number: Option<(u64, bool)>,
    ) -> Answer<()> {
        let party = Party { ticket, client, kind };
        let slack = now + self.terms.slack_ns;
        if let Some((number, must)) = number {
            let file = self.files.get_mut(&id);
            let lease = file.and_then(|file| {
                let lease = file.leases.iter_mut().find(|lease| lease.number == number)?;
                (Some(lease.client) == client).then_some(lease)
            });
            match lease {
                Some(lease) if lease.kind >= kind => {
                    if kind == Kind::Write {
                        lease.until = lease.until.max(slack);
                    }
                    self.files.entry(id).or_default().inside.push(party);
                    return Answer::Yes(());
                }
                _ if must => {
                    self.stats.refused += 1;
                    return Answer::Lost;
                }
                _ => {}
            }
        }
        if now < self.grace {
            return Answer::Wait(self.grace);
        }
        self.expire(now, id, &party);
        let file = self.files.entry(id).or_default();
        if file.torn {
            return Answer::Drain(id);
        }
        let excluded = |other: &Party| excludes((other.client, other.kind), (client, kind));
        let mut ahead = file.claims.iter().take_while(|claim| claim.ticket != ticket);
        let held = |lease: &Lease| excludes(lease.party(), (client, kind));
        if ahead.any(excluded) || file.leases.iter().any(held) {
            return self.wait(now, id, party);
        }
        file.inside.push(party);
        self.quit(ticket, id);
        Answer::Yes(())
    }

    /// What was written to a file is durable.
    pub fn drained(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            file.torn = false;
        }
        self.tidy(id);
    }

    /// A call has been executed.
    pub fn leave(&mut self, ticket: u64, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            file.inside.retain(|party| party.ticket != ticket);
        }
        self.tidy(id);
    }

    /// Who asked does not wait any more.
    pub fn quit(&mut self, ticket: u64, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            let before = file.claims.len();
            file.claims.retain(|claim| claim.ticket != ticket);
            self.claims -= before - file.claims.len();
        }
        self.tidy(id);
    }

    /// A client gives leases back.
    pub fn vacate(&mut self, client: ClientId, numbers: &[u64]) {
        for &number in numbers {
            if self.of_client.get(&client).is_some_and(|own| own.contains(&number)) {
                self.stats.vacated += 1;
                self.end(number);
            }
        }
    }

    /// True if a client holds a lease that is claimed and has not heard of it lately.
    pub fn has_news(&self, now: Time, client: ClientId) -> bool {
        let again_ns = self.terms.term_ns / 8;
        let news = |lease: &Lease| lease.notified.is_none_or(|at| at + again_ns <= now);
        self.leases(client).any(|(file, lease)| news(lease) && file.is_claimed(lease))
    }

    /// Renews the leases of a client, except those that are claimed or over.
    pub fn renew(&mut self, now: Time, client: ClientId) -> Renewal {
        let mut renewal = Renewal::default();
        let mut renewed = Vec::new();
        for (file, lease) in self.leases(client) {
            let id = self.numbers[&lease.number];
            if file.is_claimed(lease) {
                renewal.claimed.push((id.1, lease.number));
            } else if lease.until > now {
                renewed.push((id, lease.number));
            }
        }
        renewal.more = renewal.claimed.len() > CLAIMED_MAX;
        renewal.claimed.truncate(CLAIMED_MAX);
        let listed = renewal.claimed.iter().map(|&(_, number)| (self.numbers[&number], number));
        for (id, number) in listed.collect::<Vec<_>>() {
            self.change(id, number, |lease| lease.notified = Some(now));
        }
        if !renewal.more {
            let until = now + self.terms.term_ns;
            for (id, number) in renewed {
                self.change(id, number, |lease| lease.until = lease.until.max(until));
            }
        }
        renewal
    }

    fn leases(&self, client: ClientId) -> impl Iterator<Item = (&File, &Lease)> {
        let own = self.of_client.get(&client).into_iter().flatten();
        own.filter_map(|number| {
            let file = self.files.get(self.numbers.get(number)?)?;
            Some((file, file.leases.iter().find(|lease| lease.number == *number)?))
        })
    }

    fn change(&mut self, id: FileId, number: u64, change: impl FnOnce(&mut Lease)) {
        let file = self.files.get_mut(&id);
        let lease = file.and_then(|file| file.leases.iter_mut().find(|l| l.number == number));
        if let Some(lease) = lease {
            change(lease);
        }
    }

    /// Ends leases that are over and exclude this party, unless a call runs under them.
    fn expire(&mut self, now: Time, id: FileId, party: &Party) {
        let Some(file) = self.files.get(&id) else { return };
        let busy = |lease: &Lease| {
            let of_lease =
                |call: &Party| call.client == Some(lease.client) && call.kind == Kind::Write;
            file.inside.iter().any(of_lease)
        };
        let over = |lease: &&Lease| {
            lease.until <= now
                && excludes(lease.party(), (party.client, party.kind))
                && !busy(lease)
        };
        let over = file.leases.iter().filter(over).map(|lease| (lease.number, lease.kind));
        for (number, kind) in over.collect::<Vec<_>>() {
            self.lapse(number, kind);
        }
    }

    /// Ends a lease that is over.
    fn lapse(&mut self, number: u64, kind: Kind) {
        self.stats.expired += 1;
        let file = self.numbers.get(&number).and_then(|id| self.files.get_mut(id));
        if let (Some(file), Kind::Write) = (file, kind) {
            file.torn = true;
        }
        self.end(number);
    }

    fn end(&mut self, number: u64) {
        let Some(id) = self.numbers.remove(&number) else { return };
        let Some(file) = self.files.get_mut(&id) else { return };
        let Some(at) = file.leases.iter().position(|lease| lease.number == number) else { return };
        let client = file.leases.remove(at).client;
        if let Some(own) = self.of_client.get_mut(&client) {
            own.remove(&number);
            if own.is_empty() {
                self.of_client.remove(&client);
            }
        }
        self.tidy(id);
    }

    fn tidy(&mut self, id: FileId) {
        if self.files.get(&id).is_some_and(File::is_idle) {
            self.files.remove(&id);
        }
    }

    /// Enters a claim, and says when the next lease ends that is in its way.
    fn wait<T>(&mut self, now: Time, id: FileId, party: Party) -> Answer<T> {
        let file = self.files.entry(id).or_default();
        if file.claims.iter().all(|claim| claim.ticket != party.ticket) {
            if self.claims as u64 >= self.terms.leases_max {
                self.tidy(id);
                return Answer::Full;
            }
            file.claims.push_back(party);
            self.claims += 1;
        }
        let ends = file.leases.iter().map(|lease| lease.until).filter(|&until| until > now);
        Answer::Wait(ends.min().unwrap_or(now + self.terms.term_ns))
    }

    /// Ends the leases to read that are over, and one to write, whose file it returns. If none is over, recalls the one
    /// that was granted first.
    fn make_room(&mut self, now: Time) -> Option<FileId> {
        let all =
            self.files.iter().flat_map(|(&id, file)| file.leases.iter().map(move |l| (id, l)));
        let over = all.filter(|(_, lease)| lease.until <= now);
        let over: Vec<_> = over.map(|(id, lease)| (id, lease.number, lease.kind)).collect();
        let reads = over.iter().filter(|(.., kind)| *kind == Kind::Read);
        for &(_, number, kind) in reads {
            self.lapse(number, kind);
        }
        if let Some(&(id, number, kind)) = over.iter().find(|(.., kind)| *kind == Kind::Write) {
            self.lapse(number, kind);
            return Some(id);
        }
        let oldest = self.numbers.first_key_value().map(|(&number, &id)| (number, id));
        if let Some((number, id)) = oldest {
            self.change(id, number, |lease| lease.recalled = true);
        }
        None
    }
}

#[cfg(test)]
mod tests;
