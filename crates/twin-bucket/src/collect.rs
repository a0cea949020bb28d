//! New heads, and the deletion of what none refers to.
//!
//! Contract: a head describes the device as of a place in the sequence and is written only when all packs before that
//! place are in the store. What had no live byte by then is deleted after it, never before: until then whoever opens
//! the volume reads by the head before. Deleting may fail; the next writer that opens a volume which was not closed
//! deletes what is left, but for seals, without which a writer of long ago could go on.

use std::rc::Rc;

use twin_rt::join_all;

use crate::Shape;
use crate::device::Inner;
use crate::head::{self, Head, PIECE_BYTES};
use crate::objects::{block, write_map};
use crate::pack::{self, PackId, SEAL_BYTES};
use crate::planted::PlantedFault;
use crate::store::{Condition, StoreError};

/// Bytes of a map for each pack after it at the most: the map of a large volume is written less often.
const MAP_BYTES_A_PACK: u64 = 64 << 10;
/// Objects that are deleted at once.
const DELETES: usize = 16;

impl Inner {
    /// Writes a head in the background if one is due.
    pub(crate) fn head_if_due(self: &Rc<Inner>) {
        let (packs, map_bytes) = {
            let state = self.state.borrow();
            let packs = state.next - self.head.borrow().0.base;
            (packs, state.extents.pieces() as u64 * PIECE_BYTES)
        };
        let due = self.packs_a_head.max(map_bytes / MAP_BYTES_A_PACK);
        if packs < due || self.heads.in_use() {
            return;
        }
        let inner = Rc::clone(self);
        self.rt.spawn("head of a bucket", async move {
            let _heads = inner.heads.write().await;
            // A failure is the device's from here on.
            let _ = inner.write_head(false).await;
        });
    }

    /// Writes a head that describes all that is on its way now, with `heads` locked.
    pub(crate) async fn write_head(self: &Rc<Inner>, is_closed: bool) -> Result<(), String> {
        self.write_head_of(self.shape.get(), is_closed).await
    }

    /// The same of a device of this shape.
    pub(crate) async fn write_head_of(
        self: &Rc<Inner>,
        shape: Shape,
        is_closed: bool,
    ) -> Result<(), String> {
        let (map, base, dead, old_maps) = {
            // The draft is in the map, too.
            self.send_draft();
            let mut state = self.state.borrow_mut();
            let dead = state.extents.take_dead();
            let old_maps = std::mem::take(&mut state.old_maps);
            (state.extents.to_map(), state.next, dead, old_maps)
        };
        if self.requests.planted.is(PlantedFault::DeleteBeforeHead) {
            self.delete_all(
                dead.iter().map(|id| id.name()).chain(old_maps.iter().cloned()).collect(),
            )
            .await;
        }
        if !self.requests.planted.is(PlantedFault::HeadOvertakes) {
            self.stored(base).await?;
        }
        let (before, version) = self.head.borrow().clone();
        let old_map = before.map.clone();
        let mut head = Head { shape, count: before.count + 1, base, is_closed, ..before };
        head.map = head.map_name();
        write_map(&self.requests, &head, &map).await.map_err(|error| {
            let why = format!("{}: {error}", head.map);
            self.fail(why.clone());
            why
        })?;
        let overwrites = self.requests.planted.is(PlantedFault::HeadOverwrites);
        let when = if overwrites { Condition::Always } else { Condition::Is(version) };
        let written = self.requests.write(head::NAME, vec![block(head.encode())], when).await;
        let version = written.map_err(|why| self.fail_unwritten(head::NAME, &why))?;
        *self.head.borrow_mut() = (head, version);
        let names = dead.iter().map(|id| id.name()).chain(old_maps).chain([old_map]);
        self.delete_all(names.collect()).await;
        Ok(())
    }

    async fn delete_all(&self, names: Vec<String>) {
        for some in names.chunks(DELETES) {
            // What stays costs room only.
            join_all(some.iter().map(|name| self.requests.delete(name))).await;
        }
    }

    pub(crate) async fn collect_garbage(&self) -> Result<(), StoreError> {
        // What has died since the head was written is needed by it. While this is locked it is in the list of the
        // dead, and not on its way from there into a new head.
        let _heads = self.heads.write().await;
        let packs = self.requests.list(pack::PREFIX).await?;
        let maps = self.requests.list(head::MAPS).await?;
        let (known, kept_maps) = {
            let state = self.state.borrow();
            let mut maps = state.old_maps.clone();
            maps.push(self.head.borrow().0.map.clone());
            (state.extents.ids(), maps)
        };
        // Those of later epochs are another writer's.
        let is_old = |id: PackId| id.epoch <= self.epoch && !known.contains(&id);
        let packs = packs
            .into_iter()
            .filter(|listed| listed.bytes != SEAL_BYTES)
            .filter(|listed| PackId::of_name(&listed.name).is_some_and(is_old));
        // Names of maps begin with the epoch of their writer, as that of the next epoch does.
        let later = format!("{}{:012x}", head::MAPS, self.epoch + 1);
        let maps = maps
            .into_iter()
            .filter(|listed| listed.name < later && !kept_maps.contains(&listed.name));
        self.delete_all(packs.chain(maps).map(|listed| listed.name).collect()).await;
        Ok(())
    }
}
