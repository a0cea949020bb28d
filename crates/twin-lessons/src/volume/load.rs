//! A workload of a session: random operations on a few directories, the same for the same seed everywhere.

use twin_fs::{FsError, Name, Op, ROOT_INO, RenameMode, Reply, SetAttr, mode};
use twin_rt::Rng;

use super::client::Client;

/// Directories that the operations use.
const DIRS: u64 = 6;
/// Names in each of them.
const NAMES: u64 = 40;
/// Largest piece that is written, in blocks of 1 KiB.
const MOST_KIB: u64 = 24;

/// Carries out this number of operations. An operation that finds no room or no file counts as well, as it does for users.
pub(super) async fn run(
    client: &Client,
    operations: u64,
    seed: u64,
) -> Result<Vec<String>, FsError> {
    let mut rng = Rng::stream(seed, "lesson workload");
    let (mut refused, mut full) = (0, 0);
    for _ in 0..operations {
        match one(client, &mut rng).await {
            Ok(()) => {}
            Err(FsError::NoSpace | FsError::NoInodes) => full += 1,
            Err(FsError::NotFound | FsError::Exists | FsError::NotEmpty) => refused += 1,
            Err(why) => return Err(why),
        }
        // A moment between operations, so that whoever waits for the end can look at the middle.
        client.rt.sleep(1000).await;
    }
    let done = operations - refused - full;
    Ok(vec![format!(
        "{operations} operations: {done} done, {refused} found nothing to do, {full} found no room"
    )])
}

fn name(rng: &mut Rng) -> Name {
    Name::from(format!("f{}", rng.below(NAMES)).as_bytes())
}

async fn one(client: &Client, rng: &mut Rng) -> Result<(), FsError> {
    let dir_name = Name::from(format!("d{}", rng.below(DIRS)).as_bytes());
    let (what, name, other) = (rng.below(100), name(rng), name(rng));
    let kib = rng.range(1, MOST_KIB);
    let found = client.ask(Op::Lookup { dir: ROOT_INO, name: dir_name.clone() }).await;
    let dir = match found {
        Ok(Reply::Entry(entry)) => entry.attr.ino,
        Err(FsError::NotFound) => {
            let made =
                client.ask(Op::MakeDir { dir: ROOT_INO, name: dir_name, mode: 0o755 }).await?;
            let Reply::Entry(entry) = made else { return Ok(()) };
            entry.attr.ino
        }
        Err(why) => return Err(why),
        Ok(_) => return Ok(()),
    };
    let result = within(client, dir, what, name, other, kib).await;
    client.forget(dir).await;
    result
}

async fn within(
    client: &Client,
    dir: u64,
    what: u64,
    name: Name,
    other: Name,
    kib: u64,
) -> Result<(), FsError> {
    if what < 45 {
        let create = Op::Create { dir, name, mode: mode::REGULAR | 0o644, exclusive: false };
        let Reply::Entry(entry) = client.ask(create).await? else { return Ok(()) };
        let ino = entry.attr.ino;
        let written = client.write(ino, 0, kib << 10).await;
        client.ask(Op::Release { ino }).await?;
        client.forget(ino).await;
        return written;
    }
    if what < 65 {
        client.ask(Op::Unlink { dir, name }).await?;
        return Ok(());
    }
    if what < 72 {
        let mode = RenameMode::Replace;
        client.ask(Op::Rename { dir, name, to_dir: dir, to_name: other, mode }).await?;
        return Ok(());
    }
    if what < 74 {
        client.ask(Op::Sync).await?;
        return Ok(());
    }
    let Reply::Entry(entry) = client.ask(Op::Lookup { dir, name }).await? else { return Ok(()) };
    let ino = entry.attr.ino;
    let done = if what < 90 {
        client.ask(Op::Read { ino, off: 0, len: 64 << 10 }).await
    } else {
        let set = SetAttr { size: Some(kib << 9), ..SetAttr::default() };
        client.ask(Op::SetAttr { ino, set }).await
    };
    client.forget(ino).await;
    done.map(|_| ())
}
