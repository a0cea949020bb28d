//! A shared library with a policy: how it is opened, and what is checked first.

#![allow(unsafe_code)] // Shared libraries are loaded.

use std::ffi::{CStr, CString, c_void};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use sha2::{Digest as _, Sha256};
use twin_policy::twinfs::{ABI, Module, SYMBOL, TWINFS, Text, answer};

use super::fault::broke;
use crate::whole_files::bytes_of_file;

/// The largest library, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// The longest text that a module may say of itself.
const TEXT: usize = 1000;
/// More than there will ever be versions of the interface.
const VERSIONS: u32 = 1 << 16;
/// The longest words of a panic that are told.
const WORDS: usize = 500;

/// An open library, whose policy has passed the checks. It stays open until the process ends.
pub(super) struct Library {
    /// The path, as it was given.
    pub(super) path: String,
    /// The name that the policy gives itself.
    pub(super) name: String,
    /// What the policy says that it does.
    pub(super) about: String,
    pub(super) kind: u32,
    module: &'static Module,
}

/// A policy that was made, which ends when this is dropped.
pub(super) struct Instance {
    pub(super) library: &'static Library,
    /// Null if the policy is called no more.
    policy: *mut c_void,
    drop: unsafe extern "C" fn(*mut c_void),
}

impl Instance {
    /// A policy that the `make` of a library returned: null if it panicked.
    pub(super) fn new(
        library: &'static Library,
        policy: *mut c_void,
        drop: unsafe extern "C" fn(*mut c_void),
    ) -> Instance {
        if policy.is_null() {
            library.broke(&format!("panicked when it was made: {}", library.words()));
        }
        Instance { library, policy, drop }
    }

    /// The policy, for a call of a hook; none if it is called no more.
    pub(super) fn policy(&self) -> Option<*mut c_void> {
        (!self.policy.is_null()).then_some(self.policy)
    }

    /// Takes notice of an answer that is not expected: a panic, or a number that means nothing.
    pub(super) fn unexpected(&mut self, hook: &str, answer: i64) {
        match answer {
            answer::PANICKED => {
                let words = self.library.words();
                self.broke(&format!("panicked in {hook}: {words}"));
            }
            other => self.broke(&format!("answered {other} to {hook}, which means nothing")),
        }
    }

    /// As [`unexpected`](Self::unexpected), if the answer is not that all is well.
    #[inline]
    pub(super) fn done(&mut self, hook: &str, answer: i64) {
        if answer != answer::YES {
            self.unexpected(hook, answer);
        }
    }

    /// The policy is called no more.
    pub(super) fn broke(&mut self, what: &str) {
        self.library.broke(what);
        self.end();
    }

    fn end(&mut self) {
        let policy = std::mem::replace(&mut self.policy, std::ptr::null_mut());
        if !policy.is_null() {
            // SAFETY: the library made it, and it is given back once.
            unsafe { (self.drop)(policy) };
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.end();
    }
}

impl Library {
    /// Opens the library at a path; returns it with the digest of its content.
    ///
    /// # Errors
    /// If there is no file, it is no shared library, it has no policy, or one for another version of twinfs.
    pub(super) fn open(path: &str) -> Result<(&'static Library, String), String> {
        let bytes = bytes_of_file(Path::new(path), MOST_BYTES)?;
        let module = opened(path, &bytes)?;
        check_version(path, module)?;
        // SAFETY: a module of this version is a whole `Module`, and the library stays open.
        let module = unsafe { &*module };
        let text =
            |what: &str, text| read(text).ok_or_else(|| format!("{path}: its {what} is no text"));
        let (name, about) = (text("name", module.name)?, text("description", module.about)?);
        if module.hooks.is_null() || !module.hooks.cast::<u64>().is_aligned() {
            return Err(format!("{path}: it has no hooks"));
        }
        let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        let (path, kind) = (path.into(), module.kind);
        Ok((Box::leak(Box::new(Library { path, name, about, kind, module })), digest))
    }

