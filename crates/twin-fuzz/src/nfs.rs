//! Calls of clients of NFS: the bytes of a connection, and calls executed on a volume.

use std::rc::Rc;

use twin_disk::{Bytes, MemDisk};
use twin_fs::Volume;
use twin_nfs::rpc::{self, Caller};
use twin_nfs::xdr::Writer;
use twin_nfs::{Export, Keys, Limits, Peer, Records, Rules, Served, Server, proc};
use twin_rt::{ClockOnly, Rt};

use crate::Target;
use crate::bytes::Input;
use crate::packets::{self, volume_on_disk};

/// The bytes of a connection.
pub(crate) const STREAM: Target = Target {
    name: "nfs_stream",
    about: "the bytes of a connection: records, heads of calls, arguments",
    run: stream,
    seeds: stream_seeds,
};

/// Calls one after the other, on a volume.
pub(crate) const CALLS: Target = Target {
    name: "nfs_calls",
    about: "calls of NFS one after the other, with handles that are good, executed on a volume",
    run: calls,
    seeds: || vec![story(0), story(1), story(2)],
};

/// So many calls of one input are executed.
const CALLS_MAX: usize = 60;

fn server(volume: &Volume) -> Server {
    let fs = Rc::new(volume.clone());
    let served = Served::new(fs, Keys::of([1; 16]), Limits::default(), || 0);
    let export = |path: &str, below: Vec<Box<[u8]>>| Export {
        path: path.into(),
        volume: 0,
        below,
        rules: Rules::default(),
    };
    let inner = export("/d", vec![(*b"d").into()]);
    Server::new([2; 16], vec![served], vec![export("/", Vec::new()), inner])
}

/// Closes the volume, which must be sound.
fn close(rt: &Rt, which: u8, (volume, disk): (Volume, Rc<MemDisk>)) {
    assert_eq!(rt.block_on(volume.close()).unwrap(), Ok(()));
    packets::check(rt, which, disk);
    // Tasks and what they hold would stay in memory otherwise.
    rt.crash();
}

/// Whatever a connection sends, each record is answered, or is no call at all.
fn stream(data: &[u8]) -> bool {
    let rt = Rt::new(ClockOnly::default(), 1);
    let volume = volume_on_disk(&rt, 0);
    let server = server(&volume.0);
    let mut records = Vec::new();
    let _ = Records::default().feed(data, |record| records.push(record));
    let mut understood = false;
    for record in records.into_iter().take(CALLS_MAX) {
        let is_call = record.len() >= 8 && record[4..8] == [0; 4];
        let reply = rt.block_on(server.answer(Peer::LOCAL_ROOT, record)).unwrap();
        assert_eq!(reply.is_some(), is_call);
        understood |= reply.is_some_and(|reply| check(&reply));
    }
    close(&rt, 0, volume);
    understood
}

/// Checks the form of a reply; true if the call was executed.
fn check(reply: &[u8]) -> bool {
    let (mark, record) = reply.split_at(4);
    assert_eq!(mark, (record.len() as u32 | 1 << 31).to_be_bytes());
    let (_, results) = rpc::parse_reply(record).expect("a reply");
    results.is_some()
}

fn root() -> Caller {
    Caller::User { uid: 0, gid: 0, groups: Vec::new() }
}

fn record(out: Writer) -> Bytes {
    Bytes::copy_of(&out.into_bytes()[4..])
}

/// A layout, then calls: procedure, which handle, user, length of the other arguments, arguments.
fn calls(data: &[u8]) -> bool {
    let mut input = Input(data);
    let rt = Rt::new(ClockOnly::default(), 1);
    let which = input.u8();
    let volume = volume_on_disk(&rt, which);
    let server = server(&volume.0);
    let answer = |out: Writer| rt.block_on(server.answer(Peer::LOCAL_ROOT, record(out))).unwrap();
    let mut out = rpc::call(0, (proc::MOUNT, 3, proc::mount::MNT), &root());
    out.opaque(b"/");
    let reply = answer(out).expect("a reply");
    // Behind the head: a status and the handle's length.
    let mut handles: Vec<Vec<u8>> = vec![reply[36..68].to_vec()];
    let mut done = false;
    for xid in 1..=CALLS_MAX as u32 {
        if input.is_empty() {
            break;
        }
        let (procedure, which) = (u32::from(input.u8() % 24), usize::from(input.u8()));
        let (user, len) = (u32::from(input.u8()), usize::from(input.u8()));
        let caller = match user {
            0 => root(),
            uid => Caller::User { uid, gid: uid, groups: Vec::new() },
        };
        let mut out = rpc::call(xid, (proc::NFS, 3, procedure), &caller);
        out.opaque(&handles[which % handles.len()]);
        out.fixed(input.take(len));
        let reply = answer(out).expect("a reply");
        done |= check(&reply);
        // A new handle, wherever the reply has one.
        let looked = [(proc::LOOKUP, 32), (proc::CREATE, 36), (proc::MKDIR, 36)];
        let at = looked.iter().find(|(of, _)| *of == procedure).map(|&(_, at)| at);
        if let Some(handle) = at.and_then(|at| reply.get(at + 4..at + 36))
            && reply[28..32] == [0; 4]
        {
            handles.push(handle.to_vec());
        }
    }
    close(&rt, which, volume);
    done
}

/// Arguments behind the handle, by procedure.
const ARGUMENTS: &[(u32, &[u8])] = &[
    (1, b""),
    (8, b"\0\0\0\x01f\0\0\0\0\0\0\x01\0\0\0\x01\0\0\x01\xa4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    (9, b"\0\0\0\x01d\0\0\0\0\0\0\x01\0\0\x01\xed\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    (8, b"\0\0\0\x01x\0\0\0\0\0\0\x02verifier"),
    (10, b"\0\0\0\x01s\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01f\0\0\0"),
    (3, b"\0\0\0\x01f\0\0\0"),
    (4, b"\0\0\0\x3f"),
    (5, b""),
    (6, b"\0\0\0\0\0\0\0\0\0\0\x10\0"),
    (7, b"\0\0\0\0\0\0\x10\0\0\0\0\x04\0\0\0\x02\0\0\0\x04data"),
    (2, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0\0"),
    (16, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0"),
    (17, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\x20\0"),
    (18, b""),
    (19, b""),
    (20, b""),
    (21, b"\0\0\0\0\0\0\0\0\0\0\0\0"),
    (12, b"\0\0\0\x01x\0\0\0"),
    (13, b"\0\0\0\x01d\0\0\0"),
];

/// All procedures one after the other, on the root and on later handles.
fn story(which: u8) -> Vec<u8> {
    let mut bytes = vec![which];
    for &(procedure, arguments) in ARGUMENTS {
        for handle in [0, 1] {
            bytes.extend([procedure as u8, handle, 0, arguments.len() as u8]);
            bytes.extend_from_slice(arguments);
        }
    }
    bytes
}

fn stream_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (program, procedure) in [(proc::NFS, 0), (proc::MOUNT, 1), (proc::MOUNT, 5)] {
        let mut out = rpc::call(7, (program, 3, procedure), &root());
        if (program, procedure) == (proc::MOUNT, 1) {
            out.opaque(b"/d");
        }
        seeds.push(rpc::finish(out));
    }
    seeds
}
