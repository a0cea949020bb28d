//! The dump: the superblock and the bitmaps; inodes, directories and files are shown by the part that all layouts
//! share, over what this one says of itself ([`OnDisk`]).

use std::ops::Range;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{BlockDevice, Bytes};
use twin_fs::dinode::Dinode;
use twin_fs::dump::{
    Column, DumpError, Fields, InUse, OnDisk, Request, Sink, Structure, StructureArgument, Value,
    number, text,
};
use twin_fs::geometry::{Geometry, Ptr};
use twin_fs::{Features, FsError, Ino, ROOT_INO, Result};
use twin_rt::BoxFuture;

use crate::bitmap::Bitmap;
use crate::disk::Disk;
use crate::format::{CLEAN, INODE_BYTES, Superblock};

/// The structures of a volume, beside those of files.
pub(crate) const STRUCTURES: &[Structure] = &[
    Structure {
        name: "overview",
        about: "what lies where, and how much of it is in use",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "superblock",
        about: "every field of the superblock",
        takes: StructureArgument::Nothing,
    },
    Structure {
        name: "bitmaps",
        about: "the runs of bits that are set, of both bitmaps",
        takes: StructureArgument::Nothing,
    },
];

const REGIONS: [Column; 4] =
    [text("region", 14), number("block", 10), number("blocks", 10), number("bits_set", 10)];
const RUNS: [Column; 3] = [text("bitmap", 8), number("first", 10), number("bits", 10)];

