"""Keys that a server echoes never get past the backend: not into scores, errors, caches or logs.

A gateway may show the headers of a request in its answer. What a judge says ends up as the
explanation of a score, so it is looked through before anything else sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import accumulate

from textassay.lazy import lazy_pattern
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.errors import TextassayError
from textassay.runtime.model import AnyResponse, Model, Response, Sample, TokenLogprob
from textassay.runtime.questions import DecisionResponse

MASK = "[key]"
MIN_SECRET = 8
"""Characters of the shortest secret that is looked for: local servers are given keys such as
`EMPTY` or `1`, which answers hold by chance."""
_SECRET_VARIABLE = lazy_pattern(r"(KEY|TOKEN|SECRET|PASSWORD)$")
# More than `MIN_SECRET`: nobody said that these variables hold keys, and short values of names such
# as NEXT_TOKEN occur in ordinary answers.
_MIN_FOUND = 12


def find_secrets(named: Iterable[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be shown: secrets in use, and variables that litellm may read."""
    secrets = {secret for secret in named if len(secret) >= MIN_SECRET}
    for name, value in environment.items():
        if len(value) >= _MIN_FOUND and _SECRET_VARIABLE.search(name):
            secrets.add(value)
    return tuple(sorted(secrets, key=len, reverse=True))  # a key that begins another goes last


class MaskedModel(Wrapper):
    """Replaces known secrets in answers and errors by `[key]`."""

    def __init__(self, wrapped: Model, secrets: Iterable[str]) -> None:
        super().__init__(wrapped)
        # An empty alternation would match everywhere; `(?!)` matches nowhere.
        self._pattern = re.compile("|".join(map(re.escape, secrets)) or r"(?!)")

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer, with secrets replaced in texts, tokens and the messages of errors."""
        try:
            response = await ask(call)
        except TextassayError as error:
            # In place: the class, cause and traceback of the error matter to the wrappers further
            # out.
            error.args = tuple(
                self._mask(part) if isinstance(part, str) else part for part in error.args
            )
            raise
        update: dict[str, object] = {}
        if isinstance(response, DecisionResponse):
            # options are ours; only a problem quotes what the server sent
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
        # A tokenizer cuts a key into pieces, none of which is the key: the joined text is searched,
        # too.
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
        """Return the tokens, those replaced that hold any part of a secret."""
        ends = list(accumulate(len(token.token) for token in tokens))
        spans = [match.span() for match in self._pattern.finditer("".join(t.token for t in tokens))]
        masked = []
        for token, end in zip(tokens, ends, strict=True):
            start = end - len(token.token)
            # Alternatives at such a place can spell the key as well, so they go altogether.
            inside = any(start < last and first < end for first, last in spans)
            top = tuple((self._mask(text), logprob) for text, logprob in token.top)
            update = {"token": MASK, "top": ()} if inside else {"top": top}
            masked.append(token.model_copy(update=update))
        return tuple(masked)
