//! A volume under test: made, mounted, unmounted and checked with the program.
//!
//! Contract: [`Volume::umount`] and [`Volume::mount`] check the results of the program: after a
//! mount the volume is mounted, and after an unmount no daemon is left. Dropping a mounted volume
//! kills its daemon.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::bench::Bench;
use super::daemon::{self, Daemon};
use super::janitor::mounts_below;
use crate::clock::Stopwatch;

/// A name for a volume in a bucket that none has.
fn new_in_bucket(bench: &Bench, bucket: &str) -> PathBuf {
    let number = bench.in_bucket.fetch_add(1, Ordering::Relaxed);
    let folder = bench.dir.file_name().unwrap_or_default().to_string_lossy();
    format!("{bucket}/{folder}-{}-{number}", std::process::id()).into()
}

/// An image or device, and the directory where it is mounted.
pub(crate) struct Volume<'a> {
    bench: &'a Bench,
    image: PathBuf,
    dir: PathBuf,
    user: Option<String>,
    layout: Option<String>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    daemon: Option<Daemon>,
    /// Whether the image is a loop device that was attached here.
    attached: bool,
}

impl<'a> Volume<'a> {
    /// Makes a volume in a new image file; with `--loop`, on a loop device over one; with `--bucket`, there.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`, or of `losetup`.
    pub(crate) fn make(bench: &'a Bench, size: &str) -> Result<Volume<'a>, String> {
        if bench.on_loop {
            return Volume::make_on_loop(bench, size);
        }
        let image = match &bench.bucket {
            Some(bucket) => new_in_bucket(bench, bucket),
            None => bench.dir.join("disk.img"),
        };
        let volume = Volume::at(bench, image)?;
        volume.mkfs(&["--size", size])?;
        Ok(volume)
    }

    /// Makes a volume of that name in a bucket, whose server the environment names, with these words for `twinfs mkfs`.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`.
    pub(crate) fn make_in(
        bench: &'a Bench,
        name: &str,
        environment: Vec<(String, String)>,
        words: &[&str],
    ) -> Result<Volume<'a>, String> {
        let mut volume = Volume::at(bench, name.into())?;
        volume.environment = environment;
        volume.mkfs(words)?;
        Ok(volume)
    }

