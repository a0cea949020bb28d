//! Lines of strace's output, as calls with their arguments.
//!
//! Contract: a line has an optional number of the process (`123` or `[pid 123]`), an optional time
//! (`-ttt` or `-tt`), and a call with its result, or the first or the second half of one; the halves
//! are put together. What is not a call (signals, ends of processes) is told apart. Nothing is
//! looked up: names and paths are those of the line.

use twin_rt::{FixedMap, Nanos, SECS};

/// A finished call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) pid: u32,
    /// When it began; `None` without times.
    pub(super) at_ns: Option<Nanos>,
    /// How long it took, if that is known.
    pub(super) took_ns: Nanos,
    pub(super) name: String,
    pub(super) args: Vec<String>,
    /// The result; `None` for an error, or if it never returned.
    pub(super) result: Option<i64>,
}

/// The descriptor that stands for the working directory.
pub(super) const AT_FDCWD: i64 = -100;

impl Call {
    /// The descriptor and path of an argument, as `3</tmp/a>` and `AT_FDCWD</tmp>`.
    pub(super) fn descriptor(&self, arg: usize) -> Option<(i64, Option<&str>)> {
        let text = self.args.get(arg)?;
        let (number, path) = match text.split_once('<') {
            Some((number, rest)) => (number, rest.rsplit_once('>').map(|(path, _)| path)),
            None => (text.as_str(), None),
        };
        let number = match number {
            "AT_FDCWD" => AT_FDCWD,
            digits => digits.parse().ok()?,
        };
        Some((number, path))
    }

    /// An argument that is a number, or points to one, as `[7]`.
    pub(super) fn number(&self, arg: usize) -> Option<u64> {
        let text = self.args.get(arg)?.trim_start_matches('[');
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    }

    /// The length of a file that the call tells.
    pub(super) fn says_size(&self) -> Option<u64> {
        self.result?;
        let text = self.args.iter().find_map(|arg| {
            let named = arg.split_once("st_size=").or_else(|| arg.split_once("stx_size="));
            named.map(|(_, text)| text)
        })?;
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    }

    /// Whether a file is a directory, if the call tells it.
    pub(super) fn says_dir(&self) -> Option<bool> {
        let told = self.args.iter().find(|arg| arg.contains("_mode=S_IF"));
        told.map(|told| told.contains("_mode=S_IFDIR"))
    }
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Call(Call),
    /// A process has ended.
    Exit {
        pid: u32,
        at_ns: Option<Nanos>,
    },
    /// Half of a call, or something else.
    Nothing,
}

impl Said {
    /// The process; 1 if there is none.
    pub(super) fn pid(&self) -> u32 {
        match self {
            Said::Call(call) => call.pid,
            Said::Exit { pid, .. } => *pid,
            Said::Nothing => 1,
        }
    }

    pub(super) fn at_ns(&self) -> Option<Nanos> {
        match self {
            Said::Call(call) => call.at_ns,
            Said::Exit { at_ns, .. } => *at_ns,
            Said::Nothing => None,
        }
    }
}

/// The parser, which keeps the first halves of calls by process.
#[derive(Default)]
pub(super) struct Parser {
    unfinished: FixedMap<u32, (Option<Nanos>, String)>,
}

const UNFINISHED: &str = "<unfinished ...>";

impl Parser {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is no line of strace.
    pub(super) fn line(&mut self, line: &str) -> Result<Said, String> {
        let (pid, rest) = process(line)?;
        let (at_ns, rest) = time(rest)?;
        if rest.starts_with("+++") {
            return Ok(Said::Exit { pid, at_ns });
        }
        if rest.starts_with("---") || rest.starts_with("strace:") {
            return Ok(Said::Nothing);
        }
        if let Some(first) = rest.trim_end().strip_suffix(UNFINISHED) {
            self.unfinished.insert(pid, (at_ns, first.trim_end().to_owned()));
            return Ok(Said::Nothing);
        }
        let (began, whole) = match rest.strip_prefix("<... ") {
            None => (at_ns, rest.to_owned()),
            Some(resumed) => {
                let (_, second) = resumed
                    .split_once("resumed>")
                    .ok_or("the second half of a call has no name")?;
                // The trace may begin in the middle of a call.
                let Some((began, first)) = self.unfinished.remove(&pid) else {
                    return Ok(Said::Nothing);
                };
                (began, first + second)
            }
        };
        let (name, rest) = whole.split_once('(').ok_or("a call has no arguments in brackets")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("{name:?} is no name of a call"));
        }
        let (args, after) = arguments(rest)?;
        let after = after.trim_start();
        let result = after.strip_prefix('=').ok_or("a call has no result")?.trim();
        let took_ns = took(result);
        let result = number(result);
        let name = name.to_owned();
        Ok(Said::Call(Call { pid, at_ns: began, took_ns, name, args, result }))
    }
}

/// The number of the process, 1 if there is none.
fn process(line: &str) -> Result<(u32, &str), String> {
    let line = line.trim_start();
    let (digits, rest) = match line.strip_prefix("[pid") {
        Some(rest) => rest.split_once(']').ok_or("[pid is not closed")?,
        None => line.split_once(' ').unwrap_or((line, "")),
    };
    match digits.trim().parse() {
        Ok(pid) => Ok((pid, rest.trim_start())),
        Err(_) => Ok((1, line)),
    }
}

