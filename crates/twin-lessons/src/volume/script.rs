//! Lines of the shell as a script for a directory: the same operations on a mount.

use twin_rt::{MILLIS, SECS};

use super::shell::{Work, parse};

/// A script of sh that does what these lines do, in the directory where it is started. Contents are zeros. What only a
/// session can do is a comment.
///
/// # Errors
/// If a line is not understood.
pub fn script(lines: &[String]) -> Result<String, String> {
    let mut text = String::from("#!/bin/sh\nset -e\n");
    for line in lines {
        let command = match line.trim().strip_prefix("remount") {
            Some(_) => format!("# not on a mount: {line}"),
            None => command(parse(line)?).unwrap_or_else(|| format!("# not on a mount: {line}")),
        };
        text += &command;
        text.push('\n');
    }
    Ok(text)
}

/// A path from the root as a word of sh, below the directory.
fn word(path: &str) -> String {
    let path = format!("./{}", path.trim_start_matches('/'));
    format!("'{}'", path.replace('\'', "'\\''"))
}

fn command(work: Work) -> Option<String> {
    Some(match work {
        Work::Write { path, at, len } => format!(
            "head -c {len} /dev/zero | dd of={} bs=65536 iflag=fullblock oflag=seek_bytes seek={at} conv=notrunc status=none",
            word(&path)
        ),
        Work::Append { path, len } => format!("head -c {len} /dev/zero >> {}", word(&path)),
        Work::Read(path) => format!("cat {} > /dev/null", word(&path)),
        Work::MakeDir(path) => format!("mkdir {}", word(&path)),
        Work::Remove(path) => format!("rm {}", word(&path)),
        Work::RemoveDir(path) => format!("rmdir {}", word(&path)),
        Work::Move(from, to) => format!("mv -T {} {}", word(&from), word(&to)),
        Work::Link(file, name) => format!("ln {} {}", word(&file), word(&name)),
        Work::Symlink(target, name) => {
            format!("ln -s '{}' {}", target.replace('\'', "'\\''"), word(&name))
        }
        Work::Truncate(path, size) => format!("truncate -s {size} {}", word(&path)),
        Work::List(path) => format!("ls -li {}", word(&path)),
        Work::Stat(path) => format!("stat {}", word(&path)),
        Work::Room => "df .".into(),
        Work::Fsync(path) => format!("sync {}", word(&path)),
        Work::Sync => "sync -f .".into(),
        Work::Wait(ns) => format!("sleep {}.{:03}", ns / SECS, ns % SECS / MILLIS),
        Work::Clean { .. } | Work::Load { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::script;

    #[test]
    fn lines_become_commands_that_keep_to_their_directory() {
        let lines = ["mkdir d", "write /d/a 20K at 4K", "mv d/a b'c", "wait 1500ms", "clean 2"];
        let text = script(&lines.map(String::from)).unwrap();
        let commands: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(commands[0], "mkdir './d'");
        assert!(commands[1].starts_with("head -c 20480") && commands[1].contains("seek=4096"));
        assert_eq!(commands[2], "mv -T './d/a' './b'\\''c'");
        assert_eq!(commands[3..], ["sleep 1.500", "# not on a mount: clean 2"]);
        assert!(script(&["fly".into()]).is_err());
    }
}
