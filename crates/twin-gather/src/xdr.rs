//! The few forms of XDR (RFC 4506) in captured messages.
//!
//! Packets are often captured in part, and some are nonsense. So each form is read from a slice that may end
//! anywhere: what is missing is `None`, and a length is believed only as far as there are bytes. Libraries
//! for XDR decode whole messages of trusted lengths.

/// A message, read from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Xdr<'a> {
    rest: &'a [u8],
}

impl<'a> Xdr<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Xdr<'a> {
        Xdr { rest: message }
    }

    /// The bytes that have not been read.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        Some(u32::from_be_bytes(*word))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (high, low) = (self.u32()?, self.u32()?);
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// A boolean: zero or one.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Opaque bytes of a known length, with their padding.
    pub(crate) fn fixed(&mut self, len: usize) -> Option<&'a [u8]> {
        let padded = len.checked_next_multiple_of(4)?;
        if padded > self.rest.len() {
            return None;
        }
        let bytes = &self.rest[..len];
        self.rest = &self.rest[padded..];
        Some(bytes)
    }

    /// Opaque bytes or a string behind its length, which is at most `most`.
    pub(crate) fn opaque(&mut self, most: usize) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > most {
            return None;
        }
        self.fixed(len)
    }

    pub(crate) fn skip(&mut self, words: usize) -> Option<()> {
        self.fixed(4 * words).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_in_order() {
        let message = [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 3, b'a', b'b', b'c', 0, 0, 0, 0, 9];
        let mut xdr = Xdr::new(&message);
        assert_eq!((xdr.u32(), xdr.bool()), (Some(7), Some(true)));
        assert_eq!(xdr.opaque(8), Some(&b"abc"[..]));
        assert_eq!((xdr.u32(), xdr.u32()), (Some(9), None));
    }

    #[test]
    fn a_length_beyond_the_message_or_the_bound_is_not_believed() {
        let message = [255, 255, 255, 255, 1, 2, 3, 4];
        assert_eq!(Xdr::new(&message).opaque(usize::MAX), None);
        assert_eq!(Xdr::new(&[0, 0, 0, 4, 1, 2, 3, 4]).opaque(3), None);
        assert_eq!(Xdr::new(&[0, 0, 0, 2]).bool(), None);
    }
}
