//! An object store under virtual time: the objects are in memory, the time of a request is that of a device.
//!
//! Contract: a request is executed when its service ends, in one step, and its answer is there at once. The service is a
//! [`SimDisk`] with the model of a store: its statistics, observers and queue are those of the requests. In an outage, and
//! beyond the rates of the store, a request is answered with an error at once, and whoever asked repeats it. What a power failure of the *client* leaves is what
//! was executed, and of what is under way anything: requests may arrive after their sender has gone.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::rc::Rc;

use twin_bucket::{
    Condition, Content, Counts, Listed, MemoryStore, ObjectStore, StoreError, Stored, Version,
};
use twin_disk::{Block, BlockDevice, Io, Origin, total};
use twin_rt::{Nanos, Rng, Rt, SECS, Time};

use crate::SimDisk;

/// A time in which the store answers nothing but errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins.
    pub start_ns: Nanos,
    /// How long it lasts.
    pub length_ns: Nanos,
}

/// Requests that a store takes in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Those that change it.
    pub changes: u64,
    /// Those that read.
    pub reads: u64,
}

impl Default for Rates {
    /// Those of one prefix of S3 ("Best practices design patterns: optimizing Amazon S3 performance").
    fn default() -> Rates {
        Rates { changes: 3_500, reads: 5_500 }
    }
}

/// A request that changes the store.
#[derive(Clone)]
enum Change {
    Put(String, Vec<Block>, Condition),
    Delete(String),
}

struct Inner {
    rt: Rt,
    service: SimDisk,
    objects: MemoryStore,
    outage: Cell<Option<Outage>>,
    rates: Rates,
    /// When the requests of each class that were taken are no longer more than its rate.
    settled_at: [Cell<Time>; 2],
    /// Changes that are under way, by their numbers.
    under_way: RefCell<BTreeMap<u64, Change>>,
    changes: Cell<u64>,
}

/// An object store. Clones are the same.
#[derive(Clone)]
pub struct SimStore(Rc<Inner>);

/// About the bytes of a name in a list.
const LISTED_BYTES: u64 = 256;

impl SimStore {
    /// An empty store that `service` serves.
    pub fn new(rt: &Rt, service: SimDisk, rates: Rates) -> SimStore {
        SimStore(Rc::new(Inner {
            rt: rt.clone(),
            service,
            objects: MemoryStore::new(),
            outage: Cell::default(),
            rates,
            settled_at: Default::default(),
            under_way: RefCell::default(),
            changes: Cell::new(0),
        }))
    }

    /// Plans an outage, in place of an earlier one.
    pub fn plan(&self, outage: Outage) {
        self.0.outage.set(Some(outage));
    }

    /// What the store has executed.
    pub fn executed(&self) -> Counts {
        self.0.objects.requests()
    }

    /// Bytes that it stores.
    pub fn bytes(&self) -> u64 {
        self.0.objects.bytes()
    }

    /// Its objects as another client may find them if the one that uses it ends now.
    pub fn without_client(&self, rng: &mut Rng) -> MemoryStore {
        let objects = self.0.objects.clone();
        for change in self.0.under_way.borrow().values().filter(|_| rng.chance(0.5)) {
            // In memory everything is answered at once; whether a condition held does not matter to anybody.
            match change.clone() {
                Change::Put(name, blocks, when) => drop(objects.put(&name, blocks, when)),
                Change::Delete(name) => drop(objects.delete(&name)),
            }
        }
        objects
    }

    /// Why a request is refused that begins now, if it is. Those of a second may come at once.
    fn refuses(&self, is_change: bool) -> Option<&'static str> {
        let now = self.0.rt.now();
        let fails = |o: Outage| (o.start_ns..o.start_ns + o.length_ns).contains(&now.0);
        if self.0.outage.get().is_some_and(fails) {
            return Some("service unavailable");
        }
        let rate = if is_change { self.0.rates.changes } else { self.0.rates.reads };
        let settled_at = &self.0.settled_at[usize::from(is_change)];
        let settled = settled_at.get().max(now) + SECS / rate.max(1);
        if settled > now + SECS {
            return Some("slow down");
        }
        settled_at.set(settled);
        None
    }

    /// Has a request served and then executed.
    fn served<T: 'static>(
        &self,
        io: Io,
        change: Option<Change>,
        execute: impl FnOnce(&MemoryStore) -> Stored<T> + 'static,
    ) -> Stored<T> {
        if let Some(why) = self.refuses(change.is_some()) {
            return Box::pin(ready(Err(StoreError::Unknown(why.into()))));
        }
        let number = change.map(|change| {
            let number = self.0.changes.get();
            self.0.changes.set(number + 1);
            self.0.under_way.borrow_mut().insert(number, change);
            number
        });
        let (store, service) = (Rc::clone(&self.0), self.0.service.submit(io));
        Box::pin(async move {
            let failed = service.await.err();
            number.map(|number| store.under_way.borrow_mut().remove(&number));
            match failed {
                Some(error) => Err(StoreError::Unknown(error.to_string())),
                None => execute(&store.objects).await,
            }
        })
    }
}

