//! Integers of variable length, and cursors over them: LEB128, that is seven bits in a byte, lowest
//! bits first, with the high bit set if more bytes follow. Signed numbers are zigzagged (0, -1, 1,
//! -2, ...).

/// Appends an unsigned number: 1 to 10 bytes.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the difference `value - base` (wrapping), zigzagged.
#[inline]
pub fn put_delta(out: &mut Vec<u8>, value: u64, base: u64) {
    let delta = value.wrapping_sub(base) as i64;
    put(out, ((delta << 1) ^ (delta >> 63)) as u64);
}

/// A column being read. Reading past its end or a malformed number gives `Err` with a reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    pos: usize,
    end: usize,
}

/// Why a record cannot be decoded.
pub type Bad = &'static str;

impl Cursor {
    /// A cursor over `bytes[start..end]` of the payload that every call receives.
    pub fn new(start: usize, end: usize) -> Cursor {
        Cursor { pos: start, end }
    }

    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.end - self.pos
    }

    #[inline]
    /// Takes the next byte of `bytes`.
    pub fn byte(&mut self, bytes: &[u8]) -> Result<u8, Bad> {
        if self.pos >= self.end {
            return Err("a column ends too early");
        }
        let byte = bytes[self.pos];
        self.pos += 1;
        Ok(byte)
    }

    #[inline]
    /// Takes an unsigned number of one to ten bytes.
    pub fn number(&mut self, bytes: &[u8]) -> Result<u64, Bad> {
        let first = self.byte(bytes)?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..=63).step_by(7) {
            let byte = self.byte(bytes)?;
            if shift == 63 && byte > 1 {
                return Err("a number has more than 64 bits");
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    /// A number that must fit 32 bits.
    #[inline]
    pub fn number32(&mut self, bytes: &[u8]) -> Result<u32, Bad> {
        u32::try_from(self.number(bytes)?).map_err(|_| "a number has more than 32 bits")
    }

    #[inline]
    /// A number that was written as its difference to `base`.
    pub fn delta(&mut self, bytes: &[u8], base: u64) -> Result<u64, Bad> {
        let zigzag = self.number(bytes)?;
        Ok(base.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
    }

    /// The next `len` bytes.
    #[inline]
    pub fn bytes<'a>(&mut self, bytes: &'a [u8], len: u64) -> Result<&'a [u8], Bad> {
        if len > self.left() as u64 {
            return Err("a column ends too early");
        }
        let start = self.pos;
        self.pos += len as usize;
        Ok(&bytes[start..self.pos])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let numbers = (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1, !0 >> bit]);
        for number in numbers {
            let mut out = Vec::new();
            put(&mut out, number);
            put_delta(&mut out, number, 77);
            let mut cursor = Cursor::new(0, out.len());
            assert_eq!(cursor.number(&out), Ok(number));
            assert_eq!(cursor.delta(&out, 77), Ok(number));
            assert_eq!(cursor.left(), 0);
        }
    }

    #[test]
    fn a_number_without_end_is_refused() {
        let endless = [0xff; 11];
        assert!(Cursor::new(0, 11).number(&endless).is_err());
        let too_big = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Cursor::new(0, 10).number(&too_big).is_err());
        assert!(Cursor::new(0, 1).number(&endless).is_err());
    }
}
