"use strict";
/* One text at a time. Answers go into an outbox that survives reloads and lost connections, and leave
   it when the server says that they are on its disk. Texts are only ever set as text, never as HTML. */

const token = location.pathname.split("/").pop();
const api = `/api/${token}`;
const store = `textassay ${token}`;
const $ = (id) => document.getElementById(id);

let study = null;
let upcoming = [];          // items that the server leased to this rater, in order
let past = [];              // items answered in this page, for Back
let shown = null;           // {item, answer, draft, since, seconds, past: index or null}
let outbox = [];
let progress = { done: 0, repeated: 0, remaining: 0 };
let sending = null;         // the promise of the answers that are being sent, if any are
let retryIn = 1;
let read = null;            // digest of the guidelines that this rater has read

/* ---- what survives a reload ---- */

function load() {
  try {
    return JSON.parse(localStorage.getItem(store)) || {};
  } catch {
    return {};
  }
}

function keep() {
  const draft = shown && { key: shown.item.key, repeat: shown.item.repeat, ...collect(), seconds: elapsed() };
  try {
    localStorage.setItem(store, JSON.stringify({ outbox, draft, read }));
  } catch {
    status("This browser stores no data: stay on this page until everything is saved.", true);
  }
}

/* ---- talking to the server ---- */

async function ask(path, options) {
  const response = await fetch(api + path, options);
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(body.error || response.statusText), { status: response.status });
  return body;
}

async function refill() {
  const answer = await ask("/items");
  const waiting = new Set(outbox.map(visitOf));
  const current = shown && shown.past === null ? visitOf(shown.item) : null;
  upcoming = answer.items.filter((item) => !waiting.has(visitOf(item)) && visitOf(item) !== current);
  setProgress(answer);
}

function flush() {
  sending = sending || send().finally(() => { sending = null; });
  return sending;
}

async function send() {
  while (outbox.length) {
    const answer = outbox[0];
    try {
      const options = {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(answer),
      };
      setProgress(await ask("/ratings", options));
      retryIn = 1;
    } catch (error) {
      if (error.status === 409) {
        status("A different answer of yours to this text is already saved, perhaps from another window.", true);
      } else if (error.status >= 400 && error.status < 500) {
        status(`Not accepted: ${error.message}`, true);
        break;                                  // it stays in the outbox: nothing is thrown away unseen
      } else {
        status(`${outbox.length} waiting to be saved; trying again`, true);
        setTimeout(flush, retryIn * 1000);
        retryIn = Math.min(retryIn * 2, 30);
        break;
      }
    }
    outbox.shift();
    keep();
    status(outbox.length ? `${outbox.length} waiting to be saved` : "All saved", outbox.length > 0);
  }
}

/* ---- one item ---- */

const visitOf = (item) => `${item.key} ${item.repeat}`;
const elapsed = () => (shown ? shown.seconds + (shown.since ? (performance.now() - shown.since) / 1000 : 0) : 0);

function show(item, answer = null, index = null, draft = null) {
  shown = { item, answer, past: index, seconds: answer ? answer.seconds : 0, since: performance.now() };
  if (draft) shown.seconds = draft.seconds || 0;
  const texts = $("texts");
  texts.replaceChildren();
  for (const part of item.given) texts.append(panel(part, "given"));
  for (const part of item.images) texts.append(drawImage(part.label, part.text));
  const outputs = item.outputs.map((part) => panel(part, "output"));
  if (outputs.length > 1) {
    const pair = document.createElement("div");
    pair.className = "pair";
    pair.append(...outputs);
    texts.append(pair);
  } else {
    texts.append(...outputs);
  }
  fill(draft || answer);
  $("intro").textContent = study.intro;
  $("next").hidden = false;
  $("back").disabled = item.position === 0;
  $("next").textContent = "Save and continue";
  mark(0, true);
  window.scrollTo(0, 0);                        // a text is read before it is rated: on a phone the form is below it
}

function panel(part, kind) {
  const box = document.createElement("div");
  box.className = `text ${kind}`;
  const title = document.createElement("h2");
  title.textContent = part.label;
  const text = part.pieces ? drawPieces(part.pieces, "The text to rate, below.") : document.createElement("p");
  if (!part.pieces) {
    text.dir = "auto";
    text.textContent = part.text;
  }
  text.classList.add("content");
  if (kind === "given") {                      // long sources scroll: the keyboard must reach them
    text.tabIndex = 0;
    text.setAttribute("role", "region");
    text.setAttribute("aria-label", part.label);
  }
  box.append(title, text);
  return box;
}

