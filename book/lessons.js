"use strict";
// Chapters and exercises; questions and answers come from the program.
let chapters = [];

function seedOfPage() {
  return new URLSearchParams(location.search).get("seed") || "1";
}

function navigation() {
  chapters = ask({ do: "chapters" }).chapters || [];
  const entries = [["", "The volume"], ...chapters.map((one) => [String(one.number), `${one.number} ${one.title}`])];
  $("nav").replaceChildren(...entries.map(([key, title]) => {
    const button = make("button", { type: "button", textContent: title });
    button.dataset.chapter = key;
    button.addEventListener("click", () => { location.hash = key ? "chapter-" + key : "volume"; });
    return button;
  }));
  window.addEventListener("hashchange", showPlace);
  showPlace();
}

function showPlace() {
  const wanted = (location.hash.match(/^#chapter-(\d+)/) || [])[1] || "";
  for (const button of document.querySelectorAll("#nav button")) {
    if (button.dataset.chapter === wanted) button.setAttribute("aria-current", "page"); else button.removeAttribute("aria-current");
  }
  const chapter = chapters.find((one) => String(one.number) === wanted);
  $("work").hidden = Boolean(chapter);
  $("chapter").hidden = !chapter;
  if (chapter) showChapter(chapter); else if (map.view) drawMap();
}

function showChapter(chapter) {
  const seed = make("input", { id: "seed", value: seedOfPage() });
  const change = make("form", { className: "row", id: "seed-form" }, make("label", {}, "Variant (a number or your name)", seed), make("button", { type: "submit", textContent: "Use this variant" }));
  change.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams(location.search);
    query.set("seed", seed.value);
    history.replaceState(null, "", "?" + query + location.hash);
    showChapter(chapter);
  });
  $("chapter").replaceChildren(
    make("h2", { textContent: `Chapter ${chapter.number}: ${chapter.title}` }),
    make("p", { textContent: chapter.about }), change,
    ...chapter.exercises.map((id) => showExercise(id, seed.value)));
}

function showExercise(id, seed) {
  const question = ask({ do: "exercise", id, seed });
  if (!question.ok) return make("p", { className: "bad", textContent: question.error });
  const fields = question.parts.map((part) => {
    const name = `answer-${id}-${part.name}`;
    const field = part.choices
      ? make("select", { id: name }, make("option", { value: "", textContent: "choose" }), ...part.choices.map((choice) => make("option", { value: choice, textContent: choice })))
      : make("input", { id: name, autocomplete: "off" });
    field.dataset.name = part.name;
    return make("div", { className: "answer" }, make("label", { for: name, textContent: part.label }), field, make("span", { className: "mark", role: "status" }));
  });
  const said = make("p", { role: "status", className: "result" });
  const form = make("form", {}, ...fields, make("div", { className: "row" }, make("button", { type: "submit", textContent: "Check" })), said);
  const grade = (reveal) => {
    const answers = {};
    for (const field of form.querySelectorAll("[data-name]")) answers[field.dataset.name] = field.value;
    const result = ask({ do: "grade", id, seed, answers, reveal });
    if (!result.ok) { said.textContent = result.error; return; }
    result.parts.forEach((part, i) => {
      const mark = fields[i].querySelector(".mark");
      mark.textContent = part.right ? "right" : reveal ? "the answer is " + part.answer : "not right";
      mark.className = "mark " + (part.right ? "good" : "bad");
    });
    said.textContent = result.right ? "All right." : reveal ? "" : "Not yet: look at the hints.";
    said.className = "result " + (result.right ? "good" : "bad");
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); grade(false); });
  const show = make("button", { type: "button", textContent: "Show the answer" });
  show.addEventListener("click", () => grade(true));
  const tried = (question.try || []).length ? make("button", { type: "button", textContent: "Try it on the volume" }) : "";
  if (tried) tried.addEventListener("click", () => { location.hash = "volume"; tryLines(question.try); });
  const section = make("section", { className: "panel exercise" },
    make("h3", { textContent: `${id} ${question.title}` }), make("div", { className: "text", textContent: question.text }), form,
    make("details", {}, make("summary", { textContent: "Hints" }), make("ol", {}, ...question.hints.map((hint) => make("li", { textContent: hint }))), show), tried,
    question.known ? make("p", { className: "hint", textContent: question.known }) : "");
  section.dataset.exercise = id;
  return section;
}

async function tryLines(lines) {
  const made = ask({ do: "make", settings: lines[0] });
  if (!made.ok) { say(made.error, "failed"); return; }
  $("settings").value = lines[0];
  say("made " + lines[0], "asked");
  for (const line of lines.slice(1)) await runLine(line);
  refresh();
}
