"""Stress runs on scripted judges: order of texts, labels and scale."""

from __future__ import annotations

import re

import pytest

from benchmarks.planted_judges import texts
from textassay.evaluation.request import RunRequest
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.data import Examples
from textassay.runtime.model import Capabilities
from textassay.runtime.settings import Settings
from textassay.stress import StressPlan, StressRun
from textassay.stress.runner import reverse_labels

OUTPUT = re.compile(r"<output-[0-9a-f]{8}>\n(.*?)\n</output", re.DOTALL)


async def stressed(tests, judge, examples=None, **more):
    request = RunRequest(
        method="llm-score",
        task="summarization",
        aspects=("coherence",),
        settings=Settings(cache=False),
        **more,
    )
    model = ScriptedModel(judge, capabilities=Capabilities(n=True))
    plan = StressPlan(request=request, tests=tests)
    result = await StressRun(plan, examples=examples or texts(24), models={"": model}).run()
    return {row.test: row for row in result.rows}


def quality(text):
    numbers = re.findall(r"\d+", text)
    return 2 + int(numbers[-1]) % 3 if numbers else 1


def fair(request):
    value = quality(OUTPUT.search(request.text)[1])
    return "ABCDE"[value - 1] if "Choose one option" in request.text else f"Fine.\nScore: {value}"


def likes_the_first(request):
    """Takes the option that stands first."""
    found = re.search(r"(?m)^([A-E])\. ", request.text)
    return found[1] if found else fair(request)


def prefers_high_ends(request):
    """Says the end of the scale that is named first, if it is the best one."""
    return "Score: 5" if "from 5 (best)" in request.text else fair(request)


@pytest.mark.parametrize(
    ("judge", "failing"),
    [
        (fair, set()),
        (likes_the_first, {"letters", "label-order"}),
        (prefers_high_ends, {"scale-order"}),
    ],
)
async def test_orders_of_labels_and_scale(judge, failing):
    rows = await stressed(("position",), judge)
    assert {"letters", "label-order", "scale-order"} <= set(rows)
    assert {name for name, row in rows.items() if row.verdict == "fails"} == failing
    if not failing:
        assert {row.verdict for row in rows.values()} == {"holds"}


async def test_label_order_alone_is_held_against_letters():
    """The usual order of letters is asked for as well, but has no row."""
    rows = await stressed(("label-order",), likes_the_first)
    assert set(rows) == {"repeat", "label-order"}
    assert rows["label-order"].shift.value == 4


async def test_a_judge_that_prefers_the_first_text_fails_swap():
    """Always A: every choice flips; a fair one holds."""
    pairs = [
        one.model_copy(update={"meta": {"output_b": other.output}})
        for one, other in zip(texts(24), texts(24, seed=1), strict=True)
    ]

    def longer(request):
        a, b = (
            re.search(rf"<output-{x}-\w+>\n(.*?)\n</", request.text, re.DOTALL)[1] for x in "ab"
        )
        return f"Answer: {'A' if (len(a), a) > (len(b), b) else 'B'}"

    for judge, verdict in ((lambda request: "Answer: A", "fails"), (longer, "holds")):
        request = RunRequest(
            method="pairwise",
            task="summarization",
            aspects=("coherence",),
            settings=Settings(cache=False),
        )
        order = StressPlan(request=request, tests=("swap",))
        run = StressRun(order, examples=pairs, models={"": ScriptedModel(judge)})
        row = next(row for row in (await run.run()).rows if row.test == "swap")
        assert row.verdict == verdict
        assert row.flips.value == (1.0 if verdict == "fails" else 0.0)


def test_labels_are_listed_the_other_way_around():
    text = "<output-0123abcd>\nA. 1\nB. 2\n</output-0123abcd>"
    prompt = f"{text}\nChoose one:\nA. 1, the lowest rating\nB. 2\nC. 3, the highest rating\nNow."
    assert reverse_labels(prompt) == (
        f"{text}\nChoose one:\nC. 3, the highest rating\nB. 2\nA. 1, the lowest rating\nNow."
    )
    assert "from E (best) to A (worst)" in reverse_labels("the letter from A (worst) to E (best)")


async def test_a_field_map_is_applied_to_the_originals_alone():
    """Edited copies are examples already, as are any that a program gives."""
    fields = {"reply": "output", "coh": "human.coherence"}
    rows = [{"id": example.id, "reply": example.output} for example in texts(6)]
    found = await stressed(("length",), fair, Examples(rows, fields=fields), fields=fields)
    assert found["padded"].n == 6
