//! The duplicate-request cache (Juszczak, "Improving the Performance and Correctness of an NFS
//! Server", 1989): replies to calls that must not be executed twice.
//!
//! Contract: a client that gets no reply sends its call again, perhaps on another connection. The
//! call is recognized by the client's address, its number and a hash of all its bytes, never by
//! the connection. A repeated call gets the reply of the first one; if that one is still under way,
//! it waits for it. The cache is bounded: the oldest replies are dropped first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use twin_rt::{Event, FixedMap};

use crate::address::Address;
use crate::handle::keyed;

/// The most replies that are kept.
const REPLIES_MAX: usize = 8192;

/// The bytes of a call that are hashed with a key: the head, and the arguments of all calls but names
/// and data that are long.
const HEAD_BYTES: usize = 512;

/// The parts of a call by which a repetition is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    address: Address,
    xid: u32,
    hash: u64,
}

enum Entry {
    Running(Rc<Event>),
    Done(Rc<[u8]>),
}

/// The state of a call that was seen before.
pub(crate) enum Known {
    /// Nothing: it must be executed, and [`ReplyCache::finish`] called.
    New,
    /// The call is being executed: its reply exists after this event.
    Running(Rc<Event>),
    /// The call was executed; its reply is sent again.
    Done(Rc<[u8]>),
}

/// The replies to recent calls. See the module.
pub(crate) struct ReplyCache {
    seed: [u8; 16],
    entries: RefCell<FixedMap<CallKey, Entry>>,
    /// Calls with replies, oldest first.
    order: RefCell<VecDeque<CallKey>>,
    repeated: Cell<u64>,
}

impl ReplyCache {
    /// An empty cache; clients do not know the seed, so they cannot choose calls that collide.
    pub(crate) fn new(seed: [u8; 16]) -> ReplyCache {
        let (entries, order) = Default::default();
        ReplyCache { seed, entries, order, repeated: Cell::new(0) }
    }

    /// The key of a call. What lies behind the arguments of most calls is data, of which a cheaper sum
    /// is enough: a client that makes its own calls collide loses its own data.
    pub(crate) fn key(&self, address: Address, xid: u32, record: &[u8]) -> CallKey {
        let (head, data) = record.split_at(record.len().min(HEAD_BYTES));
        let mut bytes = [0; HEAD_BYTES + 8];
        bytes[..head.len()].copy_from_slice(head);
        bytes[HEAD_BYTES..][..4].copy_from_slice(&(record.len() as u32).to_le_bytes());
        bytes[HEAD_BYTES + 4..].copy_from_slice(&crc32c::crc32c(data).to_le_bytes());
        CallKey { address, xid, hash: keyed(&self.seed, &bytes) }
    }

    /// The number of calls that were recognized as repeated.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated.get()
    }

    /// Looks a call up. A new one is entered as under way.
    pub(crate) fn begin(&self, key: CallKey) -> Known {
        let mut entries = self.entries.borrow_mut();
        match entries.get(&key) {
            Some(entry) => {
                self.repeated.set(self.repeated.get() + 1);
                match entry {
                    Entry::Running(event) => Known::Running(Rc::clone(event)),
                    Entry::Done(reply) => Known::Done(Rc::clone(reply)),
                }
            }
            None => {
                entries.insert(key, Entry::Running(Rc::default()));
                Known::New
            }
        }
    }

    /// The reply to a call that was under way; `None` if it has been dropped.
    pub(crate) fn reply(&self, key: CallKey) -> Option<Rc<[u8]>> {
        match self.entries.borrow().get(&key) {
            Some(Entry::Done(reply)) => Some(Rc::clone(reply)),
            _ => None,
        }
    }

    /// Keeps the reply to a call that was new.
    pub(crate) fn finish(&self, key: CallKey, reply: &[u8]) {
        let mut entries = self.entries.borrow_mut();
        let before = entries.insert(key, Entry::Done(reply.into()));
        let mut order = self.order.borrow_mut();
        order.push_back(key);
        while order.len() > REPLIES_MAX {
            if let Some(oldest) = order.pop_front() {
                entries.remove(&oldest);
            }
        }
        drop((entries, order));
        if let Some(Entry::Running(event)) = before {
            event.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_known_by_all_its_bytes_and_its_client() {
        let cache = ReplyCache::new([1; 16]);
        let key = cache.key(Address::LOOPBACK, 7, b"call");
        assert!(matches!(cache.begin(key), Known::New));
        assert!(matches!(cache.begin(key), Known::Running(_)));
        cache.finish(key, b"reply");
        assert!(matches!(cache.begin(key), Known::Done(reply) if &*reply == b"reply"));
        for other in [
            cache.key(Address::LOOPBACK, 8, b"call"),
            cache.key(Address::LOOPBACK, 7, b"caller"),
            cache.key(Address::LOOPBACK, 7, b"call\0"),
            cache.key(Address([0; 16]), 7, b"call"),
        ] {
            assert!(matches!(cache.begin(other), Known::New));
        }
        assert_eq!(cache.repeated(), 2);
    }

    #[test]
    fn each_byte_of_a_long_call_counts() {
        let cache = ReplyCache::new([1; 16]);
        let call = vec![5; 3 * HEAD_BYTES];
        let key = cache.key(Address::LOOPBACK, 7, &call);
        for at in 0..call.len() {
            let mut other = call.clone();
            other[at] ^= 1;
            assert_ne!(cache.key(Address::LOOPBACK, 7, &other), key, "byte {at}");
        }
    }

    #[test]
    fn the_oldest_replies_are_dropped() {
        let cache = ReplyCache::new([1; 16]);
        let key = |n: u32| cache.key(Address::LOOPBACK, n, b"call");
        for n in 0..REPLIES_MAX as u32 + 1 {
            cache.begin(key(n));
            cache.finish(key(n), b"reply");
        }
        assert!(cache.reply(key(0)).is_none());
        assert!(cache.reply(key(1)).is_some());
        assert_eq!(cache.entries.borrow().len(), REPLIES_MAX);
    }
}