function build() {
  const form = $("form");
  const kinds = new Set(study.questions.map((question) => question.kind));
  if (study.guidelines) kinds.add("guidelines");
  document.querySelectorAll("#help [data-for]").forEach((key) => {
    key.hidden = key.nextElementSibling.hidden = !kinds.has(key.dataset.for);
  });
  study.questions.forEach((question, number) => {
    const set = document.createElement("fieldset");
    set.dataset.aspect = question.aspect;
    const legend = document.createElement("legend");
    legend.textContent = question.aspect;
    const words = document.createElement("p");
    words.textContent = question.definition;
    const fields = { number: numberField, several: boxes }[question.kind] || buttons;
    set.append(legend, words, ...meanings(question), fields(question, number));
    if (question.kind === "buttons" || question.kind === "number") set.append(ends(question));
    set.addEventListener("focusin", () => mark(number, false));
    set.addEventListener("change", () => { set.classList.remove("missing"); keep(); });
    form.append(set);
  });
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "Add a remark";
  const remark = document.createElement("textarea");
  remark.id = "comment";
  remark.rows = 2;
  remark.maxLength = 2000;
  remark.setAttribute("aria-label", "Remark");
  remark.addEventListener("input", keep);
  details.append(summary, remark);
  form.append(details);
  form.addEventListener("submit", (event) => event.preventDefault());
}

/* Open until the rater folds them or has rated a text; a changed text is another one to read. */
function tell(guidelines) {
  if (!guidelines) return;
  const details = $("guidelines");
  details.hidden = false;
  details.querySelector(".content").textContent = guidelines.text;
  details.open = read !== guidelines.digest;
  details.addEventListener("toggle", () => { if (!details.open) haveRead(); });
}

function haveRead() {
  if (!study.guidelines || read === study.guidelines.digest) return;
  read = study.guidelines.digest;
  $("guidelines").open = false;
  keep();
}

/* What the labels mean, a line each. */
function meanings(question) {
  return question.labels.filter(([, meaning]) => meaning).map(([name, meaning]) => {
    const line = document.createElement("p");
    line.className = "meaning";
    line.textContent = `${name}: ${meaning}`;
    return line;
  });
}

function ends(question) {
  const words = document.createElement("p");
  words.className = "ends";
  const [low, high] = [question.values[0], question.values[question.values.length - 1]];
  words.textContent = `${low} is the lowest rating, ${high} the highest.`;
  return words;
}

function labels(question) {
  if (question.kind === "yes-no") return new Map([[1, "Yes"], [0, "No"]]);
  if (question.kind === "choice") return new Map([[1, "First"], [0, "Second"], [0.5, "Equal"]]); // as the keys 1, 2, 3
  if (question.kind === "labels") return new Map(question.labels.map(([name], at) => [at, name]));
  return new Map(question.values.map((value) => [value, String(value)]));
}

function button(type, name, value, text) {
  const label = document.createElement("label");
  if (value === "none" || value === "empty") label.className = "none";
  const input = document.createElement("input");
  input.type = type;
  input.name = name;
  input.value = String(value);
  const face = document.createElement("span");
  face.textContent = text;
  label.append(input, face);
  return label;
}

function buttons(question, number) {
  const row = document.createElement("div");
  row.className = "values";
  for (const [value, text] of [...labels(question), ["none", "Cannot judge"]]) {
    row.append(button("radio", `q${number}`, value, text));
  }
  return row;
}

/* Any number of labels. That none applies has to be said, or it could not be told from no answer. */
function boxes(question, number) {
  const row = document.createElement("div");
  row.className = "values";
  question.labels.forEach(([name], at) => row.append(button("checkbox", `c${number}`, at, name)));
  row.append(button("radio", `q${number}`, "empty", "None of these"), button("radio", `q${number}`, "none", "Cannot judge"));
  row.addEventListener("change", (event) => {
    const other = event.target.type === "radio" ? "input[type=checkbox]" : "input[type=radio]";
    row.querySelectorAll(other).forEach((input) => { input.checked = false; });
  });
  return row;
}

function numberField(question, number) {
  const row = document.createElement("div");
  row.className = "values";
  const input = document.createElement("input");
  input.type = "number";
  input.name = `n${number}`;
  [input.min, input.max] = question.values;
  input.step = "any";
  input.setAttribute("aria-label", `${question.aspect}, from ${question.values[0]} to ${question.values[1]}`);
  const label = document.createElement("label");
  label.className = "none";
  const none = document.createElement("input");
  none.type = "radio";
  none.name = `q${number}`;
  none.value = "none";
  const face = document.createElement("span");
  face.textContent = "Cannot judge";
  label.append(none, face);
  input.addEventListener("input", () => { none.checked = false; keep(); });
  none.addEventListener("change", () => { input.value = ""; });
  row.append(input, label);
  return row;
}

