//! What the check of a volume has to know of this layout: the table of inodes and the two bitmaps.
//!
//! Contract: files, names and trees are checked and repaired by [`twin_check`], which sees a volume as an
//! [`Image`]. Changes stay in memory ([`Disk`]) until all is in order, and are written then; the volume counts
//! as unmounted only after that, so a repair can be interrupted and begun again.
//!
//! Inodes are believed before bitmaps. Of two files that lead to a block, the one that changed first has it,
//! unless the other has names there: what was synced and not touched since is older than anything that a
//! crash can have left half-written.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_check::{
    Claim, Finding, FindingKind, FoundInode, Image, Node, NumberState, Numbers, Phase, Progress,
    Report, Step,
};
use twin_disk::{BlockDevice, Bytes};
use twin_fs::dinode::{Dinode, TRUNCATING};
use twin_fs::geometry::{Geometry, Ptr};
use twin_fs::{Cpu, FsError, Ino, ROOT_INO, Result, Settings};
use twin_rt::{BoxFuture, Rt};

use crate::bitmap::Bitmap;
use crate::disk::Disk;
use crate::format::{CLEAN, IN_USE, INODE_BYTES, Superblock};
use crate::layout::Vsfs;

/// Looks at the volume on a device; mends it too, if asked to.
///
/// # Errors
/// If there is no volume, or the device fails.
pub(crate) async fn check(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    repair: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    let (sb, state) = Superblock::read(&*device).await?;
    let mut report = Report { was_open: state != CLEAN, skipped_data: true, ..Report::default() };
    if report.was_open {
        report.notes.push("not unmounted".into());
    }
    let claims = Bitmap::empty(&sb, sb.data_bitmap, sb.data_blocks());
    let disk = Disk::new(Rc::clone(&device), sb.clone());
    let mut image = VsfsImage { disk, claims, was_open: report.was_open };
    if !repair {
        twin_check::check(&mut image, &mut report, progress).await?;
        return Ok(report);
    }
    let lost = twin_check::repair(&mut image, true, &mut report, progress).await?;
    sb.write(&*device, IN_USE).await?;
    image.disk.write().await?;
    if lost.is_empty() {
        sb.write(&*device, CLEAN).await?;
        return Ok(report);
    }
    // All is in order but for files without a name: the volume's own code gives them one. On a full
    // volume the rest waits for a later repair.
    let volume = Vsfs::open_sound(rt, device, Cpu::none(), Settings::default(), sb).await?;
    report.rescued = volume.reconnect_all(lost, false).await?;
    volume.close().await?;
    Ok(report)
}

/// A volume as the check sees it.
struct VsfsImage {
    disk: Disk,
    /// Data blocks that files lead to.
    claims: Bitmap,
    was_open: bool,
}

impl VsfsImage {
    /// The number of a data block among these.
    fn index(&self, place: u64) -> u32 {
        (place - u64::from(self.disk.sb.data)) as u32
    }

    /// Reads inodes. Those that lie in one block are read with it.
    async fn read_inodes(&self, some: &[Ino]) -> Vec<Result<Option<FoundInode>>> {
        let mut found = Vec::with_capacity(some.len());
        let mut block = (0, Vec::new());
        for &ino in some {
            let (place, offset) = self.disk.sb.inode_place(ino);
            if block.0 != place {
                match self.disk.block(place).await {
                    Ok(bytes) => block = (place, bytes),
                    Err(error) => {
                        found.push(Err(error));
                        continue;
                    }
                }
            }
            let raw = &block.1[offset..offset + INODE_BYTES as usize];
            found.push(self.decode_inode(ino, self.disk.sb.byte_of(place) + offset as u64, raw));
        }
        found
    }

    fn decode_inode(&self, ino: Ino, at: u64, raw: &[u8]) -> Result<Option<FoundInode>> {
        if Dinode::free_generation(&self.disk.geometry, raw).is_some() {
            return Ok(None);
        }
        match Dinode::decode_unplaced(&self.disk.geometry, raw, self.disk.sb.blocks.into()) {
            Ok(d) if d.ino == ino => Ok(Some(FoundInode { at, d })),
            Ok(d) => Err(FsError::corrupt(at, format!("it says that it is inode {}", d.ino))),
            Err(what) => Err(FsError::corrupt(at, what)),
        }
    }

    async fn change_inode(
        &mut self,
        ino: Ino,
        change: impl FnOnce(&Geometry, &mut [u8]),
    ) -> Result<()> {
        let (place, offset) = self.disk.sb.inode_place(ino);
        let mut block = self.disk.block(place).await?;
        change(&self.disk.geometry, &mut block[offset..offset + INODE_BYTES as usize]);
        self.disk.put(place, block);
        Ok(())
    }

