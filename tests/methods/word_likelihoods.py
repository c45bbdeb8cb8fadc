"""A model with a likelihood for every word, and GPTScore on it."""

import re

from textassay.methods import build
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.messages import Assignment, Example
from textassay.runtime.model import TokenLogprob

EXAMPLE = Example(
    id="x",
    output="A cat sat.",
    source="In 1987 a cat sat on a mat.",
    references=("The cat sat down.",),
)
CHAT = Example(
    id="c", output="I like soup.", source="User: Hi!\nSystem: Hi.", context="Soup is hot."
)


def tokens(text, each):
    return [TokenLogprob(token=word, logprob=each(word)) for word in re.findall(r"\s*\S+", text)]


def reader(each=lambda word: -0.1 * len(word.strip())):
    """A model to which a word of n letters has log-probability -n / 10."""
    return ScriptedModel(continuation=lambda request: tokens(request.continuation, each), name="lm")


async def run(model, task, aspects=None, example=EXAMPLE, **options):
    method = build("gptscore", model, task=task, aspects=aspects, options=options)
    return await method.graph.run(Assignment(example=example, aspects=method.aspects))
