"use strict";
// The disk: its arm, the request that it serves, and where the time of each request goes.
const disk = { requests: [], most: 1, playing: 0 };
const PARTS = [["queue", "queue_ns"], ["seek", "seek_ns"], ["rotation", "rotation_ns"], ["transfer", "transfer_ns"], ["other", "other_ns"]];

function drawPlatter(cylinder, angle, working) {
  const share = disk.most > 0 ? Math.min(1, cylinder / disk.most) : 0;
  const radius = 92 - 62 * share;
  const at = `rotate(${angle})`;
  $("platter").innerHTML =
    `<circle r="100" fill="var(--free)" stroke="var(--line)"/><circle r="24" fill="var(--panel)" stroke="var(--line)"/>` +
    `<circle r="${radius}" fill="none" stroke="var(--data)" stroke-dasharray="3 4"/>` +
    `<path d="M0 0 L0 -100 A100 100 0 0 1 20 -98 Z" fill="var(--superblock)" opacity=".35" transform="${at}"/>` +
    `<line x1="105" y1="0" x2="${radius}" y2="0" stroke="${working ? "var(--bad)" : "var(--fg)"}" stroke-width="4"/>` +
    `<circle cx="${radius}" r="5" fill="${working ? "var(--bad)" : "var(--fg)"}"/>`;
}

function showRequests(requests, leftOut) {
  disk.requests = requests;
  for (const one of requests) if (one.cylinders) disk.most = Math.max(disk.most, ...one.cylinders);
  const cell = (value) => make("td", { className: "n", textContent: value });
  const rows = requests.slice(-60).map((one) => {
    const bar = make("div", { className: "bar", role: "img", ariaLabel: PARTS.map(([name, key]) => `${name} ${ms(one[key])} ms`).join(", ") });
    const total = PARTS.reduce((sum, [, key]) => sum + one[key], 0) || 1;
    for (const [name, key] of PARTS) {
      const part = make("i", { className: name });
      part.style.width = (one[key] * 100) / total + "%";
      bar.append(part);
    }
    const where = make("button", { type: "button", textContent: one.what || "" });
    where.addEventListener("click", () => showBytes(one.at, Math.min(one.len || 512, 512)));
    return make("tr", {},
      make("td", { textContent: `${one.kind} ${size(one.len)}${one.origin === "cleaner" ? " (cleaner)" : ""}` }),
      make("td", {}, where),
      make("td", {}, bar),
      ...PARTS.map(([, key]) => cell(one[key] ? ms(one[key]) : "")),
      cell(one.cylinders ? (one.cylinders[0] === one.cylinders[1] ? one.cylinders[0] : one.cylinders.join("–")) : ""));
  });
  document.querySelector("#requests tbody").replaceChildren(...rows);
  const more = leftOut + Math.max(0, requests.length - 60);
  document.querySelector("#requests caption").textContent =
    `Requests of the last line, in the order of service, times in ms${more ? ` (${more} earlier ones left out)` : ""}`;
}

// Plays the requests, slower by this factor than they were; returns when the last one is done.
async function playDisk(requests, slower) {
  const turn = ++disk.playing;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const timed = requests.filter((one) => one.done_ns > one.begun_ns).slice(-30);
  let arm = disk.arm || 0;
  if (!slower || still || timed.length === 0) {
    const last = [...requests].reverse().find((one) => one.cylinders);
    disk.arm = last ? last.cylinders[1] : arm;
    drawPlatter(disk.arm, 0, false);
    return;
  }
  for (const one of timed) {
    const to = one.cylinders ? one.cylinders[0] : arm;
    const length = Math.min(2500, ((one.done_ns - one.begun_ns) / 1e6) * slower * 0.4);
    const seek = one.seek_ns / Math.max(1, one.done_ns - one.begun_ns);
    $("disk-now").textContent = `${one.kind} ${size(one.len)}, ${one.what}: seek ${ms(one.seek_ns)}, rotation ${ms(one.rotation_ns)}, transfer ${ms(one.transfer_ns)} ms; queue: ${"▮".repeat(Math.min(one.waiting, 24)) || "empty"} ${one.waiting || ""}`;
    const from = arm;
    const begun = performance.now();
    await new Promise((done) => {
      const frame = () => {
        if (turn !== disk.playing) return done();
        const share = Math.min(1, (performance.now() - begun) / length);
        const moved = seek > 0 ? Math.min(1, share / seek) : 1;
        const time = one.begun_ns + share * (one.done_ns - one.begun_ns);
        drawPlatter(from + (to - from) * moved, ((time / 14.99e6) % 1) * 360, true);
        if (share < 1) requestAnimationFrame(frame); else done();
      };
      requestAnimationFrame(frame);
    });
    if (turn !== disk.playing) return;
    arm = one.cylinders ? one.cylinders[1] : to;
    disk.arm = arm;
  }
  drawPlatter(arm, 0, false);
}

function showDisk(view) {
  if (!view.disk) {
    $("disk-state").textContent = "The power is off.";
    return;
  }
  const spent = view.disk.parts.filter((part) => part.ns > 0).map((part) => `${part.name} ${ms(part.ns)}`).join(", ");
  $("disk-state").textContent = `${view.disk.name}: ${view.disk.served} requests since the volume was opened, arm at cylinder ${view.disk.arm ?? "?"}; time in ms: ${spent || "none"}.`;
}
