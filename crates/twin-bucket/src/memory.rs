//! A store in memory that answers at once: for tests, and the simplest example of a store.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::ops::Bound;

use twin_disk::{Block, cut, total};

use crate::counts::Counts;
use crate::store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};

/// Names on a page of a list.
const PAGE: usize = 1000;

/// A bucket in memory. A clone is a copy of it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    objects: RefCell<BTreeMap<String, (Vec<Block>, u64)>>,
    /// Counts contents: no version comes twice.
    versions: Cell<u64>,
    requests: Cell<Counts>,
}

fn version(number: u64) -> Version {
    Version(number.to_string())
}

impl MemoryStore {
    /// A bucket without objects.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// How often each kind of request was executed.
    pub fn requests(&self) -> Counts {
        self.requests.get()
    }

    /// Bytes of its objects.
    pub fn bytes(&self) -> u64 {
        self.objects.borrow().values().map(|(blocks, _)| total(blocks)).sum()
    }

    /// Bytes of an object; none if there is none.
    pub fn bytes_of(&self, name: &str) -> u64 {
        self.objects.borrow().get(name).map_or(0, |(blocks, _)| total(blocks))
    }

    fn count(&self, how: impl FnOnce(&mut Counts)) {
        let mut requests = self.requests.get();
        how(&mut requests);
        self.requests.set(requests);
    }

    fn read(&self, name: &str, range: Option<(u64, u64)>) -> Result<Content, StoreError> {
        self.count(|requests| requests.gets += 1);
        let objects = self.objects.borrow();
        let (blocks, number) = objects.get(name).ok_or(StoreError::Missing)?;
        let all = total(blocks);
        let (at, want) = range.unwrap_or((0, all));
        let at = at.min(all);
        let want = want.min(all - at);
        let blocks = cut(blocks, at, want);
        self.count(|requests| requests.out_bytes += want);
        Ok(Content { blocks, version: version(*number) })
    }

    fn write(
        &self,
        name: &str,
        blocks: Vec<Block>,
        when: &Condition,
    ) -> Result<Version, StoreError> {
        let bytes = total(&blocks);
        self.count(|requests| {
            requests.puts += 1;
            requests.in_bytes += bytes;
        });
        let mut objects = self.objects.borrow_mut();
        let now = objects.get(name).map(|(_, number)| version(*number));
        let holds = match when {
            Condition::Always => true,
            Condition::Absent => now.is_none(),
            Condition::Is(wanted) => now.as_ref() == Some(wanted),
        };
        if !holds {
            return Err(StoreError::Conflict);
        }
        let number = self.versions.get() + 1;
        self.versions.set(number);
        objects.insert(name.into(), (blocks, number));
        Ok(version(number))
    }

    fn page(&self, prefix: &str, after: Option<&str>) -> Vec<Listed> {
        self.count(|requests| requests.lists += 1);
        let objects = self.objects.borrow();
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let below = objects.range::<str, _>((from, Bound::Unbounded));
        let below = below.take_while(|(name, _)| name.starts_with(prefix));
        let listed =
            below.map(|(name, (blocks, _))| Listed { name: name.clone(), bytes: total(blocks) });
        listed.take(PAGE).collect()
    }
}

impl ObjectStore for MemoryStore {
    fn name(&self) -> String {
        "memory".into()
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        Box::pin(ready(self.read(name, range)))
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        Box::pin(ready(self.write(name, blocks, &when)))
    }

    fn delete(&self, name: &str) -> Stored<()> {
        self.count(|requests| requests.deletes += 1);
        self.objects.borrow_mut().remove(name);
        Box::pin(ready(Ok(())))
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        Box::pin(ready(Ok(self.page(prefix, after))))
    }
}
