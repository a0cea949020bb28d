//! Packets of a capture file, in pcap or pcapng.
//!
//! Contract: packets come in the order of the file, each with its time and as much of its data as was
//! captured. A file that is cut or damaged yields what lies before the damage.

use std::fmt;
use std::io::Read;

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

/// Bytes of the reader's buffer at first.
const BUFFER: usize = 1 << 20;
/// The largest block of a file that is read: a packet has at most 64 KiB, with segmentation offload 512 KiB.
const LARGEST_BLOCK: usize = 16 << 20;
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A captured packet, with its time and as many of its bytes as were captured.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured, in nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// The type of its link layer, by its number in the list of LINKTYPE_ values of tcpdump.org.
    pub link: i32,
    /// The bytes of the packet from the link layer on, as many as were captured.
    pub data: &'a [u8],
}

/// How the reading of a file ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The number of packets read.
    pub packets: u64,
    /// The damage of the file behind them, if it does not end as it should.
    pub damage: Option<String>,
}

/// A file that is no capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotACapture(String);

impl fmt::Display for NotACapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotACapture {}

/// The first bytes of captures: pcap in either byte order, with micro- or nanoseconds, and pcapng.
const MAGICS: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// True if a file that begins so is a capture.
pub fn looks_like(start: &[u8]) -> bool {
    MAGICS.iter().any(|magic| start.starts_with(magic))
}

/// Hands each packet of a capture to `each`, until `each` returns false.
///
/// # Errors
/// If the input does not begin as a pcap or pcapng file does.
pub fn read(
    input: impl Read + Send,
    each: &mut dyn FnMut(Packet<'_>) -> bool,
) -> Result<Ending, NotACapture> {
    let mut reader = create_reader(BUFFER, input).map_err(|error| match error {
        PcapError::Eof => NotACapture("the file is empty".into()),
        PcapError::Incomplete(_) => NotACapture("the file ends within its header".into()),
        _ => NotACapture("this is neither a pcap nor a pcapng file".into()),
    })?;
    let mut section = Section::default();
    let mut ending = Ending { packets: 0, damage: None };
    let mut size = BUFFER;
    loop {
        let next = match reader.next() {
            Ok((bytes, block)) => match section.block(&block) {
                Some(packet) => {
                    ending.packets += 1;
                    if each(packet) { Next::Consume(bytes) } else { Next::End(None) }
                }
                None => Next::Consume(bytes),
            },
            Err(PcapError::Eof) => Next::End(None),
            Err(PcapError::Incomplete(_)) => Next::Refill,
            Err(PcapError::UnexpectedEof) => Next::End(Some(CUT)),
            Err(PcapError::BufferTooSmall) => Next::Grow,
            Err(PcapError::ReadError) => Next::End(Some("the file cannot be read further")),
            Err(_) => Next::End(Some("what follows is no packet")),
        };
        let damage = match next {
            Next::Consume(bytes) => {
                reader.consume(bytes);
                continue;
            }
            Next::Refill if refilled(&mut *reader) => continue,
            Next::Grow if size < LARGEST_BLOCK && reader.grow(size * 2) => {
                size *= 2;
                continue;
            }
            Next::Refill => (!reader.data().is_empty()).then_some(CUT),
            Next::Grow => Some("what follows claims to be larger than any packet is"),
            Next::End(damage) => damage,
        };
        ending.damage = damage.map(String::from);
        return Ok(ending);
    }
}

/// The message about a file whose last packet is not whole.
const CUT: &str = "the file ends within a packet";

/// The next step of a reader.
enum Next {
    Consume(usize),
    Refill,
    Grow,
    End(Option<&'static str>),
}

/// Reads more of the file; false if there is no more.
fn refilled(reader: &mut dyn PcapReaderIterator) -> bool {
    let before = reader.data().len();
    reader.refill().is_ok() && reader.data().len() > before
}

/// The properties that a section gives to the packets that follow.
#[derive(Default)]
struct Section {
    /// In pcap: the link type, and the nanoseconds of a unit of the fraction of a second.
    classic: (i32, u64),
    /// The interfaces that a pcapng section describes.
    interfaces: Vec<Interface>,
    /// The time of the last packet, for packets without one.
    last_ns: u64,
}

struct Interface {
    link: i32,
    units_a_second: u64,
    offset_s: i64,
}

impl Section {
    /// Takes a block; returns its packet if it has one.
    fn block<'a>(&mut self, block: &'a PcapBlockOwned<'_>) -> Option<Packet<'a>> {
        let packet = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let unit_ns = if header.is_nanosecond_precision() { 1 } else { 1000 };
                self.classic = (header.network.0, unit_ns);
                return None;
            }
            PcapBlockOwned::Legacy(packet) => {
                let (link, unit_ns) = self.classic;
                let fraction_ns = u64::from(packet.ts_usec) * unit_ns;
                let at_ns = u64::from(packet.ts_sec) * SECOND + fraction_ns;
                Packet { at_ns, link, data: packet.data }
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                return None;
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.interfaces.push(Interface {
                    link: interface.linktype.0,
                    units_a_second: interface.ts_resolution().unwrap_or(1_000_000).max(1),
                    offset_s: interface.ts_offset(),
                });
                return None;
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(packet.if_id as usize)?;
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let at_ns = interface.time_ns(units);
                Packet { at_ns, link: interface.link, data: packet.packet_data() }
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let link = self.interfaces.first()?.link;
                Packet { at_ns: self.last_ns, link, data: packet.packet_data() }
            }
            PcapBlockOwned::NG(_) => return None,
        };
        self.last_ns = packet.at_ns;
        Some(packet)
    }
}

