//! A machine of today, and one that costs nothing.

use twin_rt::MICROS;

use super::{CostTable, Kind, Machine};

/// Compiling a source file that takes 2 s on a SparcStation II takes some 50 ms: `cc -O0` of one of
/// the 25 files of `twinfs validate --workloads build`, measured on a machine of 2026, whose
/// compiler does more.
const PROGRAM: f64 = 0.025;

/// A server of the 2020s, of which one core is used.
pub(super) const fn modern() -> Kind {
    Kind { machine: Machine { costs: MODERN, slower: 1.0, program: PROGRAM }, processors: 1 }
}

/// A processor that costs nothing.
pub(super) const fn free() -> Kind {
    Kind { machine: Machine { costs: FREE, slower: 1.0, program: 0.0 }, processors: 1 }
}

/// Assumed: the order of magnitude of a file system in user space on a core of about 3 GHz (some
/// microseconds for a system call that passes through FUSE, copies at 10 GB/s, CRC-32C in hardware
/// at 20 GB/s). Not measured: a run on a host shows what its own operations cost.
const MODERN: CostTable = CostTable {
    lookup_ns: 2 * MICROS,
    create_ns: 5 * MICROS,
    remove_ns: 5 * MICROS,
    rename_ns: 6 * MICROS,
    open_ns: MICROS,
    read_ns: 2 * MICROS,
    write_ns: 2 * MICROS,
    attr_ns: MICROS,
    read_dir_ns: 3 * MICROS,
    sync_ns: 2 * MICROS,
    other_ns: 2 * MICROS,
    copy_ps_per_byte: 100,
    block_ns: 200,
    request_ns: 2 * MICROS,
    send_ps_per_byte: 100,
};

/// No work costs anything.
const FREE: CostTable = CostTable {
    lookup_ns: 0,
    create_ns: 0,
    remove_ns: 0,
    rename_ns: 0,
    open_ns: 0,
    read_ns: 0,
    write_ns: 0,
    attr_ns: 0,
    read_dir_ns: 0,
    sync_ns: 0,
    other_ns: 0,
    copy_ps_per_byte: 0,
    block_ns: 0,
    request_ns: 0,
    send_ps_per_byte: 0,
};
