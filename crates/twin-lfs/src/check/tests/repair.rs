//! Repair: what is damaged is mended, all else stays, and what cannot be known is told.
//!
//! Every damage that the tests of the check plant goes through [`assert_repaired`] too; volumes
//! with random damage, and a power failure in the middle, are the campaign `lfs-repair`.

use twin_fs::{Layout, ROOT_INO, mode};

use super::damage::edit_checkpoint;
use super::rich::Rich;
use super::*;

const SIZE: u64 = 4 << 20;

/// Repairs a damaged volume: afterwards nothing is wrong, a second repair changes nothing, and the
/// volume can be used. Gives the report and the volume.
pub(super) fn assert_repaired(bytes: &[u8]) -> (Report, Rc<MemDisk>) {
    let disk = Rc::new(MemDisk::from_bytes(bytes.to_vec()));
    let report = repair_disk(Rc::clone(&disk), false).unwrap();
    let after = check_disk(Rc::clone(&disk), false).unwrap();
    assert!(after.is_clean(), "after the repair: {after}\nit said: {report}");
    let once = disk.to_bytes();
    let again = repair_disk(Rc::clone(&disk), false).unwrap();
    assert!(again.is_clean(), "again: {again}");
    assert!(disk.to_bytes() == once, "a second repair changed the volume");
    let mut w = World::mount(Rc::clone(&disk), LfsSettings::default());
    let name = b"new after the repair"[..].into();
    let _ = w.request(Request::root(
        w.next_id,
        Op::Create { dir: ROOT_INO, name, mode: 0o600, exclusive: false },
    ));
    let disk = w.close();
    assert!(check_disk(Rc::clone(&disk), false).unwrap().is_clean());
    (report, disk)
}

impl World {
    /// The bytes of a file that is reached by these names.
    fn contents(&mut self, path: &[&str]) -> Result<Vec<u8>, FsError> {
        let mut ino = ROOT_INO;
        for name in path {
            let name = name.as_bytes().into();
            let reply = self.request(Request::root(self.next_id, Op::Lookup { dir: ino, name }))?;
            let Reply::Entry(entry) = reply else { panic!("{reply:?}") };
            ino = entry.attr.ino;
        }
        let mut all = Vec::new();
        loop {
            let op = Op::Read { ino, off: all.len() as u64, len: 1 << 20 };
            let Reply::Data(blocks) = self.request(Request::root(self.next_id, op))? else {
                panic!("a read is answered with data")
            };
            let before = all.len();
            blocks.iter().for_each(|block| all.extend_from_slice(&block.to_bytes()));
            if all.len() == before {
                return Ok(all);
            }
        }
    }
}

const FILES: [&[&str]; 4] =
    [&["big"], &["again"], &["dir", "inner", "tiny"], &["dir", "inner", "innermost", "f7"]];

fn contents(disk: &Rc<MemDisk>) -> Vec<Vec<u8>> {
    let mut w = World::mount(Rc::clone(disk), LfsSettings::default());
    let all = FILES.iter().map(|path| w.contents(path).unwrap()).collect();
    w.close();
    all
}

#[test]
fn a_sound_volume_is_not_written_to() {
    for options in profiles() {
        let disk = Rich::new(&options, SIZE).w.close();
        let before = disk.to_bytes();
        let report = repair_disk(Rc::clone(&disk), true).unwrap();
        assert!(report.is_clean() && report.losses.is_empty(), "{report}");
        assert!(disk.to_bytes() == before);
    }
}

#[test]
fn a_lost_map_is_made_again_from_the_log() {
    let disk = Rich::new(&MkfsOptions::modern([1; 16]), SIZE).w.close();
    let before = contents(&disk);
    let mut bytes = disk.to_bytes();
    let (mut places, image) = (Vec::new(), bytes.clone());
    edit_checkpoint(&mut bytes, |checkpoint, sb| {
        let on_disk = checkpoint.ifile.ptrs.iter().filter(|ptr| ptr.is_on_disk());
        places
            .extend(on_disk.map(|ptr| (sb.geometry.byte_of(ptr.addr) as usize, ptr.len as usize)));
    });
    bytes = image;
    places.into_iter().for_each(|(at, len)| bytes[at..at + len].fill(0xa5));
    let (report, disk) = assert_repaired(&bytes);
    assert!(report.has(FindingKind::Ifile), "{report}");
    assert!(report.losses.iter().any(|loss| loss.what.contains("from the log")), "{report}");
    assert!(contents(&disk) == before, "files differ");
}

