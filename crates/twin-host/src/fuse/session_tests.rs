//! Tests of the session against a simulated kernel: a socket that preserves packets.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use twin_disk::{Block, IoResult, Stamp};
use twin_fs::{Attr, Data, FileSystem, FsError, Ino, LookupEntry, Op, Reply, Request, Room, mode};
use twin_rt::{Event, Rng, Time};
use zerocopy::{FromBytes, IntoBytes};

use super::abi::{self, OutHeader, init, opcode};
use super::parse::tests::packet;
use super::{End, Session, SessionOptions};
use crate::{FlightLog, Host, HostOptions};

/// Records its requests and gives prepared replies. An fsync waits until the test releases it.
#[derive(Default)]
pub(super) struct Fake {
    seen: RefCell<Vec<Op>>,
    go: Event,
    room: Cell<Option<Room>>,
    /// The bytes that each file takes.
    takes: Cell<u64>,
    /// True if no write finds room.
    full: Cell<bool>,
}

fn entry(ino: u64) -> LookupEntry {
    let attr = Attr { ino, mode: mode::REGULAR | 0o644, nlink: 1, ..Attr::default() };
    LookupEntry { attr, generation: 0 }
}

impl FileSystem for Fake {
    async fn execute(&self, request: Request) -> twin_fs::Result<Reply> {
        self.seen.borrow_mut().push(request.op.clone());
        Ok(match request.op {
            Op::Lookup { name, .. } if *name == *b"none" => return Err(FsError::NotFound),
            Op::Lookup { .. } | Op::Create { .. } | Op::Link { .. } => Reply::Entry(entry(9)),
            Op::MakeNode { .. } => return Err(FsError::Exists),
            Op::GetAttr { ino } => Reply::Attr(entry(ino).attr),
            Op::Read { .. } => {
                let stamp = Stamp { ino: 1, lbn: 2, version: 3, off: 0, len: 50 };
                let bytes = twin_disk::Bytes::copy_of(b"bytes");
                Reply::Data(vec![Block::Zero(70_000), Block::Stamp(stamp), Block::Bytes(bytes)])
            }
            Op::WriteBack { .. } if self.full.get() => return Err(FsError::NoSpace),
            Op::Write { data, .. } | Op::WriteBack { data, .. } => Reply::Written(data.len()),
            Op::Seek { off, .. } => Reply::Offset(off),
            Op::Fsync { .. } => {
                self.go.wait().await;
                Reply::Done
            }
            _ => Reply::Done,
        })
    }

    fn room(&self) -> Option<Room> {
        self.room.get()
    }

    fn room_of(&self, _: Ino) -> Option<u64> {
        Some(self.takes.get())
    }

    fn held(&self) -> Vec<Ino> {
        vec![9]
    }
}

#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl FlightLog for Notes {
    fn started(&self, _: Time) {}
    fn parked(&self, _: Time, _: Time) {
        self.0.borrow_mut().push("parked".into());
    }
    fn arrived(&self, request: &Request) {
        self.0.borrow_mut().push(format!("arrived {}", request.id));
    }
    fn completed(&self, _: u32, _: u64, _: &IoResult) {}
}

pub(super) struct Kernel {
    pub(super) host: Host,
    pub(super) session: Session<Fake>,
    fs: Rc<Fake>,
    socket: OwnedFd,
    notes: Rc<Notes>,
}

impl Kernel {
    /// A session that has agreed on every feature that it wants.
    pub(super) fn new(options: SessionOptions) -> Kernel {
        let mut kernel = Kernel::silent(options);
        let init = abi::InitIn { major: 7, minor: 40, max_readahead: 0, flags: u32::MAX };
        kernel.ask(opcode::INIT, 1, &[init.as_bytes(), &[0xff; 48]]).unwrap();
        kernel
    }