/// Shows what is on a device.
pub(crate) async fn dump(
    device: Rc<dyn BlockDevice>,
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<(), DumpError> {
    let (sb, state) = Superblock::read(&*device).await?;
    let inodes = Bitmap::read(&*device, &sb, sb.inode_bitmap, sb.inodes).await?;
    let data = Bitmap::read(&*device, &sb, sb.data_bitmap, sb.data_blocks()).await?;
    let features = sb.features();
    let source = Source { disk: Disk::new(device, sb.clone()), features, inodes, data };
    if twin_fs::dump::files(&source, request, sink).await? {
        return Ok(());
    }
    match request.structure {
        "superblock" => {
            let fields = superblock(&sb, state);
            sink.fields("superblock", "block 0: all else follows from it", fields);
        }
        "bitmaps" => {
            sink.begin("runs", "numbers in use that follow one another", &RUNS);
            for (name, bitmap) in [("inode", &source.inodes), ("data", &source.data)] {
                for (first, bits) in bitmap.runs() {
                    let run = [first, bits].map(|n| Value::Number(n.into()));
                    sink.row([vec![Value::Text(name.into())], run.into()].concat());
                }
            }
            sink.end();
        }
        _ => {
            let about = "the regions of the device, in blocks, and the bits that are set for them";
            sink.begin("volume", about, &REGIONS);
            let regions = [
                ("superblock", 0, sb.inode_bitmap, None),
                ("inode_bitmap", sb.inode_bitmap, sb.data_bitmap, None),
                ("data_bitmap", sb.data_bitmap, sb.inode_table, None),
                ("inode_table", sb.inode_table, sb.data, Some(source.inodes.used())),
                ("data", sb.data, sb.blocks, Some(source.data.used())),
            ];
            for (name, first, end, used) in regions {
                let used = used.map_or(Value::None, |used| Value::Number(used.into()));
                let place = [first, end - first].map(|n| Value::Number(n.into()));
                sink.row([vec![Value::Text(name.into())], place.into(), vec![used]].concat());
            }
            sink.end();
        }
    }
    Ok(())
}

fn superblock(sb: &Superblock, state: u32) -> Fields {
    let state = if state == CLEAN { "unmounted" } else { "in use" };
    let uuid = sb.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let words = [("state", state.to_string()), ("uuid", uuid)];
    let numbers = [
        ("block_size", sb.block_size),
        ("inode_size", INODE_BYTES),
        ("blocks", sb.blocks),
        ("inodes", sb.inodes),
        ("inode_bitmap", sb.inode_bitmap),
        ("data_bitmap", sb.data_bitmap),
        ("inode_table", sb.inode_table),
        ("data", sb.data),
    ];
    let words = words.into_iter().map(|(name, text)| (name, Value::Text(text)));
    words.chain(numbers.map(|(name, n)| (name, Value::Number(n.into())))).collect()
}

struct Source {
    disk: Disk,
    features: Features,
    inodes: Bitmap,
    data: Bitmap,
}

impl Source {
    /// An inode in the bytes of its block of the table.
    fn inode_in(&self, block: &[u8], ino: Ino) -> Result<(u64, Dinode)> {
        let (place, offset) = self.disk.sb.inode_place(ino);
        let at = self.disk.sb.byte_of(place) + offset as u64;
        let raw = &block[offset..offset + INODE_BYTES as usize];
        match Dinode::decode(&self.disk.geometry, raw, self.frags()) {
            Ok(d) if d.ino == ino => Ok((at, d)),
            Ok(d) => Err(FsError::corrupt(at, format!("it says that it is inode {}", d.ino))),
            Err(what) => Err(FsError::corrupt(at, what)),
        }
    }
}

impl OnDisk for Source {
    fn geometry(&self) -> &Geometry {
        &self.disk.geometry
    }

    fn features(&self) -> &Features {
        &self.features
    }

    fn frags(&self) -> u64 {
        self.disk.sb.blocks.into()
    }

    fn region(&self) -> &'static str {
        "block"
    }

    fn region_of(&self, at: u64) -> Option<u64> {
        Some(at / u64::from(self.disk.sb.block_size))
    }

    fn areas(&self) -> Vec<Range<u64>> {
        let sb = &self.disk.sb;
        let data = sb.byte_of(sb.data.into())..sb.byte_of(sb.blocks.into());
        vec![data]
    }

    fn free_from(&self, first: usize) -> BoxFuture<'_, (usize, Result<Vec<Range<u64>>>)> {
        Box::pin(async move {
            let sb = &self.disk.sb;
            let mut free = Vec::new();
            let mut at = 0;
            for (used, blocks) in self.data.runs().into_iter().chain([(self.data.len(), 0)]) {
                if used > at {
                    let [from, to] = [at, used].map(|block| sb.byte_of((sb.data + block).into()));
                    free.push(from..to);
                }
                at = used + blocks;
            }
            (first + 1, Ok(free))
        })
    }

    fn numbers(&self) -> Ino {
        self.disk.sb.inodes.into()
    }

    fn map_entry(&self, ino: Ino) -> BoxFuture<'_, Result<Option<(&'static str, Fields)>>> {
        Box::pin(async move {
            let used = u32::try_from(ino).is_ok_and(|number| self.inodes.get(number));
            let fields = vec![("ino", Value::Number(ino)), ("free", Value::Flag(!used))];
            Ok(Some(("what the inode bitmap says", fields)))
        })
    }

    fn inode(&self, ino: Ino) -> BoxFuture<'_, Result<(Option<u64>, Dinode)>> {
        Box::pin(async move {
            if !u32::try_from(ino).is_ok_and(|number| self.inodes.get(number)) {
                return Err(FsError::inconsistent(format!("inode {ino} is free: see `inodes`")));
            }
            let block = self.disk.block(self.disk.sb.inode_place(ino).0).await?;
            self.inode_in(&block, ino).map(|(at, d)| (Some(at), d))
        })
    }

    fn inodes_from(&self, first: Ino) -> BoxFuture<'_, (Ino, Result<Vec<InUse>>)> {
        Box::pin(async move {
            let per_block = u64::from(self.disk.sb.block_size / INODE_BYTES);
            let end = (first / per_block + 1) * per_block;
            let used = |ino: &Ino| *ino >= ROOT_INO && self.inodes.get(*ino as u32);
            let numbers: Vec<Ino> = (first..end).filter(used).collect();
            if numbers.is_empty() {
                return (end, Ok(Vec::new()));
            }
            let block = match self.disk.block(self.disk.sb.inode_place(first).0).await {
                Ok(block) => block,
                Err(error) => return (end, Err(error)),
            };
            let found = numbers.into_iter().map(|ino| {
                let read = self.inode_in(&block, ino);
                InUse { ino, generation: None, mark: "", read }
            });
            (end, Ok(found.collect()))
        })
    }

    fn check_ptr(&self, ptr: Ptr) -> std::result::Result<(), &'static str> {
        match ptr.is_hole() || self.disk.sb.is_data(ptr.addr) {
            true => Ok(()),
            false => Err("a pointer leads out of the data"),
        }
    }

    fn block(&self, _ino: Ino, _lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            self.check_ptr(ptr).map_err(FsError::inconsistent)?;
            Ok(Bytes::copy_of(&self.disk.block(ptr.addr).await?))
        })
    }
}
