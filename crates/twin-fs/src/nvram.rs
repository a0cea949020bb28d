//! Memory of a host that survives a power failure, for the dirty data of all its volumes.
//!
//! Contract: a volume whose flush policy keeps dirty data in such memory and that is a member may hold
//! what the others do not. A member that needs room when there is none has the oldest dirty data of
//! all members written, whoever holds it, as one cache for all file systems does ("Cut-and-paste file
//! systems", section 5.1). This file keeps the members; [`dirty_limit`](crate::dirty_limit) waits.

use std::cell::RefCell;
use std::rc::Rc;

use twin_rt::{BoxFuture, Time};

use crate::Result;

/// A member, as others hold it.
pub(crate) type MemberRef = Rc<dyn Member>;

/// What a member tells and does for the others. A member whose volume is gone holds nothing.
pub(crate) trait Member {
    /// The bytes that it holds.
    fn held_bytes(&self) -> u64;

    /// Since when its oldest dirty data is dirty; `None` if nothing is.
    fn oldest(&self) -> Option<Time>;

    /// Writes what its policy names to make room for `bytes`.
    fn make_room(&self, bytes: u64) -> BoxFuture<'_, Result<()>>;

    /// By how much its room falls short of `bytes`, as its own policy sees it.
    fn lacks_bytes(&self, bytes: u64) -> u64;

    /// Asks its flusher to make room for `bytes`, of its own or of `needer`, and waits until the round
    /// has ended; true if the round made some.
    fn wait_for_round(&self, bytes: u64, needer: Option<MemberRef>) -> BoxFuture<'_, bool>;
}

/// Memory that survives a power failure. See the module.
pub struct Nvram {
    bound_bytes: u64,
    members: RefCell<Vec<MemberRef>>,
}

impl Nvram {
    /// A memory of this many bytes, without members.
    pub fn new(bound_bytes: u64) -> Rc<Nvram> {
        Rc::new(Nvram { bound_bytes, members: RefCell::default() })
    }

    /// The bytes of it.
    pub fn bound_bytes(&self) -> u64 {
        self.bound_bytes
    }

    /// The bytes that all members hold.
    pub fn held_bytes(&self) -> u64 {
        self.members.borrow().iter().map(|member| member.held_bytes()).sum()
    }

    /// Makes a volume a member. Returns its number.
    pub(crate) fn join(&self, member: MemberRef) -> usize {
        let mut members = self.members.borrow_mut();
        members.push(member);
        members.len() - 1
    }

    /// The bytes that all members but this one hold.
    pub(crate) fn held_by_others(&self, number: usize) -> u64 {
        let members = self.members.borrow();
        let others = members.iter().enumerate().filter(|(other, _)| *other != number);
        others.map(|(_, member)| member.held_bytes()).sum()
    }

    /// The member whose dirty data is the oldest, with its number; `None` if nothing is dirty.
    pub(crate) fn oldest(&self) -> Option<(usize, MemberRef)> {
        let members = self.members.borrow();
        let since = |(number, member): (usize, &MemberRef)| {
            Some((member.oldest()?, (number, Rc::clone(member))))
        };
        let all = members.iter().enumerate().filter_map(since);
        all.min_by_key(|(since, _)| *since).map(|(_, member)| member)
    }

    /// The member of this number.
    pub(crate) fn member(&self, number: usize) -> Option<MemberRef> {
        self.members.borrow().get(number).cloned()
    }
}
