//! The list of an inode's extended attributes, as it is stored in the inode or in a hidden file.
//!
//! For each attribute, in the order of their names: the length of its name (u16), the length of its
//! value (u32), the name, the value. In a hidden file the length of the list (u32) comes first.

use std::collections::BTreeMap;

/// The attributes of an inode: the value of each by its name, both as bytes.
pub type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// The list of these attributes, without the length that comes before it in a hidden file. The caller has checked that
/// names and values are no longer than [`NAME_MAX`](crate::NAME_MAX) and [`XATTR_VALUE_MAX`](crate::dir::XATTR_VALUE_MAX)
/// bytes.
pub fn encode(attributes: &Attributes) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in attributes {
        out.extend((name.len() as u16).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
        out.extend(name);
        out.extend(value);
    }
    out
}

/// The attributes in a list, without the length that comes before it in a hidden file; `None` if the list is cut off. Of
/// two attributes of one name the last counts; neither order nor contents are checked.
pub fn decode(raw: &[u8]) -> Option<Attributes> {
    entries(raw).map(|entry| entry.map(|(name, value)| (name.to_vec(), value.to_vec()))).collect()
}

/// The attributes in a list, one after the other; ends with `None` where it is cut off.
pub(crate) fn entries(mut raw: &[u8]) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
    std::iter::from_fn(move || {
        if raw.is_empty() {
            return None;
        }
        let first = first(raw);
        raw = first.map_or(&[][..], |(_, _, rest)| rest);
        Some(first.map(|(name, value, _)| (name, value)))
    })
}

/// The first attribute of a list, and the rest of the list.
pub(crate) fn first(raw: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (head, rest) = raw.split_at_checked(6)?;
    let name_len = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let value_len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
    let (name, rest) = rest.split_at_checked(name_len)?;
    let (value, rest) = rest.split_at_checked(value_len)?;
    Some((name, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_its_encoding() {
        let mut attributes = Attributes::new();
        attributes.insert(b"user.a".to_vec(), b"1".to_vec());
        attributes.insert(b"user.empty".to_vec(), Vec::new());
        assert_eq!(decode(&encode(&attributes)), Some(attributes));
    }

    #[test]
    fn a_cut_list_is_refused() {
        let mut attributes = Attributes::new();
        attributes.insert(b"user.a".to_vec(), b"value".to_vec());
        let raw = encode(&attributes);
        for len in 1..raw.len() {
            assert_eq!(decode(&raw[..len]), None, "{len} bytes");
        }
    }
}
