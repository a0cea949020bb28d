//! Error numbers are used only at the interface to the host's kernel or to a client.

use super::{Finding, Rule};
use crate::tree::Project;

/// The crate of the front ends. It also calls the host's kernel, which returns errno.
const HOST: &str = "twin-host";

/// Files that have words for errors because they read a text in which other programs spell them.
const SPELLED: &[&str] = &[
    // strace writes the error of a call as the name of its number; what it shows has words of our own.
    "crates/twin-trace/src/readers/strace/answers.rs",
];

/// The error numbers that file systems return.
const NUMBERS: &str = " EPERM ENOENT EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV \
    ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE \
    ERANGE ENAMETOOLONG ENOSYS ENOTEMPTY ELOOP ENODATA ENOTSUP EOPNOTSUPP EOVERFLOW ESTALE \
    EDQUOT ENOTCONN EINTR EBADMSG EUCLEAN ETIMEDOUT ";

/// Other names for error numbers.
const TYPES: &[&str] = &["Errno", "raw_os_error", "from_raw_os_error", "nfsstat3"];

pub(super) const RULE: Rule = Rule {
    name: "errno",
    about: "errno and NFS status codes exist only in front ends: below, errors are FsError",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        if matches!(file.krate(), Some(HOST | "xtask") | None) {
            continue;
        }
        let is_spelled = SPELLED.contains(&file.path.as_str());
        for token in &rust.tokens {
            let name = token.ident().unwrap_or_default();
            if is_number(name) || TYPES.contains(&name) || name.starts_with("NFS3ERR_") {
                let what = format!("{name}: use twin_fs::FsError, front ends translate");
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
        for (text, token) in rust.strings() {
            if is_number(text) && !is_spelled {
                let what = format!("{text:?}: use words, front ends translate");
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
    }
    findings
}

fn is_number(name: &str) -> bool {
    name.starts_with('E') && NUMBERS.contains(&format!(" {name} "))
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    #[test]
    fn error_numbers_below_the_front_ends_are_found() {
        for text in [
            "const A: i32 = ENOENT;",
            "fn f() -> Errno { g() }",
            "fn f() { error.raw_os_error(); }",
            "const A: &str = \"ENOSPC\";",
            "const A: u32 = NFS3ERR_IO;",
        ] {
            assert_eq!(lines(&RULE, "crates/twin-lfs/src/a.rs", text), [1], "{text}");
        }
    }

    #[test]
    fn front_ends_comments_and_other_names_are_not() {
        assert!(lines(&RULE, "crates/twin-host/src/a.rs", "const A: i32 = ENOENT;").is_empty());
        let text = "const A: &str = \"ENOSPC\";";
        assert!(lines(&RULE, SPELLED[0], text).is_empty());
        assert_eq!(lines(&RULE, SPELLED[0], "const A: i32 = ENOENT;"), [1]);
        for text in ["/// (ENOENT)\nstruct A;", "const E: u8 = 0;", "enum ELEMENT { E }"] {
            assert!(lines(&RULE, "crates/twin-lfs/src/a.rs", text).is_empty(), "{text}");
        }
    }
}
