// A list of all scores over the columns that the page carries, or that the server of a live run sends.
// Texts are set as text, never as markup; nothing is stored, and nothing is asked of anywhere else.
(() => {
  const by = (id) => document.getElementById(id);
  const live = document.body.dataset.live; // name of the run in requests to the viewer; undefined in a file
  const ask = async (what, rest = "") => {
    const answer = await fetch(`${what}?${[live, rest].filter(Boolean).join("&")}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer;
  };
  const MORE_ROWS = 12, POLL_MS = 500, SECTIONS_MS = 3000;
  const state = { columns: null, order: [], chosen: -1, texts: null, drawn: "", cell: null };

  // ---- where scores come from ----
  async function unpack(text) {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  const blocks = new Map();
  function block(number) {
    if (!blocks.has(number)) blocks.set(number, unpack(document.getElementsByClassName("block")[number].textContent));
    return blocks.get(number);
  }
  async function detail(example) {
    if (live !== undefined) return (await ask("detail", `example=${example}`)).json();
    const size = state.columns.block, found = await block(Math.floor(example / size));
    return { texts: found.texts, ...found.examples[example % size] };
  }

  // ---- small tools ----
  function element(name, kind, text) {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function figure(value, digits = 3) {
    if (value === null || value === undefined) return "–";
    const text = value.toFixed(digits);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  }
  const named = (aspect, value, digits = 3) => (Number.isInteger(value) && aspect.labels?.[value]) || figure(value, digits); // a label by its name
  const signed = (value, digits = 2) => (value > 0 ? "+" : "") + figure(value, digits);
  const at = (name, row) => (state.columns[name] ? state.columns[name][row] : null);

  function measure(rows) { // judge minus people, and its share of the scale
    const columns = state.columns;
    if (!columns.human) return;
    columns.gap ??= [];
    columns.size ??= [];
    for (const row of rows) {
      const { scale, unit } = columns.aspects[columns.aspect[row]], human = at("human", row), value = at("value", row);
      const known = human !== null && human !== undefined && value !== null;
      if (unit === "points") columns.gap[row] = known ? value - human : null;
      const gap = columns.gap[row] ?? null;
      columns.size[row] = gap === null ? null : Math.abs(gap) / (unit === "points" ? scale[1] - scale[0] : 1);
    }
  }

  // ---- filters and order ----
  const sorts = {
    size: ["Largest disagreement with people", (row) => -(at("size", row) ?? -1)],
    change: ["Flips, then largest changes", (row) => -((at("flip", row) ? 1e9 : 0) + Math.abs(at("change", row) ?? 0))],
    low: ["Lowest score", (row) => at("value", row) ?? Infinity],
    high: ["Highest score", (row) => -(at("value", row) ?? -Infinity)],
    unscored: ["Without a value first", (row) => -at("outcome", row)],
    run: ["Order of the examples", (row) => row],
    last: ["Newest first", (row) => -row],
  };
  function fill(select, options) {
    const before = select.value;
    select.replaceChildren(...options.map(([value, text]) => {
      const option = element("option", "", text);
      option.value = value;
      return option;
    }));
    if (options.some(([value]) => String(value) === before)) select.value = before;
  }
  function offer() {
    const columns = state.columns;
    const shown = Object.entries(sorts).filter(([name]) => (name !== "size" || columns.size) && (name !== "change" || columns.change) && (name !== "last" || live !== undefined));
    if (columns.change) shown.sort(([a], [b]) => (b === "change") - (a === "change"));
    fill(by("sort"), shown.map(([name, [text]]) => [name, text]));
    fill(by("aspect"), [["", "all"], ...columns.aspects.map((aspect, place) => [place, aspect.name])]);
    fill(by("system"), [["", "all"], ...columns.systems.map((system, place) => [place, system])]);
    fill(by("outcome"), [["", "all"], ...columns.outcomes.map((outcome, place) => [place, outcome])]);
    by("apart-label").hidden = !columns.size;
    by("system-label").hidden = !columns.systems.length;
    by("list").closest(".split").classList.toggle("with-other", Boolean(columns.other));
    by("people-key").hidden = !(columns.human && columns.aspects.some((aspect) => aspect.unit === "points"));
    by("other-key").hidden = !columns.other;
    by("columns").className = `row columns ${layout()}`;
    by("columns").replaceChildren(...["Example", ...(columns.systems.length ? ["System"] : []), "Aspect", "", columns.other ? "A" : "Judge", ...(columns.size ? ["People", "Apart"] : []), ...(columns.other ? ["B", "A − B"] : [])]
      .map((text, place) => element("span", place > (columns.systems.length ? 3 : 2) ? "n" : "", text)));
  }
  const layout = () => [!state.columns.size && "without-people", !state.columns.systems.length && "without-systems", state.columns.other && "with-other"].filter(Boolean).join(" ");
  function found(example, words) {
    const { ids, begins, systems, system } = state.columns;
    const text = state.texts ? state.texts[example] ?? "" : begins[example].toLowerCase();
    const all = `${ids[example]}\n${systems[system[example]] ?? ""}\n`.toLowerCase() + text;
    return words.every((word) => all.includes(word));
  }
  function choose() {
    const columns = state.columns;
    if (!columns) return;
    const aspect = by("aspect").value, system = by("system").value, outcome = by("outcome").value;
    const apart = Number(by("apart").value), cell = state.cell, words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = new Map(), order = [];
    for (let row = 0; row < columns.example.length; row++) {
      const example = columns.example[row];
      if (aspect !== "" && columns.aspect[row] !== Number(aspect)) continue;
      if (outcome !== "" && columns.outcome[row] !== Number(outcome)) continue;
      if (system !== "" && columns.system[example] !== Number(system)) continue;
      if (cell && (columns.aspect[row] !== cell.aspect || label(at("human", row)) !== cell.people || label(at(cell.run ? "other" : "value", row)) !== cell.judge)) continue;
      if (apart && !((at("size", row) ?? -1) >= apart)) continue;
      if (words.length) {
        if (!kept.has(example)) kept.set(example, found(example, words));
        if (!kept.get(example)) continue;
      }
      order.push(row);
    }
    const key = (sorts[by("sort").value] ?? sorts.run)[1];
    const keys = new Map(order.map((row) => [row, key(row)]));
    state.order = order.sort((a, b) => { const x = keys.get(a), y = keys.get(b); return x === y ? a - b : x < y ? -1 : 1; });
    const total = columns.example.length;
    by("count").textContent = order.length === total ? `${total.toLocaleString("en")} scores` : `${order.length.toLocaleString("en")} of ${total.toLocaleString("en")} scores`;
    state.drawn = "";
    draw();
  }
  const label = (value) => (value === null || value === undefined || Math.abs((value % 1) - 0.5) < 1e-9 ? null : Math.round(value)); // as `textassay agreement` counts labels
  function showCell(run, aspect, people, judge) { // the texts of one cell of a confusion matrix
    const name = state.columns.aspects[aspect], names = name?.labels ?? ["no", "yes"];
    if (!name) return;
    by("filters").reset();
    state.cell = { run, aspect, people, judge };
    by("cell").textContent = `${name.name}: people ${names[people]}, judge ${names[judge]} ×`;
    by("cell").hidden = false;
    choose();
    by("list").scrollTop = 0;
    by("texts").scrollIntoView();
  }
  function leaveCell() {
    state.cell = null;
    by("cell").hidden = true;
  }
  function save() { // the rows that are listed, in their order
    const columns = state.columns, number = (name) => (row) => at(name, row) ?? "";
    const label = (name) => names((row) => { const value = at(name, row), aspect = columns.aspects[columns.aspect[row]]; return Number.isInteger(value) && aspect.labels ? named(aspect, value) : value; });
    const names = (words) => (row) => { const text = words(row) ?? ""; return typeof text === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text; }; // no name is a formula
    const fields = {
      id: names((row) => columns.ids[columns.example[row]]), system: names((row) => columns.systems[columns.system[columns.example[row]]]),
      aspect: names((row) => columns.aspects[columns.aspect[row]].name), outcome: (row) => columns.outcomes[columns.outcome[row]], value: label("value"),
      people: columns.human && label("human"), apart: columns.gap && number("gap"),
      apart_in: columns.gap && ((row) => (at("gap", row) === null ? "" : columns.aspects[columns.aspect[row]].unit)), second_run: columns.other && label("other"), a_minus_b: columns.change && number("change"),
      calibrated: columns.calibrated && ((row) => columns.calibrated[0][row] ?? ""), low: columns.calibrated && ((row) => columns.calibrated[1][row] ?? ""), high: columns.calibrated && ((row) => columns.calibrated[2][row] ?? ""),
    };
    const shown = Object.entries(fields).filter(([, value]) => value), cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [shown.map(([name]) => name), ...state.order.map((row) => shown.map(([, value]) => cell(String(value(row)))))];
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([lines.map((line) => line.join(",")).join("\n"), "\n"], { type: "text/csv" }));
    link.download = "scores.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  }
  let textsAsked = false;
  async function readTexts() { // texts are unpacked at the first search
    if (live !== undefined || textsAsked || !state.columns.texts) return;
    textsAsked = true;
    const texts = [], count = document.getElementsByClassName("block").length;
    for (let number = 0; number < count; number++) {
      const { texts: shared, examples } = await block(number);
      examples.forEach((one, place) => {
        texts[number * state.columns.block + place] = [one.output, ...(one.given ?? []).flatMap((part) => [part.text, ...(part.pieces ?? []).map((piece) => piece.text)].map((at) => shared[at]))].filter(Boolean).join("\n").toLowerCase();
      });
    }
    state.texts = texts;
    choose();
  }

  // ---- the list: only rows in sight are elements ----
  const rowHeight = () => parseFloat(getComputedStyle(by("list")).getPropertyValue("--row"));
  function draw() {
    const list = by("list"), height = rowHeight();
    const first = Math.max(0, Math.floor(list.scrollTop / height) - MORE_ROWS);
    const last = Math.min(state.order.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + MORE_ROWS);
    const drawn = `${first} ${last} ${state.chosen} ${state.order.length} ${height}`;
    if (drawn === state.drawn) return;
    state.drawn = drawn;
    by("space").style.height = `${state.order.length * height}px`;
    by("window").style.transform = `translateY(${first * height}px)`;
    by("window").replaceChildren(...state.order.slice(first, last).map((row, place) => rowOf(row, first + place)));
    list.setAttribute("aria-activedescendant", state.order.includes(state.chosen) ? `row-${state.chosen}` : "");
  }
  function sign(kind, value, scale) {
    const made = element("i", `sign ${kind}`);
    made.style.left = `${100 * Math.min(Math.max((value - scale[0]) / (scale[1] - scale[0]), 0), 1)}%`;
    return made;
  }
  function rowOf(row, place) {
    const columns = state.columns, example = columns.example[row], aspect = columns.aspects[columns.aspect[row]];
    const made = element("div", `row ${layout()}`);
    Object.assign(made, { id: `row-${row}` });
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", String(row === state.chosen));
    made.setAttribute("aria-setsize", String(state.order.length));
    made.setAttribute("aria-posinset", String(place + 1));
    const value = at("value", row), human = at("human", row), other = at("other", row), lane = element("span", "lane");
    if (aspect.scale) {
      const near = (number) => number !== null && number >= aspect.scale[0] && number <= aspect.scale[1];
      if (near(human) && aspect.unit === "points") lane.append(sign("people", human, aspect.scale));
      if (near(other)) lane.append(sign("other", other, aspect.scale));
      if (value !== null) lane.append(sign("judge", value, aspect.scale));
    }
    const score = (kind, number) => { const shown = element("span", `${kind} n`, named(aspect, number, 2)); if (aspect.labels) shown.title = shown.textContent; return shown; };
    // ids of a data set begin alike: a narrow column shows their ends
    const id = columns.ids[example], shown = element("span", "id");
    shown.append(element("span", "", id.slice(0, -8)), element("span", "", id.slice(-8)));
    shown.title = id;
    made.append(shown, ...(columns.systems.length ? [element("span", "system", columns.systems[columns.system[example]] ?? "")] : []),
      element("span", "aspect", aspect.name), lane,
      value === null ? element("span", "value flag", columns.outcomes[columns.outcome[row]]) : score("value", value));
    if (columns.size) {
      made.append(score("people-value", human), element("span", "gap n", at("gap", row) === null ? "–" : signed(at("gap", row))));
    }
    if (columns.other) {
      const change = at("change", row);
      made.append(score("other-value", other), element("span", `change n${at("flip", row) ? " flag" : ""}`, change === null ? "–" : `${at("flip", row) ? "⇄ " : ""}${signed(change)}`));
    }
    made.setAttribute("aria-label", spoken(row)); // only the columns distinguish bare numbers
    made.addEventListener("click", () => pick(row, true));
    return made;
  }
  function spoken(row) {
    const columns = state.columns, example = columns.example[row], aspect = columns.aspects[columns.aspect[row]];
    const value = at("value", row), human = at("human", row), gap = at("gap", row), other = at("other", row), change = at("change", row);
    const parts = [columns.ids[example], columns.systems[columns.system[example]], `${aspect.name} ${value === null ? columns.outcomes[columns.outcome[row]] : named(aspect, value, 2)}`];
    if (columns.size && human !== null) parts.push(`people ${named(aspect, human, 2)}`);
    if (columns.size && gap !== null) parts.push(`apart ${signed(gap)}`);
    if (columns.other && other !== null) parts.push(`other run ${named(aspect, other, 2)}`);
    if (columns.other && change !== null) parts.push(`A minus B ${signed(change)}${at("flip", row) ? ", flips" : ""}`);
    return parts.filter(Boolean).join(", ");
  }

  // ---- one score ----
  const address = (row) => `#score/${encodeURIComponent(state.columns.ids[state.columns.example[row]])}/${encodeURIComponent(state.columns.aspects[state.columns.aspect[row]].name)}`;
  async function pick(row, open) {
    state.chosen = row;
    draw();
    if (open) {
      history.replaceState(null, "", address(row));
      by("detail").parentElement.classList.add("open");
      if (getComputedStyle(by("list").parentElement).display === "none") by("detail").scrollIntoView(); // a phone
    }
    const asked = row, shown = await detail(state.columns.example[row]);
    if (state.chosen === asked) by("detail").replaceChildren(...words(row, shown));
  }
  function quoted(text, kind = "blockquote") {
    const made = element(kind, kind === "p" ? "said" : "", text);
    made.dir = "auto";
    return made;
  }
  function folded(title, ...texts) {
    const made = element("details");
    made.append(element("summary", "", title), ...texts.map((text) => quoted(text)));
    return made;
  }
  const givenNames = { source: "Source", conversation: "Conversation", context: "Context", passages: "Passages" };
  function given(part, texts) { // the source of the output: a text, or turns and passages
    if (!part.pieces) return folded(givenNames[part.kind], texts[part.text]);
    const made = element("details", "given"), turns = Math.max(...part.pieces.map((piece) => piece.turn));
    made.open = true;
    made.append(element("summary", "", `${givenNames[part.kind]}, ${turns ? `${turns} turn${turns === 1 ? "" : "s"}` : part.pieces.length}`));
    if (part.shortened) made.append(element("p", "soft", "The judge was shown it shortened."));
    const drawn = drawPieces(part.pieces.map((piece) => ({ ...piece, text: texts[piece.text] })), "The text that is judged, above.");
    drawn.tabIndex = 0; // it scrolls: the keyboard must reach it
    drawn.setAttribute("role", "region");
    drawn.setAttribute("aria-label", givenNames[part.kind]);
    made.append(drawn);
    return made;
  }
  function share(start, end) {
    const space = document.querySelector("svg").namespaceURI, made = document.createElementNS(space, "svg");
    const rectangle = (kind, x, width) => {
      const one = document.createElementNS(space, "rect");
      for (const [name, value] of Object.entries({ class: kind, x, width, height: 8 })) one.setAttribute(name, value);
      return one;
    };
    for (const [name, value] of Object.entries({ class: "share", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" })) made.setAttribute(name, value);
    made.append(rectangle("track", 0, 100), rectangle(`bar ${end < start ? "minus" : "judge"}`, 100 * Math.min(start, end), 100 * Math.abs(end - start)));
    return made;
  }
  const titles = { label: "Probability of each label", question: "Sub-questions", contribution: "What moved the score", part: "Parts", note: "Notes" };
  function evidence(lines) {
    const made = [];
    for (const [kind, title] of Object.entries(titles)) {
      const own = lines.filter((line) => line[0] === kind);
      if (!own.length) continue;
      const list = element("ul", "evidence");
      for (const line of own) {
        const [, text, number, start, end, note, thought] = line.length === 3 ? [kind, line[1], figure(line[2] / 1000), 0, line[2] / 1000] : line;
        const item = element("li"), what = element("span", "what");
        what.append(element("bdi", "", text));
        if (note) what.append(" ", element("bdi", "soft", note));
        item.append(what, start === null ? element("span") : share(start, end), element("span", "n", number));
        if (thought) item.append(folded("Thought", thought));
        list.append(item);
      }
      made.push(element("h4", "", title), list);
    }
    return made;
  }
  function images(shown) {
    const list = element("div", "images");
    for (const [label, place] of shown.images) list.append(drawImage(label, shown.texts[place]));
    return list;
  }
  const MAX_DIFFERENCE = 1500; // words of each text: the table of common words grows with the square
  function differences(a, b) { // the words of both texts, and whether the other text lacks them
    const [first, second] = [a, b].map((text) => text.match(/\s+|[^\s]+/g) ?? []);
    if (first.length > MAX_DIFFERENCE || second.length > MAX_DIFFERENCE) return [[[a, false]], [[b, false]]];
    const width = second.length + 1, common = new Uint16Array((first.length + 1) * width);
    for (let i = first.length - 1; i >= 0; i--) {
      for (let j = second.length - 1; j >= 0; j--) {
        common[i * width + j] = first[i] === second[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
      }
    }
    const sides = [[], []];
    let i = 0, j = 0;
    while (i < first.length || j < second.length) {
      if (i < first.length && j < second.length && first[i] === second[j]) { sides[0].push([first[i++], false]); sides[1].push([second[j++], false]); }
      else if (j === second.length || (i < first.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) sides[0].push([first[i++], true]);
      else sides[1].push([second[j++], true]);
    }
    return sides;
  }
  function compared(shown, runs) { // two texts under one id, side by side, with their differences
    const made = element("div", "both");
    differences(shown.output ?? "", shown.other).forEach((words, run) => {
      const side = element("div"), text = quoted("");
      for (const [word, differs] of words) text.append(differs && word.trim() ? element("mark", "", word) : word);
      side.append(element("h4", "", `Text of ${"AB"[run]}, ${runs[run]}`), run || shown.output !== undefined ? text : element("p", "soft", "The text is not available."));
      made.append(side);
    });
    return [made];
  }
  function words(row, shown) {
    const columns = state.columns, example = columns.example[row], aspect = columns.aspects[columns.aspect[row]];
    const heading = element("h3"), verdict = element("p", "verdict"), close = element("button", "close", "Back to the list");
    close.addEventListener("click", back);
    heading.append(element("bdi", "", columns.ids[example]), " ", element("span", "soft", `${aspect.name}${columns.systems[columns.system[example]] ? `, ${columns.systems[columns.system[example]]}` : ""}`));
    const told = (label, value, more = "") => { if (verdict.childNodes.length) verdict.append(" · "); verdict.append(`${label} `, element("b", "n", value), element("span", "soft", more)); };
    const value = at("value", row);
    if (value === null) verdict.append(element("b", "flag", columns.outcomes[columns.outcome[row]]));
    else told("Judge", named(aspect, value), aspect.labels ? ` of ${aspect.labels.join(", ")}` : aspect.scale ? ` of ${aspect.scale[0]} to ${aspect.scale[1]}` : "");
    if (columns.calibrated && columns.calibrated[0][row] !== null) told("Calibrated", figure(columns.calibrated[0][row], 2), ` ${figure(columns.calibrated[1][row], 2)} to ${figure(columns.calibrated[2][row], 2)}`);
    if (at("human", row) !== null) {
      const raters = (shown.raters ?? {})[aspect.name];
      told("People", named(aspect, at("human", row)), raters ? ` (${raters.map((one) => one ?? "–").join(", ")})` : "");
      if (at("gap", row) !== null) told("Apart", signed(at("gap", row)), ` ${aspect.unit}`);
    }
    if (at("other", row) !== null) told("Second run", named(aspect, at("other", row)), at("flip", row) ? " flips" : "");
    const made = [close, heading, verdict];
    if (shown.other !== undefined) made.push(...compared(shown, columns.runs));
    else if (shown.output !== undefined) made.push(quoted(shown.output));
    made.push(...(shown.given ?? []).map((part) => given(part, shown.texts)));
    if (shown.other_given) made.push(element("h4", "", `Source of the text of B`), ...shown.other_given.map((part) => given(part, shown.texts)));
    if (shown.images) made.push(images(shown));
    const references = (shown.references ?? []).map((place) => shown.texts[place]);
    if (references.length) made.push(folded(references.length > 1 ? `${references.length} references` : "Reference", ...references));
    shown.scores.forEach((scores, run) => {
      const score = scores[aspect.name];
      if (!score) return;
      const [how, explanation, error, lines] = score;
      if (shown.scores.length > 1) made.push(element("h3", "", columns.runs[run]));
      if (error) made.push(element("p", "flag", error));
      if (explanation) made.push(quoted(explanation, "p"));
      made.push(element("p", "soft", how), ...evidence(lines));
    });
    return [...made, ...neighbors(row)];
  }
  function neighbors(row) { // the same text on other aspects
    const { example, aspect, aspects } = state.columns, list = element("ul", "others"), near = [];
    for (let one = 0; one < example.length; one++) if (example[one] === example[row] && one !== row) near.push(one);
    for (const one of near) {
      const item = element("li"), link = element("a", "", `${aspects[aspect[one]].name} ${named(aspects[aspect[one]], at("value", one), 2)}`);
      link.href = address(one);
      item.append(link);
      list.append(item);
    }
    return near.length ? [element("h4", "", "The same text on other aspects"), list] : [];
  }
  function back() {
    by("detail").parentElement.classList.remove("open");
    by("list").focus();
  }
  function follow() { // a link to one score: #score/ID/ASPECT, or #ID
    const [kind, id, aspect] = location.hash.slice(1).split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
    if (kind === "cell") { showCell(...location.hash.split("/").slice(1).map(Number)); return; }
    const columns = state.columns, wanted = kind === "score" ? id : kind;
    const row = columns.example.findIndex((example, one) => columns.ids[example] === wanted && (!aspect || columns.aspects[columns.aspect[one]].name === aspect));
    if (row < 0) return;
    if (!state.order.includes(row)) { by("filters").reset(); leaveCell(); choose(); }
    by("list").scrollTop = Math.max(0, state.order.indexOf(row) * rowHeight() - 100);
    pick(row, true);
    by("texts").scrollIntoView();
  }
  function move(event) {
    const page = Math.floor(by("list").clientHeight / rowHeight()), place = state.order.indexOf(state.chosen);
    const steps = { ArrowDown: place + 1, ArrowUp: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: state.order.length - 1 };
    if (event.key === "Enter" && state.chosen >= 0) { pick(state.chosen, true); by("detail").focus(); return; }
    if (!(event.key in steps) || !state.order.length) return;
    event.preventDefault();
    const next = Math.min(Math.max(steps[event.key], 0), state.order.length - 1), height = rowHeight(), list = by("list");
    if (next * height < list.scrollTop) list.scrollTop = next * height;
    if ((next + 1) * height > list.scrollTop + list.clientHeight) list.scrollTop = (next + 1) * height - list.clientHeight;
    pick(state.order[next], false);
  }

  // ---- a run that grows ----
  function put(more) {
    for (const [name, values] of Object.entries(more.scores)) {
      const column = state.columns[name] ?? (state.columns[name] = []);
      values.forEach((value, place) => { column[more.rows[place]] = value; });
    }
    measure(more.rows);
  }
  function add(more) { // later lines replace earlier ones
    const columns = state.columns ?? (state.columns = { ids: [], system: [], begins: [], example: [], aspect: [], outcome: [], value: [] });
    const named = () => JSON.stringify([columns.aspects, columns.systems, columns.runs, Boolean(columns.size), Boolean(columns.other)]);
    const heads = named();
    Object.assign(columns, more.head);
    for (const name of ["ids", "system", "begins"]) more.examples[name].forEach((value, place) => { columns[name][more.first + place] = value; });
    put(more);
    if (heads !== named()) offer();
  }
  async function watch() {
    let cursor = 0, version = -1, renewed = 0, ended = false;
    for (;;) {
      try {
        const more = await (await ask("scores", `cursor=${cursor}&known=${state.columns?.ids.length ?? 0}`)).json();
        if (more.restart) { location.reload(); return; }
        const first = !state.columns && more.rows.length;
        cursor = more.cursor;
        if (more.rows.length) { add(more); by("browser").hidden = false; }
        if (first) { choose(); if (location.hash.length > 1) follow(); }
        by("live").textContent = `${more.total.toLocaleString("en")} scores, ${more.status}`;
        if (more.more) continue;
        if (more.rows.length && !first) choose();
        const finished = more.status === "finished";
        if ((more.version !== version && Date.now() - renewed > SECTIONS_MS) || finished !== ended) {
          const page = await ask("sections");
          version = Number(page.headers.get("X-Version"));
          renew(await page.text());
          renewed = Date.now();
          if (finished && !ended && state.columns?.aspects.some((aspect) => aspect.unit === "ranks")) {
            put(await (await ask("whole")).json());
            offer();
            choose();
          }
          ended = finished;
        }
        document.body.dataset.ready = "true";
      } catch (error) { by("live").textContent = `the viewer does not answer; trying again (${error.message})`; }
      await new Promise((resolve) => setTimeout(resolve, document.hidden ? 5 * POLL_MS : POLL_MS));
    }
  }
  function renew(text) { // keep what the reader has opened
    const open = [...document.querySelectorAll("#sections details")].map((one) => one.open);
    by("sections").innerHTML = text; // escaped by the server, which shares its templates with the file
    document.querySelectorAll("#sections details").forEach((one, place) => { one.open = open[place] ?? false; });
  }

  // ---- start ----
  function start() {
    if (by("static")) by("static").hidden = true;
    by("browser").hidden = false;
    for (const id of ["sort", "aspect", "system", "outcome", "apart"]) by(id).addEventListener("change", () => { by("list").scrollTop = 0; choose(); });
    by("search").addEventListener("input", () => { by("list").scrollTop = 0; choose(); readTexts(); });
    by("download").addEventListener("click", save);
    by("cell").addEventListener("click", () => { leaveCell(); choose(); by("list").focus(); history.replaceState(null, "", "#texts"); });
    by("filters").addEventListener("submit", (event) => event.preventDefault());
    by("list").addEventListener("scroll", draw, { passive: true });
    by("list").addEventListener("keydown", move);
    addEventListener("resize", () => { state.drawn = ""; draw(); });
    addEventListener("hashchange", follow);
    addEventListener("keydown", (event) => {
      const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
      if (event.key === "/" && !typing) { event.preventDefault(); by("search").focus(); }
      if (event.key === "Escape") { if (typing) event.target.blur(); back(); }
    });
  }
  async function main() {
    document.querySelectorAll(".script-only").forEach((one) => one.remove());
    if (live !== undefined) { start(); by("browser").hidden = true; watch(); return; }
    if (!by("index")) return;
    state.columns = await unpack(by("index").textContent);
    measure(state.columns.example.keys());
    start();
    offer();
    choose();
    if (location.hash.length > 1) follow();
    document.body.dataset.ready = "true";
  }
  main();
})();
