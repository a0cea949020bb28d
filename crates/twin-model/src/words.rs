//! Debug texts made readable: names and values are lists of bytes there, a number each.

/// Bytes of a list that are shown.
const SHOWN: usize = 60;

/// The text with every list of small numbers shown as escaped bytes, cut if it is long.
pub(super) fn readable(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let (before, list) = rest.split_at(open);
        out.push_str(before);
        rest = match bytes_of(list) {
            Some((bytes, after)) => {
                let shown = &bytes[..bytes.len().min(SHOWN)];
                out.push_str(&format!("\"{}\"", shown.escape_ascii()));
                if shown.len() < bytes.len() {
                    out.push_str(&format!(" and {} bytes more", bytes.len() - shown.len()));
                }
                after
            }
            None => {
                out.push('[');
                &list[1..]
            }
        };
    }
    out.push_str(rest);
    out
}

/// Reads `[1, 2, 3]` at the beginning of a text; gives the bytes and what follows.
fn bytes_of(text: &str) -> Option<(Vec<u8>, &str)> {
    let (inner, after) = text.strip_prefix('[')?.split_once(']')?;
    let bytes: Option<Vec<u8>> = inner.split(", ").map(|number| number.parse().ok()).collect();
    Some((bytes?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_text_and_other_lists_stay() {
        let op = twin_fs::Op::Unlink { dir: 2, name: (*b"a\n").into() };
        assert_eq!(readable(&format!("{op:?}")), "Unlink { dir: 2, name: \"a\\n\" }");
        assert_eq!(readable("[] and [300] and [x"), "[] and [300] and [x");
        let long = readable(&format!("{:?}", [b'x'; 100]));
        assert!(long.ends_with("x\" and 40 bytes more"), "{long}");
    }
}
