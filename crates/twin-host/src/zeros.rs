//! Zeros to write to devices and clients: one buffer, shared by all requests.

use std::sync::OnceLock;

use twin_disk::{Buf, Bytes};

const LEN: usize = 64 << 10;

/// Adds pieces of `len` zero bytes together.
pub(crate) fn push_zeros(pieces: &mut Vec<Bytes>, mut len: usize) {
    // Constant, so it is no state of a run.
    static ZEROS: OnceLock<Bytes> = OnceLock::new();
    let zeros = ZEROS.get_or_init(|| Buf::aligned(LEN).freeze());
    while len > 0 {
        let n = len.min(LEN);
        pieces.push(zeros.slice(0, n));
        len -= n;
    }
}
