//! Creating a volume, opening it as its one writer, and looking at it.
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
        let extents = match replayed(&requests, &before, Some(settings.writer)).await {
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
    for _ in 0..ATTEMPTS {
        let (head, version) = read_head(&requests).await?;
        let extents = replayed(&requests, &head, None).await;
        // Packs that the writer deletes meanwhile would look like the end.
        if read_head(&requests).await?.1 != version {
            continue;
        }
        return Ok(Bucket::new(requests, settings, (head, version), extents?, true));
    }
    Err(OpenError::Contended)
}

/// The device as its head and the packs after the map describe it. With a writer the sequence is sealed.
async fn replayed(
    requests: &Requests,
    head: &Head,
    seal_by: Option<Identity>,
) -> Result<Extents, OpenError> {
    let map = match requests.get(&head.map, None).await {
        Ok(content) => bytes_of(&content),
        Err(StoreError::Missing) => return Err(OpenError::Lost { name: head.map.clone() }),
        Err(error) => return Err(error.into()),
    };
    let map =
        MapObject::decode(&map, head.volume, head.shape.size).map_err(malformed(&head.map))?;
    let mut extents = Extents::of_map(&map);
    if head.is_closed || requests.planted.is(PlantedFault::NoReplay) {
        return Ok(extents);
    }
    let mut next = PackId { epoch: head.epoch, seq: head.base };
    loop {
        let ids: Vec<PackId> = (0..AT_ONCE).map(|n| PackId { seq: next.seq + n, ..next }).collect();
        let headers = join_all(ids.iter().map(|id| read_header(requests, head, *id))).await;
        let mut ended = None;
        for header in headers {
            match header? {
                Some(header)
                    if header.is_seal() && !requests.planted.is(PlantedFault::SealsIgnored) =>
                {
                    return Ok(extents);
                }
                Some(header) => apply(&mut extents, &header, head)?,
                None => {
                    ended = Some(next);
                    break;
                }
            }
            next.seq += 1;
        }
        let Some(id) = ended else { continue };
        let Some(writer) = seal_by.filter(|_| !requests.planted.is(PlantedFault::NoSeal)) else {
            return Ok(extents);
        };
        let seal = Header { volume: head.volume, writer, id, extents: Vec::new() };
        match requests.write(&id.name(), vec![block(seal.encode())], Condition::Absent).await {
            Ok(_) => return Ok(extents),
            // The writer got one more in, or another new one its seal: read on from there.
            Err(Unwritten::Taken) => {}
            Err(Unwritten::Store(error)) => return Err(error.into()),
        }
    }
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