function fill(answer) {
  $("form").reset();
  $("comment").value = (answer && answer.comment) || "";
  study.questions.forEach((question, number) => {
    const set = $("form").children[number];
    set.classList.remove("missing");
    if (!answer || !isIn(answer.ratings, question)) return;
    if (question.kind === "several") return fillBoxes(set, question.names.map((name) => answer.ratings[name]));
    const value = answer.ratings[question.aspect];
    const field = set.querySelector("input[type=number]");
    if (field && value !== null) field.value = value;
    else set.querySelectorAll("input[type=radio]").forEach((input) => {
      input.checked = input.value === (value === null ? "none" : String(value));
    });
  });
}

function fillBoxes(set, values) {
  const said = values.includes(null) ? "none" : values.includes(1) ? "" : "empty";
  set.querySelectorAll("input[type=checkbox]").forEach((input, at) => { input.checked = values[at] === 1; });
  set.querySelectorAll("input[type=radio]").forEach((input) => { input.checked = input.value === said; });
}

const isIn = (ratings, question) => question.names.every((name) => name in ratings);

function collect() {
  const ratings = {};
  study.questions.forEach((question, number) => {
    const set = $("form").children[number];
    const chosen = set.querySelector("input[type=radio]:checked");
    const field = set.querySelector("input[type=number]");
    const marked = [...set.querySelectorAll("input[type=checkbox]")].map((input) => Number(input.checked));
    if (question.kind === "several") {
      if (chosen || marked.includes(1)) {
        question.names.forEach((name, at) => { ratings[name] = chosen && chosen.value === "none" ? null : marked[at]; });
      }
    } else if (chosen) ratings[question.aspect] = chosen.value === "none" ? null : Number(chosen.value);
    else if (field && field.value !== "" && field.checkValidity()) ratings[question.aspect] = Number(field.value);
  });
  return { ratings, comment: $("comment").value };
}

/* ---- going on and back ---- */

async function next() {
  if (!shown) return;
  const { ratings, comment } = collect();
  const missing = study.questions.findIndex((question) => !isIn(ratings, question));
  study.questions.forEach((question, number) =>
    $("form").children[number].classList.toggle("missing", !isIn(ratings, question)));
  if (missing >= 0) return mark(missing, true);
  haveRead();
  const before = shown.answer;
  const changed = !before || JSON.stringify([before.ratings, before.comment]) !== JSON.stringify([ratings, comment]);
  const answer = { ratings, comment, revision: (before ? before.revision : 0) + 1, seconds: elapsed() };
  const index = shown.past;
  if (changed) {
    outbox.push({ key: shown.item.key, repeat: shown.item.repeat, ...answer });
    if (index === null) past.push({ item: shown.item, answer });
    else past[index].answer = answer;
    flush();
  }
  if (index !== null && index + 1 < past.length) return show(past[index + 1].item, past[index + 1].answer, index + 1);
  await advance();
}

async function advance() {
  shown = null;
  let connected = true;
  if (upcoming.length < 2) connected = await refill().then(() => true, () => false);
  if (!upcoming.length && connected) {          // the server may still offer an item whose answer is on its way
    await flush();
    connected = !outbox.length && await refill().then(() => true, () => false);
  }
  if (upcoming.length) {
    $("form").hidden = false;
    $("next").disabled = false;
    show(upcoming.shift());
  } else if (connected) {
    finish();
  } else {
    notice("No connection. Your answers are kept in this browser; the next text appears as soon as it can be fetched.");
    setTimeout(advance, 2000);
  }
  keep();
}

async function back() {
  if (shown ? shown.item.position === 0 : !past.length) return;
  if (shown && shown.past === null) upcoming.unshift(shown.item);
  const index = (!shown || shown.past === null ? past.length : shown.past) - 1;
  if (index >= 0) {
    $("form").hidden = false;
    $("next").disabled = false;
    return show(past[index].item, past[index].answer, index);
  }
  try {
    const item = await ask(`/history/${shown.item.position - 1}`);
    past.unshift({ item, answer: item.answer });
    show(item, item.answer, 0);
  } catch {
    if (shown.past === null) upcoming.shift();
    status("The previous text cannot be fetched now", true);
  }
}

function finish() {
  if (progress.remaining) {
    notice("No text is available right now: the remaining ones are with other raters. Reload this page later.");
    return;
  }
  const twice = progress.repeated
    ? ` You saw ${progress.repeated} of the texts twice, which shows how steady ratings are.`
    : "";
  notice(`Done. Thank you! You can close this page once everything is saved.${twice}`);
  $("intro").textContent = "All texts are rated";
  $("next").hidden = true;
}

