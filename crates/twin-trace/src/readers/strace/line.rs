//! Lines of strace's output, as calls with their arguments.
//!
//! Contract: a line has an optional number of the process (`123`, or `[pid 123]` without `-o`), an optional
//! time (see [`Clock`]), the marks of `-n` and `-i`, and a call with its result, or the first or the second
//! half of one; the halves are put together. What is not a call is told apart: signals, ends of processes,
//! notes of strace itself, the stacks of `-k`, the table of `-C`. Nothing is looked up: names and paths are
//! those of the line. Memory is bounded by the halves that wait, one for each process.
//!
//! Without `-o`, strace writes where the program writes its own output and errors, which may stand between
//! lines and within them. So in a text whose lines do not begin with the number of a process, a call that
//! is interrupted is put together again, and what is no call is told apart, not refused.

use twin_rt::{FixedMap, Nanos};

use super::args::number;
use super::brackets::{is_path, past_path, past_string};
use super::call::Call;
use super::clock::{Clock, nanos};

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Call(Call),
    /// The first half of a call, with the arguments that it has; its result is not known.
    Begun(Call),
    /// A process has ended.
    Exit {
        pid: Option<u32>,
        at_ns: Option<Nanos>,
    },
    /// A note that is no call and means no file: a signal, a stack, a table.
    Note,
    /// The second half of a call whose first is not in the text.
    Half(String),
    /// The number of lines before this one that are not strace's.
    Output {
        count: u64,
    },
}

/// The first half of a call: when it began, and its text.
type Half = (Option<Nanos>, String);

/// Both halves of a call.
struct Joined {
    pid: Option<u32>,
    began: Option<Nanos>,
    whole: String,
}

/// The parser, which keeps the first halves of calls by process.
#[derive(Default)]
pub(super) struct Parser {
    unfinished: FixedMap<Option<u32>, Half>,
    clock: Clock,
    /// The table of `-C` has begun: nothing but its rows follows.
    in_table: bool,
    /// Lines begin with the number of a process, as they do with `-o`.
    has_numbers: bool,
    /// The beginning of a call into which something else was written.
    broken: Option<String>,
    /// The process of the line before, if that was the first half of a call.
    cut: Option<Option<u32>>,
}

const UNFINISHED: &str = "<unfinished ...>";
const DETACHED: &str = "<detached ...>";

/// The beginning of the table of `-c` and `-C`.
pub(super) const TABLE: &str = "% time ";

impl Parser {
    /// Reads a line.
    pub(super) fn line(&mut self, line: &str) -> Result<Said, String> {
        if self.is_note(line) {
            return Ok(Said::Note);
        }
        if let Some(pid) = self.cut.take()
            && let Some(call) = self.rest_of(pid, line)
        {
            return Ok(Said::Call(call));
        }
        if self.has_numbers {
            return self.whole(line);
        }
        let end = line.trim_start();
        if let Some(first) = &self.broken
            && (end.starts_with(UNFINISHED) || end.starts_with(')') && end.contains(" = "))
            && let Ok(said) = {
                let whole = format!("{first}{line}");
                self.whole(&whole)
            }
        {
            self.broken = None;
            return Ok(said);
        }
        // A note may be written behind the beginning of a call.
        if let Some((first, note)) = line.split_once("strace: ")
            && is_of_strace(&line[first.len()..])
            && note.ends_with("attached")
        {
            self.broken = Some(first.to_owned());
            return Ok(Said::Note);
        }
        let said = self.whole(line);
        // What was cut by a note may go on with any of its arguments. A line that is whole by itself comes
        // first: behind the beginning of a call it could be read as an argument.
        if said.is_err()
            && let Some(first) = &self.broken
            && let Ok(joined) = {
                let whole = format!("{first}{line}");
                self.whole(&whole)
            }
        {
            self.broken = None;
            return Ok(joined);
        }
        if said.is_err()
            && let Some(first) = before_output(line)
        {
            self.broken = Some(first.to_owned());
            return Ok(Said::Note);
        }
        said
    }

