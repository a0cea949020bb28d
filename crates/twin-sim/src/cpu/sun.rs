//! The Sun machines of the papers.
//!
//! Published: the SparcStation II has 40 MHz and SPECint92 21.8, the Sun 4/260 8.7 (Logging versus
//! Clustering 1995, table 1), the SparcStation I 20 MHz (TR-35-94, table 6). Two copies of a 4 KB
//! block between kernel and user take 1.8 ms (Logging versus Clustering, section 4). The table of A
//! Comparison of Logging and Clustering (1994) contradicts that: its small reads imply about 0.2 ms
//! a copy. The registry has machines with either figure.
//!
//! Assumed, and chosen once rather than for a claim: everything else. Creating small files sets the
//! scale: LFS spends 64% of the processor on it and FFS, an order of magnitude slower, 5 to 6%
//! (section 2). At rates of some 300 and 30 files a second this fits a cost of about 2 ms a file
//! (lookup, create, write, close), divided among the operations in proportion to their work in
//! 4.4BSD.

use twin_rt::MICROS;

use super::CostTable;

/// The SparcStation I relative to the II: the ratio of their clocks (its SPECint92 is not given).
pub(super) const SPARCSTATION_1_SLOWER: f64 = 40.0 / 20.0;
/// The Sun 4/260 relative to the SparcStation II: the ratio of SPECint92.
pub(super) const SUN_4_260_SLOWER: f64 = 21.8 / 8.7;

pub(super) const SPARCSTATION_2: CostTable = CostTable {
    lookup_ns: 250 * MICROS,
    create_ns: 800 * MICROS,
    remove_ns: 800 * MICROS,
    rename_ns: 1000 * MICROS,
    open_ns: 150 * MICROS,
    read_ns: 250 * MICROS,
    write_ns: 350 * MICROS,
    attr_ns: 150 * MICROS,
    read_dir_ns: 300 * MICROS,
    sync_ns: 200 * MICROS,
    other_ns: 200 * MICROS,
    copy_ps_per_byte: 200_000_000 / 4096,
    block_ns: 150 * MICROS,
    request_ns: 500 * MICROS,
    // The papers' systems have no checksums; what else it takes is in the costs above.
    send_ps_per_byte: 0,
};

pub(super) const SPARCSTATION_2_COPY: CostTable =
    CostTable { copy_ps_per_byte: 900_000_000 / 4096, ..SPARCSTATION_2 };