function notice(text) {
  const words = document.createElement("p");
  words.className = "notice";
  words.textContent = text;
  $("texts").replaceChildren(words);
  $("form").hidden = true;
  $("next").disabled = true;
  $("back").disabled = !past.length;
}

/* ---- the frame around it ---- */

function setProgress(answer) {
  progress = { done: answer.done, repeated: answer.repeated, remaining: answer.remaining };
  $("bar").max = Math.max(1, progress.done + progress.remaining);
  $("bar").value = progress.done;
  $("count").textContent = `${progress.done} done, ${progress.remaining} to go`;
}

function status(text, waiting = false) {
  $("saved").textContent = text;
  $("saved").classList.toggle("waiting", waiting);
}

let marked = 0;

function mark(number, focus) {
  const sets = [...$("form").querySelectorAll("fieldset")];
  marked = Math.max(0, Math.min(number, sets.length - 1));
  sets.forEach((set, index) => set.classList.toggle("current", index === marked));
  if (focus && sets[marked]) {
    const input = sets[marked].querySelector("input:checked") || sets[marked].querySelector("input");
    input.focus({ preventScroll: false });
  }
}

/* The rating that a digit stands for: its own, 10 for 0 on a scale from 1, a label by its place, first and second of
   two texts. */
function valueOf(key) {
  const question = study.questions[marked];
  if (question.labels.length) return Number(key) - 1;
  if (question.kind === "choice") return { 1: 1, 2: 0, 3: 0.5 }[key];
  return key === "0" && !question.values.includes(0) ? 10 : Number(key);
}

function choose(value) {
  const set = $("form").querySelectorAll("fieldset")[marked];
  const input = set && [...set.querySelectorAll("input")].find((one) => one.value === String(value));
  if (!input || input.type === "number") return;
  const isBox = input.type === "checkbox";
  input.checked = !isBox || !input.checked;
  input.dispatchEvent(new Event("change", { bubbles: true }));
  if (isBox) return;                             // there may be more to mark
  if (marked + 1 < study.questions.length) mark(marked + 1, true);
  else $("next").focus();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const typing = event.target.matches("textarea, input[type=number]");
  if (event.key === "Enter" && !event.target.matches("textarea, button, summary")) {
    event.preventDefault();
    next();
  } else if (typing) {
    return;
  } else if (event.key === "?") {
    $("help").showModal();
  } else if (/^g$/i.test(event.key) && study.guidelines) {
    $("guidelines").open = !$("guidelines").open;
  } else if (event.key === "ArrowLeft" && !event.target.matches("input[type=radio]:checked")) {
    event.preventDefault();
    back();
  } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    event.preventDefault();
    mark(marked + (event.key === "ArrowUp" ? -1 : 1), true);
  } else if (/^[0-9]$/.test(event.key)) {
    choose(valueOf(event.key));
  } else if (/^x$/i.test(event.key) || (/^[yn]$/i.test(event.key) && study.questions[marked].labels.length <= 2)) {
    choose({ y: 1, n: 0, x: "none" }[event.key.toLowerCase()]);
  }
}

async function start() {
  study = await ask("/study");
  setProgress(study);
  $("intro").textContent = study.intro;
  document.title = `Rate texts \u2013 ${study.rater}`;
  build();
  const kept = load();
  outbox = kept.outbox || [];
  read = kept.read || null;
  tell(study.guidelines);
  await refill();
  const draft = kept.draft;
  const first = upcoming.shift();
  if (first) show(first, null, null, draft && visitOf(draft) === visitOf(first) ? draft : null);
  else finish();
  status(outbox.length ? `${outbox.length} waiting to be saved` : "", outbox.length > 0);
  flush();
}

document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", () => {
  if (!shown) return;
  if (document.hidden) {                       // a text in the background is not being read
    shown.seconds = elapsed();
    shown.since = null;
    keep();
  } else {
    shown.since = performance.now();
  }
});
window.addEventListener("online", () => { retryIn = 1; flush(); });
$("next").addEventListener("click", next);
$("back").addEventListener("click", back);
$("help-button").addEventListener("click", () => $("help").showModal());
$("help-close").addEventListener("click", () => $("help").close());
start().catch((error) => {
  const words = document.createElement("p");
  words.className = "notice";
  words.textContent = error.status === 404 ? error.message : `The page cannot be loaded: ${error.message}. Reload to try again.`;
  document.querySelector("main").replaceChildren(words);
});
