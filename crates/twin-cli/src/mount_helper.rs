//! The program under the name `mount.fuse.twinfs`, which mount(8) calls for `mount -t fuse.twinfs IMAGE DIR` and for
//! lines of /etc/fstab.
//!
//! Contract: each option becomes an argument of `twinfs mount`, or is one that mount(8), systemd or the kind of our
//! mounts has settled already, or is refused by name. None is ignored in silence, except with mount's `-s`, which
//! asks for that.

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgAction, Command};

/// Exit statuses of mount(8).
const WRONG_CALL: u8 = 1;
const FAILED: u8 = 32;

/// Options that need nothing from us: mount(8) or systemd has carried them out, they tell when to mount, or every
/// mount of ours is so.
const SETTLED: [&str; 14] = [
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "nouser",
    "_netdev",
    "loop",
    "async",
    "noatime",
    "nodiratime",
    "norelatime",
    "nomand",
    "noiversion",
    "silent",
];
/// Options by which ordinary users may mount; mount(8) then wants these.
const OF_USERS: [(&str, &[&str]); 4] = [
    ("user", &["nosuid", "nodev", "noexec"]),
    ("users", &["nosuid", "nodev", "noexec"]),
    ("owner", &["nosuid", "nodev"]),
    ("group", &["nosuid", "nodev"]),
];
/// Options for the kernel.
const FOR_KERNEL: [&str; 8] = ["suid", "nosuid", "dev", "nodev", "exec", "noexec", "ro", "rw"];
/// Options of mount(8) without sense here, with the reason.
const REFUSED: [(&str, &str); 8] = [
    ("sync", "fsync waits for the device, and write-through passes every write on at once"),
    ("dirsync", "fsync of a directory waits for the device"),
    ("atime", "access times are not kept"),
    ("relatime", "access times are not kept"),
    ("strictatime", "access times are not kept"),
    ("lazytime", "access times are not kept"),
    ("remount", "unmount it and mount it with other options"),
    ("bind", "mount --bind needs no type"),
];
/// Arguments of `twinfs mount` that a mount from a table cannot have.
const NOT_HERE: [&str; 5] = ["foreground", "options", "read-only", "help", "version"];

/// Whether this name of the program is that of mount's helper.
pub fn is_name(program: &OsString) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    ["mount.fuse.twinfs", "mount.twinfs"].iter().any(|helper| name == *helper)
}

/// The exit status of mount(8) for one of ours.
pub fn status(ours: u8) -> u8 {
    match ours {
        0 => 0,
        2 => WRONG_CALL,
        _ => FAILED,
    }
}

/// The command line of `twinfs` that does what mount(8) asks for; `None` if nothing is to be done (`-f`).
///
/// # Errors
/// If an option is not known or has no sense here.
pub fn translated(
    arguments: impl IntoIterator<Item = OsString>,
    mount: &Command,
) -> Result<Option<Vec<OsString>>, String> {
    let (mut places, mut options) = (Vec::new(), Vec::new());
    let (mut is_fake, mut is_sloppy) = (false, false);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let Some(flags) = argument.to_str().filter(|text| text.len() > 1 && text.starts_with('-'))
        else {
            places.push(argument);
            continue;
        };
        let mut value = |what| {
            arguments
                .next()
                .and_then(|text| text.into_string().ok())
                .ok_or(format!("{what} needs a value"))
        };
        match flags {
            "-o" => options.extend(parts(&value("-o")?)),
            "-t" => drop(value("-t")?),
            "-N" => return Err("-N: run mount in that namespace instead".into()),
            flags if flags[1..].chars().all(|flag| "sfnvrw".contains(flag)) => {
                is_fake |= flags.contains('f');
                is_sloppy |= flags.contains('s');
                options.extend(flags.contains('r').then(|| "ro".to_owned()));
            }
            other => return Err(format!("{other}: mount(8) does not call its helpers so")),
        }
    }
    let [image, dir] = places.as_slice() else {
        return Err(
            "it takes an image and a directory: mount.fuse.twinfs IMAGE DIR [-o OPTIONS]".into()
        );
    };
    let mut words: Vec<OsString> = vec!["twinfs".into(), "mount".into()];
    for option in &options {
        match word(option, mount) {
            Ok(more) => words.extend(more.into_iter().map(OsString::from)),
            Err(_) if is_sloppy => {}
            Err(why) => return Err(why),
        }
    }
    words.extend(["--".into(), image.clone(), dir.clone()]);
    Ok((!is_fake).then_some(words))
}

/// The options of a list; commas in double quotes part nothing.
fn parts(list: &str) -> Vec<String> {
    let (mut parts, mut quoted) = (vec![String::new()], false);
    for c in list.chars() {
        match (c, parts.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => parts.push(String::new()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The arguments of `twinfs mount` for an option.
fn word(option: &str, mount: &Command) -> Result<Vec<String>, String> {
    let (name, value) =
        option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    let for_kernel =
        |names: &[&str]| names.iter().map(|name| format!("--options={name}")).collect();
    let is_note = name.starts_with("x-") || name.starts_with("X-");
    if is_note || matches!(name, "comment" | "helper" | "uhelper") || SETTLED.contains(&name) {
        return Ok(Vec::new());
    }
    if FOR_KERNEL.contains(&name) {
        return Ok(for_kernel(&[name]));
    }
    if let Some((_, implied)) = OF_USERS.iter().find(|(user, _)| *user == name) {
        return Ok(for_kernel(implied));
    }
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(format!("{option}: volumes are not mounted so: {why}"));
    }
    let name = name.replace('_', "-");
    let known =
        |argument: &&clap::Arg| argument.get_long() == Some(&name) && !NOT_HERE.contains(&&*name);
    let Some(argument) = mount.get_arguments().find(known) else {
        let mut all: Vec<&str> = mount.get_arguments().filter_map(clap::Arg::get_long).collect();
        all.retain(|long| !NOT_HERE.contains(long));
        return Err(format!(
            "{option}: there is no such option; beside those of the kernel there are {}",
            all.join(", ")
        ));
    };
    match (argument.get_action(), value) {
        (ArgAction::SetTrue, None) => Ok(vec![format!("--{name}")]),
        (ArgAction::SetTrue, Some(_)) => Err(format!("{option}: {name} takes no value")),
        (_, Some(value)) => Ok(vec![format!("--{name}={value}")]),
        (_, None) => Err(format!("{option}: {name} needs a value, as {name}=VALUE")),
    }
}