impl ObjectStore for SimStore {
    fn name(&self) -> String {
        self.0.service.info().name
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let all = self.0.objects.bytes_of(name);
        let len = range.map_or(all, |(at, len)| len.min(all.saturating_sub(at)));
        let io = Io::read(0, len, twin_disk::Class::Mixed, Origin::User);
        let name = name.to_string();
        self.served(io, None, move |objects| objects.get(&name, range))
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let mut left = total(&blocks);
        let mut zeros = Vec::new();
        while left > 0 {
            let len = left.min(u32::MAX.into()) as u32;
            zeros.push(Block::Zero(len));
            left -= u64::from(len);
        }
        let io = Io::write(0, zeros, twin_disk::Class::Mixed, Origin::User);
        let name = name.to_string();
        let change = Change::Put(name.clone(), blocks.clone(), when.clone());
        self.served(io, Some(change), move |objects| objects.put(&name, blocks, when))
    }

    fn delete(&self, name: &str) -> Stored<()> {
        let (io, name) = (Io::discard(0, 1), name.to_string());
        let change = Change::Delete(name.clone());
        self.served(io, Some(change), move |objects| objects.delete(&name))
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        let io = Io::read(0, LISTED_BYTES, twin_disk::Class::Mixed, Origin::User);
        let (prefix, after) = (prefix.to_string(), after.map(String::from));
        self.served(io, None, move |objects| objects.list(&prefix, after.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;
    use twin_disk::Buf;
    use twin_rt::{ClockOnly, MILLIS};

    /// Runs a test on an empty store of the quick kind.
    fn on_store<T>(rates: Rates, test: impl AsyncFnOnce(Rt, SimStore) -> T) -> T {
        let rt = Rt::new(ClockOnly::default(), 1);
        let model = model::REGISTRY.get("s3-express").unwrap();
        let model = model.build(&model::Options::default()).unwrap();
        let store = SimStore::new(&rt, SimDisk::builder(&rt, model).start(), rates);
        rt.clone().block_on(test(rt, store)).unwrap()
    }

    fn bytes(len: usize) -> Vec<Block> {
        vec![Block::Bytes(Buf::copy_of(&vec![7; len]).freeze())]
    }

    #[test]
    fn requests_take_their_time_and_are_counted_to_the_byte() {
        on_store(Rates::default(), async |rt, store| {
            store.put("a", bytes(1001), Condition::Absent).await.unwrap();
            let written = rt.now();
            assert!(written.0 > MILLIS, "{written:?}");
            let taken = store.put("a", bytes(3), Condition::Absent).await;
            assert_eq!(taken, Err(StoreError::Conflict));
            let part = store.get("a", Some((1000, 50))).await.unwrap();
            assert_eq!(part.blocks.iter().map(Block::len).sum::<usize>(), 1);
            assert!(rt.now() - written > MILLIS);
            assert_eq!(store.list("", None).await.unwrap().len(), 1);
            assert_eq!(store.bytes(), 1001);
            store.delete("a").await.unwrap();
            assert_eq!(store.get("a", None).await.unwrap_err(), StoreError::Missing);
            let counts = Counts {
                puts: 2,
                gets: 2,
                deletes: 1,
                lists: 1,
                in_bytes: 1004,
                out_bytes: 1,
                unanswered: 0,
            };
            assert_eq!((store.executed(), store.bytes()), (counts, 0));
        });
    }

    #[test]
    fn in_an_outage_and_beyond_its_rate_a_store_answers_nothing() {
        on_store(Rates { changes: 2, reads: 1000 }, async |rt, store| {
            let put = async |name: &str| store.put(name, bytes(1), Condition::Always).await.is_ok();
            assert_eq!((put("1").await, put("2").await, put("3").await), (true, true, false));
            rt.sleep(SECS / 2).await;
            assert_eq!((put("3").await, put("4").await), (true, false));
            let (start_ns, length_ns) = (rt.now().0 + SECS, SECS);
            store.plan(Outage { start_ns, length_ns });
            assert!(store.get("1", None).await.is_ok());
            rt.sleep(SECS).await;
            assert!(matches!(store.get("1", None).await, Err(StoreError::Unknown(_))));
            rt.sleep(SECS).await;
            assert!(store.get("1", None).await.is_ok());
        });
    }

    #[test]
    fn what_is_under_way_may_be_found_by_others_or_not() {
        on_store(Rates::default(), async |rt, store| {
            store.put("there", bytes(5), Condition::Always).await.unwrap();
            let under_way = store.put("perhaps", bytes(3), Condition::Absent);
            let mut rng = Rng::stream(1, "test");
            let found: std::collections::BTreeSet<u64> =
                (0..20).map(|_| store.without_client(&mut rng).bytes()).collect();
            assert_eq!(found.into_iter().collect::<Vec<_>>(), [5, 8]);
            under_way.await.unwrap();
            assert_eq!(store.without_client(&mut rng).bytes(), 8);
            drop(rt);
        });
    }
}
