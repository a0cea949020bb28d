//! Requests that are repeated until the store answers, and writes of which it is known in the end whether they were
//! executed.

use std::rc::Rc;

use twin_disk::{Block, gather, total};
use twin_rt::{MILLIS, Nanos, Rt, SECS};

use crate::planted::PlantedFault;
use crate::store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};

/// The first pause before a request is repeated, which doubles each time, and the longest.
const PAUSE: Nanos = 100 * MILLIS;
const LONGEST_PAUSE: Nanos = 10 * SECS;

/// A store, and how long it may be silent.
#[derive(Clone)]
pub(crate) struct Requests {
    pub(crate) rt: Rt,
    pub(crate) store: Rc<dyn ObjectStore>,
    pub(crate) patience: Nanos,
    pub(crate) planted: PlantedFault,
}

/// Why an object was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// Somebody else has written it.
    Taken,
    /// The store failed.
    Store(StoreError),
}

impl Requests {
    /// Repeats a request while its outcome is unknown, with growing pauses.
    async fn repeated<T>(&self, request: impl Fn() -> Stored<T>) -> Result<T, StoreError> {
        let begun = self.rt.now();
        let mut pause = PAUSE;
        loop {
            match request().await {
                Err(StoreError::Unknown(why)) => {
                    if self.rt.now().since(begun) + pause > self.patience {
                        let patience = self.patience / SECS;
                        return Err(StoreError::Unknown(format!("{why}, for {patience} seconds")));
                    }
                }
                answered => return answered,
            }
            self.rt.sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    pub(crate) async fn get(
        &self,
        name: &str,
        range: Option<(u64, u64)>,
    ) -> Result<Content, StoreError> {
        self.repeated(|| self.store.get(name, range)).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.repeated(|| self.store.delete(name)).await
    }

    /// All objects whose names begin with `prefix`.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let mut all: Vec<Listed> = Vec::new();
        loop {
            let after = all.last().map(|listed| listed.name.clone());
            let page = self.repeated(|| self.store.list(prefix, after.as_deref())).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Writes an object that nobody else writes with this content. That it is there already may be an earlier attempt
    /// of ours whose answer was lost, or a second execution of the same request, so the content decides.
    pub(crate) async fn write(
        &self,
        name: &str,
        blocks: Vec<Block>,
        when: Condition,
    ) -> Result<Version, Unwritten> {
        if self.planted.is(PlantedFault::SilenceIsSuccess)
            && let Err(StoreError::Unknown(_)) =
                self.store.put(name, blocks.clone(), when.clone()).await
        {
            return Ok(Version(String::new()));
        }
        let put = || self.store.put(name, blocks.clone(), when.clone());
        match self.repeated(put).await {
            Ok(version) => return Ok(version),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(Unwritten::Store(error)),
        }
        let there = match self.get(name, None).await {
            Ok(there) => there,
            Err(StoreError::Missing) => return Err(Unwritten::Taken),
            Err(error) => return Err(Unwritten::Store(error)),
        };
        let is_ours = same(&there.blocks, &blocks);
        if is_ours || self.planted.is(PlantedFault::ConflictIsSuccess) {
            Ok(there.version)
        } else {
            Err(Unwritten::Taken)
        }
    }
}

fn same(a: &[Block], b: &[Block]) -> bool {
    let (a_len, b_len) = (total(a) as usize, total(b) as usize);
    a_len == b_len && gather(a, 0, a_len).to_bytes() == gather(b, 0, b_len).to_bytes()
}
