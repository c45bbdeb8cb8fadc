"use strict";
// Draws conversations by turn, passages by number and images, for the report, the viewer and the annotation page.
// Pieces come from `browser_piece`; a kind of piece with a look of its own has a branch in `pieceBody`.

function drawPieces(pieces, judged) { // `judged` says where the judged text is
  const list = pieceElement("div", "pieces"), calls = new Map();
  let turn = 0, box = null;
  for (const piece of pieces) {
    const mine = piece.turn === 0;
    if (mine || piece.turn !== turn) {
      const own = mine ? [piece] : pieces.filter((one) => one.turn === piece.turn);
      const speaker = mine ? piece.speaker : own.find((one) => one.speaker && one.kind !== "result" && one.kind !== "passage")?.speaker ?? "assistant";
      box = pieceElement("div", `turn ${mine ? piece.kind : speaker.split(" ")[0] === "assistant" ? "assistant" : "user"}`);
      const name = mine ? piece.name : `turn ${piece.turn}`, heading = pieceElement("p", "turn-name", name);
      if (speaker) heading.append(" ", pieceElement("bdi", "", speaker));
      turn = piece.turn;
      if (piece.kind !== "system") box.append(heading); // its summary names it
      list.append(box);
    }
    const key = `${piece.turn}/${piece.call}`;
    if (piece.kind === "result" && calls.has(key)) calls.get(key).append(pieceElement("p", "turn-name", "result"), pieceText(piece.text));
    else box.append(pieceBody(piece, judged));
    if (piece.kind === "call") calls.set(key, box.lastChild);
  }
  return list;
}

function drawImage(label, text) { // addresses are links: a page loads nothing
  const box = pieceElement("figure"), caption = pieceElement("figcaption", "", label);
  if (text.startsWith("data:image/")) {
    const image = pieceElement("img");
    image.src = text;
    image.alt = label;
    box.append(image);
  } else if (/^https?:/.test(text)) {
    const link = pieceElement("a", "", text);
    Object.assign(link, { href: text, target: "_blank", rel: "noopener noreferrer" });
    caption.append(": ", link);
  } else {
    caption.append(`: ${text}`);
  }
  box.append(caption);
  return box;
}

function pieceBody(piece, judged) {
  if (piece.kind === "answer") return pieceElement("p", "judged-here", judged);
  if (piece.kind === "text" || piece.turn === 0 && piece.kind === "passage") return pieceText(piece.text);
  const made = pieceElement("details", "tool"), name = piece.name.split(", ").slice(1).join(", ") || piece.name;
  const line = piece.text.replace(/\s+/g, " ").slice(0, 120);
  const summary = pieceElement("summary", "", `${name} `);
  summary.append(pieceElement("bdi", "", piece.speaker && piece.kind !== "system" ? `${piece.speaker}: ${line}` : line));
  made.append(summary, pieceText(piece.text));
  return made;
}

function pieceText(text) {
  const made = pieceElement("p", "piece", text);
  made.dir = "auto";
  return made;
}

function pieceElement(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}
