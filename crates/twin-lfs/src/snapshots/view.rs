//! Kept states as volumes that can be read.

use std::rc::Rc;

use twin_fs::SnapshotView;
use twin_fs::quota::QuotaNote;
use twin_fs::snapshots::{Keep, State, StateKind, States};
use twin_fs::{Core, Cpu, FsError, OpenedState, Result, Settings};
use twin_rt::BoxFuture;

use crate::format::{Checkpoint, RecordKind, SnapshotRecord};
use crate::lfs::Lfs;
use crate::open::around;
use crate::settings::LfsSettings;

impl SnapshotRecord {
    /// The checkpoint of this state on a log that stands as `now` says.
    pub(super) fn as_checkpoint(&self, now: &Lfs) -> Checkpoint {
        Checkpoint {
            number: 0,
            serial: self.serial,
            time: self.time,
            closed: true,
            free_head: self.free_head,
            free_inodes: self.free_inodes,
            orphans: 0,
            heads: now.position.heads(),
            picked: Vec::new(),
            ifile: self.ifile.clone(),
            snapshots: None,
            quotas: QuotaNote::None,
        }
    }
}

impl Lfs {
    /// The parts of a volume that has a kept state. See [`SnapshotView::open`].
    async fn view(&self, core: &Rc<Core>, name: &str, cache_bytes: u64) -> Result<OpenedState> {
        let record = self.snapshots.record(name)?;
        let settings = Settings { read_only: true, cache_bytes, ..core.settings.clone() };
        let device = Rc::clone(&self.snapshots.device);
        let own = crate::open::core(&core.rt, device, Cpu::none(), &self.sb, settings)?;
        self.snapshots.views.borrow_mut().push((record.id, Rc::downgrade(&own)));
        let lfs_settings = LfsSettings {
            placement: String::new(),
            background_cleaning: false,
            ..self.settings.clone()
        };
        let checkpoint = record.as_checkpoint(self);
        let lfs = around(&own, self.sb.clone(), lfs_settings, &checkpoint).await?;
        lfs.snapshots.is_view.set(true);
        Ok((own, Rc::new(lfs)))
    }
}

impl SnapshotView for Lfs {
    fn states(&self, core: &Core) -> States {
        let content = self.snapshots.content();
        let head = State {
            id: 0,
            name: content.head.clone(),
            kind: StateKind::Head,
            time: core.rt.civil(),
            live_bytes: self.usage.live_bytes(),
        };
        let mut records: Vec<&SnapshotRecord> = content.records.iter().collect();
        records.sort_by_key(|record| record.id);
        let states = records.into_iter().map(|record| State {
            id: record.id,
            name: record.name.clone(),
            kind: match record.kind {
                RecordKind::Snapshot => StateKind::Snapshot,
                RecordKind::Branch => StateKind::Branch,
            },
            time: record.time,
            live_bytes: record.live_bytes,
        });
        let states = std::iter::once(head).chain(states).collect();
        States { states, held_bytes: self.usage.held_bytes() }
    }

    fn keep<'a>(
        &'a self,
        core: &'a Rc<Core>,
        name: &'a str,
        what: Keep,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match what {
                Keep::Snapshot => self.keep_state(core, name, RecordKind::Snapshot).await,
                Keep::BranchOf(from) if self.snapshots.content().head != from => {
                    self.branch_state(core, name, &from).await
                }
                Keep::Branch | Keep::BranchOf(_) => {
                    self.keep_state(core, name, RecordKind::Branch).await
                }
            }
        })
    }

    fn open<'a>(
        &'a self,
        core: &'a Rc<Core>,
        name: &'a str,
        cache_bytes: u64,
    ) -> BoxFuture<'a, Result<OpenedState>> {
        Box::pin(self.view(core, name, cache_bytes))
    }

    fn delete<'a>(&'a self, core: &'a Rc<Core>, names: &'a [String]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if names.contains(&self.snapshots.content().head) {
                return Err(FsError::Busy);
            }
            self.delete_states(core, names).await
        })
    }
}