impl Interface {
    fn time_ns(&self, units: u64) -> u64 {
        let ns = u128::from(units) * u128::from(SECOND) / u128::from(self.units_a_second);
        let ns = i128::try_from(ns).unwrap_or(0) + i128::from(self.offset_s) * i128::from(SECOND);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pcap file of packets at whole milliseconds.
    fn pcap(packets: &[(u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65535, 1] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for (at_ms, data) in packets {
            let len = data.len() as u32;
            for word in [at_ms / 1000, at_ms % 1000 * 1000, len, len] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(data);
        }
        out
    }

    fn all(file: &[u8]) -> (Vec<(u64, Vec<u8>)>, Ending) {
        let mut found = Vec::new();
        let ending = read(file, &mut |packet| {
            found.push((packet.at_ns, packet.data.to_vec()));
            true
        });
        (found, ending.unwrap())
    }

    #[test]
    fn packets_come_with_their_times() {
        let (found, ending) = all(&pcap(&[(1500, b"one"), (2000, b"two")]));
        let (one, two) = ((1_500_000_000, b"one".to_vec()), (2_000_000_000, b"two".to_vec()));
        assert_eq!(found, [one, two]);
        assert_eq!(ending, Ending { packets: 2, damage: None });
    }

    #[test]
    fn a_cut_file_yields_its_whole_packets() {
        let file = pcap(&[(1, b"one"), (2, b"two")]);
        let (found, ending) = all(&file[..file.len() - 1]);
        assert_eq!((found.len(), ending.packets), (1, 1));
        assert_eq!(ending.damage.as_deref(), Some("the file ends within a packet"));
    }

    #[test]
    fn another_file_is_refused() {
        let error = read(&b"GIF89a and more than a header"[..], &mut |_| true).unwrap_err();
        assert!(error.to_string().contains("neither a pcap nor a pcapng"), "{error}");
        assert!(read(&b""[..], &mut |_| true).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn units_of_an_interface_become_nanoseconds() {
        let interface = Interface { link: 1, units_a_second: 1000, offset_s: -1 };
        assert_eq!(interface.time_ns(1500), 500_000_000);
        assert_eq!(interface.time_ns(1), 0);
    }
}