#[test]
fn files_of_a_lost_root_are_in_lost_and_found() {
    for options in profiles() {
        let rich = Rich::new(&options, SIZE);
        let root = rich.root();
        let geometry = rich.w.volume.core().geometry.clone();
        let disk = rich.w.close();
        let before = contents(&disk);
        let mut bytes = disk.to_bytes();
        let at = geometry.byte_of(root.addr) as usize;
        bytes[at..at + 512].fill(0xa5);
        let (report, disk) = assert_repaired(&bytes);
        // Both directories, and files with their only name in the root.
        assert!(report.rescued >= 2, "{report}");
        let mut w = World::mount(disk, LfsSettings::default());
        let lost: Vec<Vec<u8>> = w.lost_files();
        assert!(lost.contains(&before[0]), "the big file is not in lost+found");
    }
}

#[test]
fn rotten_data_stays_an_error_for_its_readers_if_data_is_looked_at() {
    let rich = Rich::new(&MkfsOptions::modern([1; 16]), SIZE);
    let ptr = rich.first_block(rich.big);
    let geometry = rich.w.volume.core().geometry.clone();
    let disk = rich.w.close();
    let before = contents(&disk);
    let mut bytes = disk.to_bytes();
    bytes[geometry.byte_of(ptr.addr) as usize + 9] ^= 1;
    let disk = Rc::new(MemDisk::from_bytes(bytes));
    assert!(repair_disk(Rc::clone(&disk), false).unwrap().is_clean());
    let report = repair_disk(Rc::clone(&disk), true).unwrap();
    assert!(report.has(FindingKind::Data), "{report}");
    // It is told of by the name that its owner knows it by.
    let lost = twin_fs::CheckReport::from(report.clone()).notes;
    assert!(lost.iter().any(|loss| loss.contains("(/big): bytes 0 to")), "{report}");
    let after = assert_clean(&disk, "afterwards");
    assert!(after.damaged.len() == 1 && after.to_string().contains("(/big): parts were lost"));
    let mut w = World::mount(disk, LfsSettings::default());
    let block = u64::from(geometry.block_size);
    let lookup = Op::Lookup { dir: ROOT_INO, name: (*b"big").into() };
    let ino = w.entry(lookup);
    let mut ask = |op| w.request(Request::root(w.next_id, op));
    let read = |off: u64, len: u64| Op::Read { ino, off, len: len as u32 };
    let is_damage = |reply: Result<Reply, FsError>| reply.is_err_and(|error| error.is_damage());
    let has = |reply: Result<Reply, FsError>, content: &[u8]| match reply {
        Ok(Reply::Data(blocks)) => {
            let bytes: Vec<u8> = blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect();
            bytes == content
        }
        other => panic!("{other:?}"),
    };
    // It read as zeros after a repair, where it had been an error before.
    assert!(is_damage(ask(read(0, 10))) && is_damage(ask(read(block - 1, 2))));
    let rest = &before[0][block as usize..3 * block as usize];
    assert!(has(ask(read(block, 2 * block)), rest), "the others are as they were");
    // Nothing that works around reading may pass it off for zeros either.
    let seek = |what| Op::Seek { ino, off: 0, what };
    assert_eq!(ask(seek(twin_fs::SeekFor::Data)), Ok(Reply::Offset(0)));
    let punch = Op::Fallocate { ino, off: 0, len: block, mode: twin_fs::Fallocate::PunchHole };
    assert!(is_damage(ask(punch)));
    let write = |off: u64, len: u64| {
        let data = Data::Bytes(Bytes::copy_of(&vec![9; len as usize]));
        Op::Write { ino, off, data }
    };
    assert!(is_damage(ask(write(10, 20))), "the rest of the block would be zeros");
    // What is written whole is good again.
    assert_eq!(ask(write(0, block)), Ok(Reply::Written(block)));
    assert!(has(ask(read(0, block)), &vec![9; block as usize]));
    let set = twin_fs::SetAttr { size: Some(0), ..Default::default() };
    assert!(ask(Op::SetAttr { ino, set }).is_ok());
    assert!(assert_clean(&w.close(), "empty").damaged.is_empty());
}

impl Rich {
    fn first_block(&self, ino: Ino) -> twin_fs::geometry::Ptr {
        let (layout, core) = (&self.w.volume.layout, self.w.volume.core());
        let inode = self.w.rt.block_on(layout.load_inode(core, ino)).unwrap().unwrap();
        inode.d.borrow().ptrs[0]
    }

    /// Where the first block of the root directory is.
    fn root(&self) -> twin_fs::geometry::Ptr {
        self.first_block(ROOT_INO)
    }
}

impl World {
    /// The contents of all regular files in lost+found.
    fn lost_files(&mut self) -> Vec<Vec<u8>> {
        let name = b"lost+found"[..].into();
        let dir = self.entry(Op::Lookup { dir: ROOT_INO, name });
        let op = Op::ReadDir { dir, cookie: 0, max_bytes: 1 << 16, plus: false };
        let Reply::Dir(list) = self.op(op) else { panic!("a directory is read") };
        let files = list.iter().filter(|entry| entry.kind == mode::REGULAR);
        let names: Vec<String> =
            files.map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
        names.iter().map(|name| self.contents(&["lost+found", name]).unwrap()).collect()
    }
}
