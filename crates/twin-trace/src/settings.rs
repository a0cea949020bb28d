//! Settings in a line of text: `name=value,name=value`, all of them whole numbers.

use std::fmt;

/// Something that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Its value unless set.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// What it does, with its unit.
    pub about: &'static str,
}

impl Param {
    /// A parameter.
    pub const fn new(
        name: &'static str,
        default: u64,
        min: u64,
        max: u64,
        about: &'static str,
    ) -> Param {
        Param { name, default, min, max, about }
    }
}

/// A setting that makes no sense. Says what would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError(String);

impl SettingsError {
    pub(crate) fn new(text: String) -> SettingsError {
        SettingsError(text)
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

/// Values of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(Vec<(Param, u64)>);

impl Settings {
    /// Reads `name=value,...`; a value may end in `k`, `m` or `g` (1,024 and its powers).
    ///
    /// # Errors
    /// If a name is not among `params`, or a value is no number or out of range.
    pub fn parse(text: &str, params: &[&[Param]]) -> Result<Settings, SettingsError> {
        let known = params.iter().flat_map(|group| group.iter());
        let mut values: Vec<(Param, u64)> = known.map(|param| (*param, param.default)).collect();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            let Some(slot) = values.iter_mut().find(|(param, _)| param.name == name) else {
                let names: Vec<_> = values.iter().map(|(param, _)| param.name).collect();
                let names = names.join(", ");
                return Err(SettingsError(format!(
                    "nothing is called {name:?}; there are {names}"
                )));
            };
            let Param { min, max, .. } = slot.0;
            slot.1 = number(value).filter(|n| (min..=max).contains(n)).ok_or_else(|| {
                SettingsError(format!("{name} must be a number from {min} to {max}, not {value:?}"))
            })?;
        }
        Ok(Settings(values))
    }

    /// The value of a parameter.
    ///
    /// # Panics
    /// If it is not among those that were given to [`parse`](Self::parse).
    pub fn get(&self, name: &str) -> u64 {
        match self.0.iter().find(|(param, _)| param.name == name) {
            Some((_, value)) => *value,
            None => panic!("the setting {name} is used but not declared"),
        }
    }

    /// All values, as [`parse`](Self::parse) takes them.
    pub fn to_text(&self) -> String {
        let items: Vec<_> = self.0.iter().map(|(p, value)| format!("{}={value}", p.name)).collect();
        items.join(",")
    }
}

fn number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 10),
        b'm' => (&text[..text.len() - 1], 20),
        b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] =
        &[Param::new("files", 10, 1, 1 << 20, "files"), Param::new("size", 5, 0, 1 << 30, "bytes")];

    #[test]
    fn what_is_not_set_has_its_default() {
        let settings = Settings::parse("size=4k", &[PARAMS]).unwrap();
        assert_eq!((settings.get("files"), settings.get("size")), (10, 4096));
        assert_eq!(Settings::parse(&settings.to_text(), &[PARAMS]).unwrap(), settings);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let error = |text| Settings::parse(text, &[PARAMS]).unwrap_err().to_string();
        assert!(error("fles=1").contains("files, size"));
        assert!(error("files=0").contains("from 1 to 1048576"));
        assert!(error("files=").contains("not \"\""));
        assert!(error("size=99999999999999999999g").contains("size must be"));
        assert!(error("size=k").contains("size must be"));
    }
}
