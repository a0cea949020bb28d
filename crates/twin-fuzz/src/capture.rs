//! Captures of packets, read and made to traces.

use twin_gather::capture::Packet;
use twin_gather::{Gatherer, capture, infer, nfs, nfsdump, rpc};

use crate::Target;

/// A capture file; then the same bytes as messages of RPC, each in a datagram.
pub(crate) const CAPTURE: Target = Target {
    name: "capture",
    about: "a capture of packets of NFS",
    run: |data| gathered(&file_of(data)) | gathered(data),
    seeds: || vec![file_of(&messages())],
};

/// The text of nfsdump.
pub(crate) const NFSDUMP: Target = Target {
    name: "nfsdump",
    about: "calls and replies of NFS as text",
    run: |data| {
        nfsdump::looks_like(data);
        let read = nfsdump::read(data, |_| true);
        read.is_ok_and(|(gathered, _)| {
            let (_, records, _) = infer::trace(&gathered.exchanges, &infer::Options::default());
            !records.is_empty()
        })
    },
    seeds: || vec![include_bytes!("../../twin-gather/tests/data/nfsdump.txt").to_vec()],
};

/// Makes a trace of a capture; true if it has one.
fn gathered(file: &[u8]) -> bool {
    let mut gatherer = Gatherer::default();
    let mut each = |packet: Packet<'_>| {
        gatherer.packet(&packet);
        true
    };
    let read = capture::read(file, &mut each);
    let gathered = gatherer.finish();
    let (_, records, _) = infer::trace(&gathered.exchanges, &infer::Options::default());
    read.is_ok() && !records.is_empty()
}

/// A capture whose packets carry the messages in `data`: each has its direction, its length, its bytes.
fn file_of(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let words = |out: &mut Vec<u8>, words: &[u32]| {
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    // Of raw IP.
    words(&mut out, &[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 101]);
    let mut rest = data;
    while let [direction, len, more @ ..] = rest {
        let (payload, after) = more.split_at(more.len().min(usize::from(*len)));
        rest = after;
        let packet = datagram(direction & 1 == 1, payload);
        words(&mut out, &[1, 0, packet.len() as u32, packet.len() as u32]);
        out.extend_from_slice(&packet);
    }
    out
}

/// An IPv4 packet with a datagram from or to port 2049.
fn datagram(reply: bool, payload: &[u8]) -> Vec<u8> {
    let ports: [u16; 2] = if reply { [2049, 700] } else { [700, 2049] };
    let hosts: [u8; 2] = if reply { [2, 1] } else { [1, 2] };
    let len = (28 + payload.len()) as u16;
    let [high, low] = len.to_be_bytes();
    let mut out = vec![0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0];
    out.extend(hosts.iter().flat_map(|host| [192, 0, 2, *host]));
    out.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    out.extend(((8 + payload.len()) as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend_from_slice(payload);
    out
}

/// A lookup that finds a file, and a read of it, in the form that [`file_of`] reads.
fn messages() -> Vec<u8> {
    let mut out = Vec::new();
    let mut message = |direction: u8, words: &[u32]| {
        out.extend([direction, 4 * words.len() as u8]);
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    };
    let call = |xid, procedure| [xid, 0, 2, nfs::PROGRAM, 3, procedure, 0, 0, 0, 0];
    let name = u32::from_be_bytes(*b"file");
    message(0, &[&call(1, 3)[..], &[4, 77, 4, name]].concat());
    message(1, &[1, 1, 0, 0, 0, 0, 0, 4, 88, 0, 0]);
    message(0, &[&call(2, 6)[..], &[4, 88, 0, 0, 4096]].concat());
    message(1, &[2, 1, 0, 0, 0, 0, 0, 0, 100, 1]);
    debug_assert!(rpc::parse(&out[2..]).is_some());
    out
}
