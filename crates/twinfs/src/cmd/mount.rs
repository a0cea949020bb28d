//! `twinfs mount`: opens a volume and serves it over FUSE until it is unmounted.

use std::path::PathBuf;
use std::process::ExitCode;

use twin_cli::{Outcome, usage};
use twin_host::serving::run_serving;
use twin_host::{Budget, absolute, is_remote};
use twin_lab::MountFlush;
use twin_lab::layouts::LAYOUTS;
use twin_mount::media::{How, LocalFile};
use twin_mount::mount::{MountRequest, serve_volume};
use twin_mount::nfs::NfsBeside;
use twin_mount::opening::set_for_open;
use twin_observe::EVERY_NS;

use super::mkfs::ENCRYPTED_IMAGE;
use crate::cli::{Mount, MountChoice};
use crate::size::Size;

pub(crate) fn run(mut args: Mount) -> Outcome {
    make_absolute(&mut args)?;
    let trusts =
        [MountChoice::is_suid, MountChoice::is_dev].map(|about| last(&args.options, about));
    if trusts.contains(&Some(true)) && !rustix::process::geteuid().is_root() {
        return Err(usage("-o suid,dev: an ordinary user's mounts are always nosuid,nodev"));
    }
    if let Some(read_only) = last(&args.options, MountChoice::is_read_only) {
        args.read_only |= read_only;
    }
    // What can be said of the command line alone is said before a process is started.
    if let Some(log) = LAYOUTS.iter().find(|layout| layout.is_log()) {
        set_for_open(&mut *log.config(), &args.cleaner)
            .map_err(|why| usage(format!("--cleaner: {why}")))?;
    }
    let how = how(&args).map_err(usage)?;
    let budget = budget(&args).map_err(usage)?;
    let flush = args.flush.as_deref().map(MountFlush::parse).transpose();
    let flush = flush.map_err(|error| usage(format!("--flush: {error}")))?;
    let observing = args.observe.observing(EVERY_NS).map_err(usage)?;
    if observing.is_some() && args.observed.is_none() {
        return Err(usage("--observe needs --observe-file FILE, to which figures go"));
    }
    let about = args.image.display().to_string();
    let request = MountRequest {
        image: args.image,
        dir: args.dir,
        foreground: args.foreground,
        read_only: args.read_only || args.snapshot.is_some(),
        snapshot: args.snapshot,
        suid: trusts[0],
        dev: trusts[1],
        exec: last(&args.options, MountChoice::is_exec),
        how,
        budget,
        replacement: args.replacement,
        write_through: args.write_through,
        allow_other: args.allow_other,
        spin_us: args.spin,
        idle_poll: args.idle_poll,
        buffered: args.buffered,
        io_uring: !args.no_io_uring,
        file_types: args.file_types,
        order: args.order,
        queue: args.queue,
        cleaner: args.cleaner,
        alloc: args.alloc,
        flush,
        status: args.status,
        record: args.record,
        contents: args.contents,
        flight: args.flight,
        log: args.log,
        log_file: args.log_file,
        observing,
        observed: args.observed,
        nfs: args.nfs.at.map(|at| NfsBeside { at, exports: args.nfs.exports }),
    };
    let foreground = args.foreground;
    run_serving(foreground, &about, budget.all(), |ready, words| {
        serve_volume(&request, ready, words)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A daemon works in the root directory.
fn make_absolute(args: &mut Mount) -> Result<(), String> {
    (args.image, args.dir) = (absolute(&args.image)?, absolute(&args.dir)?);
    let paths = [
        &mut args.record,
        &mut args.flight,
        &mut args.status,
        &mut args.log_file,
        &mut args.observed,
        &mut args.local_cache,
        &mut args.journal_file,
        &mut args.key.key_file,
    ];
    for path in paths.into_iter().flatten() {
        *path = absolute(path)?;
    }
    Ok(())
}

/// How a volume in a bucket is opened.
fn how(args: &Mount) -> Result<How, String> {
    let is_image = is_remote(&args.image).is_none();
    if is_image && (args.take_over || args.local_cache.is_some()) {
        let words = "--take-over and --local-cache are for volumes in buckets";
        return Err(format!("{words}, s3://BUCKET/NAME"));
    }
    if is_image && args.key.named().is_some() {
        return Err(ENCRYPTED_IMAGE.into());
    }
    if is_image && args.follow.is_some() {
        return Err("--follow is for volumes in buckets, s3://BUCKET/NAME".into());
    }
    if args.follow.is_some() && !args.read_only {
        return Err("--follow: who follows a volume only reads it: add -o ro".into());
    }
    let read_only = args.read_only || args.snapshot.is_some();
    if args.journal_file.is_some() && read_only {
        return Err("--journal-file: a mount that is read-only has nothing to keep there".into());
    }
    let local = |path: &Option<PathBuf>, size: Size| {
        path.clone().map(|path| LocalFile { path, size: size.0 })
    };
    Ok(How {
        read_only,
        follow: args.follow,
        memory: 0,
        take_over: args.take_over,
        cache: local(&args.local_cache, args.local_cache_size),
        journal: local(&args.journal_file, args.journal_size),
        key: args.key.named(),
    })
}

/// How a mount divides its memory.
fn budget(args: &Mount) -> Result<Budget, String> {
    match args.memory {
        None => Ok(Budget::usual(args.cache.0)),
        Some(memory) => Budget::within(memory.0)
            .map_err(|least| format!("--memory {memory}: a daemon needs {} at least", Size(least))),
    }
}

/// The last word of the options on something.
fn last(options: &[MountChoice], about: fn(MountChoice) -> Option<bool>) -> Option<bool> {
    options.iter().copied().filter_map(about).next_back()
}
