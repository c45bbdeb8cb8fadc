"""DecompEval and GPTScore on a local model whose probabilities are known without it, and what
prefixes save there."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

from tests.methods.judging import scores_of
from textassay.agents.likelihood import PassageWriter
from textassay.agents.prompt_template import PromptTemplate
from textassay.methods import build
from textassay.methods.gptscore import read_protocols
from textassay.methods.library import tasks
from textassay.runtime.messages import Assignment, Example

oracles = pytest.importorskip("tests.gguf_fixture")
llamacpp = pytest.importorskip("textassay.runtime.backends.local.llamacpp")

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
    ),
]

TEXT = Example(
    id="x", output="The summary is good. The model is not. It is fluent!", source="the article text"
)
FORMS = {"yes": ("yes", "Yes", " yes", " Yes"), "no": ("no", "No", " no", " No")}
QUESTIONS = """
[[tasks.general.coherence]]
inputs = { output = "text" }
question = "Is this text good"
subquestion = "Is this text sentence {sentence} good, number {number}"
"""


def local(file, **options):
    return llamacpp.LlamaCppModel(
        "llamacpp/model.gguf", file.path, n_gpu_layers=0, threads=1, **options
    )


def closed_form(file, prompt):
    """P(yes) / (P(yes) + P(no)) after a prompt, and the sum of the two, by the bigram table
    alone."""
    mass = {}
    for label, forms in FORMS.items():
        paths = []
        for form in forms:
            ids, base = oracles.ids_of(file, prompt, form)
            table = oracles.bigram_logprobs(file, ids[:-1])
            paths.append(math.fsum(table[place - 1, ids[place]] for place in range(base, len(ids))))
        mass[label] = math.fsum(map(math.exp, paths))
    return mass["yes"] / (mass["yes"] + mass["no"]), mass["yes"] + mass["no"]


@pytest.mark.parametrize("tokenizer", ["bpe", "spm"])
async def test_decomp_eval_is_equation_3_on_probabilities_in_closed_form(tmp_path, tokenizer):
    file = oracles.write_model(
        tmp_path / "bigram.gguf",
        oracles.Shape(tokenizer=tokenizer, dtype="f32", bigram=True, bos=True),
    )
    (tmp_path / "mine.toml").write_text(QUESTIONS, encoding="utf-8")
    options = {"ask": "plain", "questions": str(tmp_path / "mine.toml")}
    async with local(file) as model:
        method = build("decomp-eval", model, task="general", aspects=["coherence"], options=options)
        [score] = await scores_of(method, TEXT)
        pieces = score.evidence
        expected = [closed_form(file, piece["text"]) for piece in pieces]
    assert [piece["p_yes"] for piece in pieces] == pytest.approx([p for p, _ in expected], abs=1e-5)
    assert [piece["mass"] for piece in pieces] == pytest.approx(
        [mass for _, mass in expected], rel=1e-4
    )
    assert [piece["answer"] for piece in pieces] == [
        "yes" if p > 0.5 else "no" for p, _ in expected
    ]
    assert (score.value, score.mass) == (pieces[-1]["p_yes"], pieces[-1]["mass"])
    assert len({round(p, 4) for p, _ in expected}) == 4


@pytest.mark.parametrize("weights", ["mean", "sum"])
async def test_gptscore_is_the_log_likelihood_of_the_whole_network(tmp_path, weights):
    file = oracles.write_model(tmp_path / "model.gguf", oracles.Shape(dtype="f32", bos=True))
    task = tasks.load("summarization", ["fluency"])
    async with local(file, kv="f32") as model:
        method = build(
            "gptscore",
            model,
            task="summarization",
            aspects=["fluency"],
            options={"weights": weights},
        )
        [score] = await scores_of(method, TEXT)
        protocols, qualities, _ = read_protocols()
        writer = PassageWriter(PromptTemplate("gptscore", task), protocols.of(task), qualities)
        [passage] = (await writer(TEXT, task.aspects[0])).items
        ids, base = oracles.ids_of(file, passage.prompt, f" {TEXT.output}")
    known = oracles.next_logprobs(file, ids)[np.arange(base - 1, len(ids) - 1), ids[base:]]
    assert score.value == pytest.approx(known.sum() if weights == "sum" else known.mean(), abs=1e-4)
    assert score.evidence[0]["tokens"] == len(known)


@pytest.mark.parametrize(
    ("aspects", "ask", "layout"),
    [
        (["coherence"], "chat", "shared-prefix"),
        (["coherence"], "plain", "shared-prefix"),
        (["coherence", "relevance"], "chat", "paper"),
        (["coherence", "relevance"], "plain", "shared-prefix"),
    ],
)
async def test_the_chain_of_sentences_evaluates_a_long_source_once(tmp_path, aspects, ask, layout):
    """All that an aspect's questions cost is little more than one prompt, and less where aspects
    share the source. One aspect at a time: of several, how many prompts are evaluated together
    depends on how fast the threads are."""
    file = oracles.write_model(tmp_path / "model.gguf", oracles.Shape(dtype="f32", bos=True))
    source = " ".join(["the article is about the source of the text and not very good"] * 46)
    output = " ".join(["The summary is good."] * 5)
    example = Example(id="x", source=source, output=output, references=("the summary is good",))
    options = {"ask": ask, "prompt_layout": layout}
    async with local(file) as model:
        method = build("decomp-eval", model, task="summarization", aspects=aspects, options=options)
        scores = [
            score
            for aspect in method.aspects
            for score in await method.graph.run(Assignment(example=example, aspects=(aspect,)))
        ]
        evaluated = model.evaluated_tokens
    prompts = [score.usage.prompt_tokens / score.usage.calls for score in scores]
    assert len(prompts) == len(aspects)
    assert {score.usage.calls for score in scores} <= {5, 6}
    assert max(prompts) > 600
    assert evaluated < (0.8 if len(aspects) > 1 and layout == "shared-prefix" else 1.5) * sum(
        prompts
    )
