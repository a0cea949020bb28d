//! Rust source as a flat list of tokens: enough to find names, paths, functions and strings.
//!
//! Contract: comments and doc comments are removed; every token knows its line and whether it
//! belongs to an item under `#[test]` or `#[cfg(test)]`.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// The tokens of one file.
pub(crate) struct Rust {
    pub(crate) tokens: Vec<Token>,
}

/// One token; groups are flattened to their delimiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident(String),
    Punct(char),
    /// An opening delimiter, and the index of its partner.
    Open(char, usize),
    Close(char),
    /// The text of a string literal.
    Str(String),
    /// Any other literal, or the tick of a lifetime.
    Other,
}

/// A path such as `std::time::Instant`, as written or imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    /// Whether it is a leaf of a `use`: everything below it can then be named without the path.
    pub(crate) imported: bool,
    /// Whether it is passed on: a leaf of a `pub use`, of whatever visibility.
    pub(crate) reexported: bool,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

impl Token {
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Ident(ident) if ident == name)
    }

    pub(crate) fn ident(&self) -> Option<&str> {
        match &self.kind {
            Kind::Ident(ident) => Some(ident),
            _ => None,
        }
    }

    pub(crate) fn punct(&self, wanted: char) -> bool {
        self.kind == Kind::Punct(wanted)
    }
}

impl Rust {
    /// # Errors
    /// The place where the text is not Rust.
    pub(crate) fn parse(text: &str) -> Result<Rust, String> {
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            format!("line {}: cannot be read as Rust", error.span().start().line)
        })?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        mark_tests(&mut tokens);
        Ok(Rust { tokens })
    }

    /// The token at an index, or a placeholder beyond the end, so that rules can look ahead freely.
    pub(crate) fn at(&self, index: usize) -> &Token {
        const NONE: &Token = &Token { kind: Kind::Other, line: 0, in_test: false };
        self.tokens.get(index).unwrap_or(NONE)
    }

    /// True if `::` stands at an index.
    fn colons(&self, index: usize) -> bool {
        self.at(index).punct(':') && self.at(index + 1).punct(':')
    }

    /// All paths, including single names.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            if self.at(at).is("use") {
                let (first, public) = (paths.len(), self.is_public(at));
                at = self.use_tree(at + 1, &[], &mut paths);
                paths[first..].iter_mut().for_each(|path| path.reexported = public);
            } else if self.at(at).is("mod") {
                // A declaration names nothing that is used.
                at += 2;
            } else if self.at(at).ident().is_some() {
                at = self.plain_path(at, &mut paths);
            } else {
                at += 1;
            }
        }
        paths
    }

    /// Whether the item that begins at an index has a visibility before it: `pub` or `pub(crate)`.
    fn is_public(&self, item: usize) -> bool {
        match self.tokens[..item].last().map(|token| &token.kind) {
            Some(Kind::Close(')')) => {
                self.tokens[..item].iter().rev().nth(3).is_some_and(|t| t.is("pub"))
            }
            _ => self.tokens[..item].last().is_some_and(|token| token.is("pub")),
        }
    }

    fn plain_path(&self, start: usize, paths: &mut Vec<Path>) -> usize {
        let (mut at, mut segments) = (start, Vec::new());
        while let Some(name) = self.at(at).ident() {
            segments.push(name.to_string());
            if !(self.colons(at + 1) && self.at(at + 3).ident().is_some()) {
                break;
            }
            at += 3;
        }
        paths.push(self.path(segments, false, start));
        at + 1
    }

    /// Reads one branch of a `use` and returns the index after it.
    fn use_tree(&self, mut at: usize, prefix: &[String], paths: &mut Vec<Path>) -> usize {
        let (mut segments, start) = (prefix.to_vec(), at);
        loop {
            match &self.at(at).kind {
                Kind::Punct(':') => at += 1,
                Kind::Ident(name) if name == "as" => at += 2,
                Kind::Ident(name) => {
                    if name != "self" || segments.is_empty() {
                        segments.push(name.clone());
                    }
                    at += 1;
                }
                Kind::Punct('*') => at += 1,
                Kind::Open('{', close) => {
                    at += 1;
                    while at < *close {
                        at = self.use_tree(at, &segments, paths);
                    }
                    return close + 1;
                }
                // A comma, a semicolon, or the end of the group.
                _ => break,
            }
        }
        if segments.len() > prefix.len() || at > start {
            paths.push(self.path(segments, true, start));
        }
        if matches!(self.at(at).kind, Kind::Close(_)) { at } else { at + 1 }
    }

    fn path(&self, segments: Vec<String>, imported: bool, at: usize) -> Path {
        let token = self.at(at);
        Path { segments, imported, reexported: false, line: token.line, in_test: token.in_test }
    }

    /// All functions that have a body; closures are part of the function that contains them.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            let (true, Some(name)) = (token.is("fn"), self.at(index + 1).ident()) else { continue };
            let mut at = index + 2;
            let close = loop {
                match &self.at(at).kind {
                    Kind::Open('{', close) => break Some(*close),
                    Kind::Open(_, close) => at = close + 1,
                    Kind::Punct(';') => break None,
                    _ if at >= self.tokens.len() => break None,
                    _ => at += 1,
                }
            };
            if let Some(close) = close {
                let lines = self.at(close).line + 1 - token.line;
                functions.push(Function { name: name.into(), line: token.line, lines });
            }
        }
        functions
    }

    /// All string literals outside doc comments, each with its token.
    pub(crate) fn strings(&self) -> impl Iterator<Item = (&str, &Token)> {
        self.tokens.iter().filter_map(|token| match &token.kind {
            Kind::Str(text) => Some((text.as_str(), token)),
            _ => None,
        })
    }
}

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = line_of(tree.span());
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                // Doc comments appear as `#![doc]` and `#[doc]`.
                if matches!(trees.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '!') {
                    trees.next();
                }
                if trees.peek().is_some_and(is_doc) {
                    trees.next();
                } else {
                    push(out, Kind::Punct('#'), line);
                }
            }
            TokenTree::Punct(punct) => push(out, Kind::Punct(punct.as_char()), line),
            TokenTree::Ident(ident) => push(out, Kind::Ident(ident.to_string()), line),
            TokenTree::Literal(literal) => {
                push(out, text_of(&literal.to_string()).map_or(Kind::Other, Kind::Str), line);
            }
            TokenTree::Group(group) => flatten_group(&group, out),
        }
    }
}