    /// The call whose first half is on the line before, and whose second half has no beginning of its own:
    /// so `-z` prints it.
    fn rest_of(&mut self, pid: Option<u32>, line: &str) -> Option<Call> {
        let (began, first) = self.unfinished.get(&pid)?;
        if line.starts_with(|c: char| c.is_ascii_alphanumeric()) || line.starts_with("[pid") {
            return None;
        }
        let call = whole_call(pid, *began, &format!("{first}{line}")).ok()?;
        self.unfinished.remove(&pid);
        Some(call)
    }

    /// True if the output of the program may stand between the lines.
    pub(super) fn may_be_mixed(&self) -> bool {
        !self.has_numbers
    }

    /// Reads a line that begins where a line of strace does.
    fn whole(&mut self, line: &str) -> Result<Said, String> {
        let (pid, rest, column) = process(line)?;
        self.has_numbers |= pid.is_some() && !line.trim_start().starts_with('[');
        let (at_ns, rest) = self.clock.read(rest, column)?;
        let rest = without_marks(rest);
        if rest.starts_with("+++ exited") || rest.starts_with("+++ killed") {
            return Ok(Said::Exit { pid, at_ns });
        }
        if rest.starts_with("---") || rest.starts_with("+++") || is_of_strace(rest) {
            return Ok(Said::Note);
        }
        let end = rest.trim_end();
        if let Some(first) = end.strip_suffix(UNFINISHED).or_else(|| end.strip_suffix(DETACHED)) {
            // A second half may be cut again, by a restart.
            let first = match first.strip_prefix("<... ") {
                None => first.trim_end().to_owned(),
                Some(resumed) => match self.joined(pid, resumed)? {
                    Some(joined) => joined.whole,
                    None => return Ok(Said::Half(first_word(resumed).to_owned())),
                },
            };
            let begun = begun(pid, at_ns, &first);
            self.cut = Some(pid);
            self.unfinished.insert(pid, (at_ns, first));
            return Ok(begun.map_or(Said::Note, Said::Begun));
        }
        let (pid, began, whole, is_joined) = match rest.strip_prefix("<... ") {
            None => (pid, at_ns, rest.to_owned(), false),
            Some(resumed) => match self.joined(pid, resumed)? {
                Some(Joined { pid, began, whole }) => (pid, began, whole, true),
                // The trace may begin in the middle of a call.
                None => return Ok(Said::Half(first_word(resumed).to_owned())),
            },
        };
        let mut call = whole_call(pid, began, &whole)?;
        if let (true, 0, Some(began), Some(ended)) = (is_joined, call.took_ns, began, at_ns) {
            call.took_ns = ended.saturating_sub(began);
        }
        Ok(Said::Call(call))
    }

    /// True if times have less than a second.
    pub(super) fn is_fine(&self) -> bool {
        self.clock.is_fine()
    }

    /// Calls that had not returned where the text ends.
    pub(super) fn halves(&self) -> u64 {
        self.unfinished.len() as u64
    }

    /// The second half of a call, behind its first; `None` if there is no first. Without `-o` a process has
    /// its number on a line only while there are others.
    fn joined(&mut self, pid: Option<u32>, resumed: &str) -> Result<Option<Joined>, String> {
        let (name, second) =
            resumed.split_once("resumed>").ok_or("the second half of a call has no name")?;
        let first = self.unfinished.remove_entry(&pid).or_else(|| {
            let start = format!("{}(", name.trim());
            let is_it = |(other, half): (&Option<u32>, &Half)| {
                let may_be = pid.is_none() || other.is_none();
                (may_be && half.1.starts_with(&start)).then_some(*other)
            };
            let found = self.unfinished.iter().filter_map(is_it).min()?;
            self.unfinished.remove_entry(&found)
        });
        let Some((other, (began, first))) = first else { return Ok(None) };
        Ok(Some(Joined { pid: pid.or(other), began, whole: first + second }))
    }

    /// True for lines without the beginning that calls have.
    fn is_note(&mut self, line: &str) -> bool {
        self.in_table |= line.starts_with(TABLE);
        let line = line.trim_start();
        self.in_table || line.starts_with("> ") || is_of_strace(line)
    }
}

