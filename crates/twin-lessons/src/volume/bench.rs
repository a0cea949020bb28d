//! A volume for code instead of people: what exercises work on.

use serde_json::Value;
use twin_fs::Volume;
use twin_rt::{Rt, Time};
use twin_sim::Platter;

use super::dumped::dump;
use super::machine::Machine;
use super::setup::Setup;
use super::{check, shell};

/// An open volume with its setup.
pub(crate) struct Bench {
    setup: Setup,
    machine: Machine,
}

impl Bench {
    /// A new volume.
    pub(crate) fn make(settings: &str) -> Result<Bench, String> {
        let setup = Setup::parse(settings)?;
        let platter = setup.mkfs()?;
        Bench::open(settings, platter)
    }

    /// What is on a platter, opened.
    pub(crate) fn open(settings: &str, platter: Platter) -> Result<Bench, String> {
        let setup = Setup::parse(settings)?;
        let machine = Machine::start(&setup, platter, Time(0))?;
        Ok(Bench { setup, machine })
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.machine.volume
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.machine.rt
    }

    /// Executes a line of the shell: what it prints, or why the file system refuses it.
    pub(crate) fn line(&self, line: &str) -> Result<Result<Vec<String>, String>, String> {
        let outcome = self.machine.spawn(shell::parse(line)?);
        loop {
            self.machine.rt.run_ready();
            if let Some(result) = outcome.take() {
                return Ok(result);
            }
            if !self.machine.rt.turn() {
                return Err(format!("{line}: it does not end"));
            }
        }
    }

    /// What is on the medium now.
    pub(crate) fn platter(&self) -> Platter {
        self.machine.disk.platter()
    }

    /// What is on the medium for certain if the power fails now.
    pub(crate) fn durable(&self) -> Result<Platter, String> {
        let state = self.machine.disk.crash_state().ok_or("the disk keeps no writes apart")?;
        Ok(state.durable().clone())
    }

    /// A dump of what is on the medium.
    pub(crate) fn dump(
        &self,
        structure: &'static str,
        number: Option<u64>,
    ) -> Result<Vec<Value>, String> {
        Ok(dump(self.setup.layout, &self.platter(), structure, number, false)?.0)
    }

    /// Closes the volume and returns the medium.
    pub(crate) fn closed(&self) -> Result<Platter, String> {
        let closing = self.machine.rt.block_on(self.machine.volume.close());
        closing.map_err(|_| "closing does not end".to_string())?.map_err(|why| why.to_string())?;
        Ok(self.platter())
    }

    /// What opening the volume recovered.
    pub(crate) fn recovery(&self) -> Option<&str> {
        self.machine.recovery.as_deref()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Tasks hold the volume, and the volume its tasks.
        self.machine.rt.crash();
    }
}

/// What a check of a platter finds; empty if nothing.
pub(crate) fn findings(settings: &str, platter: &Platter) -> Result<Vec<String>, String> {
    let setup = Setup::parse(settings)?;
    let report = check::checked(setup.layout, platter)?;
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    Ok(findings.into_iter().filter_map(|one| one.as_str().map(String::from)).collect())
}
