"use strict";
// The border to the program: commands and answers are JSON, images are bytes.
const core = { wasm: null, session: 0 };

async function startCore() {
  const text = document.getElementById("core").textContent.trim();
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(unpacked).arrayBuffer();
  core.wasm = (await WebAssembly.instantiate(bytes, {})).instance.exports;
  core.session = core.wasm.twin_new();
}

function give(bytes) {
  const place = core.wasm.twin_take(core.session, bytes.length);
  new Uint8Array(core.wasm.memory.buffer, place, bytes.length).set(bytes);
}

function taken(length) {
  return new Uint8Array(core.wasm.memory.buffer, core.wasm.twin_answer(core.session), length).slice();
}

// Carries out a command and returns its answer, an object.
function ask(command) {
  try {
    give(new TextEncoder().encode(JSON.stringify(command)));
    return JSON.parse(new TextDecoder().decode(taken(core.wasm.twin_call(core.session))));
  } catch (fault) {
    // The program has stopped where it must not: what it was working on cannot be trusted any more.
    core.session = core.wasm.twin_new();
    return { ok: false, error: `A fault of the program (${fault.message}): the volume is gone, make a new one. Please tell us which lines led to it.` };
  }
}

function loadImage(bytes) {
  give(bytes);
  return JSON.parse(new TextDecoder().decode(taken(core.wasm.twin_load(core.session))));
}

function image() {
  return taken(core.wasm.twin_image(core.session));
}

// Small helpers for the document.
const $ = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria") || name === "role" || name === "for") {
      element.setAttribute(name.replace(/^aria([A-Z])/, (_, letter) => "aria-" + letter.toLowerCase()), value);
    } else {
      element[name] = value;
    }
  }
  element.append(...children);
  return element;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const ms = (ns) => (ns / 1e6).toFixed(ns < 1e8 ? 2 : 0);
const size = (bytes) => (bytes % 1048576 === 0 && bytes ? bytes / 1048576 + "M" : bytes % 1024 === 0 && bytes ? bytes / 1024 + "K" : String(bytes));
const wait = (time) => new Promise((done) => setTimeout(done, time));
