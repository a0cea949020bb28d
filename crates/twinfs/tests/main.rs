//! The tests of this crate from outside, in one program: built once, and run side by side.

mod advise;
mod arena;
mod common;
mod copies;
mod crashlab;
mod crashlab_client;
mod dump;
mod ends;
mod experiment;
mod gallery;
mod inputs;
mod interrupted;
mod lab;
mod measured;
mod modules;
mod options;
mod pages;
mod programs;
mod readers;
mod results;
mod snapshots;
mod top;
mod tutorial;
mod verdicts;
mod volume;
