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

use crate::SettingsError;

/// One setting: `key=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The key.
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
            None => Err(SettingsError::new(format!("{item:?} is not key=value"))),
        })
        .collect()
}

/// Divides a text at the commas that are outside of parentheses.
fn split(text: &str) -> Result<Vec<&str>, SettingsError> {
    let (mut depth, mut start, mut items) = (0_usize, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
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

fn unmatched(text: &str) -> SettingsError {
    SettingsError::new(format!("the parentheses in {text:?} do not match"))
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
