"""`pairwise`: both orders, flips that are ties and counted, systems paired, and LLMBar's recorded
answers."""

from __future__ import annotations

import json

import pytest

from tests.benchmark_data import FOLDER, benchmark
from tests.cli.harness import rows_of, score, served, write_examples
from tests.methods import judging
from tests.pictures import png_uri
from textassay.agents.reading.choices import parse_choice
from textassay.agents.reading.outcomes import NoRating
from textassay.methods import build
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.data import Examples
from textassay.runtime.data.dataset import PairedExamples
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example, Failure

PAIR = Example(
    id="x", source="It rained.", output="good text", meta={"output_b": "bad text"}, group="g"
)


async def judged(script, example=PAIR, **options):
    model = ScriptedModel(script)
    [found] = await judging.judged(
        "pairwise", model, example, "summarization", ["fluency"], **options
    )
    assert not isinstance(found, Failure), found
    return found, model


@pytest.mark.parametrize(("word", "value"), [("good", 1.0), ("bad", 0.0)])
async def test_the_same_text_chosen_in_both_orders_wins(word, value):
    """Two calls; the choice follows the text, not its place."""
    script = lambda request: (  # noqa: E731
        "A: clear.\nAnswer: A"
        if request.text.index(f"{word} text") < request.text.index("</output-a")
        else "Answer: B"
    )
    found, model = await judged(script)
    assert (found.value, found.scale, len(model.requests)) == (value, (0, 1), 2)
    assert [part["choice"] for part in found.evidence] == [value, value]


async def test_a_choice_that_flips_with_the_order_is_a_tie_and_is_counted():
    """Always the first place: no preference, and the evidence says why."""
    found, _ = await judged(lambda request: "Answer: A")
    assert found.value == 0.5
    assert found.evidence[-1]["flipped"] is True
    assert [part.get("choice") for part in found.evidence] == [1.0, 0.0, None]


async def test_one_order_costs_one_call():
    """`orders=back` shows the second text first."""
    found, model = await judged(lambda request: "Answer: A", orders="back")
    assert (found.value, len(model.requests)) == (0.0, 1)


async def test_an_unusable_answer_is_not_a_number():
    """Asked again, then invalid; an empty text is abstained on and never sent."""
    found, model = await judged(lambda request: "Hard to say.", parse_retries=1)
    assert (found.value, found.outcome, len(model.requests)) == (None, "invalid", 4)
    assert model.requests[-1].messages[-1].content == "Reply with the letter alone: A, B."
    empty = PAIR.model_copy(update={"meta": {"output_b": " "}})
    found, model = await judged(lambda request: "Answer: A", empty)
    assert (found.outcome, len(model.requests)) == ("abstained", 0)


def test_the_systems_of_a_group_are_paired(tmp_path):
    """`--pair system`: one comparison a group, with what people preferred."""
    data = write_examples(tmp_path / "data.jsonl", 6, source="One input.")
    with served() as server:
        more = ("--pair", "system", "--task", "summarization")
        score(data, tmp_path / "run", server, *more, method="pairwise", aspects="fluency").ok()
    assert {row["id"] for row in rows_of(tmp_path / "run")} == {"x0 vs x1", "x2 vs x3", "x4 vs x5"}


TWO = [
    {"id": name, "system": name, "group": "g", "output": f"Said by {name}.", "source": "Q?",
     "context": ["A passage."], "images": [png_uri()]}
    for name in ("a", "b")
]  # fmt: skip


def test_a_pair_keeps_all_of_its_input_which_only_one_of_both_may_have():
    (made,) = PairedExamples(Examples([{**TWO[0], "context": []}, TWO[1]]))
    assert made.context == "[passage 1] A passage."
    assert [len(made.passages), len(made.images)] == [1, 1]
    assert "[Image 1]" in str(made.source)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"source": "Another?"}, "different inputs"),
        ({"context": ["Another passage."]}, "different context"),
        ({"images": [png_uri(7)]}, "different images"),
        ({"system": "a"}, "are both of system 'a'"),
        ({"system": None}, "has no 'system'"),
    ],
)
def test_rows_that_cannot_be_paired_are_refused(other, words):
    with pytest.raises(DataError, match=words):
        list(PairedExamples(Examples([TWO[0], {**TWO[1], **other}])))


def test_data_without_a_second_text_are_refused(tmp_path):
    """Says how many lack it and what would do."""
    data = write_examples(tmp_path / "data.jsonl", 6)
    done = score(data, tmp_path / "run", "http://127.0.0.1:9/v1", method="pairwise")
    assert done.code == 2
    assert "'output_b'" in done.err
    assert "--pair system" in done.err


@pytest.mark.parametrize("method", ["llm-score", "g-eval", "pairwise"])
def test_a_method_that_sees_one_text_of_a_pair_says_so(method, caplog):
    info = Examples([{"output": "x", "output_b": "y"}, {"output": "z", "output_b": "y"}]).check()
    judge = ScriptedModel(lambda request: "Score: 4")
    build(method, judge, task="general", aspects=["fluency"]).traits.check_data(info)
    said = f"2 of 2 examples are pairs, and {method} judges the first text alone"
    assert [said in one for one in caplog.messages] == [True] * (method != "pairwise")


async def test_llmbars_recorded_counts_come_out_exactly():
    """Correct in each order, in both, and the same choice in both, of five evaluators on five
    sets."""
    rows = benchmark("llmbar/llmbar.jsonl.gz")
    published = json.loads((FOLDER / "llmbar" / "statistics.json").read_text())
    assert len(published) == 25
    for name, expected in published.items():
        subset, evaluator = name.split("/")
        chosen = [row for row in rows if row["set"] == subset]
        counts = [0, 0, 0, 0]
        for row in chosen:
            said = row["answers"][evaluator]
            right = 1.0 if row["label"] == 1 else 0.0
            forth = parse_choice(said["order_1"]["raw"])
            back = parse_choice(said["order_2"]["raw"])
            values = [None if isinstance(forth, NoRating) else forth,
                      None if isinstance(back, NoRating) else 1 - back]  # fmt: skip
            found = [value == right for value in values]
            more = [*found, all(found), values[0] == values[1]]
            counts = [count + one for count, one in zip(counts, more, strict=True)]
        keys = ("correct_False", "correct_True", "correct_both", "equal")
        shown = [int(expected[key].split(" / ")[0]) for key in keys]
        assert counts == shown, name
