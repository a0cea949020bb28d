//! Processor models: what the host's work costs in time.
//!
//! A [`CpuModel`] is a table of costs. To add a machine, write one file and one line of
//! [`registry`]. The Sun machines are one table, that of the SparcStation II, scaled.

mod modern;
mod sun;

use twin_fs::{CpuModel, OpKind, Work};
use twin_rt::Nanos;

use crate::UnknownName;

/// Costs by kind of work, in nanoseconds (per byte: in picoseconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostTable {
    /// Finding a name.
    pub lookup_ns: Nanos,
    /// Making a name and an inode.
    pub create_ns: Nanos,
    /// Removing a name.
    pub remove_ns: Nanos,
    /// Moving or linking a name.
    pub rename_ns: Nanos,
    /// Opening, closing.
    pub open_ns: Nanos,
    /// A read, apart from its data.
    pub read_ns: Nanos,
    /// A write, apart from its data.
    pub write_ns: Nanos,
    /// Attributes.
    pub attr_ns: Nanos,
    /// Reading a directory, apart from its entries.
    pub read_dir_ns: Nanos,
    /// fsync and sync, apart from their writes.
    pub sync_ns: Nanos,
    /// Any other operation.
    pub other_ns: Nanos,
    /// Copying a byte between client and cache.
    pub copy_ps_per_byte: u64,
    /// Handling a block in the cache.
    pub block_ns: Nanos,
    /// Preparing a device request.
    pub request_ns: Nanos,
}

/// A machine: a table of costs and how much slower it is than the machine that the table is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The costs.
    pub costs: CostTable,
    /// What to multiply them with.
    pub slower: f64,
}

impl CpuModel for Machine {
    fn cost_ns(&self, work: Work) -> Nanos {
        let c = &self.costs;
        let base_ps = match work {
            Work::Copy(bytes) => bytes * c.copy_ps_per_byte,
            Work::Block => c.block_ns * 1000,
            Work::Request => c.request_ns * 1000,
            Work::Op(kind) => {
                1000 * match kind {
                    OpKind::Lookup => c.lookup_ns,
                    OpKind::Create => c.create_ns,
                    OpKind::Remove => c.remove_ns,
                    OpKind::Rename => c.rename_ns,
                    OpKind::Open => c.open_ns,
                    OpKind::Read => c.read_ns,
                    OpKind::Write => c.write_ns,
                    OpKind::Attr => c.attr_ns,
                    OpKind::ReadDir => c.read_dir_ns,
                    OpKind::Sync => c.sync_ns,
                    OpKind::Other => c.other_ns,
                }
            }
        };
        (base_ps as f64 * self.slower / 1000.0).round() as Nanos
    }
}

/// A machine that can be had by name.
pub struct Entry {
    /// Its name in settings.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its costs.
    pub machine: Machine,
    /// How many processors it has.
    pub processors: u64,
}

impl Entry {
    /// The machine as a processor model.
    pub fn build(&self) -> Box<dyn CpuModel> {
        Box::new(self.machine)
    }
}

/// All machines.
pub fn registry() -> &'static [Entry] {
    macro_rules! entry {
        ($name:literal, $about:literal, $costs:path, $slower:expr, $processors:literal) => {
            Entry {
                name: $name,
                about: $about,
                machine: Machine { costs: $costs, slower: $slower },
                processors: $processors,
            }
        };
    }
    const REGISTRY: &[Entry] = &[
        entry!(
            "sparcstation-2",
            "SparcStation II, 40 MHz; copies 4 KB in 0.2 ms, as the 1994 table implies",
            sun::SPARCSTATION_2,
            1.0,
            1
        ),
        entry!(
            "sparcstation-2-copy",
            "SparcStation II; copies 4 KB in 0.9 ms, as Logging versus Clustering says",
            sun::SPARCSTATION_2_COPY,
            1.0,
            1
        ),
        entry!(
            "sparcstation-1",
            "SparcStation I, 20 MHz, of the ageing study",
            sun::SPARCSTATION_2,
            sun::SPARCSTATION_1_SLOWER,
            1
        ),
        entry!(
            "sun-4-260",
            "Sun 4/260, 25 MHz, the Sprite machine; the 4/280 has the same processor",
            sun::SPARCSTATION_2,
            sun::SUN_4_260_SLOWER,
            1
        ),
        entry!("modern", "one core of a server of the 2020s", modern::MODERN, 1.0, 1),
        entry!("free", "work costs nothing: the disk alone decides", modern::FREE, 1.0, 1),
    ];
    REGISTRY
}

/// The machine with this name.
///
/// # Errors
/// [`UnknownName`] lists the names that there are.
pub fn by_name(name: &str) -> Result<&'static Entry, UnknownName> {
    registry().iter().find(|e| e.name == name).ok_or_else(|| UnknownName {
        what: "processor",
        name: name.into(),
        known: registry().iter().map(|e| e.name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_4k_us(name: &str) -> f64 {
        by_name(name).unwrap().build().cost_ns(Work::Copy(4096)) as f64 / 1e3
    }

    #[test]
    fn copying_a_block_costs_what_the_papers_say() {
        assert!((copy_4k_us("sparcstation-2") - 200.0).abs() < 1.0);
        assert!((copy_4k_us("sparcstation-2-copy") - 900.0).abs() < 1.0);
        // SPECint92: 21.8 against 8.7.
        let ratio = copy_4k_us("sun-4-260") / copy_4k_us("sparcstation-2");
        assert!((ratio - 2.506).abs() < 0.001, "{ratio}");
    }

    #[test]
    fn a_free_processor_costs_nothing() {
        let free = by_name("free").unwrap().build();
        let work = [Work::Op(OpKind::Create), Work::Copy(1 << 20), Work::Block, Work::Request];
        assert!(work.iter().all(|&w| free.cost_ns(w) == 0));
    }

    #[test]
    fn creating_a_small_file_takes_about_two_milliseconds_of_a_sparcstation_2() {
        let cpu = by_name("sparcstation-2").unwrap().build();
        let file = [
            Work::Op(OpKind::Lookup),
            Work::Op(OpKind::Create),
            Work::Op(OpKind::Write),
            Work::Copy(1024),
            Work::Block,
            Work::Op(OpKind::Open),
        ];
        let total: Nanos = file.iter().map(|&w| cpu.cost_ns(w)).sum();
        assert!((1_500_000..2_500_000).contains(&total), "{total}");
    }
}
