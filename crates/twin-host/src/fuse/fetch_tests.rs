//! Tests of answers that wait for pages of the kernel, with a deputy that the test plays.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use twin_fs::Op;
use zerocopy::{FromBytes, IntoBytes};

use super::abi::{self, OutHeader, opcode};
use super::deputy::{Deputy, Errand, Said};
use super::parse::tests::packet;
use super::session_tests::Kernel;
use super::{End, SessionOptions};

/// The number of the played deputy's thread.
const THREAD: u32 = 4711;

struct Played {
    kernel: Kernel,
    socket: OwnedFd,
}

impl Played {
    fn new(options: SessionOptions) -> Played {
        let kernel = Kernel::new(options);
        let kind = SocketType::SEQPACKET;
        let (ours, socket) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        kernel.session.employ(&Deputy::over(ours, vec![THREAD]).unwrap());
        Played { kernel, socket }
    }

    /// What the deputy is asked to do next.
    fn order(&self) -> Option<(u64, Errand)> {
        let mut message = [0; 256];
        let len = rustix::io::read(&self.socket, &mut message[..]).ok()?;
        Errand::decode(&message[..len])
    }

    /// Answers as the deputy; returns the answer that the kernel gets then.
    fn say(&self, id: u64, errno: i32) -> (i32, Vec<u8>) {
        rustix::io::write(&self.socket, Said { id, errno, padding: 0 }.as_bytes()).unwrap();
        self.answer()
    }

    /// The next answer to the kernel.
    fn answer(&self) -> (i32, Vec<u8>) {
        let mut answer = None;
        for _ in 0..20 {
            self.kernel.host.rt().run_ready();
            answer = self.kernel.answer();
            if answer.is_some() {
                break;
            }
            self.kernel.host.rt().turn();
        }
        let answer = answer.expect("an answer after the deputy's");
        let (header, rest) = OutHeader::read_from_prefix(&answer).unwrap();
        (header.error, rest.to_vec())
    }

    fn ask_later(&self, opcode: u32, node: u64, arguments: &[u8]) -> u64 {
        self.kernel.send(&packet(opcode, node, &[arguments]));
        assert!(self.kernel.answer().is_none(), "it must wait");
        let (id, errand) = self.order().expect("an order");
        assert!(matches!(errand, Errand::WriteOutAll { .. }), "{errand:?}");
        id
    }
}

fn collecting() -> SessionOptions {
    SessionOptions { writeback_cache: true, ..SessionOptions::default() }
}

fn seek() -> Vec<u8> {
    let whence = libc::SEEK_DATA as u32;
    abi::LseekIn { offset: 4096, whence, ..Default::default() }.as_bytes().to_vec()
}

#[test]
fn where_data_lies_is_told_when_the_kernel_s_pages_have_come() {
    for options in [collecting(), SessionOptions::default(), SessionOptions::shared()] {
        let played = Played::new(options);
        let id = played.ask_later(opcode::LSEEK, 9, &seek());
        assert!(!played.kernel.seen().iter().any(|op| matches!(op, Op::Seek { .. })));
        let (error, out) = played.say(id, 0);
        assert_eq!((error, &out[..8]), (0, &4096u64.to_ne_bytes()[..]));
    }
}

#[test]
fn without_the_pages_the_kernel_takes_every_byte_for_data() {
    let played = Played::new(collecting());
    let id = played.ask_later(opcode::LSEEK, 9, &seek());
    assert_eq!(played.say(id, libc::ENOENT).0, -libc::ENOSYS);
    // The same if there is no deputy any more.
    let mut played = Played::new(collecting());
    // Another descriptor in its place closes it.
    played.socket = std::fs::File::open("/dev/null").unwrap().into();
    played.kernel.send(&packet(opcode::LSEEK, 9, &[&seek()]));
    assert_eq!(played.answer().0, -libc::ENOSYS);
}

#[test]
fn a_file_without_blocks_is_told_of_after_a_look_and_is_not_kept() {
    let played = Played::new(collecting());
    let id = played.ask_later(opcode::GETATTR, 9, &[0; 16]);
    let (error, out) = played.say(id, 0);
    let out = abi::AttrOut::read_from_bytes(&out).unwrap();
    assert_eq!((error, out.attr.blocks, out.attr_valid, out.attr_valid_nsec), (0, 0, 0, 0));
    // What cannot be looked at counts a block, so that nobody takes it for a hole.
    let id = played.ask_later(opcode::GETATTR, 9, &[0; 16]);
    let (_, out) = played.say(id, libc::ENOENT);
    let out = abi::AttrOut::read_from_bytes(&out).unwrap();
    assert!(out.attr.blocks > 0 && out.attr_valid > 0);
}

#[test]
fn the_deputy_s_own_calls_wait_for_nobody_and_are_no_operations() {
    let options = SessionOptions { count_opens: true, ..collecting() };
    let played = Played::new(options);
    let ask = |opcode: u32, arguments: &[u8]| {
        let mut packet = packet(opcode, 9, &[arguments]);
        let at = std::mem::offset_of!(abi::InHeader, pid);
        packet[at..at + 4].copy_from_slice(&THREAD.to_ne_bytes());
        played.kernel.send(&packet);
        let answer = played.kernel.answer().expect("an answer at once");
        let (header, rest) = OutHeader::read_from_prefix(&answer).unwrap();
        assert_eq!(header.error, 0);
        rest.to_vec()
    };
    ask(opcode::GETATTR, &[0; 16]);
    let open = abi::OpenOut::read_from_bytes(&ask(opcode::OPEN, &[0; 8])).unwrap();
    let release = abi::ReleaseIn { fh: open.fh, ..Default::default() };
    // A release bears no process.
    played.kernel.send(&packet(opcode::RELEASE, 9, &[release.as_bytes()]));
    assert!(played.kernel.answer().is_some());
    let seen = played.kernel.seen();
    assert!(!seen.iter().any(|op| matches!(op, Op::Open { .. } | Op::Release { .. })), "{seen:?}");
    assert!(played.order().is_none());
}

#[test]
fn a_session_that_is_abandoned_does_not_wait_for_its_deputy() {
    let played = Played::new(collecting());
    played.ask_later(opcode::LSEEK, 9, &seek());
    let session = played.kernel.session.clone();
    session.abandon();
    let end = played.kernel.host.rt().block_on(async move { session.run().await });
    assert!(matches!(end, Ok(Ok(End::Abandoned))), "{end:?}");
}