    fn silent(options: SessionOptions) -> Kernel {
        let kind = SocketType::SEQPACKET;
        let (socket, fd) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::NONBLOCK, None).unwrap();
        let notes = Rc::new(Notes::default());
        let flight = Some(Rc::clone(&notes) as Rc<dyn FlightLog>);
        let host = Host::start(HostOptions { flight, ..HostOptions::default() }).unwrap();
        let options = SessionOptions { report: Rc::new(|_| {}), ..options };
        let fs = Rc::new(Fake::default());
        let session = Session::new(&host, Rc::new(fd), Rc::clone(&fs), options);
        let session2 = session.clone();
        host.rt().spawn("session", async move { session2.run().await });
        Kernel { host, session, fs, socket, notes }
    }

    pub(super) fn send(&self, packet: &[u8]) {
        rustix::io::write(&self.socket, packet).unwrap();
        let before = self.session.stats().packets;
        self.turn_until(|| self.session.stats().packets > before);
    }

    /// Delivers events until `done`, and no longer: the next park would wait for ever.
    fn turn_until(&self, done: impl Fn() -> bool) {
        self.host.rt().run_ready();
        while !done() {
            self.host.rt().turn();
            self.host.rt().run_ready();
        }
    }

    pub(super) fn answer(&self) -> Option<Vec<u8>> {
        let mut packet = vec![0; 200_000];
        let len = rustix::io::read(&self.socket, &mut packet[..]).ok()?;
        packet.truncate(len);
        Some(packet)
    }

    /// The answer of the session to a call: the bytes after the header, or an error.
    fn ask(&mut self, opcode: u32, node: u64, arguments: &[&[u8]]) -> Result<Vec<u8>, Errno> {
        self.send(&packet(opcode, node, arguments));
        let answer = self.answer().expect("an answer");
        let (header, rest) = OutHeader::read_from_prefix(&answer).unwrap();
        assert_eq!((header.len as usize, header.unique), (answer.len(), 77));
        if header.error == 0 {
            Ok(rest.to_vec())
        } else {
            Err(Errno::from_raw_os_error(-header.error))
        }
    }

    pub(super) fn seen(&self) -> Vec<Op> {
        self.fs.seen.take()
    }
}

fn counted() -> SessionOptions {
    SessionOptions { count_opens: true, ..SessionOptions::default() }
}

#[test]
fn a_call_before_init_is_refused() {
    let mut kernel = Kernel::silent(counted());
    assert_eq!(kernel.ask(opcode::GETATTR, 1, &[&[0; 16]]), Err(Errno::PROTO));
    assert!(kernel.seen().is_empty());
}

#[test]
fn init_agrees_on_requests_of_a_mebibyte() {
    let mut kernel = Kernel::silent(counted());
    let ask = abi::InitIn { major: 7, minor: 40, max_readahead: 0, flags: u32::MAX };
    let out = kernel.ask(opcode::INIT, 1, &[ask.as_bytes(), &[0xff; 48]]).unwrap();
    let out = abi::InitOut::read_from_bytes(&out).unwrap();
    assert_eq!((out.max_write, out.minor), (1 << 20, 40));
    assert_ne!(u64::from(out.flags) & init::PARALLEL_DIROPS, 0);
}

#[test]
fn a_missing_name_is_a_negative_entry_if_that_may_be_remembered() {
    let mut kernel = Kernel::new(counted());
    let out = kernel.ask(opcode::LOOKUP, 1, &[b"none\0"]).unwrap();
    let out = abi::EntryOut::read_from_bytes(&out).unwrap();
    assert!(out.nodeid == 0 && out.entry_valid > 0);
    let mut kernel = Kernel::new(SessionOptions { negative_timeout_ns: 0, ..counted() });
    assert_eq!(kernel.ask(opcode::LOOKUP, 1, &[b"none\0"]), Err(Errno::NOENT));
}

