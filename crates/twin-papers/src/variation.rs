//! Variations of the models: the same runs with something changed, for two purposes. A choice is
//! taken back, to see what it is worth ([`crate::choices`]); a mistake is planted, to see that a
//! check finds it ([`crate::wrong`]).

use twin_trace::nfs::Pauses;

use crate::need::Need;

/// A change of the runs behind the claims.
#[derive(Clone, Copy, Debug)]
pub struct Variation {
    /// The changed run in place of a run of a claim.
    pub run: fn(&Need) -> Need,
    /// The pauses between the requests to the file servers.
    pub pauses: Pauses,
    /// The cleaner of the file servers works only when no segment is clean.
    pub cleans_on_demand: bool,
    /// It goes on while a segment is worth it, however many are clean.
    pub cleans_on: bool,
    /// The change of the server with delayed writes of 1996, under each of its policies.
    pub server: Option<OtherServer>,
    /// The change of how the file systems of the layout study grow old.
    pub ageing: Option<OtherAgeing>,
}

/// A change of how the file systems of the layout study grow old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherAgeing {
    /// They fill up, and nothing is ever deleted, written anew or added to.
    DeletesNothing,
    /// Programs write files in pieces of 1 KB, the size of the buffers of old standard input and output.
    Pieces,
    /// Articles of news are as small as any file: 1,700 bytes in the median, and no header.
    NoHeaders,
}

/// A change of the server with delayed writes of 1996.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherServer {
    /// Data stays in NVRAM until it is durable, not until the disk has reported its write.
    UntilDurable,
    /// NVRAM is as large as the server's memory.
    EndlessNvram,
    /// Data that is not in NVRAM waits for an hour, not for 30 seconds.
    NoUpdate,
    /// Its users are those of `sprite-like`, before they were fitted to the published tables.
    RememberedUsers,
}

impl Variation {
    /// No change.
    pub const NONE: Variation = Variation {
        run: Need::clone,
        pauses: Pauses::Sessions,
        cleans_on_demand: false,
        cleans_on: false,
        server: None,
        ageing: None,
    };

    /// Other runs behind the claims.
    pub const fn of_runs(run: fn(&Need) -> Need) -> Variation {
        Variation { run, ..Variation::NONE }
    }

    /// Another server of 1996.
    pub const fn of_server(server: OtherServer) -> Variation {
        Variation { server: Some(server), ..Variation::NONE }
    }

    /// Another ageing of the file systems of the layout study.
    pub const fn of_ageing(ageing: OtherAgeing) -> Variation {
        Variation { ageing: Some(ageing), ..Variation::NONE }
    }

    /// Whether it changes the studies of file servers.
    pub(crate) fn changes_servers(&self) -> bool {
        self.pauses != Pauses::Sessions || self.cleans_on_demand || self.cleans_on
    }
}

/// The layout of a configuration of the BSD machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The log.
    Lfs,
    /// The clustered file system.
    Ffs,
}

/// The layout of a configuration, if it is one of the BSD machine of 1994 and 1995.
pub(crate) fn bsd(config: &str) -> Option<Layout> {
    match config.split(':').next()? {
        "bsd-lfs" | "bsd-lfs-1994" => Some(Layout::Lfs),
        "efs" | "efs-async" | "ffs-m1r2" | "ffs-m8r2" | "ffs-m8r0" => Some(Layout::Ffs),
        _ => None,
    }
}

/// The same run with settings after those that it has. Later settings win.
pub(crate) fn with(need: &Need, settings: &str) -> Need {
    let between = if need.config.contains(':') { ',' } else { ':' };
    Need::new(format!("{}{between}{settings}", need.config), need.bench.clone())
}

/// The run with these settings if it is one of the BSD machine.
pub(crate) fn on_bsd(need: &Need, settings: &str) -> Need {
    bsd(&need.config).map_or_else(|| need.clone(), |_| with(need, settings))
}

/// The run with these settings if it is one of the BSD machine with this layout.
pub(crate) fn on(layout: Layout, need: &Need, settings: &str) -> Need {
    if bsd(&need.config) == Some(layout) { with(need, settings) } else { need.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bsd_machine_is_changed_and_the_last_setting_wins() {
        let config = |text: &str| on_bsd(&Need::new(text, "small"), "cache=4M").config;
        assert_eq!(config("efs"), "efs:cache=4M");
        assert_eq!(config("bsd-lfs:block=4K"), "bsd-lfs:block=4K,cache=4M");
        for other in ["sprite-lfs", "sun-ffs", "lfs:disk=ssd-sata"] {
            assert_eq!(config(other), other);
        }
        let twice =
            twin_lab::Config::parse("efs:cache=1M,cache=4M").map(|c| c.settings.cache_bytes);
        assert_eq!(twice.ok(), Some(4 << 20));
    }
}
