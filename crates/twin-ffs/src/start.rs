//! Opening a volume as a mount does: one that was not closed, and has no journal, is repaired first.

use std::rc::Rc;

use twin_disk::{BlockDevice, Overlay};
use twin_fs::{Cpu, Result, Settings, Volume};
use twin_rt::{BoxFuture, Category, Rt};

use crate::check;
use crate::ffs::Ffs;
use crate::open::{Found, Recovered};
use crate::settings::FfsSettings;

impl Ffs {
    /// Opens the volume on a device. If it was not closed, a journal is replayed; without one the
    /// volume is repaired first, as `check` does. A volume that is opened read-only has that done in
    /// memory.
    ///
    /// # Errors
    /// If there is no volume, or it is damaged (the error names the place).
    pub fn open(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
        ffs_settings: FfsSettings,
    ) -> BoxFuture<'_, Result<(Rc<Volume<Ffs>>, Recovered)>> {
        Box::pin(Ffs::start(rt, device, cpu, settings, ffs_settings))
    }

    async fn start(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
        ffs_settings: FfsSettings,
    ) -> Result<(Rc<Volume<Ffs>>, Recovered)> {
        let found = Found::on(&*device).await?;
        let (sb, was_open) = (&found.sb, !found.state.closed);
        if !settings.read_only || was_open {
            sb.check_writable()?;
        }
        // A volume that is opened read-only is recovered in memory, and the device is left alone.
        let device: Rc<dyn BlockDevice> = match was_open && settings.read_only {
            true => Rc::new(Overlay::new(rt, device)),
            false => device,
        };
        let repair = match was_open && sb.journal_bytes == 0 {
            true => Some(check::repair_unattended(rt, Rc::clone(&device)).await?),
            false => None,
        };
        let opening = Ffs::open_sound(rt, device, cpu, settings, ffs_settings, found);
        let (volume, mut recovered) = opening.await?;
        if let Some(report) = repair {
            recovered.repaired = report.findings.len() as u64 + report.more_findings;
            recovered.rescued = report.rescued;
            rt.log(Category::Recovery, "repaired", || {
                [("findings", recovered.repaired), ("rescued", recovered.rescued)]
            });
        }
        Ok((volume, recovered))
    }
}
