//! Which record may come after which, and which paths it may name.
//!
//! Contract: whoever applies records that were found right here never leaves the directory to which he applies them, and
//! a whole state changes and removes nothing. Writers and readers ask the same rules.

use twin_fs::{NAME_MAX, mode};

use crate::record::{DATA_MAX, PATH_MAX, Record, Totals};

/// Where in a stream one is.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Whether the stream has a base; `None` before the header.
    has_base: Option<bool>,
    has_ended: bool,
    /// The file to which data belongs: its size, where data may begin, and whether it was there before.
    file: Option<(u64, u64, bool)>,
    /// Names of extended attributes that may be set now.
    xattrs: Vec<Vec<u8>>,
    totals: Totals,
}

impl Order {
    /// Takes the next record. The error says why it cannot be here.
    pub(crate) fn next(&mut self, record: &Record) -> Result<(), String> {
        if self.has_ended {
            return Err("something follows its end".into());
        }
        let has_base = match (record, self.has_base) {
            (Record::Header(header), None) => header.base.is_some(),
            (Record::Header(_), Some(_)) => return Err("it has two headers".into()),
            (_, None) => return Err("it does not begin with a header".into()),
            (_, Some(has_base)) => has_base,
        };
        if let Some(path) = record.path() {
            check_path(path, matches!(record, Record::Attributes(_)))?;
        }
        self.check(record, has_base)?;
        self.follow(record);
        self.has_base = Some(has_base);
        if !self.has_ended {
            self.totals.records += 1;
        }
        Ok(())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    fn check(&self, record: &Record, has_base: bool) -> Result<(), String> {
        match record {
            Record::Remove(_) | Record::Update { .. } if !has_base => {
                Err("a whole state changes nothing that is there".into())
            }
            Record::Link { to, .. } => check_path(to, false),
            Record::Symlink { target, .. } if target.is_empty() || target.contains(&0) => {
                Err("no symbolic link has this target".into())
            }
            Record::Node { mode, .. } => match mode & mode::TYPE {
                mode::BLOCK | mode::CHAR | mode::FIFO | mode::SOCKET => Ok(()),
                _ => Err(format!("no device has the mode {mode:o}")),
            },
            Record::Data { off, data } => {
                let len = data.len();
                if len == 0 || len > DATA_MAX {
                    return Err(format!("{len} bytes of data are none, or too many"));
                }
                self.check_range(*off, len as u64, false)
            }
            Record::Hole { off, len } => self.check_range(*off, *len, true),
            Record::Xattr { name, .. } if !self.xattrs.contains(name) => {
                Err("an extended attribute belongs to no path".into())
            }
            Record::Attributes(attributes) => {
                let is_name =
                    |name: &Vec<u8>| (1..=255).contains(&name.len()) && !name.contains(&0);
                match attributes.xattrs.iter().all(is_name) {
                    true => Ok(()),
                    false => Err("no extended attribute has such a name".into()),
                }
            }
            Record::End(totals) if *totals != self.totals => Err(format!(
                "its end counts {} records and {} bytes of data, and there were {} and {}",
                totals.records, totals.data_bytes, self.totals.records, self.totals.data_bytes
            )),
            _ => Ok(()),
        }
    }

    /// Data goes forward and stays within its file.
    fn check_range(&self, off: u64, len: u64, is_hole: bool) -> Result<(), String> {
        let Some((size, from, was_there)) = self.file else {
            return Err("data belongs to no file".into());
        };
        let end = off.checked_add(len).filter(|&end| len > 0 && off >= from && end <= size);
        match end {
            Some(_) if is_hole && !was_there => Err("a new file is a hole already".into()),
            Some(_) => Ok(()),
            None => Err(format!("{len} bytes at {off} are not within what is left of the file")),
        }
    }

    fn follow(&mut self, record: &Record) {
        match record {
            Record::File { size, .. } => self.file = Some((*size, 0, false)),
            Record::Update { size, .. } => self.file = Some((*size, 0, true)),
            Record::Data { off, data } => {
                self.totals.data_bytes += data.len() as u64;
                self.advance(off + data.len() as u64);
            }
            Record::Hole { off, len } => self.advance(off + len),
            _ => self.file = None,
        }
        match record {
            Record::Attributes(attributes) => self.xattrs.clone_from(&attributes.xattrs),
            Record::Xattr { name, .. } => self.xattrs.retain(|left| left != name),
            _ => self.xattrs.clear(),
        }
        self.has_ended = matches!(record, Record::End(_));
    }

    fn advance(&mut self, to: u64) {
        if let Some((_, from, _)) = &mut self.file {
            *from = to;
        }
    }
}

/// A path below the root, or the root itself: names with a slash between two, none of which leads up or nowhere.
fn check_path(path: &[u8], may_be_root: bool) -> Result<(), String> {
    if path.is_empty() && may_be_root {
        return Ok(());
    }
    if path.len() > PATH_MAX {
        return Err(format!("a path of {} bytes is too long", path.len()));
    }
    let is_name = |name: &[u8]| {
        (1..=NAME_MAX).contains(&name.len()) && !matches!(name, b"." | b"..") && !name.contains(&0)
    };
    match path.split(|&byte| byte == b'/').all(is_name) {
        true => Ok(()),
        false => {
            Err(format!("{:?} is no path within a directory", path.escape_ascii().to_string()))
        }
    }
}
