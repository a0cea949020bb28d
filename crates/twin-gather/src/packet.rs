//! The UDP datagrams and TCP segments in captured packets.
//!
//! Contract: Ethernet (with VLAN tags), raw IP, Linux's "cooked" captures and loopbacks are understood; IPv4
//! and IPv6 fragments are put together. A packet that was captured in part yields its part. Anything else is
//! passed over and counted.

use core::net::{IpAddr, SocketAddr};

use etherparse::defrag::IpDefragPool;
use etherparse::{
    EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, SlicedPacket, TcpSlice, TransportSlice,
    UdpSlice,
};

use crate::capture::Packet;

/// How long the fragments of a datagram are waited for, in nanoseconds of the capture: the time that hosts
/// grant them (RFC 1122, section 3.3.2).
const FRAGMENTS_NS: u64 = 60_000_000_000;
/// The number of fragments after which those are looked for that are waited for in vain. Together they hold
/// at most 64 KiB each.
const LOOK_EVERY: u32 = 1024;

/// The data that a packet carries from one port to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'a> {
    /// Address and port of the sender.
    pub from: SocketAddr,
    /// Address and port of the receiver.
    pub to: SocketAddr,
    /// The transport with its data.
    pub data: Transport<'a>,
}

/// The data of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    /// A UDP datagram, whose end may not have been captured.
    Datagram(&'a [u8]),
    /// A segment of a TCP connection.
    Segment {
        /// The sequence number of its first byte.
        seq: u32,
        /// The segment opens the connection; `seq` counts one more than the data.
        syn: bool,
        /// The data that the segment carries.
        data: &'a [u8],
        /// Bytes of data behind them that were sent and not captured.
        missing: usize,
    },
}

/// Finds datagrams and segments.
#[derive(Default)]
pub struct Dissector {
    fragments: Option<IpDefragPool<u64>>,
    fragments_seen: u32,
    /// Packets that hold neither UDP nor TCP over IP, or nothing that can be read.
    pub foreign: u64,
}

/// The place in a packet at which the headers begin that [`etherparse`] knows.
enum Start<'a> {
    Ethernet(&'a [u8]),
    Network(EtherType, &'a [u8]),
    Ip(&'a [u8]),
}

impl<'a> Start<'a> {
    /// Finds that place by the link types of tcpdump.org.
    fn of(packet: &Packet<'a>) -> Option<Start<'a>> {
        let data = packet.data;
        let word = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
        Some(match packet.link {
            1 => Start::Ethernet(data),
            // The family of BSD's loopback is in the host's byte order; the IP header tells it too.
            0 | 108 => Start::Ip(data.get(4..)?),
            12 | 14 | 101 | 228 | 229 => Start::Ip(data),
            113 => Start::Network(EtherType(word(14)?), data.get(16..)?),
            276 => Start::Network(EtherType(word(0)?), data.get(20..)?),
            _ => return None,
        })
    }

    fn lax(&self) -> Option<LaxSlicedPacket<'a>> {
        match *self {
            Start::Ethernet(data) => LaxSlicedPacket::from_ethernet(data).ok(),
            Start::Network(kind, data) => Some(LaxSlicedPacket::from_ether_type(kind, data)),
            Start::Ip(data) => LaxSlicedPacket::from_ip(data).ok(),
        }
    }

    fn strict(&self) -> Option<SlicedPacket<'a>> {
        match *self {
            Start::Ethernet(data) => SlicedPacket::from_ethernet(data).ok(),
            Start::Network(kind, data) => SlicedPacket::from_ether_type(kind, data).ok(),
            Start::Ip(data) => SlicedPacket::from_ip(data).ok(),
        }
    }
}

impl Dissector {
    /// Hands what `packet` carries, or completes, to `take`.
    pub fn packet(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Carried<'_>)) {
        if self.carried(packet, take).is_none() {
            self.foreign += 1;
        }
    }

    /// `None` if the packet holds nothing that can be used.
    fn carried(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Carried<'_>)) -> Option<()> {
        let start = Start::of(packet)?;
        let sliced = start.lax()?;
        let (from, to, missing) = addresses(sliced.net.as_ref()?)?;
        if sliced.net.as_ref()?.ip_payload_ref()?.fragmented {
            let whole = self.whole(&start, packet.at_ns)?;
            if let Some((number, payload)) = whole {
                take(transport(from, to, number, &payload)?);
            }
            return Some(());
        }
        let carried = match sliced.transport? {
            TransportSlice::Udp(udp) => datagram(from, to, &udp),
            TransportSlice::Tcp(tcp) => segment(from, to, &tcp, missing),
            _ => return None,
        };
        take(carried);
        Some(())
    }

    /// The payload that this fragment completes: `Some(None)` if others are missing.
    #[allow(clippy::type_complexity)] // A number and bytes.
    fn whole(&mut self, start: &Start<'_>, at_ns: u64) -> Option<Option<(IpNumber, Vec<u8>)>> {
        let pool = self.fragments.get_or_insert_with(IpDefragPool::new);
        self.fragments_seen += 1;
        if self.fragments_seen.is_multiple_of(LOOK_EVERY) {
            pool.retain(|&seen_ns| at_ns.saturating_sub(seen_ns) < FRAGMENTS_NS);
        }
        let whole = pool.process_sliced_packet(&start.strict()?, at_ns, ()).ok()?;
        Some(whole.map(|whole| (whole.ip_number, whole.payload)))
    }
}

/// Sender, receiver, and the number of payload bytes that were not captured.
fn addresses(net: &LaxNetSlice<'_>) -> Option<(IpAddr, IpAddr, usize)> {
    match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let claimed = usize::from(header.payload_len().unwrap_or(0));
            let missing = claimed.saturating_sub(ip.payload().payload.len());
            Some((header.source_addr().into(), header.destination_addr().into(), missing))
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let captured = ip.payload().payload.len() + ip.extensions().slice().len();
            let missing = usize::from(header.payload_length()).saturating_sub(captured);
            Some((header.source_addr().into(), header.destination_addr().into(), missing))
        }
        LaxNetSlice::Arp(_) => None,
    }
}

