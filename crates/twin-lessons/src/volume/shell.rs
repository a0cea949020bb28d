//! The shell: lines of a few words, and the operations that they stand for.
//!
//! Contract: a line is parsed wholly before anything happens. Names are paths from the root; every component is looked
//! up by an operation of its own, as the kernel does it.

use twin_disk::Block;
use twin_fs::{FsError, LookupEntry, Op, RenameMode, Reply, SetAttr, mode};
use twin_rt::SECS;
use twin_settings::value;

use super::client::Client;
use super::load;

/// The forms of lines, and what they do.
pub(crate) const HELP: &[(&str, &str)] = &[
    (
        "write NAME SIZE [at OFFSET]",
        "writes that number of bytes; a file that is missing is made first",
    ),
    ("append NAME SIZE", "writes behind the end"),
    ("read NAME", "reads all of a file"),
    ("mkdir NAME", "makes a directory"),
    ("rm NAME", "removes a name of a file"),
    ("rmdir NAME", "removes an empty directory"),
    ("mv FROM TO", "moves a name"),
    ("ln FILE NAME", "makes another name for a file"),
    ("symlink TARGET NAME", "makes a symbolic link"),
    ("truncate NAME SIZE", "sets the length of a file"),
    ("ls [DIRECTORY]", "lists names with inode, length and links"),
    ("stat NAME", "shows what is in the inode"),
    ("df", "shows how much room there is"),
    ("fsync NAME", "makes a file durable"),
    ("sync", "makes everything durable"),
    ("wait TIME", "lets the time pass, as 5s: the flusher works meanwhile"),
    (
        "clean [SEGMENTS [PERCENT]]",
        "lets the cleaner of a log empty segments, those with at least this much garbage",
    ),
    (
        "workload OPERATIONS [SEED]",
        "random operations: files are made, written, read, moved, removed",
    ),
    ("remount KEY=VALUE,...", "closes the volume and opens it with other settings"),
];

/// A line that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    Write { path: String, at: u64, len: u64 },
    Append { path: String, len: u64 },
    Read(String),
    MakeDir(String),
    Remove(String),
    RemoveDir(String),
    Move(String, String),
    Link(String, String),
    Symlink(String, String),
    Truncate(String, u64),
    List(String),
    Stat(String),
    Room,
    Fsync(String),
    Sync,
    Wait(u64),
    Clean { segments: u64, garbage_percent: u64 },
    Load { operations: u64, seed: u64 },
}

/// The longest file that a line may write at once, in bytes.
const MOST_BYTES: u64 = 32 << 20;

pub(crate) fn parse(line: &str) -> Result<Work, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let bytes = |word: &str| {
        let bytes = value::bytes(word).map_err(|why| why.to_string())?;
        if bytes > MOST_BYTES { Err("at most 32M at once".to_string()) } else { Ok(bytes) }
    };
    let number = |word: &str| value::number(word).map_err(|why| why.to_string());
    let path = |word: &str| word.to_string();
    Ok(match words[..] {
        ["write", name, size] => Work::Write { path: path(name), at: 0, len: bytes(size)? },
        ["write", name, size, "at", at] => {
            Work::Write { path: path(name), at: bytes(at)?, len: bytes(size)? }
        }
        ["append", name, size] => Work::Append { path: path(name), len: bytes(size)? },
        ["read" | "cat", name] => Work::Read(path(name)),
        ["touch", name] => Work::Write { path: path(name), at: 0, len: 0 },
        ["mkdir", name] => Work::MakeDir(path(name)),
        ["rm", name] => Work::Remove(path(name)),
        ["rmdir", name] => Work::RemoveDir(path(name)),
        ["mv", from, to] => Work::Move(path(from), path(to)),
        ["ln", "-s", target, name] | ["symlink", target, name] => {
            Work::Symlink(path(target), path(name))
        }
        ["ln", file, name] => Work::Link(path(file), path(name)),
        ["truncate", name, size] => Work::Truncate(path(name), bytes(size)?),
        ["ls"] => Work::List("/".into()),
        ["ls", name] => Work::List(path(name)),
        ["stat", name] => Work::Stat(path(name)),
        ["df"] => Work::Room,
        ["fsync", name] => Work::Fsync(path(name)),
        ["sync"] => Work::Sync,
        ["wait", time] => {
            Work::Wait(value::nanos(time, SECS).map_err(|why| why.to_string())?.min(3600 * SECS))
        }
        ["clean"] => Work::Clean { segments: 1, garbage_percent: 0 },
        ["clean", count] => Work::Clean { segments: number(count)?, garbage_percent: 0 },
        ["clean", count, percent] => {
            let garbage_percent = number(percent.trim_end_matches('%'))?.min(100);
            Work::Clean { segments: number(count)?, garbage_percent }
        }
        ["workload", operations] => Work::Load { operations: number(operations)?, seed: 1 },
        ["workload", operations, seed] => {
            Work::Load { operations: number(operations)?, seed: number(seed)? }
        }
        [] => return Err("an empty line".into()),
        [word, ..] => {
            let like = HELP.iter().find(|(form, _)| form.split(' ').next() == Some(word));
            return Err(match like {
                Some((form, _)) => format!("{word} is used so: {form}"),
                None => format!("{word}: there is no such command; help lists them"),
            });
        }
    })
}

