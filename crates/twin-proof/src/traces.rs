//! Damaged traces and flight logs on the way that a user takes: read, replay, compare, verify.
//!
//! Contract: a damaged input is used as far as it goes or refused with an error of its own; no
//! panic, no endless run, no memory beyond what the input is worth. Half of the damage hits the
//! bytes, where checksums find it; the other half changes records before they are written, and so
//! gets past every checksum.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::rc::Rc;
use std::sync::Arc;

use twin_flight::verify_flight;
use twin_fs::{Data, Fallocate, Op};
use twin_lab::{Config, Workload, simulate};
use twin_rt::Rng;
use twin_trace::replay::Pace;
use twin_trace::{FlightReader, FlightRecord, FlightWriter, Reader, Record, Source, Writer};

/// What became of damaged inputs.
#[derive(Debug, Default)]
pub struct Damaged {
    /// Inputs.
    pub inputs: u64,
    /// Used to their end, or to where they were cut.
    pub used: u64,
    /// Refused.
    pub refused: u64,
    /// What is damaged, again and again.
    flights: Flights,
}

/// Flight logs as they were made, by seed.
#[derive(Default)]
struct Flights(BTreeMap<u64, Rc<Vec<u8>>>);

impl Flights {
    fn of(&mut self, seed: u64) -> Result<Rc<Vec<u8>>, String> {
        if let Some(made) = self.0.get(&seed) {
            return Ok(Rc::clone(made));
        }
        let made = Rc::new(crate::toy::flight(seed)?);
        self.0.insert(seed, Rc::clone(&made));
        Ok(made)
    }
}

impl std::fmt::Debug for Flights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.len())
    }
}

/// Flips, overwrites, cuts, removes or repeats some bytes.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.range(1, 4) {
        let len = bytes.len();
        if len == 0 {
            return;
        }
        let at = rng.below(len as u64) as usize;
        let end = (at + rng.below(60) as usize).min(len);
        match rng.below(6) {
            0 | 1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at..end].fill(*rng.pick(&[0, 0xff])),
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..end)),
            _ => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
}

/// A number that programs stumble over.
fn odd(rng: &mut Rng) -> u64 {
    let near = *rng.pick(&[0, 1, 4096, 1 << 31, 1 << 32, 1 << 40, 1 << 62, u64::MAX / 2, u64::MAX]);
    near.wrapping_add(rng.below(3)).wrapping_sub(1)
}

/// Changes a field of an operation to an odd number.
fn twist(op: &mut Op, rng: &mut Rng) {
    match op {
        Op::Write { ino, off, data }
        | Op::WriteBack { ino, off, data }
        | Op::Append { ino, off, data } => match rng.below(3) {
            0 => *ino = odd(rng),
            1 => *off = odd(rng),
            _ => *data = Data::Synthetic(odd(rng)),
        },
        Op::Read { off, len, .. } => match rng.below(2) {
            0 => *off = odd(rng),
            _ => *len = odd(rng) as u32,
        },
        Op::Create { dir, name, .. } => match rng.below(2) {
            0 => *dir = odd(rng),
            _ => *name = vec![b'x'; rng.below(300) as usize].into(),
        },
        Op::ReadDir { cookie, max_bytes, .. } => {
            (*cookie, *max_bytes) = (odd(rng), odd(rng) as u32);
        }
        Op::Lookup { dir: ino, .. }
        | Op::Unlink { dir: ino, .. }
        | Op::Release { ino }
        | Op::Open { ino, .. } => *ino = odd(rng),
        Op::Forget { ino, count } => (*ino, *count) = (odd(rng), odd(rng)),
        other => {
            let (ino, off, len) = (3 + rng.below(9), odd(rng), odd(rng));
            let keep_size = rng.chance(0.5);
            let mode = match rng.below(3) {
                0 => Fallocate::Allocate { keep_size },
                1 => Fallocate::PunchHole,
                _ => Fallocate::ZeroRange { keep_size },
            };
            *other = Op::Fallocate { ino, off, len, mode };
        }
    }
}

/// The records of a small workload, some of them changed, as a trace.
fn trace(seed: u64, twisted: bool) -> Result<Vec<u8>, String> {
    let mut rng = Rng::stream(seed, "trace");
    let text = *rng.pick(&["small-files:files=12,bytes=3000", "zipf:writes=40"]);
    let mut source = twin_generate::start(text, seed).map_err(|error| error.to_string())?;
    let header = source.header().clone();
    let mut writer = Writer::new(Vec::new(), &header).map_err(|error| error.to_string())?;
    while let Some(mut record) = source.next_record().map_err(|error| error.to_string())? {
        if twisted && rng.chance(0.05) {
            match &mut record {
                Record::Request { at_ns, request } => match rng.below(8) {
                    0 => *at_ns = at_ns.saturating_add(odd(&mut rng) >> 20),
                    _ => twist(&mut request.op, &mut rng),
                },
                Record::Node(node) => node.ino = odd(&mut rng),
                Record::Reply { .. } => continue,
            }
        }
        // What the writer refuses to write is no trace.
        if writer.record(&record).is_err() {
            break;
        }
    }
    writer.finish().map_err(|error| error.to_string())
}

