//! Processor models: what the host's work costs in time.
//!
//! A [`CpuModel`] is a table of costs. A new machine takes one file and one line in [`REGISTRY`].
//! The Sun machines share the table of the SparcStation II, scaled.

mod modern;
mod sun;

use twin_fs::{CpuModel, OpKind, Work};
use twin_rt::Nanos;
use twin_settings::{Registry, RegistryEntry};

/// Costs by kind of work, in nanoseconds (per byte: in picoseconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostTable {
    /// Looking up a name.
    pub lookup_ns: Nanos,
    /// Creating a name and an inode.
    pub create_ns: Nanos,
    /// Cost of removing a name.
    pub remove_ns: Nanos,
    /// Renaming or linking a name.
    pub rename_ns: Nanos,
    /// Opening or closing a file.
    pub open_ns: Nanos,
    /// A read, without the copying of its data.
    pub read_ns: Nanos,
    /// A write, without the copying of its data.
    pub write_ns: Nanos,
    /// Reading or setting attributes.
    pub attr_ns: Nanos,
    /// Listing a directory, without the cost of its entries.
    pub read_dir_ns: Nanos,
    /// fsync and sync, without the writes that they cause.
    pub sync_ns: Nanos,
    /// Cost of every operation that has no entry of its own.
    pub other_ns: Nanos,
    /// Copying a byte between client and cache.
    pub copy_ps_per_byte: u64,
    /// Handling a block in the cache.
    pub block_ns: Nanos,
    /// Preparing a device request.
    pub request_ns: Nanos,
    /// For each byte of a device request: what the layout computes before it sends the byte (log
    /// building, checksums) or once it has it.
    pub send_ps_per_byte: u64,
}

/// A machine: a table of costs, and its speed relative to the machine for which the table holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The costs on the reference machine.
    pub costs: CostTable,
    /// The factor by which this machine is slower.
    pub slower: f64,
    /// The time that a client program takes to compute, relative to a SparcStation II.
    pub program: f64,
}

impl CpuModel for Machine {
    fn program_ns(&self, on_reference: Nanos) -> Nanos {
        (on_reference as f64 * self.program).round() as Nanos
    }

    fn cost_ns(&self, work: Work) -> Nanos {
        let c = &self.costs;
        let base_ps = match work {
            Work::Copy(bytes) => bytes * c.copy_ps_per_byte,
            Work::Block => c.block_ns * 1000,
            Work::Request(bytes) => c.request_ns * 1000 + bytes * c.send_ps_per_byte,
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

/// A machine in the registry.
pub struct Kind {
    /// The costs of the machine, and the factor by which its processor is slower.
    pub machine: Machine,
    /// The number of its processors.
    pub processors: u64,
}

impl Kind {
    /// The machine as a processor model.
    pub fn build(&self) -> Box<dyn CpuModel> {
        Box::new(self.machine)
    }
}

/// A machine whose programs and file system are slower by the same factor.
const fn machine(costs: CostTable, slower: f64, processors: u64) -> Kind {
    Kind { machine: Machine { costs, slower, program: slower }, processors }
}

/// All machines; the first is the default.
pub static REGISTRY: Registry<Kind> = Registry::new(
    "processor",
    &[
        RegistryEntry::new(
            "sparcstation-2",
            "SparcStation II, 40 MHz; copies 4 KB in 0.2 ms, as the 1994 table implies",
            machine(sun::SPARCSTATION_2, 1.0, 1),
        ),
        RegistryEntry::new(
            "sparcstation-2-copy",
            "SparcStation II; copies 4 KB in 0.9 ms, as Logging versus Clustering says",
            machine(sun::SPARCSTATION_2_COPY, 1.0, 1),
        ),
        RegistryEntry::new(
            "sparcstation-1",
            "SparcStation I, 20 MHz, of the ageing study",
            machine(sun::SPARCSTATION_2, sun::SPARCSTATION_1_SLOWER, 1),
        ),
        RegistryEntry::new(
            "sun-4-260",
            "Sun 4/260, 25 MHz, the Sprite machine; the 4/280 has the same processor",
            machine(sun::SPARCSTATION_2, sun::SUN_4_260_SLOWER, 1),
        ),
        RegistryEntry::new("modern", "one core of a server of the 2020s", modern::modern()),
        RegistryEntry::new("free", "work costs nothing: the disk alone decides", modern::free()),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_4k_us(name: &str) -> f64 {
        REGISTRY.get(name).unwrap().build().cost_ns(Work::Copy(4096)) as f64 / 1e3
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
        let free = REGISTRY.get("free").unwrap().build();
        let work =
            [Work::Op(OpKind::Create), Work::Copy(1 << 20), Work::Block, Work::Request(4096)];
        assert!(work.iter().all(|&w| free.cost_ns(w) == 0));
    }

    #[test]
    fn creating_a_small_file_takes_about_two_milliseconds_of_a_sparcstation_2() {
        let cpu = REGISTRY.get("sparcstation-2").unwrap().build();
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