/// The beginning of a call whose arguments do not end, up to what the program wrote behind them: only a call
/// that writes can be followed by output at once, and its last argument is a number.
fn before_output(line: &str) -> Option<&str> {
    let at = line.find("write(").or_else(|| line.find("writev("))?;
    let from = at + line[at..].find('(')? + 1;
    let bytes = line.as_bytes();
    let (mut at, mut depth, mut commas) = (from, 0usize, 0);
    while commas < 2 {
        match bytes.get(at)? {
            b'"' => at = past_string(bytes, at)?,
            b'<' if is_path(bytes, at) => at = past_path(bytes, at)?,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => commas += 1,
            _ => {}
        }
        at += 1;
    }
    let digits = line[at..].strip_prefix(' ')?;
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0).then(|| &line[..at + 1 + count])
}

/// Notes of strace about itself and its processes.
fn is_of_strace(line: &str) -> bool {
    line.starts_with("strace: ")
        || line.starts_with("[ Process PID=")
        || line.starts_with("Process ")
            && line.split_whitespace().nth(2).is_some_and(|word| {
                matches!(word, "attached" | "detached" | "suspended" | "resumed" | "created")
            })
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// Without the number of the call (`-n`) and the instruction pointer (`-i`).
fn without_marks(mut rest: &str) -> &str {
    while let Some((mark, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        let is_mark = |c: char| c.is_ascii_hexdigit() || matches!(c, ' ' | '?');
        if !mark.chars().all(is_mark) {
            break;
        }
        rest = after.trim_start();
    }
    rest
}

/// The name of a call, and the text behind its bracket.
fn name_of(text: &str) -> Result<(&str, &str), String> {
    let (name, rest) = text.split_once('(').ok_or("a call has no arguments in brackets")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '?';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("{name:?} is no name of a call"));
    }
    Ok((name, rest))
}

fn whole_call(pid: Option<u32>, at_ns: Option<Nanos>, text: &str) -> Result<Call, String> {
    let (name, rest) = name_of(text)?;
    let (args, after) = arguments(rest).ok_or("the arguments of a call do not end")?;
    let after = after.trim_start();
    let result = after.strip_prefix('=').ok_or("a call has no result")?.trim();
    let (result, took_ns) = took(result);
    let (name, said) = (name.to_owned(), result.to_owned());
    Ok(Call { pid, at_ns, took_ns, name, args, result: number(result), said })
}

/// The first half of a call, with all arguments that are whole.
fn begun(pid: Option<u32>, at_ns: Option<Nanos>, text: &str) -> Option<Call> {
    let (name, rest) = name_of(text).ok()?;
    let closed = format!("{rest})");
    let args = arguments(rest).or_else(|| arguments(&closed)).map(|(args, _)| args)?;
    let (name, said) = (name.to_owned(), String::new());
    Some(Call { pid, at_ns, took_ns: 0, name, args, result: None, said })
}

/// The number of the process, if there is one, and where the rest of the line begins: it is padded.
fn process(line: &str) -> Result<(Option<u32>, &str, usize), String> {
    let trimmed = line.trim_start();
    if let Some(rest) = trimmed.strip_prefix("[pid") {
        let (digits, rest) = rest.split_once(']').ok_or("[pid is not closed")?;
        let pid = digits.trim().parse().map_err(|_| "[pid has no number")?;
        return Ok((Some(pid), rest.strip_prefix(' ').unwrap_or(rest), 0));
    }
    let (digits, rest) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
    match digits.parse() {
        // A number is padded to five places.
        Ok(pid) if !rest.is_empty() => Ok((Some(pid), rest, 5usize.saturating_sub(digits.len()))),
        _ => Ok((None, line, 0)),
    }
}