#[test]
fn data_of_a_read_arrives_expanded_and_in_order() {
    let mut kernel = Kernel::new(counted());
    let read = abi::ReadIn { size: 80_000, ..Default::default() };
    let data = kernel.ask(opcode::READ, 9, &[read.as_bytes()]).unwrap();
    let stamp = Block::Stamp(Stamp { ino: 1, lbn: 2, version: 3, off: 0, len: 50 }).to_bytes();
    assert_eq!(data.len(), 70_055);
    assert!(data[..70_000].iter().all(|&byte| byte == 0));
    assert_eq!((&data[70_000..70_050], &data[70_050..]), (&stamp[..], &b"bytes"[..]));
}

#[test]
fn data_of_a_large_write_is_not_copied_and_of_a_small_one_is() {
    let mut kernel = Kernel::new(counted());
    for (len, kept) in [(150_000u32, true), (5000, false), (1000, false)] {
        let write = abi::WriteIn { size: len, ..Default::default() };
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let out = kernel.ask(opcode::WRITE, 9, &[write.as_bytes(), &data]).unwrap();
        assert_eq!(abi::WriteOut::read_from_bytes(&out).unwrap().size, len);
        let seen = kernel.seen();
        let [Op::Write { data: Data::Bytes(bytes), .. }] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(**bytes, data[..]);
        // Small data goes out together with its neighbours.
        assert!(len < 32 << 10 || (bytes.as_ptr() as usize).is_multiple_of(4096));
        assert_eq!(bytes.buffer_len() > len as usize, kept);
    }
}

fn collecting() -> SessionOptions {
    SessionOptions { writeback_cache: true, ..counted() }
}

/// Sends `count` writes of the kernel's own, numbered from 1.
fn write_back(kernel: &Kernel, count: u64) {
    for unique in 1..=count {
        let write_flags = abi::write::CACHE;
        let write = abi::WriteIn { size: 10, write_flags, ..Default::default() };
        let mut packet = packet(opcode::WRITE, 9, &[write.as_bytes(), &[7; 10]]);
        packet[8..16].copy_from_slice(&unique.to_ne_bytes());
        kernel.send(&packet);
    }
}

fn answered(kernel: &Kernel) -> Vec<u64> {
    let unique = |answer: Vec<u8>| OutHeader::read_from_prefix(&answer).unwrap().0.unique;
    std::iter::from_fn(|| kernel.answer()).map(unique).collect()
}

#[test]
fn writes_of_the_kernel_are_answered_together_and_the_last_first() {
    let kernel = Kernel::new(collecting());
    write_back(&kernel, 31);
    assert_eq!(answered(&kernel), []);
    write_back(&kernel, 1);
    assert_eq!(answered(&kernel), [1].into_iter().chain((1..=31).rev()).collect::<Vec<_>>());
}

#[test]
fn an_answer_is_held_no_longer_than_there_are_packets() {
    let kernel = Kernel::new(collecting());
    write_back(&kernel, 2);
    let (rt, slept) = (kernel.host.rt().clone(), Rc::new(Cell::new(false)));
    let done = Rc::clone(&slept);
    kernel.host.rt().spawn("sleep", async move {
        rt.sleep(1_000_000).await;
        done.set(true);
    });
    kernel.turn_until(|| slept.get());
    assert_eq!(answered(&kernel), [2, 1]);
}

#[test]
fn what_is_held_is_answered_when_the_session_is_abandoned() {
    let kernel = Kernel::new(collecting());
    write_back(&kernel, 2);
    kernel.session.abandon();
    kernel.host.rt().run_ready();
    assert_eq!(answered(&kernel), [2, 1]);
}

/// A session above a volume with this much room. The kernel collects writes and holds a reference
/// to file 9.
fn short_of_room(free_bytes: u64) -> Kernel {
    let kernel = Kernel::silent(collecting());
    kernel.fs.room.set(Some(Room { free_bytes, limit_bytes: 256 << 20 }));
    let init = abi::InitIn { major: 7, minor: 40, max_readahead: 0, flags: u32::MAX };
    kernel.send(&packet(opcode::INIT, 1, &[init.as_bytes(), &[0xff; 48]]));
    kernel
}

