//! An FFS volume for the shared dump of files: inodes are in the tables of their groups.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::dump::{Fields, InUse, OnDisk, Value};
use twin_fs::geometry::{Geometry, Ptr};
use twin_fs::{Features, FsError, Ino, Result};
use twin_rt::BoxFuture;

use crate::bits::Bits;
use crate::check::volume_image::VolumeImage;
use crate::format::{CgImage, VolumeState};

/// A volume for reading.
pub(super) struct Source {
    pub(super) view: VolumeImage,
    pub(super) state: VolumeState,
    /// The number of journal records that are newer than the blocks in their places.
    pub(super) records: u64,
    features: Features,
    /// The group that was read last.
    group: RefCell<Option<(u32, Rc<CgImage>)>>,
}

impl Source {
    pub(super) fn new(
        view: VolumeImage,
        features: Features,
        state: VolumeState,
        records: u64,
    ) -> Source {
        Source { view, state, records, features, group: RefCell::default() }
    }

    /// The maps of a group.
    pub(super) async fn group(&self, group: u32) -> Result<Rc<CgImage>> {
        if let Some((last, image)) = &*self.group.borrow()
            && *last == group
        {
            return Ok(Rc::clone(image));
        }
        let sb = &self.view.sb;
        let raw = self.view.get(sb.cg_addr(group), sb.geometry.block_size).await?;
        let image = Rc::new(CgImage::decode(sb, group, &raw)?);
        *self.group.borrow_mut() = Some((group, Rc::clone(&image)));
        Ok(image)
    }

    /// True if a group's map says that an inode number is in use.
    async fn is_used(&self, ino: Ino) -> Result<bool> {
        let sb = &self.view.sb;
        let image = self.group(sb.inode_group(ino)).await?;
        let used = Bits::from_bytes(&image.inodes, sb.group_inodes);
        Ok(used.get((ino % u64::from(sb.group_inodes)) as u32))
    }

    /// An inode in the bytes of its table's block.
    fn inode_in(&self, block: &[u8], ino: Ino) -> Result<(u64, Dinode)> {
        let sb = &self.view.sb;
        let (addr, off) = sb.inode_place(ino);
        let at = sb.geometry.byte_of(addr) + off as u64;
        let raw = &block[off..off + sb.geometry.inode_size as usize];
        if Dinode::free_generation(&sb.geometry, raw).is_some() {
            return Err(FsError::corrupt(at, "its place in the table says that it is free"));
        }
        let d = Dinode::decode(&sb.geometry, raw, self.frags());
        let d = d.map_err(|what| FsError::corrupt(at, what))?;
        match d.ino == ino {
            true => Ok((at, d)),
            false => Err(FsError::corrupt(at, format!("it says that it is inode {}", d.ino))),
        }
    }

    async fn table_block(&self, ino: Ino) -> Result<Bytes> {
        let sb = &self.view.sb;
        self.view.get(sb.inode_place(ino).0, sb.geometry.block_size).await
    }
}

impl OnDisk for Source {
    fn geometry(&self) -> &Geometry {
        &self.view.sb.geometry
    }

    fn features(&self) -> &Features {
        &self.features
    }

    fn frags(&self) -> u64 {
        self.view.sb.size / u64::from(self.view.sb.geometry.frag_size)
    }

    fn region(&self) -> &'static str {
        "group"
    }

    fn region_of(&self, at: u64) -> Option<u64> {
        let addr = at / u64::from(self.view.sb.geometry.frag_size);
        self.view.sb.locate(addr).map(|(group, _)| group.into())
    }

    fn areas(&self) -> Vec<Range<u64>> {
        let sb = &self.view.sb;
        let area = |group| {
            let (start, frags) = (sb.group_start(group), u64::from(sb.frags_of(group)));
            sb.geometry.byte_of(start)..sb.geometry.byte_of(start + frags)
        };
        (0..sb.groups).map(area).collect()
    }

    fn free_from(&self, first: usize) -> BoxFuture<'_, (usize, Result<Vec<Range<u64>>>)> {
        Box::pin(async move {
            let sb = &self.view.sb;
            let group = first as u32;
            let start = sb.group_start(group);
            let free = self.group(group).await.map(|image| {
                let bits = Bits::from_bytes(&image.free, sb.frags_of(group));
                let bytes = |(first, frags)| {
                    let at = start + u64::from(first);
                    sb.geometry.byte_of(at)..sb.geometry.byte_of(at + u64::from(frags))
                };
                super::groups::runs(&bits).into_iter().map(bytes).collect()
            });
            (first + 1, free)
        })
    }

    fn numbers(&self) -> Ino {
        self.view.sb.inodes()
    }

    fn map_entry(&self, ino: Ino) -> BoxFuture<'_, Result<Option<(&'static str, Fields)>>> {
        Box::pin(async move {
            let group = Value::Number(self.view.sb.inode_group(ino).into());
            let free = Value::Flag(!self.is_used(ino).await?);
            let fields = vec![("ino", Value::Number(ino)), ("group", group), ("free", free)];
            Ok(Some(("what the group's map of inodes says", fields)))
        })
    }

    fn inode(&self, ino: Ino) -> BoxFuture<'_, Result<(Option<u64>, Dinode)>> {
        Box::pin(async move {
            if !self.is_used(ino).await? {
                let what = format!("inode {ino} is free: see `inodes`");
                return Err(FsError::inconsistent(what));
            }
            let block = self.table_block(ino).await?;
            self.inode_in(&block, ino).map(|(at, d)| (Some(at), d))
        })
    }

    fn inodes_from(&self, first: Ino) -> BoxFuture<'_, (Ino, Result<Vec<InUse>>)> {
        Box::pin(async move {
            let sb = &self.view.sb;
            let per_group = u64::from(sb.group_inodes);
            let group_end = (first / per_group + 1) * per_group;
            let image = match self.group(sb.inode_group(first)).await {
                Ok(image) => image,
                Err(error) => return (group_end, Err(error)),
            };
            let used = Bits::from_bytes(&image.inodes, sb.group_inodes);
            let Some(next) = used.next_set((first % per_group) as u32, u32::MAX) else {
                return (group_end, Ok(Vec::new()));
            };
            let first = group_end - per_group + u64::from(next);
            let per_block = u64::from(sb.inodes_per_block());
            let end = ((first / per_block + 1) * per_block).min(group_end);
            let block = match self.table_block(first).await {
                Ok(block) => block,
                Err(error) => return (end, Err(error)),
            };
            // Numbers 0 and 1 are reserved and never used.
            let numbers = (first..end).filter(|ino| *ino >= twin_fs::ROOT_INO);
            let numbers = numbers.filter(|ino| used.get((ino % per_group) as u32));
            let found = numbers.map(|ino| {
                let read = self.inode_in(&block, ino);
                InUse { ino, generation: None, mark: "", read }
            });
            (end, Ok(found.collect()))
        })
    }

    fn check_ptr(&self, ptr: Ptr) -> std::result::Result<(), &'static str> {
        self.view.sb.geometry.check_ptr(ptr, self.frags())
    }

    fn block(&self, _ino: Ino, _lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            self.check_ptr(ptr).map_err(FsError::inconsistent)?;
            self.view.get(ptr.addr, ptr.len).await
        })
    }
}
