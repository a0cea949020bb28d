//! Files that a user names and that are read whole: settings, descriptions, results.
//!
//! Contract: what is read is bounded whatever the name leads to. A device or a pipe has no length to look at before, so
//! the bytes are counted while they are read. Errors name the file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most bytes of a file of settings or results.
const MOST_BYTES: u64 = 64 << 20;

/// The text of a file of at most 64 MiB.
///
/// # Errors
/// If it cannot be read, is longer, or is not UTF-8.
pub fn text_of_file(path: &Path) -> Result<String, String> {
    let not_text = |_| format!("{}: this is no text (not UTF-8)", path.display());
    String::from_utf8(bytes_of_file(path, MOST_BYTES)?).map_err(not_text)
}

/// The bytes of a file of at most `most` bytes.
///
/// # Errors
/// If it cannot be read, or is longer.
pub fn bytes_of_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let in_file = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(in_file)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(in_file)?;
    match bytes.len() as u64 > most {
        true => {
            Err(format!("{}: longer than the {most} bytes that are read of it", path.display()))
        }
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_an_error_and_not_all_memory() {
        let error = bytes_of_file(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error, "/dev/zero: longer than the 1048576 bytes that are read of it");
        assert!(text_of_file(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn a_file_of_just_the_length_is_read() {
        let path = std::env::temp_dir().join(format!("twinfs-whole-{}", std::process::id()));
        std::fs::write(&path, "four").unwrap();
        let read = [bytes_of_file(&path, 4), bytes_of_file(&path, 3)].map(|read| read.is_ok());
        let text = text_of_file(&path);
        std::fs::write(&path, b"\xff").unwrap();
        let broken = text_of_file(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((read, text), ([true, false], Ok("four".into())));
        assert!(broken.unwrap_err().ends_with("this is no text (not UTF-8)"));
    }
}