    /// Holds the bitmaps against what inodes and their blocks say.
    async fn compare_bitmaps(&mut self, nodes: &[Node], report: &mut Report) -> Result<()> {
        let sb = self.disk.sb.clone();
        let mut inodes = Bitmap::empty(&sb, sb.inode_bitmap, sb.inodes);
        for (number, node) in (0..).zip(nodes) {
            let is_reserved = Ino::from(number) < ROOT_INO;
            inodes.set(number, is_reserved || node.state == NumberState::Read);
        }
        let kinds = [(FindingKind::InodeMap, "inode"), (FindingKind::FragmentMap, "data")];
        for ((kind, name), bitmap) in kinds.into_iter().zip([&inodes, &self.claims]) {
            let mut wrong = 0;
            for (place, right) in bitmap.blocks() {
                let there = self.disk.block(place).await?;
                let bits = there.iter().zip(&right).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
                if bits > 0 {
                    self.disk.put(place, right);
                }
                wrong += bits;
            }
            if wrong > 0 {
                let what = format!("the {name} bitmap is wrong about {wrong} numbers");
                report.add(Finding::serious(kind, what));
            }
        }
        let block = u64::from(sb.block_size);
        report.counts.used_bytes = u64::from(self.claims.used()) * block;
        report.counts.free_bytes = u64::from(sb.data_blocks()) * block - report.counts.used_bytes;
        Ok(())
    }
}

impl Image for VsfsImage {
    fn geometry(&self) -> &Geometry {
        &self.disk.geometry
    }

    fn begin<'a>(&'a mut self, _: &'a mut Report) -> BoxFuture<'a, Result<Numbers>> {
        let sb = &self.disk.sb;
        self.claims = Bitmap::empty(sb, sb.data_bitmap, sb.data_blocks());
        let mut states = vec![NumberState::Used; sb.inodes as usize];
        states[..ROOT_INO as usize].fill(NumberState::Free);
        let order = (ROOT_INO..sb.inodes.into()).collect();
        Box::pin(std::future::ready(Ok(Numbers { states, order })))
    }

    fn inodes<'a>(&'a self, some: &'a [Ino]) -> BoxFuture<'a, Vec<Result<Option<FoundInode>>>> {
        Box::pin(self.read_inodes(some))
    }

    fn block<'a>(&'a self, _: Ino, _: Lbn, ptr: Ptr) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(async move { Ok(Bytes::copy_of(&self.disk.block(ptr.addr).await?)) })
    }

    fn check_place(&self, ptr: Ptr) -> std::result::Result<(), &'static str> {
        match self.disk.sb.is_data(ptr.addr) {
            true => Ok(()),
            false => Err("leads to no data block"),
        }
    }

    fn claim(&mut self, _: &Dinode, step: Step) -> Claim {
        let index = self.index(step.ptr.addr);
        let claim = if self.claims.get(index) { Claim::Taken } else { Claim::Free };
        self.claims.set(index, true);
        claim
    }

    fn note(&mut self, found: &FoundInode, report: &mut Report) {
        let FoundInode { at, d } = found;
        let is_removed = d.nlink == 0 && d.ino != ROOT_INO;
        if is_removed || d.flags & TRUNCATING != 0 {
            report.counts.orphans += 1;
            if !self.was_open {
                let what = "the inode was being removed or cut, on a volume that was closed";
                report.add(Finding::minor(FindingKind::LostInode, what).at(*at).of(d.ino));
            }
        }
    }

    fn may_revive(&self) -> bool {
        self.was_open
    }

    fn newest_keeps(&self) -> bool {
        false
    }

    fn put_inode<'a>(&'a mut self, d: &'a Dinode) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.change_inode(d.ino, |geometry, raw| d.encode(geometry, raw)))
    }

    fn free_inode(&mut self, ino: Ino) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let known = self.read_inodes(&[ino]).await.pop().and_then(|found| found.ok().flatten());
            let generation = known.map_or(0, |found| found.d.generation);
            self.change_inode(ino, |geometry, raw| {
                Dinode::encode_free(geometry, ino, generation, raw)
            })
            .await
        })
    }

    fn put_block(
        &mut self,
        _: Ino,
        _: Lbn,
        ptr: Ptr,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Ptr>> {
        let first = u64::from(self.disk.sb.data);
        let placed = match ptr.is_hole() {
            true => self.claims.take(0).map(|index| Ptr { addr: first + u64::from(index), ..ptr }),
            false => Some(ptr),
        };
        if let Some(ptr) = placed {
            self.disk.put(ptr.addr, content);
        }
        Box::pin(std::future::ready(placed.ok_or(FsError::NoSpace)))
    }

    fn end<'a>(
        &'a mut self,
        nodes: &'a [Node],
        _: bool,
        report: &'a mut Report,
        progress: &'a mut dyn FnMut(Progress),
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            progress(Progress { phase: Phase::Layout, done: 1, total: 1 });
            self.compare_bitmaps(nodes, report).await
        })
    }
}
