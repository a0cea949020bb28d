"use strict";
// The page: the volume, its shell, and what is shown after each line.
const BUDGET_MS = 24;
let about = null;
let busy = false;

function say(text, kind) {
  const log = $("said");
  log.append(make("div", { className: kind || "", textContent: text }));
  while (log.childElementCount > 300) log.firstElementChild.remove();
  log.scrollTop = log.scrollHeight;
}

function refresh() {
  const view = ask({ do: "view" });
  if (!view.ok) {
    $("volume-state").textContent = view.error;
    return;
  }
  buildMap(view);
  showDisk(view);
  showStructures(view);
  showCache(view);
  showLog(view);
  $("volume-state").textContent = `${view.settings}: ${(view.now_ns / 1e9).toFixed(3)} s of virtual time; ${view.power ? "digest of events " + view.digest : "the power is off"}; platter ${view.platter}.`;
  $("recover").disabled = view.power;
  document.body.dataset.digest = view.digest || "";
}

// Carries a line on in slices, so that no frame waits long.
async function finish(answer) {
  while (answer.ok && !answer.done) {
    const begun = performance.now();
    while (answer.ok && !answer.done && performance.now() - begun < BUDGET_MS) answer = ask({ do: "go", turns: 300 });
    if (!answer.done) await wait(0);
  }
  return answer;
}

async function runLine(line) {
  say("> " + line, "asked");
  const answer = await finish(ask({ do: "begin", line }));
  report(answer);
  return answer;
}

function report(answer) {
  if (!answer.ok) { say(answer.error, "failed"); return; }
  for (const text of answer.output || []) say(text);
  if (answer.failed) say(answer.failed, "failed");
}

async function runShell() {
  const line = $("line").value.trim();
  if (busy || !line) return;
  if (line === "help") { for (const one of about.shell) say(`${one.form}: ${one.about}`); return; }
  busy = true;
  try {
    let answer = await runLine(line);
    let requests = answer.requests || [];
    let leftOut = answer.requests_left_out || 0;
    if ($("sync").checked && answer.ok && !answer.failed && !/^(sync|ls|stat|df|read|cat|wait|remount)\b/.test(line)) {
      const synced = await finish(ask({ do: "begin", line: "sync" }));
      if (synced.ok) requests = requests.concat(synced.requests);
      else say(synced.error, "failed");
    }
    $("line").value = "";
    showRequests(requests, leftOut);
    refresh();
    busy = false;
    await playDisk(requests, Number($("speed").value));
  } finally {
    busy = false;
    document.body.dataset.lines = String(Number(document.body.dataset.lines || 0) + 1);
  }
}

// Begins a line, or carries on the one that is under way, until the disk begins with its next request.
function step() {
  const line = $("line").value.trim();
  const view = ask({ do: "view" });
  if (!view.line) {
    if (!line) return;
    say("> " + line + " (step by step)", "asked");
    const begun = ask({ do: "begin", line });
    if (!begun.ok) { say(begun.error, "failed"); return; }
    $("line").value = "";
  }
  const answer = ask({ do: "step" });
  if (!answer.ok) { say(answer.error, "failed"); return; }
  const last = answer.requests[answer.requests.length - 1];
  say(answer.done ? "the line has ended" : last ? `the disk begins: ${last.kind} ${size(last.len)}, ${last.what}` : "…");
  if (answer.done) report(answer);
  showRequests(answer.requests, answer.requests_left_out);
  playDisk(last ? [last] : [], Number($("speed").value));
  refresh();
}

function chosenSettings() {
  const layout = $("layout").value;
  const extra = { vsfs: "", ffs: ",group=1M", lfs: ",victim=cost-benefit" }[layout];
  return `${layout}:size=${$("size").value},disk=${$("disk").value},queue=${$("queue").value}${extra}`;
}

function makeVolume(settings) {
  const answer = ask({ do: "make", settings });
  if (!answer.ok) {
    $("volume-state").textContent = answer.error;
    return;
  }
  disk.arm = 0;
  disk.most = 1;
  $("settings").value = settings;
  const layout = settings.split(":")[0];
  if ([...$("layout").options].some((one) => one.value === layout)) $("layout").value = layout;
  $("crash-said").replaceChildren();
  $("map-said").replaceChildren();
  $("bytes").hidden = true;
  map.at = 0;
  $("point-state").textContent = "";
  $("doubt").replaceChildren(make("legend", { textContent: "Writes in doubt" }), "Look at the moments first.");
  say("made " + settings, "asked");
  showRequests([], 0);
  drawPlatter(0, 0, false);
  refresh();
}

function save(name, what) {
  const link = make("a", { href: URL.createObjectURL(new Blob([what])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function fill(select, entries) {
  $(select).replaceChildren(...entries.map((one) => make("option", { value: one.name, textContent: one.name, title: one.about })));
}

function connect() {
  $("make-form").addEventListener("submit", (event) => { event.preventDefault(); makeVolume($("settings").value.trim() || chosenSettings()); });
  for (const id of ["layout", "size", "disk", "queue"]) $(id).addEventListener("change", () => { $("settings").value = chosenSettings(); });
  $("shell-form").addEventListener("submit", (event) => { event.preventDefault(); runShell(); });
  $("begin").addEventListener("click", step);
  $("undo").addEventListener("click", () => {
    const answer = ask({ do: "undo" });
    say(answer.ok ? "undone: " + answer.undone : answer.error, answer.ok ? "asked" : "failed");
    refresh();
  });
  $("save").addEventListener("click", () => {
    save("twinfs.img", image());
    say("saved twinfs.img: twinfs check twinfs.img; twinfs mount twinfs.img DIRECTORY", "asked");
  });
  $("save-lines").addEventListener("click", () => {
    const answer = ask({ do: "lines" });
    if (answer.ok) save("twinfs.txt", answer.lines.join("\n") + "\n");
    say(answer.ok ? "saved twinfs.txt: twinfs lab lines twinfs.txt" : answer.error, answer.ok ? "asked" : "failed");
  });
  $("load").addEventListener("change", async () => {
    const file = $("load").files[0];
    if (!file) return;
    const answer = loadImage(new Uint8Array(await file.arrayBuffer()));
    say(answer.ok ? "loaded " + file.name : answer.error, answer.ok ? "asked" : "failed");
    refresh();
  });
  $("clean-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = await runLine(`clean ${$("clean-count").value} ${$("clean-garbage").value || 0}`);
    if (answer.ok) showRequests(answer.requests, answer.requests_left_out);
    refresh();
  });
  $("policy").addEventListener("click", async () => {
    await runLine(`remount victim=${$("victim").value},when=${$("when").value}`);
    refresh();
  });
  mapKeys();
  crashKeys();
}

async function start() {
  await startCore();
  about = ask({ do: "about" });
  fill("layout", about.layouts);
  fill("disk", about.disks.filter((one) => one.name !== "measured"));
  fill("queue", about.queues);
  fill("victim", about.victims);
  fill("when", about.when);
  $("victim").value = "cost-benefit";
  $("lines").replaceChildren(...about.shell.map((one) => make("option", { value: one.form })));
  $("help").replaceChildren(...about.shell.flatMap((one) => [make("dt", { textContent: one.form }), make("dd", { textContent: one.about })]));
  $("settings").value = chosenSettings();
  connect();
  $("starting").hidden = true;
  $("work").hidden = false;
  makeVolume(chosenSettings());
  navigation();
  document.body.dataset.ready = "yes";
}

start().catch((error) => { $("starting").textContent = "This browser cannot run it: " + error; throw error; });
