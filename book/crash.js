"use strict";
// The power failure: a moment, the writes in doubt, and the recovery.
function crashPoint(number) {
  const answer = ask(number === null ? { do: "crash" } : { do: "crash", point: number });
  const state = $("point-state");
  if (!answer.ok) {
    state.textContent = answer.error;
    return;
  }
  const slider = $("point");
  slider.max = answer.points - 1;
  slider.value = answer.point;
  slider.setAttribute("aria-valuetext", `moment ${answer.point} of ${answer.points - 1}`);
  const line = answer.line ? `while “${answer.line}” is under way` : "after the last line";
  state.textContent = `Moment ${answer.point} of ${answer.points - 1}, at ${ms(answer.time_ns)} ms, ${line}: ${answer.in_doubt.length} writes in doubt.`;
  const choices = [["L", "lost"], ["W", "whole"], ["T", "torn"]];
  const rows = answer.in_doubt.map((one, i) => {
    const pick = make("select", { className: "outcome", ariaLabel: `write ${i + 1}` }, ...choices.map(([value, text]) => make("option", { value, textContent: text })));
    return make("div", { className: "row" }, pick, `${one.reported ? "in the drive's cache" : "under way"}: ${size(one.len)} at ${one.at}, ${one.what}`);
  });
  $("doubt").replaceChildren(make("legend", { textContent: "Writes in doubt" }), ...(rows.length ? rows : ["None: all that was written is certain."]));
}

function checked(check) {
  if (check.clean) return make("p", { className: "good", textContent: "The check finds nothing wrong. " + check.notes.join("; ") });
  return make("div", {}, make("p", { className: "bad", textContent: "The check finds:" }), make("ul", {}, ...check.findings.slice(0, 12).map((text) => make("li", { textContent: text }))));
}

function crashKeys() {
  $("look-crash").addEventListener("click", () => crashPoint(null));
  $("point").addEventListener("input", () => crashPoint(Number($("point").value)));
  $("crash-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const outcomes = [...document.querySelectorAll("#doubt .outcome")].map((one) => one.value).join("");
    const answer = ask({ do: "cut", point: Number($("point").value), outcomes });
    if (!answer.ok) {
      $("crash-said").replaceChildren(make("p", { className: "bad", textContent: answer.error }));
      return;
    }
    $("recover").disabled = false;
    $("crash-said").replaceChildren(make("p", { textContent: "The power is off. The map and the structures show what the platter has; no file system has seen it yet." }), checked(answer.check));
    say("the power fails", "asked");
    refresh();
  });
  $("recover").addEventListener("click", () => {
    const answer = ask({ do: "recover" });
    if (!answer.ok) {
      $("crash-said").replaceChildren(make("p", { className: "bad", textContent: answer.error }));
      return;
    }
    $("recover").disabled = true;
    const reads = answer.requests.filter((one) => one.kind === "read").length;
    const writes = answer.requests.filter((one) => one.kind === "write").length;
    $("crash-said").replaceChildren(
      make("p", { textContent: `Opened again in ${ms(answer.took_ns)} ms: ${reads} reads, ${writes} writes (listed under Disk). ${answer.recovery || "There was nothing to recover."}` }), checked(answer.check));
    say("recovered: " + (answer.recovery || "nothing to do"), "");
    showRequests(answer.requests, 0);
    refresh();
  });
}
