//! Creating a volume, opening it as its one writer, looking at it, and reading it for that.
//!
//! Contract: whoever opens a volume replays the packs after the map in the order of their sequence, up to the first
//! that is missing; puts a seal in its place, so that the writer before, should it still live, can never complete its
//! sequence; and takes the head with the next epoch, on condition that it is the one that was read. If that fails the
//! head has changed, and all begins anew. A flush is acknowledged when its packs and all before them are there.
//! Whatever was acknowledged is therefore before the seal, and what comes after it never is.

use std::rc::Rc;

use twin_rt::{Rt, join_all};

use crate::bucket::Bucket;
use crate::extents::Extents;
use crate::head::{self, Head, MapObject, MappedPack};
use crate::objects::{OpenError, block, bytes_of, malformed, read_head, read_header, write_map};
use crate::pack::{Header, PackId};
use crate::planted::PlantedFault;
use crate::requests::{Requests, Unwritten};
use crate::settings::{HasEnded, Settings};
use crate::store::{Condition, ObjectStore, StoreError, Version};
use crate::{Identity, Shape};

/// Headers of packs that are read at once.
const AT_ONCE: u64 = 16;
/// How often the head may change under a new writer before it gives up.
const ATTEMPTS: u32 = 8;

/// Creates a volume of zeros and opens it.
///
/// # Errors
/// If there is one, or the store fails.
pub async fn create(
    rt: &Rt,
    store: Rc<dyn ObjectStore>,
    volume: Identity,
    shape: Shape,
    settings: &Settings,
) -> Result<Bucket, OpenError> {
    shape.check().map_err(OpenError::Shape)?;
    let requests = settings.requests(rt, store);
    match read_head(&requests).await {
        Err(OpenError::NoVolume) => {}
        Err(error @ OpenError::Store(_)) => return Err(error),
        _ => return Err(OpenError::Exists),
    }
    let mut head = Head {
        volume,
        shape,
        count: 1,
        epoch: 1,
        writer: settings.writer,
        base: 0,
        is_closed: false,
        owner: settings.owner.clone(),
        map: String::new(),
    };
    head.map = head.map_name();
    write_map(&requests, &head, &MapObject::default()).await?;
    let bytes = vec![block(head.encode())];
    match requests.write(head::NAME, bytes, Condition::Absent).await {
        Ok(version) => {
            Ok(Bucket::new(requests, settings, (head, version), Extents::default(), false))
        }
        Err(Unwritten::Taken) => Err(OpenError::Exists),
        Err(Unwritten::Store(error)) => Err(error.into()),
    }
}

/// Opens a volume as its writer. One that its writer did not close is opened only if that has ended.
///
/// # Errors
/// If there is none, it is in use, damaged, or the store fails.
pub async fn open(
    rt: &Rt,
    store: Rc<dyn ObjectStore>,
    has_ended: HasEnded,
    settings: &Settings,
) -> Result<Bucket, OpenError> {
    let requests = settings.requests(rt, store);
    for _ in 0..ATTEMPTS {
        let (before, version) = read_head(&requests).await?;
        if !before.is_closed && !has_ended(&before.owner) {
            return Err(OpenError::InUse(before.owner));
        }
        let extents = match replayed(&requests, &before, settings.writer).await {
            // The head that was read may have been replaced, and what only it needed been deleted.
            Err(OpenError::Lost { .. }) if read_head(&requests).await?.1 != version => continue,
            other => other?,
        };
        let Some(head) = take(&requests, settings, before.clone(), version, &extents).await? else {
            continue;
        };
        let bucket = Bucket::new(requests, settings, head, extents, false);
        bucket.forget_map(before.map);
        if !before.is_closed {
            let bucket = bucket.clone();
            // The next writer tries again.
            rt.spawn("garbage of a bucket", async move { drop(bucket.collect_garbage().await) });
        }
        return Ok(bucket);
    }
    Err(OpenError::Contended)
}

/// Takes the head. `None` if it has changed.
async fn take(
    requests: &Requests,
    settings: &Settings,
    before: Head,
    version: Version,
    extents: &Extents,
) -> Result<Option<(Head, Version)>, OpenError> {
    let same = settings.planted.is(PlantedFault::SameEpoch);
    let mut head = Head {
        count: before.count + 1,
        epoch: before.epoch + u64::from(!same),
        writer: settings.writer,
        base: 0,
        is_closed: false,
        owner: settings.owner.clone(),
        ..before
    };
    head.map = head.map_name();
    write_map(requests, &head, &extents.to_map()).await?;
    let overwrites = settings.planted.is(PlantedFault::HeadOverwrites);
    let when = if overwrites { Condition::Always } else { Condition::Is(version) };
    match requests.write(head::NAME, vec![block(head.encode())], when).await {
        Ok(version) => Ok(Some((head, version))),
        Err(Unwritten::Taken) => Ok(None),
        Err(Unwritten::Store(error)) => Err(error.into()),
    }
}

