//! No guard of a cell is held across a call that borrows the cell again.
//!
//! Within a file: a `let` of `.borrow()` or `.borrow_mut()` holds its guard until it is dropped by name or
//! the block ends; elsewhere a guard lives to the end of its statement, with the block of a `match`, `for`,
//! `if let` or `while let`. What is called there on `self` or `inner` must not borrow a cell of the same name,
//! nor call what does. Two shared guards are no conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Finding, Rule};
use crate::rust::{Kind, Rust};
use crate::tree::Project;

pub(super) const RULE: Rule = Rule {
    name: "guards",
    about: "no guard of a cell is held across a call that borrows the cell again",
    check,
};

/// The names by which the owner of the cells is called.
const OWNERS: &[&str] = &["self", "inner", "Self"];

/// A cell by the name of its field, and whether it is borrowed for changing.
type Cell = (String, bool);

/// A guard, and the tokens during which it is held.
struct Guard {
    cell: Cell,
    held: Range<usize>,
}

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        if !file.is_test() && file.path.contains("/src/") {
            findings.extend(conflicts(rust).into_iter().map(|(line, cell, call)| {
                let what = format!("{cell} is borrowed while {call} is called, which borrows it");
                Finding::new(&file.path, line, what)
            }));
        }
    }
    findings
}

/// Lines, cells, and the calls that borrow them again.
fn conflicts(rust: &Rust) -> Vec<(usize, String, String)> {
    let methods = methods(rust);
    let mut found = Vec::new();
    for guard in guards(rust) {
        let (name, changes) = &guard.cell;
        let hits = |cells: &BTreeSet<Cell>| {
            cells.iter().any(|(other, also)| other == name && (*changes || *also))
        };
        for at in guard.held.clone() {
            if rust.at(at).in_test {
                continue;
            }
            if let Some(call) = called(rust, at)
                && methods.get(&call).is_some_and(hits)
            {
                found.push((rust.at(at).line, name.clone(), call));
            }
        }
    }
    found
}

/// The cells that each method of a file borrows, itself or through others.
fn methods(rust: &Rust) -> BTreeMap<String, BTreeSet<Cell>> {
    let mut cells: BTreeMap<String, BTreeSet<Cell>> = BTreeMap::new();
    let mut calls: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, body) in bodies(rust) {
        for at in body {
            if let Some(cell) = borrowed(rust, at) {
                cells.entry(name.clone()).or_default().insert(cell);
            }
            if let Some(call) = called(rust, at) {
                calls.entry(name.clone()).or_default().insert(call);
            }
        }
    }
    loop {
        let before: usize = cells.values().map(BTreeSet::len).sum();
        for (name, called) in &calls {
            let more: BTreeSet<Cell> =
                called.iter().filter_map(|call| cells.get(call)).flatten().cloned().collect();
            cells.entry(name.clone()).or_default().extend(more);
        }
        if cells.values().map(BTreeSet::len).sum::<usize>() == before {
            return cells;
        }
    }
}

/// The functions outside of tests, with the tokens of their bodies.
fn bodies(rust: &Rust) -> Vec<(String, Range<usize>)> {
    let mut bodies = Vec::new();
    for (index, token) in rust.tokens.iter().enumerate() {
        let (true, false, Some(name)) = (token.is("fn"), token.in_test, rust.at(index + 1).ident())
        else {
            continue;
        };
        let mut at = index + 2;
        while at < rust.tokens.len() {
            match rust.at(at).kind {
                Kind::Open('{', close) => {
                    bodies.push((name.to_owned(), at..close));
                    break;
                }
                Kind::Open(_, close) => at = close + 1,
                Kind::Punct(';') => break,
                _ => at += 1,
            }
        }
    }
    bodies
}

/// The cell that is borrowed at a token: `NAME.borrow()`, seen from `borrow`.
fn borrowed(rust: &Rust, at: usize) -> Option<Cell> {
    let changes = match rust.at(at).ident()? {
        "borrow" => false,
        "borrow_mut" => true,
        _ => return None,
    };
    let is_call = matches!(rust.at(at + 1).kind, Kind::Open('(', close) if close == at + 2);
    let name = at.checked_sub(2).and_then(|name| rust.at(name).ident());
    let name = name.filter(|_| is_call && rust.at(at - 1).punct('.'))?;
    Some((name.to_owned(), changes))
}

/// The method of the owner that is called at a token, seen from the owner.
fn called(rust: &Rust, at: usize) -> Option<String> {
    rust.at(at).ident().filter(|name| OWNERS.contains(name))?;
    let name = if rust.at(at + 1).punct('.') { at + 2 } else { at + 3 };
    let path = rust.at(at + 1).punct('.') || rust.at(at + 1).punct(':');
    let call = matches!(rust.at(name + 1).kind, Kind::Open('(', _));
    rust.at(name).ident().filter(|_| path && call).map(str::to_owned)
}

fn guards(rust: &Rust) -> Vec<Guard> {
    let mut guards = Vec::new();
    let ends = enclosing(rust);
    for (at, &group_end) in ends.iter().enumerate() {
        let Some(cell) = borrowed(rust, at).filter(|_| !rust.at(at).in_test) else { continue };
        let (begin, end, after) = (statement(rust, at), group_end, at + 3);
        let bound = rust.at(begin).is("let") && rust.at(after).punct(';');
        let held = if bound {
            let name = begin + if rust.at(begin + 1).is("mut") { 2 } else { 1 };
            let name = rust.at(name).ident().unwrap_or_default();
            after..dropped(rust, name, after, end)
        } else {
            after..last(rust, begin, after, end)
        };
        guards.push(Guard { cell, held });
    }
    guards
}

