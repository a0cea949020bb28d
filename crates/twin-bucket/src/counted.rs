//! A store whose requests are counted.

use std::cell::Cell;
use std::rc::Rc;

use twin_disk::{Block, total};

use crate::counts::Counts;
use crate::store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};

/// A store whose requests are counted.
pub(crate) struct Counted {
    store: Rc<dyn ObjectStore>,
    counts: Rc<Cell<Counts>>,
}

impl Counted {
    /// A store that counts what it is asked: this one, unless it does so already.
    pub(crate) fn of(store: Rc<dyn ObjectStore>) -> Rc<dyn ObjectStore> {
        match store.requested() {
            Some(_) => store,
            None => Rc::new(Counted { store, counts: Rc::default() }),
        }
    }

    /// Counts a request when it is answered.
    fn counting<T: 'static>(
        &self,
        request: Stored<T>,
        count: impl FnOnce(&mut Counts, Option<&T>) + 'static,
    ) -> Stored<T> {
        let counts = Rc::clone(&self.counts);
        Box::pin(async move {
            let answer = request.await;
            let mut now = counts.get();
            match &answer {
                Err(StoreError::Unknown(_)) => now.unanswered += 1,
                answered => count(&mut now, answered.as_ref().ok()),
            }
            counts.set(now);
            answer
        })
    }
}

impl ObjectStore for Counted {
    fn name(&self) -> String {
        self.store.name()
    }

    fn requested(&self) -> Option<Counts> {
        Some(self.counts.get())
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        self.counting(self.store.get(name, range), |counts, content| {
            counts.gets += 1;
            counts.out_bytes += content.map_or(0, |content| total(&content.blocks));
        })
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let bytes = total(&blocks);
        self.counting(self.store.put(name, blocks, when), move |counts, _| {
            counts.puts += 1;
            counts.in_bytes += bytes;
        })
    }

    fn delete(&self, name: &str) -> Stored<()> {
        self.counting(self.store.delete(name), |counts, _| counts.deletes += 1)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        self.counting(self.store.list(prefix, after), |counts, _| counts.lists += 1)
    }
}
