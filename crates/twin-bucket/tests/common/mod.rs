//! What the tests of the device share: a small volume, and requests to it.

use std::rc::Rc;

use twin_bucket::{Bucket, HasEnded, Shape};
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_rt::{ClockOnly, Rt};

pub(crate) const SHAPE: Shape = Shape { size: 1 << 20, sector: 512, pack_bytes: 1 << 16 };

pub(crate) fn all_ended() -> HasEnded {
    Rc::new(|_| true)
}

/// Runs a part of a test in virtual time. What is not awaited when it ends is cut off, as by a power failure.
pub(crate) fn run<T>(seed: u64, test: impl AsyncFnOnce(Rt) -> T) -> T {
    let rt = Rt::new(ClockOnly::default(), seed);
    rt.clone().block_on(test(rt)).unwrap()
}

pub(crate) fn block(bytes: &[u8]) -> Vec<Block> {
    vec![Block::Bytes(Buf::copy_of(bytes).freeze())]
}

pub(crate) fn write(at: u64, bytes: &[u8]) -> Io {
    Io::write(at, block(bytes), Class::Data, Origin::User)
}

pub(crate) async fn read(device: &Bucket, at: u64, len: u64) -> Vec<u8> {
    let blocks = device.submit(Io::read(at, len, Class::Data, Origin::User)).await.unwrap();
    gather(&blocks, 0, len as usize).to_bytes().to_vec()
}

pub(crate) async fn flush(device: &Bucket) -> Result<(), String> {
    device.submit(Io::flush(Origin::User)).await.map(drop).map_err(|error| error.to_string())
}
