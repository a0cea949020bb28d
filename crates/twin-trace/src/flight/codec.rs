//! Records of a flight log to bytes and back; docs/trace-format.md is the contract.

use twin_disk::{Bytes, IoError, IoErrorKind, IoKind, IoResult, Stamp};
use twin_rt::{Nanos, Time};

use super::{FlightRecord, Piece};
use crate::codec::{Decoder, Encoder, TooBig};
use crate::frame::MAX_RAW;

/// Tags of records that are not requests.
mod tag {
    pub(super) const COMPLETE: u8 = 0;
    pub(super) const PARK: u8 = 29;
    pub(super) const DIGEST: u8 = 30;
    pub(super) const COMMAND: u8 = 31;
}

/// The codes of the kinds of pieces.
mod piece {
    pub(super) const ZERO: u64 = 0;
    pub(super) const BYTES: u64 = 1;
    pub(super) const STAMP: u64 = 2;
    pub(super) const DROPPED: u64 = 3;
}

/// The longest command, in bytes.
const MAX_COMMAND: usize = 65_535;
/// The most pieces and bytes that one completion may keep.
const MAX_PIECES: usize = 16_384;
const MAX_BYTES: usize = MAX_RAW / 2;

pub(super) fn put_park(encoder: &mut Encoder, at_ns: Nanos) {
    encoder.tag(tag::PARK, 0);
    encoder.time(at_ns);
}

/// A park with this flag is none, but says how far civil time is ahead.
const CIVIL: u8 = 1;

pub(super) fn put_civil(encoder: &mut Encoder, ahead: i64) {
    encoder.tag(tag::PARK, CIVIL);
    encoder.signed(ahead);
}

pub(super) fn put_digest(encoder: &mut Encoder, value: u64, events: u64) {
    encoder.tag(tag::DIGEST, 0);
    encoder.content(&value.to_le_bytes());
    encoder.number(events);
}

pub(super) fn put_command(encoder: &mut Encoder, text: &str) -> Result<(), TooBig> {
    if text.len() > MAX_COMMAND {
        return Err(TooBig(text.len() as u64));
    }
    encoder.tag(tag::COMMAND, 0);
    encoder.text(text);
    Ok(())
}

