"""Replies of the mock server: ratings, lists, plans and log-probabilities that prompts ask for.

Replies depend on the model, the prompt and the draw only.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

Json = dict[str, Any]
Reply = Callable[[Json, int], str]
"""A function of the request's body and the number of the draw."""
WORDS = (
    "the",
    "text",
    "is",
    "clear",
    "and",
    "mostly",
    "true",
    "to",
    "its",
    "source",
    "told",
    "in",
    "fewer",
    "words",
)
LABELS = (("1", "2", "3", "4", "5"), ("Yes", "No", "yes", "no"), ("A", "B", "C", "D", "E"))
DEFINITIONS = (
    "how well the text does in it, from the first sentence to the last.",
    "whether the text does well in it throughout, without faults that a careful reader would notice"
    " and mind.",
    "how far the text keeps to it, given what it was made from, and so that a reader who knows"
    " nothing else is served.",
)
STEPS = (
    "Read what there is to read from beginning to end, and form a first impression of {}.",
    "Note what speaks for it and what against it, in the text and beside what it was made from.",
    "Where scores of evaluators are given, take them as hints that support or question the first"
    " impression.",
    "Decide on the rating by the definition, and weigh the faults by how much they would disturb a"
    " reader.",
)
_LIST_OF = re.compile(r"numbered list of (?:exactly|at most) (\d+) lines")
_OUTPUT = re.compile(r"<output-\w+>\n(.*?)\n</output-", re.DOTALL)
_SOURCE = re.compile(r"<source-\w+>\n(.*?)\n</source-", re.DOTALL)
_PLANNED = re.compile(r"(?m)^- (.+): \[names of assistant evaluators")
_TOOL = re.compile(r"(?m)^\d+\. ([\w.-]+): .*\(Range: ")
_FLOATING = re.compile(r"(?m)^(.+) \((-?[\d.]+)-(-?[\d.]+), Any Floating Value\): ")
_RATED = re.compile(r"(?m)^\d+\. (.+?) \((\d+) to (\d+)\): ")
_FIELDS = re.compile(r'one field for each aspect, named as in "([^\n]+)", with')
_SCALE = re.compile(r"from (\d+) \(worst\) to (\d+) \(best\)")
_CRITERION = re.compile(r"(?m)^\w.*? \((\d+)-(\d+)\)(?: -|:) ")
_SEVERAL = re.compile(r"(?s)\n(?:Criteria|Questions):\n(.*?)\n\n")
_ONE_OF = re.compile(r"Answer with (.+) or (.+) and nothing else\.\s*(?:Answer:)?$")
_TYPED = re.compile(r"(?ms)^(q\d+): .*?^The answer is ([^\n]+)\.$")
_LETTER = re.compile(r"(?m)^([A-Z])\. ")
_NUMBERED = re.compile(r"(?m)^\d+\. ")
_TOKEN = re.compile(r"\s*(?:\w+|[^\w\s]+)|\s+")


def reply_to(body: Json, prompt: str, draw: int, reply: str | Reply) -> str:
    """Return the text of one answer to a request."""
    if body.get("max_tokens") == 0:
        return ""
    if callable(reply):
        return reply(body, draw)
    number = _hash(str(body.get("model")), prompt, str(draw))
    if body.get("max_tokens") == 1 or _is_yes_or_no(prompt):
        likeliest = [*_alternatives("", _key(prompt), 0, _options_of(prompt))]
        if _is_yes_or_no(prompt):
            likeliest = [label for label in likeliest if label in LABELS[1]]
        return likeliest[draw % min(3, len(likeliest))]
    if reply == "score":
        return _as_asked(prompt, number)
    return (
        " ".join(WORDS[(number + 7 * i) % len(WORDS)] for i in range(number % 13 + 4)).capitalize()
        + "."
    )


def _is_yes_or_no(prompt: str) -> bool:
    """Return whether a prompt ends in a question that one word answers."""
    return prompt.rstrip().endswith("?") and '"quote": ' not in prompt


