"""GPTScore by hand: demonstrations, and what enters the signature."""

import json
import re

import pytest

from tests.methods.word_likelihoods import CHAT, EXAMPLE, reader, run
from textassay.methods import build
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Assignment, Example

pytestmark = pytest.mark.asyncio


@pytest.fixture
def demonstrations(tmp_path):
    rows = [
        {
            "id": "d1",
            "output": "Rain fell.",
            "source": "It rained all day.",
            "references": ["It rained."],
        },
        {"id": "d2", "output": "It snowed.", "source": "Snow fell in May.", "aspect": "coherence"},
        {
            "id": "d3",
            "output": "It hailed.",
            "source": "Hail fell in May.",
            "answers": {"engagingness": "no"},
        },
    ]
    path = tmp_path / "shown.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


async def test_demonstrations_repeat_the_pair_before_the_text(demonstrations):
    model = reader()
    coherent, fluent = await run(
        model, "summarization", ["coherence", "fluency"], demonstrations=demonstrations, k=2
    )
    assert model.requests[0].prompt == (
        "Generate a coherent summary for the following text: It rained all day.\n\n"
        "Tl;dr Rain fell.\n\n"
        "Snow fell in May.\n\nTl;dr It snowed.\n\nIn 1987 a cat sat on a mat.\n\nTl;dr"
    )
    assert "snowed" not in model.requests[1].prompt
    assert coherent.value == fluent.value == pytest.approx(-0.8 / 3)
    assert "|k:2" in coherent.signature


async def test_an_example_that_is_a_demonstration_is_left_out_of_what_is_scored(demonstrations):
    for known in ({"id": "d1"}, {"source": "It rained all day."}):
        model = reader()
        example = Example(output="Rain fell.", **known)
        [score] = await run(
            model, "summarization", ["fluency"], example, demonstrations=demonstrations
        )
        assert (score.outcome, score.error.type, model.requests) == (
            "abstained",
            "Demonstration",
            [],
        )
    other = Example(
        id="d1", output="Another text under a number used twice.", source="It rained all day."
    )
    [score] = await run(
        reader(), "summarization", ["fluency"], other, demonstrations=demonstrations
    )
    assert score.outcome == "scored"


async def test_demonstrations_of_a_boolean_question_need_their_answers(demonstrations, tmp_path):
    with pytest.raises(
        ConfigurationError, match="'d1' does not say how the question on engagingness is answered"
    ):
        await run(reader(), "dialogue", ["engagingness"], CHAT, demonstrations=demonstrations)
    path = tmp_path / "answered.jsonl"
    path.write_text(
        '{"output": "O", "source": "S", "answers": {"engagingness": "no"}}\n', encoding="utf-8"
    )
    model = reader()
    await run(model, "dialogue", ["engagingness"], CHAT, demonstrations=str(path))
    shown, asked = model.requests[0].prompt.split("\n\n")
    assert shown.endswith("Answer: No.")
    assert shown.startswith("Answer the question")
    assert asked.endswith("Answer:")


async def test_demonstrations_that_do_not_serve_are_refused(demonstrations):
    with pytest.raises(ConfigurationError, match="'d2' has no reference, which ref-hypo needs"):
        await run(
            reader(),
            "summarization",
            ["coherence"],
            demonstrations=demonstrations,
            direction="ref-hypo",
        )
    with pytest.raises(ConfigurationError, match="2 demonstrations for fluency, fewer than k=3"):
        build(
            "gptscore",
            reader(),
            task="summarization",
            aspects=["coherence", "fluency"],
            options={"demonstrations": demonstrations, "k": 3},
        )
    with pytest.raises(ConfigurationError, match="give them with demonstrations=FILE"):
        build("gptscore", reader(), options={"k": 4})


async def test_options_that_change_scores_change_the_signature(demonstrations):
    options = [
        {},
        {"instruction": False},
        {"weights": "sum"},
        {"direction": "ref-hypo"},
        {"over_references": "max"},
    ]
    options += [
        {"combine": ["COH"]},
        {"scored": "yes"},
        {"pmi": True},
        {"prompt_layout": "shared-prefix"},
    ]
    options += [{"demonstrations": demonstrations}, {"demonstrations": demonstrations, "k": 1}]
    assert (
        len(
            {
                build("gptscore", reader(), task="summarization", options=o).signature
                for o in options
            }
        )
        == 11
    )


async def test_k_counts_the_demonstrations_of_each_aspect(tmp_path):
    path = tmp_path / "shown.jsonl"
    rows = [
        {"output": f"O{i}", "source": f"S{i}", "aspect": aspect}
        for i, aspect in enumerate(["coherence"] * 5 + ["FLU"] * 5)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = {"demonstrations": str(path), "k": 1}
    model = reader()
    await run(model, "summarization", ["coherence", "fluency"], **options)
    assert ["S0" in model.requests[0].prompt, "S5" in model.requests[1].prompt] == [True, True]
    drawn = set()
    for seed in (1, 1, 2, 3, 4, 5):
        model = reader()
        method = build(
            "gptscore", model, task="summarization", options=options | {"seed": seed},
            aspects=["FLUENCY"]
        )  # fmt: skip
        await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
        assert f"|k:1|seed:{seed}" in method.signature
        drawn.add((seed, re.search(r"S(\d)", model.requests[0].prompt)[1]))
    assert len(drawn) == 5
    assert len({place for _, place in drawn}) > 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:6]), encoding="utf-8")
    every = {"demonstrations": str(path)}
    aspects = ["coherence", "fluency"]
    method = build("gptscore", reader(), task="summarization", aspects=aspects, options=every)
    assert "|k:coherence=5,fluency=1|" in method.signature
    with pytest.raises(ConfigurationError, match="seed draws k demonstrations"):
        build("gptscore", reader(), options=every | {"seed": 1})