/// Reads packets up to one that answers a request. Returns the notices by node and offset, and the
/// error of the answer.
fn until_answered(kernel: &Kernel) -> (Vec<(u64, i64)>, i32) {
    let (notices, error) = (RefCell::new(Vec::new()), Cell::new(None));
    let take = || {
        while let Some(packet) = kernel.answer() {
            let (header, rest) = OutHeader::read_from_prefix(&packet).unwrap();
            if header.unique != 0 {
                error.set(Some(header.error));
                return true;
            }
            assert_eq!(header.error, abi::NOTIFY_INVAL_INODE);
            let notice = abi::NotifyInvalInodeOut::read_from_bytes(rest).unwrap();
            notices.borrow_mut().push((notice.ino, notice.off));
        }
        false
    };
    // Answers and notices may come from another thread without an event of the host.
    for _ in 0..2000 {
        if take() {
            return (notices.take(), error.get().unwrap_or_default());
        }
        let (rt, slept) = (kernel.host.rt().clone(), Rc::new(Cell::new(false)));
        let done = Rc::clone(&slept);
        kernel.host.rt().spawn("sleep", async move {
            rt.sleep(1_000_000).await;
            done.set(true);
        });
        kernel.turn_until(|| slept.get());
    }
    panic!("no answer");
}

/// Asks for attributes of file 9, by a handle as a writer does or as stat does.
fn attributes(kernel: &Kernel, by_handle: bool) -> (Vec<(u64, i64)>, i32) {
    let getattr_flags = if by_handle { abi::GETATTR_FH } else { 0 };
    let ask = abi::GetattrIn { getattr_flags, ..Default::default() };
    kernel.send(&packet(opcode::GETATTR, 9, &[ask.as_bytes()]));
    until_answered(kernel)
}

const NOSPC: i32 = -libc::ENOSPC;

#[test]
fn with_plenty_of_room_nobody_is_told_to_ask() {
    let kernel = short_of_room(200 << 20);
    assert_eq!(until_answered(&kernel), (vec![], 0));
    write_back(&kernel, 1);
    kernel.session.abandon();
    kernel.host.rt().run_ready();
    assert_eq!(answered(&kernel), [1]);
}

#[test]
fn when_room_gets_short_the_kernel_is_made_to_ask_before_writes() {
    let kernel = short_of_room(200 << 20);
    until_answered(&kernel);
    kernel.fs.room.set(Some(Room { free_bytes: 60 << 20, limit_bytes: 256 << 20 }));
    write_back(&kernel, 1);
    assert_eq!(until_answered(&kernel).1, 0);
    // All that the kernel knows becomes out of date. The first writer waits until all collected
    // data has arrived, and its own answer does not make the attributes valid.
    let (told, error) = attributes(&kernel, true);
    assert_eq!(error, 0);
    assert!(told.contains(&(9, -1)) && told.contains(&(9, 0)), "{told:?}");
    assert_eq!(told.last(), Some(&(9, -1)));
    let (told, error) = attributes(&kernel, true);
    assert_eq!((told.last(), error), (Some(&(9, -1)), 0));
}

#[test]
fn on_a_full_volume_writers_are_refused_and_others_are_not() {
    let kernel = short_of_room(0);
    until_answered(&kernel);
    assert_eq!(attributes(&kernel, true).1, NOSPC, "an empty file");
    assert_eq!(attributes(&kernel, false).1, 0);
    assert_eq!(attributes(&kernel, true).1, NOSPC);
    // The room suffices to overwrite the file.
    kernel.fs.takes.set(1 << 20);
    kernel.fs.room.set(Some(Room { free_bytes: 200 << 20, limit_bytes: 256 << 20 }));
    write_back(&kernel, 1);
    until_answered(&kernel);
    let (told, error) = attributes(&kernel, true);
    assert_eq!((told, error), (vec![], 0), "the gate is open again");
}