type Printed = Result<Vec<String>, String>;

impl Client {
    /// Executes a line and returns what it prints.
    pub(crate) async fn carry_out(&self, work: Work) -> Printed {
        self.printed(work).await.map_err(|why| why.to_string())
    }

    async fn printed(&self, work: Work) -> Result<Vec<String>, FsError> {
        let done = Ok(Vec::new());
        match work {
            Work::Write { path, at, len } => {
                let ino = self.file(&path).await?;
                self.write(ino, at, len).await?;
                Ok(vec![format!("inode {ino}: {len} bytes at {at}")])
            }
            Work::Append { path, len } => {
                let ino = self.file(&path).await?;
                let Reply::Attr(attr) = self.ask(Op::GetAttr { ino }).await? else { return done };
                self.write(ino, attr.size, len).await?;
                Ok(vec![format!("inode {ino}: {len} bytes at {}", attr.size)])
            }
            Work::Read(path) => self.read(&path).await,
            Work::Truncate(path, size) => {
                let ino = self.find(&path).await?.attr.ino;
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                self.ask(Op::SetAttr { ino, set }).await?;
                self.forget(ino).await;
                done
            }
            Work::List(path) => self.list(&path).await,
            Work::Stat(path) => {
                let entry = self.find(&path).await?;
                self.forget(entry.attr.ino).await;
                Ok(vec![described(&entry)])
            }
            Work::Room => self.room().await,
            Work::Fsync(path) => {
                let ino = self.find(&path).await?.attr.ino;
                self.ask(Op::Fsync { ino, data_only: false }).await?;
                self.forget(ino).await;
                done
            }
            Work::Sync => self.ask(Op::Sync).await.map(|_| Vec::new()),
            Work::Wait(time) => {
                self.rt.sleep(time).await;
                done
            }
            Work::Clean { segments, garbage_percent } => {
                self.clean(segments, garbage_percent as f64 / 100.0).await
            }
            Work::MakeDir(..)
            | Work::Remove(..)
            | Work::RemoveDir(..)
            | Work::Move(..)
            | Work::Link(..)
            | Work::Symlink(..) => self.changed(work).await.map(|()| Vec::new()),
            Work::Load { operations, seed } => load::run(self, operations, seed).await,
        }
    }