/// The arguments up to the bracket that ends them, and the text behind it.
fn arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let (mut args, mut depth, mut start) = (Vec::new(), 0usize, 0);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&c) = bytes.get(at) {
        match c {
            b'"' => at = past_string(bytes, at)?,
            b'<' if is_path(bytes, at) => at = past_path(bytes, at)?,
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at += text[at..].find("*/")? + 1;
            }
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b')' if depth > 0 => depth -= 1,
            b')' => {
                let last = text[start..at].trim();
                if !(last.is_empty() && args.is_empty()) {
                    args.push(last.to_owned());
                }
                return Some((args, &text[at + 1..]));
            }
            b',' if depth == 0 => {
                args.push(text[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// How long a call took, `<0.000123>` at the end, and what stands before it.
fn took(text: &str) -> (&str, Nanos) {
    let last = text.rsplit_once(" <").and_then(|(before, last)| {
        let ns = nanos(last.strip_suffix('>')?)?;
        Some((before.trim_end(), ns))
    });
    last.unwrap_or((text, 0))
}

#[cfg(test)]
mod tests {
    use twin_rt::SECS;

    use super::*;
    use crate::readers::strace::args::{AT_FDCWD, string};

    fn call(line: &str) -> Call {
        match Parser::default().line(line) {
            Ok(Said::Call(call)) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_has_its_process_time_arguments_and_result() {
        let line = "12 1700000000.5 openat(AT_FDCWD</tmp/a b>, \"x,\\\")\\n\", O_RDWR|O_CREAT, 0666) = 3</tmp/x> <0.000036>";
        let call = call(line);
        assert_eq!((call.pid, call.at_ns), (Some(12), Some(1_700_000_000_500_000_000)));
        assert_eq!((call.name.as_str(), call.result, call.took_ns), ("openat", Some(3), 36_000));
        assert_eq!(call.args.len(), 4);
        assert_eq!(string(&call.args[1]), Some(b"x,\")\n".to_vec()));
        assert_eq!(call.descriptor(0).unwrap().0, AT_FDCWD);
        assert_eq!(call.descriptor(0).unwrap().1.unwrap().bytes, b"/tmp/a b");
        assert_eq!(call.said, "3</tmp/x>");
    }

    #[test]
    fn halves_of_a_call_are_put_together() {
        let mut parser = Parser::default();
        let half = parser.line("5 1.0 read(3</a>,  <unfinished ...>");
        assert!(matches!(half, Ok(Said::Begun(_))), "{half:?}");
        assert!(matches!(parser.line("6 1.5 close(4) = 0"), Ok(Said::Call(_))));
        let whole = parser.line("5 2.0 <... read resumed>\"abc\", 3) = 3 <1.0>");
        let Ok(Said::Call(call)) = whole else { panic!("{whole:?}") };
        assert_eq!((call.at_ns, call.args.len(), call.result), (Some(SECS), 3, Some(3)));
        let lost = parser.line("5 2.0 <... read resumed>\"abc\", 3) = 3 <1.0>");
        assert_eq!(lost, Ok(Said::Half("read".into())));
    }

    #[test]
    fn a_second_half_without_a_beginning_belongs_to_the_line_before() {
        let mut parser = Parser::default();
        parser.line("5 1.0 close(3</a> <unfinished ...>").unwrap();
        let whole = parser.line(")            = 0 <0.000007>").unwrap();
        let Said::Call(call) = whole else { panic!("{whole:?}") };
        assert_eq!((call.pid, call.args.len(), call.result), (Some(5), 1, Some(0)));
        assert!(parser.line(")            = 0 <0.000007>").is_err());
    }

    #[test]
    fn halves_belong_together_though_only_one_has_the_number_of_the_process() {
        let mut parser = Parser::default();
        parser.line("vfork( <unfinished ...>").unwrap();
        let whole = parser.line("[pid 5] <... vfork resumed>) = 6").unwrap();
        assert!(
            matches!(whole, Said::Call(Call { pid: Some(5), result: Some(6), .. })),
            "{whole:?}"
        );
        parser.line("[pid 5] wait4(-1,  <unfinished ...>").unwrap();
        let whole = parser.line("<... wait4 resumed>NULL, 0, NULL) = 6").unwrap();
        assert!(matches!(whole, Said::Call(Call { pid: Some(5), .. })), "{whole:?}");
    }

    #[test]
    fn a_line_of_another_process_is_no_second_half() {
        let mut parser = Parser::default();
        parser
            .line("[pid 5] mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0 <unfinished ...>")
            .unwrap();
        parser.line("[pid 6] read(3,  <unfinished ...>").unwrap();
        let whole = parser.line("[pid 5] <... mmap resumed>) = 0x7fa522906000").unwrap();
        let Said::Call(call) = whole else { panic!("{whole:?}") };
        assert_eq!((call.pid, call.name.as_str()), (Some(5), "mmap"));
    }

    #[test]
    fn a_call_in_halves_without_its_duration_took_the_time_between_them() {
        let mut parser = Parser::default();
        parser.line("5 10:00:01.5 fsync(3 <unfinished ...>").unwrap();
        let whole = parser.line("5 10:00:02.25 <... fsync resumed>) = 0").unwrap();
        let Said::Call(call) = whole else { panic!("{whole:?}") };
        assert_eq!(call.took_ns, SECS * 3 / 4);
    }

    #[test]
    fn brackets_within_the_paths_of_descriptors_do_not_end_them() {
        for (line, args) in [
            ("write(1</dev/pts/0<char 136:0>>, \"a\", 1) = 1", 3),
            ("write(1<TCP:[127.0.0.1:80->127.0.0.1:9]>, \"a\", 1) = 1", 3),
            ("write(1<UNIX-STREAM:[5->6,\"/run/a>,b\"]>, \"a\", 1) = 1", 3),
            ("write(1</w/a\\74b\\76c>, \"a\", 1) = 1", 3),
            ("openat(-100 /* AT_FDCWD */, \"a\", 0x241 /* O_WRONLY|O_CREAT */, 0666) = 3", 4),
            ("wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 12", 4),
        ] {
            assert_eq!(call(line).args.len(), args, "{line}");
        }
    }

    #[test]
    fn numbers_of_calls_and_instruction_pointers_are_passed_by() {
        let marked = call("7     [ 257] [00007ff7622d0843] close(3) = 0");
        assert_eq!((marked.pid, marked.name.as_str()), (Some(7), "close"));
    }

    #[test]
    fn notes_of_strace_are_no_calls() {
        for line in [
            "strace: Process 7 attached",
            "Process 7 detached",
            "[ Process PID=7 runs in 32 bit mode. ]",
            " > /lib/libc.so.6(open64+0x56) [0xf7c36]",
            "7 --- SIGCHLD {si_signo=SIGCHLD} ---",
            "7 +++ superseded by execve in pid 9 +++",
            "% time     seconds  usecs/call     calls    errors syscall",
        ] {
            assert_eq!(Parser::default().line(line), Ok(Said::Note), "{line}");
        }
        let mut parser = Parser::default();
        for line in [
            "% time     seconds  usecs/call     calls    errors syscall",
            "------ ----------- ----------- --------- --------- ----------------",
            " 50.00    0.000010           5         2         1 openat",
            "100.00    0.000000           0         2           total",
        ] {
            assert_eq!(parser.line(line), Ok(Said::Note), "{line}");
        }
    }

    #[test]
    fn calls_into_which_something_else_was_written_are_put_together() {
        let mut parser = Parser::default();
        for line in ["vfork(strace: Process 22409 attached", "write(2, \"a(\\n\", 3a("] {
            assert_eq!(parser.line(line), Ok(Said::Note), "{line}");
            let next = if line.starts_with('v') { " <unfinished ...>" } else { ") = 3" };
            match parser.line(next) {
                Ok(Said::Begun(call)) => assert_eq!(call.name, "vfork"),
                Ok(Said::Call(call)) => assert_eq!((call.args.len(), call.result), (3, Some(3))),
                other => panic!("{other:?}"),
            }
        }
    }

    /// On a busy machine a note cut a read of one byte in two, and the byte was lost: its second half begins
    /// with an argument, and the process has gone on before another's line.
    #[test]
    fn a_call_that_a_note_cut_goes_on_with_any_argument() {
        let mut parser = Parser::default();
        let line = "[pid 7] 02:50:30.335371 read(6</w/h>, strace: Process 9 attached";
        assert_eq!(parser.line(line), Ok(Said::Note));
        let other = parser.line("[pid 8] 02:50:30.335380 close(4) = 0");
        assert!(matches!(other, Ok(Said::Call(call)) if call.name == "close"));
        match parser.line("\"h\", 1) = 1 <0.000160>") {
            Ok(Said::Call(call)) => {
                assert_eq!((call.pid, call.result, call.args.len()), (Some(7), Some(1), 3));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_line_of_strace_is_refused() {
        for line in [
            "hello world",
            "1 2.0 open(\"a",
            "5 1.0 close(3)",
            "1 x.y close(3) = 0",
            "(a) = 0",
            "1:1:1:1:1 close(3) = 0",
            "0:59:18446744073 close(3) = 0",
        ] {
            assert!(Parser::default().line(line).is_err(), "{line}");
        }
    }
}