/// The time: seconds with a fraction, or hours, minutes and seconds.
fn time(line: &str) -> Result<(Option<Nanos>, &str), String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok((None, line));
    }
    let mut seconds = 0;
    let parts = word.split(':').count();
    if parts > 3 {
        return Err(format!("the time should be hours, minutes and seconds, not {word:?}"));
    }
    for (at, part) in word.split(':').enumerate() {
        let wrong = || format!("the time should be a number, not {word:?}");
        seconds = match at + 1 == parts {
            true => nanos(part)
                .and_then(|part| part.checked_add(seconds * 60 * SECS))
                .ok_or_else(wrong)?,
            false => {
                let part: u64 = part.parse().ok().filter(|part| *part < 60).ok_or_else(wrong)?;
                seconds * 60 + part
            }
        };
    }
    Ok((Some(seconds), rest.trim_start()))
}

/// Seconds with a fraction, in nanoseconds.
fn nanos(text: &str) -> Option<Nanos> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let fraction: u64 = digits.parse().ok()?;
    whole.checked_mul(SECS)?.checked_add(fraction)
}

/// The arguments up to the bracket that ends them, and what comes after it.
fn arguments(text: &str) -> Result<(Vec<String>, &str), String> {
    let (mut args, mut depth, mut start) = (Vec::new(), 0usize, 0);
    let (mut quoted, mut escaped, mut path) = (false, false, false);
    for (at, c) in text.char_indices() {
        if quoted || path {
            let ends = !escaped && (if quoted { c == '"' } else { c == '>' });
            escaped = !escaped && c == '\\';
            if ends {
                (quoted, path) = (false, false);
            }
            continue;
        }
        match c {
            '"' => quoted = true,
            // The path of a descriptor; `<` also stands between numbers.
            '<' if text[..at].ends_with(|c: char| c.is_ascii_digit() || c == 'D') => path = true,
            '{' | '[' | '(' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ')' if depth > 0 => depth -= 1,
            ')' => {
                args.push(text[start..at].trim().to_owned());
                return Ok((args, &text[at + 1..]));
            }
            ',' if depth == 0 => {
                args.push(text[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    Err("the arguments of a call do not end".into())
}

/// The number at the beginning of a result that is no error.
fn number(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// How long a call took: `<0.000123>` at the end.
fn took(text: &str) -> Nanos {
    let last = text.rsplit_once(" <").and_then(|(_, last)| last.strip_suffix('>'));
    last.and_then(nanos).unwrap_or(0)
}

/// The bytes of a string in quotes; `None` if it is none, or not whole.
pub(super) fn string(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let (mut bytes, mut at) = (Vec::with_capacity(inner.len()), 0);
    while at < inner.len() {
        let byte = inner[at];
        at += 1;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits = |from: usize, most: usize, radix: u32| {
            let is = |byte: &&u8| char::from(**byte).is_digit(radix);
            let count = inner.iter().skip(from).take(most).take_while(is).count();
            let text = std::str::from_utf8(&inner[from..from + count]).ok()?;
            Some((u32::from_str_radix(text, radix).ok()? as u8, count))
        };
        let kind = *inner.get(at)?;
        let (byte, count) = match kind {
            b'0'..=b'7' => digits(at, 3, 8)?,
            b'x' => digits(at + 1, 2, 16).map(|(byte, count)| (byte, count + 1))?,
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'r' => (b'\r', 1),
            b'v' => (11, 1),
            b'f' => (12, 1),
            other => (other, 1),
        };
        bytes.push(byte);
        at += count;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((call.pid, call.at_ns), (12, Some(1_700_000_000_500_000_000)));
        assert_eq!((call.name.as_str(), call.result, call.took_ns), ("openat", Some(3), 36_000));
        assert_eq!(call.args.len(), 4);
        assert_eq!(string(&call.args[1]), Some(b"x,\")\n".to_vec()));
        assert_eq!(call.descriptor(0), Some((AT_FDCWD, Some("/tmp/a b"))));
    }

    #[test]
    fn times_of_the_day_and_no_times_are_read() {
        assert_eq!(call("10:00:01.25 close(3) = 0").at_ns, Some(36_001 * SECS + SECS / 4));
        let plain = call("[pid  7] close(3)       = -1 EBADF (Bad file descriptor)");
        assert_eq!((plain.pid, plain.at_ns, plain.result), (7, None, None));
    }

    #[test]
    fn halves_of_a_call_are_put_together() {
        let mut parser = Parser::default();
        assert_eq!(parser.line("5 1.0 read(3</a>,  <unfinished ...>"), Ok(Said::Nothing));
        assert!(matches!(parser.line("6 1.5 close(4) = 0"), Ok(Said::Call(_))));
        let whole = parser.line("5 2.0 <... read resumed>\"abc\", 3) = 3 <1.0>");
        let Ok(Said::Call(call)) = whole else { panic!("{whole:?}") };
        assert_eq!((call.at_ns, call.args.len(), call.result), (Some(SECS), 3, Some(3)));
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
