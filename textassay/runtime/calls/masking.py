"""Removes keys that a server echoes, so that no score, error, cache or log contains them.

A gateway may show the headers of a request in its answer, and a judge's answer becomes the
explanation of a score. So answers are searched for keys before any other code sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import accumulate

from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.errors import TextassayError
from textassay.runtime.model import AnyResponse, Model, Response, Sample, TokenLogprob
from textassay.runtime.questions import DecisionResponse

MASK = "[key]"


def find_secrets(named: Iterable[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in use, and the variables that litellm may read, the longest first."""
    # local servers are given keys such as `EMPTY` or `1`, which answers contain by chance
    secrets = {secret for secret in named if len(secret) >= 8}
    for name, value in environment.items():
        # longer, as short values of names such as NEXT_TOKEN occur in ordinary answers
        if len(value) >= 12 and name.endswith(("KEY", "TOKEN", "SECRET", "PASSWORD")):
            secrets.add(value)
    return tuple(sorted(secrets, key=len, reverse=True))  # a key may begin with another one


class MaskedModel(Wrapper):
    """Replaces known secrets in answers and errors by `[key]`."""

    def __init__(self, wrapped: Model, secrets: Iterable[str]) -> None:
        super().__init__(wrapped)
        # an empty alternation would match everywhere, `(?!)` matches nowhere
        self._pattern = re.compile("|".join(map(re.escape, secrets)) or r"(?!)")

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        try:
            response = await ask(call)
        except TextassayError as error:
            # in place, as outer wrappers need the error's class, cause and traceback
            error.args = tuple(
                self._mask(part) if isinstance(part, str) else part for part in error.args
            )
            raise
        update: dict[str, object] = {}
        if isinstance(response, DecisionResponse):
            # options are ours, and only a problem quotes the server
            text = response.model_dump_json() if any(a.problem for a in response.answers) else ""
            if self._pattern.search(text):
                return DecisionResponse.model_validate_json(self._mask(text))
        if response.model and self._pattern.search(response.model):
            update["model"] = self._mask(response.model)
        if isinstance(response, Response) and any(map(self._shows, response.samples)):
            update["samples"] = tuple(map(self._mask_sample, response.samples))
        return response.model_copy(update=update) if update else response

    def _mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text)

    def _shows(self, sample: Sample) -> bool:
        if self._pattern.search(sample.text) or self._pattern.search(sample.thought or ""):
            return True
        # a tokenizer cuts a key into pieces, so the joined text is searched, too
        tokens = sample.logprobs or ()
        return any(
            self._pattern.search(text)
            for token in tokens
            for text in (token.token, *(other for other, _ in token.top))
        ) or bool(self._pattern.search("".join(token.token for token in tokens)))

    def _mask_sample(self, sample: Sample) -> Sample:
        update: dict[str, object] = {"text": self._mask(sample.text)}
        if sample.thought is not None:
            update["thought"] = self._mask(sample.thought)
        if sample.logprobs is not None:
            update["logprobs"] = self._mask_tokens(sample.logprobs)
        return sample.model_copy(update=update)

    def _mask_tokens(self, tokens: tuple[TokenLogprob, ...]) -> tuple[TokenLogprob, ...]:
        """Return the tokens, replacing each that has a part of a secret."""
        ends = list(accumulate(len(token.token) for token in tokens))
        spans = [match.span() for match in self._pattern.finditer("".join(t.token for t in tokens))]
        masked = []
        for token, end in zip(tokens, ends, strict=True):
            start = end - len(token.token)
            # its alternatives may spell the key as well, so they are removed
            inside = any(start < last and first < end for first, last in spans)
            top = tuple((self._mask(text), logprob) for text, logprob in token.top)
            update = {"token": MASK, "top": ()} if inside else {"top": top}
            masked.append(token.model_copy(update=update))
        return tuple(masked)
