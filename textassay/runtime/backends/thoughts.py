"""Separates a model's thought from its answer.

Servers put a thought into a field of its own, into a part of the content, or into the text between
tags. A text is split by these rules:

- Everything up to the last closing tag without an opening tag is thought: some templates open the
  tag themselves, and thoughts may quote the tag that ends them.
- A closed block is a thought wherever it is.
- If only a tag that is never closed precedes the answer, there is no answer: it was cut
  while the model thought. After an answer, such a tag is a part of it.
- A tag that is in the prompt counts only at the beginning or end of a line of the answer:
  judges quote the texts that they judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import orjson

from textassay.lazy import lazy_pattern
from textassay.runtime.base import Json, Usage
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.errors import CapabilityError
from textassay.runtime.model import (
    AnyResponse,
    FinishReason,
    Model,
    Prompted,
    Request,
    Response,
    Sample,
)

MAX_THOUGHT = 20_000
"""Characters of a thought that are kept; the middle of a longer one is left out. It bounds the size
of the cache. Of the 11 counts in docs/thinking.md (0 to 2,206 tokens of some 4 characters) all fit,
and 8 fit into a quarter."""

_NAMES = r"(?:seed:)?think(?:ing)?|thought"
_TAG = lazy_pattern(
    rf"(?P<open><(?:{_NAMES})>|\[THINK\]|◁think▷)|</(?:{_NAMES})>|\[/THINK\]|◁/think▷",
    re.IGNORECASE,
)
# <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>
_FINAL = lazy_pattern(
    r"<\|channel\|>\s*final\b[^<]{0,40}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>"
)
_MARK = lazy_pattern(r"<\|[a-z]{1,20}\|>")


def split_thought(text: str, prompt: Prompted | None = None) -> tuple[str | None, str]:
    """Return the thought in a text, `None` if there is none, and the answer without it."""
    # nearly every answer ends here, so this is not a loop; `hink` is in `think`, `Think` and
    # `thinking`
    may_have_tag = "hink" in text or "HINK" in text or "hought" in text
    if not (may_have_tag or "<|channel|>" in text or "assistantfinal" in text):
        return None, text
    thought, answer = _split_channels(text)
    if thought is not None:
        return thought, answer
    tags = list(_TAG.finditer(text))
    if tags and prompt:
        prompt_text = prompt.text.lower()
        tags = [tag for tag in tags if tag[0].lower() not in prompt_text or _is_at_edge(tag)]
    return _split_at(tags, text) if tags else (None, text)


def _split_at(tags: Sequence[re.Match[str]], text: str) -> tuple[str | None, str]:
    """Return thought and answer of a text with these tags, by the rules above."""
    # everything before `start` is thought; `opened` is where the tag that is open began, or -1
    start, opened = 0, -1
    blocks: list[tuple[int, int]] = []
    for tag in tags:
        if tag["open"]:
            opened = tag.start() if opened < 0 else opened
        elif opened < 0:
            start, blocks = tag.end(), []
        else:
            blocks.append((opened, tag.end()))
            opened = -1
    if opened >= 0 and not _outside(text[:opened], start, blocks).strip():
        blocks.append((opened, len(text)))
    if not start and not blocks:
        return None, text
    thoughts = (text[first:last] for first, last in [(0, start), *blocks])
    thought = "\n".join(_TAG.sub("", part).strip() for part in thoughts)
    return thought.strip(), _outside(text, start, blocks).lstrip()


def _outside(text: str, start: int, blocks: Iterable[tuple[int, int]]) -> str:
    """Return the text from `start` on without the blocks."""
    parts = []
    for first, last in blocks:
        parts.append(text[start:first])
        start = last
    return "".join([*parts, text[start:]])


def _is_at_edge(tag: re.Match[str]) -> bool:
    """Return whether a tag begins or ends a line."""
    before = tag.string[: tag.start()].rpartition("\n")[2]
    after = tag.string[tag.end() :].partition("\n")[0]
    return not before.strip() or not after.strip()


def _split_channels(text: str) -> tuple[str | None, str]:
    """Split a text of gpt-oss that the server passes on unchanged."""
    if "<|channel|>" in text:
        finals = list(_FINAL.finditer(text))
        if finals:
            answer = _MARK.split(text[finals[-1].end() :], 1)[0]
            return _MARK.sub(" ", text[: finals[-1].start()]).strip(), answer.lstrip()
        thinks = r"\s*(?:<\|start\|>assistant\s*)?<\|channel\|>\s*(?:analysis|commentary)\b"
        if re.match(thinks, text):
            return _MARK.sub(" ", text).strip(), ""
    # analysisThe user wants ...assistantfinal4: from servers that leave special tokens out
    bare = re.match(r"(?s)\s*analysis(?=\S)(?P<thought>.*?)assistantfinal", text)
    return (bare["thought"].strip(), text[bare.end() :].lstrip()) if bare else (None, text)


def cut_middle(thought: str) -> str:
    """Return a thought with its middle left out if it is longer than `MAX_THOUGHT`."""
    if len(thought) <= MAX_THOUGHT:
        return thought
    mark = f"\n[... {len(thought) - MAX_THOUGHT:,} characters or more left out ...]\n"
    half = (MAX_THOUGHT - len(mark)) // 2
    return thought[:half] + mark + thought[-half:]


def satisfies(text: str, schema: Json) -> bool:
    """Return whether the whole text is JSON that satisfies a schema."""
    # imported here: few answers need it
    from jsonschema.exceptions import SchemaError, ValidationError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        # a registry of its own: the default one would download references of a schema
        validator_for(schema)(schema, registry=Registry()).validate(orjson.loads(text))
    except (ValueError, ValidationError, SchemaError, Unresolvable):
        return False
    return True


def read_answer(
    text: str | None, thought: str | None, finish: FinishReason, request: Prompted, usage: Usage
) -> Sample | None:
    """Return an answer apart from its thought, or `None` if it has no text.

    Its log-probabilities are left out. A blank text for which no tokens were counted is not an
    answer: servers send it in place of a failed one.
    """
    inside, answer = split_thought(text, request) if text else (None, "")
    has_thought = thought is not None or inside is not None
    if inside:
        thought = f"{thought}\n{inside}" if thought else inside
    if has_thought:
        answer = answer.lstrip()
    shortened = cut_middle(thought) if thought else None
    is_empty = text is None or not (answer.strip() or has_thought or usage.completion_tokens)
    if answer.strip() or finish not in ("stop", "length"):
        return None if is_empty else Sample(text=answer, finish_reason=finish, thought=shortened)
    schema = request.json_schema if isinstance(request, Request) else None
    # Some servers bind the thought, in place of the answer, to the schema.
    if thought and schema is not None and satisfies(thought, schema):
        return Sample(text=thought.strip(), finish_reason=finish, from_thought=True)
    if finish == "length" or has_thought or usage.reasoning_tokens:
        return Sample(text="", finish_reason="length", thought=shortened)
    return None if is_empty else Sample(text=answer, finish_reason=finish)


def answer_tokens(tokens: Sequence[str], answer: str) -> slice:
    """Return the positions of an answer's tokens among the tokens of thought and answer."""
    stripped = answer.strip()
    end_mark = r"\s*(?:<[|｜][^<>]{1,40}[|｜]>|</s>|<eos>|<end_of_turn>)?\s*"
    last = len(tokens) if stripped else 0
    while last and re.fullmatch(end_mark, tokens[last - 1]):
        last -= 1
    length = 0
    for first in reversed(range(last)):
        length += len(tokens[first])
        if length < len(stripped):
            continue
        joined = "".join(tokens[first:last]).strip()
        if joined == stripped:
            return slice(first, last)
        if len(joined) >= len(stripped):
            break
    # Tokens that are parts of characters do not join to the text: the tag decides.
    return _after_tag(tokens, last) if stripped else slice(0, 0)