    /// A library that is a part of this program, for tests.
    #[cfg(test)]
    pub(super) fn of(module: Module) -> &'static Library {
        let module: &'static Module = Box::leak(Box::new(module));
        let (name, about) = (read(module.name).unwrap(), read(module.about).unwrap());
        let path = format!("./{name}.so");
        Box::leak(Box::new(Library { path, name, about, kind: module.kind, module }))
    }

    /// The hooks of its kind.
    ///
    /// # Safety
    /// `T` is the table of the kind that the library says.
    pub(super) unsafe fn hooks<T>(&self) -> &'static T {
        // SAFETY: as the caller says; the table is constant, and the library stays open.
        unsafe { &*self.module.hooks.cast::<T>() }
    }

    fn broke(&self, what: &str) {
        broke(&self.path, &self.name, what);
    }

    /// The words of the last panic on this thread.
    fn words(&self) -> String {
        let mut buffer = [0; WORDS];
        // SAFETY: the buffer has as many bytes as it is told.
        let bytes = unsafe { (self.module.words)(buffer.as_mut_ptr(), buffer.len()) };
        String::from_utf8_lossy(&buffer[..bytes.min(WORDS)]).into_owned()
    }
}

/// Loads a copy of a library that is in memory, and finds what it exports.
fn opened(path: &str, bytes: &[u8]) -> Result<*const Module, String> {
    let copy = memfd_create("twinfs-policy", MemfdFlags::CLOEXEC);
    let copy = copy.map_err(|error| format!("{path}: no memory for a copy: {error}"))?;
    let mut copy = std::fs::File::from(copy);
    copy.write_all(bytes).map_err(|error| format!("{path}: no memory for a copy: {error}"))?;
    let place = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let (name, symbol) = (CString::new(place.as_str()), CString::new(SYMBOL));
    let (Ok(name), Ok(symbol)) = (name, symbol) else {
        return Err(format!("{path}: no such name"));
    };
    // SAFETY: both texts end with a zero. Code of the library that runs when it is loaded is its own affair.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        let why = last_error();
        let why = why.strip_prefix(&format!("{place}: ")).unwrap_or(&why);
        return Err(format!("{path}: it is no shared library that can be loaded here: {why}"));
    }
    // The system knows a library by the name with which it was opened. The descriptor stays open, so that no other copy
    // gets its number and is taken for this one.
    std::mem::forget(copy);
    // SAFETY: the handle is open, and the text ends with a zero.
    let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if found.is_null() {
        // SAFETY: nothing of the library is in use.
        unsafe { libc::dlclose(handle) };
        return Err(format!(
            "{path}: it has no policy: it does not export {SYMBOL}; `twinfs new-policy` writes a crate that does"
        ));
    }
    // The handle is kept for ever.
    Ok(found.cast())
}

fn last_error() -> String {
    // SAFETY: the text is valid until the next call, on this thread, of a function on libraries.
    let text = unsafe { libc::dlerror() };
    match text.is_null() {
        true => "nobody knows why".into(),
        // SAFETY: as above; it ends with a zero.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

/// Checks the version of a module, of which no more than that is read.
fn check_version(path: &str, module: *const Module) -> Result<(), String> {
    let no_policy = || Err(format!("{path}: what it exports as {SYMBOL} is no policy"));
    if !module.is_aligned() {
        return no_policy();
    }
    // SAFETY: what is exported begins with these two fields in every version.
    let (abi, built_with) = unsafe { ((*module).abi, (*module).built_with) };
    match abi {
        ABI => return Ok(()),
        0 | VERSIONS.. => return no_policy(),
        _ => {}
    }
    let built_with = read(built_with).unwrap_or_else(|| "of an unknown version".into());
    Err(format!(
        "{path}: it was built with the interface of twinfs {built_with}, version {abi}; this is twinfs {TWINFS}, which \
         has version {ABI}: write the interface anew with `twinfs new-policy` of this twinfs, and build it again"
    ))
}

/// A text of a module.
fn read(text: Text) -> Option<String> {
    if text.start.is_null() || text.bytes > TEXT {
        return None;
    }
    // SAFETY: a module's texts are constant and as long as it says.
    let bytes = unsafe { std::slice::from_raw_parts(text.start, text.bytes) };
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains(char::is_control)).then(|| text.into())
}
