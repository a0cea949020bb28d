//! `twinfs lab`: the exercises of the lessons, shown and graded, and the lines of a page, repeated.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use twin_cli::{Outcome, say, usage};
use twin_host::Interrupts;
use twin_lessons::{Session, chapters, exercise, grade, paper, script};

use crate::cli::Lab;

/// The largest file of answers or lines, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Turns of a session's runtime between two looks for an interrupt.
const TURNS: u64 = 5000;

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
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    say(format!("Chapter {chapter}: {}, variant {}", text(&paper["title"]), args.seed))?;
    for one in paper["exercises"].as_array().into_iter().flatten() {
        say(format!("\n{} {}\n\n{}\n", text(&one["id"]), text(&one["title"]), text(&one["text"])))?;
        for part in one["parts"].as_array().into_iter().flatten() {
            let choices: Vec<String> =
                part["choices"].as_array().into_iter().flatten().map(text).collect();
            let choices = if choices.is_empty() {
                String::new()
            } else {
                format!(" ({})", choices.join(" | "))
            };
            say(format!("  {}: {}{choices}", text(&part["name"]), text(&part["label"])))?;
        }
        for hint in one["hints"].as_array().into_iter().flatten().filter(|_| args.hints) {
            say(format!("  hint: {}", text(hint)))?;
        }
        if let Some(known) = one["known"].as_str() {
            say(format!("  {known}"))?;
        }
    }
    say(format!(
        "\ntwinfs lab {chapter} --seed {} --json > answers.json writes a file for the answers; \
         twinfs lab grade answers.json checks it",
        args.seed
    ))?;
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
    let mut session = Session::default();
    let mut done = |command: Value| -> Result<Value, String> {
        let answer = session.call(&command.to_string());
        let answer: Value = serde_json::from_str(&answer).map_err(|why| why.to_string())?;
        match answer["ok"] == true {
            true => Ok(answer),
            false => Err(format!("{place}: {}", answer["error"].as_str().unwrap_or_default())),
        }
    };
    done(json!({"do": "make", "settings": settings}))?;
    let mut refused = 0;
    for line in &lines {
        // In pieces, so that an interrupt ends a long workload.
        let mut answer = done(json!({"do": "begin", "line": line}))?;
        while answer["done"] != true {
            interrupts.check()?;
            answer = done(json!({"do": "go", "turns": TURNS}))?;
        }
        let said = answer["output"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let failed = answer["failed"].as_str();
        refused += u64::from(failed.is_some());
        if !args.json {
            say(format!("> {line}"))?;
            said.chain(failed).try_for_each(|line| say(line.to_owned()))?;
        }
    }
    let view = done(json!({"do": "view"}))?;
    let part = |name: &str| view[name].as_str().unwrap_or_default().to_owned();
    if args.json {
        let (lines, now) = (lines.len(), &view["now_ns"]);
        let result = json!({"settings": settings, "lines": lines, "refused": refused, "now_ns": now, "digest": part("digest"), "platter": part("platter")});
        say(result.to_string())?;
    } else {
        say(format!("digest of events {}, platter {}", part("digest"), part("platter")))?;
    }
    if let Some(image) = &args.image {
        let made = fs::File::create_new(image);
        let written =
            made.and_then(|mut made| std::io::Write::write_all(&mut made, &session.image()));
        written.map_err(|why| format!("{}: {why}", image.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn graded(file: &Path, as_json: bool) -> Outcome {
    let place = file.display();
    let text = text_of(file)?;
    let given: Value = serde_json::from_str(&text).map_err(|why| format!("{place}: {why}"))?;
    let seed = match &given["seed"] {
        Value::String(seed) => seed.clone(),
        Value::Number(seed) => seed.to_string(),
        _ => {
            return Err(
                format!("{place}: has no seed: begin with twinfs lab CHAPTER --json").into()
            );
        }
    };
    let Some(chapter) = given["chapter"].as_u64() else {
        return Err(format!("{place}: has no chapter: begin with twinfs lab CHAPTER --json").into());
    };
    let chapter = chapters().iter().find(|one| u64::from(one.number) == chapter);
    let chapter =
        chapter.ok_or_else(|| format!("{place}: there are no exercises of that chapter"))?;
    let (mut right, mut of, mut exercises) = (0, 0, Vec::new());
    for one in chapter.exercises {
        let result = grade(one.id, &seed, &given["answers"][one.id])?;
        let mut parts = Vec::new();
        for (name, is_right, _) in &result.parts {
            (right, of) = (right + u64::from(*is_right), of + 1);
            parts.push(json!({"name": name, "right": is_right}));
        }
        exercises.push(json!({"id": one.id, "right": result.is_right(), "parts": parts}));
    }
    if as_json {
        let result = json!({"chapter": chapter.number, "seed": seed, "right": right, "of": of, "exercises": exercises});
        say(result.to_string())?;
    } else {
        for one in &exercises {
            let id = one["id"].as_str().unwrap_or_default();
            let wrong: Vec<&str> = one["parts"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|part| part["right"] == false)
                .filter_map(|part| part["name"].as_str())
                .collect();
            let title = exercise(id).map_or("", |exercise| exercise.title);
            let verdict = if wrong.is_empty() {
                "right".into()
            } else {
                format!("not right: {}", wrong.join(", "))
            };
            say(format!("{id} {title}: {verdict}"))?;
        }
        say(format!("{right} of {of} answers are right"))?;
    }
    Ok(if right == of { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
