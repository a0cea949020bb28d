"use strict";
// The panels beside the map: structures, cache, log and cleaner.
function table(part) {
  const columns = part.columns || ["field", "value"];
  const rows = part.rows || Object.entries(part.fields || {});
  const shown = rows.slice(0, 40);
  const cell = (value, column) => {
    if (column === "at" && typeof value === "number") return make("td", {}, bytesButton(value));
    const text = value === null ? "" : Array.isArray(value) ? JSON.stringify(value) : String(value);
    return make("td", { className: typeof value === "number" ? "n" : "", textContent: text });
  };
  const caption = `${part.name}: ${part.about}${rows.length > shown.length ? ` (${rows.length - shown.length} more)` : ""}`;
  const head = make("tr", {}, ...columns.map((name) => make("th", { textContent: name })));
  const body = shown.map((row) => make("tr", {}, ...row.map((value, i) => cell(value, part.columns ? columns[i] : row[0]))));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: part.name },
    make("table", {}, make("caption", { textContent: caption }), make("thead", {}, head), make("tbody", {}, ...body)));
}

function showStructures(view) {
  const open = new Set([...document.querySelectorAll("#structures details[open]")].map((one) => one.dataset.name));
  const list = [{ structure: "inodes", about: "all inodes in use", parts: view.inodes }, ...view.structures];
  $("structures").replaceChildren(...list.map((one) => {
    const parts = one.parts.map((part) => part.problem ? make("p", { className: "bad", textContent: part.problem }) : table(part));
    const about = STRUCTURES[one.structure] || (one.structure === "inodes" ? "Inodes (40.3): one line a file; a name is elsewhere, in a directory." : one.about);
    const details = make("details", {}, make("summary", { textContent: one.structure }), make("p", { className: "hint", textContent: `${about} The bytes: ${FORMATS[view.layout]}.` }), ...parts);
    details.dataset.name = one.structure;
    details.open = open.has(one.structure) || (open.size === 0 && one.structure === "inodes");
    return details;
  }));
}

function showCache(view) {
  const cache = view.cache;
  if (!cache) {
    $("cache-state").textContent = "Memory is empty: the power is off.";
    $("frames").replaceChildren();
    return;
  }
  $("cache-state").textContent = `The page cache (39.9) keeps blocks of files in frames: ${size(cache.resident)} of ${size(cache.capacity)}, of that ${size(cache.dirty)} dirty (not yet on the platter). ${cache.hits} lookups found their block, ${cache.misses} did not.`;
  const names = pathsOf(view);
  $("frames").replaceChildren(...cache.frames.slice(0, 300).map((frame) =>
    make("span", { className: frame.dirty ? "dirty" : "", textContent: `${names.get(frame.ino) || "#" + frame.ino}:${frame.lbn}${frame.dirty ? " dirty" : ""}` })));
}

function showLog(view) {
  const log = view.log;
  $("log-panel").hidden = view.layout !== "lfs";
  if (!log) return;
  const cost = log.write_cost === null ? "none yet" : log.write_cost.toFixed(2);
  $("log-state").textContent = `${log.clean} of ${log.segments.length} segments are clean; write cost ${cost} (bytes moved for each new byte); ${log.cleaned} segments cleaned, ${size(log.moved)} moved by the cleaner, ${log.checkpoints} checkpoints.`;
  $("segments").replaceChildren(...log.segments.map(([phase, live, written, age], i) => {
    const share = written ? Math.round((live * 100) / Math.max(written, 128)) : 0;
    const bar = make("b");
    bar.style.width = share + "%";
    return make("div", { className: "seg " + phase, title: `segment ${i}: ${phase}, ${live} of ${written} fragments live, age ${age}` }, `${i} ${phase === "clean" ? "clean" : share + "%"}`, bar);
  }));
}
