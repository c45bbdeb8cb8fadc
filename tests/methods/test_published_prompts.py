"""With the profile `paper`, prompts go out byte by byte as the papers print them; held against their text."""

import re

import pytest

from tests.benchmark_data import paper
from textassay.methods import build
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Assignment, Example
from textassay.runtime.model import TokenLogprob

pytestmark = pytest.mark.asyncio

SOURCE, OUTPUT, REFERENCE = "The source text.", "The output text.", "The reference text."
EXAMPLE = Example(id="x", source=SOURCE, output=OUTPUT, references=(REFERENCE,))
CHAT = Example(id="c", source="User: Hi!\nSystem: Hi.\nUser: Soup?", output="System: I like soup.")
WHOLE = Example(id="w", output=f"{CHAT.source}\n{CHAT.output}")

SUMMARIES = {
    "FAC": "factuality", "COV": "coverage", "CON": "consistency", "INF": "informativeness",
    "COH": "coherence", "REL": "relevance", "FLU": "fluency",
}  # fmt: skip
TRANSLATIONS = {"ACC": "accuracy", "FLU": "fluency", "MQM": "MQM"}
SENTENCES = {"INF": "informativeness", "NAT": "naturalness", "FLU": "quality"}
TURNS = {
    "INT": "interesting", "ENG": "engaging", "UND": "understandable", "REL": "relevant",
    "SPE": "specific", "COR": "correct", "SEM": "semantically_appropriate", "FLU": "fluent",
}  # fmt: skip
DIALOGUES = {
    "COH": "coherent", "DIV": "diverse", "FLE": "flexible", "UND": "understanding",
    "INQ": "inquisitive", "CON": "consistent", "INF": "informative", "LIK": "likeable",
    "DEP": "depth", "ERR": "error_recovery",
}  # fmt: skip


def reader():
    return ScriptedModel(
        continuation=lambda request: [TokenLogprob(token=request.continuation, logprob=-1.0)],
        choices=lambda request: dict.fromkeys(request.choices, -1.0),
    )


async def asked(method, task, aspect, example=EXAMPLE, **options):
    """The requests that judging one aspect by the profile `paper` makes."""
    model = reader()
    options = {"profile": "paper", **options}
    built = build(method, model, task=task, aspects=[aspect], options=options)
    await built.graph.run(Assignment(example=example, aspects=built.aspects))
    return model.requests


def printed(task):
    """The prompts of GPTScore's tables 11 and 12 for a task, by the paper's code of the aspect."""
    found, name = {}, ""
    table = paper("gptscore_tables_11_12.md")
    for cell, code, prompt in re.findall(r"^\| (.*?)\| ([A-Z]{3}) \| `(.+)` \|$", table, re.M):
        name = cell.strip() or name  # a task stands in its first row alone
        if name == task:
            found[code] = prompt.replace("\\n", "\n")
    return found


def filled(pattern, given):
    """A printed prompt with the given text in its first place, and without the scored one behind it."""
    before, cue, rest = re.split(r"\{.+?\}", pattern)
    assert rest == ""
    return f"{before}{given}{cue}"


@pytest.mark.parametrize("code", SUMMARIES)
async def test_gptscores_prompts_for_summaries(code):
    [request] = await asked("gptscore", "summarization", SUMMARIES[code])
    sent = request.prompt + request.continuation
    assert sent == filled(printed("summarization")[code], SOURCE) + OUTPUT


@pytest.mark.parametrize(
    ("name", "task", "code", "aspect"),
    [("translation", "mqm", *item) for item in TRANSLATIONS.items()]
    + [("data-to-text", "data-to-text", *item) for item in SENTENCES.items()],
)
async def test_gptscores_prompts_against_references(name, task, code, aspect):
    requests = await asked("gptscore", task, aspect, direction="ref-both")
    sent = [request.prompt + request.continuation for request in requests]
    pattern = printed(name)[code]
    assert sent == [filled(pattern, REFERENCE) + OUTPUT, filled(pattern, OUTPUT) + REFERENCE]


async def test_gptscore_without_instruction():
    [request] = await asked("gptscore", "summarization", "fluency", instruction=False)
    assert "`{src}\\n\\nTl;dr{hypo}`" in paper("gptscore_tables_11_12.md")
    assert request.prompt + request.continuation == f"{SOURCE}\n\nTl;dr{OUTPUT}"


def questions(level):
    """The questions of GPTScore's table 12 at one level of FED, by the paper's code."""
    text = paper("gptscore_tables_11_12.md").split("FED turn level:")[1]
    part = text.split("FED dialogue level:")[level == "dialogue"]
    found = re.findall(r"([A-Z]{3}) `([^`]+)`", " ".join(part.split()))
    return {code: words.replace("...", "Are the responses of AI") for code, words in found}


@pytest.mark.parametrize(
    ("level", "code", "aspect"),
    [("turn", *item) for item in TURNS.items()]
    + [("dialogue", *item) for item in DIALOGUES.items()],
)
async def test_gptscores_questions_about_dialogues(level, code, aspect):
    task, example = ("fed-turn", CHAT) if level == "turn" else ("fed-dialog", WHOLE)
    [request] = await asked("gptscore", task, aspect, example)
    block = re.search(r"```\n(.+?)\n```", paper("gptscore_tables_11_12.md"), re.S)[1]
    expected = block.format(question=questions(level)[code], history=WHOLE.output)
    assert expected == f"{request.prompt}{request.continuation}."


async def test_methods_whose_paper_publishes_no_prompt_refuse_the_profile():
    for method in ("coascore", "llm-score", "llm-score-cot"):
        with pytest.raises(ConfigurationError, match=f"'paper' has no prompts for {method}"):
            build(method, reader(), task="summarization", options={"profile": "paper"})


async def test_the_profile_keeps_the_papers_order():
    with pytest.raises(ConfigurationError, match="leave prompt_layout out"):
        await asked("gptscore", "summarization", "fluency", prompt_layout="shared-prefix")
