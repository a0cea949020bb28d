//! What is served under which path, and to whom: the arguments of `twinfs serve`, as values.

use std::path::{Path, PathBuf};

use twin_host::absolute;
use twin_nfs::{Export, Network, Rules, Squash};
use twin_settings::{SettingsError, grammar};

/// A volume and the path under which clients see it.
#[derive(Debug)]
pub struct Share {
    /// The image or device.
    pub image: PathBuf,
    /// The path.
    pub path: String,
}

/// The volumes of `IMAGE` and `IMAGE=/PATH` arguments.
///
/// # Errors
/// If two have one path.
pub fn shares(images: &[PathBuf]) -> Result<Vec<Share>, String> {
    let mut shares: Vec<Share> = Vec::new();
    for argument in images {
        let text = argument.to_string_lossy();
        // A file whose own name has such an end is meant itself.
        let split = text.rsplit_once("=/").filter(|_| !argument.exists());
        let (image, path) = match split {
            Some((image, path)) => (Path::new(image), normal(&format!("/{path}"))?),
            None => (argument.as_path(), "/".to_string()),
        };
        if let Some(other) = shares.iter().find(|other| other.path == path) {
            return Err(format!(
                "{} and {} are both served as {path}: give each a path of its own, as {}=/a",
                other.image.display(),
                image.display(),
                image.display()
            ));
        }
        shares.push(Share { image: absolute(image)?, path });
    }
    Ok(shares)
}

/// The exports that `--export` describes, or all volumes to this machine.
///
/// # Errors
/// Says which argument is wrong and what would be right.
pub fn exports(shares: &[Share], arguments: &[String]) -> Result<Vec<Export>, String> {
    if arguments.is_empty() {
        let export = |(volume, share): (usize, &Share)| Export {
            path: share.path.clone(),
            volume,
            below: Vec::new(),
            rules: Rules::default(),
        };
        return Ok(shares.iter().enumerate().map(export).collect());
    }
    let mut exports: Vec<Export> = Vec::new();
    for argument in arguments {
        let export =
            export(shares, argument).map_err(|why| format!("--export {argument}: {why}"))?;
        if exports.iter().any(|other| other.path == export.path) {
            return Err(format!("--export {argument}: {} is exported twice", export.path));
        }
        exports.push(export);
    }
    Ok(exports)
}

fn export(shares: &[Share], argument: &str) -> Result<Export, String> {
    let (path, rules) = argument.split_once(':').unwrap_or((argument, ""));
    let path = normal(path)?;
    let owner = shares.iter().enumerate().filter(|(_, share)| within(&share.path, &path).is_some());
    let (volume, share) = owner.max_by_key(|(_, share)| share.path.len()).ok_or_else(|| {
        let paths: Vec<&str> = shares.iter().map(|share| share.path.as_str()).collect();
        format!("no volume is served there, only at {}", paths.join(", "))
    })?;
    let below = within(&share.path, &path).unwrap_or_default();
    let below = below.split('/').filter(|name| !name.is_empty()).map(|n| n.as_bytes().into());
    let below = below.collect();
    Ok(Export { path, volume, below, rules: parse_rules(rules).map_err(|e| e.to_string())? })
}

/// The rest of a path below another.
fn within<'a>(above: &str, path: &'a str) -> Option<&'a str> {
    let rest = if above == "/" { path } else { path.strip_prefix(above)? };
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// A path without needless slashes.
fn normal(path: &str) -> Result<String, String> {
    if !path.starts_with('/') {
        return Err(format!("{path:?}: a path of an export begins with a slash"));
    }
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if names.iter().any(|name| matches!(*name, "." | "..")) {
        return Err(format!("{path:?}: a path of an export has neither . nor .. in it"));
    }
    Ok(format!("/{}", names.join("/")))
}

const KEYS: [&str; 6] = ["from", "access", "squash", "nobody", "ports", "replies"];