fn flatten_group(group: &Group, out: &mut Vec<Token>) {
    let (open, close) = match group.delimiter() {
        Delimiter::Brace => ('{', '}'),
        Delimiter::Bracket => ('[', ']'),
        Delimiter::Parenthesis => ('(', ')'),
        Delimiter::None => return flatten(group.stream(), out),
    };
    let opened = out.len();
    push(out, Kind::Open(open, 0), line_of(group.span_open()));
    flatten(group.stream(), out);
    let closed = out.len();
    out[opened].kind = Kind::Open(open, closed);
    push(out, Kind::Close(close), line_of(group.span_close()));
}

fn push(out: &mut Vec<Token>, kind: Kind, line: usize) {
    out.push(Token { kind, line, in_test: false });
}

fn line_of(span: Span) -> usize {
    span.start().line
}

fn is_doc(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else { return false };
    let mut inside = group.stream().into_iter();
    matches!(inside.next(), Some(TokenTree::Ident(ident)) if ident == "doc")
        && matches!(inside.next(), Some(TokenTree::Punct(equals)) if equals.as_char() == '=')
}

/// The text of a string literal, also of byte and C strings; escapes stay unchanged.
fn text_of(literal: &str) -> Option<String> {
    let body = literal.trim_start_matches(['b', 'c', 'r']).trim_matches('#');
    let text = body.strip_prefix('"')?.strip_suffix('"')?;
    Some(text.to_string())
}