def _as_asked(prompt: str, number: int) -> str:
    """Answer in the form that textassay's prompts ask for: a list, a plan, or ratings."""
    if labels := _options_of(prompt):
        return labels[number % len(labels)]
    if "under the name of the question" in prompt:
        offered = {name: re.split(", | or ", labels) for name, labels in _TYPED.findall(prompt)}
        return json.dumps(
            {name: one[_hash(name, str(number)) % len(one)] for name, one in offered.items()}
        )
    if '{"action": "verdict"' in prompt:
        return json.dumps(_step_of_a_judge(prompt, number))
    # a claim takes the place of the output, and may only be judged by its source
    quoted = _SOURCE if "\nClaim:\n" in prompt else _OUTPUT
    if '"quote": ' in prompt and (judged := quoted.search(prompt)):
        if several := _SEVERAL.search(prompt):
            return _answers(len(_NUMBERED.findall(several[1])), judged[1], number)
        return json.dumps({"quote": judged[1], "answer": ("yes", "no")[number % 2]})
    if "one claim on each line" in prompt and (wanted := _LIST_OF.search(prompt)):
        claim = f"of the text {number} says that someone did something with somebody at some place"
        return "\n".join(f"{i}. Claim {i} {claim}." for i in range(1, int(wanted[1]) + 1))
    if wanted := _LIST_OF.search(prompt):
        return "\n".join(
            f"{i}. Respect {i}: {_definition(number, i)}" for i in range(1, int(wanted[1]) + 1)
        )
    if prompt.rstrip().endswith("Evaluation Steps:"):
        return _steps(["the text"], number)
    if '"Answer: X"' in prompt:
        letters = _LETTER.findall(prompt.partition("Choose the label")[2])
        return f"So it is.\nAnswer: {letters[number % len(letters)]}"
    if '"Answer: A" or "Answer: B"' in prompt:
        return f"One of them is clearer.\nAnswer: {'AB'[number % 2]}"
    if fields := _FIELDS.search(prompt):
        low, high = map(int, _RATED.findall(prompt)[0][1:])
        names = fields[1].split('", "')
        return json.dumps(
            {name: low + _hash(name, str(number)) % (high - low + 1) for name in names}
        )
    if "one line for each aspect" in prompt:
        rows = [(name, int(low), int(high)) for name, low, high in _RATED.findall(prompt)]
        return "\n".join(
            f"{name}: {low + _hash(name, str(number)) % (high - low + 1)}"
            for name, low, high in rows
        )
    if criteria := _PLANNED.findall(prompt):
        tools = _TOOL.findall(prompt)
        lines = [f"- {name}: {tools[(number + i) % len(tools)]}" for i, name in enumerate(criteria)]
        return "\n".join(
            [*lines, "Steps:", _steps([f"the text for its {name}" for name in criteria], number)]
        )
    if rows := _FLOATING.findall(prompt):
        ratings = [
            (name, float(low) + (float(high) - float(low)) * (number % 11) / 10)
            for name, low, high in rows
        ]
        return "\n\n".join(
            f"{name}\nScore: {rating:g} Explanation: {WORDS[number % 9]}."
            for name, rating in ratings
        )
    scales = _SCALE.findall(prompt) or _CRITERION.findall(prompt)
    low, high = map(int, scales[-1] if scales else (1, 5))
    return f"Rating: {low + number % (high - low + 1)}"


def _answers(count: int, quote: str, number: int) -> str:
    """Return answers to numbered questions, each with a reason and a quotation."""
    pieces = [
        {"number": at, "reason": "So it says.", "quote": quote,
         "answer": ("yes", "no")[_hash(str(number), str(at)) % 2]}
        for at in range(1, count + 1)
    ]  # fmt: skip
    return json.dumps({"answers": pieces})


def _step_of_a_judge(prompt: str, number: int) -> Json:
    """Look up something first, then give a verdict."""
    if not re.search(r"\d+ steps? (?:is|are) left|your last step", prompt):
        return {"action": "read", "where": "output"}
    low, high = map(int, (_SCALE.findall(prompt) or [(1, 5)])[-1])
    judged = _OUTPUT.search(prompt)
    finding = {"finding": "This is said.", "where": "output", "quote": judged[1] if judged else ""}
    score = low + number % (high - low + 1)
    return {"action": "verdict", "findings": [finding], "reason": "So it is.", "score": score}