/// Opens a volume to look at it, as it is now: nothing is written, and it stays with its writer.
///
/// # Errors
/// If there is none, it is damaged, or the store fails.
pub async fn look(
    rt: &Rt,
    store: Rc<dyn ObjectStore>,
    settings: &Settings,
) -> Result<Bucket, OpenError> {
    let requests = settings.requests(rt, store);
    let Known { head, version, extents, .. } = read_all(&requests).await?;
    Ok(Bucket::new(requests, settings, (head, version), extents, true))
}

/// What is known of a volume that somebody else may write.
pub(crate) struct Known {
    /// The head that was read, and whether it is still the same.
    pub(crate) head: Head,
    pub(crate) version: Version,
    /// The device.
    pub(crate) extents: Extents,
    /// How far its sequence was read.
    pub(crate) end: End,
}

/// How far the packs of an epoch were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The first that was not.
    pub(crate) next: PackId,
    /// Whether none follows: the writer has closed the volume, or was replaced.
    pub(crate) is_final: bool,
}

impl End {
    /// Before the packs after a head's map.
    fn of(head: &Head) -> End {
        End { next: PackId { epoch: head.epoch, seq: head.base }, is_final: head.is_closed }
    }
}

/// Reads a volume beside its writer.
pub(crate) async fn read_all(requests: &Requests) -> Result<Known, OpenError> {
    for _ in 0..ATTEMPTS {
        let (head, version) = read_head(requests).await?;
        let read = read_by(requests, &head).await;
        // Packs that the writer deletes meanwhile would look like the end.
        if read_head(requests).await?.1 != version {
            continue;
        }
        let (extents, end) = read?;
        return Ok(Known { head, version, extents, end });
    }
    Err(OpenError::Contended)
}

/// The device as a head and the packs after its map describe it.
async fn read_by(requests: &Requests, head: &Head) -> Result<(Extents, End), OpenError> {
    let mut extents = read_map(requests, head).await?;
    let mut end = End::of(head);
    read_on(requests, head, &mut extents, &mut end, AT_ONCE).await?;
    Ok((extents, end))
}

/// The device as a head and the packs after its map describe it, which are sealed.
async fn replayed(
    requests: &Requests,
    head: &Head,
    writer: Identity,
) -> Result<Extents, OpenError> {
    let mut extents = read_map(requests, head).await?;
    let mut end = End::of(head);
    if end.is_final || requests.planted.is(PlantedFault::NoReplay) {
        return Ok(extents);
    }
    loop {
        read_on(requests, head, &mut extents, &mut end, AT_ONCE).await?;
        if end.is_final || requests.planted.is(PlantedFault::NoSeal) {
            return Ok(extents);
        }
        let id = end.next;
        let seal = Header { volume: head.volume, writer, id, extents: Vec::new() };
        match requests.write(&id.name(), vec![block(seal.encode())], Condition::Absent).await {
            Ok(_) => return Ok(extents),
            // The writer got one more in, or another new one its seal: read on from there.
            Err(Unwritten::Taken) => {}
            Err(Unwritten::Store(error)) => return Err(error.into()),
        }
    }
}

/// The device as of a head's map.
async fn read_map(requests: &Requests, head: &Head) -> Result<Extents, OpenError> {
    let map = match requests.get(&head.map, None).await {
        Ok(content) => bytes_of(&content),
        Err(StoreError::Missing) => return Err(OpenError::Lost { name: head.map.clone() }),
        Err(error) => return Err(error.into()),
    };
    let map =
        MapObject::decode(&map, head.volume, head.shape.size).map_err(malformed(&head.map))?;
    Ok(Extents::of_map(&map))
}

/// Does to the device what the packs from `end` on say, up to the first that is missing. `at_once`
/// headers are read at once at first, and more if there are more.
pub(crate) async fn read_on(
    requests: &Requests,
    head: &Head,
    extents: &mut Extents,
    end: &mut End,
    mut at_once: u64,
) -> Result<(), OpenError> {
    while !end.is_final {
        let ids: Vec<PackId> =
            (0..at_once).map(|n| PackId { seq: end.next.seq + n, ..end.next }).collect();
        for header in join_all(ids.iter().map(|id| read_header(requests, head, *id))).await {
            let Some(header) = header? else { return Ok(()) };
            if header.is_seal() && !requests.planted.is(PlantedFault::SealsIgnored) {
                end.is_final = true;
                return Ok(());
            }
            apply(extents, &header, head)?;
            end.next.seq += 1;
        }
        at_once = (2 * at_once).min(AT_ONCE);
    }
    Ok(())
}

/// Does to the device what a pack says.
fn apply(extents: &mut Extents, header: &Header, head: &Head) -> Result<(), OpenError> {
    let id = header.id;
    let wrong = || malformed(&id.name())("an extent in it lies outside");
    let data_len = u32::try_from(header.data_len()).map_err(|_| wrong())?;
    let header_len = Header::len_of(header.extents.len());
    let slot = extents.add_pack(MappedPack { id, header_len, data_len }, Some(Vec::new()));
    let mut offset = 0;
    for extent in &header.extents {
        if extent.at + u64::from(extent.len) > head.shape.size {
            return Err(wrong());
        }
        extents.insert(extent.at, extent.len, extent.has_data.then_some((slot, offset)));
        if extent.has_data {
            offset += extent.len;
        }
    }
    extents.is_durable(slot);
    Ok(())
}