#[test]
fn a_kernel_before_5_16_is_not_gated() {
    let kernel = Kernel::silent(collecting());
    kernel.fs.room.set(Some(Room { free_bytes: 0, limit_bytes: 256 << 20 }));
    let init = abi::InitIn { major: 7, minor: 34, max_readahead: 0, flags: u32::MAX };
    kernel.send(&packet(opcode::INIT, 1, &[init.as_bytes(), &[0xff; 48]]));
    until_answered(&kernel);
    assert_eq!(attributes(&kernel, true), (vec![], 0));
}

#[test]
fn writes_that_could_not_be_carried_out_are_counted() {
    let mut kernel = Kernel::new(collecting());
    kernel.fs.full.set(true);
    write_back(&kernel, 3);
    answered(&kernel);
    let ask = abi::IoctlIn { cmd: abi::IOCTL_LOST, out_size: 8, ..Default::default() };
    let out = kernel.ask(opcode::IOCTL, 1, &[ask.as_bytes()]).unwrap();
    assert_eq!(out[16..], 3u64.to_ne_bytes());
}

#[test]
fn a_call_that_waits_holds_up_no_other() {
    let mut kernel = Kernel::new(counted());
    let fsync = abi::FsyncIn::default();
    kernel.send(&packet(opcode::FSYNC, 9, &[fsync.as_bytes()]));
    assert!(kernel.answer().is_none());
    kernel.ask(opcode::GETATTR, 9, &[&[0; 16]]).unwrap();
    kernel.fs.go.notify();
    kernel.host.rt().run_ready();
    assert_eq!(kernel.answer().map(|answer| answer.len()), Some(16));
    assert_eq!(kernel.session.stats().waited, 1);
}

#[test]
fn what_the_kernel_does_not_take_is_given_back() {
    let kernel = Kernel::new(counted());
    shutdown(&kernel.socket, Shutdown::Read).unwrap();
    let create = abi::CreateIn { mode: 0o644, ..Default::default() };
    kernel.send(&packet(opcode::CREATE, 1, &[create.as_bytes(), b"a\0"]));
    kernel.turn_until(|| kernel.fs.seen.borrow().len() == 3);
    let given_back = [Op::Release { ino: 9 }, Op::Forget { ino: 9, count: 1 }];
    assert_eq!(kernel.seen()[1..], given_back);
    // Each request must be an event of its own, for the flight log.
    let notes = kernel.notes.0.take();
    let entered: Vec<_> = notes.windows(2).filter(|w| w[1].starts_with("arrived")).collect();
    assert!(entered.len() == 3 && entered.iter().all(|w| w[0] == "parked"), "{notes:?}");
}

#[test]
fn a_create_that_finds_a_file_after_all_makes_the_kernel_look_again() {
    let mut kernel = Kernel::new(SessionOptions::default());
    for (flags, errno) in [(0, Errno::STALE), (libc::O_EXCL as u32, Errno::EXIST)] {
        let create = abi::CreateIn { flags, mode: 0o644, ..Default::default() };
        let refused = kernel.ask(opcode::CREATE, 1, &[create.as_bytes(), b"a\0"]);
        assert_eq!(refused, Err(errno));
    }
}

#[test]
fn opens_need_no_request_where_nobody_counts_them() {
    let mut kernel = Kernel::new(SessionOptions::default());
    let refused = kernel.ask(opcode::OPEN, 9, &[abi::OpenIn::default().as_bytes()]);
    assert_eq!(refused, Err(Errno::NOSYS));
    assert_eq!(kernel.ask(opcode::RELEASE, 9, &[&[0; 24]]), Ok(vec![]));
    let name = format!("{}\0", kernel.session.own_name());
    kernel.ask(opcode::LOOKUP, 1, &[name.as_bytes()]).unwrap();
    assert!(kernel.seen().is_empty());
    // If the core checks permissions, it must see opens.
    let mut kernel =
        Kernel::new(SessionOptions { kernel_checks: false, ..SessionOptions::default() });
    kernel.ask(opcode::OPEN, 9, &[abi::OpenIn::default().as_bytes()]).unwrap();
    assert!(matches!(kernel.seen()[..], [Op::Open { .. }]));
}

