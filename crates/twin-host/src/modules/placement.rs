//! Placement policies of modules.
//!
//! Contract: a class is one of those that are open. Behind a policy that is called no more, all blocks are of class 0.

#![allow(unsafe_code)] // Hooks of modules.

use twin_clean::inputs::{
    BlockKind, CleanerWrite, LogView, Needs, SegmentInfo, Setting, UserWrite,
};
use twin_clean::placement::{Placement, PlacementSpec};
use twin_policy::twinfs::log::Log;
use twin_policy::twinfs::placement::{Hooks, Write};

use super::cleaning::{log_of, needs_of, segment_of, setting_of};
use super::library::{Instance, Library};

/// The most classes of a log.
const CLASSES: u32 = 64;

/// The policy of a library, for its registry.
pub(super) fn spec(library: &'static Library) -> Result<PlacementSpec, String> {
    // SAFETY: the caller has seen that it is of this kind.
    let hooks: &'static Hooks = unsafe { library.hooks() };
    let (least, most) = (hooks.least_classes, hooks.most_classes);
    if least == 0 || least > most || most > CLASSES {
        return Err(format!(
            "{}: it says that it uses {least} to {most} classes: there are 1 to {CLASSES}",
            library.path
        ));
    }
    let make = move |setting: &Setting| -> Box<dyn Placement> {
        // SAFETY: hooks of a loaded library may be called on any thread.
        let policy = unsafe { (hooks.make)(&setting_of(setting)) };
        let instance = Instance::new(library, policy, hooks.drop);
        Box::new(Module { hooks, instance, classes: setting.open_segments.max(1) })
    };
    let bits = if hooks.keeps_words { 64 } else { 0 };
    let classes = least as u8..=most as u8;
    Ok(PlacementSpec::from_outside(&format!("module {}", library.path), classes, bits, make))
}

struct Module {
    hooks: &'static Hooks,
    instance: Instance,
    /// The number of open classes.
    classes: u8,
}

fn kind_of(kind: BlockKind) -> u32 {
    match kind {
        BlockKind::Data => 0,
        BlockKind::Directory => 1,
        BlockKind::Inode => 2,
        BlockKind::DirectoryInode => 3,
        BlockKind::Indirect => 4,
    }
}

fn seen(view: &LogView<'_>) -> Log {
    log_of(view, 0.0)
}

impl Module {
    /// The class in an answer.
    fn class(&mut self, hook: &str, answer: i64) -> u8 {
        match u8::try_from(answer) {
            Ok(class) if class < self.classes => class,
            Ok(class) => {
                let classes = self.classes;
                self.instance.broke(&format!("answered class {class} of {classes} to {hook}"));
                0
            }
            Err(_) => {
                self.instance.unexpected(hook, answer);
                0
            }
        }
    }
}

impl Placement for Module {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let Some(policy) = self.instance.policy() else { return 0 };
        let (block, old_segment, kind) = (write.block, write.old_segment, kind_of(write.kind));
        let write = Write { block, old_segment, old_class: 0, kind };
        // SAFETY: here and below the policy is one of these hooks, and what is lent lives until the call returns.
        let answer = unsafe { (self.hooks.user_write)(policy, &write, word, &seen(view)) };
        self.class("user_write", answer)
    }

    fn cleaner_write(&mut self, write: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let Some(policy) = self.instance.policy() else { return 0 };
        let (block, old_segment, kind) = (write.block, write.victim, kind_of(write.kind));
        let write = Write { block, old_segment, old_class: write.victim_class.into(), kind };
        // SAFETY: as above.
        let answer = unsafe { (self.hooks.cleaner_write)(policy, &write, word, &seen(view)) };
        self.class("cleaner_write", answer)
    }

    fn import_block(&mut self, written_at: u64, word: &mut u64, view: &LogView<'_>) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.import_block)(policy, written_at, word, &seen(view)) };
            self.instance.done("import_block", done);
        }
    }

    fn request(&mut self, first_block: u32, blocks: u32, view: &LogView<'_>) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.request)(policy, first_block, blocks, &seen(view)) };
            self.instance.done("request", done);
        }
    }

    fn trimmed(&mut self, block: u32, old_segment: u32, word: &mut u64, view: &LogView<'_>) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done =
                unsafe { (self.hooks.trimmed)(policy, block, old_segment, word, &seen(view)) };
            self.instance.done("trimmed", done);
        }
    }

    fn sealed(&mut self, segment: &SegmentInfo, view: &LogView<'_>) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.sealed)(policy, &segment_of(segment), &seen(view)) };
            self.instance.done("sealed", done);
        }
    }

    fn collected(&mut self, segment: &SegmentInfo, view: &LogView<'_>) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.collected)(policy, &segment_of(segment), &seen(view)) };
            self.instance.done("collected", done);
        }
    }

    fn needs(&self) -> Needs {
        needs_of(self.hooks.needs)
    }
}