pub(super) fn put_completion(
    encoder: &mut Encoder,
    io: u64,
    at_submit: bool,
    keep: bool,
    result: &IoResult,
) -> Result<(), TooBig> {
    let pieces: Vec<Piece> = match result {
        Ok(blocks) => blocks.iter().map(|block| Piece::of(block, keep)).collect(),
        Err(_) => Vec::new(),
    };
    let kept = pieces.iter().map(|piece| match piece {
        Piece::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    let kept: usize = kept.sum();
    if kept > MAX_BYTES || pieces.len() > MAX_PIECES {
        return Err(TooBig(kept.max(pieces.len()) as u64));
    }
    encoder.tag(tag::COMPLETE, u8::from(at_submit) | u8::from(result.is_err()) << 1);
    encoder.io(io);
    match result {
        Ok(_) => {
            encoder.reply_number(pieces.len() as u64);
            pieces.iter().for_each(|piece| put_piece(encoder, piece));
        }
        Err(error) => put_error(encoder, error),
    }
    Ok(())
}

fn put_piece(encoder: &mut Encoder, piece: &Piece) {
    let mut head = |kind, len: usize| encoder.number((len as u64) << 2 | kind);
    match piece {
        Piece::Zero(len) => head(piece::ZERO, *len as usize),
        Piece::Bytes(bytes) => {
            head(piece::BYTES, bytes.len());
            encoder.content(bytes);
        }
        Piece::Stamp(stamp) => {
            head(piece::STAMP, stamp.len as usize);
            let numbers = [stamp.ino, stamp.lbn, stamp.version, u64::from(stamp.off)];
            numbers.into_iter().for_each(|number| encoder.number(number));
        }
        Piece::Dropped { len, crc } => {
            head(piece::DROPPED, *len as usize);
            encoder.content(&crc.to_le_bytes());
        }
    }
}

fn put_error(encoder: &mut Encoder, error: &IoError) {
    let op = match error.op {
        IoKind::Read => 0,
        IoKind::Write => 1,
        IoKind::Flush => 2,
        IoKind::Discard => 3,
    };
    let (kind, text) = match &error.kind {
        IoErrorKind::Medium => (0, ""),
        IoErrorKind::NoSpace => (1, ""),
        IoErrorKind::Gone => (2, ""),
        IoErrorKind::OutOfRange => (3, ""),
        IoErrorKind::Other(text) => (4, text.as_str()),
    };
    encoder.reply_number(kind << 2 | op);
    encoder.number(error.at);
    encoder.number(error.len);
    if kind == 4 {
        let mut end = text.len().min(MAX_COMMAND);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        encoder.text(&text[..end]);
    }
}

type Result<T, E = &'static str> = std::result::Result<T, E>;

/// The record whose tag was read, of a run that began at `start`.
pub(super) fn get(decoder: &mut Decoder, start: Time, code: u8, flags: u8) -> Result<FlightRecord> {
    Ok(match code {
        tag::COMPLETE => {
            let io = decoder.io()?;
            let at_submit = flags & 1 == 1;
            let result = match flags >> 1 & 1 {
                0 => Ok(get_pieces(decoder)?),
                _ => Err(get_error(decoder)?),
            };
            FlightRecord::Complete { io, at_submit, result }
        }
        tag::PARK if flags & CIVIL != 0 => FlightRecord::Civil(decoder.signed()?),
        tag::PARK => FlightRecord::Park(start + decoder.time()?),
        tag::DIGEST => {
            let mut value = [0; 8];
            value.copy_from_slice(decoder.content(8)?);
            let value = u64::from_le_bytes(value);
            FlightRecord::Digest { value, events: decoder.number()? }
        }
        tag::COMMAND => FlightRecord::Command(decoder.text()?),
        _ => FlightRecord::Arrive(decoder.arrival(code, flags)?),
    })
}

fn get_pieces(decoder: &mut Decoder) -> Result<Vec<Piece>> {
    let count = decoder.reply_number()?;
    // Each piece takes at least one byte, so a false count cannot request much memory.
    if count > decoder.numbers_left().min(MAX_PIECES as u64) {
        return Err("too many pieces");
    }
    (0..count).map(|_| get_piece(decoder)).collect()
}

fn get_piece(decoder: &mut Decoder) -> Result<Piece> {
    let head = decoder.number()?;
    let len = u32::try_from(head >> 2).map_err(|_| "a piece of more than 32 bits")?;
    Ok(match head & 3 {
        piece::ZERO => Piece::Zero(len),
        piece::BYTES => Piece::Bytes(Bytes::copy_of(decoder.content(u64::from(len))?)),
        piece::STAMP => {
            let (ino, lbn, version) = (decoder.number()?, decoder.number()?, decoder.number()?);
            let off = decoder.number32()?;
            if off.checked_add(len).is_none() {
                return Err("a stamp that ends beyond its block");
            }
            Piece::Stamp(Stamp { ino, lbn, version, off, len })
        }
        _ => {
            let mut crc = [0; 4];
            crc.copy_from_slice(decoder.content(4)?);
            Piece::Dropped { len, crc: u32::from_le_bytes(crc) }
        }
    })
}

fn get_error(decoder: &mut Decoder) -> Result<IoError> {
    let code = decoder.reply_number()?;
    let op = match code & 3 {
        0 => IoKind::Read,
        1 => IoKind::Write,
        2 => IoKind::Flush,
        _ => IoKind::Discard,
    };
    let (at, len) = (decoder.number()?, decoder.number()?);
    let kind = match code >> 2 {
        0 => IoErrorKind::Medium,
        1 => IoErrorKind::NoSpace,
        2 => IoErrorKind::Gone,
        3 => IoErrorKind::OutOfRange,
        4 => IoErrorKind::Other(decoder.text()?),
        _ => return Err("an unknown kind of device error"),
    };
    Ok(IoError { op, at, len, kind })
}