def _after_tag(tokens: Sequence[str], last: int) -> slice:
    """Return the positions from the first word after the last closing tag up to `last`."""
    joined = "".join(tokens)
    ends = [tag.end() for tag in _TAG.finditer(joined) if not tag["open"]]
    ends += [mark.end() for mark in _FINAL.finditer(joined)]
    starts = accumulate(map(len, tokens), initial=0)
    for index, start in zip(range(last), starts, strict=False):
        if ends and start >= max(ends) and tokens[index].strip():
            return slice(index, last)
    raise CapabilityError(
        "the log-probabilities of this model include its thought, and the tokens of the answer "
        "cannot be found among them"
    )


class SplitThoughts(Wrapper):
    """Separates thoughts from the answers of models that leave them in the text.

    If a template opens the tag, a thought that is cut has no tag. So once a model has shown a
    thought, a text that is cut and shows no thought counts as one.
    """

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self._shows_thoughts = False

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        response = await ask(call)
        request = call.request
        if not isinstance(response, Response) or not isinstance(request, Prompted):
            return response
        samples = tuple(
            _without_thought(sample, request, response.usage) for sample in response.samples
        )
        if self._shows_thoughts and not response.usage.reasoning_tokens:
            samples = tuple(map(_as_cut_thought, samples))
        elif any(sample.thought for sample in samples):
            self._shows_thoughts = True
        changed = any(new is not old for new, old in zip(samples, response.samples, strict=True))
        return response.model_copy(update={"samples": samples}) if changed else response


