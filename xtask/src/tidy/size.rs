//! Files and functions are short enough to be read at once.

use super::{Finding, Rule};
use crate::tree::Project;

/// Maximum number of lines in a file.
const FILE_MAX: usize = 800;
/// Maximum number of lines in a function, from `fn` to its closing brace.
const FUNCTION_MAX: usize = 70;

/// Files that may be longer: path and the reason.
const EXCEPTIONS: &[(&str, &str)] = &[];

pub(super) const RULE: Rule = Rule {
    name: "size",
    about: "files of at most 800 lines, functions of at most 70: longer ones do two jobs",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        let code = [".rs", ".py", ".js", ".c", ".sh"].iter().any(|end| file.path.ends_with(end));
        if !code || EXCEPTIONS.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        let lines = file.text.lines().count();
        if lines > FILE_MAX {
            let what = format!("{lines} lines: part it by its jobs");
            findings.push(Finding::new(&file.path, 0, what));
        }
        for function in file.tokens().map(|rust| rust.functions()).unwrap_or_default() {
            if function.lines > FUNCTION_MAX {
                let what = format!("fn {} has {} lines", function.name, function.lines);
                findings.push(Finding::new(&file.path, function.line, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    #[test]
    fn a_long_file_is_found_and_one_at_the_limit_is_not() {
        assert_eq!(lines(&RULE, "a.rs", &"\n".repeat(FILE_MAX + 1)), [0]);
        assert!(lines(&RULE, "a.rs", &"\n".repeat(FILE_MAX)).is_empty());
        assert!(lines(&RULE, "a.md", &"\n".repeat(FILE_MAX + 1)).is_empty());
    }

    #[test]
    fn a_long_function_is_found_and_one_at_the_limit_is_not() {
        let function = |lines| format!("\nfn a() {{{}}}", "\n".repeat(lines - 1));
        assert_eq!(lines(&RULE, "a.rs", &function(FUNCTION_MAX + 1)), [2]);
        assert!(lines(&RULE, "a.rs", &function(FUNCTION_MAX)).is_empty());
    }
}
