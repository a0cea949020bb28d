//! The grammar of settings: how a text is divided into names, keys and values. It does not know
//! which of them exist.
//!
//! ```text
//! named    = name | name ":" settings | name "(" settings ")"
//! settings = setting { "," setting }
//! setting  = key "=" value
//! value    = text without a comma outside of parentheses
//! ```
//!
//! A value may itself be a name with settings. These must then be in parentheses, so that their
//! commas do not end the value: `nfs(volume=lfs(cache=8M,disk=hp97560),clients=4)`. White space
//! around names, keys and values is ignored. An empty setting, as after a superfluous comma, is
//! ignored too.
//!
//! Parentheses nest at most [`DEEPEST`] deep. What means something nests three deep, and code that
//! follows the nesting by calling itself must not run out of stack whatever a text holds.

use crate::SettingsError;
use crate::error::shortened;

/// How deep parentheses may nest.
pub const DEEPEST: usize = 32;

/// One setting, split at its first `=`: `key=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The name before the `=`.
    pub key: &'a str,
    /// The value, as it was written.
    pub value: &'a str,
}

/// A name with settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The name before the settings.
    pub name: &'a str,
    /// The text of the settings; empty if there are none.
    pub settings: &'a str,
}

impl<'a> Named<'a> {
    /// Parses `name`, `name:settings` or `name(settings)`.
    ///
    /// # Errors
    /// If parentheses do not match, or text follows the last one.
    pub fn parse(text: &'a str) -> Result<Named<'a>, SettingsError> {
        let text = text.trim();
        check_depth(text)?;
        match text.find([':', '(']) {
            None if text.contains(')') => Err(unmatched(text)),
            None => Ok(Named { name: text, settings: "" }),
            Some(at) if text[at..].starts_with(':') => {
                Ok(Named { name: text[..at].trim(), settings: &text[at + 1..] })
            }
            Some(at) => {
                let inner = inside(&text[at..]).ok_or_else(|| unmatched(text))?;
                Ok(Named { name: text[..at].trim(), settings: inner })
            }
        }
    }
}

/// Parses the settings in a text and returns them in their order.
///
/// # Errors
/// If parentheses do not match, or a setting is not of the form `key=value`.
pub fn settings(text: &str) -> Result<Vec<Setting<'_>>, SettingsError> {
    let items = split(text)?.into_iter().map(str::trim).filter(|item| !item.is_empty());
    let setting = |item: &'_ str| -> Option<(usize, usize)> {
        let equals = item.find('=')?;
        (!item[..equals].trim().is_empty()).then_some((equals, equals + 1))
    };
    items
        .map(|item| match setting(item) {
            Some((end, start)) => {
                Ok(Setting { key: item[..end].trim(), value: item[start..].trim() })
            }
            None => Err(SettingsError::new(format!("{:?} is not key=value", shortened(item)))),
        })
        .collect()
}

/// Divides a text at the commas that are outside of parentheses.
fn split(text: &str) -> Result<Vec<&str>, SettingsError> {
    let (mut depth, mut start, mut items) = (0_usize, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '(' if depth == DEEPEST => return Err(too_deep(text)),
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| unmatched(text))?,
            ',' if depth == 0 => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(unmatched(text));
    }
    items.push(&text[start..]);
    Ok(items)
}

/// The text inside the parentheses, if `text` begins with one and the matching one is at its end.
fn inside(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    split(inner).is_ok().then_some(inner)
}

/// Checks that the parentheses of a text do not nest deeper than [`DEEPEST`], whether they match or
/// not. For code that divides texts by itself.
pub fn check_depth(text: &str) -> Result<(), SettingsError> {
    let mut depth = 0_usize;
    for letter in text.bytes() {
        match letter {
            b'(' if depth == DEEPEST => return Err(too_deep(text)),
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

fn unmatched(text: &str) -> SettingsError {
    SettingsError::new(format!("the parentheses in {:?} do not match", shortened(text)))
}

fn too_deep(text: &str) -> SettingsError {
    SettingsError::new(format!(
        "the parentheses in {:?} nest more than {DEEPEST} deep",
        shortened(text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(&str, &str)> {
        settings(text).unwrap().iter().map(|s| (s.key, s.value)).collect()
    }

    #[test]
    fn a_name_may_have_settings_in_two_notations() {
        for text in ["lfs:a=1,b=2", "lfs(a=1,b=2)", " lfs ( a=1,b=2)"] {
            let named = Named::parse(text).unwrap();
            assert_eq!(named.name, "lfs");
            assert_eq!(pairs(named.settings), [("a", "1"), ("b", "2")]);
        }
        assert_eq!(Named::parse("lfs").unwrap(), Named { name: "lfs", settings: "" });
    }

    #[test]
    fn values_nest() {
        let outer = Named::parse("nfs(volume=lfs(cache=8M,disk=x),clients=4)").unwrap();
        let all = pairs(outer.settings);
        assert_eq!(all, [("volume", "lfs(cache=8M,disk=x)"), ("clients", "4")]);
        assert_eq!(Named::parse(all[0].1).unwrap().settings, "cache=8M,disk=x");
    }

    #[test]
    fn a_value_may_hold_equals_signs_and_colons() {
        assert_eq!(pairs("volume=lfs:cache=8M"), [("volume", "lfs:cache=8M")]);
    }

    /// A text nested 5,000 deep overflowed the stack of a program that followed it.
    #[test]
    fn what_nests_too_deep_is_refused_in_few_words() {
        let nested = |deep: usize| format!("{}lfs{}", "nfs(".repeat(deep), ")".repeat(deep));
        assert!(Named::parse(&nested(DEEPEST)).is_ok());
        for deep in [DEEPEST + 1, 5000, 500_000] {
            for text in [nested(deep), "nfs(".repeat(deep), format!("a=1,b={}", nested(deep))] {
                let why = settings(&text).unwrap_err().to_string();
                assert!(why.contains("nest more than 32 deep") && why.len() < 300, "{why}");
                assert!(Named::parse(&text).is_err());
            }
        }
    }

    #[test]
    fn white_space_and_empty_settings_do_not_count() {
        assert_eq!(pairs(" a = 1 ,, b=2, "), [("a", "1"), ("b", "2")]);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn what_does_not_match_or_is_no_setting_is_refused() {
        for text in ["a(b", "a)b", "a(b)c", "a(b))(c)"] {
            assert!(Named::parse(text).is_err(), "{text}");
        }
        for text in ["a", "=1", "a=(", "a=)", "a=1,b"] {
            assert!(settings(text).is_err(), "{text}");
        }
    }
}