#[test]
fn ioctls_of_ours_name_the_daemon_and_sync_the_volume() {
    let mut kernel = Kernel::new(counted());
    let ask = abi::IoctlIn { cmd: abi::IOCTL_DAEMON, out_size: 4, ..Default::default() };
    let out = kernel.ask(opcode::IOCTL, 1, &[ask.as_bytes()]).unwrap();
    assert_eq!(out[16..], std::process::id().to_ne_bytes());
    let ask = abi::IoctlIn { cmd: abi::IOCTL_SYNC, ..Default::default() };
    kernel.ask(opcode::IOCTL, 1, &[ask.as_bytes()]).unwrap();
    assert_eq!(kernel.seen(), [Op::Sync]);
    let ask = abi::IoctlIn { cmd: 0x5401, ..Default::default() };
    assert_eq!(kernel.ask(opcode::IOCTL, 1, &[ask.as_bytes()]), Err(Errno::NOTTY));
}

#[test]
fn the_session_ends_when_the_connection_does_and_operations_have_ended() {
    let kernel = Kernel::new(counted());
    let session = kernel.session.clone();
    kernel.send(&packet(opcode::FSYNC, 9, &[abi::FsyncIn::default().as_bytes()]));
    let Kernel { host, fs, socket, .. } = kernel;
    drop(socket);
    host.rt().turn();
    host.rt().run_ready();
    assert!(host.rt().waiting().contains(&"session"), "an operation is under way");
    fs.go.notify();
    host.rt().run_ready();
    assert!(!host.rt().waiting().contains(&"session"));
    assert_eq!(session.stats().operations, 1);
}

#[test]
fn an_abandoned_session_ends() {
    let kernel = Kernel::silent(counted());
    let Kernel { host, session, socket, .. } = kernel;
    host.rt().crash();
    let again = session.clone();
    session.abandon();
    assert_eq!(
        host.rt().block_on(async move { again.run().await }).unwrap().unwrap(),
        End::Abandoned
    );
    drop(socket);
}

#[test]
fn no_mutated_packet_ends_the_session_and_each_answer_is_well_formed() {
    let kernel = Kernel::new(counted());
    let name: &[u8] = b"name\0";
    for seed in 0..20_000u64 {
        let mut rng = Rng::new(seed);
        let opcode = rng.below(56) as u32;
        let mut arguments = vec![0u8; rng.below(130) as usize];
        arguments.iter_mut().for_each(|byte| {
            *byte = if rng.chance(0.7) { 0 } else { rng.next_u64() as u8 };
        });
        if opcode == opcode::INIT || opcode == opcode::FSYNC || opcode == opcode::FSYNCDIR {
            continue;
        }
        let mut packet = packet(opcode, rng.below(12), &[&arguments, name, name]);
        for _ in 0..rng.below(4) {
            let at = rng.below(packet.len() as u64) as usize;
            packet[at] = rng.next_u64() as u8;
        }
        // A mutated opcode must not start an fsync, which the test would have to release.
        let fsyncs = [opcode::FSYNC, opcode::FSYNCDIR, opcode::INIT];
        if fsyncs.contains(&u32::from_ne_bytes([packet[4], packet[5], packet[6], packet[7]])) {
            continue;
        }
        kernel.send(&packet);
        while let Some(answer) = kernel.answer() {
            let (header, _) = OutHeader::read_from_prefix(&answer).unwrap();
            assert_eq!(header.len as usize, answer.len(), "seed {seed}");
            // A notification has the number zero, and its code where answers have an error.
            let notifies = header.unique == 0 && (1..=8).contains(&header.error);
            assert!(notifies || (-4095..=0).contains(&header.error), "seed {seed}");
        }
    }
    let stats = kernel.session.stats();
    assert!(stats.malformed > 1000 && stats.operations > 1000, "{stats:?}");
}