    /// A volume that is there, to be mounted in another directory.
    ///
    /// # Errors
    /// If that cannot be made.
    pub(crate) fn beside(
        bench: &'a Bench,
        name: &str,
        environment: Vec<(String, String)>,
        dir: &str,
    ) -> Result<Volume<'a>, String> {
        let dir = bench.dir.join(dir);
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let mut volume = Volume::at(bench, name.into())?;
        (volume.dir, volume.environment) = (dir, environment);
        Ok(volume)
    }

    /// Makes a volume on a loop device over a new file.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`, or of `losetup`.
    pub(crate) fn make_on_loop(bench: &'a Bench, size: &str) -> Result<Volume<'a>, String> {
        let file = bench.dir.join("disk.img");
        bench.run(Command::new("truncate").args(["-s", size]).arg(&file))?;
        let device = bench.run(Command::new("losetup").args(["--find", "--show"]).arg(&file))?;
        let mut volume = Volume::at(bench, device.trim().into())?;
        volume.attached = true;
        volume.mkfs(&[])?;
        Ok(volume)
    }

    /// Makes a volume in a new image file that another user owns and mounts.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`.
    pub(crate) fn make_as(bench: &'a Bench, user: &str, size: &str) -> Result<Volume<'a>, String> {
        let mut volume = Volume::at(bench, bench.dir.join("disk.img"))?;
        volume.user = Some(user.into());
        volume.mkfs(&["--size", size])?;
        Ok(volume)
    }

    /// Makes a volume in a new image file at a path, of a given layout or of the layout of the run.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`.
    pub(crate) fn make_at(
        bench: &'a Bench,
        image: &Path,
        size: &str,
        layout: &str,
    ) -> Result<Volume<'a>, String> {
        Volume::make_with(bench, image, size, layout, &[])
    }

    /// The same with words for `twinfs mkfs`.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`.
    pub(crate) fn make_with(
        bench: &'a Bench,
        image: &Path,
        size: &str,
        layout: &str,
        words: &[&str],
    ) -> Result<Volume<'a>, String> {
        let mut volume = Volume::at(bench, image.into())?;
        volume.layout = Some(layout.into());
        volume.mkfs(&[&["--size", size], words].concat())?;
        Ok(volume)
    }

    /// Makes a volume in a file named after its layout, replacing an earlier one.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`.
    pub(crate) fn make_of(
        bench: &'a Bench,
        layout: &str,
        size: &str,
    ) -> Result<Volume<'a>, String> {
        let image = bench.dir.join(format!("{layout}.img"));
        let _ = std::fs::remove_file(&image);
        Volume::make_at(bench, &image, size, layout)
    }

    /// The same as [`Volume::make_at`] on a loop device over the file.
    ///
    /// # Errors
    /// The message of `twinfs mkfs`, or of `losetup`.
    pub(crate) fn make_on_loop_at(
        bench: &'a Bench,
        file: &Path,
        size: &str,
        layout: &str,
    ) -> Result<Volume<'a>, String> {
        bench.run(Command::new("truncate").args(["-s", size]).arg(file))?;
        let device = bench.run(Command::new("losetup").args(["--find", "--show"]).arg(file))?;
        let mut volume = Volume::at(bench, device.trim().into())?;
        (volume.attached, volume.layout) = (true, Some(layout.into()));
        volume.mkfs(&[])?;
        Ok(volume)
    }

    fn mkfs(&self, words: &[&str]) -> Result<(), String> {
        let layout: Vec<&str> = match &self.bench.mkfs[..] {
            [] => vec!["--layout", self.layout.as_deref().unwrap_or("lfs")],
            chosen => chosen.iter().map(String::as_str).collect(),
        };
        self.twinfs(&[&["mkfs"], &layout[..], words].concat(), &[&self.image]).map(drop)
    }

    fn at(bench: &'a Bench, image: PathBuf) -> Result<Volume<'a>, String> {
        let dir = bench.dir.join("mnt");
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(Volume {
            bench,
            image,
            dir,
            user: None,
            layout: None,
            options: Vec::new(),
            environment: Vec::new(),
            daemon: None,
            attached: false,
        })
    }

    /// Sets the options of later mounts.
    pub(crate) fn set_options(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.into()).collect();
    }

    /// Adds a variable to the environment of later commands.
    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.push((name.into(), value.into()));
    }

    /// The mounted root.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its image.
    pub(crate) fn image(&self) -> &Path {
        &self.image
    }

    /// Mounts it, and returns the duration.
    ///
    /// # Errors
    /// The message of `twinfs mount`; or that it is not mounted although the command succeeded.
    pub(crate) fn mount(&mut self) -> Result<Duration, String> {
        let watch = Stopwatch::start();
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        self.twinfs(&[&["mount"], &options[..]].concat(), &[&self.image, &self.dir])?;
        let took = watch.elapsed();
        self.daemon = Daemon::of_mount(&self.dir);
        if !self.is_mounted() || self.daemon.is_none() {
            return Err("twinfs mount succeeded, but nothing is mounted".into());
        }
        Ok(took)
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// The message of `twinfs umount`; or the mount or daemon that was left although it succeeded.
    pub(crate) fn umount(&mut self) -> Result<(), String> {
        self.twinfs(&["umount"], &[&self.dir])?;
        let left = self.daemon.take().is_some_and(|daemon| daemon.lives());
        match (self.is_mounted(), left) {
            (true, _) => Err("twinfs umount succeeded, but it is still mounted".into()),
            (false, true) => Err("twinfs umount succeeded, but its daemon still runs".into()),
            (false, false) => Ok(()),
        }
    }

    /// Checks that after an error the volume is still mounted, with its daemon.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn expect_mounted(&mut self) -> Result<(), String> {
        self.daemon = Daemon::of_mount(&self.dir);
        match self.is_mounted() && self.daemon.is_some() {
            true => Ok(()),
            false => Err("it is no longer mounted".into()),
        }
    }

    /// Checks that neither a mount nor a daemon is left.
    ///
    /// # Errors
    /// If one is.
    pub(crate) fn expect_gone(&self) -> Result<(), String> {
        match self.is_mounted() || Daemon::of_mount(&self.dir).is_some() {
            true => Err("a mount or its daemon is left".into()),
            false => Ok(()),
        }
    }

    /// Checks it; it must be unmounted.
    ///
    /// # Errors
    /// The findings of `twinfs check`.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.twinfs(&["check"], &[&self.image]).map(drop)
    }

    /// Reads all of it, too.
    ///
    /// # Errors
    /// The findings of `twinfs check --data`.
    pub(crate) fn check_data(&self) -> Result<(), String> {
        self.twinfs(&["check", "--data"], &[&self.image]).map(drop)
    }

    /// Unmounts it and checks it.
    ///
    /// # Errors
    /// As for the two.
    pub(crate) fn umount_and_check(&mut self) -> Result<(), String> {
        self.umount()?;
        self.check()
    }

    /// Unmounts it, checks it and mounts it again, so that later reads do not come from memory.
    ///
    /// # Errors
    /// As for the three.
    pub(crate) fn remount(&mut self) -> Result<(), String> {
        self.umount_and_check()?;
        self.mount().map(drop)
    }

    /// Kills the daemon. The dead mount stays until the next mount.
    pub(crate) fn kill9(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.kill();
        }
    }

    fn is_mounted(&self) -> bool {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        !mounts_below(&table, &self.dir).is_empty()
    }

    /// Runs the program, as the volume's user.
    fn twinfs(&self, words: &[&str], paths: &[&Path]) -> Result<String, String> {
        let mut command = match &self.user {
            None => Command::new(&self.bench.program),
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(&self.bench.program);
                command
            }
        };
        self.bench.run(command.args(words).args(paths).envs(self.environment.iter().cloned()))
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        daemon::kill_all(&self.dir);
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(&self.dir).output();
        }
        if self.attached {
            let _ = Command::new("losetup").arg("-d").arg(&self.image).output();
        }
    }
}