def _definition(number: int, i: int) -> str:
    """Return one of some definitions, so that no two lists are alike."""
    return DEFINITIONS[_hash(str(number), str(i)) % len(DEFINITIONS)]


def _steps(objects: list[str], number: int) -> str:
    """Return a numbered list of three or four steps for each object."""
    kept = [[*STEPS[:2], *STEPS[2 + (number + at) % 2 :]] for at in range(len(objects))]
    lines = [step.format(name) for name, steps in zip(objects, kept, strict=True) for step in steps]
    return "\n".join(f"{at}. {line}" for at, line in enumerate(lines, start=1))


def _options_of(prompt: str) -> list[str]:
    """Return the answers that a typed question in words allows, if the prompt is one."""
    options = _ONE_OF.search(prompt)
    return [] if options is None else [*options[1].split(", "), options[2]]


def _alternatives(
    token: str, key: str, place: int, options: Sequence[str] = ()
) -> dict[str, float]:
    """Return log-probabilities of the possible tokens at one position, likeliest first.

    They sum to 1. A label is among other labels, the first token of an answer (`token` empty) may
    be any label, or one of the options, and every other token is the likeliest one among some
    words.
    """
    space, bare = token[: len(token) - len(token.lstrip())], token.strip()
    family = next((labels for labels in LABELS if bare in labels), None)
    names = (
        [*options] or [name for labels in LABELS for name in labels]
        if not token
        else [space + name for name in family or ()]
    )
    names = names or [token, *(word for word in WORDS[:7] if word != token)]
    weights = [math.exp(_hash(key, name, str(place)) % 600 / 100) for name in names]
    if token in names:
        weights[names.index(token)] = sum(weights) * (1 + _hash(key, str(place)) % 8)
    total = sum(weights)
    shares = [(name, math.log(weight / total)) for name, weight in zip(names, weights, strict=True)]
    return dict(sorted(shares, key=lambda pair: -pair[1]))


def _tokens(text: str, prompt: str, one: bool) -> list[tuple[str, dict[str, float]]]:
    """Return the tokens of an answer with their alternatives."""
    key, options = _key(prompt), _options_of(prompt) if one else ()
    return [
        (t, _alternatives("" if one else t, key, i, options))
        for i, t in enumerate(_TOKEN.findall(text))
    ]


def chat_logprobs(text: str, prompt: str, top: int, one: bool) -> Json:
    """Return the log-probabilities of an answer to a chat."""
    content: list[Json] = []
    for token, shares in _tokens(text, prompt, one):
        alternatives = [
            {"token": name, "logprob": lp, "bytes": None} for name, lp in [*shares.items()][:top]
        ]
        content.append(
            {"token": token, "logprob": shares[token], "bytes": None, "top_logprobs": alternatives}
        )
    return {"content": content, "refusal": None}


def text_logprobs(echoed: str, text: str, prompt: str, top: int, one: bool) -> Json:
    """Return tokens with their positions; the first of an echoed prompt has no probability."""
    tokens = [*_tokens(echoed, prompt, False), *_tokens(text, prompt, one)]
    first: list[Any] = [None] if echoed else []
    return {
        "tokens": [token for token, _ in tokens],
        "token_logprobs": (first + [shares[token] for token, shares in tokens[len(first) :]]),
        "top_logprobs": (
            first + [dict([*shares.items()][:top]) for _, shares in tokens[len(first) :]]
        ),
        "text_offset": [0, *itertools.accumulate(len(token) for token, _ in tokens)][:-1],
    }


def count_tokens(text: str) -> int:
    """Return the number of tokens that the server counts in a text."""
    return len(text) // 4 + 1 if text else 0


def _key(prompt: str) -> str:
    """Return a short key for a prompt, so that a prompt asked about token by token is read once."""
    return f"{_hash(prompt):x}"


def _hash(*parts: str) -> int:
    return int.from_bytes(
        hashlib.blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=6).digest(),
        "big",
    )