/// Marks the items under `#[test]` or `#[cfg(test)]`, each to its end.
fn mark_tests(tokens: &mut [Token]) {
    let mut at = 0;
    while at < tokens.len() {
        let Some(close) = test_attribute(tokens, at) else {
            at += 1;
            continue;
        };
        let mut end = close + 1;
        loop {
            match tokens.get(end).map(|token| token.kind.clone()) {
                None | Some(Kind::Punct(';')) => break,
                Some(Kind::Open('{', close)) => {
                    end = close;
                    break;
                }
                Some(Kind::Open(_, close)) => end = close + 1,
                Some(_) => end += 1,
            }
        }
        let end = end.min(tokens.len() - 1);
        for token in &mut tokens[at..=end] {
            token.in_test = true;
        }
        at = end + 1;
    }
}

/// The closing bracket of a test attribute that begins at an index, if there is one.
fn test_attribute(tokens: &[Token], at: usize) -> Option<usize> {
    let (hash, open) = (tokens.get(at)?, tokens.get(at + 1)?);
    let Kind::Open('[', close) = open.kind else { return None };
    let inside = &tokens[at + 2..close];
    let is_test = inside.len() == 1 && inside[0].is("test");
    let is_cfg = inside.first().is_some_and(|t| t.is("cfg"))
        && inside.iter().any(|t| t.is("test"))
        && !inside.iter().any(|t| t.is("not"));
    (hash.punct('#') && (is_test || is_cfg)).then_some(close)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<(String, bool)> {
        let rust = Rust::parse(text).unwrap();
        rust.paths().into_iter().map(|path| (path.segments.join("::"), path.imported)).collect()
    }

    #[test]
    fn imports_are_taken_apart_to_their_leaves() {
        let found = paths("use std::{time::{self, Instant as I}, fs::*}; use ::a::b;");
        let leaves: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(leaves, ["std::time", "std::time::Instant", "std::fs", "a::b"]);
        assert!(found.iter().all(|(_, imported)| *imported));
    }

    #[test]
    fn paths_in_expressions_are_whole_and_comments_are_none() {
        let found =
            paths("fn f() { /* std::fs */ let a = std::time::Instant::now(); }\n//! std::x");
        assert!(found.contains(&("std::time::Instant::now".into(), false)));
        assert!(!found.iter().any(|(path, _)| path.contains("fs") || path.contains("std::x")));
    }

    #[test]
    fn functions_are_measured_from_their_first_to_their_last_line() {
        let rust =
            Rust::parse("fn a(\n x: [u8; 2],\n) -> u8\n{\n 1\n}\ntrait T { fn b(); }").unwrap();
        assert_eq!(rust.functions(), [Function { name: "a".into(), line: 1, lines: 6 }]);
    }

    #[test]
    fn what_hangs_on_a_test_attribute_is_a_test() {
        let rust = Rust::parse(
            "fn a() { \"real\"; }\n#[cfg(test)] mod t { fn b() { \"test\"; } }\n\
             #[test] fn c() { \"test\"; }\n#[cfg(not(test))] fn d() { \"real\"; }",
        )
        .unwrap();
        for (text, token) in rust.strings() {
            assert_eq!(token.in_test, text == "test", "line {}", token.line);
        }
        assert_eq!(rust.strings().count(), 4);
    }

    #[test]
    fn strings_of_every_kind_are_seen_and_doc_comments_are_not() {
        let rust =
            Rust::parse("/// \"doc\"\nconst A: &str = \"a\"; f(r#\"b\"#, b\"c\", 'd');").unwrap();
        let strings: Vec<_> = rust.strings().map(|(text, _)| text).collect();
        assert_eq!(strings, ["a", "b", "c"]);
    }

    #[test]
    fn what_is_no_rust_names_its_line() {
        assert!(Rust::parse("fn a() {\n\n}}").err().unwrap().contains("line 3"));
    }
}
