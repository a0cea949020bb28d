//! Heads, maps and headers of packs, read from the store and written to it.

use std::fmt;

use twin_disk::Block;

use crate::head::{self, Head, MapObject};
use crate::pack::{self, HEADER_LEN, Header, PackId};
use crate::requests::{Requests, Unwritten};
use crate::store::{Condition, Content, StoreError, Version};

/// Bytes of a pack that are read for its header; more if it is longer.
const FRONT: u64 = 4096;

/// Why a volume was not created or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is none.
    NoVolume,
    /// There is one already.
    Exists,
    /// Its writer, in its own words, did not close it.
    InUse(String),
    /// Somebody opened it at the same time, again and again.
    Contended,
    /// The sizes cannot be.
    Shape(&'static str),
    /// An object is not what it should be.
    Malformed {
        /// Its name.
        name: String,
        /// In words.
        why: &'static str,
    },
    /// A pack that the map or the sequence needs is gone.
    Lost {
        /// Its name.
        name: String,
    },
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoVolume => f.write_str("there is no volume here"),
            OpenError::Exists => f.write_str("there is a volume here already"),
            OpenError::InUse(owner) => write!(
                f,
                "the volume is in use by {owner}, or was when that ended: if you know that it has ended, replace it \
                 (mount --take-over)"
            ),
            OpenError::Contended => f.write_str("somebody else opens the volume at the same time"),
            OpenError::Shape(why) => f.write_str(why),
            OpenError::Malformed { name, why } => write!(f, "{name} is damaged: {why}"),
            OpenError::Lost { name } => {
                write!(f, "{name} is missing: somebody has deleted objects")
            }
            OpenError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> OpenError {
        OpenError::Store(error)
    }
}

pub(crate) fn malformed(name: &str) -> impl FnOnce(&'static str) -> OpenError {
    let name = name.to_string();
    move |why| OpenError::Malformed { name, why }
}

pub(crate) fn block(bytes: Vec<u8>) -> Block {
    Block::Bytes(twin_disk::Buf::taking(bytes).freeze())
}

pub(crate) fn bytes_of(content: &Content) -> Vec<u8> {
    pack::front(&content.blocks, u64::MAX)
}

pub(crate) async fn read_head(requests: &Requests) -> Result<(Head, Version), OpenError> {
    match requests.get(head::NAME, Some((0, head::MOST))).await {
        Ok(content) => {
            let head = Head::decode(&bytes_of(&content)).map_err(malformed(head::NAME))?;
            Ok((head, content.version))
        }
        Err(StoreError::Missing) => Err(OpenError::NoVolume),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn write_map(
    requests: &Requests,
    head: &Head,
    map: &MapObject,
) -> Result<(), OpenError> {
    let blocks = vec![block(map.encode(head.volume))];
    match requests.write(&head.map, blocks, Condition::Absent).await {
        Ok(_) => Ok(()),
        Err(Unwritten::Taken) => Err(OpenError::Contended),
        Err(Unwritten::Store(error)) => Err(error.into()),
    }
}

/// Reads the header of a pack, if there is one.
pub(crate) async fn read_header(
    requests: &Requests,
    head: &Head,
    id: PackId,
) -> Result<Option<Header>, OpenError> {
    let name = id.name();
    let content = match requests.get(&name, Some((0, FRONT))).await {
        Ok(content) => content,
        Err(StoreError::Missing) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = bytes_of(&content);
    if bytes.len() < HEADER_LEN as usize {
        return Err(malformed(&name)("it is too short"));
    }
    let len = Header::len_in(&bytes).map_err(malformed(&name))? as usize;
    if len > bytes.len() {
        let rest =
            requests.get(&name, Some((bytes.len() as u64, (len - bytes.len()) as u64))).await;
        match rest {
            Ok(rest) => bytes.extend(bytes_of(&rest)),
            Err(StoreError::Missing) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(len);
    let header = Header::decode(&bytes).map_err(malformed(&name))?;
    if header.volume != head.volume || header.id != id {
        return Err(malformed(&name)("it belongs elsewhere"));
    }
    Ok(Some(header))
}
