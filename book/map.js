"use strict";
// The map of blocks on the platter, and the bytes behind each.
const map = { cells: [], unit: 4096, columns: 1, at: 0, view: null };

function buildMap(view) {
  const volume = view.space.find((part) => part.name === "volume");
  const block = volume ? volume.fields.block_size : 4096;
  map.view = view;
  map.unit = block;
  while (view.size / map.unit > 4096) map.unit *= 2;
  const count = Math.ceil(view.size / map.unit);
  const cells = Array.from({ length: count }, (_, i) => ({ at: i * map.unit, kind: "unused", what: "" }));
  const paint = (at, len, kind, what) => {
    for (let i = Math.floor(at / map.unit); i < Math.min(count, Math.ceil((at + len) / map.unit)); i++) {
      cells[i].kind = kind;
      cells[i].what = what;
    }
  };
  for (const region of view.regions) paint(region.at, region.len, region.kind === "data" ? "unused" : region.kind, region.name);
  const areas = new Map(view.regions.map((region) => [region.name, region]));
  for (const region of areas.values()) if (region.kind === "data") paint(region.at, region.len, "free", region.name + ", free");
  const free = view.space.find((part) => part.name === "free");
  if (view.layout !== "lfs" && free) for (const [at, len] of free.rows) paint(at, len, "free", "free");
  if (view.log) {
    view.regions.filter((region) => region.kind === "segment").forEach((region, i) => {
      const [phase, , written] = view.log.segments[i] || ["clean", 0, 0];
      if (phase !== "clean" && written > 0) paint(region.at, Math.min(region.len, written * view.sector), "dead", region.name + ", written");
    });
  }
  const names = pathsOf(view);
  const runs = view.space.find((part) => part.name === "runs");
  for (const [ino, kind, , , lbn, blocks, at, bytes] of runs ? runs.rows : []) {
    if (at === null || at === undefined) continue;
    const of = names.get(ino) || "inode " + ino;
    const shown = lbn < 0 ? "indirect" : kind === "directory" ? "directory" : "data";
    paint(at, bytes, shown, `${of} (inode ${ino}), ${lbn < 0 ? "indirect block" : "blocks " + lbn + " to " + (lbn + blocks - 1)}`);
  }
  map.cells = cells;
  drawMap();
  legend();
}

function pathsOf(view) {
  const names = new Map([[2, "/"]]);
  const table = view.space.find((part) => part.name === "names");
  const rows = table ? table.rows : [];
  for (let round = 0; round < 8; round++) {
    for (const [dir, ino, name] of rows) {
      const above = names.get(dir);
      if (above && !names.has(ino)) names.set(ino, (above === "/" ? "/" : above + "/") + name);
    }
  }
  return names;
}

function drawMap() {
  const canvas = $("map");
  const width = canvas.clientWidth || 600;
  const side = Math.max(7, Math.min(16, Math.floor(Math.sqrt((width * 300) / Math.max(map.cells.length, 1)))));
  map.columns = Math.max(1, Math.floor(width / side));
  map.side = side;
  const height = Math.ceil(map.cells.length / map.columns) * side;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = {};
  map.cells.forEach((cell, i) => {
    colours[cell.kind] ||= colour(cell.kind);
    pen.fillStyle = colours[cell.kind];
    pen.fillRect((i % map.columns) * side, Math.floor(i / map.columns) * side, side - 1, side - 1);
  });
  if (document.activeElement === canvas || map.at > 0) {
    pen.strokeStyle = colour("fg");
    pen.lineWidth = 2;
    pen.strokeRect((map.at % map.columns) * side, Math.floor(map.at / map.columns) * side, side - 1, side - 1);
  }
}

function legend() {
  const kinds = [...new Set(map.cells.map((cell) => cell.kind))];
  $("legend").replaceChildren(...kinds.map((kind) => {
    const swatch = make("i");
    swatch.style.background = "var(--" + kind + ")";
    const button = make("button", { type: "button", textContent: WORDS[kind][0] });
    button.addEventListener("click", () => {
      map.at = map.cells.findIndex((cell) => cell.kind === kind);
      tellCell();
      drawMap();
    });
    return make("li", {}, swatch, button);
  }));
}

function tellCell() {
  const cell = map.cells[map.at];
  if (!cell) return;
  const [word, section, sentence] = WORDS[cell.kind];
  const where = `Byte ${cell.at}: ${cell.what || word}. `;
  $("map-said").replaceChildren(
    where + sentence + " ",
    make("span", { className: "dim", textContent: (section ? `OSTEP ${section}; ` : "") + `the format: ${FORMATS[map.view.layout]}. ` }),
    bytesButton(cell.at, Math.min(map.unit, 512)),
  );
}

function bytesButton(at, len = 512) {
  const button = make("button", { type: "button", textContent: "Bytes at " + at });
  button.addEventListener("click", () => showBytes(at, len));
  return button;
}

function showBytes(at, len) {
  const answer = ask({ do: "bytes", at, len });
  if (!answer.ok) return;
  const lines = [];
  for (let i = 0; i < answer.hex.length; i += 32) {
    const row = answer.hex.slice(i, i + 32);
    const pairs = row.match(/../g) || [];
    const text = pairs.map((pair) => { const code = parseInt(pair, 16); return code > 31 && code < 127 ? String.fromCharCode(code) : "."; }).join("");
    lines.push(String(answer.at + i / 2).padStart(9) + "  " + pairs.join(" ").padEnd(47) + "  " + text);
  }
  const shown = $("bytes");
  shown.hidden = false;
  shown.textContent = `${answer.region || ""}, ${answer.len} bytes from ${answer.at} on\n` + lines.join("\n");
  shown.focus();
}

function mapKeys() {
  const canvas = $("map");
  const move = { ArrowRight: () => 1, ArrowLeft: () => -1, ArrowDown: () => map.columns, ArrowUp: () => -map.columns, Home: () => -map.at, End: () => map.cells.length };
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      showBytes(map.cells[map.at].at, Math.min(map.unit, 512));
      event.preventDefault();
      return;
    }
    if (!move[event.key]) return;
    event.preventDefault();
    map.at = Math.max(0, Math.min(map.cells.length - 1, map.at + move[event.key]()));
    tellCell();
    drawMap();
  });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / map.side);
    const at = Math.floor((event.clientY - box.top) / map.side) * map.columns + column;
    if (column < map.columns && at < map.cells.length) {
      map.at = at;
      tellCell();
      drawMap();
    }
  });
  canvas.addEventListener("focus", drawMap);
  window.addEventListener("resize", () => map.view && drawMap());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.view && drawMap());
}
