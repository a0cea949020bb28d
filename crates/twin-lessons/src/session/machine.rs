//! The machine of a session: runtime, disk, open volume, and what the disk has served.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::{BlockDevice, Recorded};
use twin_fs::{Cpu, Volume};
use twin_rt::{ClockOnly, Rt, Time};
use twin_sim::faults::WriteLog;
use twin_sim::{Platter, Served, SimDisk};

use super::regions::Regions;
use super::setup::Setup;
use super::shell::{Shell, Work};

/// What a line printed, once it has ended.
pub(super) type Outcome = Rc<RefCell<Option<Result<Vec<String>, String>>>>;

pub(super) struct Machine {
    pub(super) rt: Rt,
    pub(super) disk: SimDisk,
    pub(super) volume: Volume,
    /// Every write since the volume was opened; `None` if the setup keeps none.
    pub(super) log: Option<WriteLog>,
    /// The requests that the disk has begun with, in that order.
    pub(super) served: Rc<RefCell<Vec<Served>>>,
    /// What lies where on the device.
    pub(super) regions: Regions,
    /// What opening the volume repaired or repeated.
    pub(super) recovery: Option<String>,
    /// Lines that have ended, as the marks of the log count them.
    lines: Rc<RefCell<u64>>,
    shell: Shell,
}

impl Machine {
    /// Opens what is on a platter.
    pub(super) fn start(setup: &Setup, platter: Platter, at: Time) -> Result<Machine, String> {
        let regions = Regions::of(setup, &platter)?;
        let rt = Rt::new(ClockOnly { start: at }, 1);
        let log = setup.record.then(WriteLog::new);
        let builder = setup.disk(&rt, platter)?;
        let disk = match &log {
            Some(log) => builder.log(log).crashable().start(),
            None => builder.start(),
        };
        let served = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&served);
        let most = if setup.record { usize::MAX } else { super::look::MOST_REQUESTS };
        disk.observe(Rc::new(move |one: &Served| {
            let mut seen = seen.borrow_mut();
            if seen.len() < most {
                seen.push(*one);
            }
        }));
        let device: Rc<dyn BlockDevice> = Rc::new(Recorded::new(rt.clone(), disk.clone()));
        let opening = setup.config.open(&rt, device, Cpu::none(), setup.settings.clone());
        let opened = rt.block_on(opening).map_err(|_| "the volume does not open".to_string())?;
        let opened = opened.map_err(|why| format!("the volume does not open: {why}"))?;
        let volume = opened.volume;
        let shell = Shell::new(&rt, &volume);
        let lines = Rc::new(RefCell::new(0));
        Ok(Machine { rt, disk, volume, log, served, regions, recovery: opened.recovery, lines, shell })
    }

    /// Starts a line as a task.
    pub(super) fn spawn(&self, work: Work) -> Outcome {
        let outcome: Outcome = Rc::default();
        let (told, shell, log) = (Rc::clone(&outcome), self.shell.clone(), self.log.clone());
        let lines = Rc::clone(&self.lines);
        self.rt.spawn("line", async move {
            let result = shell.carry_out(work).await;
            *lines.borrow_mut() += 1;
            if let Some(log) = log {
                log.mark(*lines.borrow());
            }
            *told.borrow_mut() = Some(result);
        });
        outcome
    }
}