/// Replays a damaged trace in the simulator.
///
/// # Errors
/// If the trace could not be made.
pub fn damaged_trace(seed: u64, damaged: &mut Damaged) -> Result<(), String> {
    let mut rng = Rng::stream(seed, "damaged trace");
    let twisted = rng.chance(0.5);
    let mut bytes = trace(seed, twisted)?;
    if !twisted {
        mutate(&mut bytes, &mut rng);
    }
    damaged.inputs += 1;
    // A reader must come to an end by itself.
    if let Ok(mut reader) = Reader::new(Cursor::new(&bytes[..])) {
        while let Ok(Some(_)) = reader.next_record() {}
    }
    let config = Config::parse("lfs-ssd:size=32M,cache=4M").map_err(|error| error.to_string())?;
    let pace = if rng.chance(0.5) { Pace::Asap } else { Pace::Recorded { speed: 10.0 } };
    match simulate(&config, &Workload::Trace(Arc::from(bytes)), pace) {
        Ok(_) => damaged.used += 1,
        Err(error) if error.to_string().is_empty() => return Err("an error without words".into()),
        Err(_) => damaged.refused += 1,
    }
    Ok(())
}

/// Verifies a damaged flight log.
///
/// # Errors
/// If the log could not be made, or the damage got past the comparison of digests.
pub fn damaged_flight(seed: u64, damaged: &mut Damaged) -> Result<(), String> {
    let mut rng = Rng::stream(seed, "damaged flight");
    let good = damaged.flights.of(seed % 16)?;
    let mut bytes = match rng.chance(0.5) {
        true => twisted_flight(&good, &mut rng)?,
        false => good.to_vec(),
    };
    if bytes == *good {
        mutate(&mut bytes, &mut rng);
    }
    damaged.inputs += 1;
    match verify_flight(Cursor::new(bytes)) {
        Ok(_) => damaged.used += 1,
        Err(error) if error.to_string().is_empty() => return Err("an error without words".into()),
        Err(_) => damaged.refused += 1,
    }
    Ok(())
}

/// The same flight with some records changed, left out or told twice, and with odd settings.
fn twisted_flight(good: &[u8], rng: &mut Rng) -> Result<Vec<u8>, String> {
    let words = |error: twin_trace::TraceError| error.to_string();
    let mut reader = FlightReader::new(Cursor::new(good)).map_err(words)?;
    let header = reader.header().clone();
    let mut text = header.text.to_string();
    if rng.chance(0.3) {
        let lines: Vec<&str> = text.lines().collect();
        let hit = rng.below(lines.len() as u64) as usize;
        let change = |(nth, line): (usize, &&str)| match line.split_once('=') {
            Some((key, _)) if nth == hit => format!("{key}={}\n", odd(rng)),
            _ => format!("{line}\n"),
        };
        text = lines.iter().enumerate().map(change).collect();
    }
    let mut writer =
        FlightWriter::new(Vec::new(), header.start, header.seed, &text, false).map_err(words)?;
    while let Some(record) = reader.next_record().map_err(words)? {
        let hit = rng.chance(0.02);
        if hit && rng.chance(0.3) {
            continue;
        }
        let written = match record {
            FlightRecord::Arrive(mut request) => {
                if hit {
                    twist(&mut request.op, rng);
                }
                writer.arrive(&request)
            }
            FlightRecord::Complete { io, at_submit, result } => {
                let io = if hit { odd(rng) } else { io };
                let content = |piece: &twin_trace::Piece| piece.block();
                let result = result.map(|pieces| pieces.iter().filter_map(content).collect());
                writer.complete(io, twin_disk::Class::Meta, at_submit, &result)
            }
            FlightRecord::Command(word) => writer.command(&word),
            FlightRecord::Civil(ahead) => writer.civil(if hit { odd(rng) as i64 } else { ahead }),
            FlightRecord::Park(now) => writer.park(now),
            FlightRecord::Digest { .. } => writer.digest(twin_rt::EventDigest::default()),
        };
        if written.is_err() {
            break;
        }
    }
    writer.finish().map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inodes that had left memory were read again with the mount's checksums of user data in them,
    /// which the replay does not have: "the inode is not the one that the map means", on a mount
    /// with more than the 16,384 inodes that are kept. This test had all inodes in memory, as had
    /// every recorded mount; since then it keeps two.
    #[test]
    fn a_flight_of_the_toy_host_replays_to_its_digest() {
        for seed in 0..16 {
            let verified = verify_flight(Cursor::new(crate::toy::flight(seed).unwrap())).unwrap();
            assert!(verified.is_same() && verified.operations > 50, "seed {seed}: {verified:?}");
        }
    }
}
