//! The core without the files of an operating system: a volume on your own block device, driven by
//! requests, with any clock. (Cut-and-paste file systems, section 5.2: the same components in
//! another system.)
//!
//! ```text
//! cargo run --release --example embed
//! ```
//!
//! An embedder provides a [`BlockDevice`], a driver for the executor that knows the time and waits
//! for the device (here [`ClockOnly`], for a device that completes requests at once), and a front
//! end that turns the calls of its users into requests. It depends on the core alone: the layout
//! and the crates below it.

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Bytes, DeviceInfo, Io, IoKind, Pending, gather};
use twin_fs::{Cpu, Data, Identity, Op, ROOT_INO, Reply, Request, Settings};
use twin_rt::{ClockOnly, Rt};

/// The simplest possible device: an array of sectors in memory.
struct Flash {
    sectors: RefCell<Vec<[u8; 512]>>,
}

impl BlockDevice for Flash {
    fn info(&self) -> DeviceInfo {
        let size = self.sectors.borrow().len() as u64 * 512;
        DeviceInfo { size, sector: 512, max_io: 1 << 20, name: "flash".into() }
    }

    fn submit(&self, io: Io) -> Pending {
        let range = (io.at / 512) as usize..((io.at + io.len) / 512) as usize;
        let mut sectors = self.sectors.borrow_mut();
        match io.kind {
            IoKind::Write => {
                let bytes = gather(&io.blocks, 0, io.len as usize).to_bytes();
                for (sector, bytes) in sectors[range].iter_mut().zip(bytes.chunks_exact(512)) {
                    sector.copy_from_slice(bytes);
                }
                Pending::ready(Ok(Vec::new()))
            }
            IoKind::Read => {
                let bytes = sectors[range].concat();
                Pending::ready(Ok(vec![Block::Bytes(Bytes::copy_of(&bytes))]))
            }
            // Writes to memory are durable at once, and nothing needs to be freed on a discard.
            IoKind::Flush | IoKind::Discard => Pending::ready(Ok(Vec::new())),
        }
    }

    fn in_flight(&self) -> usize {
        0
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let flash: Rc<dyn BlockDevice> =
        Rc::new(Flash { sectors: RefCell::new(vec![[0; 512]; 64 << 11]) });
    let config = twin_lfs::LFS.config();
    let identity = Identity { uuid: *b"example of embed", root: (0, 0, 0o755) };
    println!("{}", rt.block_on(config.mkfs(&rt, Rc::clone(&flash), identity))??);
    let opening = config.open(&rt, flash, Cpu::none(), Settings::default());
    let volume = rt.block_on(opening)??.volume;
    let ask = |op| rt.block_on(volume.execute(Request::root(0, op)));
    let name = b"greeting".as_slice();
    let create = Op::Create { dir: ROOT_INO, name: name.into(), mode: 0o644, exclusive: true };
    let Reply::Entry(file) = ask(create)?? else { return Err("no entry".into()) };
    let data = Data::Bytes(Bytes::copy_of(b"hello from a volume without an operating system"));
    ask(Op::Write { ino: file.attr.ino, off: 0, data })??;
    ask(Op::Fsync { ino: file.attr.ino, data_only: false })??;
    let read = ask(Op::Read { ino: file.attr.ino, off: 0, len: 4096 })??;
    println!("{read:?}");
    rt.block_on(volume.close())??;
    Ok(())
}
