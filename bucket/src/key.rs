//! The key of an encrypted volume: 32 bytes, from a file or a command.

use std::fs::read;
use std::process::{Command, Stdio};

use twin_mount::media::KeyFrom;

/// Bytes of a key.
const BYTES: usize = 32;

/// A key. It is shown to nobody.
pub(crate) struct Key(pub(crate) [u8; BYTES]);

/// The key that a user names, or else the environment, if either does.
pub(crate) fn key(named: Option<&KeyFrom>) -> Result<Option<Key>, String> {
    let of_environment = || {
        let file = std::env::var_os("TWINFS_KEY_FILE").map(|path| KeyFrom::File(path.into()));
        file.or_else(|| std::env::var("TWINFS_KEY_COMMAND").ok().map(KeyFrom::Command))
    };
    let Some(from) = named.cloned().or_else(of_environment) else { return Ok(None) };
    let (bytes, place) = match &from {
        KeyFrom::File(path) => {
            let place = path.display().to_string();
            (read(path).map_err(|error| format!("the key file {place}: {error}"))?, place)
        }
        KeyFrom::Command(command) => (output(command)?, format!("the output of {command:?}")),
    };
    match parse(&bytes) {
        Some(key) => Ok(Some(key)),
        None => Err(format!(
            "{place}: a key is {BYTES} bytes, or {} hexadecimal digits; `head -c {BYTES} /dev/urandom > FILE` makes one",
            2 * BYTES
        )),
    }
}

fn output(command: &str) -> Result<Vec<u8>, String> {
    let about = |why: String| format!("the key command {command:?}: {why}");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let ran = shell.output().map_err(|error| about(error.to_string()))?;
    match ran.status.success() {
        true => Ok(ran.stdout),
        false => Err(about(ran.status.to_string())),
    }
}

fn parse(bytes: &[u8]) -> Option<Key> {
    if let Ok(key) = bytes.try_into() {
        return Some(Key(key));
    }
    let digits = bytes.trim_ascii();
    if digits.len() != 2 * BYTES {
        return None;
    }
    let mut key = [0; BYTES];
    for (byte, digits) in key.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(digits[0])? * 16 + digit(digits[1])?) as u8;
    }
    Some(Key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes_or_digits_of_the_right_length() {
        assert_eq!(parse(&[7; 32]).unwrap().0, [7; 32]);
        let digits = format!(" {}\n", "0aB".repeat(21) + "f");
        assert_eq!(parse(digits.as_bytes()).unwrap().0[..3], [0x0a, 0xb0, 0xab]);
        let zs = "z".repeat(64);
        for bad in [&[7; 31][..], &[7; 33], b"", b"password\n", zs.as_bytes()] {
            assert!(parse(bad).is_none());
        }
    }

    #[test]
    fn a_key_is_what_a_command_prints_unless_that_fails() {
        let of = |command: &str| key(Some(&KeyFrom::Command(command.into())));
        let digits = "11".repeat(32);
        assert_eq!(of(&format!("echo {digits}")).unwrap().unwrap().0, [0x11; 32]);
        let failed = of(&format!("echo {digits}; exit 3")).err().unwrap();
        assert!(failed.contains("exit status: 3"), "{failed}");
        assert!(of("echo secret").err().unwrap().contains("64 hexadecimal digits"));
        let missing = key(Some(&KeyFrom::File("/nowhere/key".into()))).err().unwrap();
        assert!(missing.contains("/nowhere/key"), "{missing}");
    }
}
