//! The use of quotas, as it was written when the volume was closed, beside what inodes take.

use std::collections::BTreeMap;

use twin_fs::quota::{self, Quota, QuotaId, TABLE_NAME};
use twin_fs::xattr_list::encode;
use twin_fs::{ROOT_INO, Result};

use crate::{Checker, Finding, FindingKind};

impl Checker<'_> {
    /// The table of quotas, if the root has one that can be read. A repair removes one that cannot.
    async fn quota_table(&mut self) -> Result<Option<BTreeMap<QuotaId, Quota>>> {
        let Some(mut root) = self.dinode(ROOT_INO).await? else { return Ok(None) };
        // A list that cannot be read was reported with the attributes of the root.
        let Some(mut list) = self.attributes(&root).await? else { return Ok(None) };
        let Some(table) = list.remove(TABLE_NAME) else { return Ok(None) };
        let error = match quota::decode(&table) {
            Ok((_, table)) => return Ok(Some(table)),
            Err(error) => error,
        };
        self.wrong(Finding::serious(FindingKind::Quota, error.to_string()).of(ROOT_INO));
        if !self.how.fixes {
            return Ok(None);
        }
        self.report.add_loss(ROOT_INO, "the limits of its directories are lost");
        if root.xattr_ino == 0 {
            root.xattrs = encode(&list);
        } else {
            self.report.add_loss(ROOT_INO, "its extended attributes are lost");
            // The hidden file now has no owner, so the next round frees it.
            root.xattr_ino = 0;
        }
        self.image.put_inode(&root).await?;
        Ok(None)
    }

    /// Compares what the table of quotas says is in use with the sum of all inodes. Nothing is
    /// compared if the volume was left open: the next start counts then, as it does after a repair.
    pub(crate) async fn check_quotas(&mut self) -> Result<()> {
        let Some(table) = self.quota_table().await? else { return Ok(()) };
        if !self.image.quotas_are_counted() {
            return Ok(());
        }
        for (id, quota) in table {
            let found = self.quota_use.get(&id).copied().unwrap_or_default();
            if found != quota.used {
                let what = format!(
                    "its quota counts {} bytes and {} files, there are {} and {}",
                    quota.used.bytes, quota.used.files, found.bytes, found.files
                );
                self.report.add(Finding::minor(FindingKind::Quota, what).of(quota.root));
            }
        }
        Ok(())
    }
}