fn parse_rules(text: &str) -> Result<Rules, SettingsError> {
    let mut rules = Rules::default();
    for setting in grammar::settings(text)? {
        let value = setting.value;
        match setting.key {
            "from" => set_from(&mut rules, value)?,
            "access" => rules.read_only = one_of("access", value, &[("rw", false), ("ro", true)])?,
            "squash" => {
                let known = [
                    ("none", Squash::Nothing),
                    ("root", Squash::Root),
                    ("far-root", Squash::FarRoot),
                    ("all", Squash::All),
                ];
                rules.squash = one_of("squash", value, &known)?;
            }
            "nobody" => {
                let numbers = value.split_once(':');
                let numbers =
                    numbers.and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
                rules.nobody = numbers.ok_or_else(|| {
                    SettingsError::new(format!("nobody={value}: write it as nobody=65534:65534"))
                })?;
            }
            "ports" => {
                rules.privileged_ports =
                    one_of("ports", value, &[("any", false), ("privileged", true)])?;
            }
            "replies" => {
                rules.lazy = one_of("replies", value, &[("durable", false), ("early", true)])?;
            }
            other => return Err(SettingsError::unknown("rule", other, KEYS)),
        }
    }
    Ok(rules)
}

fn set_from(rules: &mut Rules, value: &str) -> Result<(), SettingsError> {
    for network in value.split('+') {
        match network {
            "all" => rules.from_all = true,
            network => {
                rules.from.push(Network::parse(network).map_err(SettingsError::new)?);
            }
        }
    }
    Ok(())
}

fn one_of<T: Copy>(key: &str, value: &str, known: &[(&str, T)]) -> Result<T, SettingsError> {
    match known.iter().find(|(name, _)| *name == value) {
        Some((_, meaning)) => Ok(*meaning),
        None => {
            let names = known.iter().map(|(name, _)| *name);
            Err(SettingsError::unknown("value", value, names).within(key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<Share> {
        shares(&["a.img=/a".into(), "b.img=/a/b/".into()]).unwrap()
    }

    #[test]
    fn a_volume_is_served_at_its_path_or_at_the_root() {
        assert_eq!(shares(&["a.img".into()]).unwrap()[0].path, "/");
        let paths: Vec<String> = two().into_iter().map(|share| share.path).collect();
        assert_eq!(paths, ["/a", "/a/b"]);
        assert!(shares(&["a.img".into(), "b.img".into()]).unwrap_err().contains("b.img=/a"));
    }

    #[test]
    fn an_export_belongs_to_the_volume_with_the_longest_path() {
        let list = ["/a", "/a/b/c//d", "/a/bc"].map(String::from);
        let exports = exports(&two(), &list).unwrap();
        let of = |n: usize| (exports[n].volume, exports[n].below.len());
        assert_eq!((of(0), of(1), of(2)), ((0, 0), (1, 2), (0, 1)));
    }

    #[test]
    fn rules_are_read_and_what_is_no_rule_is_refused() {
        let one = |text: &str| exports(&two(), &[text.to_string()]).map(|e| e[0].rules.clone());
        let rules =
            one("/a:from=192.0.2.0/24+2001:db8::/32,access=ro,squash=all,nobody=7:8").unwrap();
        assert_eq!((rules.from.len(), rules.read_only, rules.nobody), (2, true, (7, 8)));
        assert_eq!(rules.squash, Squash::All);
        assert!(one("/a:ports=privileged,replies=early").unwrap().lazy);
        for (text, said) in [
            ("/c", "only at /a, /a/b"),
            ("a", "begins with a slash"),
            ("/a/../b", "neither . nor .."),
            ("/a:acces=ro", "did you mean \"access\""),
            ("/a:access=readonly", "rw, ro"),
            ("/a:from=example", "no address or network"),
            ("/a:nobody=1", "nobody=65534:65534"),
        ] {
            assert!(one(text).unwrap_err().contains(said), "{text}: {}", one(text).unwrap_err());
        }
    }
}
