//! The name of a result: a digest of all that the result depends on.
//!
//! Contract: equal keys mean equal results. The key covers the build of the program, the content of the workload,
//! the pace, every resolved setting and the seed. Texts that differ and resolve to the same settings have the
//! same key.

use std::fmt;

use sha2::{Digest, Sha256};
use twin_lab::Config;
use twin_settings::outside;
use twin_trace::replay::Pace;

/// The version of the form of keys and rows. It changes when either does.
const FORM: &str = "twinfs run 1";

/// The name of a result: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// The key of one run.
    pub(crate) fn of(
        build: &str,
        workload: &Content,
        pace: Pace,
        config: &Config,
        seed: u64,
    ) -> Key {
        let mut digest = Sha256::new();
        let mut add = |part: &str| {
            // The length keeps parts apart.
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        };
        add(FORM);
        add(build);
        add(&workload.0);
        add(&format!("{pace:?}"));
        for (name, value) in config.resolved() {
            add(name);
            // Of a module its content counts, wherever it lies.
            match outside::loaded(&value) {
                Ok(Some(module)) => add(&format!("module {}", module.digest)),
                _ => add(&value),
            }
        }
        add(&format!("{:?}", config.machine));
        add(&seed.to_string());
        Key(hexadecimal(&digest.finalize()))
    }

    /// The key with this text, if it is one.
    pub(crate) fn parse(text: &str) -> Option<Key> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Key(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a workload or a program consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(String);

impl Content {
    /// What is read.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn of_reader(mut reader: impl std::io::Read) -> std::io::Result<Content> {
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Content(hexadecimal(&digest.finalize()))),
                read => digest.update(&buffer[..read]),
            }
        }
    }

    /// A generator's text.
    pub fn of_text(text: &str) -> Content {
        Content(format!("generated {text}"))
    }

    /// The text by which it is known.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The first half of a digest, which is enough to tell any number of runs apart.
fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_changes_with_everything_that_a_result_depends_on() {
        let config = |text| Config::parse(text).unwrap();
        let mail = Content::of_text("mail");
        let key = |build, workload: &Content, pace, text, seed| {
            Key::of(build, workload, pace, &config(text), seed)
        };
        let first = key("a", &mail, Pace::Asap, "lfs", 0);
        let others = [
            key("b", &mail, Pace::Asap, "lfs", 0),
            key("a", &Content::of_text("build"), Pace::Asap, "lfs", 0),
            key("a", &mail, Pace::Think { speed: 1.0 }, "lfs", 0),
            key("a", &mail, Pace::Asap, "lfs:cache=9M", 0),
            key("a", &mail, Pace::Asap, "lfs", 1),
        ];
        assert!(others.iter().all(|other| *other != first));
        assert_eq!(key("a", &mail, Pace::Asap, "lfs", 0), first);
        assert_eq!(Key::parse(first.as_str()), Some(first));
    }

    #[test]
    fn texts_that_mean_the_same_have_the_same_key() {
        let mail = Content::of_text("mail");
        let key = |text| Key::of("a", &mail, Pace::Asap, &Config::parse(text).unwrap(), 0);
        assert_eq!(key("lfs:cache=8M,size=64M"), key("lfs:size=64M,cache=8192K"));
    }

    #[test]
    fn content_is_that_of_the_bytes_and_a_path_is_no_key() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let content = |bytes: &[u8]| Content::of_reader(bytes).unwrap();
        assert_eq!(content(&bytes), content(&bytes.clone()));
        assert_ne!(content(&bytes), content(&bytes[1..]));
        assert_eq!(Key::parse("../../etc/passwd"), None);
    }
}
