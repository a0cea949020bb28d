//! The figures of a volume, as somebody in a directory sees them.

use twin_fs::{FileSystem, Ino, Op, Reply, Request, Result};

/// Executes a request for the figures of the volume, as they are seen from `ino`: no more than the quota
/// leaves for which that counts.
pub(super) async fn stat_seen_from<F: FileSystem>(
    fs: &F,
    ino: Ino,
    request: Request,
) -> Result<Reply> {
    // The quota of an inode is known only while the inode is in memory.
    let op = Op::GetAttr { ino };
    let look = Request { client: Request::NO_CLIENT, op, ..request.clone() };
    let _ = fs.execute(look).await;
    let reply = fs.execute(request).await?;
    Ok(match (reply, fs.quota_of(ino)) {
        (Reply::Stat(stat), Some(quota)) => Reply::Stat(quota.narrow(stat)),
        (reply, _) => reply,
    })
}
