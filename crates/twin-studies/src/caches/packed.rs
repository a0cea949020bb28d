//! Long lists of numbers, compressed in memory.
//!
//! Contract: a trace has as many accesses as it has lines, or far more; what is kept of it must not grow
//! with them. So the lists of a study are kept in chunks that are compressed (zstd), of which a run expands
//! one at a time. What repeats itself, as a trace of few blocks or a scan does, takes next to nothing; what
//! does not takes what it says, which is at most four bytes a number.

/// Numbers of a chunk.
pub(super) const CHUNK: usize = 1 << 16;
/// The compression that costs least.
const LEVEL: i32 = 1;

/// Room that is used again for each chunk. A buffer that were cut to what it holds would leave a hole behind
/// each chunk, and memory would grow as if nothing were packed.
#[derive(Default)]
struct Room {
    bytes: Vec<u8>,
    packed: Vec<u8>,
}

/// A list of numbers.
#[derive(Default)]
pub(super) struct Packed {
    chunks: Vec<Box<[u8]>>,
    /// What will be the next chunk.
    tail: Vec<u32>,
    /// Room for a chunk, as it is and packed.
    room: Room,
}

impl Packed {
    pub(super) fn push(&mut self, number: u32) {
        self.tail.push(number);
        if self.tail.len() == CHUNK {
            let chunk = pack(&self.tail, &mut self.room);
            self.chunks.push(chunk);
            self.tail.clear();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.len() * CHUNK + self.tail.len()
    }

    /// The number of chunks; all but the last have [`CHUNK`] numbers.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len() + usize::from(!self.tail.is_empty())
    }

    /// Replaces `out` by the numbers of a chunk.
    pub(super) fn chunk(&self, at: usize, out: &mut Vec<u32>) {
        out.clear();
        match self.chunks.get(at) {
            Some(chunk) => unpack(chunk, out),
            None if at == self.chunks.len() => out.extend_from_slice(&self.tail),
            None => {}
        }
    }

    /// All numbers.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<u32> {
        let (mut all, mut chunk) = (Vec::new(), Vec::new());
        for at in 0..self.chunks() {
            self.chunk(at, &mut chunk);
            all.extend_from_slice(&chunk);
        }
        all
    }

    /// For each number the place of the next equal one, as how much further on it is; 0 if there is none.
    /// The numbers are below `below`.
    pub(super) fn next_equal(&self, below: u32) -> Packed {
        let mut latest = vec![u64::MAX; below as usize];
        let (mut next, mut numbers) = (Packed::default(), Vec::new());
        for at in (0..self.chunks()).rev() {
            self.chunk(at, &mut numbers);
            for (offset, number) in numbers.iter_mut().enumerate().rev() {
                let place = (at * CHUNK + offset) as u64;
                let later = std::mem::replace(&mut latest[*number as usize], place);
                *number =
                    later.checked_sub(place).map_or(0, |more| u32::try_from(more).unwrap_or(0));
            }
            match at == self.chunks.len() {
                true => next.tail = numbers.clone(),
                false => next.chunks.push(pack(&numbers, &mut next.room)),
            }
        }
        next.chunks.reverse();
        next
    }
}

/// Packs numbers: differences, of which the bytes of one significance are together.
fn pack(numbers: &[u32], Room { bytes, packed }: &mut Room) -> Box<[u8]> {
    bytes.clear();
    bytes.resize(numbers.len() * 4, 0);
    let mut last = 0u32;
    for (at, &number) in numbers.iter().enumerate() {
        let difference = number.wrapping_sub(last);
        // Small differences downwards have small numbers too.
        let coded = (difference << 1) ^ ((difference as i32) >> 31) as u32;
        for (plane, byte) in coded.to_le_bytes().into_iter().enumerate() {
            bytes[plane * numbers.len() + at] = byte;
        }
        last = number;
    }
    packed.resize(zstd::zstd_safe::compress_bound(bytes.len()), 0);
    let len = zstd::bulk::compress_to_buffer(bytes, packed.as_mut_slice(), LEVEL);
    let len = len.expect("what is compressed has room");
    packed[..len].into()
}

fn unpack(packed: &[u8], out: &mut Vec<u32>) {
    let bytes = zstd::bulk::decompress(packed, CHUNK * 4).expect("what was packed is whole");
    let len = bytes.len() / 4;
    let (mut last, plane) = (0u32, |number: usize| &bytes[number * len..(number + 1) * len]);
    let (first, second, third, fourth) = (plane(0), plane(1), plane(2), plane(3));
    for at in 0..len {
        let coded = u32::from_le_bytes([first[at], second[at], third[at], fourth[at]]);
        last = last.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg());
        out.push(last);
    }
}

#[cfg(test)]
mod tests {
    use twin_rt::Rng;

    use super::*;

    fn packed(numbers: &[u32]) -> Packed {
        let mut packed = Packed::default();
        numbers.iter().for_each(|number| packed.push(*number));
        packed
    }

    #[test]
    fn what_is_packed_comes_back() {
        let mut rng = Rng::new(3);
        for len in [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 7] {
            let numbers: Vec<u32> = (0..len).map(|_| rng.next_u64() as u32).collect();
            let packed = packed(&numbers);
            assert_eq!((packed.len(), packed.all()), (len, numbers));
        }
        let ends = [0, u32::MAX, 1, u32::MAX - 1, 1 << 31, 0];
        assert_eq!(packed(&ends).all(), ends);
    }

    #[test]
    fn the_next_equal_number_is_found_across_chunks() {
        let mut rng = Rng::new(4);
        let numbers: Vec<u32> = (0..2 * CHUNK + 99).map(|_| rng.below(9000) as u32).collect();
        let next = packed(&numbers).next_equal(9000).all();
        let expected = twin_cache::study::next_accesses(&numbers, 9000);
        for (at, (found, expected)) in next.iter().zip(expected).enumerate() {
            let expected = if expected == u32::MAX { 0 } else { expected - at as u32 };
            assert_eq!(*found, expected, "{at}");
        }
    }

    /// A file of 512 KB that expands to 120 million accesses took 533 MB after an eighth.
    #[test]
    fn what_repeats_itself_takes_next_to_nothing() {
        let mut list = Packed::default();
        for at in 0..4_000_000u32 {
            list.push(at % 1000);
        }
        let bytes: usize = list.chunks.iter().map(|chunk| chunk.len()).sum();
        assert!(bytes < 400_000, "{bytes} bytes");
    }
}
