// Scores that textassay gave to the outputs of a run, for promptfoo:
//
//   assert:
//     - type: javascript
//       value: file://scores.cjs
//       config: { aspect: coherence, threshold: 3 }   # both may be left out
//
// `aspect` is one aspect (default: all, and their mean), `threshold` the least value that passes, on
// the scale of the aspect (of aspects on which less is better, the largest). A text that was not
// judged, or has no score, is an error of the test and not a low score.

const { createHash } = require("node:crypto");

const entries = [
/* entries */
];

function key(value) {
  let text = typeof value === "string" ? value : JSON.stringify(value ?? "");
  if (/^\s*[{[]/.test(text)) {
    try {
      text = JSON.stringify(JSON.parse(text));
    } catch {
      // no JSON: a text that begins with a bracket
    }
  }
  const plain = text.replace(/[ \t\r\n\f\v]+/g, " ").replace(/^ | $/g, "");
  return createHash("sha256").update(plain, "utf8").digest("hex").slice(0, 16);
}

function find(output, context) {
  const digest = key(output);
  let found = entries.filter((entry) => entry.output === digest);
  if (found.length > 1) {
    // outputs such as "Yes" occur more than once: the question distinguishes them
    const asked = new Set([context.prompt, ...Object.values(context.vars ?? {})].map(key));
    const same = found.filter((entry) => asked.has(entry.source));
    found = same.length ? same : found;
  }
  if (!found.length) throw new Error("textassay has not judged this output");
  const values = (entry) => JSON.stringify(Object.values(entry.scores).map((one) => one.value));
  if (new Set(found.map(values)).size > 1) {
    const ids = found.map((entry) => entry.id).join(", ");
    throw new Error(`textassay judged this output more than once, with unequal scores: ${ids}`);
  }
  return found[0];
}

module.exports = (output, context) => {
  const { aspect, threshold } = context.config ?? {};
  const entry = find(output, context);
  const names = aspect === undefined ? Object.keys(entry.scores) : [aspect];
  const parts = names.map((name) => {
    const one = entry.scores[name];
    if (one === undefined) throw new Error(`textassay did not judge ${name}`);
    if (one.missing !== undefined) throw new Error(`no score for ${name}: ${one.missing}`);
    const limit = one.falls ? one.value <= threshold : one.value >= threshold;
    const pass = threshold === undefined || limit;
    const reason = `${name} ${one.value}${one.reason ? `: ${one.reason}` : ""}`;
    return { pass, score: one.score, reason, metadata: one.metadata };
  });
  return {
    pass: parts.every((part) => part.pass),
    score: parts.reduce((sum, part) => sum + part.score, 0) / parts.length,
    reason: parts.map((part) => part.reason).join("\n"),
    namedScores: Object.fromEntries(names.map((name, at) => [name, parts[at].score])),
    metadata: { textassay: Object.fromEntries(names.map((name, at) => [name, parts[at].metadata])) },
    ...(parts.length > 1 ? { componentResults: parts } : {}),
  };
};