/// For each token the end of the group in which it is.
fn enclosing(rust: &Rust) -> Vec<usize> {
    let mut ends = vec![rust.tokens.len(); rust.tokens.len()];
    for (open, token) in rust.tokens.iter().enumerate() {
        if let Kind::Open(_, close) = token.kind {
            ends[open + 1..close].fill(close);
        }
    }
    ends
}

/// The first token of the statement, or of the element of a list, in which a token is.
fn statement(rust: &Rust, at: usize) -> usize {
    let mut depth = 0;
    for begin in (0..at).rev() {
        match rust.at(begin).kind {
            // A block before it is another statement, a call a part of this one.
            Kind::Close('}') if depth == 0 => return begin + 1,
            Kind::Close(_) => depth += 1,
            Kind::Open(..) if depth == 0 => return begin + 1,
            Kind::Open(..) => depth -= 1,
            Kind::Punct(';' | ',') if depth == 0 => return begin + 1,
            _ => {}
        }
    }
    0
}

/// Where a guard is dropped by name, or its block ends.
fn dropped(rust: &Rust, name: &str, from: usize, end: usize) -> usize {
    (from..end)
        .find(|&at| match rust.at(at + 1).kind {
            Kind::Open('(', close) => {
                rust.at(at).is("drop") && (at + 2..close).any(|inside| rust.at(inside).is(name))
            }
            _ => false,
        })
        .unwrap_or(end)
}

/// Where the statement ends in which a guard is a value on the way.
fn last(rust: &Rust, begin: usize, from: usize, end: usize) -> usize {
    let first = rust.at(begin);
    let is_let = rust.at(begin + 1).is("let");
    let with_block = first.is("match") || first.is("for") || is_let;
    let is_if = first.is("if") || first.is("while");
    let mut at = from;
    while at < end {
        match rust.at(at).kind {
            Kind::Punct(';' | ',') => return at,
            // The operands of these end what they hold.
            Kind::Punct(c @ ('&' | '|')) if rust.at(at + 1).punct(c) => return at,
            Kind::Open('{', _) if is_if && !is_let => return at,
            Kind::Open('{', close) if with_block => return close,
            Kind::Open(_, close) => at = close + 1,
            _ => at += 1,
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    const HOST: &str = "crates/twin-host/src/a.rs";

    /// What ended a server of NFS: the reply to a connection that was gone resumed those that were
    /// paused, and that borrowed the table of connections again.
    #[test]
    fn the_borrow_that_ended_a_server_is_found() {
        let text = "impl A {
            fn done(&self, key: u64) {
                let nonsense = {
                    let mut connections = self.connections.borrow_mut();
                    let Some(c) = connections.get_mut(&key) else { return self.resume() };
                    c.calls -= 1;
                };
                self.resume();
            }
            fn resume(&self) { self.paused.take().into_iter().for_each(|key| self.flush(key)); }
            fn flush(&self, key: u64) { let mut c = self.connections.borrow_mut(); c.flush(); }
        }";
        assert_eq!(lines(&RULE, HOST, text), [5]);
    }

    #[test]
    fn guards_in_the_heads_of_blocks_and_in_statements_are_held() {
        for text in [
            "fn f(&self) { if let Some(a) = self.a.borrow_mut().get() { self.g(); } }",
            "fn f(&self) { match self.a.borrow().get() { _ => self.g() } }",
            "fn f(&self) { for a in self.a.borrow().iter() { self.g(); } }",
            "fn f(&self) { self.a.borrow().iter().for_each(|_| self.g()); }",
            "fn f(&self) { let b = self.a.borrow().get(self.g()); }",
            "fn f(&self) { let a = self.a.borrow(); Self::g(self); }",
        ] {
            let text = format!("{text}\nfn g(&self) {{ self.a.borrow_mut().clear(); }}");
            assert_eq!(lines(&RULE, HOST, &text), [1], "{text}");
        }
    }

    #[test]
    fn guards_that_have_ended_and_shared_ones_are_not() {
        for text in [
            "fn f(&self) { let a = self.a.borrow_mut(); drop(a); self.g(); }",
            "fn f(&self) { { let a = self.a.borrow_mut(); } self.g(); }",
            "fn f(&self) { let n = self.a.borrow().len(); self.g(); }",
            "fn f(&self) { if self.a.borrow().is_empty() { self.g(); } }",
            "fn f(&self) { if self.a.borrow().len() > 3 && self.g() { return; } }",
            "fn f(&self) { let b = self.b.borrow_mut(); self.g(); }",
            "fn f(&self) { let a = self.a.borrow(); self.h(); }",
            "fn f(&self) { let a = self.a.borrow_mut(); a.g(); }",
        ] {
            let text = format!(
                "{text}\nfn g(&self) {{ self.a.borrow_mut().clear(); }}\n\
                 fn h(&self) {{ self.a.borrow().len(); }}"
            );
            assert!(lines(&RULE, HOST, &text).is_empty(), "{text}");
        }
    }
}
