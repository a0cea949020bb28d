//! The device as its users have it.
//!
//! Contract: that of every [`BlockDevice`]. A flush is acknowledged when all that was written is in the store. A
//! device that its writer does not close stays in that writer's name.

use std::rc::Rc;

use twin_disk::{
    Block, BlockDevice, DeviceInfo, Io, IoError, IoErrorKind, IoKind, Pending, pending,
};

use twin_rt::BoxFuture;

use crate::Shape;
use crate::counts::Counts;
use crate::device::Inner;
use crate::extents::Extents;
use crate::head::{self, Head};
use crate::pack::PackId;
use crate::requests::Requests;
use crate::settings::Settings;
use crate::store::{StoreError, Version};

/// A volume in a bucket, as a block device. Clones are the same.
#[derive(Clone)]
pub struct Bucket(pub(crate) Rc<Inner>);

impl Bucket {
    /// A volume as its head and `extents` describe it.
    pub(crate) fn new(
        requests: Requests,
        settings: &Settings,
        head: (Head, Version),
        extents: Extents,
        is_read_only: bool,
    ) -> Bucket {
        Bucket(Rc::new(Inner::new(requests, settings, head, extents, is_read_only)))
    }

    /// The writer's number among the writers of this volume.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Why no request is served any more, if that is so.
    pub fn failed(&self) -> Option<String> {
        self.0.failed.borrow().clone()
    }

    /// Whether a read has met a pack that is gone: of a volume that is only looked at, its writer has deleted it since.
    pub fn has_lost(&self) -> bool {
        self.0.has_lost.get()
    }

    /// Flushes, and ends the writer: the next one needs no permission, and reads the map alone. Nothing can be
    /// written afterwards.
    ///
    /// # Errors
    /// If the store fails, or another writer has taken over.
    pub async fn close(&self) -> Result<(), String> {
        self.0.check()?;
        if self.0.is_read_only {
            return Ok(());
        }
        flush(&self.0).await?;
        let _heads = self.0.heads.write().await;
        self.0.write_head(true).await?;
        self.0.fail("the volume is closed".into());
        Ok(())
    }

    /// What the store was asked since the volume was opened, opening included.
    pub fn counts(&self) -> Counts {
        self.0.requests.store.requested().unwrap_or_default()
    }

    /// Bytes of the packs that are in the store or on their way there, as far as this writer knows.
    pub fn stored_bytes(&self) -> u64 {
        self.0.state.borrow().extents.stored_bytes()
    }

    /// The names of the objects that the volume needs, as far as this writer knows, but for seals.
    pub fn needed(&self) -> Vec<String> {
        let packs = self.0.state.borrow().extents.live_ids();
        let map = self.0.head.borrow().0.map.clone();
        packs.into_iter().map(PackId::name).chain([map, head::NAME.into()]).collect()
    }

    /// The map of the head before this writer's is needed no more.
    pub(crate) fn forget_map(&self, name: String) {
        self.0.state.borrow_mut().old_maps.push(name);
    }

    /// Deletes what writers before this one have left in the bucket, which is done in the background when a volume is
    /// opened that was not closed. (A request that the store executes twice can leave something at any time.)
    ///
    /// # Errors
    /// If the store fails. What is left costs room only.
    pub async fn collect_garbage(&self) -> Result<(), StoreError> {
        self.0.collect_garbage().await
    }
}

impl BlockDevice for Bucket {
    fn info(&self) -> DeviceInfo {
        let Shape { size, sector, pack_bytes } = self.0.shape.get();
        DeviceInfo { size, sector, max_io: pack_bytes, name: self.0.requests.store.name() }
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info().check(&io) {
            return Pending::ready(Err(error));
        }
        let (done, answer) = pending();
        let inner = Rc::clone(&self.0);
        inner.in_flight.set(inner.in_flight.get() + 1);
        self.0.rt.run_or_spawn("bucket request", async move {
            let (op, at, len) = (io.kind, io.at, io.len);
            let result = serve(&inner, io).await;
            inner.in_flight.set(inner.in_flight.get() - 1);
            done.done(result.map_err(|why| IoError { op, at, len, kind: IoErrorKind::Other(why) }));
        });
        answer
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight.get()
    }

    /// The head says the new size before anything is written behind the old one: whoever reads packs refuses what
    /// does not fit the head's device.
    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        Box::pin(async move {
            let grown = Shape { size: to.unwrap_or(0), ..self.0.shape.get() };
            if grown.size > self.0.shape.get().size {
                grown.check().map_err(|why| IoErrorKind::Other(why.into()))?;
                let written = set_shape(&self.0, grown).await;
                written.map_err(IoErrorKind::Other)?;
            }
            Ok(self.0.shape.get().size)
        })
    }
}

async fn serve(inner: &Rc<Inner>, io: Io) -> Result<Vec<Block>, String> {
    if io.kind == IoKind::Read {
        return inner.read(io.at, io.len).await;
    }
    if inner.is_read_only {
        return Err("the volume is open to be read only".into());
    }
    inner.check()?;
    match io.kind {
        IoKind::Flush => flush(inner).await?,
        IoKind::Discard => inner.put_zeros(io.at, io.len),
        _ => inner.write(io.at, io.len, io.blocks).await?,
    }
    Ok(Vec::new())
}

async fn set_shape(inner: &Rc<Inner>, shape: Shape) -> Result<(), String> {
    inner.check()?;
    if inner.is_read_only {
        return Err("the volume is open to be read only".into());
    }
    let _heads = inner.heads.write().await;
    inner.write_head_of(shape, false).await?;
    // Nothing is taken behind the old end before.
    inner.shape.set(shape);
    Ok(())
}

/// Waits until all that was written is in the store.
async fn flush(inner: &Rc<Inner>) -> Result<(), String> {
    inner.send_draft();
    let to = inner.state.borrow().next;
    inner.stored(to).await?;
    inner.head_if_due();
    Ok(())
}
