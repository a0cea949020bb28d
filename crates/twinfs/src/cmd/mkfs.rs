//! `twinfs mkfs`: makes a volume.

use std::process::ExitCode;

use twin_cli::progress::Shown;
use twin_cli::{Failure, Outcome, say, usage};
use twin_fs::{LayoutConfig, LayoutKind};
use twin_host::{Interrupts, is_remote};
use twin_lab::layouts::{LAYOUTS, layout};
use twin_mount::make::{MakeRequest, NotMade, make};
use twin_mount::media;

use crate::cli::Mkfs;
use crate::size::Size;

/// Why an image has no key.
pub(super) const ENCRYPTED_IMAGE: &str = "--key-file and --key-command are for volumes in buckets, s3://BUCKET/NAME: for an image make a device \
     that encrypts (cryptsetup) and the volume on it";

pub(crate) fn run(args: &Mkfs, interrupts: &Interrupts) -> Outcome {
    let kind = layout(&args.layout).map_err(|error| error.to_string())?;
    if let Some((_, name)) = media::of(&args.image)?.filter(|_| !kind.is_log()) {
        return Err(usage(format!("{name}: only a log fits into a bucket: --layout lfs")));
    }
    if is_remote(&args.image).is_none() {
        if args.key.named().is_some() {
            return Err(usage(ENCRYPTED_IMAGE));
        }
        if args.compression.is_some() {
            return Err(usage("--compression is for volumes in buckets, s3://BUCKET/NAME"));
        }
    }
    let request = MakeRequest {
        image: args.image.clone(),
        size: args.size.map(|size| size.0),
        force: args.force,
        compression: args.compression,
        key: args.key.named(),
        config: config(args, kind)?,
    };
    match make(&request, interrupts, &Shown, &|line| say(line)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(NotMade::NoSize) => Err(usage("say how large the new image shall be: --size 4G")),
        Err(NotMade::Why(why)) => Err(why.into()),
    }
}

/// What a new volume shall be.
fn config(args: &Mkfs, kind: &'static dyn LayoutKind) -> Result<Box<dyn LayoutConfig>, Failure> {
    let size = |size: Option<Size>| size.map(|size| size.0.to_string());
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let segment = is_remote(&args.image).map(|_| Size(twin_bucket::PACK_BYTES.into()));
    // The profile first: it sets the sizes that go with it.
    let options = [
        ("profile", "profile", args.profile.map(|profile| profile.name().to_string())),
        ("block-size", "block", size(args.block_size)),
        ("frag-size", "frag", size(args.frag_size)),
        ("segment-size", "segment", size(args.segment_size.or(segment))),
        ("minfree", "minfree", number(args.minfree)),
        ("ordering", "ordering", args.ordering.clone()),
        ("data-checksums", "data-checksums", args.data_checksums.then(|| "yes".into())),
        ("bytes-per-inode", "bytes-per-inode", size(args.bytes_per_inode)),
    ];
    let mut config = kind.config();
    for (option, key, value) in &options {
        let Some(value) = value else { continue };
        let has = |kind: &dyn LayoutKind| kind.config().keys().iter().any(|k| k.name == *key);
        if !has(kind) {
            let others = LAYOUTS.iter().filter(|kind| has(**kind)).map(|kind| kind.name());
            let others = others.collect::<Vec<_>>().join(" or ");
            return Err(usage(format!("--{option} is for --layout {others}")));
        }
        config.set(key, value).map_err(|error| usage(format!("--{option}: {error}")))?;
    }
    let asked = |key: &str| options.iter().any(|(_, name, value)| *name == key && value.is_some());
    config.complete(&asked);
    Ok(config)
}
