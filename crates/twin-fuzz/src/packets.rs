//! Packets of the kernel: read, and executed on a volume.

use std::rc::Rc;

use twin_disk::MemDisk;
use twin_fs::{CheckRequest, Cpu, Cred, Identity, Request, Settings, Volume};
use twin_host::fuse;
use twin_lab::layouts::LAYOUTS;
use twin_rt::{ClockOnly, Rt};

use crate::Target;
use crate::bytes::Input;

/// One packet.
pub(crate) const PACKET: Target = Target {
    name: "fuse_packet",
    about: "a packet of the kernel, as it comes from /dev/fuse",
    run: |data| fuse::requests(data).is_ok() | fuse::requests(&sealed(data)).is_ok(),
    seeds: packet_seeds,
};

/// Packets one after the other, on a volume.
pub(crate) const REQUESTS: Target = Target {
    name: "fuse_requests",
    about: "packets of the kernel one after the other, executed on a volume",
    run: execute,
    seeds: || vec![story(0), story(1)],
};

/// Bytes of a packet's head.
const HEAD: usize = 40;
/// The calls that are not answered.
const FORGET: u32 = 2;
const BATCH_FORGET: u32 = 42;
/// So many packets of one input are executed.
const PACKETS: usize = 60;

/// With the length that it has.
fn sealed(data: &[u8]) -> Vec<u8> {
    let mut packet = data.to_vec();
    packet.resize(data.len().max(HEAD), 0);
    let len = packet.len() as u32;
    packet[..4].copy_from_slice(&len.to_ne_bytes());
    packet
}

fn packet(opcode: u32, node: u64, uid: u32, arguments: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 4];
    packet.extend(opcode.to_ne_bytes());
    packet.extend(77u64.to_ne_bytes());
    packet.extend(node.to_ne_bytes());
    packet.extend([uid, uid, 0].map(u32::to_ne_bytes).concat());
    packet.extend([0; 4]);
    packet.extend_from_slice(arguments);
    sealed(&packet)
}

/// A layout, then packets: opcode, node, user, length of the arguments, arguments.
fn execute(data: &[u8]) -> bool {
    let mut input = Input(data);
    let rt = Rt::new(ClockOnly::default(), 1);
    let volume = volume(&rt, input.u8());
    let mut done = false;
    let mut next_id = 1;
    for _ in 0..PACKETS {
        if input.is_empty() {
            break;
        }
        let (opcode, node) = (u32::from(input.u8() % 64), u64::from(input.u8()));
        let (user, len) = (u32::from(input.u8()), usize::from(input.u8()));
        let packet = packet(opcode, node, if user & 1 == 0 { 0 } else { user }, input.take(len));
        for (cred, op) in fuse::requests(&packet).unwrap_or_default() {
            // Rights are checked, too.
            let cred = Cred { checked: false, ..cred };
            let request = Request { id: next_id, client: 0, cred, op };
            next_id += 1;
            let said = format!("{:?}", request.op);
            let reply = rt.block_on(volume.execute(request));
            match reply.unwrap_or_else(|stalled| panic!("{said}: {stalled:?}")) {
                Ok(mut reply) => {
                    let answered = fuse::answer(&packet, &mut reply).is_some();
                    assert!(answered || opcode == BATCH_FORGET || opcode == FORGET, "{said}");
                    done = true;
                }
                // Nothing is wrong with the disk, so nothing on it may become wrong.
                Err(error) => assert!(!is_damage(&error), "{said}: {error}"),
            }
        }
    }
    let closed = rt.block_on(volume.close()).unwrap();
    assert_eq!(closed, Ok(()));
    // Tasks and what they hold would stay in memory otherwise.
    rt.crash();
    done
}

fn is_damage(error: &twin_fs::FsError) -> bool {
    matches!(error, twin_fs::FsError::Corrupt { .. } | twin_fs::FsError::Io(_))
}

/// An empty volume in memory.
pub(crate) fn volume(rt: &Rt, which: u8) -> Volume {
    volume_on_disk(rt, which).0
}

/// An empty volume in memory, and its disk. Made once for each layout, then copied.
pub(crate) fn volume_on_disk(rt: &Rt, which: u8) -> (Volume, Rc<MemDisk>) {
    thread_local! {
        static IMAGES: Vec<Vec<u8>> = LAYOUTS.iter().map(|kind| image(&*kind.config())).collect();
    }
    let which = usize::from(which) % LAYOUTS.len();
    let disk = IMAGES.with(|images| Rc::new(MemDisk::from_bytes(images[which].clone())));
    let config = LAYOUTS[which].config();
    let device = Rc::clone(&disk);
    let opened = rt.block_on(config.open(rt, device, Cpu::none(), Settings::default()));
    (opened.unwrap().unwrap().volume, disk)
}

/// Checks a volume of [`volume_on_disk`] that is closed.
pub(crate) fn check(rt: &Rt, which: u8, disk: Rc<MemDisk>) {
    let kind = LAYOUTS[usize::from(which) % LAYOUTS.len()];
    let done = rt.block_on(kind.check(
        rt,
        disk,
        CheckRequest { data: false, repair: false },
        &mut |_, _| {},
    ));
    let report = done.unwrap().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

fn image(config: &dyn twin_fs::LayoutConfig) -> Vec<u8> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = Rc::new(MemDisk::new(4 << 20));
    let identity = Identity { uuid: [1; 16], root: (0, 0, 0o777) };
    rt.block_on(config.mkfs(&rt, Rc::clone(&disk) as _, identity)).unwrap().unwrap();
    disk.to_bytes()
}

/// Arguments of some calls, by opcode: enough zeros for any structure, and names where there are some.
const CALLS: &[(u8, &[u8])] = &[
    (35, b"\x41\0\0\0\xb6\x81\0\0\0\0\0\0\0\0\0\0a\0"),
    (9, b"\xff\x41\0\0\0\0\0\0d\0"),
    (8, b"\x24\x81\0\0\0\0\0\0\0\0\0\0\0\0\0\0n\0"),
    (6, b"s\0a\0"),
    (1, b"a\0"),
    (13, b"\x03\0\0\0\0\0\0\0b\0"),
    (
        16,
        b"\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0data",
    ),
    (15, b"\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    (43, b"\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"),
    (21, b"\x01\0\0\0\0\0\0\0user.x\0v"),
    (22, b"\0\x01\0\0\0\0\0\0user.x\0"),
    (23, b"\0\x01\0\0\0\0\0\0"),
    (24, b"user.x\0"),
    (12, b"\x01\0\0\0\0\0\0\0a\0c\0"),
    (45, b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0c\0b\0"),
    (44, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    (28, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    (20, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    (17, b""),
    (50, b"\0\0\0\0\0\0\0\0"),
    (10, b"c\0"),
    (11, b"d\0"),
    (2, b"\x01\0\0\0\0\0\0\0"),
];

/// All calls one after the other, on the root and on the first file.
fn story(which: u8) -> Vec<u8> {
    let mut bytes = vec![which];
    for &(opcode, arguments) in CALLS {
        for node in [1, 3] {
            bytes.extend([opcode, node, 0, arguments.len() as u8]);
            bytes.extend_from_slice(arguments);
        }
    }
    bytes
}

fn packet_seeds() -> Vec<Vec<u8>> {
    CALLS.iter().map(|&(opcode, arguments)| packet(opcode.into(), 1, 0, arguments)).collect()
}