    /// Makes, moves or removes a name; does nothing for other lines.
    async fn changed(&self, work: Work) -> Result<(), FsError> {
        match work {
            Work::MakeDir(path) => {
                let (dir, name) = self.parent(&path).await?;
                self.made(Op::MakeDir { dir, name, mode: 0o755 }).await?;
                Ok(())
            }
            Work::Remove(path) => {
                let (dir, name) = self.parent(&path).await?;
                self.ask(Op::Unlink { dir, name }).await?;
                Ok(())
            }
            Work::RemoveDir(path) => {
                let (dir, name) = self.parent(&path).await?;
                self.ask(Op::RemoveDir { dir, name }).await?;
                Ok(())
            }
            Work::Move(from, to) => {
                let (dir, name) = self.parent(&from).await?;
                let (to_dir, to_name) = self.parent(&to).await?;
                let mode = RenameMode::Replace;
                self.ask(Op::Rename { dir, name, to_dir, to_name, mode }).await?;
                Ok(())
            }
            Work::Link(file, name) => {
                let ino = self.find(&file).await?.attr.ino;
                let (dir, name) = self.parent(&name).await?;
                let linked = self.made(Op::Link { ino, dir, name }).await;
                self.forget(ino).await;
                linked
            }
            Work::Symlink(target, name) => {
                let (dir, name) = self.parent(&name).await?;
                let target = target.into_bytes().into_boxed_slice();
                self.made(Op::Symlink { dir, name, target }).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn read(&self, path: &str) -> Result<Vec<String>, FsError> {
        let entry = self.find(path).await?;
        let (ino, size) = (entry.attr.ino, entry.attr.size);
        let (mut off, mut sum) = (0, 0_u32);
        while off < size {
            let len = (size - off).min(64 << 10) as u32;
            let Reply::Data(blocks) = self.ask(Op::Read { ino, off, len }).await? else { break };
            let read: usize = blocks.iter().map(Block::len).sum();
            sum = blocks.iter().fold(sum, |sum, block| {
                block
                    .to_bytes()
                    .iter()
                    .fold(sum, |sum, byte| sum.rotate_left(1).wrapping_add(u32::from(*byte)))
            });
            if read == 0 {
                break;
            }
            off += read as u64;
        }
        self.forget(ino).await;
        Ok(vec![format!("inode {ino}: {off} bytes, sum {sum:08x}")])
    }

    async fn list(&self, path: &str) -> Result<Vec<String>, FsError> {
        let dir = self.find(path).await?.attr.ino;
        let (mut cookie, mut lines) = (0, Vec::new());
        loop {
            let ask = Op::ReadDir { dir, cookie, max_bytes: 8192, plus: true };
            let Reply::Dir(entries) = self.ask(ask).await? else { break };
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            for one in &entries {
                let name = String::from_utf8_lossy(&one.name).into_owned();
                if let Some(entry) = &one.entry {
                    lines.push(format!("{name}: {}", described(entry)));
                    self.forget(entry.attr.ino).await;
                }
            }
        }
        self.forget(dir).await;
        Ok(lines)
    }

    async fn room(&self) -> Result<Vec<String>, FsError> {
        let Reply::Stat(stat) = self.ask(Op::StatFs).await? else { return Ok(Vec::new()) };
        let (free, inodes) = (stat.free, stat.free_inodes);
        Ok(vec![format!(
            "{free} of {} blocks of {} bytes free, {inodes} of {} inodes free",
            stat.blocks, stat.block_size, stat.inodes
        )])
    }

    async fn clean(&self, segments: u64, garbage_share: f64) -> Result<Vec<String>, FsError> {
        let layout = self.volume.layout();
        let Some(log) = layout.views().log else {
            return Err(FsError::NotSupported("only a log has a cleaner"));
        };
        let how = twin_fs::Cleaning { segments, garbage_share };
        let cleaned = log.clean(self.volume.core(), how).await?;
        Ok(vec![format!(
            "{} segments cleaned, {} bytes moved; clean segments: {} before, {} after",
            cleaned.segments, cleaned.moved_bytes, cleaned.clean_before, cleaned.clean_after
        )])
    }
}

fn described(entry: &LookupEntry) -> String {
    let attr = &entry.attr;
    let kind = match attr.kind() {
        mode::DIRECTORY => "directory",
        mode::SYMLINK => "symbolic link",
        _ => "file",
    };
    format!(
        "{kind}, inode {}, {} bytes, {} sectors of 512, {} links, mode {:o}",
        attr.ino,
        attr.size,
        attr.blocks,
        attr.nlink,
        attr.mode & 0o7777
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let write = |len, at| Ok(Work::Write { path: "a".into(), at, len });
        assert_eq!(parse("write a 20K"), write(20 << 10, 0));
        assert_eq!(parse("write a 1 at 4K"), write(1, 4096));
        assert_eq!(parse("wait 5s"), Ok(Work::Wait(5 * SECS)));
        assert_eq!(parse("workload 10"), Ok(Work::Load { operations: 10, seed: 1 }));
    }

    #[test]
    fn a_line_that_is_not_understood_is_answered_with_its_form() {
        assert!(parse("mv a").unwrap_err().contains("mv FROM TO"));
        assert!(parse("fly").unwrap_err().contains("no such command"));
        assert!(parse("write a 1T").unwrap_err().contains("32M"));
    }
}
