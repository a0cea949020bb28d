//! Zero bytes to write to devices and clients, in one buffer that all requests share.

use std::sync::OnceLock;

use twin_disk::{Buf, Bytes};

const LEN: usize = 64 << 10;

/// Adds pieces with `len` zero bytes in total.
pub(crate) fn push_zeros(pieces: &mut Vec<Bytes>, mut len: usize) {
    // The value is constant, so it is not part of the state of a run.
    static ZEROS: OnceLock<Bytes> = OnceLock::new();
    let zeros = ZEROS.get_or_init(|| Buf::aligned(LEN).freeze());
    while len > 0 {
        let n = len.min(LEN);
        pieces.push(zeros.slice(0, n));
        len -= n;
    }
}
