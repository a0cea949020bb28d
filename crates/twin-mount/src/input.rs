//! What the files that commands read are, and which command takes them.
//!
//! Contract: a file that is not what a command wants is refused before any work, with its kind, the command
//! that takes it and how to make what is wanted. Nothing is read from terminals and devices, which may have
//! no end. Pipes cannot be looked at without taking from them: their readers judge for themselves.

use std::fs::File;
use std::io::{BufRead, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use twin_gather::{capture, nfsdump};
use twin_trace::{Kind, block, readers};

use crate::content::{self, Content};

/// What a command wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A trace of operations.
    Operations,
    /// A flight log.
    Flight,
    /// A block trace.
    Blocks,
    /// A trace of any kind that has reads and writes.
    Accesses,
    /// A machine file.
    Machine,
    /// A status file of a mount.
    Status,
    /// Results of benchmarks.
    Results,
    /// A packet capture.
    Capture,
    /// A trace in a format that is named on the command line: only what has no end or no byte, or is of
    /// our own, is refused.
    Foreign,
}

/// A trace whose accesses can be studied: how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessed {
    /// A recording of twinfs.
    Operations,
    /// Operations in a foreign format.
    Foreign(&'static str),
    /// Requests to blocks or objects.
    Blocks(&'static str),
}

/// How the accesses of a trace are read: in the format that is named, or that its content shows.
///
/// # Errors
/// Says what the file is if it is no trace, and the nearest name if there is no such format.
pub fn accesses_of(path: &Path, format: Option<&str>) -> Result<Accessed, String> {
    if let Some(name) = format {
        let accessed = match (block::REGISTRY.get(name), readers::REGISTRY.get(name)) {
            (Ok(entry), _) => Accessed::Blocks(entry.name),
            (_, Ok(entry)) => Accessed::Foreign(entry.name),
            _ => {
                let known = block::REGISTRY.names().chain(readers::REGISTRY.names());
                let error = twin_settings::SettingsError::unknown("trace format", name, known);
                return Err(error.to_string());
            }
        };
        must_be(path, Wanted::Foreign)?;
        return Ok(accessed);
    }
    match found(path).map_err(|error| format!("{}: {error}", path.display()))? {
        Found::Operations => Ok(Accessed::Operations),
        Found::Foreign(name) => Ok(Accessed::Foreign(name)),
        Found::Blocks(name) => Ok(Accessed::Blocks(name)),
        _ => {
            must_be(path, Wanted::Accesses)?;
            Err(format!("{}: a pipe cannot be looked at: name its --trace-format", path.display()))
        }
    }
}

/// The reader of a trace of operations, as its content shows: `None` for our own format. Block traces are
/// read as operations on files.
///
/// # Errors
/// Says what the file is if it is no trace.
pub fn operations_of(path: &Path) -> Result<Option<&'static str>, String> {
    match found(path).map_err(|error| format!("{}: {error}", path.display()))? {
        Found::Foreign(name) => Ok(Some(name)),
        Found::Blocks(_) => Ok(Some(readers::of_blocks())),
        _ => must_be(path, Wanted::Operations).map(|()| None),
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Directory,
    /// A device or socket, with its article.
    Special(&'static str),
    Pipe,
    Operations,
    Flight,
    /// A block trace, with the name of its format.
    Blocks(&'static str),
    /// Operations in another program's format, with its name.
    Foreign(&'static str),
    /// Calls and replies of NFS, as nfsdump writes them down.
    NfsText,
    Machine,
    Status,
    Results,
    Other(Content),
}

/// The longest text that is looked at for what it is, in bytes.
const LONGEST_TEXT: u64 = 16 << 20;

impl Wanted {
    /// With its article.
    fn noun(self) -> &'static str {
        match self {
            Wanted::Operations => "a trace of operations",
            Wanted::Flight => "a flight log",
            Wanted::Blocks => "a block trace of a format that is known",
            Wanted::Accesses => "a trace of a format that is known",
            Wanted::Machine => "a machine file",
            Wanted::Status => "a status file of a mount",
            Wanted::Results => "results of `twinfs bench --format json`",
            Wanted::Capture => "a packet capture or text of nfsdump",
            Wanted::Foreign => "a trace of another program's format",
        }
    }

    /// How to get one.
    fn maker(self) -> String {
        match self {
            Wanted::Operations => "`twinfs record` and `twinfs mount --record` make one".into(),
            Wanted::Flight => "`twinfs mount --flight` makes one".into(),
            Wanted::Blocks => {
                let known = block::REGISTRY.names().collect::<Vec<_>>().join(", ");
                format!(
                    "Known formats are {known}; --trace-format names one that is not recognized"
                )
            }
            Wanted::Accesses => {
                "`twinfs cache --list` shows the formats; --trace-format names one that is not \
                 recognized"
                    .into()
            }
            Wanted::Machine => "`twinfs calibrate` makes one".into(),
            Wanted::Status => "`twinfs mount --status` writes one".into(),
            Wanted::Results => "They are an object with the rows of bench".into(),
            Wanted::Capture => "`tcpdump -s 0 -w FILE port 2049` makes one".into(),
            Wanted::Foreign => "`twinfs compare --list` shows the formats".into(),
        }
    }

    fn is(self, found: Found) -> bool {
        match (self, found) {
            (_, Found::Pipe)
            | (Wanted::Operations, Found::Operations)
            | (Wanted::Flight, Found::Flight)
            | (Wanted::Blocks, Found::Blocks(_))
            | (Wanted::Machine, Found::Machine)
            | (Wanted::Status, Found::Status)
            | (Wanted::Results, Found::Results)
            | (Wanted::Capture, Found::NfsText)
            | (Wanted::Capture, Found::Other(Content::Known(content::CAPTURE))) => true,
            (Wanted::Foreign, found) => !matches!(
                found,
                Found::Directory
                    | Found::Special(_)
                    | Found::Operations
                    | Found::Flight
                    | Found::Other(Content::Empty | Content::Volume(_) | Content::Journaled(..))
            ),
            _ => false,
        }
    }
}

impl Found {
    /// With its article.
    fn noun(self) -> String {
        match self {
            Found::Directory => "a directory".into(),
            Found::Special(what) => what.into(),
            Found::Pipe => "a pipe".into(),
            Found::Operations => Wanted::Operations.noun().into(),
            Found::Flight => Wanted::Flight.noun().into(),
            Found::Blocks(format) => format!("a block trace of the format {format}"),
            Found::Foreign(format) => format!("a trace of the format {format}"),
            Found::NfsText => "the text of nfsdump".into(),
            Found::Machine => Wanted::Machine.noun().into(),
            Found::Status => Wanted::Status.noun().into(),
            Found::Results => "JSON, as `twinfs bench --format json` prints it".into(),
            Found::Other(Content::Empty) => "an empty file".into(),
            Found::Other(Content::Blank) => "a file of zeros".into(),
            Found::Other(content) => content.to_string(),
        }
    }

    /// The command that takes it.
    fn taken_by(self, name: &str) -> Option<String> {
        Some(match self {
            Found::Operations => {
                format!("`twinfs compare -t {name}` and `twinfs replay {name}` take it")
            }
            Found::Flight => format!("`twinfs replay --verify {name}` takes it"),
            Found::Blocks(_) => format!(
                "`twinfs volume -t {name}` and `twinfs cache {name}` take it, and `twinfs compare \
                 -t {name}` as operations on files"
            ),
            Found::Foreign(format) => {
                format!("`twinfs compare -t {name}` and `twinfs cache {name}` take it, as {format}")
            }
            Found::Machine => format!("`twinfs compare --machine {name}` takes it"),
            Found::Status => format!("`twinfs top --mount {name}` takes it"),
            Found::Results => {
                format!("`twinfs reproduce --html PAGE --measured {name}` takes those of bench")
            }
            Found::Other(Content::Volume(_)) => {
                format!("`twinfs stat {name}` shows it and `twinfs mount {name} DIR` mounts it")
            }
            Found::Other(Content::Journaled(..)) => {
                format!("`twinfs mount --journal-file JOURNAL {name} DIR` mounts it")
            }
            Found::NfsText | Found::Other(Content::Known(content::CAPTURE)) => {
                format!("`twinfs gather {name} -o TRACE` makes a trace of it")
            }
            _ => return None,
        })
    }
}

/// That a file is what a command wants, as far as can be seen without its reader.
///
/// # Errors
/// Says what it is and which command takes it.
pub fn must_be(path: &Path, wanted: Wanted) -> Result<(), String> {
    let found = found(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if wanted.is(found) {
        return Ok(());
    }
    let name = path.display().to_string();
    let mut why = format!("{name} is {}, not {}", found.noun(), wanted.noun());
    if let Some(command) = found.taken_by(&name) {
        why += &format!("; {command}");
    }
    Err(format!("{why}. {}", wanted.maker()))
}

/// What is told of a file that holds no volume: which command takes it, if one does.
pub fn taken_by(path: &Path) -> Option<String> {
    match found(path).ok()? {
        Found::Other(_) => None,
        found => found.taken_by(&path.display().to_string()),
    }
}

fn found(path: &Path) -> std::io::Result<Found> {
    let kind = std::fs::metadata(path)?.file_type();
    let special = [
        (kind.is_char_device(), "a character device"),
        (kind.is_block_device(), "a block device"),
        (kind.is_socket(), "a socket"),
    ];
    if let Some((_, what)) = special.into_iter().find(|(is, _)| *is) {
        return Ok(Found::Special(what));
    }
    if kind.is_dir() {
        return Ok(Found::Directory);
    }
    if kind.is_fifo() {
        return Ok(Found::Pipe);
    }
    let mut start = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut start)?;
    match Kind::of(&start) {
        Some(Kind::Operations) => return Ok(Found::Operations),
        Some(Kind::Flight) => return Ok(Found::Flight),
        None => {}
    }
    let content = content::of(path).unwrap_or(Content::Unknown(0));
    // What is a block trace by its beginning only: volumes and pictures are none, whatever they begin with.
    let may_be_blocks = match content {
        Content::Text | Content::Unknown(_) => true,
        Content::Known(name) => COMPRESSED.contains(&name),
        _ => false,
    };
    if may_be_blocks && begins(path, nfsdump::looks_like) {
        return Ok(Found::NfsText);
    }
    if may_be_blocks && begins(path, capture::looks_like) {
        return Ok(Found::Other(Content::Known(content::CAPTURE)));
    }
    if may_be_blocks && let Ok((format, _)) = block::open_any(File::open(path)?) {
        return Ok(Found::Blocks(format.name));
    }
    if may_be_blocks && let Some(name) = readers::looks_like(File::open(path)?)? {
        return Ok(Found::Foreign(name));
    }
    Ok(match content {
        Content::Text => of_text(path).unwrap_or(Found::Other(Content::Text)),
        other => Found::Other(other),
    })
}

/// What files are called that are expanded before they are read.
const COMPRESSED: [&str; 4] = ["a gzip file", "a bzip2 file", "a zstd file", "an xz file"];

/// True for a file with such a beginning, compressed or not.
fn begins(path: &Path, looks_like: fn(&[u8]) -> bool) -> bool {
    let input = File::open(path).and_then(readers::expanded);
    input.and_then(|mut input| input.fill_buf().map(looks_like)).unwrap_or(false)
}

/// What a text of ours is.
fn of_text(path: &Path) -> Option<Found> {
    let text = String::from_utf8(twin_host::bytes_of_file(path, LONGEST_TEXT).ok()?).ok()?;
    if serde_json::from_str::<twin_lab::Status>(&text).is_ok() {
        return Some(Found::Status);
    }
    let is_answer = |value: serde_json::Value| value.is_array() || value.get("rows").is_some();
    if serde_json::from_str(&text).is_ok_and(is_answer) {
        return Some(Found::Results);
    }
    // A machine file with a mistake is one: its reader says where.
    let is_format = |line: &str| line.split('=').next().is_some_and(|key| key.trim() == "format");
    text.lines().any(is_format).then_some(Found::Machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Wanted; 6] = [
        Wanted::Operations,
        Wanted::Flight,
        Wanted::Blocks,
        Wanted::Machine,
        Wanted::Status,
        Wanted::Results,
    ];

    fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("twinfs-input-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn refused(path: &Path) -> Vec<String> {
        ALL.iter().filter_map(|wanted| must_be(path, *wanted).err()).collect()
    }

    #[test]
    fn what_no_command_takes_is_named_to_all_of_them() {
        let picture = [b"\x89PNG\r\n\x1a\n", &[7u8; 4096][..]].concat();
        let files: [(&str, &[u8], &str); 5] = [
            ("empty", b"", "an empty file"),
            ("picture", &picture, "a PNG picture"),
            ("text", b"Dear reader, this is a letter.\n", "a text file"),
            ("gzip", b"\x1f\x8b\x08\x00 and no more", "a gzip file"),
            ("xz", b"\xfd7zXZ\0 and no more", "an xz file"),
        ];
        for (name, bytes, noun) in files {
            let path = file(name, bytes);
            let whys = refused(&path);
            assert_eq!(whys.len(), ALL.len(), "{name}");
            assert!(whys.iter().all(|why| why.contains(noun)), "{whys:?}");
            std::fs::remove_file(path).unwrap();
        }
        assert!(refused(Path::new("/dev/null"))[0].contains("a character device"));
        assert!(refused(&std::env::temp_dir())[0].contains("is a directory"));
        assert!(refused(Path::new("/nowhere/at/all"))[0].contains("No such file"));
    }

    #[test]
    fn what_one_command_takes_is_refused_by_the_others_with_its_name() {
        let header = |kind: u8| [b"\x89TWT\r\n\x1a\n", &[1, 0, kind, 0][..], &[0; 40]].concat();
        let blocks: String = (0..100).map(|i| format!("0,W,{},4096,{i}\n", i * 4096)).collect();
        let files: [(&str, Vec<u8>, &str); 5] = [
            ("operations", header(1), "twinfs compare -t"),
            ("flight", header(2), "twinfs replay --verify"),
            ("blocks", blocks.into(), "twinfs volume -t"),
            ("machine", b"# a comment\nformat = 1\n".into(), "twinfs compare --machine"),
            ("results", b"[{\"bench\": 1}]".into(), "--measured"),
        ];
        for (name, bytes, command) in files {
            let path = file(name, &bytes);
            let whys = refused(&path);
            assert_eq!(whys.len(), ALL.len() - 1, "{name}: {whys:?}");
            assert!(whys.iter().all(|why| why.contains(command)), "{whys:?}");
            std::fs::remove_file(path).unwrap();
        }
    }
}