def _as_cut_thought(sample: Sample) -> Sample:
    """Return a sample whose text was cut as a thought without an answer; others unchanged."""
    if sample.finish_reason != "length" or sample.thought is not None or not sample.text:
        return sample
    logprobs = None if sample.logprobs is None else ()
    update = {"text": "", "thought": cut_middle(sample.text), "logprobs": logprobs}
    return sample.model_copy(update=update)


def _without_thought(sample: Sample, request: Prompted, usage: Usage) -> Sample:
    """Return a sample with the thought apart from its text, and the answer's log-probabilities."""
    if sample.thought is not None or split_thought(sample.text, request)[0] is None:
        return sample
    answer = read_answer(sample.text, None, sample.finish_reason, request, usage)
    assert answer is not None  # there is a text
    logprobs = sample.logprobs
    if logprobs is not None:
        logprobs = logprobs[answer_tokens([token.token for token in logprobs], answer.text)]
    return answer.model_copy(update={"logprobs": logprobs})


def read_parts(content: Any) -> tuple[str | None, str | None]:
    """Return the text and the thought in an answer's content, each `None` if there is none."""
    if content is None or type(content) is str:
        return content, None
    if isinstance(content, str | bytes | Mapping) or not isinstance(content, Sequence):
        raise TypeError(f"the content is a {type(content).__name__}")
    texts: list[str] = []
    thoughts: list[str] = []
    of_thoughts = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif part.get("thought") is True or part.get("type") in of_thoughts:
            thoughts.append(_thought_in(part))
        elif part.get("type", "text") in ("text", "output_text") and "text" in part:
            texts.append(part["text"])
    thought = "\n".join(filter(None, thoughts)) if thoughts else None
    return ("".join(texts) if texts else None), thought


def thought_beside(message: Mapping[str, Any]) -> str | None:
    """Return the thought in a field of its own beside a message's content, if there is one."""
    # several fields may repeat the same one
    names = ("reasoning", "reasoning_content", "thinking", "reasoning_details", "thinking_blocks")
    for name in names:
        if (value := message.get(name)) and (thought := _thought_in(value)):
            return thought
    return None


def _thought_in(value: Any, depth: int = 4) -> str:
    """Return the text of a thought, which may be in parts of parts."""
    if not value or isinstance(value, str):
        return value or ""
    if isinstance(value, Mapping) and depth:
        names = ("thinking", "reasoning", "reasoning_content", "text", "summary", "content")
        inner = (_thought_in(value.get(name), depth - 1) for name in names)
        return next(filter(None, inner), "")
    if isinstance(value, list | tuple) and depth:
        return "\n".join(filter(None, (_thought_in(part, depth - 1) for part in value)))
    return ""
