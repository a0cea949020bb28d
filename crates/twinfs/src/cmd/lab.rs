//! `twinfs lab`: the exercises of the lessons, shown and graded, and the lines of a page, repeated.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use twin_cli::{Outcome, say, usage};
use twin_host::Interrupts;
use twin_lessons::lab::{self, Page};
use twin_lessons::{chapters, paper, script};

use crate::cli::Lab;

/// The largest file of answers or lines, in bytes.
const MOST_BYTES: u64 = 1 << 20;

pub(crate) fn run(args: &Lab, interrupts: &Interrupts) -> Outcome {
    match (args.what.as_deref(), &args.file) {
        (None, _) => list(args.json),
        (Some("grade"), Some(file)) => graded(file, args.json),
        (Some("lines"), Some(file)) => repeated(args, file, interrupts),
        (Some("lines"), None) => Err(usage("which lines? twinfs lab lines FILE")),
        (Some("grade"), None) => Err(usage("grade what? twinfs lab grade FILE")),
        (Some(_), Some(file)) => {
            Err(usage(format!("{}: only grade and lines take a file", file.display())))
        }
        (Some(chapter), None) => {
            let number = chapter.parse();
            let number = number
                .map_err(|_| usage(format!("{chapter:?} is no chapter: twinfs lab lists them")))?;
            shown(args, number)
        }
    }
}

fn list(as_json: bool) -> Outcome {
    let one = |chapter: &twin_lessons::Chapter| json!({"number": chapter.number, "title": chapter.title, "about": chapter.about, "exercises": chapter.exercises.len()});
    if as_json {
        say(chapters().iter().map(one).collect::<Value>().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    for chapter in chapters() {
        say(format!(
            "{}  {} ({} exercises)\n    {}",
            chapter.number,
            chapter.title,
            chapter.exercises.len(),
            chapter.about
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(args: &Lab, chapter: u32) -> Outcome {
    let paper = paper(chapter, &args.seed).map_err(usage)?;
    if args.json {
        let text = serde_json::to_string_pretty(&paper).map_err(|why| why.to_string())?;
        say(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    say(lab::in_words(&paper, args.hints))?;
    Ok(ExitCode::SUCCESS)
}

/// The text of a file that is not too large.
fn text_of(file: &Path) -> Result<String, String> {
    let bytes = twin_host::bytes_of_file(file, MOST_BYTES)?;
    String::from_utf8(bytes).map_err(|_| format!("{}: this is no text (not UTF-8)", file.display()))
}

/// Repeats what was done on a page: the settings of a volume in the first line, then lines of its shell.
fn repeated(args: &Lab, file: &Path, interrupts: &Interrupts) -> Outcome {
    let (text, place) = (text_of(file)?, file.display());
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let settings = lines.next().ok_or_else(|| format!("{place}: is empty"))?;
    let lines: Vec<String> = lines.map(String::from).collect();
    if args.sh {
        say(script(&lines).map_err(|why| format!("{place}: {why}"))?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let failed = |why| format!("{place}: {why}");
    let mut page = Page::make(settings).map_err(failed)?;
    for line in &lines {
        // In pieces, so that an interrupt ends a long workload.
        let said = page.line(line, &mut || interrupts.check().is_ok()).map_err(failed)?;
        interrupts.check()?;
        if !args.json {
            say(format!("> {line}"))?;
            said.into_iter().try_for_each(say)?;
        }
    }
    let end = page.end().map_err(failed)?;
    if args.json {
        let mut result = json!({"settings": settings, "lines": lines.len()});
        if let (Some(all), Value::Object(end)) = (result.as_object_mut(), end) {
            all.extend(end);
        }
        say(result)?;
    } else {
        let part = |name: &str| end[name].as_str().unwrap_or_default();
        say(format!("digest of events {}, platter {}", part("digest"), part("platter")))?;
    }
    if let Some(image) = &args.image {
        let made = fs::File::create_new(image);
        let written = made.and_then(|mut made| std::io::Write::write_all(&mut made, &page.image()));
        written.map_err(|why| format!("{}: {why}", image.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn graded(file: &Path, as_json: bool) -> Outcome {
    let place = file.display();
    let text = text_of(file)?;
    let given: Value = serde_json::from_str(&text).map_err(|why| format!("{place}: {why}"))?;
    let graded = lab::graded(&given).map_err(|why| format!("{place}: {why}"))?;
    say(if as_json { graded.to_string() } else { lab::grade_in_words(&graded) })?;
    let is_right = graded["right"] == graded["of"];
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
