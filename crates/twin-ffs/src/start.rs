//! Opens a volume for a mount. A volume that was not closed and has no journal is repaired first.

use std::rc::Rc;

use twin_disk::{BlockDevice, Overlay};
use twin_fs::{Cpu, Result, Settings, VolumeOf};
use twin_rt::{BoxFuture, Category, Rt};

use crate::check;
use crate::ffs::Ffs;
use crate::open::{FoundVolume, Recovered};
use crate::settings::FfsSettings;
use crate::sums::{Summed, Use};

impl Ffs {
    /// Opens the volume on a device. If it was not closed, its journal is replayed; without a
    /// journal it is repaired first, as by `check`. If it is opened read-only, this is done only in
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
    ) -> BoxFuture<'_, Result<(VolumeOf<Ffs>, Recovered)>> {
        Box::pin(Ffs::start(rt, device, cpu, settings, ffs_settings))
    }

    async fn start(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
        ffs_settings: FfsSettings,
    ) -> Result<(VolumeOf<Ffs>, Recovered)> {
        let mut found = FoundVolume::on(&*device).await?;
        let (sb, was_open) = (&found.sb, !found.state.closed);
        if !settings.read_only || was_open {
            sb.check_writable()?;
        }
        let mut device = device;
        if sb.data_checksums {
            let how = if settings.read_only { Use::Read } else { Use::Work };
            let summed = Summed::open(rt, device, sb, how).await?;
            found.sums = Some(Rc::clone(&summed));
            device = summed;
        }
        let sb = &found.sb;
        // Recovery of a read-only volume writes to memory only and leaves the device unchanged.
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
