//! The machine of a session: runtime, disk, open volume, and what the disk has served.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::{BlockDevice, Recorded};
use twin_fs::{Cpu, Volume};
use twin_rt::{ClockOnly, Rt, Time};
use twin_sim::faults::WriteLog;
use twin_sim::{Platter, Served, SimDisk};

use super::client::Client;
use super::regions::Regions;
use super::setup::Setup;
use super::shell::Work;

/// The most requests in one answer; the last ones count.
pub(crate) const MOST_REQUESTS: usize = 400;

/// What a line printed, once it has ended.
pub(crate) type Outcome = Rc<RefCell<Option<Result<Vec<String>, String>>>>;

pub(crate) struct Machine {
    pub(crate) rt: Rt,
    pub(crate) disk: SimDisk,
    pub(crate) volume: Volume,
    /// Every write since the volume was opened; `None` if the setup keeps none.
    pub(crate) log: Option<WriteLog>,
    /// The requests that the disk has begun with, in that order.
    pub(crate) served: Rc<RefCell<Vec<Served>>>,
    /// What lies where on the device.
    pub(crate) regions: Regions,
    /// What opening the volume repaired or repeated.
    pub(crate) recovery: Option<String>,
    /// Lines that have ended, as the marks of the log count them.
    lines: Rc<RefCell<u64>>,
    client: Client,
}

impl Machine {
    /// Opens what is on a platter.
    pub(crate) fn start(setup: &Setup, platter: Platter, at: Time) -> Result<Machine, String> {
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
        let most = if setup.record { usize::MAX } else { MOST_REQUESTS };
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
        let client = Client::new(&rt, &volume);
        let lines = Rc::new(RefCell::new(0));
        Ok(Machine {
            rt,
            disk,
            volume,
            log,
            served,
            regions,
            recovery: opened.recovery,
            lines,
            client,
        })
    }

    /// Starts a line as a task.
    pub(crate) fn spawn(&self, work: Work) -> Outcome {
        let outcome: Outcome = Rc::default();
        let (printed, client, log) = (Rc::clone(&outcome), self.client.clone(), self.log.clone());
        let lines = Rc::clone(&self.lines);
        self.rt.spawn("line", async move {
            let result = client.carry_out(work).await;
            *lines.borrow_mut() += 1;
            if let Some(log) = log {
                log.mark(*lines.borrow());
            }
            *printed.borrow_mut() = Some(result);
        });
        outcome
    }
}