/// Decodes the payload of an IP packet that came in fragments.
fn transport(from: IpAddr, to: IpAddr, number: IpNumber, payload: &[u8]) -> Option<Carried<'_>> {
    match number {
        IpNumber::UDP => Some(datagram(from, to, &UdpSlice::from_slice_lax(payload).ok()?)),
        IpNumber::TCP => Some(segment(from, to, &TcpSlice::from_slice(payload).ok()?, 0)),
        _ => None,
    }
}

fn datagram<'a>(from: IpAddr, to: IpAddr, udp: &UdpSlice<'a>) -> Carried<'a> {
    Carried {
        from: (from, udp.source_port()).into(),
        to: (to, udp.destination_port()).into(),
        data: Transport::Datagram(udp.payload()),
    }
}

fn segment<'a>(from: IpAddr, to: IpAddr, tcp: &TcpSlice<'a>, missing: usize) -> Carried<'a> {
    Carried {
        from: (from, tcp.source_port()).into(),
        to: (to, tcp.destination_port()).into(),
        data: Transport::Segment {
            seq: tcp.sequence_number(),
            syn: tcp.syn(),
            data: tcp.payload(),
            missing,
        },
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpFragOffset, Ipv4Header, PacketBuilder};

    use super::*;

    fn carried(dissector: &mut Dissector, link: i32, data: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        dissector.packet(&Packet { at_ns: 1, link, data }, &mut |carried| {
            let data = match carried.data {
                Transport::Datagram(data) | Transport::Segment { data, .. } => data,
            };
            all.push((carried.to, data.to_vec()));
        });
        all
    }

    fn udp_v4(payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(700, 2049);
        let mut out = Vec::new();
        builder.write(&mut out, payload).unwrap();
        out
    }

    #[test]
    fn links_are_told_apart_by_their_number() {
        let ip = udp_v4(b"payload");
        let to: SocketAddr = "192.0.2.2:2049".parse().unwrap();
        let expected = [(to, b"payload".to_vec())];
        let mut dissector = Dissector::default();
        assert_eq!(carried(&mut dissector, 101, &ip), expected);
        assert_eq!(carried(&mut dissector, 0, &[&[2, 0, 0, 0], &ip[..]].concat()), expected);
        let ether = [&[0u8; 12], &[8, 0][..], &ip].concat();
        assert_eq!(carried(&mut dissector, 1, &ether), expected);
        let tagged = [&[0u8; 12], &[0x81, 0, 0, 5, 8, 0][..], &ip].concat();
        assert_eq!(carried(&mut dissector, 1, &tagged), expected);
        assert_eq!(
            carried(&mut dissector, 113, &[&[0u8; 14], &[8, 0][..], &ip].concat()),
            expected
        );
        let sll2 = [&[8u8, 0][..], &[0; 18], &ip].concat();
        assert_eq!(carried(&mut dissector, 276, &sll2), expected);
        assert_eq!(dissector.foreign, 0);
        assert!(carried(&mut dissector, 147, &ip).is_empty());
        assert_eq!(dissector.foreign, 1);
    }

    #[test]
    fn fragments_are_put_together_in_any_order() {
        let whole = udp_v4(&[7; 3000]);
        let (header, rest) = Ipv4Header::from_slice(&whole).unwrap();
        let fragment = |range: std::ops::Range<usize>| {
            let mut header = header.clone();
            header.dont_fragment = false;
            header.more_fragments = range.end < rest.len();
            header.fragment_offset = IpFragOffset::try_new((range.start / 8) as u16).unwrap();
            header.set_payload_len(range.len()).unwrap();
            let mut out = Vec::new();
            header.write(&mut out).unwrap();
            out.extend_from_slice(&rest[range]);
            out
        };
        let parts = [fragment(0..1480), fragment(1480..2960), fragment(2960..rest.len())];
        let mut dissector = Dissector::default();
        let mut all = Vec::new();
        for part in [2, 0, 1] {
            all.extend(carried(&mut dissector, 101, &parts[part]));
        }
        assert_eq!(all, [("192.0.2.2:2049".parse().unwrap(), vec![7; 3000])]);
    }

    #[test]
    fn a_segment_says_how_much_of_it_was_not_captured() {
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(2049, 700, 5, 100);
        let mut out = Vec::new();
        builder.write(&mut out, &[9; 500]).unwrap();
        let mut seen = None;
        let packet = Packet { at_ns: 1, link: 101, data: &out[..out.len() - 100] };
        Dissector::default().packet(&packet, &mut |carried| {
            if let Transport::Segment { seq, data, missing, .. } = carried.data {
                seen = Some((seq, data.len(), missing));
            }
        });
        assert_eq!(seen, Some((5, 400, 100)));
    }

    #[test]
    fn nonsense_is_survived() {
        let mut dissector = Dissector::default();
        for len in 0..64 {
            for link in [0, 1, 12, 101, 113, 276, 999] {
                for byte in [0, 0x45, 0x60, 0xff] {
                    carried(&mut dissector, link, &vec![byte; len]);
                }
            }
        }
        assert!(dissector.foreign > 0);
    }
}
